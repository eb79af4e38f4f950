package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPace copies as fast as the rate says and no faster, whether by writing or by reading,
// tells of it on the way, and ends when it is called off.
func TestPace(t *testing.T) {
	const rate, size = 2 << 20, 50 << 20
	text := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	name := filepath.Join(t.TempDir(), "copy")
	for about, copied := range map[string]func(p *pace, ctx context.Context) error{
		"writing": func(p *pace, ctx context.Context) error {
			return createDurably(name, 0o600, func(f *os.File) error {
				_, err := io.Copy(p.writer(ctx, f), bytes.NewReader(text))
				return err
			})
		},
		"reading": func(p *pace, ctx context.Context) error {
			_, err := io.Copy(io.Discard, p.reader(ctx, bytes.NewReader(text)))
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said []int64
			p := &pace{rate: rate, say: func(done int64) { said = append(said, done) }}
			began := time.Now()
			require.NoError(t, copied(p, t.Context()), about)
			require.InDelta(t, 25, time.Since(began).Seconds(), 0.1, about)
			require.Len(t, said, 2, about)
			require.EqualValues(t, size, p.done, about)
			os.Remove(name)

			began = time.Now()
			require.NoError(t, copied(new(pace), t.Context()), about)
			require.Zero(t, time.Since(began), "%s without a rate", about)
			os.Remove(name)

			ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
			defer stop()
			require.True(t, errors.Is(copied(&pace{rate: rate}, ctx), context.DeadlineExceeded), about)
			os.Remove(name)
		})
	}
}
