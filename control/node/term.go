package node

import (
	"context"
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
// the last quarter of a shorter one on; repeated is how often.
const (
	notice   = 90 * 24 * time.Hour
	repeated = 24 * time.Hour
)

// renew lets another directory key take over when the root's delegation to the
// current one ends soon, or has ended. Without the root the key waits, and a warning
// says so once a day. What can't be done now is done by a later call: the current
// key signs on until the end.
func (r *Room) renew(ctx context.Context) {
	from, until := r.directory.window()
	now := r.db.Now()
	left := until.Sub(now)
	if left > min(notice, until.Sub(from)/4) || !r.admin.TryLock() {
		return // whoever changes a key now may need the directory for it
	}
	defer r.admin.Unlock()
	if left > 0 && now.Sub(r.renewed) < repeated {
		return
	}
	r.renewed = now
	s, err := r.rotateDirectory(ctx, store.BySystem())
	switch until := sealer.FormatTime(until); {
	case err != nil:
		r.cfg.Logger.Warn("the directory key can't be renewed", "until", until, "err", err)
	case s.Waiting != nil:
		r.cfg.Logger.Warn("the root has to delegate to another directory key", "until", until, "how", r.asks(s.Waiting.KeyID))
	}
}

// asks says what has to be done for a directory key that waits.
func (r *Room) asks(keyID string) string {
	return fmt.Sprintf("run muniment root delegate for the public key in %s, and hand in what it prints by muniment signing-key delegate",
		beside(directoryRole.path(r.cfg.Dir, keyID), requestSuffix))
}

// unsigned says why there is no directory key, if its delegation has ended.
func (r *Room) unsigned(ctx context.Context, err error) error {
	_, until := r.directory.window()
	k := r.directory.current()
	if k == nil || r.db.Now().Before(until) {
		return err
	}
	how := "run muniment signing-key rotate " + k.signer.KeyID
	if w, err := r.waiting(ctx); err == nil && w != nil {
		how = r.asks(sealer.KeyID(w.pub))
	}
	return fmt.Errorf("the root's delegation to the directory key %s has ended at %s: %s", k.signer.KeyID, sealer.FormatTime(until), how)
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
