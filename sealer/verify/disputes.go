package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/statement"
)

// disputeHistory is what the events of a dispute say.
type disputeHistory struct {
	leaf       uint64
	at         time.Time
	id, kind   string
	Outcome    *string
	ReceiptIDs []string
	RightID    *string
	Window     struct{ From, To *string }
}

// exclusions are looked up by receipt.
type exclusions struct {
	receipts map[ulid.ULID]string
	windows  map[string]*excludedWindows // by right
}

// excludedWindows are those of one right: disjoint, and sorted by time.
type excludedWindows struct{ held, upheld []excludedWindow }

type excludedWindow struct{ from, to int64 }

func newExclusions(list []statement.Exclusion) (e exclusions, err error) {
	e = exclusions{make(map[ulid.ULID]string), make(map[string]*excludedWindows)}
	for _, x := range list {
		if x.State != statement.ExclusionHeld && x.State != statement.ExclusionUpheld {
			return e, fmt.Errorf("a state %q of dispute %s", x.State, x.DisputeID)
		}
		for _, receiptID := range x.ReceiptIDs {
			id, err := sealer.ParseID(sealer.ReceiptPrefix, receiptID)
			if err != nil {
				return e, err
			}
			e.receipts[id] = max(e.receipts[id], x.State) // what was upheld is not held any more
		}
		if (x.RightID == nil) != (x.From == nil || x.To == nil) {
			return e, fmt.Errorf("dispute %s names a right without a window, or the reverse", x.DisputeID)
		}
		if x.RightID == nil {
			continue
		}
		from, err := canonical.ParseTime(*x.From)
		if err != nil {
			return e, err
		}
		to, err := canonical.ParseTime(*x.To)
		if err != nil {
			return e, err
		}
		e.window(*x.RightID, x.State, excludedWindow{from.UnixMilli(), to.UnixMilli()})
	}
	for _, of := range e.windows {
		of.held, of.upheld = mergeWindows(of.held), mergeWindows(of.upheld)
	}
	return e, nil
}

func (e *exclusions) window(rightID, state string, w excludedWindow) {
	of := e.windows[rightID]
	if of == nil {
		of = new(excludedWindows)
		e.windows[rightID] = of
	}
	switch {
	case w.from >= w.to: // it holds no moment
	case state == statement.ExclusionUpheld:
		of.upheld = append(of.upheld, w)
	default:
		of.held = append(of.held, w)
	}
}

// mergeWindows joins windows that overlap or touch.
func mergeWindows(windows []excludedWindow) (merged []excludedWindow) {
	slices.SortFunc(windows, func(a, b excludedWindow) int { return cmp.Compare(a.from, b.from) })
	for _, w := range windows {
		if last := len(merged) - 1; last >= 0 && w.from <= merged[last].to {
			merged[last].to = max(merged[last].to, w.to)
		} else {
			merged = append(merged, w)
		}
	}
	return merged
}

// hold reports whether one of the windows holds a moment.
func hold(windows []excludedWindow, at int64) bool {
	next, _ := slices.BinarySearchFunc(windows, at, func(w excludedWindow, at int64) int {
		if w.from > at {
			return 1
		}
		return -1
	})
	return next > 0 && at < windows[next-1].to
}

// state is that in which a receipt of a right is excluded, empty if it is not.
func (e *exclusions) state(r *keptReceipt, rightID string) string {
	state := e.receipts[r.id]
	of := e.windows[rightID]
	switch {
	case of == nil || state == statement.ExclusionUpheld:
		return state
	case hold(of.upheld, r.renderedAt):
		return statement.ExclusionUpheld
	case hold(of.held, r.renderedAt):
		return statement.ExclusionHeld
	}
	return state
}

// before reports whether an event was there when the statement was issued: by the log's order if the
// event of the issue is at hand, else by the times that both have.
func (s *statementFile) before(d *disputeHistory) bool {
	if s.issue != nil {
		return d.leaf < s.issue.leaf
	}
	return !d.at.After(s.said.IssuedAt.Time)
}

// disputes checks that each exclusion is of a dispute, and that each dispute about receipts of the
// period that was there at the issue is excluded. What became of a dispute is certain only if the event
// of the issue is at hand: the log holds all that was before it.
func (s *statementFile) disputes(v *verification, issued bool) {
	opened, resolved := make(map[string]disputeHistory), make(map[string]disputeHistory)
	for i := range v.files {
		f := &v.files[i]
		if f.conduct == nil || f.conduct.tenantID != s.said.TenantID || !f.ok() {
			continue
		}
		for _, d := range f.conduct.disputes {
			switch {
			case !s.before(&d):
			case d.kind == disputeOpened:
				opened[d.id] = d
			default:
				resolved[d.id] = d
			}
		}
	}
	listed := make(map[string]bool)
	for _, x := range s.said.Excluded {
		listed[x.DisputeID] = true
		d, known := opened[x.DisputeID]
		end, over := resolved[x.DisputeID]
		switch upheld := over && end.Outcome != nil && *end.Outcome == statement.ExclusionUpheld; {
		case !known:
			s.say(StatementUnproven, "no given file holds the event of dispute %s, by which receipts are left out", x.DisputeID)
		case !slices.Equal(d.ReceiptIDs, x.ReceiptIDs) || !same(d.RightID, x.RightID) || !same(d.Window.From, x.From) || !same(d.Window.To, x.To):
			s.say(StatementExcluded, "dispute %s, leaf %d, is about other receipts than the statement leaves out for it", x.DisputeID, d.leaf)
		case x.State == statement.ExclusionUpheld && !upheld:
			s.say(StatementExcluded, "the log does not say that dispute %s was upheld", x.DisputeID)
		case x.State == statement.ExclusionHeld && over:
			s.say(StatementExcluded, "dispute %s was resolved by leaf %d, and is held", x.DisputeID, end.leaf)
		}
	}
	for id, d := range opened {
		end, over := resolved[id]
		if rejected := over && (end.Outcome == nil || *end.Outcome != statement.ExclusionUpheld); listed[id] || rejected {
			delete(opened, d.id)
		}
	}
	concerned := s.concerned(opened)
	for _, id := range slices.Sorted(maps.Keys(opened)) {
		d := opened[id]
		_, over := resolved[id]
		switch {
		case !concerned[id]:
		case over || issued:
			s.say(StatementExcluded, "dispute %s, leaf %d, is about receipts of the period, which are not left out", id, d.leaf)
		default:
			s.say(StatementUnproven, "dispute %s, leaf %d, is about receipts of the period, which are not left out: no given file says that it was rejected before the issue", id, d.leaf)
		}
	}
}

// concerned returns those disputes that are certainly about what is stated: whose window meets the
// period, or that name a receipt of the packs that was rendered within it.
func (s *statementFile) concerned(disputes map[string]disputeHistory) map[string]bool {
	from, to := s.said.Since.Time, s.said.To.Time
	found, named := make(map[string]bool), make(map[ulid.ULID][]string)
	for disputeID, d := range disputes {
		if d.RightID != nil && d.Window.From != nil && d.Window.To != nil {
			begin, err := canonical.ParseTime(*d.Window.From)
			end, fault := canonical.ParseTime(*d.Window.To)
			found[disputeID] = err == nil && fault == nil && begin.Before(to) && from.Before(end)
			continue
		}
		for _, receiptID := range d.ReceiptIDs {
			if id, err := sealer.ParseID(sealer.ReceiptPrefix, receiptID); err == nil {
				named[id] = append(named[id], disputeID)
			}
		}
	}
	if len(named) == 0 {
		return found
	}
	for _, c := range s.packs {
		if c.failed() || c.header.TreeSize > s.said.AsOf.TreeSize {
			continue
		}
		for _, r := range c.receipts {
			if !s.covers(r.renderedAt) {
				continue
			}
			for _, disputeID := range named[r.id] {
				found[disputeID] = true
			}
		}
	}
	return found
}
