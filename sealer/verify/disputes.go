package verify

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment/sealer"
)

// disputed is what the events of a dispute say.
type disputed struct {
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
	windows  map[string][]excludedWindow // by right
}

type excludedWindow struct {
	from, to int64
	state    string
}

func newExclusions(list []sealer.StatementExclusion) (e exclusions, err error) {
	e = exclusions{make(map[ulid.ULID]string), make(map[string][]excludedWindow)}
	for _, x := range list {
		if x.State != sealer.ExclusionHeld && x.State != sealer.ExclusionUpheld {
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
		from, err := sealer.ParseTime(*x.From)
		if err != nil {
			return e, err
		}
		to, err := sealer.ParseTime(*x.To)
		if err != nil {
			return e, err
		}
		e.windows[*x.RightID] = append(e.windows[*x.RightID], excludedWindow{from.UnixMilli(), to.UnixMilli(), x.State})
	}
	return e, nil
}

// state is that in which a receipt is excluded, empty if it is not.
func (e *exclusions) state(r *sealer.Rated) string {
	state := e.receipts[r.ID]
	for _, w := range e.windows[r.Row.RightID] {
		if w.from <= r.RenderedAt && r.RenderedAt < w.to {
			state = max(state, w.state)
		}
	}
	return state
}

// disputes checks that each exclusion is of a dispute, and that each dispute by the time of the
// issue is excluded. What became of a dispute is certain only if the event of the issue is at hand:
// the log holds all that was before it.
func (s *statementFile) disputes(v *verification, issued bool) {
	opened, resolved := make(map[string]disputed), make(map[string]disputed)
	for i := range v.files {
		f := &v.files[i]
		if f.conduct == nil || f.conduct.tenantID != s.said.TenantID || !f.ok() {
			continue
		}
		for _, d := range f.conduct.disputes {
			switch {
			case d.at.After(s.said.IssuedAt.Time):
			case d.kind == disputeOpened:
				opened[d.id] = d
			default:
				resolved[d.id] = d
			}
		}
	}
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	listed := make(map[string]bool)
	for _, x := range s.said.Excluded {
		listed[x.DisputeID] = true
		d, known := opened[x.DisputeID]
		end, over := resolved[x.DisputeID]
		switch upheld := over && end.Outcome != nil && *end.Outcome == sealer.ExclusionUpheld; {
		case !known:
			s.pass(StatementUnproven, "no given file holds the event of dispute %s, by which receipts are left out", x.DisputeID)
		case !slices.Equal(d.ReceiptIDs, x.ReceiptIDs) || !same(d.RightID, x.RightID) || !same(d.Window.From, x.From) || !same(d.Window.To, x.To):
			s.fail(StatementExcluded, "dispute %s, leaf %d, is about other receipts than the statement leaves out for it", x.DisputeID, d.leaf)
		case x.State == sealer.ExclusionUpheld && !upheld:
			s.fail(StatementExcluded, "the log does not say that dispute %s was upheld", x.DisputeID)
		case x.State == sealer.ExclusionHeld && over:
			s.fail(StatementExcluded, "dispute %s was resolved by leaf %d, and is held", x.DisputeID, end.leaf)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(opened)) {
		d := opened[id]
		end, over := resolved[id]
		switch rejected := over && (end.Outcome == nil || *end.Outcome != sealer.ExclusionUpheld); {
		case listed[id] || rejected || !s.concerns(&d):
		case over || issued:
			s.fail(StatementExcluded, "dispute %s, leaf %d, is about receipts of the period, which are not left out", id, d.leaf)
		default:
			s.pass(StatementUnproven, "dispute %s, leaf %d, is about receipts of the period, which are not left out: no given file says that it was rejected before the issue", id, d.leaf)
		}
	}
}

// concerns reports whether a dispute is certainly about what is stated: a window that meets the period,
// or a receipt that was issued within it.
func (s *statementFile) concerns(d *disputed) bool {
	from, to := s.said.From.Time, s.said.To.Time
	if d.RightID != nil && d.Window.From != nil && d.Window.To != nil {
		begin, err := sealer.ParseTime(*d.Window.From)
		end, fault := sealer.ParseTime(*d.Window.To)
		return err == nil && fault == nil && begin.Before(to) && from.Before(end)
	}
	return slices.ContainsFunc(d.ReceiptIDs, func(receiptID string) bool {
		id, err := sealer.ParseID(sealer.ReceiptPrefix, receiptID)
		return err == nil && !id.Timestamp().Before(from) && id.Timestamp().Before(to)
	})
}
