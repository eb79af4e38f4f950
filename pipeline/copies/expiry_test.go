package copies

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// TestErasedBytesExpire lets the time pass that a certificate gives to the log of a service in one
// process, and to a node's copies, while others are appended: what was written at the latest moment
// that is covered is in their files for as long as they are kept, and then in none.
func TestErasedBytesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = 48 * time.Hour
		logs := t.TempDir()
		log, err := segment.Open(segment.Config{Dir: filepath.Join(logs, "log"), SegmentBytes: 64 << 10})
		require.NoError(t, err)
		copies, err := Open(Config{Promise: log, Dir: filepath.Join(logs, "copies"), SegmentBytes: 64 << 10})
		require.NoError(t, err)
		var background sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		background.Go(func() { require.NoError(t, copies.Run(ctx)) })
		background.Go(func() {
			require.NoError(t, segment.Retention{Log: log, Keep: keep, Loaded: func(ctx context.Context) (sealer.Position, bool, error) {
				_, end, err := log.Bounds(ctx, segment.Partition)
				return end, true, err
			}}.Run(ctx))
		})
		defer func() {
			stop()
			background.Wait()
			require.NoError(t, copies.Close())
			require.NoError(t, log.Close())
		}()
		write := func(who string) {
			_, err := copies.Append(ctx, &sealer.Record{TenantID: "tnt_a", EventID: api.NewID(api.PrefixEvent, time.Now()), Node: "nod_a", Epoch: 1, Seq: 1, Event: []byte("{}"), Private: []byte(who)})
			require.NoError(t, err)
		}
		write("ada")
		began := time.Now()
		last := map[string]time.Duration{}
		for time.Since(began) < segment.Kept(keep)+time.Hour {
			for _, in := range []string{"log", "copies"} {
				if len(holding(t, filepath.Join(logs, in), "ada")) > 0 {
					last[in] = time.Since(began)
				}
			}
			time.Sleep(20 * time.Minute) // of the bubble's clock
			write("bob")
			synctest.Wait()
		}
		for in, kept := range map[string]time.Duration{"log": keep, "copies": segment.LeastKeep} {
			require.Greater(t, last[in], kept, in)
			require.Less(t, last[in], segment.Kept(kept)+time.Hour, in)
			require.NotEmpty(t, holding(t, filepath.Join(logs, in), "bob"))
		}
	})
}

// holding lists the files below a folder that hold a text.
func holding(t *testing.T, folder, text string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			files = append(files, path)
		}
		return err
	}))
	return files
}
