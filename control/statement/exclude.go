package statement

import (
	"fmt"
	"slices"
	"strings"

	"muniment.example/control/dispute"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/statement"
)

// mostExcluded bounds the receipts that a statement names one by one. Disputes that are UPHELD fill at
// most half of it, so resolving some makes space.
const mostExcluded = 2 * dispute.MaxUpheldReceipts

// exclusions returns disputes in the form of a statement's document, sorted by id.
func exclusions(disputes dispute.Excluded) ([]statement.Exclusion, error) {
	list, receipts := []statement.Exclusion{}, 0
	for i := range disputes {
		d := &disputes[i]
		x := statement.Exclusion{DisputeID: d.ID, ReceiptIDs: []string{}, State: statement.ExclusionHeld}
		if !d.Held() {
			x.State = statement.ExclusionUpheld
		}
		if d.RightID != "" {
			x.RightID, x.From, x.To = &d.RightID, new(d.Window.From.String()), new(d.Window.To.String())
		} else {
			x.ReceiptIDs = d.ReceiptIDs
		}
		if receipts += len(x.ReceiptIDs); receipts > mostExcluded {
			return nil, api.Conflict(fmt.Sprintf("the disputes of the period name more than %d receipts by their ids: resolve some, or choose a shorter period", mostExcluded))
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b statement.Exclusion) int { return strings.Compare(a.DisputeID, b.DisputeID) })
	return list, nil
}

// excludedBy converts a statement's exclusions back into disputes.
func excludedBy(list []statement.Exclusion) (all dispute.Excluded, err error) {
	for _, x := range list {
		e := dispute.Exclusion{ID: x.DisputeID, State: dispute.Open, ReceiptIDs: x.ReceiptIDs}
		if x.State == statement.ExclusionUpheld {
			e.State, e.Outcome = dispute.Resolved, dispute.Upheld
		}
		if x.RightID != nil {
			from, err := canonical.ParseTime(*x.From)
			if err != nil {
				return nil, err
			}
			to, err := canonical.ParseTime(*x.To)
			if err != nil {
				return nil, err
			}
			e.RightID, e.Window = *x.RightID, dispute.Window{From: store.At(from), To: store.At(to)}
		}
		all = append(all, e)
	}
	return all, nil
}

// split separates open disputes from upheld ones.
func split(disputes dispute.Excluded) (held, upheld dispute.Parts) {
	isHeld := func(x dispute.Exclusion) bool { return x.Held() }
	isUpheld := func(x dispute.Exclusion) bool { return !x.Held() }
	return slices.DeleteFunc(slices.Clone(disputes), isUpheld).Parts(), slices.DeleteFunc(slices.Clone(disputes), isHeld).Parts()
}
