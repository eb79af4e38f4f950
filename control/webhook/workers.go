package webhook

import "sync"

const (
	// atOnce is how many places for attempts a process has, tenantAtOnce how many of them a
	// tenant may have beside those for one attempt at each webhook, and webhookAtOnce how many
	// attempts at one webhook there may be.
	atOnce, tenantAtOnce, webhookAtOnce = 2048, 128, 16
	// batchWeight is how many places the attempt at a batch takes, which is up to a megabyte.
	batchWeight = 4
	// tenantPart is for how many places that stay free a tenant may have one: so each of however
	// many tenants whose receivers hang leaves some to the others.
	tenantPart = 8
)

// workers are the places for attempts of a process.
type workers struct {
	mu      sync.Mutex
	all     int
	tenants map[string]int
	hooks   map[string]*slots
}

// slots limits the attempts at one webhook: one more runs at a time after each success, and only one
// after a failure.
type slots struct{ busy, may int }

// weight is how many places an attempt takes that sends an event of a type.
func weight(eventType string) int {
	if eventType == TypeDelivery {
		return batchWeight
	}
	return 1
}

// heaviest is the weight that an attempt at a webhook may have.
func (w *Webhook) heaviest() int {
	if w.Wants(TypeDelivery) {
		return batchWeight
	}
	return 1
}

// take takes places for as many attempts of a webhook as may begin: always one, whatever the
// receivers of other webhooks do, while its tenant is below its limit.
func (c *workers) take(w *Webhook) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.hooks[w.ID]
	if l == nil {
		l = &slots{may: 1}
		c.hooks[w.ID] = l
	}
	has, each := c.tenants[w.TenantID], w.heaviest()
	n = min(l.may-l.busy, max(0, tenantAtOnce-has)/each)
	if l.busy == 0 {
		n = max(n, 1)
	}
	n = max(0, min(n, (atOnce-c.all-tenantPart*has)/((tenantPart+1)*each)))
	c.add(w, l, n, n*each)
	return n
}

func (c *workers) add(w *Webhook, l *slots, attempts, places int) {
	l.busy += attempts
	c.all += places
	if c.tenants[w.TenantID] += places; c.tenants[w.TenantID] == 0 {
		delete(c.tenants, w.TenantID)
	}
	if l.busy == 0 && l.may == 1 {
		delete(c.hooks, w.ID)
	}
}

// release gives places back of n attempts that take needs for fewer, or lighter ones.
func (c *workers) release(w *Webhook, n int, taken []Delivery) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	places := n * w.heaviest()
	for i := range taken {
		places -= weight(taken[i].EventType)
	}
	c.add(w, c.hooks[w.ID], len(taken)-n, -places)
}

// end gives back the places of an attempt.
func (c *workers) end(e *ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.hooks[e.webhook.ID]
	if l.may = min(l.may+1, webhookAtOnce); e.outcome == nil || !e.outcome.taken() {
		l.may = 1
	}
	c.add(e.webhook, l, -1, -weight(e.was.EventType))
}
