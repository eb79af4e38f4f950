package issue

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
)

const (
	flushEvery = time.Minute
	// maxRefusalRows bounds the counts kept between two flushes. Above it, refusals
	// are counted by tenant and rule alone.
	maxRefusalRows = 10_000
)

// refusals counts what the gate refused since the last flush.
type refusals struct {
	mu     sync.Mutex
	counts map[refusal]int64
	since  time.Time
}

// refusal is one row; rightID is empty where rows would have become too many.
type refusal struct{ tenantID, rightID, rule string }

func (r *refusals) add(tenantID, rightID, rule string) {
	k := refusal{tenantID, rightID, rule}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[refusal]int64{}
	}
	if _, ok := r.counts[k]; !ok && len(r.counts) >= maxRefusalRows {
		k.rightID = ""
	}
	r.counts[k]++
}

// take empties the counts.
func (r *refusals) take(now time.Time) (counts map[refusal]int64, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts, since = r.counts, r.since
	r.counts, r.since = nil, now
	return counts, since
}

// restore puts counts back that could not be written.
func (r *refusals) restore(tenantID string, counts map[refusal]int64, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[refusal]int64{}
	}
	for k, n := range counts {
		if k.tenantID == tenantID {
			r.counts[k] += n
		}
	}
	if since.Before(r.since) {
		r.since = since
	}
}

// writeRefusals appends an event for each tenant that was refused something, all in one
// step. Counts that can't be written wait for the next time.
func (i *Issuer) writeRefusals(ctx context.Context) {
	now := i.cfg.Now()
	counts, since := i.refusals.take(now)
	if len(counts) == 0 {
		return
	}
	byTenant := map[string][]refusal{}
	for k := range counts {
		byTenant[k.tenantID] = append(byTenant[k.tenantID], k)
	}
	var records []*sealer.Record
	keep := func(tenantID string, err error) {
		i.cfg.Logger.Error("cannot write refusal counts", "tenantId", tenantID, "err", err)
		i.refusals.restore(tenantID, counts, since)
	}
	for tenantID, rows := range byTenant {
		id := api.NewID(api.PrefixEvent, now)
		event, err := refusalsEvent(id, i.cfg.NodeID, tenantID, rows, counts, since, now)
		if err != nil {
			keep(tenantID, err)
			continue
		}
		records = append(records, &sealer.Record{TenantID: tenantID, EventID: id, Node: i.cfg.NodeID, Epoch: i.cfg.Epoch, Seq: i.seq.Add(1), Event: event})
	}
	_, errs := i.cfg.Log.AppendAll(ctx, records)
	for n, err := range errs {
		if err != nil {
			keep(records[n].TenantID, err)
		}
	}
}

// refusalsEvent returns the event of a tenant's refusals on a node.
func refusalsEvent(id, nodeID, tenantID string, rows []refusal, counts map[refusal]int64, since, now time.Time) ([]byte, error) {
	slices.SortFunc(rows, func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.rightID, b.rightID), cmp.Compare(a.rule, b.rule))
	})
	type row struct {
		Count   int64  `json:"count"`
		RightID string `json:"rightId,omitempty"`
		Rule    string `json:"rule"`
	}
	var noted struct {
		Counts []row  `json:"counts"`
		From   string `json:"from"`
		To     string `json:"to"`
	}
	noted.From, noted.To = sealer.FormatTime(since), sealer.FormatTime(now)
	for _, k := range rows {
		noted.Counts = append(noted.Counts, row{counts[k], k.rightID, k.rule})
	}
	text, err := json.Marshal(noted)
	if err != nil {
		return nil, err
	}
	data, err := sealer.Canonical(text)
	if err != nil {
		return nil, err
	}
	return sealer.AppendEvent(nil, &sealer.Event{
		EventID: id, TenantID: tenantID, Type: sealer.TypeRefusals, At: now,
		Actor: sealer.Ref{Kind: "node", ID: nodeID}, Subject: sealer.Ref{Kind: "tenant", ID: tenantID}, Data: data,
	})
}
