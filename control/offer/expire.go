package offer

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/store"
)

// batch is the most offers that one change expires: others wait for it.
const batch = 100

// Expire writes down, with an event each, which offers have expired, in batches until
// nothing is due. Any number of processes may do so. Nothing is lost but time while the
// database is away: an offer that is due is EXPIRED for its readers already.
func (r *Room) Expire(ctx context.Context) error {
	for {
		now := r.db.Now()
		// It looks before it asks for a change, which others would have to wait for.
		due, err := listDue(ctx, r.db.Read(), store.At(now), 1)
		if err != nil {
			return err
		}
		if len(due) == 0 {
			r.passed.Store(&now)
			return nil
		}
		if _, err := r.expire(ctx, batch); err != nil {
			return err
		}
	}
}

// register shows for how long offers may have expired without an event. Whatever keeps
// the job from its end shows in it: errors, more offers than it can write, or a halt.
func (r *Room) register(to prometheus.Registerer) error {
	if to == nil {
		return nil
	}
	return to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_offer_expiry_age_seconds",
		Help: "Time since this process last found every expired offer written down.",
	}, func() float64 { return r.db.Now().Sub(*r.passed.Load()).Seconds() }))
}

// expire writes down, in one change, which of the offers have expired, as many as
// given at most. It returns how many there were.
func (r *Room) expire(ctx context.Context, most int) (n int, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		due, err := listDue(ctx, tx, store.At(tx.Now()), most)
		if err != nil {
			return err
		}
		for _, o := range due {
			if _, err := move(ctx, tx, o.TenantID, o.ID, Expire, asserter{by: store.BySystem()}, nil); err != nil {
				return fmt.Errorf("cannot expire the offer %s: %w", o.ID, err)
			}
		}
		n = len(due)
		return nil
	})
	return n, err
}
