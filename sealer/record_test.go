package sealer

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Record{
			TenantID: rapid.String().Draw(t, "tenant"),
			EventID:  rapid.String().Draw(t, "event id"),
			Node:     rapid.String().Draw(t, "node"),
			Epoch:    rapid.Uint64().Draw(t, "epoch"),
			Seq:      rapid.Uint64().Draw(t, "seq"),
			Event:    rapid.SliceOf(rapid.Byte()).Draw(t, "event"),
			Private:  rapid.SliceOf(rapid.Byte()).Draw(t, "private"),
		}
		b := AppendRecord(nil, &want)
		got, err := ParseRecord(b)
		require.NoError(t, err)
		require.Equal(t, b, AppendRecord(nil, &got))
		require.Equal(t, want.EventID, got.EventID)
		require.Equal(t, want.Seq, got.Seq)

		for cut := range b {
			_, err := ParseRecord(b[:cut])
			require.ErrorIs(t, err, ErrRecord, "cut at %d", cut)
		}
		_, err = ParseRecord(append(b, 0))
		require.ErrorIs(t, err, ErrRecord)
	})
}

func TestPositionText(t *testing.T) {
	p := Position{Generation: 3, Partition: 12, Offset: 1 << 40}
	got, err := ParsePosition(p.String())
	require.NoError(t, err)
	require.Equal(t, p, got)
	for _, bad := range []string{"", "1", "1.2", "1.2.", "01.0.0", "1.0.-1", "1.0.0.0", "+1.0.0", "1.0.0 ", "4294967296.0.0"} {
		_, err := ParsePosition(bad)
		require.Error(t, err, bad)
	}
}
