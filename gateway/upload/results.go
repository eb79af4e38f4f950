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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"muniment.example/gateway/api"
	"muniment.example/gateway/remote"
	"muniment.example/sealer/terminal"
)

// The statuses of rows.
const (
	statusAccepted  = "accepted"
	statusDuplicate = "duplicate"
	statusRejected  = "rejected"
	statusUnmapped  = "unmapped"
	statusHeld      = "held"
)

// result is a line of a results file.
type result struct {
	// Index of the row in the file, from 0.
	Index int64 `json:"index"`
	// Row is a checksum of what was sent: see row.sum.
	Row    string `json:"row"`
	Status string `json:"status"`
	// RowID is the caller's, or what the format makes it of.
	RowID string `json:"rowId,omitempty"`
	// Of rows that were taken; a duplicate has them where the service still knows them. The receipt and its
	// signature are as the service gave them: they can be checked without it.
	ReceiptID string          `json:"receiptId,omitempty"`
	Receipt   json.RawMessage `json:"receipt,omitempty"`
	Signature json.RawMessage `json:"signature,omitempty"`
	// Of rows that are held until a mapping knows them, or, with the reason RIGHT_SUSPENDED, until
	// their right is resumed.
	HeldID string `json:"heldId,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Of rows that were rejected: as the service has it, {error, message, …}.
	Error json.RawMessage `json:"error,omitempty"`
	// Session is the name of one whose events became the row.
	Session string `json:"session,omitempty"`
}

// passing says of a rejected row that the service may take it soon: it was busy or away.
func (r *result) passing() bool { return r.rejectedFor(api.InternalError) }

// full says that too many rows wait: a later run sends it again, as somebody has to make mappings or
// resume rights first.
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
	// are to be sent.
	done     map[int64]*[blockRows]uint64
	sessions map[string]bool // that were taken
	again    bool
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
	r := &results{file: f, done: map[int64]*[blockRows]uint64{}, sessions: map[string]bool{}, again: again}
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
	final := slices.Contains([]string{statusAccepted, statusDuplicate, statusUnmapped, statusHeld}, line.Status) || line.Status == statusRejected && !r.again && !line.passing() && !line.full()
	block := r.done[line.Index/blockRows]
	if block == nil {
		block = new([blockRows]uint64)
		r.done[line.Index/blockRows] = block
	}
	if line.Session != "" && line.Status != statusRejected {
		r.sessions[line.Session] = true
	}
	block[line.Index%blockRows] = 0
	if final {
		block[line.Index%blockRows] = binary.BigEndian.Uint64(sum)
	}
}

// has reports whether a row, with its present content, has a final result. Only the reader calls it.
func (r *results) has(of *row) bool {
	if r.sessions[of.session] { // whatever is left of it, as its earlier log is gone
		return true
	}
	block := r.done[of.index/blockRows]
	return block != nil && block[of.index%blockRows] == of.sum
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

// Rejection is a row that was rejected, as a results file has it.
type Rejection struct {
	File  string // that of the plays
	Index int64  // of the row in the file, from 0
	RowID string // "" if it has none, or it is not known
	// Why: the field at fault with its place in the file, and what is wrong with it.
	Field, Message string
}

// String is the rejection on a line.
func (r Rejection) String() string {
	name := terminal.Sprintf("%s: row %d", r.File, r.Index)
	if r.Index >= mostPlaces { // a session of an earlier log
		name = terminal.Text(r.File)
	}
	if r.RowID != "" {
		name += fmt.Sprintf(" (rowId %s)", remote.Printable(r.RowID))
	}
	if r.Field != "" {
		name += ": " + remote.Printable(r.Field)
	}
	return name + ": " + remote.Printable(r.Message)
}

// Rejected calls visit with the rows of files that earlier runs have had rejected, as Run would name the
// files. Nothing is sent. It returns the error of visit.
func Rejected(cfg Config, paths []string, visit func(Rejection) error) error {
	u := &Uploader{cfg: cfg, progress: new(Progress)}
	files, err := u.find(paths)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := f.rejected(visit); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) rejected(visit func(Rejection) error) error {
	from, err := os.Open(f.results)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was not sent
	} else if err != nil {
		return fmt.Errorf("cannot read the results: %w", err)
	}
	defer from.Close()
	rejected := map[int64]*result{} // the last line of a row counts
	for in := bufio.NewReaderSize(from, 256<<10); ; {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("cannot read the results: %w", err)
		}
		var line result
		if json.Unmarshal(text, &line) != nil {
			continue
		}
		if delete(rejected, line.Index); line.Status == statusRejected {
			rejected[line.Index] = &line
		}
	}
	for _, index := range slices.Sorted(maps.Keys(rejected)) {
		line := rejected[index]
		var why struct {
			Field, Message   string
			ValidationErrors []struct{ Field, Message string }
		}
		_ = json.Unmarshal(line.Error, &why)
		if len(why.ValidationErrors) > 0 {
			why.Field, why.Message = why.ValidationErrors[0].Field, why.ValidationErrors[0].Message
		}
		if err := visit(Rejection{f.path, index, line.RowID, why.Field, why.Message}); err != nil {
			return err
		}
	}
	return nil
}
