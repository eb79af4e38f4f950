package sealer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/canonical"
)

// FuzzParsePrivate: what is accepted is written the same again.
func FuzzParsePrivate(f *testing.F) {
	f.Add(AppendPrivate(nil, &Private{AttentionMs: -1}))
	f.Add(AppendPrivate(nil, &Private{AttentionMs: 3, DataSubjects: About("sub", "s2"), Notes: []Note{{Name: "b", Text: `"c"`}, {Name: "d", Hash: Commit([16]byte{}, nil)}, {Name: "e", Text: `{"f":"}"}`}}, RequestHash: "x", Telemetry: []byte(`{"a":[1,{}]}`)}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := ParsePrivate(text); err == nil {
			require.Equal(t, string(text), string(AppendPrivate(nil, &p)))
		}
	})
}

// FuzzParseRecord: what is accepted is written the same again.
func FuzzParseRecord(f *testing.F) {
	f.Add(AppendRecord(nil, &Record{TenantID: "tnt_1", EventID: "evt_1", Node: "nod_1", Epoch: 300, Seq: 1 << 40, Event: []byte("{}"), Private: []byte("x")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			require.ErrorIs(t, err, ErrRecord)
			return
		}
		require.Equal(t, b, AppendRecord(nil, &r))
		_, _, _ = CheckRecord(&r)
	})
}

// FuzzCanonical: the result is a fixed point, and strict readers accept it.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1e2,-0,"\u00e9"],"a":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := canonical.JSON(text)
		if err != nil {
			return
		}
		twice, err := canonical.JSON(once)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
		require.True(t, canonical.IsJSON(once))
	})
}
