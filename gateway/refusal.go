package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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

// flushRefusals writes the counts once a minute, and once more when ctx ends.
func (g *Gateway) flushRefusals(ctx context.Context) {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			g.writeRefusals(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.AppendTimeout)
			defer cancel()
			g.writeRefusals(last)
			return
		}
	}
}

// writeRefusals appends one event for each tenant. Counts that can't be written
// wait for the next time.
func (g *Gateway) writeRefusals(ctx context.Context) {
	now := g.now()
	counts, since := g.refusals.take(now)
	byTenant := map[string][]refusal{}
	for k := range counts {
		byTenant[k.tenantID] = append(byTenant[k.tenantID], k)
	}
	for tenantID, rows := range byTenant {
		if err := g.writeRefusalsOf(ctx, tenantID, rows, counts, since, now); err != nil {
			g.logger.Error("cannot write refusal counts", "tenantId", tenantID, "err", err)
			g.refusals.restore(tenantID, counts, since)
		}
	}
}

func (g *Gateway) writeRefusalsOf(ctx context.Context, tenantID string, rows []refusal, counts map[refusal]int64, since, now time.Time) error {
	slices.SortFunc(rows, func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.rightID, b.rightID), cmp.Compare(a.rule, b.rule))
	})
	type row struct {
		Count   int64  `json:"count"`
		RightID string `json:"rightId,omitempty"`
		Rule    string `json:"rule"`
	}
	var told struct {
		Counts []row  `json:"counts"`
		From   string `json:"from"`
		To     string `json:"to"`
	}
	told.From, told.To = sealer.FormatTime(since), sealer.FormatTime(now)
	for _, k := range rows {
		told.Counts = append(told.Counts, row{counts[k], k.rightID, k.rule})
	}
	text, err := json.Marshal(told)
	if err != nil {
		return fmt.Errorf("cannot write refusals of %s: %w", tenantID, err)
	}
	data, err := sealer.Canonical(text)
	if err != nil {
		return err
	}
	id := api.NewID(api.PrefixEvent, now)
	event, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: id, TenantID: tenantID, Type: sealer.TypeRefusals, At: now,
		Actor: sealer.Ref{Kind: "node", ID: g.cfg.NodeID}, Subject: sealer.Ref{Kind: "tenant", ID: tenantID}, Data: data,
	})
	if err != nil {
		return err
	}
	_, err = g.log.Append(ctx, &sealer.Record{
		TenantID: tenantID, EventID: id, Node: g.cfg.NodeID, Epoch: g.cfg.Epoch, Seq: g.seq.Add(1), Event: event,
	})
	return err
}
