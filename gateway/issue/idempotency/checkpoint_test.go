package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

// checkpointed is a node's log and folder of checkpoints, over its lives.
type checkpointed struct {
	t     require.TestingT
	dir   string
	log   *scannedLog
	limit int
	*Claims
}

// scannedLog counts what Scan hands out.
type scannedLog struct {
	*issuetest.Log
	scanned int
}

func (l *scannedLog) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	return l.Log.Scan(ctx, from, to, func(e sealer.Entry) error {
		l.scanned++
		return fn(e)
	})
}

func newCheckpointed(t require.TestingT, dir string, limit int) *checkpointed {
	c := &checkpointed{t: t, dir: dir, log: &scannedLog{Log: new(issuetest.Log)}, limit: limit}
	c.start()
	return c
}

// claims are some over the log.
func (c *checkpointed) claims(dir string) *Claims {
	cs := New(Config{
		Log: c.log, Limit: c.limit, Dir: dir, Now: func() time.Time { return issuetest.Today }, Logger: slog.New(slog.DiscardHandler), Trouble: func(error) {},
	})
	cs.checkpoints.full = 8
	return cs
}

// start begins the next life.
func (c *checkpointed) start() {
	c.log.scanned = 0
	c.Claims = c.claims(c.dir)
	require.NoError(c.t, c.Rebuild(context.Background()))
}

func hashOf(key int) (h Hash) {
	for i := range h {
		h[i] = byte(key>>(i%3*5)) ^ byte(i*key)
	}
	h[0], h[1], h[2] = byte(key), byte(key>>8), 1
	return h
}

// write puts a record into the log, with a key or, of −1, without.
func (c *checkpointed) write(key int, at time.Time) (p sealer.Position) {
	id := api.NewID(api.PrefixEvent, at)
	text := ""
	if key >= 0 {
		h := hashOf(key)
		text = `,"idempotency":"` + base64.RawURLEncoding.EncodeToString(h[:]) + `"`
	}
	event := fmt.Appendf(nil, `{"id":%q%s,"type":%q,"v":1}`, id, text, sealer.TypeDelivery)
	c.log.Edit(func(all []sealer.Entry) []sealer.Entry {
		p = sealer.Position{Generation: 1, Offset: int64(len(all))}
		return append(all, sealer.Entry{Position: p, Record: sealer.Record{TenantID: "tnt_a", EventID: id, Event: event}})
	})
	return p
}

// deliver answers a key, unless that is known.
func (c *checkpointed) deliver(key int) {
	if key < 0 {
		c.write(key, issuetest.Today)
		return
	}
	h := hashOf(key)
	var hold Claim
	if _, known, _ := c.Find(&h, issuetest.Today, &hold); !known {
		hold.Keep(c.write(key, issuetest.Today), issuetest.Today)
	}
}

// requireAsTheLog compares what is remembered with what the log alone has.
func (c *checkpointed) requireAsTheLog(keys int) {
	plain := c.claims("")
	require.NoError(c.t, plain.Rebuild(context.Background()))
	for key := range keys {
		h := hashOf(key)
		want, known := plain.shard(&h).kept.get((*claimKey)(h[:16]))
		got, found := c.shard(&h).kept.get((*claimKey)(h[:16]))
		require.Equal(c.t, known, found, "key %d", key)
		require.Equal(c.t, want, got, "key %d", key)
	}
}

// TestCheckpointsAreAsTheLog runs a node through deliveries, checkpoints and ends of every
// kind, with files and logs that were lost, altered, cut or restored meanwhile: a life
// remembers what the log holds, nothing else.
func TestCheckpointsAreAsTheLog(t *testing.T) {
	const keys = 60
	dirs := 0
	root := t.TempDir()
	rapidtest.Check(t, 40, 400, func(t *rapid.T) {
		dirs++
		c := newCheckpointed(t, filepath.Join(root, fmt.Sprint(dirs)), 64*keys)
		older := map[string][]byte{}
		var older0 []sealer.Entry
		file := func() (name string) {
			names, err := checkpointNames(c.dir)
			require.NoError(t, err)
			if len(names) == 0 {
				return ""
			}
			return filepath.Join(c.dir, rapid.SampledFrom(names).Draw(t, "file"))
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 11).Draw(t, "what"); what {
			case 0, 1, 2, 3:
				for range rapid.IntRange(1, 20).Draw(t, "deliveries") {
					c.deliver(rapid.IntRange(-5, keys-1).Draw(t, "key"))
				}
			case 4, 5, 6:
				c.checkpoint(context.Background(), 1)
			case 7: // a backup
				older0 = c.log.All()
				names, _ := checkpointNames(c.dir)
				for _, name := range names {
					older[name], _ = os.ReadFile(filepath.Join(c.dir, name))
				}
			case 8: // the log, or the checkpoints, are an older copy
				if rapid.Bool().Draw(t, "log") {
					c.log.Edit(func([]sealer.Entry) []sealer.Entry { return slices.Clone(older0) })
				}
				for name, text := range older {
					if rapid.Bool().Draw(t, "restored") {
						require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), text, 0o600))
					}
				}
				c.start()
			case 9: // the log's tail is gone, and others write to it
				n := rapid.IntRange(0, 10).Draw(t, "cut")
				c.log.Edit(func(all []sealer.Entry) []sealer.Entry { return slices.Clone(all[:max(0, len(all)-n)]) })
				for key := range rapid.IntRange(0, 12).Draw(t, "others") {
					c.write(key, issuetest.Today)
				}
				c.start()
			case 10:
				if name := file(); name != "" {
					text, err := os.ReadFile(name)
					require.NoError(t, err)
					switch at := rapid.IntRange(0, len(text)-1).Draw(t, "at"); rapid.IntRange(0, 2).Draw(t, "how") {
					case 0:
						text = text[:at]
					case 1:
						text[at] ^= 1
					case 2:
						text = append(text, text[at:]...)
					}
					require.NoError(t, os.WriteFile(name, text, 0o600))
				}
				c.start()
			case 11:
				if name := file(); name != "" {
					require.NoError(t, os.Remove(name))
				}
				c.start()
			}
		}
		c.start()
		c.requireAsTheLog(keys)
	})
}

// TestCheckpointsSpareTheLog: a start reads what came after the last one.
func TestCheckpointsSpareTheLog(t *testing.T) {
	c := newCheckpointed(t, filepath.Join(t.TempDir(), "keys"), 64*1000)
	for key := range 100 {
		c.deliver(key)
		if key%10 == 9 {
			c.checkpoint(t.Context(), 5)
		}
	}
	for key := range 3 {
		c.deliver(100 + key)
	}
	c.checkpoint(t.Context(), 5) // too few
	c.start()
	require.Equal(t, 3, c.log.scanned)
	c.requireAsTheLog(103)
	names, err := checkpointNames(c.dir)
	require.NoError(t, err)
	require.Len(t, names, 10, "full files are left alone")

	// A log without checkpoints gets them from the start that reads it.
	require.NoError(t, os.RemoveAll(c.dir))
	c.start()
	require.Equal(t, 103, c.log.scanned)
	c.start()
	require.Equal(t, 103%8, c.log.scanned)

	// One that is bad costs its part alone.
	names, err = checkpointNames(c.dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, names[5]), []byte("something else"), 0o600))
	c.start()
	require.Equal(t, 8+103%8, c.log.scanned)
	c.requireAsTheLog(103)
	c.start()
	require.Equal(t, 103%8, c.log.scanned, "it is written again")
}

// TestCheckpointsOfManyRecordsWithoutKeys are one file, which is written again.
func TestCheckpointsOfManyRecordsWithoutKeys(t *testing.T) {
	c := newCheckpointed(t, filepath.Join(t.TempDir(), "keys"), 64*1000)
	for n := range 100 {
		c.deliver([]int{-1, n}[n%25/24])
		c.checkpoint(t.Context(), 1)
	}
	names, err := checkpointNames(c.dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
	c.start()
	require.Zero(t, c.log.scanned)
	c.requireAsTheLog(100)
}

// TestCheckpointsThatNobodyNeedsGo: those of keys for which there is no room, and of the day
// before.
func TestCheckpointsThatNobodyNeedsGo(t *testing.T) {
	c := newCheckpointed(t, filepath.Join(t.TempDir(), "keys"), 64)
	for key := range 1000 {
		c.deliver(key)
		if key%8 == 7 {
			c.checkpoint(t.Context(), 1)
		}
	}
	names, err := checkpointNames(c.dir)
	require.NoError(t, err)
	require.Less(t, len(names), 12)
	c.start()
	require.Zero(t, c.log.scanned, "nor is the log read for them")

	later := issuetest.Today.Add(keepKeys + time.Hour)
	c.cfg.Now = func() time.Time { return later }
	h := hashOf(1000)
	var hold Claim
	c.Find(&h, later, &hold)
	hold.Keep(c.write(1000, later), later)
	c.checkpoint(t.Context(), 1)
	names, err = checkpointNames(c.dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// TestCheckpointWaitsForWhoHoldsAKey: its record is in the log, and it has not come to
// remember the key.
func TestCheckpointWaitsForWhoHoldsAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCheckpointed(t, filepath.Join(t.TempDir(), "keys"), 64*1000)
		c.checkpoints.full = 2
		h := hashOf(1)
		var slow Claim
		c.Find(&h, issuetest.Today, &slow)
		at := c.write(1, issuetest.Today)
		c.deliver(2)
		done := make(chan struct{})
		go func() {
			c.checkpoint(t.Context(), 1)
			close(done)
		}()
		synctest.Wait()
		c.deliver(3) // behind the end that it looks at
		select {
		case <-done:
			t.Fatal("it did not wait")
		default:
		}
		slow.Keep(at, issuetest.Today)
		<-done
		require.Len(t, c.checkpoints.open, 1)
		c.deliver(4)
		c.checkpoint(t.Context(), 1)
		c.start()
		require.Zero(t, c.log.scanned)
		c.requireAsTheLog(5)
	})
}

// TestCheckpointThatFails costs the next start its part of the log, and no memory.
func TestCheckpointThatFails(t *testing.T) {
	c := newCheckpointed(t, filepath.Join(t.TempDir(), "keys"), 64*1000)
	require.NoError(t, os.WriteFile(c.dir, nil, 0o600)) // no folder
	for key := range 50 {
		c.deliver(key)
		c.checkpoint(t.Context(), 5)
		require.Less(t, len(c.checkpoints.open), 6)
	}
	require.NoError(t, os.Remove(c.dir))
	for key := range 10 {
		c.deliver(50 + key)
	}
	c.checkpoint(t.Context(), 5)
	c.start()
	require.Equal(t, 50, c.log.scanned)
	c.requireAsTheLog(60)

	c.deliver(60)
	c.log.SetFail(errors.New("away"))
	c.checkpoint(t.Context(), 1)
	c.log.SetFail(nil)
	c.checkpoint(t.Context(), 1)
	c.start()
	require.Zero(t, c.log.scanned)
}

// TestCheckpointFormatIsFixed pins the bytes, so that no change goes unnoticed that would
// make yesterday's checkpoints unreadable.
func TestCheckpointFormatIsFixed(t *testing.T) {
	s := checkpoint{
		from: sealer.Position{Generation: 2, Offset: 0x0102}, to: sealer.Position{Generation: 2, Offset: 0x0304},
		last: sha256.Sum256([]byte("event")), second: 0x05060708, keys: 1,
	}
	entry := keptEntry{claimKey{1, 2, 3, 15: 16}, Place{generation: 2, offset: 0x0103, second: 0x05060707}}
	text := s.encode([]keptEntry{entry})
	require.Equal(t, ""+
		"6d756e696964656d"+"01000000"+"02000000"+"0201000000000000"+"0403000000000000"+
		"b8e1f80bd70ae0784c7855a451731b745fddb67749d23f637be9082b75e9575b"+
		"08070605"+"01000000"+
		"01020300000000000000000000000010"+"01000000"+"07070605"+"83df7ae0", fmt.Sprintf("%x", text))

	dir := t.TempDir()
	require.Equal(t, "0000000002-00000000000000000258.keys", s.name())
	require.NoError(t, os.WriteFile(filepath.Join(dir, s.name()), text, 0o600))
	found, keys, err := readCheckpoint(dir, s.name())
	require.NoError(t, err)
	require.Equal(t, s, found)
	require.Equal(t, entry, s.entry(keys))
}
