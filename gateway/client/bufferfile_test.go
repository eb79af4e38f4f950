package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// faultDisk is a disk in memory, which fails at one step, and stays away from then on or does not.
type faultDisk struct {
	names, durable map[string]*faultFile // what a folder has, and has durably
	steps, faultAt int
	form           string
	once           bool // it works again after the fault
}

type faultFile struct {
	disk             *faultDisk
	written, durable []byte
}

var errFault = errors.New("the disk is gone")

// Forms of a fault.
const (
	failed    = "failed"
	persisted = "failed but persisted"
	torn      = "torn"
)

// step does something unless the disk has failed. half does a part of it, if there is such.
func (d *faultDisk) step(do, half func()) error {
	d.steps++
	switch {
	case d.faultAt == 0 || d.steps < d.faultAt || d.once && d.steps > d.faultAt:
		do()
		return nil
	case d.steps == d.faultAt && d.form == persisted:
		do()
	case d.steps == d.faultAt && d.form == torn && half != nil:
		half()
	}
	return errFault
}

func (d *faultDisk) open(name string) (f bufferFile, err error) {
	err = d.step(func() {
		if d.names[name] == nil {
			d.names[name] = &faultFile{disk: d}
		}
		f = d.names[name]
	}, nil)
	return f, err
}

func (d *faultDisk) rename(from, to string) error {
	return d.step(func() {
		d.names[to] = d.names[from]
		delete(d.names, from)
	}, nil)
}

func (d *faultDisk) syncDir(string) error {
	return d.step(func() { d.durable = maps.Clone(d.names) }, nil)
}

func (f *faultFile) WriteAt(b []byte, at int64) (n int, err error) {
	write := func(b []byte) {
		if more := int(at) + len(b) - len(f.written); more > 0 {
			f.written = append(f.written, make([]byte, more)...)
		}
		copy(f.written[at:], b)
	}
	return len(b), f.disk.step(func() { write(b) }, func() { write(b[:len(b)/2]) })
}

func (f *faultFile) Truncate(size int64) error {
	return f.disk.step(func() { f.written = f.written[:size:size] }, nil)
}

func (f *faultFile) Sync() error {
	return f.disk.step(func() { f.durable = bytes.Clone(f.written) }, nil)
}

func (f *faultFile) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(f.written).ReadAt(b, at)
}

func (f *faultFile) Close() error { return nil }

// holding is a disk with the file of a buffer.
func holding(text []byte) *faultDisk {
	d := &faultDisk{names: map[string]*faultFile{}}
	d.names[filepath.Join("dir", bufferName)] = &faultFile{disk: d, written: bytes.Clone(text)}
	return d
}

// restart is the disk after a power cut, which takes what was not synced, or after a kill, which
// takes nothing.
func (d *faultDisk) restart(powerCut bool) *faultDisk {
	next := &faultDisk{names: map[string]*faultFile{}}
	from := d.names
	if powerCut {
		from = d.durable
	}
	for name, f := range from {
		text := f.written
		if powerCut {
			text = f.durable
		}
		next.names[name] = &faultFile{disk: next, written: bytes.Clone(text), durable: bytes.Clone(text)}
	}
	next.durable = maps.Clone(next.names)
	return next
}

// ids are the rows that wait.
func (j *journal) ids(t *testing.T) (ids []string) {
	for _, w := range j.waiting {
		row, err := j.row(w)
		require.NoError(t, err)
		p := play{text: row}
		ids = append(ids, p.row().RowID)
	}
	return ids
}

// TestBufferAtEveryFault has the disk fail at every step, in every form. What was acknowledged and
// not answered is there when the buffer is opened again, once; and nothing else but what the
// fault interrupted.
func TestBufferAtEveryFault(t *testing.T) {
	// A life: plays are added, and answered but for every fourth, until the file is replaced and is
	// empty at last.
	live := func(d *faultDisk) (waiting, others map[string]bool) {
		waiting, others = map[string]bool{}, map[string]bool{}
		j, err := openJournal(d, "dir")
		if err != nil {
			return waiting, others
		}
		j.spare = 1000
		for n := range 22 {
			id := fmt.Sprint("play-", n)
			row, err := rowText(&Row{RowID: id, PlayedAt: "2026-05-01T12:00:00Z", CorrelationID: strings.Repeat("x", 100)})
			hit := d.once && d.steps >= d.faultAt
			if err != nil || j.add(row, 1<<30) != nil {
				others[id] = true // it may be there
				continue
			}
			waiting[id] = true
			if hit {
				return waiting, others // ended at the first play that is acknowledged after the fault
			}
			gone := map[uint64]bool{}
			if n%4 != 3 {
				gone[j.last] = true
				delete(waiting, id)
				others[id] = true // its removal need not be durable
			}
			if n == 15 {
				for _, w := range j.waiting {
					gone[w.seq] = true
				}
				maps.Copy(others, waiting)
				clear(waiting)
			}
			_ = j.remove(gone)
		}
		return waiting, others
	}
	whole := &faultDisk{names: map[string]*faultFile{}}
	live(whole)
	require.Greater(t, whole.steps, 40)
	replaced := 0
	for at := 1; at <= whole.steps; at++ {
		for _, form := range []string{failed, persisted, torn} {
			for k := range 4 {
				powerCut, once := k&1 > 0, k&2 > 0
				d := &faultDisk{names: map[string]*faultFile{}, faultAt: at, form: form, once: once}
				waiting, others := live(d)
				name := fmt.Sprintf("step %d %s, power cut %v, once %v", at, form, powerCut, once)
				next := d.restart(powerCut)
				if next.names[filepath.Join("dir", nextName)] != nil {
					replaced++
				}
				j, err := openJournal(next, "dir")
				require.NoError(t, err, name)
				ids := j.ids(t)
				require.Zero(t, j.damaged, name)
				require.True(t, slices.IsSorted(j.seqs()), name)
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), len(ids), name)
				for id := range waiting {
					require.Contains(t, ids, id, name)
				}
				for _, id := range ids {
					require.True(t, waiting[id] || others[id], "%s: %s", name, id)
				}
				require.NoError(t, j.add([]byte(`{"rowId":"next"}`), 1<<30), name)
				require.Equal(t, append(ids, "next"), j.ids(t), name)
			}
		}
	}
	require.NotZero(t, replaced, "no fault met the file that replaces another")
}

func (j *journal) seqs() (seqs []uint64) {
	for _, w := range j.waiting {
		seqs = append(seqs, w.seq)
	}
	return seqs
}

// bufferText is a file with every kind of line.
func bufferText(t testing.TB) (text []byte, ends []int) {
	text = []byte(bufferStart)
	ends = append(ends, len(text))
	for _, line := range []string{`+ 1 {"rowId":"a"}`, `+ 2 {"rowId":"b"}`, "- 1", `+ 3 {"rowId":"c"}`, `+ 4 {"rowId":"d"}`, "- 2 4", `+ 7 {"rowId":"e"}`} {
		text = appendLine(text, []byte(line))
		ends = append(ends, len(text))
	}
	return text, ends
}

// TestTornBufferAtEveryByte: a file that is cut off anywhere holds what its whole lines say, and goes
// on from there.
func TestTornBufferAtEveryByte(t *testing.T) {
	text, ends := bufferText(t)
	holds := []string{"", "a", "a b", "b", "b c", "b c d", "c", "c e"}
	for cut := range len(text) + 1 {
		for _, garbage := range []string{"", "\x00\x00", "x\n\n", "0badc0de + 9 {}\n"} {
			disk := holding(append(bytes.Clone(text[:cut]), garbage...))
			lines := 0
			for lines < len(ends) && ends[lines] <= cut {
				lines++
			}
			j, err := openJournal(disk, "dir")
			if lines == 0 {
				if garbage == "" {
					require.NoError(t, err)
					require.Empty(t, j.waiting)
				} else {
					require.ErrorIs(t, err, errNoBuffer)
				}
				continue
			}
			require.NoError(t, err)
			require.Equal(t, holds[lines-1], strings.Join(j.ids(t), " "), "cut at %d, then %q", cut, garbage)
			require.Zero(t, j.damaged)
			require.NoError(t, j.add([]byte(`{"rowId":"next"}`), 1<<20))
			j, err = openJournal(disk, "dir")
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(holds[lines-1]+" next"), strings.Join(j.ids(t), " "))
			require.Zero(t, j.damaged)
		}
	}
}

// TestDamagedBuffer: a bit that flips costs the line that it is in, which is kept for people, and no
// other play.
func TestDamagedBuffer(t *testing.T) {
	text, ends := bufferText(t)
	for at := len(bufferStart); at < ends[len(ends)-2]-1; at++ { // later it looks like a torn end
		flipped := bytes.Clone(text)
		flipped[at] ^= 0x10
		disk := holding(flipped)
		j, err := openJournal(disk, "dir")
		require.NoError(t, err)
		require.NotZero(t, j.damaged, at)
		ids := strings.Join(j.ids(t), " ")
		require.True(t, strings.HasSuffix(ids, "e"), "%d: %s", at, ids)
		require.NotEmpty(t, disk.names[filepath.Join("dir", damagedName)].durable)
		j, err = openJournal(disk, "dir")
		require.NoError(t, err)
		require.Zero(t, j.damaged, "it is reported once")
		require.Equal(t, ids, strings.Join(j.ids(t), " "))
	}
	_, err := openJournal(holding([]byte("something else\n")), "dir")
	require.ErrorIs(t, err, errNoBuffer)
}

// FuzzBuffer: no file makes the reader crash, lose its place, or say what is not in it.
func FuzzBuffer(f *testing.F) {
	text, _ := bufferText(f)
	f.Add(text)
	f.Add(text[:len(text)-3])
	f.Add([]byte(bufferStart))
	f.Add(append(bytes.Clone(text), text[len(bufferStart):]...))
	f.Add(append([]byte(bufferStart), bytes.Repeat([]byte("x"), maxLine+7)...))
	f.Add(append(append([]byte(bufferStart), bytes.Repeat([]byte("x"), maxLine+7)...), text[len(bufferStart):]...))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readBuffer(bytes.NewReader(text))
		if err != nil {
			require.ErrorIs(t, err, errNoBuffer)
			return
		}
		require.LessOrEqual(t, got.end, int64(len(text)))
		last := uint64(0)
		for _, w := range got.waiting {
			require.Greater(t, w.seq, last)
			require.LessOrEqual(t, w.at+int64(w.n), got.end)
			line := text[w.at : w.at+int64(w.n)]
			require.True(t, new(found).take(line, w.at))
			require.Equal(t, byte('\n'), line[len(line)-1])
			last = w.seq
		}
		require.LessOrEqual(t, last, got.last)
		again, err := readBuffer(io.MultiReader(bytes.NewReader(text[:got.end])))
		require.NoError(t, err)
		require.Equal(t, got.waiting, again.waiting, "what is cut off said nothing")
		require.Equal(t, got.end, again.end)
	})
}
