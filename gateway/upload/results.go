package upload

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"muniment/gateway/api"
)

// The statuses of rows.
const (
	statusAccepted  = "accepted"
	statusDuplicate = "duplicate"
	statusRejected  = "rejected"
	statusUnmapped  = "unmapped"
)

// result is a line of a results file.
type result struct {
	// Index of the row in the file, or in the document that the file is, from 0.
	Index int64 `json:"index"`
	// Row is a checksum of what was sent: see row.sum.
	Row    string `json:"row"`
	Status string `json:"status"`
	// Of rows that were taken; a duplicate has it where the service still knows it.
	ReceiptID string `json:"receiptId,omitempty"`
	// Of rows that are held until a mapping knows them.
	HeldID string `json:"heldId,omitempty"`
	// Of rows that were rejected: as the service has it, {error, message, …}.
	Error json.RawMessage `json:"error,omitempty"`
	// Rows is how many the document has; absent where a row stands for itself.
	Rows int64 `json:"rows,omitempty"`
}

// passing says of a rejected row that the service may take it soon: it was busy or away.
func (r *result) passing() bool { return r.rejectedFor(api.InternalError) }

// full says that too many rows wait for mappings: a later run sends it again, as somebody has to
// make some first.
func (r *result) full() bool { return r.rejectedFor(api.RateLimited) }

func (r *result) rejectedFor(code api.Code) bool {
	var e struct{ Error api.Code }
	return r.Status == statusRejected && json.Unmarshal(r.Error, &e) == nil && e.Error == code
}

// results is a results file. It is safe for concurrent use.
type results struct {
	mu   sync.Mutex
	file *os.File
	// What an earlier run has done: the sums of rows, in blocks of their indexes, 0 of those that
	// are to be sent; and how many rows a document has, by its sum.
	done      map[int64]*[blockRows]uint64
	documents map[uint64]int64
	again     bool
}

const blockRows = 4096

// openResults opens the file, or makes it, and reads what an earlier run has done. A last line
// that is torn is cut off; one that says nothing is passed over.
func openResults(path string, again bool) (*results, error) {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the results file: %w", err)
	}
	r := &results{file: f, done: map[int64]*[blockRows]uint64{}, documents: map[uint64]int64{}, again: again}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process uploads this file")
	}
	if err == nil {
		err = r.load()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the results file %s: %w", path, err), f.Close())
	}
	return r, nil
}

func (r *results) load() error {
	in := bufio.NewReaderSize(r.file, 256<<10)
	whole := int64(0)
	for {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return r.file.Truncate(whole)
		}
		if err != nil {
			return err
		}
		whole += int64(len(text))
		var line result
		if json.Unmarshal(text, &line) == nil {
			r.learn(&line)
		}
	}
}

// learn takes in what a line says of a row. The last line of a row counts.
func (r *results) learn(line *result) {
	sum, err := base64.RawURLEncoding.DecodeString(line.Row)
	if err != nil || len(sum) != 8 || line.Index < 0 {
		return
	}
	final := slices.Contains([]string{statusAccepted, statusDuplicate, statusUnmapped}, line.Status) || line.Status == statusRejected && !r.again && !line.passing() && !line.full()
	block := r.done[line.Index/blockRows]
	if block == nil {
		block = new([blockRows]uint64)
		r.done[line.Index/blockRows] = block
	}
	block[line.Index%blockRows] = 0
	if final {
		block[line.Index%blockRows] = binary.BigEndian.Uint64(sum)
		if line.Rows > 0 {
			r.documents[binary.BigEndian.Uint64(sum)] = line.Rows
		}
	}
}

// has reports whether a row, with its present content, has a final result. Only the reader calls it.
func (r *results) has(of *row) bool {
	count := int64(1)
	if of.document {
		count = r.documents[of.sum]
	}
	for i := of.index; i < of.index+count; i++ {
		if block := r.done[i/blockRows]; block == nil || block[i%blockRows] != of.sum {
			return false
		}
	}
	return count > 0
}

// write appends lines by one call, so that a process that is killed tears one at most.
func (r *results) write(lines []result) error {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	for i := range lines {
		if err := to.Encode(&lines[i]); err != nil {
			return fmt.Errorf("cannot write the results: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.file.Write(text.Bytes()); err != nil {
		return fmt.Errorf("cannot write the results: %w", err)
	}
	return nil
}

func (r *results) close() error { return r.file.Close() }

// sumText is a sum as a line has it.
func sumText(sum uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, sum))
}
