package proof

import (
	"context"
	"iter"

	"muniment/pipeline"
	"muniment/sealer"
)

// page is a run of a tenant's rows, and the duplicates among them.
type page struct {
	rows    []pipeline.Row
	repeats []pipeline.Duplicate
	err     error // instead of both
}

// pages are the tenant's rows behind after and before end, at most limit. The next page is
// read while the caller is at work on one. After an error nothing follows.
func (s *session) pages(ctx context.Context, after, end sealer.Position, limit int) iter.Seq[page] {
	return func(yield func(page) bool) {
		ctx, cancel := context.WithCancel(ctx)
		next := make(chan page)
		go func() {
			defer close(next)
			for limit > 0 {
				ask := min(limit, pageRows)
				p := s.page(ctx, after, end, ask)
				select {
				case next <- p:
				case <-ctx.Done():
					return
				}
				if len(p.rows) < ask {
					return
				}
				limit -= ask
				after = p.rows[ask-1].Position
			}
		}()
		defer func() {
			cancel()
			for range next { // until its reader has ended
			}
		}()
		for p := range next {
			if !yield(p) || p.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(page{err: err})
		}
	}
}

// page reads one.
func (s *session) page(ctx context.Context, after, end sealer.Position, limit int) (p page) {
	p.rows, p.err = s.warehouse.Events(ctx, pipeline.EventQuery{TenantID: s.tenantID, After: &after, Before: &end, Limit: limit})
	if n := len(p.rows); n > 0 {
		p.repeats, p.err = s.warehouse.Duplicates(ctx, s.tenantID, after, p.rows[n-1].Position)
	}
	if p.err != nil {
		p.rows = nil
	}
	return p
}
