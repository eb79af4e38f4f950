package gateway

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// limited counts which tenants met a limit of this node lately, and which limit: an operator asks it who is
// behind the 429s, which no metric says, as a tenant is no label. It has room for mostLimited tenants, however many
// there are. Safe for concurrent use.
//
// Where it is full, a tenant that comes takes the place of the one with the fewest counts, and inherits their number as
// what it may have had itself before (Metwally's Space-Saving). So a tenant with more than one in mostLimited
// of all counts is always there.
type limited struct {
	now func() time.Time

	mu             sync.Mutex
	current, older map[string]*limitCounts // by tenant
	began, before  time.Time               // when they began
}

const (
	// mostLimited is how many tenants are counted at a time.
	mostLimited = 128
	// mostShown is how many are shown.
	mostShown = 20
	// limitedFor is how long counts are kept, at least; and at most for twice as long.
	limitedFor = 5 * time.Minute
)

// limit is a reason for which a tenant is refused with 429, or delayed.
type limit uint8

const (
	limitDeliveries limit = iota // of the tenant in hand: --tenant-cap
	limitBatches                 // of the tenant in hand, or in memory
	limitRequests                // of the tenant at control, by this node
	limitControl                 // by control itself
	limitDelay                   // a delivery that was delayed, and not refused
	limits
)

// limitCounts are of one tenant.
type limitCounts struct {
	by     [limits]uint64
	all    uint64
	missed uint64 // at most so many of its own came before it was counted
}

func newLimited(now func() time.Time) *limited { return &limited{now: now} }

// add counts one.
func (l *limited) add(tenant string, by limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn()
	c := l.current[tenant]
	if c == nil {
		c = &limitCounts{missed: l.evict()}
		l.current[tenant] = c
	}
	c.by[by]++
	c.all++
}

// turn begins another generation of counts when the current one is old. It is called with l.mu held.
func (l *limited) turn() {
	now := l.now()
	switch age := now.Sub(l.began); {
	case l.current != nil && age >= 0 && age < limitedFor:
		return
	case l.current != nil && age >= 0 && age < 2*limitedFor:
		l.older, l.before = l.current, l.began
	default:
		l.older, l.before = nil, now
	}
	l.current, l.began = map[string]*limitCounts{}, now
}

// evict makes room for one more tenant, and returns the number of counts of the one that had it.
func (l *limited) evict() (counts uint64) {
	fewest, counts := fewest(l.current)
	delete(l.current, fewest)
	return counts
}

// fewest is the tenant with the fewest counts, if a generation is full: another one that is not in it may have had as many.
func fewest(generation map[string]*limitCounts) (of string, counts uint64) {
	if len(generation) < mostLimited {
		return "", 0
	}
	for tenant, c := range generation {
		if n := c.all + c.missed; of == "" || n < counts {
			of, counts = tenant, n
		}
	}
	return of, counts
}

// LimitedTenants are the tenants that met a limit most often.
type LimitedTenants struct {
	// Since is when the counts began: 5 to 10 minutes ago, unless the node has started, or refused
	// anybody, only since.
	Since   time.Time       `json:"since"`
	Tenants []LimitedTenant `json:"tenants"`
}

// LimitedTenant says how often a tenant was refused with 429, by the limit, and how many of its deliveries were delayed.
type LimitedTenant struct {
	TenantID   string `json:"tenantId"`
	Deliveries uint64 `json:"deliveries"` // too many in hand: --tenant-cap
	Batches    uint64 `json:"batches"`    // too many in hand, or in memory
	Requests   uint64 `json:"requests"`   // too many of its requests at control
	Control    uint64 `json:"control"`    // refused by control
	Delayed    uint64 `json:"delayed"`
	// Missed is how many more there may have been: so many tenants were refused that this one was not counted all
	// the time.
	Missed uint64 `json:"missed,omitempty"`
}

// LimitedPart is Limited for /debug/tenants.
func (g *Gateway) LimitedPart(context.Context) any { return g.Limited() }

// Limited returns the 20 tenants that this node refused or delayed most in the last minutes.
func (g *Gateway) Limited() LimitedTenants { return g.limited.shown() }

func (l *limited) shown() LimitedTenants {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn()
	sums := map[string]limitCounts{}
	for _, generation := range []map[string]*limitCounts{l.older, l.current} {
		for tenant, c := range generation {
			sum := sums[tenant]
			for by, n := range c.by {
				sum.by[by] += n
			}
			sum.all, sum.missed = sum.all+c.all, sum.missed+c.missed
			sums[tenant] = sum
		}
	}
	all := make([]LimitedTenant, 0, len(sums))
	_, earlier := fewest(l.older)
	_, lately := fewest(l.current)
	for tenant, c := range sums {
		if l.older[tenant] == nil {
			c.missed += earlier
		}
		if l.current[tenant] == nil {
			c.missed += lately
		}
		all = append(all, LimitedTenant{
			TenantID: tenant, Deliveries: c.by[limitDeliveries], Batches: c.by[limitBatches], Requests: c.by[limitRequests],
			Control: c.by[limitControl], Delayed: c.by[limitDelay], Missed: c.missed,
		})
	}
	slices.SortFunc(all, func(a, b LimitedTenant) int {
		return cmp.Or(cmp.Compare(sums[b.TenantID].all, sums[a.TenantID].all), cmp.Compare(a.TenantID, b.TenantID))
	})
	return LimitedTenants{Since: l.before, Tenants: all[:min(len(all), mostShown)]}
}
