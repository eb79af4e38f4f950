package erasure

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// count counts the data about a person, and the events that will still name the person.
func (s *Service) count(ctx context.Context, e *Erasure, person sealer.Person) (c Counts, err error) {
	found, err := s.cfg.Warehouse.CountSubject(ctx, e.TenantID, e.SubjectHash)
	if err != nil {
		return c, err
	}
	c.PrivateParts, c.SetAside = found.PrivateParts, found.Quarantined
	var kept map[string]int64
	err = s.db.Search(ctx, func(q store.Querier) error {
		beside, err := s.bundlesBeside(ctx, q, e)
		if err != nil {
			return err
		}
		rows, err := s.cfg.Tables.Find(ctx, q, e.TenantID, person, beside.taker())
		if c.Records = rows.Rows; err == nil && s.cfg.Bundles != nil {
			c.Bundles, err = s.cfg.Bundles.Count(ctx, q, e.TenantID, beside.is, rows.Records)
		}
		if err == nil {
			kept, err = s.cfg.Tables.Kept(ctx, q, e.TenantID, person)
		}
		if c.Statements = []string{}; err == nil && s.cfg.Statements != nil {
			c.Statements, err = s.cfg.Statements(ctx, q, e.TenantID, person)
		}
		return err
	})
	if err == nil {
		c.Permanent, err = s.permanent(ctx, e.TenantID, person)
	}
	if err == nil {
		maps.Copy(c.Permanent, kept)
	}
	return c, err
}

// eventsAPage is how many events are held in memory.
const eventsAPage = 1000

// permanent counts what names a person by a text that no erasure removes: the loaded events, by type, the
// deliveries with such telemetry, and the quarantined records.
func (s *Service) permanent(ctx context.Context, tenantID string, person sealer.Person) (map[string]int64, error) {
	counts := map[string]int64{}
	deliveries, err := s.cfg.Warehouse.CountLabelled(ctx, tenantID, person)
	if err != nil {
		return nil, err
	}
	if deliveries > 0 {
		counts[sealer.TypeDelivery] = deliveries
	}
	seen, err := s.cfg.Warehouse.CountTelemetry(ctx, tenantID, person)
	if err != nil {
		return nil, err
	}
	if seen > 0 {
		counts["telemetry"] = seen
	}
	unread, err := s.cfg.Warehouse.QuarantinedOf(ctx, tenantID, sealer.Person{})
	if err != nil {
		return nil, err
	}
	for i := range unread {
		if s.stillNames(&unread[i], person) {
			counts["quarantined"]++
		}
	}
	members, fragment := s.cfg.Tables.PublicMembers(), []byte(person.Fragment())
	for after := (*sealer.Position)(nil); ; {
		page, err := s.cfg.Warehouse.Events(ctx, pipeline.EventQuery{TenantID: tenantID, NoDeliveries: true, After: after, Limit: eventsAPage})
		if err != nil {
			return nil, err
		}
		for i := range page {
			r := &page[i]
			if !bytes.Contains(r.Event, fragment) && !bytes.ContainsRune(r.Event, '\\') {
				continue
			}
			e, err := sealer.ParseEvent(r.Event)
			if err != nil {
				return nil, err
			}
			named, err := s.names(e.Data, members, person)
			if err != nil {
				return nil, err
			}
			if named {
				counts[r.Type]++
			}
		}
		if len(page) < eventsAPage {
			return counts, nil
		}
		after = &page[len(page)-1].Position
	}
}

// stillNames reports whether a quarantined record names a person by a text that pipeline.Erased.Record
// leaves: that deletes a whole private part, event or unreadable record with a reference to the person.
func (s *Service) stillNames(q *pipeline.Quarantined, person sealer.Person) bool {
	parts := [][]byte{q.Record}
	if r, err := sealer.ParseRecord(q.Record); err == nil {
		parts = [][]byte{r.Event, r.Private}
	}
	return slices.ContainsFunc(parts, func(part []byte) bool {
		if slices.ContainsFunc(pipeline.DataSubjectsIn(part), person.Is) {
			return false
		}
		named, err := s.names(part, []string{"*"}, person)
		if err != nil {
			named = person.In(string(part))
		}
		return named
	})
}

// names reports whether a JSON text names a person by a text of some members, or by a name that callers choose.
func (s *Service) names(data []byte, members []string, person sealer.Person) (named bool, err error) {
	if named, err = s.cfg.Tables.InNames(string(data), person); err == nil {
		err = store.EachText(string(data), members, func(text string) { named = named || person.In(text) })
	}
	return named, err
}

// beside finds whose bundles hold data of an erased person beside that of the person whom they are
// about: an export of a person has whole texts, which may name both.
type beside struct {
	*Service
	of      *Erasure
	persons []subject
}

// subject is a person whom bundles are about.
type subject struct {
	reference string
	person    sealer.Person
	shown     bool // with the erased person
}

func (s *Service) bundlesBeside(ctx context.Context, q store.Querier, e *Erasure) (*beside, error) {
	b := &beside{Service: s, of: e}
	if s.cfg.Bundles == nil {
		return b, nil
	}
	all, err := s.cfg.Bundles.Subjects(ctx, q, e.TenantID)
	for _, reference := range all {
		b.persons = append(b.persons, subject{reference: reference, person: sealer.NewPerson(reference)})
	}
	return b, err
}

// taker is what takes the rows about the erased person; nil if no row matters.
func (b *beside) taker() func(store.Sight) error {
	if len(b.persons) == 0 {
		return nil
	}
	return b.take
}

func (b *beside) take(row store.Sight) error {
	for i := range b.persons {
		p := &b.persons[i]
		p.shown = p.shown || slices.ContainsFunc(row.Texts, p.person.In)
	}
	return nil
}

// is reports whether bundles about a reference hold data of the erased person.
func (b *beside) is(dataSubjectID string) bool {
	return b.Service.is(b.of)(dataSubjectID) ||
		slices.ContainsFunc(b.persons, func(p subject) bool { return p.shown && p.reference == dataSubjectID })
}

// close makes void what bundles hold data of the erased person.
func (b *beside) close(ctx context.Context, tx *store.Tx, records []string) error {
	if b.cfg.Bundles == nil {
		return nil
	}
	return b.cfg.Bundles.Close(ctx, tx, b.of.TenantID, b.is, records)
}
