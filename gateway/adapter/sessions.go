package adapter

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

const (
	// mostSessions is one more than a batch has rows: a batch of so many is refused, and the
	// remaining document is not read.
	mostSessions = 1001

	displayInView = time.Second     // how long on end half of it must be in view to be viewable,
	videoInView   = 2 * time.Second // by the MRC's guidelines: an image, and a video that plays
	audibleBar    = 2 * time.Second // how long without a break it must be audible to count as such, by the same
)

// sessions gathers events, many of which make one play. All events of a play must be in one
// document: a later one would have the identity of a delivered row, with other content.
type sessions struct {
	order []*session
	byKey map[string]*session
}

// session is the events of one play.
type session struct {
	play    *play // of its first event
	moments []moment
	ids     map[string]id // what the events say that may be the vendorId
	video   bool
	viewed  *bool // what the player measured itself
}

// moment is what happens to a play, and when.
type moment struct {
	at   time.Time
	kind happening
	on   bool           // of inView and audible
	head *time.Duration // the place in the ad, where the event names it
}

type happening uint8

const (
	noted   happening = iota // it goes on
	shown                    // it is on the screen: this is the delivery
	started                  // and plays; this and the next four are in the order of progress
	quarter                  // the first quartile
	half                     // the midpoint
	threeQuarters
	completed
	paused
	resumed
	ended
	inView  // half of it, or no more
	audible // or no more
)

// completionStates are telemetry's, by how many of the kinds from started were met.
var completionStates = [...]string{"", "started", "first_quartile", "midpoint", "third_quartile", "complete"}

// of is the session that an event belongs to. An event that names none is one of its own.
func (s *sessions) of(key string, first *play) *session {
	if known := s.byKey[key]; known != nil && key != "" {
		if known.play.fault == nil {
			known.play.fault = first.fault
		}
		return known
	}
	if s.byKey == nil {
		s.byKey = map[string]*session{}
	}
	made := &session{play: first, ids: map[string]id{}}
	s.order = append(s.order, made)
	s.byKey[key] = made
	return made
}

// say keeps an id of the session, the first that its events name.
func (s *session) say(name string, value id) {
	if s.ids[name] == "" {
		s.ids[name] = value
	}
}

// measure is what the events add up to.
type measure struct {
	from              time.Time
	dwell             time.Duration
	progress          int   // of completionStates
	viewable, audible *bool // nil: not measured
}

// add adds up the events, in the order of their times. ok is false if it was never shown.
func (s *session) add() (m measure, ok bool) {
	slices.SortStableFunc(s.moments, func(a, b moment) int { return a.at.Compare(b.at) })
	bar := displayInView
	if s.video {
		bar = videoInView
	}
	var last time.Time
	var playing, view, sound bool
	var viewRun, soundRun, head time.Duration
	for _, e := range s.moments {
		if playing {
			passed := e.at.Sub(last)
			m.dwell += passed
			viewRun, soundRun = run(viewRun, passed, view), run(soundRun, passed, sound)
			m.viewable = reached(m.viewable, view, viewRun, bar)
			m.audible = reached(m.audible, sound, soundRun, audibleBar)
		}
		last = e.at
		if e.head != nil {
			head = max(head, *e.head)
		}
		if e.kind >= shown && e.kind <= completed && !ok {
			m.from, ok = e.at, true
		}
		switch e.kind {
		case shown:
			playing = playing || !s.video
		case started, quarter, half, threeQuarters:
			playing = true
		case resumed:
			playing = ok
		case completed, paused, ended:
			playing, viewRun, soundRun = false, 0, 0
		case inView:
			view = e.on
			m.viewable = known(m.viewable)
		case audible:
			sound = e.on
			m.audible = known(m.audible)
		}
		if e.kind >= started && e.kind <= completed {
			m.progress = max(m.progress, int(e.kind-started)+1)
		}
	}
	// A player that says how far it is knows better than the clock, which goes on while it stalls.
	if n := len(s.moments); n > 0 && s.moments[n-1].head != nil {
		m.dwell = head
	}
	if s.viewed != nil {
		m.viewable = s.viewed
	}
	return m, ok
}

func run(so, passed time.Duration, on bool) time.Duration {
	if !on {
		return 0
	}
	return so + passed
}

func known(was *bool) *bool {
	if was == nil {
		was = new(bool)
	}
	return was
}

func reached(was *bool, on bool, run, bar time.Duration) *bool {
	if on && run >= bar {
		yes := true
		return &yes
	}
	return was
}

// emit hands out the plays of all sessions. field names an event's kind in the document; name
// fills in what the row is named by.
func (s *sessions) emit(d *document, field string, name func(*play, *session)) {
	for _, session := range s.order {
		if p := session.play; p.fault == nil {
			m, ok := session.add()
			if !ok {
				p.refuse(field, "no event of this play is an impression")
			}
			p.played(field, m.from)
			p.dwell(field, float64(m.dwell)/float64(time.Millisecond))
			p.row.Telemetry = m.telemetry()
			name(p, session)
		}
		if !d.emit(session.play) {
			return
		}
	}
}

func (m *measure) telemetry() json.RawMessage {
	var text []byte
	add := func(name, value string) {
		text = append(append(append(append(text, `,"`...), name...), `":`...), value...)
	}
	if m.viewable != nil {
		add("viewable", strconv.FormatBool(*m.viewable))
	}
	if m.progress > 0 {
		add("completionState", strconv.Quote(completionStates[m.progress]))
	}
	if m.audible != nil {
		add("audible", strconv.FormatBool(*m.audible))
	}
	if text == nil {
		return nil
	}
	text[0] = '{'
	return append(text, '}')
}
