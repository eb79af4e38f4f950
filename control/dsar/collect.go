package dsar

import (
	"context"
	"slices"
	"unicode/utf8"

	"muniment.example/control/ingest"
	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
)

// deliveryRow is a delivery with its private part. event and private are verbatim, so their holder
// can verify receipt, witness and commitment.
type deliveryRow struct {
	EventID            string        `json:"eventId"`
	ReceiptID          string        `json:"receiptId"`
	IssuedAt           store.Instant `json:"issuedAt"`
	RenderedAt         store.Instant `json:"renderedAt"`
	RightID            string        `json:"rightId"`
	RightRevision      int64         `json:"rightRevision"`
	BasisID            string        `json:"basisId"`
	Substrate          string        `json:"substrate"`
	SpatialAnchorID    string        `json:"spatialAnchorId"`
	SpatialPlacementID *string       `json:"spatialPlacementId"`
	CorrelationID      *string       `json:"correlationId"`
	DwellMs            float64       `json:"dwellMs"`
	Metered            bool          `json:"metered"`
	Reason             string        `json:"reason"`
	MeteringBasis      string        `json:"meteringBasis"`
	QuantityMs         int64         `json:"quantityMs"`
	Impressions        string        `json:"impressions" decimal:"18,4"`
	Completion         string        `json:"completion"`
	DataSubjectIDs     []string      `json:"dataSubjectIds"`
	AttentionMs        *int64        `json:"attentionMs"`
	Telemetry          canonicalText `json:"telemetry"`
	Event              canonicalText `json:"event"`
	Private            canonicalText `json:"private"`
}

// canonicalText is an RFC 8785 JSON text.
type canonicalText []byte

// eventRow is any other event.
type eventRow struct {
	EventID        string        `json:"eventId"`
	Type           string        `json:"type"`
	At             store.Instant `json:"at"`
	ActorKind      string        `json:"actorKind"`
	ActorID        string        `json:"actorId"`
	SubjectKind    string        `json:"subjectKind"`
	SubjectID      string        `json:"subjectId"`
	DataSubjectIDs []string      `json:"dataSubjectIds"`
	Event          canonicalText `json:"event"`
	Private        canonicalText `json:"private"`
}

// deliveryOf converts a row of the warehouse into a delivery.
func deliveryOf(row *pipeline.Row) (d deliveryRow, err error) {
	_, recorded, err := sealer.CheckRecord(&row.Record)
	if err != nil {
		return d, err
	}
	m, receipt := row.Delivery, &recorded.Receipt
	d = deliveryRow{
		EventID: row.EventID, ReceiptID: m.ReceiptID, IssuedAt: store.At(m.IssuedAt), RenderedAt: store.At(m.RenderedAt), RightID: m.RightID, RightRevision: m.RightRevision,
		BasisID: m.BasisID, Substrate: m.Substrate, SpatialAnchorID: receipt.SpatialAnchorID, SpatialPlacementID: receipt.SpatialPlacementID, CorrelationID: receipt.CorrelationID,
		DwellMs: receipt.DwellMs, Metered: m.Metered, Reason: m.Reason, MeteringBasis: m.MeteringBasis, QuantityMs: m.QuantityMs, Impressions: sealer.FormatImpressions(m.Impressions), Completion: m.Completion,
		DataSubjectIDs: append([]string{}, row.DataSubjects()...), Event: row.Event,
	}
	if len(row.Private) == 0 {
		return d, nil
	}
	p, err := sealer.ParsePrivate(row.Private)
	if err != nil {
		return d, err
	}
	d.Private, d.Telemetry = row.Private, p.Telemetry
	if p.AttentionMs >= 0 {
		d.AttentionMs = &p.AttentionMs
	}
	return d, nil
}

func eventOf(row *pipeline.Row) eventRow {
	e := eventRow{
		EventID: row.EventID, Type: row.Type, At: store.At(row.At), ActorKind: row.ActorKind, ActorID: row.ActorID, SubjectKind: row.SubjectKind, SubjectID: row.SubjectID,
		DataSubjectIDs: append([]string{}, row.DataSubjects()...), Event: row.Event,
	}
	if len(row.Private) > 0 {
		e.Private = row.Private
	}
	return e
}

// quarantinedRow is a record that could not be loaded. event and private are null if the record can't be
// read, and in an export of a person if they name others who can't be told apart.
type quarantinedRow struct {
	Position       string   `json:"position"`
	EventID        string   `json:"eventId"`
	Reason         string   `json:"reason"`
	DataSubjectIDs []string `json:"dataSubjectIds"`
	Event          *string  `json:"event"`
	Private        *string  `json:"private"`
}

func quarantinedOf(s *pipeline.Quarantined, person sealer.Person) (quarantinedRow, error) {
	all := person == sealer.Person{}
	other := func(reference string) bool { return !all && !person.Is(reference) }
	row := quarantinedRow{
		Position: s.Position.String(), EventID: s.EventID, Reason: s.Reason,
		DataSubjectIDs: append([]string{}, slices.DeleteFunc(pipeline.DataSubjectsIn(s.Record), other)...),
	}
	r, err := sealer.ParseRecord(s.Record)
	if err != nil {
		return row, nil
	}
	if _, err := sealer.ParsePrivate(r.Private); err == nil {
		if r.Private, err = sealer.LeaveOut(r.Private, other); err != nil {
			return row, err
		}
	}
	for text, into := range map[string]**string{string(r.Event): &row.Event, string(r.Private): &row.Private} {
		if text != "" && utf8.ValidString(text) && !slices.ContainsFunc(pipeline.DataSubjectsIn([]byte(text)), other) {
			*into = &text
		}
	}
	return row, nil
}

// collection collects the data of one job, as of one moment.
type collection struct {
	*Service
	job   *Job
	asOf  sealer.Position
	q     store.Querier // a snapshot of the database
	begin func(name string, like any) error
	// leave says in the README that a section is left out.
	leave func(store.Section)
	take  func(row any) error
	alive report
	// kept are the rights that a slice selects; nil: all.
	kept map[string]bool
	// noted are the nouns of the records whose events may name the person in their notes.
	noted []string
}

// person is the person whose data is exported; nobody if it is the tenant's.
func (s *Scope) person() (p sealer.Person) {
	if s.DataSubjectID != nil {
		p = sealer.NewPerson(*s.DataSubjectID)
	}
	return p
}

// records reads the sections of the database from one snapshot.
func (c *collection) records(ctx context.Context) error {
	steps := []func(context.Context) error{c.heldRows, c.jobs}
	switch c.job.Scope.Kind {
	case DataSubject:
		steps = append(steps, c.mentions)
	case TenantFull:
		steps = append(steps, c.rejectedPlays, c.configuration)
	case TenantSlice: // the held rows depend on the rights
		steps = []func(context.Context) error{c.rights, c.heldRows}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// query returns the warehouse query for the job's data. few reports that it selects few rows.
func (c *collection) query() (q pipeline.EventQuery, few bool) {
	q.TenantID = c.job.TenantID
	if subject := c.job.Scope.DataSubjectID; subject != nil {
		q.DataSubject = *subject
		return q, true
	}
	return q, false
}

// alone removes other persons from a row of an export of one: the private part has hashes in their places.
func (c *collection) alone(row *pipeline.Row) (err error) {
	if person := c.job.Scope.person(); person != (sealer.Person{}) {
		row.Private, err = sealer.LeaveOut(row.Private, func(reference string) bool { return !person.Is(reference) })
	}
	return err
}

func (c *collection) deliveries(ctx context.Context) error {
	if begun, err := c.section(deliveries); !begun {
		return err
	}
	s := &c.job.Scope
	q, few := c.query()
	q.Types = []string{sealer.TypeDelivery}
	q.RenderedFrom, q.RenderedTo = s.WindowStart.Time, s.WindowEnd.Time
	return c.scan(ctx, q, c.asOf, few, c.alive, func(row *pipeline.Row) error {
		if c.kept != nil && !c.kept[row.Delivery.RightID] || !s.of(row.Delivery.Substrate) {
			return nil
		}
		if err := c.alone(row); err != nil {
			return err
		}
		d, err := deliveryOf(row)
		if err != nil {
			return err
		}
		return c.take(d)
	})
}

// of reports whether a slice selects a substrate.
func (s *Scope) of(substrate string) bool {
	return len(s.Substrates) == 0 || slices.Contains(s.Substrates, gate.Any.String()) || slices.Contains(s.Substrates, substrate)
}

// events collects the events other than deliveries. For a slice by rights these are the events about
// its rights.
func (c *collection) events(ctx context.Context) error {
	if begun, err := c.section(events); !begun {
		return err
	}
	s := &c.job.Scope
	q, few := c.query()
	q.NoDeliveries, q.From, q.To = true, s.WindowStart.Time, s.WindowEnd.Time
	whole := c.whole()
	err := c.scan(ctx, q, c.asOf, few, c.alive, func(row *pipeline.Row) error {
		if c.kept != nil && (row.SubjectKind != "right" || !c.kept[row.SubjectID]) {
			return nil
		}
		if !whole {
			row.Private = nil
		}
		return c.take(eventOf(row))
	})
	for _, noun := range c.noted {
		if err == nil {
			err = c.scan(ctx, pipeline.EventQuery{TenantID: q.TenantID, NoDeliveries: true, SubjectKind: noun}, c.asOf, false, c.alive, c.takeNoted)
		}
	}
	return err
}

// quarantined collects the records that could not be loaded, of a tenant or a person. In a slice there are
// none: it is unknown what their times and rights are.
func (c *collection) quarantined(ctx context.Context) error {
	if c.job.Scope.Kind == TenantSlice {
		return nil
	}
	if begun, err := c.section(quarantined); !begun {
		return err
	}
	person := c.job.Scope.person()
	list, err := c.cfg.Warehouse.QuarantinedOf(ctx, c.job.TenantID, person)
	whole := c.whole()
	for i := range list {
		var row quarantinedRow
		if err == nil {
			row, err = quarantinedOf(&list[i], person)
		}
		if !whole {
			row.Event, row.Private = nil, nil // of what is unknown
		}
		if err == nil {
			err = c.take(row)
		}
	}
	return err
}

// takeNoted takes an event whose notes name the person, and that is about nobody or somebody else. Other notes
// are left out.
func (c *collection) takeNoted(row *pipeline.Row) (err error) {
	person := c.job.Scope.person()
	if len(row.Private) == 0 || row.IsAbout(person) {
		return nil
	}
	if row.Private, err = sealer.NotesAbout(row.Private, person); err != nil || len(row.Private) == 0 {
		return err
	}
	if err := c.alone(row); err != nil { // it may be about somebody else
		return err
	}
	return c.take(eventOf(row))
}

// mentions collects the texts about the person in the database.
func (c *collection) mentions(ctx context.Context) error {
	if begun, err := c.section(mentions); !begun {
		return err
	}
	found, err := c.cfg.Tables.Find(ctx, c.q, c.job.TenantID, c.job.Scope.person(), func(row store.Sight) error {
		for _, m := range row.Mentions {
			if err := c.take(m); err != nil {
				return err
			}
		}
		return nil
	})
	c.noted = found.Nouns
	return err
}

// heldRows collects held rows. Their right is decided when they are delivered, so a slice by rights has
// none.
func (c *collection) heldRows(ctx context.Context) error {
	if begun, err := c.section(heldRows); !begun || c.kept != nil {
		return err
	}
	s := &c.job.Scope
	return ingest.EachHeld(ctx, c.q, c.job.TenantID, s.person(), func(h ingest.HeldPerson) error {
		if s.Kind == TenantSlice && (h.PlayedAt.Before(s.WindowStart.Time) || !h.PlayedAt.Before(s.WindowEnd.Time)) {
			return nil
		}
		return c.take(h)
	})
}

// rejectedPlays collects the rejected plays of a tenant.
func (c *collection) rejectedPlays(ctx context.Context) error {
	if begun, err := c.section(rejectedPlays); !begun {
		return err
	}
	return ingest.EachRejected(ctx, c.q, c.job.TenantID, func(p ingest.RejectedPlay) error { return c.take(p) })
}

// jobs collects the DSAR jobs, or those about the person.
func (c *collection) jobs(ctx context.Context) error {
	if begun, err := c.section(dsarJobs); !begun {
		return err
	}
	person := c.job.Scope.person()
	for s := (store.Slice{Limit: 500}); ; {
		page, next, err := jobs.Page(ctx, c.q, c.job.TenantID, store.Where{}, s)
		if err != nil {
			return err
		}
		if person != (sealer.Person{}) {
			page = slices.DeleteFunc(page, func(j Job) bool { return !person.Is(j.Scope.person().String()) })
		}
		list, err := views(ctx, c.q, page)
		if err != nil {
			return err
		}
		for _, v := range list {
			if err := c.take(v); err != nil {
				return err
			}
		}
		if s.Behind = next; next == "" {
			return nil
		}
	}
}

func (c *collection) configuration(ctx context.Context) error {
	for _, s := range configuration {
		begun, err := c.section(s)
		if err != nil {
			return err
		}
		if !begun {
			continue
		}
		if err := s.Each(ctx, c.q, c.job.TenantID, c.take); err != nil {
			return err
		}
	}
	return nil
}

// rights selects the rights of a slice: on one of its substrates, with one of its campaigns in their
// scope.
func (c *collection) rights(ctx context.Context) error {
	begun, err := c.section(right.Rights)
	if err != nil {
		return err
	}
	s := &c.job.Scope
	if len(s.CampaignIDs) > 0 || !s.of(gate.Any.String()) {
		c.kept = map[string]bool{}
	}
	return right.Rights.Each(ctx, c.q, c.job.TenantID, func(row any) error {
		r := row.(right.Right)
		scope, err := settlement.ScopeOf(r.ID, r.Scope)
		if err != nil {
			return err
		}
		listed := func(campaign string) bool { return slices.Contains(scope.Campaigns, campaign) }
		if len(s.CampaignIDs) > 0 && !slices.ContainsFunc(s.CampaignIDs, listed) || r.Substrate != gate.Any.String() && !s.of(r.Substrate) {
			return nil
		}
		if c.kept != nil {
			c.kept[r.ID] = true
		}
		if !begun {
			return nil
		}
		return c.take(r)
	})
}
