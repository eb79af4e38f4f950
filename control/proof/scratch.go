package proof

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"muniment.example/sealer"
)

// scratchMemory is how much of a scratch is kept in memory, so that a call that finds nothing new
// needs no file.
const scratchMemory = 1 << 20

// scratch stores the entries of a pack from when they are read until the pack's header, which
// precedes them, is known. Most of it is in a file without a name, which ends with the process. It
// belongs to one goroutine and must be closed.
type scratch struct {
	make  func() (*os.File, error) // creates the file
	file  *os.File
	w     *bufio.Writer
	count int
}

// Write creates the file when the memory is full.
func (s *scratch) Write(p []byte) (int, error) {
	if s.file == nil {
		file, err := s.make()
		if err != nil {
			return 0, err
		}
		s.file = file
	}
	return s.file.Write(p)
}

// reset empties it.
func (s *scratch) reset() error {
	s.w, s.count = nil, 0
	return s.close()
}

func (s *scratch) close() (err error) {
	if s.file != nil {
		err = s.file.Close()
		s.file = nil
	}
	return err
}

// add appends the text of the next entry.
func (s *scratch) add(event []byte) (err error) {
	if s.w == nil {
		s.w = bufio.NewWriterSize(s, scratchMemory)
	}
	s.count++
	if _, err = s.w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(event)))); err == nil {
		_, err = s.w.Write(event)
	}
	return err
}

// each calls take for the entries, in their order. A text is valid only during its call.
func (s *scratch) each(take func(event []byte) error) error {
	if s.w == nil {
		return nil
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(s.file, scratchMemory)
	var length [4]byte
	event := make([]byte, sealer.MaxEventBytes)
	for range s.count {
		if _, err := io.ReadFull(in, length[:]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(length[:])
		if n > sealer.MaxEventBytes {
			return errors.New("the scratch of a pack is damaged")
		}
		if _, err := io.ReadFull(in, event[:n]); err != nil {
			return fmt.Errorf("cannot read the scratch of a pack: %w", err)
		}
		if err := take(event[:n]); err != nil {
			return err
		}
	}
	return nil
}
