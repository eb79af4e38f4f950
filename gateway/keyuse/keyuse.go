// Package keyuse counts what requests with API keys came to lately: when each key was last used, and which requests were
// refused, by key, operation, status, code and cause. A node and a control process each have a Counter; nodes hand theirs
// to control with their polls of the feed, and control writes its own to the database (control/requests).
//
// Only what the service has named itself is counted: ids of keys and operations, codes, and one request id for each
// line. No body, address or message is.
//
// A Counter is bounded, whatever callers do. A request is counted only under a key whose secret it has, so a stranger
// counts nowhere; all tenants have MostLines, of which those of the sandbox, which a stranger can make, have a quarter.
// Lines are as Quota says, so a key hides nothing of its tenant's others, and a tenant nothing of another's. Times are minutes.
//
// Keys are handed over in the order in which they were used, so each gets its turn: within minutes, as
// api.MostKeyUses are handed over every two seconds, and at most mostKeys wait. Of a tenant with mostKeysOfTenant keys a
// further one is noted once another was handed over, so it delays no other tenant by more than that. The same holds for
// all tenants together.
//
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
	// MostOfKey is how many of them are of one key, besides the key's for all others.
	MostOfKey = 64
	// MostLines is how many lines are counted at a time.
	MostLines = 16_384
	// mostOfSandbox is how many of them are of tenants of the sandbox.
	mostOfSandbox = MostLines / 4
	// mostKeys is of how many keys the last use is known at a time.
	mostKeys = 65_536
	// mostKeysOfTenant is how many of them are of one tenant.
	mostKeysOfTenant = mostKeys / 16
	// idle is for how many minutes a key is remembered whose last use was handed over, so that a use in the same minute
	// is not handed over again.
	idle = 2
	// Pause is the least time between two pieces that Due returns.
	Pause = 2 * time.Second
)

// Counter counts. The zero value is ready, and is safe for concurrent use.
type Counter struct {
	keys sync.Map // key id → *use; written under mu

	mu       sync.Mutex
	known    int             // keys
	knownOf  map[string]int  // keys of each tenant
	waiting  map[string]bool // the tenants with keys that find no place; "" if all have too many
	queue    []*use          // that are to be handed over, in this order
	swept    int64           // the minute in which keys were last forgotten
	lines    map[line]*refused
	quotas   map[string]*Quota // of each tenant
	ofTheBox int               // lines of the sandbox
	taken    time.Time         // when Due last returned something
}

// use is the last use of a key.
type use struct {
	keyID, tenantID string
	minute          atomic.Int64
	queued          atomic.Bool
}

// Quota is how many lines a tenant has of those that it may have, without its one for all others. The zero value has none.
type Quota struct {
	all  int
	keys map[string]int // without each key's for all others
}

// Place returns the key and the operation of the line under which requests are counted: without an operation, among the key's
// others, or without either, among the tenant's, if a line of their own would be too many. known says whether a line is there.
func (q *Quota) Place(keyID, operation string, known func(keyID, operation string) bool) (string, string) {
	full := q.all >= MostOfTenant
	if operation != "" && (full || q.keys[keyID] >= MostOfKey) && !known(keyID, operation) {
		operation = ""
	}
	if keyID != "" && full && !known(keyID, operation) {
		return "", ""
	}
	return keyID, operation
}

// Count counts lines, or discounts them: those of a key for all others have no operation, and the tenant's has no key.
func (q *Quota) Count(keyID, operation string, more int) {
	if keyID == "" {
		return
	}
	q.all += more
	if operation == "" {
		return
	}
	if q.keys == nil {
		q.keys = map[string]int{}
	}
	if q.keys[keyID] += more; q.keys[keyID] == 0 {
		delete(q.keys, keyID)
	}
}

// line is what refusals are counted by. One without an operation stands for all others of the key, and one without a key
// for all others of the tenant.
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

// Used notes that a request was authenticated by a key. Of all uses of a key within a minute the first alone takes a lock.
func (c *Counter) Used(key *api.Key, at time.Time) {
	c.used(key.ID, key.TenantID, at.Unix()/60, false)
}

// used notes a use. again hands it over although one of its minute was.
func (c *Counter) used(keyID, tenantID string, minute int64, again bool) {
	known, ok := c.keys.Load(keyID)
	if !ok {
		if known = c.know(keyID, tenantID); known == nil {
			return
		}
	}
	u := known.(*use)
	last := u.minute.Load()
	newer := last < minute && u.minute.CompareAndSwap(last, minute) // else another request of this minute was faster
	if (newer || again) && u.queued.CompareAndSwap(false, true) {
		c.mu.Lock()
		c.queue = append(c.queue, u)
		c.mu.Unlock()
	}
}

// know remembers a key, unless there are too many: then it returns nil. The texts are copied: they may be views.
func (c *Counter) know(keyID, tenantID string) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.keys.Load(keyID); ok {
		return known
	}
	all, own := c.known >= mostKeys, c.knownOf[tenantID] >= mostKeysOfTenant
	if all || own {
		if c.waiting == nil {
			c.waiting = map[string]bool{}
		}
		if own {
			c.waiting[strings.Clone(tenantID)] = true
		} else {
			c.waiting[""] = true
		}
		return nil
	}
	u := &use{keyID: strings.Clone(keyID), tenantID: strings.Clone(tenantID)}
	if c.knownOf == nil {
		c.knownOf = map[string]int{}
	}
	c.keys.Store(u.keyID, u)
	c.known++
	c.knownOf[u.tenantID]++
	return u
}

// forget forgets a key.
func (c *Counter) forget(u *use) {
	if !c.keys.CompareAndDelete(u.keyID, u) {
		return
	}
	c.known--
	if c.knownOf[u.tenantID]--; c.knownOf[u.tenantID] == 0 {
		delete(c.knownOf, u.tenantID)
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
		c.lines, c.quotas = map[line]*refused{}, map[string]*Quota{}
	}
	quota := c.quotas[l.tenantID]
	if quota == nil {
		quota = new(Quota)
	}
	of := func(keyID, operation string) line {
		if operation == "" {
			return line{tenantID: l.tenantID, keyID: keyID}
		}
		return l
	}
	l = of(quota.Place(l.keyID, l.operation, func(keyID, operation string) bool { return c.lines[of(keyID, operation)] != nil }))
	have := c.lines[l]
	if have == nil {
		if len(c.lines) >= MostLines || n.sandbox && c.ofTheBox >= mostOfSandbox {
			return
		}
		if n.sandbox {
			c.ofTheBox++
		}
		l.tenantID, l.keyID, l.operation, l.cause = strings.Clone(l.tenantID), strings.Clone(l.keyID), strings.Clone(l.operation), strings.Clone(l.cause)
		if l.keyID != "" {
			c.quotas[l.tenantID] = quota
		}
		quota.Count(l.keyID, l.operation, 1)
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
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), api.MostKeyUses)
	for _, u := range c.queue[:n] {
		u.queued.Store(false) // before the minute is read: a later one queues the key again
		taken.Used = append(taken.Used, api.KeyUse{KeyID: u.keyID, TenantID: u.tenantID, Minute: u.minute.Load()})
		if c.waiting[""] || c.waiting[u.tenantID] {
			c.forget(u) // others wait for its place
		}
	}
	if c.queue = slices.Delete(c.queue, 0, n); len(c.queue) == 0 {
		c.queue = nil
	}
	c.waiting = nil
	if minute := now.Unix() / 60; minute != c.swept {
		c.swept = minute
		c.keys.Range(func(_, known any) bool {
			if u := known.(*use); !u.queued.Load() && u.minute.Load()+idle < minute { // a use meanwhile may be lost: the next counts
				c.forget(u)
			}
			return true
		})
	}
	for l, n := range c.lines {
		if len(taken.Refused) == api.MostRefusals {
			break
		}
		taken.Refused = append(taken.Refused, api.Refusals{
			TenantID: l.tenantID, KeyID: l.keyID, Operation: l.operation, Status: l.status, Code: l.code, Cause: l.cause,
			Count: n.count, First: n.first, Last: n.last, RequestID: n.requestID, Sandbox: n.sandbox,
		})
		delete(c.lines, l)
		if quota := c.quotas[l.tenantID]; quota != nil {
			if quota.Count(l.keyID, l.operation, -1); quota.all == 0 {
				delete(c.quotas, l.tenantID)
			}
		}
		if n.sandbox {
			c.ofTheBox--
		}
	}
	return taken
}

// Return counts again what Take has returned and nobody got.
func (c *Counter) Return(taken api.KeyUses) { c.count(taken, true) }

// Add counts what another Counter has counted.
func (c *Counter) Add(counted api.KeyUses) { c.count(counted, false) }

func (c *Counter) count(counted api.KeyUses, again bool) {
	for _, u := range counted.Used {
		c.used(u.KeyID, u.TenantID, u.Minute, again)
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
