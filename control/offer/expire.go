package offer

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/store"
)

// batch is how many offers one change expires; other changes wait for it.
const batch = 100

// Expire stores the state EXPIRED, with an event each, in batches until no offer is due. Any number
// of processes may run it. A delay does no harm: readers already see a due offer as EXPIRED.
func (s *Service) Expire(ctx context.Context) error {
	for {
		now := s.db.Now()
		// It reads first, since other changes wait for a change.
		due, err := listDue(ctx, s.db.Read(), store.At(now), 1)
		if err != nil {
			return err
		}
		if len(due) == 0 {
			s.passed.Store(&now)
			return nil
		}
		if _, err := s.expire(ctx, batch); err != nil {
			return err
		}
	}
}

// register registers the gauge of how long offers may have been expired without an event, because
// of errors, too many offers, or a stalled process.
func (s *Service) register(to prometheus.Registerer) error {
	if to == nil {
		return nil
	}
	return to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_offer_expiry_age_seconds",
		Help: "Time since every expired offer was last seen stored by this process.",
	}, func() float64 { return s.db.Now().Sub(*s.passed.Load()).Seconds() }))
}

// expire stores EXPIRED for at most so many offers in one change. It returns how many there were.
func (s *Service) expire(ctx context.Context, most int) (n int, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
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
