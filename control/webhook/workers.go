package webhook

import "sync"

const (
	// atOnce is how many slots for attempts a process has, tenantAtOnce how many of them a tenant may
	// use in addition to one attempt for each webhook, and webhookAtOnce how many attempts of one
	// webhook may run at once.
	atOnce, tenantAtOnce, webhookAtOnce = 2048, 128, 16
	// batchWeight is how many slots an attempt with a batch uses, which has up to a megabyte.
	batchWeight = 4
	// tenantPart is how many slots must remain free for each slot that a tenant uses. So however many
	// tenants have receivers that hang, some slots remain for the others.
	tenantPart = 8
)

// workers manages the slots for attempts of a process.
type workers struct {
	mu      sync.Mutex
	all     int
	tenants map[string]int
	hooks   map[string]*hookLimit
}

// hookLimit limits the concurrent attempts of one webhook: it grows by one with each success, and
// falls to one with a failure.
type hookLimit struct{ busy, may int }

// weight is how many slots an attempt uses to send an event of a type.
func weight(eventType string) int {
	if eventType == TypeDelivery {
		return batchWeight
	}
	return 1
}

// heaviest is the largest weight of an attempt of a webhook.
func (w *Webhook) heaviest() int {
	if w.Wants(TypeDelivery) {
		return batchWeight
	}
	return 1
}

// take acquires slots for as many attempts of a webhook as may begin. While its tenant is below its
// limit that is at least one, whatever the receivers of other webhooks do.
func (c *workers) take(w *Webhook) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.hooks[w.ID]
	if l == nil {
		l = &hookLimit{may: 1}
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

func (c *workers) add(w *Webhook, l *hookLimit, attempts, slots int) {
	l.busy += attempts
	c.all += slots
	if c.tenants[w.TenantID] += slots; c.tenants[w.TenantID] == 0 {
		delete(c.tenants, w.TenantID)
	}
	if l.busy == 0 && l.may == 1 {
		delete(c.hooks, w.ID)
	}
}

// release releases the slots of n attempts that taken, which may be fewer or lighter ones, don't use.
func (c *workers) release(w *Webhook, n int, taken []Delivery) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slots := n * w.heaviest()
	for i := range taken {
		slots -= weight(taken[i].EventType)
	}
	c.add(w, c.hooks[w.ID], len(taken)-n, -slots)
}

// end releases the slots of an attempt.
func (c *workers) end(e *finishedAttempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.hooks[e.webhook.ID]
	if l.may = min(l.may+1, webhookAtOnce); e.outcome == nil || !e.outcome.taken() {
		l.may = 1
	}
	c.add(e.webhook, l, -1, -weight(e.was.EventType))
}
