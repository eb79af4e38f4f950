package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// TestLongestEvent checks that what can be written can be sealed, and what is sealed
// can be read.
func TestLongestEvent(t *testing.T) {
	w := newWorld(t)
	e, err := sealer.ParseEvent(w.Note("right.revoked"))
	require.NoError(t, err)
	short, err := sealer.AppendEvent(nil, &e)
	require.NoError(t, err)
	pad := strings.Repeat("x", sealer.MaxEventBytes-len(short))
	e.Data = []byte(strings.Replace(string(e.Data), "end of", pad+"end of", 1))
	longest, err := sealer.AppendEvent(nil, &e)
	require.NoError(t, err)
	require.Len(t, longest, sealer.MaxEventBytes)
	p := w.Seal([][]byte{longest})
	require.Empty(t, failures(w.verdicts(sealertest.Bundle(t, p, [][]byte{longest}))))
	require.Empty(t, failures(w.verdicts(pack.AppendObject(nil, p, [][]byte{longest}))))
	_, _, err = sealer.CheckRecord(&sealer.Record{TenantID: w.Tenant, EventID: e.EventID, Event: longest})
	require.NoError(t, err)

	longer := []byte(strings.Replace(string(longest), "end of", "xend of", 1))
	_, _, err = sealer.CheckRecord(&sealer.Record{TenantID: w.Tenant, EventID: e.EventID, Event: longer})
	require.ErrorContains(t, err, "the event has 1048577 bytes")
	_, err = sealer.ParseEvent(longer)
	require.ErrorContains(t, err, "the event has 1048577 bytes")
	for _, bundle := range [][]byte{
		forge(p.HeaderText, longer, signatureLine(p.Header.SigningKeyID, p.Signature)), pack.AppendObject(nil, p, [][]byte{longer}),
	} {
		require.Equal(t, []sealer.Code{FormatInvalid}, failures(w.verdicts(bundle)))
	}
	_, err = newWorld(t).TrySeal([][]byte{longer})
	require.ErrorContains(t, err, "entry 0: entry.altered")
	e.Data = []byte(strings.Replace(string(e.Data), "end of", "xend of", 1))
	dst, err := sealer.AppendEvent([]byte("kept"), &e)
	require.ErrorContains(t, err, "the event has 1048577 bytes")
	require.Equal(t, "kept", string(dst))
}
