package verify

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
)

// world is the service of the fixture, with what only verification needs.
type world struct{ sealertest.World }

func newWorld(tb testing.TB) *world { return &world{*sealertest.NewWorld(tb)} }

// verdicts verifies a pack under the world's root.
func (w *world) verdicts(pack []byte) []Verdict {
	w.TB.Helper()
	v, err := verifyPack(context.Background(), bytes.NewReader(pack), w.VKey)
	require.NoError(w.TB, err)
	return v
}

// verifyPack verifies one pack that a reader gives, with nothing known of its log.
func verifyPack(ctx context.Context, r io.Reader, rootVkey string) ([]Verdict, error) {
	t, err := readTrust(rootVkey, "")
	if err != nil {
		return nil, err
	}
	c := packCheck{trust: t, rate: rate.Rating.Rate}
	err = c.run(ctx, r, nil)
	c.settle(false)
	return c.verdicts, err
}

// failures are the codes of the verdicts that are not OK, each once.
func failures(verdicts []Verdict) []sealer.Code {
	var codes []sealer.Code
	seen := make(map[sealer.Code]bool)
	for _, v := range verdicts {
		if !v.OK && !seen[v.Code] {
			seen[v.Code] = true
			codes = append(codes, v.Code)
		}
	}
	return codes
}

// forge assembles a bundle out of raw lines.
func forge(lines ...[]byte) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		b.Write(l)
		b.WriteByte('\n')
	}
	return b.Bytes()
}
