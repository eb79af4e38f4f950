package upload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"muniment/gateway/adapter"
	"muniment/gateway/api"
)

// # Sessions
//
// The events of a session become one row, and must be sent together. A log is read to its end before its
// sessions are sent: those that are complete, and those to which nothing is added any more, as the log's
// own times say. Others may go on in the next log, where the system that writes them has rotated it. They
// are kept, beside the results, in a file of their own, and join what the next log of the same folder
// says. What is kept twice, as a run was killed, counts once: a repeated event changes nothing.

// restOfSession is how long after an ad should have ended something may be added to its session.
const restOfSession = time.Hour

// unfinishedSuffix ends the names of the files that keep sessions; it is one of results files, so that
// they are not uploaded.
const unfinishedSuffix = ".unfinished" + resultsSuffix

// session is what is known of one, in the order of its logs.
type session struct {
	Name   string    `json:"session"`
	Events []event   `json:"events"`
	Last   time.Time `json:"last"`
	Length int64     `json:"lengthMs,omitempty"`
	Whole  bool      `json:"complete,omitempty"`

	known map[string]bool // the texts of Events
	first int             // the place of its first event in the file that is read, from 1; 0: it has none there
	kept  bool            // an earlier log began it
}

// event is one, and its place in the file that is read, from 1: its line, or its number. 0: in an earlier one.
type event struct {
	Text  string `json:"text"`
	place int
}

// over reports whether nothing is added to a session any more at a time of the log.
func (s *session) over(now time.Time) bool {
	return s.Whole || now.Sub(s.Last) > time.Duration(s.Length)*time.Millisecond+restOfSession
}

// logOf is the sessions of a log that is read, and of those before it, which are not over.
type logOf struct {
	order []*session
	named map[string]*session
	now   time.Time // the latest that it says, but for clocks that are ahead of ours
}

func (l *logOf) add(e adapter.Event, text string, place int) {
	s := l.named[e.Session]
	if s == nil || e.Session == "" { // an event of no session is one by itself
		s = &session{Name: e.Session, known: map[string]bool{}, Whole: e.Session == ""}
		l.order = append(l.order, s)
		l.named[e.Session] = s
	}
	if s.kept = s.kept || place == 0; s.first == 0 {
		s.first = place
	}
	if place > 0 && e.At.After(l.now) && e.At.Before(time.Now().Add(api.MostAhead)) {
		l.now = e.At
	}
	if s.known[text] {
		return
	}
	s.known[text] = true
	s.Events = append(s.Events, event{text, place})
	s.Whole = s.Whole || e.Complete
	s.Length = max(s.Length, e.Length.Milliseconds())
	if e.At.After(s.Last) {
		s.Last = e.At
	}
}

// take removes the sessions that are over, in their order. While the log is read on, those that were just
// completed stay: something may be said of them yet.
func (l *logOf) take(readOn, all bool) (over []*session) {
	var open []*session
	for _, s := range l.order {
		if !all && (!s.over(l.now) || readOn && l.now.Sub(s.Last) <= restOfSession) {
			open = append(open, s)
			continue
		}
		over = append(over, s)
		delete(l.named, s.Name)
	}
	l.order = open
	return over
}

// takeEvery is after how many events sessions are sent that are over, so that a log is not held whole.
const takeEvery = 50_000

// logs are the sessions of a log.
func (u *Uploader) logs(f *file, format adapter.Format, from io.Reader) (*source, error) {
	query := u.query(f.format)
	parse, err := format.Events(headerOf(query))
	if err != nil {
		return nil, err
	}
	options := []byte(query.Encode())
	s := &source{most: maxRows, mediaType: "application/json", query: query, body: eventsBody, placed: eventPlaces}
	if format.Kind() == adapter.Lines {
		s.mediaType, s.body, s.placed = "text/uri-list", linesBody, linePlaces
	}
	s.rows = func(yield func(row, error) bool) {
		kept, err := u.unfinishedOf(filepath.Join(filepath.Dir(f.results), f.format+"-"+sumText(sumOf(options))+unfinishedSuffix))
		if err != nil {
			yield(row{}, err)
			return
		}
		all := &logOf{named: map[string]*session{}}
		for _, s := range kept.open {
			for _, e := range s.Events {
				all.add(parse([]byte(e.Text)), e.Text, 0)
			}
		}
		hand := func(over []*session) bool {
			for _, s := range over {
				r := s.row(options)
				if s.kept { // what it was kept in is all that is known of it, until it is answered
					kept.begin(s, &r)
				}
				if !yield(r, nil) {
					return false
				}
			}
			return true
		}
		count, more := 0, true
		err = readEvents(f.path, format, from, func(text string, place int) bool {
			all.add(parse([]byte(text)), text, place)
			if count++; count%takeEvery == 0 {
				more = hand(all.take(true, false))
			}
			return more
		})
		if !more {
			return
		}
		if err != nil {
			yield(row{}, err)
			return
		}
		if !hand(all.take(false, u.cfg.Finish)) {
			return
		}
		if err := kept.replace(all.order); err != nil {
			yield(row{}, err)
		}
	}
	return s, nil
}

// row is the session as it is sent. One that the file's results say is taken is not sent again with what
// is left of it, as its earlier log is gone: it is known by its name.
func (s *session) row(options []byte) row {
	r := row{index: int64(s.first), events: s.Events, sum: sumOf(options, []byte(s.Name))}
	for _, e := range s.Events {
		r.size += len(e.Text) + 1
	}
	if s.Name == "" {
		r.sum = sumOf(options, []byte(s.Events[0].Text))
	}
	if s.first == 0 { // its log is another one
		r.index = mostPlaces + int64(r.sum%mostPlaces)
	}
	if r.size > maxBody-1024 {
		r.events, r.fault = nil, tooLong
	}
	return r
}

// mostPlaces is more events than a file has.
const mostPlaces = 1 << 40

func headerOf(query url.Values) adapter.Header {
	return adapter.Header{Field: func(string) string { return "" }, Query: query}
}

// readEvents calls visit with each event of a log and its place, until it returns false.
func readEvents(path string, format adapter.Format, from io.Reader, visit func(text string, place int) bool) error {
	if format.Kind() != adapter.Lines {
		place := 0
		err := walkPlays(path, format, from, func(p play) bool {
			place++
			return visit(string(p.text), place)
		})
		if err == errEnough {
			err = nil
		}
		return unreadJSON(err)
	}
	in := bufio.NewReaderSize(from, 64<<10)
	for place := 1; ; place++ {
		text, err := line(in, maxRecord)
		if place == 1 {
			text = bytes.TrimPrefix(text, byteOrderMark)
		}
		text = bytes.TrimSpace(text)
		switch {
		case len(text) == 0 || text[0] == '#':
		case text[0] == '<':
			return errors.New("it is XML, and not the tracking URLs that a player called, one a line")
		case !visit(string(text), place):
			return nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unread(err)
		}
	}
}

// unfinished is what the logs of a folder, of one format with one set of parameters, have left: sessions
// that go on in the next log, and those that are sent and not answered.
type unfinished struct {
	path string

	mu   sync.Mutex
	open []*session
	sent map[*session]bool
}

// unfinishedOf reads what earlier runs have left, once in a run.
func (u *Uploader) unfinishedOf(path string) (*unfinished, error) {
	if known := u.unfinished[path]; known != nil {
		return known, nil
	}
	k := &unfinished{path: path, sent: map[*session]bool{}}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the sessions that earlier logs have left: %w", err)
	}
	for line := range bytes.Lines(text) {
		var s session
		if json.Unmarshal(line, &s) == nil {
			k.open = append(k.open, &s)
		}
	}
	if u.unfinished == nil {
		u.unfinished = map[string]*unfinished{}
	}
	u.unfinished[path] = k
	return k, nil
}

// begin keeps a session until its row is answered.
func (k *unfinished) begin(s *session, r *row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent[s] = true
	r.settled = func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.sent, s)
	}
}

// replace takes the place of what was open, and writes it.
func (k *unfinished) replace(open []*session) error {
	k.mu.Lock()
	k.open = open
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
	switch {
	case err != nil:
	case text.Len() == 0:
		if err = os.Remove(k.path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	default:
		if err = os.WriteFile(k.path+".new", text.Bytes(), 0o644); err == nil {
			err = os.Rename(k.path+".new", k.path)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot keep unfinished sessions: %w", err)
	}
	return nil
}

func linesBody(dst []byte, rows []row) []byte {
	for i := range rows {
		for _, e := range rows[i].events {
			dst = append(append(dst, e.Text...), '\n')
		}
	}
	return dst
}

func eventsBody(dst []byte, rows []row) []byte {
	dst = append(dst, '[')
	for i := range rows {
		for j, e := range rows[i].events {
			dst = append(comma(dst, i+j > 0), e.Text...)
		}
	}
	return append(dst, ']')
}

var eventOfBody = regexp.MustCompile(`"\[(\d+)\]`)

// linePlaces and eventPlaces name the places of the file in place of those of the body.
func linePlaces(rows []row, _ int, text json.RawMessage) json.RawMessage {
	return eventNames(rows, text, lineOfBody, -1, func(place int) string { return `"line ` + strconv.Itoa(place) })
}

func eventPlaces(rows []row, _ int, text json.RawMessage) json.RawMessage {
	return eventNames(rows, text, eventOfBody, 0, func(place int) string { return `"[` + strconv.Itoa(place-1) + `]` })
}

func eventNames(rows []row, text json.RawMessage, pattern *regexp.Regexp, first int, name func(place int) string) json.RawMessage {
	return pattern.ReplaceAllFunc(text, func(found []byte) []byte {
		n, err := strconv.Atoi(string(pattern.FindSubmatch(found)[1]))
		n += first
		for i := range rows {
			switch events := rows[i].events; {
			case err != nil || n < 0:
				return found
			case n >= len(events):
				n -= len(events)
			case events[n].place == 0:
				return []byte(`"an earlier log`)
			default:
				return []byte(name(events[n].place))
			}
		}
		return found
	})
}
