package snapshot

import (
	"time"

	"muniment.example/gateway/api"
)

// LeaseAge is how long ago the feed request that began the lease was sent; false if the view
// never held a lease, or lost it permanently because control's database was restored.
func (v *View) LeaseAge() (time.Duration, bool) {
	began := v.lease.Load()
	if began == 0 || v.lost.Load() {
		return 0, false
	}
	return v.cfg.Clock() - time.Duration(began-1), true
}

var (
	errStale = api.Unavailable(api.RightsStale, "this node has had no response from control for too long to decide a delivery", time.Second)
	errLost  = api.Unavailable(api.RightsStale, "control's database was restored, or its standby promoted; this node starts again", time.Second)
	errOther = api.Unavailable(api.RightsStale, "another process runs as this node, and started later, so control sends this one no news of rights: its operator must stop one of the two", time.Minute)
	errClock = api.Unavailable(api.RightsStale, "this node's clock is more than a minute behind the end of the right's suspension: its operator must set it", time.Minute)
	errAway  = api.Unavailable(api.RightsStale, "control can't be reached now", time.Second)
)

// Fresh is nil while the node holds a lease, else a 503 RIGHTS_STALE.
func (v *View) Fresh() error {
	if v.lost.Load() {
		return errLost
	}
	age, held := v.LeaseAge()
	switch {
	case held && age <= v.cfg.LeaseBound:
		return nil
	case v.superseded.Load():
		return errOther
	}
	return errStale
}
