package verifier

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/verify"
)

// TestThisServicesNewestKeysCount under a root key, if they are under it: the files may bring an old list, in which a key is
// not revoked yet, or none. What the page says it rests on is true.
func TestThisServicesNewestKeysCount(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	w := sealertest.NewWorld(t)
	parts, err := sealer.SplitDelivery(w.Run(1)[0])
	require.NoError(t, err)
	receipt := fmt.Appendf(nil, `{"receipt":%s,"signature":%s}`, parts.Receipt, parts.Signature)
	old := w.Directory()
	w.Now = w.Now.Add(time.Hour)
	newer := w.Directory()
	var signature struct{ KeyID string }
	require.NoError(t, json.Unmarshal(parts.Signature, &signature))
	w.Now = w.Now.Add(time.Hour)
	w.Key(signature.KeyID).RevokedAt = &w.Now
	revoked := w.Directory()
	other := sealertest.NewWorld(t)
	other.RootName, other.Officer = "other.example", "other"
	other.Keys[0] = keydir.NewKey(sealertest.Public(sealertest.PrivateKey("other")), keydir.PurposeDirectory, sealertest.Epoch)
	foreign := other.Directory()
	for name, c := range map[string]struct {
		root            string
		published, keys []byte
		verdict, anchor string
		code            sealer.Code
	}{
		"old keys come with it":                {w.VKey, revoked, old, "unjudged", "tried", sealer.KeyRevoked},
		"no keys come with it":                 {w.VKey, newer, nil, "sound", "root", "signature.ok"},
		"no keys come with it, and it is late": {w.VKey, revoked, nil, "unjudged", "tried", sealer.KeyRevoked},
		"newer keys come with it":              {w.VKey, old, revoked, "unjudged", "tried", sealer.KeyRevoked},
		"another service's page":               {w.VKey, foreign, old, "sound", "alone", "signature.ok"},
		"no service":                           {w.VKey, nil, old, "sound", "alone", "signature.ok"},
		"another root":                         {other.VKey, foreign, nil, "unjudged", "tried", sealer.KeyUnknown},
		"no root key":                          {"root.example", newer, nil, "unjudged", "tried", ""},
		"no root":                              {"", newer, nil, "sound", "service", "signature.ok"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string][]byte{"receipt.json": receipt}
			if c.keys != nil {
				files["keys.json"] = c.keys
			}
			in, err := json.Marshal(map[string]any{"root": c.root, "published": c.published, "files": files})
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), node, "nodetest/judge.js")
			cmd.Stdin = bytes.NewReader(in)
			out, err := cmd.Output()
			require.NoError(t, err)
			require.NotContains(t, string(out), "--", "the page has no options")
			var report struct {
				Anchor string
				verify.Report
			}
			require.NoError(t, json.Unmarshal(out, &report), string(out))
			require.Equal(t, c.verdict, report.Verdict, string(out))
			require.Equal(t, c.anchor, report.Anchor)
			var codes []sealer.Code
			for _, f := range report.Files {
				for _, v := range f.Verdicts {
					codes = append(codes, v.Code)
				}
			}
			require.True(t, c.code == "" || slices.Contains(codes, c.code), string(out))
		})
	}
}
