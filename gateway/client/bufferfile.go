package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// # The file of a buffer
//
// A buffer's folder has the file buffer, of lines that end with a newline. The first is
//
//	muniment-buffer.v1
//
// and each other one has one of two forms, where CRC is the CRC-32C of what stands behind the
// space after it, in eight lower-case hexadecimal digits:
//
//	CRC + SEQ ROW            a play was added: ROW is that of a batch, as JSON
//	CRC - SEQ SEQ …          these were answered, and are removed
//
// SEQ counts the plays of the file, upwards, in decimal. A play is acknowledged once its line is on
// disk; that plays were answered need not be: one whose second line is lost is sent again, and is a
// duplicate then.
//
// What is behind the last sound line is the torn end of a write that was not acknowledged, and is cut
// off. A line before it that is not sound is moved to the file damaged, for people. The file is
// replaced by a shorter one, by rename, once most of it is answered. The file lock is locked by the
// process that has the buffer open.
const (
	bufferName  = "buffer"
	nextName    = "buffer.new"
	damagedName = "damaged"
	lockName    = "lock"
	bufferStart = "muniment-buffer.v1\n"
	// maxLine is the longest line, and a bit: a row and what stands around it, or 1,000 numbers.
	maxLine = maxRow + 1024
	// compactAt is how much of a file has to be answered at least before it is replaced.
	compactAt = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bufferFile is an open file of a buffer.
type bufferFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	// Sync makes all that was written durable. After an error it is not known what is.
	Sync() error
}

// bufferDisk is where the files are.
type bufferDisk interface {
	// open opens a file, and makes it if there is none.
	open(name string) (bufferFile, error)
	rename(from, to string) error
	// syncDir makes durable which files a folder has.
	syncDir(dir string) error
}

type osDisk struct{}

func (osDisk) open(name string) (bufferFile, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockBuffer locks a folder for this process. Closing the file, or the end of the process, unlocks
// it.
func lockBuffer(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrBufferInUse
	}
	return nil, errors.Join(err, f.Close())
}

// waiting is where the line of a play that was not answered stands.
type waiting struct {
	seq uint64
	at  int64
	n   int
}

// found is what a file holds.
type found struct {
	waiting []waiting // by seq
	last    uint64    // the highest seq that was seen
	end     int64     // of the last sound line
	damaged [][]byte  // lines before it that are not sound
}

// errNoBuffer says that a file does not begin as a buffer's does.
var errNoBuffer = errors.New("it is not the file of a buffer")

// readBuffer reads a file from its start, with memory for the plays that wait and the longest line.
func readBuffer(file io.Reader) (*found, error) {
	in := bufio.NewReaderSize(file, maxLine)
	start := make([]byte, len(bufferStart))
	if n, err := io.ReadFull(in, start); !bytes.Equal(start[:n], []byte(bufferStart[:n])) {
		return nil, errNoBuffer
	} else if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &found{}, nil // it was being made
	} else if err != nil {
		return nil, err
	}
	f := &found{end: int64(len(bufferStart))}
	var unsound [][]byte // lines behind the end
	for at := f.end; ; {
		line, err := in.ReadSlice('\n')
		n := int64(len(line))
		if err == nil && f.take(line, at) {
			at += n
			f.end, f.damaged, unsound = at, append(f.damaged, unsound...), nil
			continue
		}
		kept := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = in.ReadSlice('\n')
			n += int64(len(line))
		}
		unsound = append(unsound, kept)
		at += n
		if err == io.EOF {
			return f, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// take reads a line; false if it is not sound.
func (f *found) take(line []byte, at int64) bool {
	sum, text, ok := bytes.Cut(line[:len(line)-1], []byte(" "))
	if want, err := strconv.ParseUint(string(sum), 16, 32); !ok || err != nil || len(sum) != 8 || uint32(want) != crc32.Checksum(text, castagnoli) || !bytes.Equal(sum, bytes.ToLower(sum)) {
		return false
	}
	kind, text, ok := bytes.Cut(text, []byte(" "))
	switch string(kind) {
	case "+":
		number, _, ok := bytes.Cut(text, []byte(" "))
		seq, err := strconv.ParseUint(string(number), 10, 64)
		if !ok || err != nil || seq <= f.last {
			return false
		}
		f.waiting, f.last = append(f.waiting, waiting{seq, at, len(line)}), seq
		return true
	case "-":
		answered := map[uint64]bool{}
		for number := range bytes.SplitSeq(text, []byte(" ")) {
			seq, err := strconv.ParseUint(string(number), 10, 64)
			if err != nil {
				return false
			}
			answered[seq] = true
		}
		f.waiting = slices.DeleteFunc(f.waiting, func(w waiting) bool { return answered[w.seq] })
		return ok
	}
	return false
}

// appendLine appends a line, text being what stands behind its CRC.
func appendLine(dst []byte, text []byte) []byte {
	dst = fmt.Appendf(dst, "%08x ", crc32.Checksum(text, castagnoli))
	return append(append(dst, text...), '\n')
}

// journal is the file of an open buffer. It belongs to whoever holds the lock of the Buffer.
type journal struct {
	disk    bufferDisk
	dir     string
	file    bufferFile
	size    int64 // of the file, as far as it is sound
	live    int64 // bytes of the lines of plays that wait
	waiting []waiting
	last    uint64
	damaged int // lines that were found damaged
	// spare is how much of the file may be answered, or half of it, before it is replaced.
	spare int64
	// broken is why nothing can be written any more: what is on disk is not known.
	broken error
}

// openJournal reads what a folder holds, and makes it sound.
func openJournal(disk bufferDisk, dir string) (_ *journal, err error) {
	j := &journal{disk: disk, dir: dir, spare: compactAt}
	if j.file, err = disk.open(filepath.Join(dir, bufferName)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.file.Close())
		}
	}()
	f, err := readBuffer(io.NewSectionReader(j.file, 0, 1<<62))
	if err != nil {
		return nil, err
	}
	j.size, j.waiting, j.last = f.end, f.waiting, f.last
	for _, w := range j.waiting {
		j.live += int64(w.n)
	}
	if j.size == 0 {
		if _, err := j.file.WriteAt([]byte(bufferStart), 0); err != nil {
			return nil, err
		}
		j.size = int64(len(bufferStart))
	}
	if err = j.file.Truncate(j.size); err == nil {
		err = j.file.Sync()
	}
	if err == nil {
		err = disk.syncDir(dir)
	}
	if err == nil && len(f.damaged) > 0 {
		j.damaged = len(f.damaged)
		if err = j.keepDamaged(f.damaged); err == nil {
			err = j.replace()
		}
	}
	return j, err
}

// keepDamaged appends lines to the file for people.
func (j *journal) keepDamaged(lines [][]byte) error {
	file, err := j.disk.open(filepath.Join(j.dir, damagedName))
	if err != nil {
		return err
	}
	size, err := io.Copy(io.Discard, io.NewSectionReader(file, 0, 1<<62))
	if err == nil {
		_, err = file.WriteAt(bytes.Join(lines, nil), size)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// add makes a play durable. full is the most that lines of waiting plays may take.
func (j *journal) add(row []byte, full int64) error {
	if j.broken != nil {
		return j.broken
	}
	line := appendLine(nil, append(fmt.Appendf(nil, "+ %d ", j.last+1), row...))
	if j.live+int64(len(line)) > full {
		return ErrBufferFull
	}
	if _, err := j.file.WriteAt(line, j.size); err != nil {
		return err // the next line is written over it
	}
	if err := j.file.Sync(); err != nil {
		return j.breaks(err)
	}
	j.last++
	j.waiting = append(j.waiting, waiting{j.last, j.size, len(line)})
	j.size += int64(len(line))
	j.live += int64(len(line))
	return nil
}

// breaks ends all writing.
func (j *journal) breaks(err error) error {
	j.broken = fmt.Errorf("the buffer has to be opened again, as it is not known what is on disk: %w", err)
	return j.broken
}

// row reads the row of a play that waits.
func (j *journal) row(w waiting) ([]byte, error) {
	line := make([]byte, w.n)
	if _, err := j.file.ReadAt(line, w.at); err != nil {
		return nil, err
	}
	var f found
	if !f.take(line, w.at) {
		return nil, errors.New("the line of a play was changed on disk")
	}
	_, text, _ := bytes.Cut(line, []byte("+ "))
	_, row, _ := bytes.Cut(text[:len(text)-1], []byte(" "))
	return row, nil
}

// remove takes plays out that were answered. A write that fails leaves them in the file: they are sent
// again once it was opened again, and are duplicates then. So the only error is that of a broken file.
func (j *journal) remove(answered map[uint64]bool) error {
	text := []byte("-")
	j.waiting = slices.DeleteFunc(j.waiting, func(w waiting) bool {
		if answered[w.seq] {
			text = strconv.AppendUint(append(text, ' '), w.seq, 10)
			j.live -= int64(w.n)
		}
		return answered[w.seq]
	})
	if j.broken != nil || len(text) == 1 {
		return j.broken
	}
	start := int64(len(bufferStart))
	if len(j.waiting) == 0 {
		if err := errors.Join(j.file.Truncate(start), j.file.Sync()); err != nil {
			return j.breaks(err)
		}
		j.size = start
		return nil
	}
	line := appendLine(nil, text)
	if _, err := j.file.WriteAt(line, j.size); err == nil { // else the next line is written over it
		j.size += int64(len(line))
	}
	if dead := j.size - start - j.live; dead > max(j.live, j.spare) {
		_ = j.replace() // or later
	}
	return j.broken
}

// replace makes a file of the plays that wait the buffer's. Until it is, the old one is.
func (j *journal) replace() error {
	next, err := j.disk.open(filepath.Join(j.dir, nextName))
	if err != nil {
		return err
	}
	moved, size, err := j.copyTo(next)
	if err != nil {
		return errors.Join(err, next.Close())
	}
	if err := j.disk.rename(filepath.Join(j.dir, nextName), filepath.Join(j.dir, bufferName)); err != nil {
		return errors.Join(j.breaks(err), next.Close()) // it may have been renamed all the same
	}
	err = j.file.Close() // of a file that has no name any more
	j.file, j.waiting, j.size = next, moved, size
	if err := j.disk.syncDir(j.dir); err != nil {
		return j.breaks(err)
	}
	return err
}

// copyTo writes the plays that wait to another file, durably.
func (j *journal) copyTo(next bufferFile) (moved []waiting, size int64, err error) {
	if err = next.Truncate(0); err == nil {
		_, err = next.WriteAt([]byte(bufferStart), 0)
	}
	size = int64(len(bufferStart))
	for _, w := range j.waiting {
		if err != nil {
			return nil, 0, err
		}
		var row []byte
		if row, err = j.row(w); err == nil {
			line := appendLine(nil, append(fmt.Appendf(nil, "+ %d ", w.seq), row...))
			_, err = next.WriteAt(line, size)
			moved = append(moved, waiting{w.seq, size, len(line)})
			size += int64(len(line))
		}
	}
	if err == nil {
		err = next.Sync()
	}
	return moved, size, err
}
