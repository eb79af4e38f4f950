package offer

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/store"
)

const (
	// every is how often Run looks, unless the Config says otherwise.
	every = time.Second
	// batch is the most offers that one change expires: others wait for it.
	batch = 100
)

// Run writes down, with an event each, which offers have expired, until ctx is done;
// then it returns nil. Any number of processes may run it. While the database is away
// it tries again, and nothing is lost but time: an offer that is due is EXPIRED for
// its readers already.
func (r *Room) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	for failing := false; ; {
		err := r.expireAll(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			r.logger.Error("cannot expire offers; it is tried again", "err", err)
		case err == nil && failing:
			r.logger.Info("offers expire again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// expireAll goes on in batches until nothing is due. It looks before it asks for a
// change, which others would have to wait for.
func (r *Room) expireAll(ctx context.Context) error {
	for {
		now := r.db.Now()
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
			if _, err := move(ctx, tx, o.TenantID, o.ID, Expire, nil, store.BySystem(), nil); err != nil {
				return fmt.Errorf("cannot expire the offer %s: %w", o.ID, err)
			}
		}
		n = len(due)
		return nil
	})
	return n, err
}
