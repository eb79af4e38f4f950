package statement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment/control/dispute"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// mostExcluded bounds the receipts that a statement names one by one.
const mostExcluded = 100_000

// clocksApart is how far a play may be ahead of its receipt, and clocks of each other, at most.
const clocksApart = time.Hour

// touching are the disputes that may be about receipts of a period, as they were known at a
// moment. A receipt is issued when it is rendered or later: one that was issued before the period,
// or behind the moment, is not among them.
func touching(disputes dispute.Excluded, from, to, at time.Time) dispute.Excluded {
	return slices.DeleteFunc(slices.Clone(disputes), func(x dispute.Exclusion) bool {
		if x.RightID != "" {
			return !x.Window.From.Before(to) || !from.Before(x.Window.To.Time)
		}
		return !slices.ContainsFunc(x.ReceiptIDs, func(id string) bool {
			issued := issuedAt(id)
			return !issued.Before(from.Add(-clocksApart)) && !issued.After(at.Add(clocksApart))
		})
	})
}

// exclusions are disputes as a statement has them, by id.
func exclusions(disputes dispute.Excluded) ([]sealer.StatementExclusion, error) {
	list, receipts := []sealer.StatementExclusion{}, 0
	for i := range disputes {
		d := &disputes[i]
		x := sealer.StatementExclusion{DisputeID: d.ID, ReceiptIDs: []string{}, State: sealer.ExclusionHeld}
		if !d.Held() {
			x.State = sealer.ExclusionUpheld
		}
		if d.RightID != "" {
			x.RightID, x.From, x.To = &d.RightID, new(d.Window.From.String()), new(d.Window.To.String())
		} else {
			x.ReceiptIDs = d.ReceiptIDs
		}
		if receipts += len(x.ReceiptIDs); receipts > mostExcluded {
			return nil, api.Conflict(fmt.Sprintf("more than %d receipts of the period are or were disputed one by one: state a shorter period", mostExcluded))
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b sealer.StatementExclusion) int { return strings.Compare(a.DisputeID, b.DisputeID) })
	return list, nil
}

// excludedBy are the disputes that a statement's exclusions are of.
func excludedBy(list []sealer.StatementExclusion) (all dispute.Excluded, err error) {
	for _, x := range list {
		e := dispute.Exclusion{ID: x.DisputeID, State: dispute.Open, ReceiptIDs: x.ReceiptIDs}
		if x.State == sealer.ExclusionUpheld {
			e.State, e.Outcome = dispute.Resolved, dispute.Upheld
		}
		if x.RightID != nil {
			from, err := sealer.ParseTime(*x.From)
			if err != nil {
				return nil, err
			}
			to, err := sealer.ParseTime(*x.To)
			if err != nil {
				return nil, err
			}
			e.RightID, e.Window = *x.RightID, dispute.Window{From: store.At(from), To: store.At(to)}
		}
		all = append(all, e)
	}
	return all, nil
}

// split separates what is held from what was upheld.
func split(disputes dispute.Excluded) (held, upheld dispute.Parts) {
	isHeld := func(x dispute.Exclusion) bool { return x.Held() }
	isUpheld := func(x dispute.Exclusion) bool { return !x.Held() }
	return slices.DeleteFunc(slices.Clone(disputes), isUpheld).Parts(), slices.DeleteFunc(slices.Clone(disputes), isHeld).Parts()
}

// issuedAt is when a receipt was issued, by its id; the zero time if that has none.
func issuedAt(receiptID string) time.Time {
	id, err := ulid.ParseStrict(strings.TrimPrefix(receiptID, string(api.PrefixReceipt)))
	if err != nil {
		return time.Time{}
	}
	return id.Timestamp()
}
