package signing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// delegationTerm is the duration of a delegation by a root key in the key folder.
const delegationTerm = 2 * 365 * 24 * time.Hour

const (
	// renewalNotice is how long before its end a delegation is renewed; a shorter one is
	// renewed in the last quarter of its duration.
	renewalNotice = 90 * 24 * time.Hour
	// reminderInterval is the time between two warnings that the root has to delegate, and
	// urgentInterval the same after the delegation has ended.
	reminderInterval = 24 * time.Hour
	urgentInterval   = time.Minute
)

// Renew replaces the directory key if the root's delegation to it ends soon or has ended.
// Call it every minute. It also waits until the log has all current keys, so that these sign on
// if the log does not answer later. Without the root key the new key waits, and a warning is logged once
// a day, and once a minute after the end. After an error the current key continues to sign
// until its end, and a later call tries again.
func (s *Service) Renew(ctx context.Context) error {
	for _, u := range uses {
		if k := s.keys.of(role{u.purpose, control}).current(); k != nil {
			if err := s.keys.awaitLogged(ctx, k); err != nil {
				return err
			}
		}
	}
	if !s.directory.endsSoon() {
		return nil
	}
	_, err := s.replacing(ctx, "renewing the directory key", func() (Succession, error) { return Succession{}, s.directory.renew(ctx) })
	return err
}

// endsSoon says whether a renewal is due, and the last reminder is old enough for another.
func (d *directoryKey) endsSoon() bool {
	from, until := d.ring().window()
	left, every := until.Sub(d.keys.db.Now()), reminderInterval
	if left <= 0 {
		every = urgentInterval
	}
	return left <= renewalLead(from, until) && d.keys.db.Now().Sub(d.remindedAt) >= every
}

// renew is Renew for a caller that holds lockKeys.
func (d *directoryKey) renew(ctx context.Context) error {
	if !d.endsSoon() {
		return nil // another process has renewed it
	}
	_, until := d.ring().window()
	s, err := d.rotate(ctx, store.BySystem())
	if err != nil {
		return fmt.Errorf("cannot renew the directory key, whose delegation lasts until %s: %w", canonical.FormatTime(until), err)
	}
	if s.Waiting != nil {
		d.remindedAt = d.keys.db.Now()
		d.keys.cfg.Logger.Warn("the root has to delegate to another directory key", "until", canonical.FormatTime(until), "how", d.instructions(s.Waiting.KeyID))
	}
	return nil
}

// early is how long before its end a delegation is renewed.
func renewalLead(from, until time.Time) time.Duration { return min(renewalNotice, until.Sub(from)/4) }

// instructions says what an operator has to do for a directory key that waits.
func (d *directoryKey) instructions(keyID string) string {
	return fmt.Sprintf("run muniment root delegate for the public key in %s, and submit its output with muniment signing-key delegate",
		beside(directoryRole.path(d.keys.cfg.Dir, keyID), requestSuffix))
}

// errEnded is the whole response to callers: what an operator has to do is only in the log.
var errEnded = api.Unavailable(api.DelegationEnded, "the root's delegation to the directory key has ended; an operator has to renew it", urgentInterval)

// explain adds to err, which found no directory key, that its delegation has ended, if so.
func (d *directoryKey) explain(ctx context.Context, err error) error {
	_, until := d.ring().window()
	if d.ring().current() == nil || d.keys.db.Now().Before(until) {
		return err
	}
	text, err := d.describeDelegation(ctx)
	return errors.Join(errEnded, errors.New(text), err)
}

// DelegationStatus says how long the root's delegation lasts and, if it ends soon, what an
// operator has to do.
func (s *Service) DelegationStatus(ctx context.Context) (string, error) {
	return s.directory.describeDelegation(ctx)
}

func (d *directoryKey) describeDelegation(ctx context.Context) (string, error) {
	from, until := d.ring().window()
	k := d.ring().current()
	if k == nil {
		return "", errors.New("there is no directory key")
	}
	key, end, left := k.signer.KeyID, canonical.FormatTime(until), until.Sub(d.keys.db.Now())
	if left > renewalLead(from, until) {
		return fmt.Sprintf("the root's delegation to the directory key %s ends at %s, in %d days", key, end, left/(24*time.Hour)), nil
	}
	how := "run muniment signing-key rotate " + key
	w, err := d.waiting(ctx)
	if err == nil && w != nil {
		how = d.instructions(keydir.KeyID(w.Pub))
	}
	if left > 0 {
		return fmt.Sprintf("the root's delegation to the directory key %s ends at %s, in %s: %s", key, end, left.Round(time.Minute), how), err
	}
	return fmt.Sprintf("the root's delegation to the directory key %s ended at %s: %s", key, end, how), err
}

// gauge is the time until the delegation ends.
func (d *directoryKey) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_node_delegation_left_seconds",
		Help: "Time until the root's delegation to the directory key ends. After that no key directory and no proof pack is signed.",
	}, func() float64 {
		_, until := d.ring().window()
		return until.Sub(d.keys.db.Now()).Seconds()
	})
}
