package sealer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/sealertest"
)

// FuzzParseEvent: what is accepted is canonical, and is written the same again.
func FuzzParseEvent(f *testing.F) {
	w := sealertest.NewWorld(f)
	for n := range 5 {
		f.Add(w.Delivery(n, "order"))
	}
	f.Add(w.Note("right.revoked"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = sealer.SplitDelivery(text)
		_, deliveryErr := sealer.ReadDelivery(text)
		e, err := sealer.ParseEvent(text)
		if err != nil {
			require.Error(t, deliveryErr)
			return
		}
		require.True(t, IsJSON(text))
		again, err := sealer.AppendEvent(nil, &e)
		require.NoError(t, err)
		require.Equal(t, string(text), string(again))
		if deliveryErr == nil {
			_, err := sealer.SplitDelivery(text)
			require.NoError(t, err)
		}
	})
}

// FuzzParseReceipt: what is accepted is written the same again.
func FuzzParseReceipt(f *testing.F) {
	w := sealertest.NewWorld(f)
	for n := range 5 {
		_, _, r := w.Draft(n)
		f.Add(sealer.AppendReceipt(nil, r))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := sealer.ParseReceipt(text); err == nil {
			require.True(t, IsJSON(text))
			require.Equal(t, string(text), string(sealer.AppendReceipt(nil, &r)))
		}
	})
}
