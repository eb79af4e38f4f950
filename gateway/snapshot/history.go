package snapshot

import (
	"context"
	"slices"
	"time"

	"muniment.example/gateway/api"
)

// history is what a node knows of a right's own suspensions, as in api.Right: all that last or ended
// since a moment, oldest first.
type history struct {
	suspensions []api.Suspension
	since       time.Time
}

// holds reports whether the right was suspended at a time. known is false if control has to say so:
// a suspension that still lasts here may have ended, since this node may be behind, and a refusal is
// final.
func (h *history) holds(at time.Time) (suspended, known bool) {
	for i := range h.suspensions {
		if s := &h.suspensions[i]; s.Holds(at) {
			return true, !s.Until.IsZero()
		}
	}
	return false, !at.Before(h.since)
}

// notBefore returns a time that is not before at, and in no suspension that has ended.
func (h *history) notBefore(at time.Time) time.Time {
	if at.Before(h.since) {
		at = h.since
	}
	for i := range h.suspensions {
		if s := &h.suspensions[i]; !s.Until.IsZero() && s.Holds(at) {
			at = s.Until
		}
	}
	return at
}

var (
	errRowNotYet    = notInForce("the right was not in effect yet when this was played")
	errRowNoLonger  = notInForce("the right was no longer in effect when this was played")
	errRowSuspended = notInForce("the right, or one that it derives from, was suspended when this was played")
	errRowRevoked   = api.Conflict("the right is REVOKED: no receipt is issued any more, also not for what was played before")
	errRowBlocked   = api.Conflict("a right that the right derives from is REVOKED: no receipt is issued any more, also not for what was played before")
)

func notInForce(message string) error {
	e := api.Conflict(message)
	e.Reason = api.RightNotInForce
	return e
}

// Moments holds control's answers on moments in the history of rights. It belongs to one batch.
type Moments map[moment]momentRead

type moment struct {
	rightID string
	ms      int64
}

// momentRead is control's answer on a moment.
type momentRead struct {
	suspended bool
	err       error
}

func momentOf(m *api.RightMoment) moment { return moment{m.RightID, m.At.UnixMilli()} }

// ReadMoments requests moments from control into read. Of those that control does not answer, the
// error is a 503.
func (v *View) ReadMoments(ctx context.Context, moments []api.RightMoment, read Moments) {
	for some := range slices.Chunk(moments, api.MostSnapshots) {
		found, err := v.readMoments(ctx, some)
		for i := range some {
			if err != nil {
				read[momentOf(&some[i])] = momentRead{err: errAway}
			} else {
				read[momentOf(&some[i])] = momentRead{suspended: found[i]}
			}
		}
	}
}

func (v *View) readMoments(ctx context.Context, moments []api.RightMoment) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	v.metrics.misses.Add(float64(len(moments)))
	found, err := v.cfg.Source.Suspended(ctx, moments)
	if err != nil {
		v.metrics.loadErrors.Inc()
	}
	return found, err
}

// Permits decides whether a right, of KnownRight, permits a row that was played at a moment: the
// right and its ancestors were in force then, and none of them is revoked now. suspended says that
// they were, but that one of them is suspended now: the row must wait. The error is a 409 with the
// reason RIGHT_NOT_IN_FORCE, or without it if the right is revoked, or a 503. Where unknown is not
// empty, nothing is decided: these moments are to be read first.
func (v *View) Permits(r *Right, at time.Time, read Moments) (suspended bool, unknown []api.RightMoment, err error) {
	if at.Before(r.EffectiveFrom) {
		return false, nil, errRowNotYet
	}
	if !r.EffectiveUntil.IsZero() && !at.Before(r.EffectiveUntil) {
		return false, nil, errRowNoLonger
	}
	suspended = r.State == api.RightSuspended
	var refused, away error
	judge := func(id string, h *history) {
		in, known := h.holds(at)
		if !known {
			m := api.RightMoment{RightID: id, At: at}
			found, asked := read[momentOf(&m)]
			if !asked {
				unknown = append(unknown, m)
			} else if found.err != nil {
				away = found.err
			}
			in = found.suspended
		}
		if in {
			refused = errRowSuspended
		}
	}
	judge(r.ID, &history{r.Suspensions, r.SuspensionsSince})
	for _, id := range r.Ancestors {
		a, ok := v.stopped.get(id)
		switch {
		case !ok: // it was never stopped
			continue
		case a.stopped && a.what.state != api.RightSuspended:
			return false, nil, errRowBlocked
		}
		suspended = suspended || a.stopped
		judge(id, &a.what.history)
	}
	switch {
	case refused != nil:
		return false, nil, refused
	case len(unknown) > 0:
		return false, unknown, nil
	}
	return suspended, nil, away
}

// NotBefore returns the earliest moment, from one on, that is in no suspension of the right or of an
// ancestor that the node knows to be over. The suspensions are dated by control's clock: if this
// node's clock shows a time in one of them, it is behind. If it is behind by more than
// api.ClockSlack, the error is a 503: no receipt is dated so far ahead of the clock.
func (v *View) NotBefore(r *Right, at time.Time) (time.Time, error) {
	for latest := at.Add(api.ClockSlack); ; {
		later := (&history{r.Suspensions, r.SuspensionsSince}).notBefore(at)
		for _, id := range r.Ancestors {
			if a, ok := v.stopped.get(id); ok {
				later = a.what.notBefore(later)
			}
		}
		switch {
		case later.After(latest):
			return at, errClock
		case later.Equal(at):
			return at, nil
		}
		at = later
	}
}
