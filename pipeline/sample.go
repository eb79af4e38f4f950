package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"muniment.example/sealer"
)

// PartitionBacklog says what of a partition is not loaded, and whose it is. Loading is in order, so a tenant waits for
// the whole backlog of its partition, whoever has caused it: there is no lag of one tenant alone.
type PartitionBacklog struct {
	Partition int32 `json:"partition"`
	// Records are not loaded.
	Records int64 `json:"records"`
	// Sampled is how many of them were read to see whose they are, at even distances.
	Sampled int `json:"sampled"`
	// Tenants have most of the sample, the first the most.
	Tenants []BacklogTenant `json:"tenants"`
	// Error is why a part of this is missing.
	Error string `json:"error,omitempty"`
}

// BacklogTenant is a tenant's part of a partition's backlog.
type BacklogTenant struct {
	TenantID string `json:"tenantId"` // empty: records of which it can't be read
	Sampled  int    `json:"sampled"`
	// Records of the backlog that are about as many as the tenant's part of the sample.
	Records int64 `json:"records"`
}

const (
	// samples are taken of a backlog, each of up to sampleRecords records one after the other.
	samples       = 4
	sampleRecords = 250
	// mostBacklogs is how many partitions are sampled, and mostTenants how many tenants are shown of each.
	mostBacklogs = 10
	mostTenants  = 20
)

// Backlog returns the backlogs of the assigned partitions, the longest first: at most 10 partitions, of each at most
// 20 tenants. It reads up to 1,000 records of each, one partition after the other, and keeps none.
func (f *Fleet) Backlog(ctx context.Context) []PartitionBacklog {
	f.mu.Lock()
	all := make([]PartitionBacklog, 0, len(f.loaders))
	of := make(map[int32]*Loader, len(f.loaders))
	for p, l := range f.loaders {
		all, of[p] = append(all, PartitionBacklog{Partition: p}), l
	}
	f.mu.Unlock()
	var queries sync.WaitGroup
	for i := range all {
		queries.Go(func() { all[i] = of[all[i].Partition].lag(ctx) })
	}
	queries.Wait()
	slices.SortFunc(all, func(a, b PartitionBacklog) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Partition, b.Partition))
	})
	all = all[:min(len(all), mostBacklogs)]
	for i := range all {
		of[all[i].Partition].sample(ctx, &all[i])
	}
	return all
}

// Backlog returns the backlog of the partition. It reads up to 1,000 of its records, and keeps none.
func (l *Loader) Backlog(ctx context.Context) PartitionBacklog {
	b := l.lag(ctx)
	l.sample(ctx, &b)
	return b
}

func (l *Loader) lag(ctx context.Context) PartitionBacklog {
	b := PartitionBacklog{Partition: l.cfg.Partition, Tenants: []BacklogTenant{}}
	records, err := l.Lag(ctx)
	if err != nil {
		b.Error = err.Error()
	}
	b.Records = max(0, records)
	return b
}

// sample finds whose records a backlog has.
func (l *Loader) sample(ctx context.Context, b *PartitionBacklog) {
	from, known := l.Loaded()
	if b.Records == 0 || !known {
		return
	}
	counts := map[string]int{}
	enough := errors.New("the sample is full")
	for i := range int64(samples) {
		at, to := from, from
		at.Offset += i * b.Records / samples
		to.Offset += min((i+1)*b.Records/samples, i*b.Records/samples+sampleRecords)
		left := to.Offset - at.Offset
		if left == 0 {
			continue
		}
		err := l.cfg.Log.Scan(ctx, at, to, func(e sealer.Entry) error {
			counts[readableID(e.TenantID)]++
			b.Sampled++
			if left--; left == 0 {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			b.Error = err.Error()
			break
		}
	}
	for tenant, n := range counts {
		b.Tenants = append(b.Tenants, BacklogTenant{TenantID: tenant, Sampled: n, Records: int64(n) * b.Records / int64(b.Sampled)})
	}
	slices.SortFunc(b.Tenants, func(x, y BacklogTenant) int {
		return cmp.Or(cmp.Compare(y.Sampled, x.Sampled), cmp.Compare(x.TenantID, y.TenantID))
	})
	b.Tenants = b.Tenants[:min(len(b.Tenants), mostTenants)]
}
