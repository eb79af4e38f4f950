package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// stopRecord is what all sound files of one log say of rights and API keys.
type stopRecord struct {
	bound   time.Duration
	rights  map[keptID][]rightMove // by rising revision
	parents map[keptID][]keptID
	keys    map[keptID]time.Time // the first revocation of each
	ranges  []leafRun            // of leaves at hand, rising, with gaps in between
	seals   []seal               // of leaves at hand, by rising size; at is the latest of the range from there on
}

// leafRun is the leaves from first to below end.
type leafRun struct{ first, end uint64 }

// stops compares the deliveries of all sound files with the stops in them. It is called once
// everything else is judged.
func (v *verification) stops(bound time.Duration) {
	if bound == 0 {
		bound = DefaultBound
	}
	v.stopped = make(map[string]*stopRecord)
	var files []*FileReport
	for i := range v.files {
		f := &v.files[i]
		if f.conduct == nil || !f.ok() {
			continue
		}
		files = append(files, f)
		s := v.stopped[f.conduct.tenantID]
		if s == nil {
			s = &stopRecord{bound: bound, rights: make(map[keptID][]rightMove), parents: make(map[keptID][]keptID), keys: make(map[keptID]time.Time)}
			v.stopped[f.conduct.tenantID] = s
		}
		s.learn(f.conduct)
	}
	for _, s := range v.stopped {
		s.settle()
	}
	for _, f := range files {
		v.stopped[f.conduct.tenantID].judge(f)
	}
}

func (s *stopRecord) learn(c *conduct) {
	for _, m := range c.moves {
		s.rights[m.right] = append(s.rights[m.right], m)
	}
	for right, parents := range c.parents {
		s.parents[right] = append(s.parents[right], parents...)
	}
	for _, k := range c.keys {
		if at, known := s.keys[k.key]; !known || k.at.Before(at) {
			s.keys[k.key] = k.at
		}
	}
	s.ranges = append(s.ranges, leafRun{c.first, c.first + c.entries})
	s.seals = append(s.seals, c.seals...)
}

// settle sorts what was learned.
func (s *stopRecord) settle() {
	for _, moves := range s.rights {
		slices.SortFunc(moves, func(a, b rightMove) int {
			return cmp.Or(cmp.Compare(a.revision, b.revision), strings.Compare(a.kind, b.kind), cmp.Compare(a.leaf, b.leaf))
		})
	}
	slices.SortFunc(s.ranges, func(a, b leafRun) int { return cmp.Compare(a.first, b.first) })
	joined := s.ranges[:1]
	for _, r := range s.ranges[1:] {
		if last := &joined[len(joined)-1]; r.first <= last.end {
			last.end = max(last.end, r.end)
		} else {
			joined = append(joined, r)
		}
	}
	s.ranges = joined
	s.seals = slices.DeleteFunc(s.seals, func(b seal) bool { return !s.complete(b.size-1, b.size-1) })
	slices.SortFunc(s.seals, func(a, b seal) int { return cmp.Compare(a.size, b.size) })
	for i := len(s.seals) - 2; i >= 0; i-- {
		if later := s.seals[i+1]; later.at.After(s.seals[i].at) && s.complete(s.seals[i].size-1, later.size-1) {
			s.seals[i].at = later.at
		}
	}
}

// judge adds what is wrong with the deliveries of a file, and remarks.
func (s *stopRecord) judge(f *FileReport) {
	if len(s.rights) == 0 && len(s.keys) == 0 {
		return
	}
	var faults, late, unproven []Verdict
	for i := range f.conduct.deliveries {
		d := f.conduct.delivery(i)
		v := s.delivery(d)
		if v.Code == "" {
			continue
		}
		if !f.conduct.single {
			index := int(d.leaf - f.conduct.first)
			v.Index = &index
		}
		switch v.Code {
		case RightLate:
			late = append(late, v)
		case RightUnproven:
			unproven = append(unproven, v)
		default:
			faults = append(faults, v)
		}
	}
	f.add(namedFaults(faults)...)
	f.add(firstOf(late)...)
	f.add(firstOf(unproven)...)
}

// firstOf is the first of some remarks, with the number of the others.
func firstOf(remarks []Verdict) []Verdict {
	if len(remarks) > 1 {
		remarks[0].Message += fmt.Sprintf("; and so of %s more", count(len(remarks)-1, "receipt"))
	}
	return remarks[:min(1, len(remarks))]
}

// gravity orders the codes of a delivery: of several the first counts.
var gravity = []sealer.Code{APIKeyRevoked, RightStopped, RightLate, RightUnproven, ""}

func graver(a, b Verdict) Verdict {
	if slices.Index(gravity, b.Code) < slices.Index(gravity, a.Code) {
		return b
	}
	return a
}

// delivery judges one delivery; the code is empty if nothing is wrong.
func (s *stopRecord) delivery(d *decidedDelivery) Verdict {
	if at, ok := s.keys[d.key]; ok && s.behind(d, at) {
		return found(APIKeyRevoked, fmt.Sprintf("issued at %s, by the API key %s that was revoked at %s", canonical.FormatTime(d.at), d.key.Value(), canonical.FormatTime(at)))
	}
	v := s.own(d)
	for _, ancestor := range s.ancestors(d.right) {
		v = graver(v, s.ancestor(d, ancestor))
	}
	return v
}

// behind reports whether the delivery was issued later than a stop by more than the bound.
func (s *stopRecord) behind(d *decidedDelivery, at time.Time) bool {
	return d.at.After(at.Add(s.bound))
}

// own compares a delivery with the stops of its own right.
func (s *stopRecord) own(d *decidedDelivery) Verdict {
	moves := s.rights[d.right]
	v := d.verdict(s.within(moves, d))
	for i := range moves {
		if m := &moves[i]; m.stops() && d.revision < m.revision && s.behind(d, m.at) {
			v = graver(v, d.verdict(RightLate, m))
		}
	}
	return graver(v, s.played(d, moves))
}

// played compares when a delivery was rendered with the suspensions of its right, or of one that it
// derives from: rows of batches are issued long after that. In a suspension nothing is played. It
// was known to who decided the delivery on a revision of the resumption or a later one; and to
// everyone once the bound has passed since it began.
func (s *stopRecord) played(d *decidedDelivery, moves []rightMove) Verdict {
	for i := range moves {
		m := &moves[i]
		if m.kind != rightSuspended || d.rendered.Before(m.at) {
			continue
		}
		end := following(moves[i:])
		switch {
		case end == nil && !s.sealed(m.leaf).After(d.at.Add(s.bound+sealDelay)), // whether it was resumed is not at hand
			end != nil && (!d.rendered.Before(end.at) || !s.complete(m.leaf, end.leaf)):
			continue
		}
		if s.behind(d, m.at) || m.right == d.right && end != nil && end.kind == rightResumed && d.revision >= end.revision {
			return d.playedIn(m)
		}
	}
	return Verdict{}
}

// playedIn says that a delivery was rendered in a suspension.
func (d *decidedDelivery) playedIn(m *rightMove) Verdict {
	v := d.verdict(RightStopped, m)
	v.Message = fmt.Sprintf("rendered at %s, while the right %s was suspended, since %s, with revision %d; this was decided on revision %d of %s and issued at %s",
		canonical.FormatTime(d.rendered), m.right.Value(), canonical.FormatTime(m.at), m.revision, d.revision, d.right.Value(), canonical.FormatTime(d.at))
	return v
}

// sealDelay is how long after a delivery a pack has to be sealed to hold, for certain, every
// change of control that the delivery was decided by: control waits for those before it seals,
// and clocks and relays do not differ by that much.
const sealDelay = time.Hour

// within reports whether the revision of a delivery lies within a stop, by the moves at hand,
// and returns that stop. Behind a suspension the right has no other revision
// until it is resumed; but a resumption may be missing because its leaf is not at hand, or
// not sealed yet.
func (s *stopRecord) within(moves []rightMove, d *decidedDelivery) (sealer.Code, *rightMove) {
	var last, next *rightMove
	for i := range moves {
		m := &moves[i]
		switch {
		case m.revision > d.revision:
			if next == nil {
				next = m
			}
		case m.kind == rightRevoked, m.stops() && m.revision == d.revision:
			return RightStopped, m
		default:
			last = m
		}
	}
	switch {
	case last == nil || last.kind != rightSuspended:
		return "", nil
	case next != nil && next.kind == rightResumed && s.complete(last.leaf, next.leaf),
		s.sealed(last.leaf).After(d.at.Add(s.bound + sealDelay)):
		return RightStopped, last
	}
	return RightUnproven, last
}

// complete reports whether all leaves between two are at hand.
func (s *stopRecord) complete(a, b uint64) bool {
	i, _ := slices.BinarySearchFunc(s.ranges, min(a, b), func(r leafRun, leaf uint64) int { return cmp.Compare(r.end, leaf+1) })
	return i < len(s.ranges) && s.ranges[i].first <= min(a, b) && max(a, b) < s.ranges[i].end
}

// sealed is the latest moment at which a pack was sealed up to whose end all leaves from one
// on are at hand; zero if there is none.
func (s *stopRecord) sealed(leaf uint64) time.Time {
	i, _ := slices.BinarySearchFunc(s.seals, leaf+1, func(b seal, size uint64) int { return cmp.Compare(b.size, size) })
	if i == len(s.seals) || !s.complete(leaf, s.seals[i].size-1) {
		return time.Time{}
	}
	return s.seals[i].at
}

// ancestor compares a delivery with the stops of a right that its own derives from. The
// revision is not the ancestor's, and a right may be resumed while its ancestor is stopped:
// it proves something about the ancestor only if the right was issued with it, because no
// right is derived from one that is stopped. All else goes by time.
func (s *stopRecord) ancestor(d *decidedDelivery, ancestor keptID) (v Verdict) {
	moves := s.rights[ancestor]
	if slices.ContainsFunc(s.rights[d.right], func(m rightMove) bool { return m.kind == rightIssued && m.revision == d.revision }) {
		v = d.verdict(s.within(moves, d))
	}
	for i := range moves {
		if m := &moves[i]; m.stops() && s.behind(d, m.at) {
			v = graver(v, d.verdict(d.behind(moves[i:]), m))
		}
	}
	return graver(v, s.played(d, moves))
}

// behind is the code of a delivery that was issued later than a stop of an ancestor by more than
// the bound. moves are the ancestor's, from that stop on.
func (d *decidedDelivery) behind(moves []rightMove) sealer.Code {
	stop, end := &moves[0], following(moves)
	switch {
	case stop.kind == rightRevoked && stop.revision <= d.revision:
		return RightStopped
	case stop.kind == rightRevoked:
		return RightLate
	case end == nil, end.kind == rightSuspended: // when it was resumed is not at hand
		return RightUnproven
	case d.at.Before(end.at):
		return RightLate
	}
	return ""
}

// following is the first of the moves that has another revision than the first; nil if there
// is none.
func following(moves []rightMove) *rightMove {
	for i := range moves {
		if moves[i].revision > moves[0].revision {
			return &moves[i]
		}
	}
	return nil
}

func (m *rightMove) stops() bool { return m.kind == rightSuspended || m.kind == rightRevoked }

// verdict says what a stop means for a delivery; nothing without a code.
func (d *decidedDelivery) verdict(code sealer.Code, by *rightMove) Verdict {
	if code == "" {
		return Verdict{}
	}
	whose := "right " + d.right.Value()
	if by.right != d.right {
		whose += " derives from " + by.right.Value() + ", which"
	}
	message := fmt.Sprintf("%s was %s at %s, with revision %d; this was decided on revision %d and issued at %s",
		whose, strings.TrimPrefix(by.kind, "right."), canonical.FormatTime(by.at), by.revision, d.revision, canonical.FormatTime(d.at))
	switch {
	case code == RightUnproven:
		message += "; no given file shows that the right was resumed"
	case code == RightStopped && by.kind == rightSuspended && by.revision < d.revision:
		message += "; it was not resumed in between"
	}
	return found(code, message)
}

// ancestors are the rights that a right derives from, as far as events at hand name them.
func (s *stopRecord) ancestors(right keptID) []keptID {
	all := []keptID{right}
	for i := 0; i < len(all); i++ {
		for _, parent := range s.parents[all[i]] {
			if !slices.Contains(all, parent) {
				all = append(all, parent)
			}
		}
	}
	return all[1:]
}
