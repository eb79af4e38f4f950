package upload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/adapter"
	"muniment.example/gateway/api"
)

// # Sessions
//
// The events of a session become one row, and must be sent together. A log is read to its end before its
// sessions are sent: those that are complete, and those to which nothing is added any more, as the log's
// own times say. Others may go on in the next log, where the system that writes them has rotated it. They
// are kept, beside the results, in a file of their own, and join what the next log of the same folder
// says. The names of sent sessions are kept for an hour of the logs' time, so that a late ping does not
// begin a new session. What is kept twice, as a run was killed, counts once: a repeated event changes nothing.
//
// Logs are read in the order of their first events. One process at a time uploads logs of a folder.

// restOfSession is how long after an ad should have ended something may be added to its session.
const restOfSession = time.Hour

// session is what is known of one, in the order of its logs.
type session struct {
	Name   string    `json:"session"`
	Events []event   `json:"events,omitempty"`
	Last   time.Time `json:"last"`
	// Sent: it has a row, and nothing is added to it any more.
	Sent bool `json:"sent,omitempty"`

	length       time.Duration
	begun, whole bool
	known        map[string]bool // the texts of Events
	first        int             // the place of its first event in the file that is read, from 1; 0: it has none there
	kept         bool            // an earlier log began it
}

// event is one, and its place in the file that is read, from 1: its line, or its number. 0: in an earlier one.
type event struct {
	Text  string `json:"text"`
	place int
}

// over reports whether nothing is added to a session any more at a time of the log. A session without
// readable times is sent at once; the service rejects it.
func (s *session) over(now time.Time) bool {
	return s.Last.IsZero() || s.whole && s.begun || now.Sub(s.Last) > s.length+restOfSession
}

// logOf is the sessions of a log that is read, and of those before it, which are not over.
type logOf struct {
	order []*session
	named map[string]*session
	sent  map[string]bool
	// recent are the times of the newest events. Their median is the log's: devices whose clocks are
	// wrong don't end the sessions of others.
	recent [31]time.Time
	count  int
}

func (l *logOf) add(e adapter.Event, text string, place int) {
	if place > 0 && !e.At.IsZero() && e.At.Before(time.Now().Add(api.MostAhead)) {
		l.recent[l.count%len(l.recent)] = e.At
		l.count++
	}
	if l.sent[e.Session] {
		return
	}
	s := l.named[e.Session]
	if s == nil || e.Session == "" { // an event of no session is one by itself
		s = &session{Name: e.Session, known: map[string]bool{}}
		l.order = append(l.order, s)
		l.named[e.Session] = s
	}
	if s.kept = s.kept || place == 0; s.first == 0 {
		s.first = place
	}
	if s.known[text] {
		return
	}
	s.known[text] = true
	s.Events = append(s.Events, event{text, place})
	s.begun, s.whole = s.begun || e.Begins || e.Session == "", s.whole || e.Complete || e.Session == ""
	s.length = max(s.length, e.Length)
	if e.At.After(s.Last) {
		s.Last = e.At
	}
}

// now is the log's time.
func (l *logOf) now() time.Time {
	recent := slices.Clone(l.recent[:min(l.count, len(l.recent))])
	if len(recent) == 0 {
		return time.Time{}
	}
	slices.SortFunc(recent, time.Time.Compare)
	return recent[len(recent)/2]
}

// take removes the sessions that are over, in their order. While the log is read on, those that were just
// completed stay: something may be said of them yet.
func (l *logOf) take(readOn, all bool) (over []*session) {
	var open []*session
	now := l.now()
	for _, s := range l.order {
		if !all && (!s.over(now) || readOn && now.Sub(s.Last) <= restOfSession) {
			open = append(open, s)
			continue
		}
		over = append(over, s)
		if delete(l.named, s.Name); s.Name != "" {
			l.sent[s.Name] = true
		}
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
		kept, err := u.unfinishedOf(u.unfinishedPath(f))
		if err != nil {
			yield(row{}, err)
			return
		}
		all := kept.begin(parse)
		hand := func(over []*session) bool {
			for _, s := range over {
				if !yield(kept.send(s, options), nil) {
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
		if err == nil && !hand(all.take(false, u.cfg.Finish && f.last)) {
			return
		}
		if failed := kept.end(all); err == nil {
			err = failed
		}
		if err != nil {
			yield(row{}, err)
		}
	}
	return s, nil
}

// row is the session as it is sent.
func (s *session) row(options []byte) row {
	parts := [][]byte{options}
	r := row{index: int64(s.first) - 1, events: s.Events, session: s.Name}
	for _, e := range s.Events {
		r.size += len(e.Text) + 1
		parts = append(parts, []byte(e.Text))
	}
	r.sum = sumOf(parts...)
	if s.first == 0 { // its log is another one
		r.index = mostPlaces + int64(sumOf([]byte(s.Name))%mostPlaces)
	}
	if r.size > mostRow {
		r.events, r.fault = nil, tooLong
	}
	return r
}

// mostPlaces is more events than a file has.
const mostPlaces = 1 << 40

// arrange puts logs in the order of their first events, and marks the last one of those that share what
// is unfinished. Other files stay where they are.
func (u *Uploader) arrange(files []*file) {
	began := map[*file]time.Time{}
	var at []int
	var logs []*file
	for i, f := range files {
		format, known := adapter.Lookup(f.format, "")
		if !known || format.Kind() != adapter.Lines && format.Kind() != adapter.Events {
			continue
		}
		began[f] = u.firstEvent(f, format)
		at, logs = append(at, i), append(logs, f)
	}
	slices.SortStableFunc(logs, func(a, b *file) int { return began[a].Compare(began[b]) })
	last := map[string]*file{}
	for n, f := range logs {
		files[at[n]] = f
		last[u.unfinishedPath(f)] = f
	}
	for _, f := range last {
		f.last = true
	}
}

// firstEvent is when a log begins; zero if its first events don't say.
func (u *Uploader) firstEvent(f *file, format adapter.Format) (at time.Time) {
	const most = 1000
	parse, err := format.Events(headerOf(u.query(f.format)))
	if err != nil {
		return at
	}
	content, err := openContent(f.path)
	if err != nil {
		return at // which is reported when it is read
	}
	defer content.Close()
	if format.Kind() == adapter.Lines {
		n := 0
		_ = readEvents(f.path, format, content, func(text string, _ int) bool { // as above
			n++
			at = parse([]byte(text)).At
			return at.IsZero() && n < most
		})
		return at
	}
	d := decoderOf(content)
	if d.PeekKind() == jsontext.KindBeginArray {
		_, err = d.ReadToken()
	}
	for n := 0; n < most && at.IsZero() && err == nil; n++ {
		var value jsontext.Value
		if value, err = d.ReadValue(); err == nil {
			at = parse(value).At
		}
	}
	return at
}

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
