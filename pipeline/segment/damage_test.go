package segment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// full runs the tests of damage that take minutes.
var full = os.Getenv("MUNIMENT_TEST_FULL") != ""

// damagedLog is a log in memory with records of known contents.
type damagedLog struct {
	fs      *memFS
	cfg     Config
	end     sealer.Position
	records []sealer.Entry
	groups  []written
}

// written is how far the log reached after a group.
type written struct {
	segment string // the last one
	end     int    // where the group ends in it
	records int    // in the log
}

// promised is how many records stand before a place of the last segment, in groups
// that end there or earlier.
func (d *damagedLog) promised(segment string, at int) (records int) {
	for _, g := range d.groups {
		if g.segment != filepath.Base(segment) || g.end <= at {
			records = g.records
		}
	}
	return records
}

// newDamagedLog writes records in groups of one to four. Unless clean, it leaves
// the files as a crash does.
func newDamagedLog(t *testing.T, segmentBytes int64, records int, clean bool) *damagedLog {
	d := &damagedLog{fs: newMemFS()}
	d.cfg = Config{Dir: "log", SegmentBytes: segmentBytes, FS: d.fs}
	log := mustOpen(t, d.cfg)
	for n := 0; n < records; {
		// Encoded while the committer is kept from looking: one group.
		size := min(1+n%4, records-n)
		log.mu.Lock()
		g := log.pending
		for range size {
			id := fmt.Sprintf("evt_%d", n)
			g.add(&sealer.Record{TenantID: "tnt_a", EventID: id, Event: []byte(eventOf(id))})
			n++
		}
		log.work.Signal()
		log.mu.Unlock()
		<-g.done
		require.NoError(t, g.err)
		d.groups = append(d.groups, written{log.tail.name(), int(log.tail.pos), n})
	}
	d.records = readAll(t, log)
	d.end = log.end
	if clean {
		require.NoError(t, log.Close())
	} else {
		d.fs = d.fs.clone()
	}
	return d
}

// open opens the log over fs, which is the damaged one.
func (d *damagedLog) open(fs *memFS, atLeast *sealer.Position) (*Log, error) {
	cfg := d.cfg
	cfg.FS, cfg.AtLeast = fs, atLeast
	return Open(cfg)
}

// requirePrefix checks that the log holds the first of the records and no others,
// and returns how many.
func (d *damagedLog) requirePrefix(t *testing.T, r pipeline.Reader) int {
	t.Helper()
	got := readAll(t, r)
	require.LessOrEqual(t, len(got), len(d.records))
	require.Equal(t, d.records[:len(got)], got)
	return len(got)
}

// TestTornTail ends the log at every byte of its last part in three ways. Each
// must open, serve every group before the tear and nothing that was not written, and
// go on from there.
func TestTornTail(t *testing.T) {
	part, records, segmentBytes := 1<<10, 40, int64(16<<10)
	if full {
		part, records, segmentBytes = 64<<10, 150, 256<<10
	}
	d := newDamagedLog(t, segmentBytes, records, false)
	names := d.fs.segments()
	last := names[len(names)-1]
	whole := d.fs.files[last].data
	end := int(lastByte(whole)) + 1
	require.Greater(t, end, part)
	rng := newRand()
	for name, tear := range map[string]func(b []byte, at int) []byte{
		"cut":  func(b []byte, at int) []byte { return b[:at] },
		"zero": func(b []byte, at int) []byte { clear(b[at:]); return b },
		"garbage": func(b []byte, at int) []byte {
			for i := at; i < end; i++ {
				b[i] = byte(rng.Uint32())
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			shortest, tears := len(d.records), 0
			for at := max(end-part, fileHeaderSize); at < end; at++ {
				fs := newMemFS()
				for _, name := range names {
					data := slices.Clone(d.fs.files[name].data)
					if name == last {
						data = tear(data, at)
					}
					f := &memFile{fs: fs, data: data, durable: slices.Clone(data)}
					fs.files[name], fs.names[name] = f, f
				}
				log, err := d.open(fs, nil)
				require.NoError(t, err, "at byte %d of %d", at, end)
				kept := d.requirePrefix(t, log)
				require.GreaterOrEqual(t, kept, d.promised(last, at), "at byte %d of %d", at, end)
				shortest = min(shortest, kept)
				tears++
				if at%64 == 0 {
					goesOn(t, d, log, fs, kept)
				}
				require.NoError(t, log.Close())
			}
			require.Less(t, shortest, len(d.records)-3)
			t.Logf("%d tears over %d records; no group before a tear was lost", tears, len(d.records)-shortest)
		})
	}
}

func lastByte(b []byte) (at int) {
	for i, c := range b {
		if c != 0 {
			at = i
		}
	}
	return at
}

// goesOn appends to a log that was mended and finds everything after a crash.
func goesOn(t *testing.T, d *damagedLog, log *Log, fs *memFS, kept int) {
	tail := fs.files[fs.segments()[len(fs.segments())-1]].data
	require.Zero(t, lastByte(tail[min(log.tail.pos, int64(len(tail))):]), "the remains are cut")
	at, err := log.Append(context.Background(), record(7, 50))
	require.NoError(t, err)
	require.Equal(t, int64(kept), at.Offset)
	again, err := d.open(fs.crash(newRand(), 0), nil)
	require.NoError(t, err)
	got := readAll(t, again)
	require.Len(t, got, kept+1)
	require.Equal(t, d.records[:kept], got[:kept])
	require.NoError(t, again.Close())
}

// TestBitFlips flips one bit of the files at a time, before and after the log was
// opened. Whatever is served must be what was written, and nothing may be
// missing without an error when the recorded end is known.
func TestBitFlips(t *testing.T) {
	flips := 300
	if full {
		flips = 10000
	}
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			d := newDamagedLog(t, 16<<10, 80, clean)
			names := d.fs.segments()
			require.Greater(t, len(names), 2)
			rng := newRand()
			var detected int
			for range flips {
				name := names[rng.IntN(len(names))]
				before, after := d.fs.clone(), d.fs.clone()
				at := rng.IntN(len(d.fs.files[name].data))
				bit := byte(1) << rng.IntN(8)

				before.files[name].data[at] ^= bit
				log, err := d.open(before, &d.end)
				if err == nil {
					require.Equal(t, len(d.records), d.requirePrefix(t, log), "%s byte %d", name, at)
					require.NoError(t, log.Close())
				} else {
					detected++
					requireNamed(t, err, name)
				}
				if clean {
					// After a shutdown even the last record needs no recorded end.
					if log, err := d.open(before, nil); err == nil {
						require.Equal(t, len(d.records), d.requirePrefix(t, log), "%s byte %d", name, at)
						require.NoError(t, log.Close())
					}
				}

				log, err = d.open(after, &d.end)
				require.NoError(t, err)
				after.flip(name, at, bit)
				d.requireRight(t, log)
				require.NoError(t, log.Close())
			}
			require.Greater(t, detected, flips/3)
			t.Logf("%d flips, %d named at start, none served or lost silently", flips, detected)
		})
	}
}

func (fs *memFS) flip(name string, at int, bit byte) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.files[name].data[at] ^= bit
}

func requireNamed(t *testing.T, err error, name string) {
	t.Helper()
	require.True(t, errors.Is(err, pipeline.ErrDamaged) || errors.Is(err, ErrRollback), "%v", err)
	require.ErrorContains(t, err, filepath.Base(name))
	require.ErrorContains(t, err, "byte ")
}

// requireRight checks that whatever the log serves is right, and that what it
// doesn't serve it calls damaged.
func (d *damagedLog) requireRight(t *testing.T, log *Log) {
	t.Helper()
	served := 0
	err := log.Scan(context.Background(), d.records[0].Position, d.end, func(e sealer.Entry) error {
		require.Equal(t, d.records[served], e)
		served++
		return nil
	})
	if err != nil {
		require.ErrorIs(t, err, pipeline.ErrDamaged)
	} else {
		require.Len(t, d.records, served)
	}
	for _, want := range d.records {
		got, err := log.Read(context.Background(), want.Position)
		if err != nil {
			require.ErrorIs(t, err, pipeline.ErrDamaged)
			continue
		}
		require.Equal(t, want, got)
	}
}

// TestMissingPieces takes files away, swaps them, and shows old ones.
func TestMissingPieces(t *testing.T) {
	for name, harm := range map[string]func(fs *memFS, names []string){
		"one in the middle": func(fs *memFS, names []string) { delete(fs.files, names[2]) },
		"two swapped": func(fs *memFS, names []string) {
			fs.files[names[1]], fs.files[names[2]] = fs.files[names[2]], fs.files[names[1]]
		},
		"one cut short": func(fs *memFS, names []string) {
			f := fs.files[names[1]]
			f.data = f.data[:len(f.data)/2]
		},
		"one emptied":      func(fs *memFS, names []string) { fs.files[names[1]].data = nil },
		"the last emptied": func(fs *memFS, names []string) { fs.files[names[len(names)-1]].data = nil },
		"the last renamed": func(fs *memFS, names []string) {
			last := names[len(names)-1]
			fs.files[filepath.Join("log", "0000000009-00000000000000000000.seg")] = fs.files[last]
			delete(fs.files, last)
		},
		"something behind a full one": func(fs *memFS, names []string) {
			f := fs.files[names[1]]
			f.data[len(f.data)-1] = 1
		},
		"a group taken out": func(fs *memFS, names []string) { takeGroup(fs.files[names[1]]) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDamagedLog(t, 8<<10, 80, false)
			names := d.fs.segments()
			require.Greater(t, len(names), 3)
			harm(d.fs, names)
			_, err := d.open(d.fs, nil)
			require.ErrorIs(t, err, pipeline.ErrDamaged)
		})
	}
}

// takeGroup removes the second group of a file without a trace but the chain.
func takeGroup(f *memFile) {
	v := view{file: &memHandle{memFile: f}, limit: int64(len(f.data))}
	h, _ := parseFileHeader(f.data)
	first, _ := v.header(fileHeaderSize, h.salt)
	at := fileHeaderSize + first.size()
	second, _ := v.header(at, h.salt)
	f.data = slices.Delete(f.data, int(at), int(at+second.size()))
}

// TestDamageBeforeAFarGroup damages a group so large that the header behind it
// lies across two reads.
func TestDamageBeforeAFarGroup(t *testing.T) {
	for _, edge := range []int{0, 1, 30, groupHeaderSize - 1, groupHeaderSize} {
		fs := newMemFS()
		cfg := Config{Dir: "log", SegmentBytes: 1 << 20, FS: fs}
		log := mustOpen(t, cfg)
		r := &sealer.Record{Event: make([]byte, 200<<10)}
		overhead := len(sealer.AppendRecord(nil, r)) - len(r.Event) + recordHeaderSize + groupHeaderSize
		r.Event = make([]byte, readAhead-edge-overhead)
		for range 2 {
			_, err := log.Append(context.Background(), r)
			require.NoError(t, err)
		}
		fs = fs.clone()
		cfg.FS = fs
		fs.files[fs.segments()[0]].data[1000] ^= 1
		_, err := Open(cfg)
		require.ErrorIs(t, err, pipeline.ErrDamaged)
		require.ErrorContains(t, err, fmt.Sprintf("follows at byte %d", fileHeaderSize+readAhead-edge))
	}
}

// TestAlteredWithRightChecksums alters records and mends every checksum, which
// leaves the chain of hashes to notice.
func TestAlteredWithRightChecksums(t *testing.T) {
	d := newDamagedLog(t, 16<<10, 80, true)
	names := d.fs.segments()
	for _, name := range names {
		for i, open := range []bool{false, true, false, true} {
			lastRecord := i < 2
			fs := d.fs.clone()
			var log *Log
			var err error
			if open {
				log, err = d.open(fs, nil)
				require.NoError(t, err)
			}
			fs.alter(name, lastRecord)
			if open {
				err = log.Scan(context.Background(), d.records[0].Position, d.end, func(sealer.Entry) error { return nil })
			} else {
				_, err = d.open(fs, nil)
			}
			// A scan need not look at the mark that follows the very last record.
			if open && lastRecord && name == names[len(names)-1] {
				continue
			}
			require.ErrorIs(t, err, pipeline.ErrDamaged)
			require.ErrorContains(t, err, "does not continue")
		}
	}
}

// alter flips a bit in the last, or else the first, record of a segment.
func (fs *memFS) alter(name string, last bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	data := fs.files[name].data
	at := lastByte(data)
	if marked := at - groupHeaderSize; string(data[marked+1:marked+5]) == groupMagic {
		at = marked
	}
	if !last {
		at = fileHeaderSize + groupHeaderSize + recordHeaderSize + 20 // in the event's id
	}
	data[at] ^= 1
	mendChecksums(data)
}

// TestRecordCannotFeignAGroup puts the bytes of a group into a record, which is
// then torn: they must not pass for a group that follows.
func TestRecordCannotFeignAGroup(t *testing.T) {
	d := newDamagedLog(t, 64<<10, 10, false)
	name := d.fs.segments()[0]
	forged := make([]byte, groupHeaderSize)
	h := groupHeader{first: 11, salt: newSalt()}
	h.put(forged)
	log, err := d.open(d.fs, nil)
	require.NoError(t, err)
	at := log.tail.pos
	_, err = log.Append(context.Background(), &sealer.Record{Event: slices.Repeat(forged, 20)})
	require.NoError(t, err)
	torn, proven := d.fs.clone(), d.fs.clone()
	torn.files[name].data[at+20] ^= 1
	left, err := d.open(torn, nil)
	require.NoError(t, err)
	require.Equal(t, len(d.records), d.requirePrefix(t, left))

	// With the salt of the file the same bytes prove damage.
	h.salt = log.tail.salt
	h.put(proven.files[name].data[at+1000:])
	proven.files[name].data[at+20] ^= 1
	_, err = d.open(proven, nil)
	require.ErrorIs(t, err, pipeline.ErrDamaged)
}
