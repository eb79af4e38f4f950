// Package historytest holds what nodes decided, while rights were suspended, resumed and
// revoked, against the promise: no receipt later than the acknowledgement of a revocation
// plus the bound. Tests write a History down, in a simulation (control) or from real
// processes (the root), and Check it. Shipped code does not import it.
//
// To its operator a right is a register that holds a state, and a change of it takes
// effect at one moment between call and acknowledgement. A node decides at a moment c,
// which is the receipt's moment of issue, and only if it holds a lease then: it asked
// for the feed at c-bound or later, and has applied all that the answer, read after
// that, named. So the state that it decides by was the newest at some moment of
// [c-bound, r], r being when it knew: nothing older, by the lease; nothing later, as
// no answer comes from the future. Hence the decision is written down as a read of
// the register that was called at c-bound and returned at r, and the promise holds if
// and only if the history of each right is linearizable: a decision by a state that was
// replaced before c-bound finds no place in it, nor does one by a state that never was.
//
// When a change is acknowledged as applied, it says more: no node decides by an older
// state any more. Then a later decision is called at the acknowledgement, if that is
// later than c-bound. (One operator to a right, so no other change lies in between.)
//
// A receipt on a derived right is a read of that right and one of each ancestor: each
// was ACTIVE at some moment of the interval, not all of them at one.
package historytest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"muniment.example/gateway/api"
)

// History of rights, each ACTIVE at first. Its methods may be called at the same time.
// All moments are of one clock.
type History struct {
	mu     sync.Mutex
	rights map[string]*register
}

type register struct {
	ops     []porcupine.Operation
	applied []int64 // when a change was acknowledged as applied
}

// model of a right. A change's input is the new state; a decision's input is nil, and
// its output what it found.
var model = porcupine.Model{
	Init: func() any { return api.RightActive },
	Step: func(state, input, output any) (bool, any) {
		if input != nil {
			return state != api.RightRevoked, input
		}
		return state == output, state
	},
}

// Changed notes a change by the right's operator, and whether it was acknowledged as
// applied by every live node. The changes of a right are noted one after the other.
func (h *History) Changed(rightID string, to api.RightState, called, acknowledged time.Time, applied bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.of(rightID)
	r.ops = append(r.ops, porcupine.Operation{Input: to, Call: called.UnixNano(), Return: acknowledged.UnixNano()})
	if applied {
		r.applied = append(r.applied, acknowledged.UnixNano())
	}
}

// Decided notes by which state a node decided: when that was, or not before, and a moment
// at which it knew. A receipt is a decision by ACTIVE at its moment of issue.
func (h *History) Decided(rightID string, by api.RightState, issued, knew time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.of(rightID)
	r.ops = append(r.ops, porcupine.Operation{Output: by, Call: issued.UnixNano(), Return: knew.UnixNano()})
}

func (h *History) of(rightID string) *register {
	if h.rights == nil {
		h.rights = map[string]*register{}
	}
	if h.rights[rightID] == nil {
		h.rights[rightID] = new(register)
	}
	return h.rights[rightID]
}

// Check holds the history of each right against the model, and receipts against the
// bound once more, by plain comparison; the error is what does not hold. It returns how
// many operations there were, and how many receipts were issued behind an acknowledged
// stop, within the bound. It is called once, when all is noted.
func (h *History) Check(bound time.Duration) (operations, behind int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, r := range h.rights {
		n, err := r.check(bound)
		if err != nil {
			return 0, 0, fmt.Errorf("of the %d operations on %s: %w", len(r.ops), id, err)
		}
		behind += n
		operations += len(r.ops)
	}
	return operations, behind, nil
}

func (r *register) check(bound time.Duration) (behind int, err error) {
	ops := slices.Clone(r.ops)
	changes := slices.DeleteFunc(slices.Clone(ops), func(o porcupine.Operation) bool { return o.Input == nil })
	for i := range ops {
		o := &ops[i]
		if o.Input != nil {
			continue
		}
		// Which state was the newest that was acknowledged when this was issued?
		k := len(changes) - 1
		for k >= 0 && changes[k].Return >= o.Call {
			k--
		}
		if o.Output == api.RightActive && k >= 0 && changes[k].Input != api.RightActive && (k+1 == len(changes) || changes[k+1].Call > o.Return) {
			late := time.Duration(o.Call - changes[k].Return)
			if late > bound {
				return 0, fmt.Errorf("a receipt was issued %v after a stop was acknowledged", late)
			}
			behind++
		}
		issued := o.Call
		o.Call -= int64(bound)
		for _, at := range r.applied {
			if at < issued {
				o.Call = max(o.Call, at+1) // two that meet in a moment may have had either order
			}
		}
	}
	ops = slices.DeleteFunc(ops, func(o porcupine.Operation) bool { return o.Input == nil && surely(changes, o) })
	if !porcupine.CheckOperations(model, ops) {
		return 0, errors.New("the history is not linearizable")
	}
	return behind, nil
}

// surely says that a decision has a place wherever the changes have theirs: between one
// that was acknowledged and the call of the next. To leave it out is no change of the
// verdict.
func surely(changes []porcupine.Operation, o porcupine.Operation) bool {
	began, state := int64(math.MinInt64), any(api.RightActive)
	for _, c := range changes {
		if state == o.Output && max(began, o.Call) < min(c.Call, o.Return) {
			return true
		}
		began, state = c.Return, c.Input
	}
	return state == o.Output && began < o.Return
}
