package upload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"muniment.example/gateway/adapter"
)

// unfinishedSuffix ends the names of the files that keep sessions; it is one of results files, so that
// they are not uploaded.
const unfinishedSuffix = ".unfinished" + resultsSuffix

// unfinishedPath is the file that keeps what the logs of a folder, of one format with one set of
// parameters, have left.
func (u *Uploader) unfinishedPath(f *file) string {
	return filepath.Join(filepath.Dir(f.results), f.format+"-"+sumText(sumOf([]byte(u.query(f.format).Encode())))+unfinishedSuffix)
}

// unfinished is what logs have left: sessions that go on in the next log, those that are sent and not
// answered, and the names of those that were taken. It is safe for concurrent use.
type unfinished struct {
	path   string
	folder *os.File // which is locked

	mu    sync.Mutex
	now   time.Time // of the logs
	open  []*session
	sent  map[*session]bool
	taken map[string]time.Time // and when their last event was
}

// unfinishedOf reads what earlier runs have left, once in a run.
func (u *Uploader) unfinishedOf(path string) (_ *unfinished, err error) {
	if known := u.unfinished[path]; known != nil {
		return known, nil
	}
	k := &unfinished{path: path, sent: map[*session]bool{}, taken: map[string]time.Time{}}
	locked := false
	for other := range u.unfinished {
		locked = locked || filepath.Dir(other) == filepath.Dir(path)
	}
	if k.folder, err = os.Open(filepath.Dir(path)); err == nil && !locked {
		err = unix.Flock(int(k.folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process uploads logs of this folder")
	}
	var text []byte
	if err == nil {
		if text, err = os.ReadFile(path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		_ = k.folder.Close() // it was only locked
		return nil, fmt.Errorf("cannot read the sessions that earlier logs have left: %w", err)
	}
	for line := range bytes.Lines(text) {
		var s session
		switch {
		case json.Unmarshal(line, &s) != nil:
		case s.Sent:
			k.taken[s.Name] = s.Last
		default:
			k.open = append(k.open, &s)
		}
	}
	if u.unfinished == nil {
		u.unfinished = map[string]*unfinished{}
	}
	u.unfinished[path] = k
	return k, nil
}

// begin is the log that goes on with what is left.
func (k *unfinished) begin(parse func([]byte) adapter.Event) *logOf {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := &logOf{named: map[string]*session{}, sent: map[string]bool{}}
	for name := range k.taken {
		all.sent[name] = true
	}
	for s := range k.sent {
		all.sent[s.Name] = true
	}
	for _, s := range k.open {
		for _, e := range s.Events {
			all.add(parse([]byte(e.Text)), e.Text, 0)
		}
	}
	return all
}

// send makes a row of a session. What an earlier log says of it is kept until it is answered.
func (k *unfinished) send(s *session, options []byte) row {
	r := s.row(options)
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.kept {
		k.sent[s] = true
	}
	r.settled = func(taken bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if delete(k.sent, s); taken && s.Name != "" {
			k.taken[s.Name] = s.Last
		}
	}
	return r
}

// end takes over what a log has left, and writes it.
func (k *unfinished) end(l *logOf) error {
	k.mu.Lock()
	k.open = l.order
	if now := l.now(); now.After(k.now) {
		k.now = now
	}
	k.mu.Unlock()
	return k.write()
}

// write replaces the file at once.
func (k *unfinished) write() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	var err error
	for _, s := range slices.Concat(k.open, slices.Collect(maps.Keys(k.sent))) {
		err = errors.Join(err, to.Encode(s))
	}
	for name, last := range k.taken {
		if k.now.Sub(last) <= restOfSession {
			err = errors.Join(err, to.Encode(session{Name: name, Last: last, Sent: true}))
		}
	}
	if err == nil && text.Len() == 0 {
		if err = os.Remove(k.path); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	} else if err == nil {
		err = replaced(k.path, text.Bytes())
	}
	if err == nil {
		err = k.folder.Sync()
	}
	if err != nil {
		return fmt.Errorf("cannot keep unfinished sessions: %w", err)
	}
	return nil
}

// replaced writes a file that takes the place of another one at once.
func replaced(path string, text []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
