package signing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// term is for how long the root delegates when its signing half is here.
const term = 2 * 365 * 24 * time.Hour

// notice is how long before the end of a delegation another is asked for, or from
// the last quarter of a shorter one on; repeated is how often, and urgent after the end.
const (
	notice   = 90 * 24 * time.Hour
	repeated = 24 * time.Hour
	urgent   = time.Minute
)

// Renew lets another directory key take over when the root's delegation to the
// current one ends soon, or has ended. It is to be called every minute. Without the root the
// key waits, and a warning says so once a day, after the end once a minute. What can't be
// done now is done by a later call: the current key signs on until the end.
func (s *Service) Renew(ctx context.Context) error {
	if !s.directory.endsSoon() {
		return nil
	}
	done, err := s.keys.administer(ctx, "renewing the directory key")
	if err != nil {
		return err
	}
	defer done()
	return s.directory.renew(ctx)
}

// endsSoon says whether a renewal is due, and was not tried without the root a while ago.
func (d *directoryKey) endsSoon() bool {
	from, until := d.ring().window()
	left, every := until.Sub(d.keys.db.Now()), repeated
	if left <= 0 {
		every = urgent
	}
	return left <= early(from, until) && d.keys.db.Now().Sub(d.asked) >= every
}

// renew is Renew for who has the turn to change keys.
func (d *directoryKey) renew(ctx context.Context) error {
	if !d.endsSoon() {
		return nil // another process has
	}
	_, until := d.ring().window()
	s, err := d.rotate(ctx, store.BySystem())
	if err != nil {
		return fmt.Errorf("cannot renew the directory key, whose delegation lasts until %s: %w", sealer.FormatTime(until), err)
	}
	if s.Waiting != nil {
		d.asked = d.keys.db.Now()
		d.keys.cfg.Logger.Warn("the root has to delegate to another directory key", "until", sealer.FormatTime(until), "how", d.asks(s.Waiting.KeyID))
	}
	return nil
}

// early is how long before its end a delegation is renewed.
func early(from, until time.Time) time.Duration { return min(notice, until.Sub(from)/4) }

// asks says what has to be done for a directory key that waits.
func (d *directoryKey) asks(keyID string) string {
	return fmt.Sprintf("run muniment root delegate for the public key in %s, and hand in what it prints by muniment signing-key delegate",
		beside(directoryRole.path(d.keys.cfg.Dir, keyID), requestSuffix))
}

// errEnded is all that callers are told: how it is mended is for operators.
var errEnded = api.Unavailable(api.DelegationEnded, "the root's delegation to the directory key has ended; an operator has to renew it", urgent)

// unsigned says why there is no directory key, if its delegation has ended.
func (d *directoryKey) unsigned(ctx context.Context, err error) error {
	_, until := d.ring().window()
	if d.ring().current() == nil || d.keys.db.Now().Before(until) {
		return err
	}
	text, err := d.note(ctx)
	return errors.Join(errEnded, errors.New(text), err)
}

// Delegated tells operators how long the root's delegation lasts, and what has to be
// done when that is not for long.
func (s *Service) Delegated(ctx context.Context) (string, error) { return s.directory.note(ctx) }

// note is Delegated.
func (d *directoryKey) note(ctx context.Context) (string, error) {
	from, until := d.ring().window()
	k := d.ring().current()
	if k == nil {
		return "", errors.New("there is no directory key")
	}
	key, end, left := k.signer.KeyID, sealer.FormatTime(until), until.Sub(d.keys.db.Now())
	if left > early(from, until) {
		return fmt.Sprintf("the root's delegation to the directory key %s lasts until %s, for %d days", key, end, left/(24*time.Hour)), nil
	}
	how := "run muniment signing-key rotate " + key
	w, err := d.waiting(ctx)
	if err == nil && w != nil {
		how = d.asks(sealer.KeyID(w.Pub))
	}
	if left > 0 {
		return fmt.Sprintf("the root's delegation to the directory key %s ends at %s, in %s: %s", key, end, left.Round(time.Minute), how), err
	}
	return fmt.Sprintf("the root's delegation to the directory key %s has ended at %s: %s", key, end, how), err
}

// gauge shows how long the delegation lasts.
func (d *directoryKey) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_node_delegation_left_seconds",
		Help: "Time until the root's delegation to the directory key ends, and no key directory and no proof pack is signed any more.",
	}, func() float64 {
		_, until := d.ring().window()
		return until.Sub(d.keys.db.Now()).Seconds()
	})
}
