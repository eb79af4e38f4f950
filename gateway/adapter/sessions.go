package adapter

import (
	"cmp"
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
//
// # How long a play is
//
// Players repeat their pings, send them in any order, and log whole seconds of clocks that are set in
// the middle of an ad. So a play is measured by its progress: the start, the quartiles, a place in the
// ad that was not reached before. Events at one moment are in the order of progress; one that was seen
// already, or comes behind complete, changes nothing.
//
// If the ad's length is known, a complete play has that length, whatever clocks say, and no play is longer.
// The length is the least of those that are known: what the player names as such, the
// place in the ad of complete, the parameter lengthMs. Without one a play is from its start to complete,
// else to the last new progress, less reported pauses; a viewer who skips has seen it until then, at most
// until the next quartile was due. A time in the ad that the player reports with the last progress counts
// in place of the clock, if it is less. Where clocks are needed and progress goes back in time, the play is
// refused.
//
// An image has no progress: it is shown until its session ends, or its last event, or for lengthMs.
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
	viewed  *bool         // what the player measured itself
	length  time.Duration // of the ad; 0: unknown
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
	skipped // by the viewer
	ended   // by the player, who knows when
	inView  // half of it, or no more
	audible // or no more
)

// progress is how far a kind says that the ad is, as completionStates has it; 0 if it says nothing.
func (h happening) progress() int {
	if h < started || h > completed {
		return 0
	}
	return int(h-started) + 1
}

// completionStates are telemetry's, by progress.
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

// say keeps an id of the session: of several the least, so that their order decides nothing.
func (s *session) say(name string, value id) {
	if was := s.ids[name]; was == "" || value != "" && value < was {
		s.ids[name] = value
	}
}

// lasts keeps how long the ad is, as the player says it; of several lengths the least.
func (s *session) lasts(length time.Duration) {
	if length > 0 && (s.length == 0 || length < s.length) {
		s.length = length
	}
}

// measure is what the events add up to.
type measure struct {
	from              time.Time
	dwell             time.Duration
	progress          int   // of completionStates
	viewable, audible *bool // nil: not measured
}

const (
	errNotShown  = "no event of this play is an impression"
	errBackwards = "time runs backwards in this play: the ad was further at an earlier time"
)

// add adds up the events. fault says why they are no play, if they are none.
func (s *session) add() (m measure, fault string) {
	slices.SortFunc(s.moments, moment.compare)
	s.moments = slices.CompactFunc(s.moments, func(a, b moment) bool { return a.compare(b) == 0 })
	var first [ended + 1]*moment // of each kind, the earliest
	for i := range s.moments {
		if e := &s.moments[i]; e.kind <= ended && first[e.kind] == nil {
			first[e.kind] = e
		}
	}
	begin := slices.IndexFunc(first[shown:completed+1], func(e *moment) bool { return e != nil })
	if begin < 0 {
		return m, errNotShown
	}
	m.from = first[int(shown)+begin].at
	for _, e := range first[started : skipped+1] {
		s.video = s.video || e != nil && e.kind != paused && e.kind != resumed // an image has no progress
	}
	length := s.lengthOf(first[completed])
	p := playback{video: s.video, measure: &m}
	for i := range s.moments {
		p.pass(&s.moments[i])
	}
	if m.dwell = p.played; s.video {
		m.dwell, fault = p.seenOf(length, first[:])
	}
	if length > 0 {
		m.dwell = min(m.dwell, length)
	}
	if s.viewed != nil {
		m.viewable = s.viewed
	}
	return m, fault
}

// lengthOf is how long the ad is; of several lengths that are known the least, 0 if none is.
func (s *session) lengthOf(end *moment) time.Duration {
	if end != nil && end.head != nil {
		s.lasts(*end.head)
	}
	if s.play != nil && s.play.length != nil {
		s.lasts(time.Duration(*s.play.length * float64(time.Millisecond)))
	}
	return s.length
}

// seenOf is how much of a video was seen, whose length is known, or 0.
func (p *playback) seenOf(length time.Duration, first []*moment) (dwell time.Duration, fault string) {
	whole := first[completed] != nil
	if whole && length > 0 {
		return length, ""
	}
	var before *moment
	for _, e := range first[started : completed+1] {
		switch {
		case e == nil:
			continue
		case before != nil && e.at.Before(before.at) && (!whole || e.kind == completed):
			return 0, errBackwards
		case before == nil || !whole: // of a whole play the first and complete are what counts
			before = e
		}
	}
	return max(p.seen, min(p.skipped, p.nextQuartile(length))), ""
}

// nextQuartile is how much has been played when the next quartile is due; 0 if that can't be known.
func (p *playback) nextQuartile(length time.Duration) time.Duration {
	reached := time.Duration(max(p.progress-1, 0))
	switch {
	case length > 0:
		return length * (reached + 1) / 4
	case reached > 0:
		return p.quartile * (reached + 1) / reached
	}
	return 0
}

// compare orders moments by their times, those at one time by progress.
func (m moment) compare(o moment) int {
	return cmp.Or(m.at.Compare(o.at), cmp.Compare(m.kind, o.kind), cmp.Compare(m.place(), o.place()), compareBools(m.on, o.on))
}

func (m moment) place() time.Duration {
	if m.head == nil {
		return -1
	}
	return *m.head
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// playback goes through the moments of a play.
type playback struct {
	*measure
	video bool

	last                  time.Time
	playing, paused, over bool
	view, sound           bool
	viewRun, soundRun     time.Duration
	played                time.Duration // by the clock, less pauses
	quartile              time.Duration // played when the last quartile was reached
	head                  time.Duration // the furthest place in the ad
	seen                  time.Duration // until the last new progress
	skipped               time.Duration // played when the viewer skipped the rest
}

func (p *playback) pass(e *moment) {
	bar := displayInView
	if p.video {
		bar = videoInView
	}
	if p.playing {
		passed := e.at.Sub(p.last)
		p.played += passed
		p.viewRun, p.soundRun = run(p.viewRun, passed, p.view), run(p.soundRun, passed, p.sound)
		p.viewable = reached(p.viewable, p.view, p.viewRun, bar)
		p.audible = reached(p.audible, p.sound, p.soundRun, audibleBar)
	}
	p.last = e.at
	if p.over {
		return
	}
	if p.advances(e) {
		p.playing = p.video
		if p.seen = p.played; e.head != nil && p.head > 0 {
			p.seen = min(p.seen, p.head)
		}
	}
	switch e.kind {
	case shown:
		p.playing = p.playing || !p.video
	case paused:
		p.paused = p.paused || p.playing
		p.stop()
	case resumed:
		p.playing, p.paused = p.playing || p.paused, false
	case skipped:
		if p.playing {
			p.skipped = p.played
		}
		p.stop()
	case ended:
		p.stop()
		p.over = !p.video // a video's end is complete
	case completed:
		p.stop()
		p.over = true
	case inView:
		p.view = e.on
		p.viewable = known(p.viewable)
	case audible:
		p.sound = e.on
		p.audible = known(p.audible)
	}
}

// advances says whether an event is new progress, and keeps it.
func (p *playback) advances(e *moment) (new bool) {
	if e.head != nil && *e.head > p.head {
		p.head, new = *e.head, true
	}
	if reached := e.kind.progress(); reached > p.progress {
		p.progress, new = reached, true
		p.quartile = p.played
	}
	return new
}

func (p *playback) stop() { p.playing, p.viewRun, p.soundRun = false, 0, 0 }

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

// emit hands out the plays of all sessions. field and clock name an event's kind and time in the
// document; name fills in what the row is named by.
func (s *sessions) emit(d *document, field, clock string, name func(*play, *session)) {
	for _, session := range s.order {
		if p := session.play; p.fault == nil {
			m, fault := session.add()
			if fault != "" {
				p.refuse(field, fault)
			}
			p.played(clock, m.from)
			p.dwell(clock, float64(m.dwell)/float64(time.Millisecond))
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
