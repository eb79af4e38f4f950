package event

import (
	"context"
	"encoding/json"
	"strings"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// LoggedEvent is an event of the tenant's log and its position. Its private part stays in the
// warehouse.
type LoggedEvent struct {
	Position string          `json:"position" doc:"Opaque; usable wherever a position is a parameter."`
	Event    json.RawMessage `json:"event" doc:"Verbatim: its canonical bytes are the leaf of the tenant's Merkle log."`
}

type eventsRequest struct {
	Types       []string `query:"type,explode" maxItems:"50" minLength:"1" doc:"Only events of these kinds, such as delivery.recorded; repeat the parameter, or separate values with commas. x-event-kinds in this document lists all kinds."`
	SubjectKind string   `query:"subjectKind" maxLength:"64" doc:"Only events about this kind of thing, such as right or key."`
	SubjectID   string   `query:"subjectId" maxLength:"64" doc:"Only events about the thing with this id."`
	ActorKind   string   `query:"actorKind" enum:"key,member,node,operator,system" doc:"Only events caused by this kind of actor."`
	ActorID     string   `query:"actorId" maxLength:"64" doc:"Only events caused by this actor."`
	RightID     string   `query:"rightId" maxLength:"64" doc:"Only events about this right, including its deliveries; short for subjectKind=right and subjectId."`
	route.Window
	After  string `query:"after" maxLength:"64" doc:"Only events after this position."`
	Before string `query:"before" maxLength:"64" doc:"Only events before this position."`
	Order  string `query:"order" enum:"asc,desc" default:"desc" doc:"desc: newest first. asc: oldest first; to continue a listing later, pass the position of its last event as after."`
	route.AsOf
	route.Page
}

// eventList is the response to GET /v1/events.
type eventList struct {
	Events     []LoggedEvent `json:"events"`
	AsOf       *string       `json:"asOf" doc:"The log position up to which events were searched; null while nothing is loaded."`
	NextCursor *string       `json:"nextCursor"`
}

// query reads the filters of a tenant in a partition. asOf bounds the listing; nil
// leaves it open. VALIDATION_FAILED names a type that is none of the kinds.
func (in *eventsRequest) query(tenantID string, partition int32, asOf *sealer.Position, kinds store.Kinds) (q pipeline.EventQuery, err error) {
	q = pipeline.EventQuery{
		TenantID: tenantID, ActorKind: in.ActorKind, ActorID: in.ActorID, SubjectKind: in.SubjectKind, SubjectID: in.SubjectID,
		Newest: in.Order == "desc", Limit: in.Limit + 1, Before: asOf,
	}
	for _, several := range in.Types {
		for kind := range strings.SplitSeq(several, ",") {
			kind = strings.TrimSpace(kind)
			if kinds.Find(kind) == nil {
				return q, api.Invalid(route.UnknownKind("type", kind, kinds.Types()))
			}
			q.Types = append(q.Types, kind)
		}
	}
	if in.RightID != "" {
		if q.SubjectKind != "" && q.SubjectKind != "right" || q.SubjectID != "" && q.SubjectID != in.RightID {
			return q, api.InvalidField("rightId", "contradicts subjectKind or subjectId")
		}
		q.SubjectKind, q.SubjectID = "right", in.RightID
	}
	from, to, err := in.Bounds()
	if err != nil {
		return q, err
	}
	q.From, q.To = from.Time, to.Time
	after, err := route.GivenPosition("after", in.After, partition)
	if err != nil {
		return q, err
	}
	before, err := route.GivenPosition("before", in.Before, partition)
	if err != nil {
		return q, err
	}
	last, err := in.last()
	if err != nil {
		return q, err
	}
	q.Before = nearer(q.Before, before, -1)
	if q.Newest {
		q.After, q.Before = after, nearer(q.Before, last, -1)
	} else {
		q.After = nearer(after, last, +1)
	}
	return q, nil
}

// last is the position of the last event that the caller has seen; nil on the first
// page.
func (in *eventsRequest) last() (*sealer.Position, error) {
	slice, err := in.Slice()
	if err != nil || slice.Behind == "" {
		return nil, err
	}
	order, text, _ := strings.Cut(slice.Behind, "/")
	at, err := sealer.ParsePosition(text)
	if err != nil || order != in.Order {
		return nil, route.BadCursor()
	}
	return &at, nil
}

// nearer returns the stricter of two bounds: the lower for side −1, the higher for +1. nil is no
// bound.
func nearer(a, b *sealer.Position, side int) *sealer.Position {
	if a == nil || b != nil && b.Compare(*a) == side {
		return b
	}
	return a
}

func (s *Service) listEvents(ctx context.Context, in *eventsRequest) (eventList, error) {
	page := eventList{Events: []LoggedEvent{}}
	tenantID := auth.PrincipalFrom(ctx).TenantID
	partition, err := s.log.PartitionOf(ctx, tenantID)
	if err != nil {
		return eventList{}, err
	}
	asOf, err := in.Position(ctx, s.warehouse, s.log, tenantID)
	if err != nil {
		return eventList{}, err
	}
	query, err := in.query(tenantID, partition, asOf, s.kinds)
	if err != nil {
		return eventList{}, err
	}
	if asOf == nil {
		return page, nil
	}
	rows, err := s.list(ctx, query)
	if err != nil {
		return eventList{}, err
	}
	page.AsOf = new(asOf.String())
	rows, next := store.Cut(rows, in.Limit, func(row pipeline.Row) string { return in.Order + "/" + row.Position.String() })
	page.NextCursor = in.Next(next)
	for _, row := range rows {
		page.Events = append(page.Events, LoggedEvent{row.Position.String(), row.Event})
	}
	return page, nil
}
