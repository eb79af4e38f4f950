package proof

import (
	"context"
	"iter"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// page is a run of a tenant's rows, and the duplicates among them.
type page struct {
	rows    []pipeline.Row
	repeats []pipeline.Duplicate
	err     error // instead of both
}

// pages iterates over the tenant's rows after after and before end, at most limit. It reads the next
// page while the caller works on one. It stops after an error.
func (s *session) pages(ctx context.Context, after, end sealer.Position, limit int) iter.Seq[page] {
	return func(yield func(page) bool) {
		ctx, cancel := context.WithCancel(ctx)
		next := make(chan page)
		go func() {
			defer close(next)
			for limit > 0 {
				size := min(limit, pageRows)
				p := s.page(ctx, after, end, size)
				select {
				case next <- p:
				case <-ctx.Done():
					return
				}
				if len(p.rows) < size {
					return
				}
				limit -= size
				after = p.rows[size-1].Position
			}
		}()
		defer func() {
			cancel()
			for range next { // wait for the reader to end
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

// page reads one page.
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
