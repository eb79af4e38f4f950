package node

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

// renew lets another directory key take over when the root's delegation to the
// current one ends soon, or has ended. Without the root the key waits, and a warning
// says so once a day, after the end once a minute: anybody may call this. What can't
// be done now is done by a later call: the current key signs on until the end.
func (r *Room) renew(ctx context.Context) {
	if !r.mayRenew() {
		return
	}
	done, err := r.administer(ctx, "renewing the directory key", false)
	if err != nil {
		_, until := r.directory.window()
		r.cfg.Logger.Warn("the directory key can't be renewed", "until", sealer.FormatTime(until), "err", err)
	}
	if done == nil { // whoever changes a key now may need the directory for it
		r.renewing.Lock()
		r.renewed, r.retry = time.Time{}, r.db.Now().Add(urgent)
		r.renewing.Unlock()
		return
	}
	defer done()
	r.renewNow(ctx)
}

// mayRenew says whether a renewal is due, and then not again for a while: each try costs
// a connection to the database, and anybody may call renew.
func (r *Room) mayRenew() bool {
	from, until := r.directory.window()
	now := r.db.Now()
	left := until.Sub(now)
	every := repeated
	if left <= 0 {
		every = urgent
	}
	r.renewing.Lock()
	defer r.renewing.Unlock()
	if left > early(from, until) || now.Sub(r.renewed) < every || now.Before(r.retry) {
		return false
	}
	r.renewed = now
	return true
}

// renewNow is renew for who has the turn to change keys, where mayRenew was true.
func (r *Room) renewNow(ctx context.Context) {
	from, until := r.directory.window()
	if until.Sub(r.db.Now()) > early(from, until) {
		return // another process has
	}
	s, err := r.rotateDirectory(ctx, store.BySystem())
	switch until := sealer.FormatTime(until); {
	case err != nil:
		r.cfg.Logger.Warn("the directory key can't be renewed", "until", until, "err", err)
	case s.Waiting != nil:
		r.cfg.Logger.Warn("the root has to delegate to another directory key", "until", until, "how", r.asks(s.Waiting.KeyID))
	}
}

// early is how long before its end a delegation is renewed.
func early(from, until time.Time) time.Duration { return min(notice, until.Sub(from)/4) }

// asks says what has to be done for a directory key that waits.
func (r *Room) asks(keyID string) string {
	return fmt.Sprintf("run muniment root delegate for the public key in %s, and hand in what it prints by muniment signing-key delegate",
		beside(directoryRole.path(r.cfg.Dir, keyID), requestSuffix))
}

// errEnded is all that callers are told: how it is mended is for operators.
var errEnded = api.Unavailable(api.DelegationEnded, "the root's delegation to the directory key has ended; an operator has to renew it", urgent)

// unsigned says why there is no directory key, if its delegation has ended.
func (r *Room) unsigned(ctx context.Context, err error) error {
	_, until := r.directory.window()
	if r.directory.current() == nil || r.db.Now().Before(until) {
		return err
	}
	text, err := r.Delegated(ctx)
	return errors.Join(errEnded, errors.New(text), err)
}

// Delegated tells operators how long the root's delegation lasts, and what has to be
// done when that is not for long.
func (r *Room) Delegated(ctx context.Context) (string, error) {
	from, until := r.directory.window()
	k := r.directory.current()
	if k == nil {
		return "", errors.New("there is no directory key")
	}
	key, end, left := k.signer.KeyID, sealer.FormatTime(until), until.Sub(r.db.Now())
	if left > early(from, until) {
		return fmt.Sprintf("the root's delegation to the directory key %s lasts until %s, for %d days", key, end, left/(24*time.Hour)), nil
	}
	how := "run muniment signing-key rotate " + key
	w, err := r.waiting(ctx)
	if err == nil && w != nil {
		how = r.asks(sealer.KeyID(w.Pub))
	}
	if left > 0 {
		return fmt.Sprintf("the root's delegation to the directory key %s ends at %s, in %s: %s", key, end, left.Round(time.Minute), how), err
	}
	return fmt.Sprintf("the root's delegation to the directory key %s has ended at %s: %s", key, end, how), err
}

// isLater asks that a delegation from notBefore on is later than all others, as
// verifiers order directories by that.
func (r *Room) isLater(ctx context.Context, notBefore time.Time) error {
	rows, err := r.keys(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.delegation == "" {
			continue
		}
		d, err := sealer.ReadDelegation(row.delegation, r.rootVkey)
		if err != nil {
			return fmt.Errorf("directory key %s: %w", row.KeyID, err)
		}
		if !notBefore.After(d.NotBefore) {
			return api.Conflict(fmt.Sprintf("a delegation from %s on is not later than that to the directory key %s, from %s on",
				sealer.FormatTime(notBefore), row.KeyID, sealer.FormatTime(d.NotBefore)))
		}
	}
	return nil
}

// gauge shows how long the delegation lasts.
func (r *Room) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_node_delegation_left_seconds",
		Help: "Time until the root's delegation to the directory key ends, and no key directory and no proof pack is signed any more.",
	}, func() float64 {
		_, until := r.directory.window()
		return until.Sub(r.db.Now()).Seconds()
	})
}
