// Package keyuse counts what requests with API keys came to lately: when each key was last used, and which requests were
// refused, by key, operation, status, code and cause. A node and a control process each have a Counter; nodes hand theirs
// to control with their polls of the feed, and control writes its own to the database (control/requests).
//
// Only what the service has named itself is counted: ids of keys and operations, codes, and one request id for each
// line. No body, address or message is.
//
// A Counter is bounded, whatever callers do. A request is counted only under a key whose secret it has, so a stranger
// counts nowhere; a tenant has at most MostOfTenant lines, and what exceeds them counts as one more without a key; all
// tenants have MostLines, of which those of the sandbox, which a stranger can make, have a quarter. Times are minutes.
// What was not handed over is lost when the process ends, and what was handed over by a request whose answer was
// lost counts twice: this is for people who look for a fault, and no evidence.
package keyuse

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muniment.example/gateway/api"
)

const (
	// MostOfTenant is how many lines of a tenant are counted, besides the one for all others.
	MostOfTenant = 256
	// MostLines is how many lines are counted at a time.
	MostLines = 16_384
	// mostOfSandbox is how many of them are of tenants of the sandbox.
	mostOfSandbox = MostLines / 4
	// mostKeys is of how many keys the last use is known at a time.
	mostKeys = 65_536
	// idle is for how long a key is remembered whose last use was handed over, so that a use in the same minute is
	// not handed over again.
	idle = 2
	// Pause is the least time between two pieces that Due returns.
	Pause = 2 * time.Second
)

// Counter counts. The zero value is ready, and is safe for concurrent use.
type Counter struct {
	keys  sync.Map // key id → *use
	known atomic.Int64

	mu       sync.Mutex
	lines    map[line]*refused
	tenants  map[string]int // lines of each, without its others
	ofTheBox int            // lines of the sandbox
	taken    time.Time      // when Due last returned something
}

// use is the last use of a key.
type use struct {
	minute atomic.Int64
	handed atomic.Int64 // the minute that was handed over; 0: none was
}

// line is what refusals are counted by. Without a key it stands for all others of the tenant.
type line struct {
	tenantID, keyID, operation string
	status                     int
	code                       api.Code
	cause                      string
}

type refused struct {
	count       int64
	first, last int64 // minutes
	requestID   string
	sandbox     bool
}

// Used notes that a request was authenticated by a key. Of all uses of a key within a minute the first alone writes.
func (c *Counter) Used(keyID string, at time.Time) {
	minute := at.Unix() / 60
	known, ok := c.keys.Load(keyID)
	if !ok {
		if c.known.Load() >= mostKeys {
			return
		}
		var before bool
		if known, before = c.keys.LoadOrStore(strings.Clone(keyID), new(use)); !before {
			c.known.Add(1)
		}
	}
	u := known.(*use)
	if last := u.minute.Load(); last < minute {
		u.minute.CompareAndSwap(last, minute) // else another request of this minute was faster
	}
}

// Refused counts a refused request with a key.
func (c *Counter) Refused(key *api.Key, operation string, e *api.Error, requestID string, at time.Time) {
	minute := at.Unix() / 60
	c.add(line{key.TenantID, key.ID, operation, e.GetStatus(), e.Code, e.Cause()}, refused{1, minute, minute, requestID, key.Sandbox})
}

// add counts what n counts. The texts of a new line are copied: they may be views.
func (c *Counter) add(l line, n refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines == nil {
		c.lines, c.tenants = map[line]*refused{}, map[string]int{}
	}
	have := c.lines[l]
	if have == nil && l.keyID != "" && c.tenants[l.tenantID] >= MostOfTenant {
		l = line{tenantID: l.tenantID}
		have = c.lines[l]
	}
	if have == nil {
		if len(c.lines) >= MostLines || n.sandbox && c.ofTheBox >= mostOfSandbox {
			return
		}
		if n.sandbox {
			c.ofTheBox++
		}
		if l.keyID != "" {
			c.tenants[strings.Clone(l.tenantID)]++
		}
		l.tenantID, l.keyID, l.operation, l.cause = strings.Clone(l.tenantID), strings.Clone(l.keyID), strings.Clone(l.operation), strings.Clone(l.cause)
		have = &refused{first: n.first, last: n.last, sandbox: n.sandbox}
		c.lines[l] = have
	}
	have.count += n.count
	have.first = min(have.first, n.first)
	if have.requestID == "" || n.last >= have.last {
		have.requestID = strings.Clone(n.requestID)
	}
	have.last = max(have.last, n.last)
}

// Due is Take, but empty within Pause of the last that was not.
func (c *Counter) Due(now time.Time) api.KeyUses {
	c.mu.Lock()
	early := now.Sub(c.taken) >= 0 && now.Sub(c.taken) < Pause
	c.mu.Unlock()
	if early {
		return api.KeyUses{}
	}
	taken := c.Take(now)
	if !taken.Empty() {
		c.mu.Lock()
		c.taken = now
		c.mu.Unlock()
	}
	return taken
}

// Take returns what was counted since the last call, at most api.MostKeyUses keys and api.MostRefusals lines, and counts it
// no more. What is not delivered must be given to Return.
func (c *Counter) Take(now time.Time) (taken api.KeyUses) {
	minute := now.Unix() / 60
	c.keys.Range(func(id, known any) bool {
		u := known.(*use)
		used, handed := u.minute.Load(), u.handed.Load()
		switch {
		case used > handed && len(taken.Used) < api.MostKeyUses:
			u.handed.Store(used)
			taken.Used = append(taken.Used, api.KeyUse{KeyID: id.(string), Minute: used})
		case used == handed && used+idle < minute: // a use meanwhile may be lost: the next counts
			c.keys.Delete(id)
			c.known.Add(-1)
		}
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for l, n := range c.lines {
		if len(taken.Refused) == api.MostRefusals {
			break
		}
		taken.Refused = append(taken.Refused, api.Refusals{
			TenantID: l.tenantID, KeyID: l.keyID, Operation: l.operation, Status: l.status, Code: l.code, Cause: l.cause,
			Count: n.count, First: n.first, Last: n.last, RequestID: n.requestID, Sandbox: n.sandbox,
		})
		delete(c.lines, l)
		if l.keyID != "" {
			if c.tenants[l.tenantID]--; c.tenants[l.tenantID] == 0 {
				delete(c.tenants, l.tenantID)
			}
		}
		if n.sandbox {
			c.ofTheBox--
		}
	}
	return taken
}

// Return counts again what Take has returned and nobody got.
func (c *Counter) Return(taken api.KeyUses) {
	for _, u := range taken.Used {
		if known, ok := c.keys.Load(u.KeyID); ok {
			known.(*use).handed.CompareAndSwap(u.Minute, 0)
		}
	}
	c.Add(taken)
}

// Add counts what another Counter has counted.
func (c *Counter) Add(counted api.KeyUses) {
	for _, u := range counted.Used {
		c.Used(u.KeyID, time.Unix(u.Minute*60, 0))
	}
	for _, r := range counted.Refused {
		c.add(line{r.TenantID, r.KeyID, r.Operation, r.Status, r.Code, r.Cause}, refused{r.Count, r.First, r.Last, r.RequestID, r.Sandbox})
	}
}

// Until returns counts none of which is later than a moment: a node's clock may be ahead.
func Until(counted api.KeyUses, at time.Time) api.KeyUses {
	now := at.Unix() / 60
	until := api.KeyUses{Used: slices.Clone(counted.Used), Refused: slices.Clone(counted.Refused)}
	for i := range until.Used {
		until.Used[i].Minute = min(until.Used[i].Minute, now)
	}
	for i := range until.Refused {
		r := &until.Refused[i]
		r.First, r.Last = min(r.First, now), min(r.Last, now)
	}
	return until
}
