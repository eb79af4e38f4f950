package verify

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/sealertest"
)

// FuzzReadKeys: of a list of keys that is accepted nothing is free but spacing, order and
// escapes.
func FuzzReadKeys(f *testing.F) {
	w := newWorld(f)
	at := sealertest.Epoch.Add(time.Hour)
	two := keydir.NewKey(sealertest.Public(sealertest.PrivateKey("two")), keydir.PurposeSandbox, sealertest.Epoch)
	two.NotAfter, two.RevokedAt = &at, &at
	good := keysAnswer(keydir.NewKey(sealertest.Public(sealertest.PrivateKey("one")), keydir.PurposeSandbox, sealertest.Epoch), two)
	f.Add([]byte(good))
	f.Add([]byte(good[strings.Index(good, `{"keys"`):strings.LastIndex(good, ",")]))
	directory := string(w.Directory())
	f.Add([]byte(directory))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := readKeys(text)
		if err != nil {
			return
		}
		if d.Delegation != "" {
			require.Equal(t, directory, strings.TrimSuffix(string(text), "\n"))
			return
		}
		var keys []any
		for i := range d.Keys {
			keys = append(keys, keyObject(&d.Keys[i]))
		}
		list, err := canonical.JSON(map[string]any{"issuedAt": canonical.FormatTime(d.IssuedAt), "keys": keys, "snapshotId": d.SnapshotID})
		require.NoError(t, err)
		said, err := canonical.JSON(text)
		require.NoError(t, err)
		if bytes.HasPrefix(said, []byte(`{"contractVersion":`)) {
			list = append(append([]byte(`{"contractVersion":"ws30.v1","data":`), list...), `,"ok":true}`...)
		}
		require.Equal(t, string(list), string(said))
	})
}
