package issue

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

const (
	flushEvery = time.Minute
	// maxRefusalRows bounds the counts kept between two flushes. Above it, refusals
	// are counted by tenant and rule alone.
	maxRefusalRows = 10_000
	// maxUnrecognised bounds a tenant's counts of names between two flushes. Above it, they are
	// counted by the field that is meant alone.
	maxUnrecognised = 32
)

// refusals counts what the gate refused since the last flush, and the names in telemetry that it
// did not recognise, and that stand for a field.
type refusals struct {
	mu           sync.Mutex
	counts       map[refusal]int64
	unrecognised map[string]map[misspelt]*int64 // by tenant
	since        time.Time
}

// refusal is one row; rightID is empty where rows would have become too many.
type refusal struct{ tenantID, rightID, rule string }

// misspelt is a name as it was sent, and the field that it stands for; name is empty where names
// would have become too many.
type misspelt struct{ name, meant string }

// telemetryNames are the fields of telemetry that the gate knows.
var telemetryNames = func() *api.Names {
	var names []string
	for _, f := range gate.NewCatalogue().Fields {
		names = append(names, f.Name)
	}
	return api.NewNames(names...)
}()

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

// Refused counts a refusal made before the gate; rule names it.
func (i *Issuer) Refused(tenantID, rightID, rule string) { i.refusals.add(tenantID, rightID, rule) }

// misspelt counts a name. A name that it has is counted without an allocation.
func (r *refusals) misspelt(tenantID string, name []byte, meant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.unrecognised[tenantID]
	if n := names[misspelt{string(name), meant}]; n != nil {
		*n++
		return
	}
	r.put(tenantID, misspelt{string(name), meant}, 1)
}

// put adds n to the count of a name, or of its field where names are too many.
func (r *refusals) put(tenantID string, k misspelt, n int64) {
	if r.unrecognised == nil {
		r.unrecognised = map[string]map[misspelt]*int64{}
	}
	names := r.unrecognised[tenantID]
	if names == nil {
		names = map[misspelt]*int64{}
		r.unrecognised[tenantID] = names
	}
	if names[k] == nil && len(names) >= maxUnrecognised {
		k.name = ""
	}
	if names[k] == nil {
		names[k] = new(int64)
	}
	*names[k] += n
}

// take empties the counts.
func (r *refusals) take(now time.Time) *refusals {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := &refusals{counts: r.counts, unrecognised: r.unrecognised, since: r.since}
	r.counts, r.unrecognised, r.since = nil, nil, now
	return taken
}

// restore puts a tenant's counts back that could not be written.
func (r *refusals) restore(tenantID string, taken *refusals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[refusal]int64{}
	}
	for k, n := range taken.counts {
		if k.tenantID == tenantID {
			r.counts[k] += n
		}
	}
	for k, n := range taken.unrecognised[tenantID] {
		r.put(tenantID, k, *n)
	}
	if taken.since.Before(r.since) {
		r.since = taken.since
	}
}

// writeRefusals appends an event for each tenant that has counts, all in one step. Counts that can't
// be written wait for the next time.
func (i *Issuer) writeRefusals(ctx context.Context) {
	now := i.cfg.Now()
	taken := i.refusals.take(now)
	byTenant := map[string][]refusal{}
	for tenantID := range taken.unrecognised {
		byTenant[tenantID] = nil
	}
	for k := range taken.counts {
		byTenant[k.tenantID] = append(byTenant[k.tenantID], k)
	}
	if len(byTenant) == 0 {
		return
	}
	var records []*sealer.Record
	keep := func(tenantID string, err error) {
		i.cfg.Logger.Error("cannot write refusal counts", "tenantId", tenantID, "err", err)
		i.refusals.restore(tenantID, taken)
	}
	for tenantID, rows := range byTenant {
		id := api.NewID(api.PrefixEvent, now)
		event, err := refusalsEvent(id, i.cfg.NodeID, tenantID, rows, taken, now)
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

// refusalsEvent returns the event of a tenant's counts on a node.
func refusalsEvent(id, nodeID, tenantID string, rows []refusal, taken *refusals, now time.Time) ([]byte, error) {
	slices.SortFunc(rows, func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.rightID, b.rightID), cmp.Compare(a.rule, b.rule))
	})
	type row struct {
		Count   int64  `json:"count"`
		RightID string `json:"rightId,omitempty"`
		Rule    string `json:"rule"`
	}
	type name struct {
		Count int64  `json:"count"`
		Meant string `json:"meant"`
		Name  string `json:"name"`
	}
	noted := struct {
		Counts       []row  `json:"counts"`
		From         string `json:"from"`
		To           string `json:"to"`
		Unrecognised []name `json:"unrecognised,omitempty"`
	}{Counts: []row{}, From: canonical.FormatTime(taken.since), To: canonical.FormatTime(now)}
	for _, k := range rows {
		noted.Counts = append(noted.Counts, row{taken.counts[k], k.rightID, k.rule})
	}
	names := taken.unrecognised[tenantID]
	for _, k := range slices.SortedFunc(maps.Keys(names), func(a, b misspelt) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.meant, b.meant))
	}) {
		noted.Unrecognised = append(noted.Unrecognised, name{*names[k], k.meant, k.name})
	}
	text, err := json.Marshal(noted)
	if err != nil {
		return nil, err
	}
	data, err := canonical.JSON(text)
	if err != nil {
		return nil, err
	}
	return sealer.AppendEvent(nil, &sealer.Event{
		EventID: id, TenantID: tenantID, Type: sealer.TypeRefusals, At: now,
		Actor: sealer.Ref{Kind: "node", ID: nodeID}, Subject: sealer.Ref{Kind: "tenant", ID: tenantID}, Data: data,
	})
}
