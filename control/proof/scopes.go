package proof

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
)

// Scopes returns what names has of the scopes of rights, by their ids; nil names everything. A scope is that of
// the oldest event in the log that issued the right, whatever the database says: a verifier reads no other. Rights
// that the log did not issue are left out. It fails with 503 as long as the warehouse may still lack the event of
// a right.
func (a *archive) Scopes(ctx context.Context, tenantID string, names *settlement.ScopeNames, rightIDs []string) ([]settlement.Right, error) {
	s := scopeSearch{archive: a, tenantID: tenantID, names: names, missing: make(map[string]bool, len(rightIDs))}
	for _, id := range rightIDs {
		s.missing[id] = true
	}
	err := s.inWarehouse(ctx)
	if err == nil && len(s.missing) > 0 {
		// A right is issued before it is delivered under, but its event may come into the log later.
		if err = a.AwaitRecorded(ctx, tenantID); err == nil {
			err = s.inWarehouse(ctx)
		}
	}
	if err == nil && len(s.missing) > 0 {
		err = s.inPacks(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the scopes of rights of %s: %w", tenantID, err)
	}
	slices.SortFunc(s.found, func(a, b settlement.Right) int { return strings.Compare(a.RightID, b.RightID) })
	return s.found, nil
}

// scopeSearch is a call of Scopes.
type scopeSearch struct {
	*archive
	tenantID string
	names    *settlement.ScopeNames
	missing  map[string]bool
	found    []settlement.Right
}

// take adds the scope that an event has, of a right that is missing.
func (s *scopeSearch) take(text []byte) error {
	e, err := sealer.ParseEvent(text)
	if err != nil {
		return err
	}
	if r := settlement.RightIn(&e); r != nil && s.missing[r.RightID] {
		delete(s.missing, r.RightID)
		s.found = append(s.found, s.names.Of([]settlement.Right{*r})...)
	}
	return nil
}

// inWarehouse searches the loaded events.
func (s *scopeSearch) inWarehouse(ctx context.Context) error {
	missing := make([]string, 0, len(s.missing))
	for id := range s.missing {
		missing = append(missing, id)
	}
	slices.Sort(missing)
	for some := range slices.Chunk(missing, pageRows) {
		q := pipeline.EventQuery{TenantID: s.tenantID, Types: []string{sealer.TypeRightIssued}, SubjectKind: sealer.SubjectRight, SubjectIDs: some, Limit: pageRows}
		for {
			rows, err := s.warehouse.Events(ctx, q)
			for i := range rows {
				if err == nil {
					err = s.take(rows[i].Event)
				}
			}
			if err != nil {
				return err
			}
			if len(rows) < q.Limit {
				break
			}
			q.After = &rows[len(rows)-1].Position
		}
	}
	return nil
}

// inPacks searches the packs: a warehouse that was lost does not get back what the log no longer has.
func (s *scopeSearch) inPacks(ctx context.Context) error {
	absent := s.absent.of(s.tenantID)
	absent.Lock()
	defer absent.Unlock()
	searched := int64(-1) // the packs from the first on that hold none of what is missing
	for id := range s.missing {
		if n := absent.through[id]; searched < 0 || n < searched {
			searched = n
		}
	}
	for len(s.missing) > 0 {
		packs, err := listSummaries(ctx, s.db.Read(), s.tenantID, selection{after: searched}, packsAtOnce)
		if err != nil || len(packs) == 0 {
			return err
		}
		for _, p := range packs {
			if err := s.inPack(ctx, p); err != nil {
				return err
			}
			searched = p.Sequence
			for id := range s.missing {
				absent.through[id] = searched
			}
		}
	}
	return nil
}

// packsAtOnce is how many packs one query lists.
const packsAtOnce = 100

var issuedText = []byte(`"type":"` + sealer.TypeRightIssued + `"`)

// inPack searches one pack.
func (s *scopeSearch) inPack(ctx context.Context, p Pack) error {
	file, err := s.folder.open(ctx, p)
	if err != nil {
		return err
	}
	defer file.Close()
	reader, err := pack.Read(file)
	for err == nil && len(s.missing) > 0 {
		var text []byte
		if text, err = reader.Next(); err == nil && bytes.Contains(text, issuedText) {
			err = s.take(text)
		}
		if err == nil {
			err = ctx.Err()
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// absences remembers, by tenant, through which pack rights were searched in vain, so that a pack is read once for
// them. There are few: only where a part of the log was lost.
type absences struct {
	mu      sync.Mutex
	tenants map[string]*absence
}

type absence struct {
	sync.Mutex
	through map[string]int64 // by right
}

func (a *absences) of(tenantID string) *absence {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tenants == nil {
		a.tenants = make(map[string]*absence)
	}
	if a.tenants[tenantID] == nil {
		a.tenants[tenantID] = &absence{through: make(map[string]int64)}
	}
	return a.tenants[tenantID]
}
