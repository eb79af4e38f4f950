package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// TestConform crashes a log by losing whatever was not synced.
func TestConform(t *testing.T) {
	conform.Log(t, func(tb testing.TB) conform.LogEngine {
		fs := newMemFS()
		cfg := Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs}
		log := mustOpen(tb, cfg)
		return conform.LogEngine{
			Log: log,
			Reopen: func() pipeline.Log {
				fs = fs.crash(newRand(), 0)
				cfg.FS = fs
				return mustOpen(tb, cfg)
			},
			Retire: func(before int64) {
				_, err := log.Retain(sealer.Position{Generation: 1, Offset: before}, farFuture)
				require.NoError(tb, err)
			},
		}
	})
}

// TestConformOnDisk runs the suite on real files; a shutdown stands for the crash.
func TestConformOnDisk(t *testing.T) {
	conform.Log(t, func(tb testing.TB) conform.LogEngine {
		cfg := Config{Dir: tb.TempDir(), SegmentBytes: 64 << 10}
		log := mustOpen(tb, cfg)
		return conform.LogEngine{
			Log: log,
			Reopen: func() pipeline.Log {
				require.NoError(tb, log.Close())
				log = mustOpen(tb, cfg)
				return log
			},
		}
	})
}
