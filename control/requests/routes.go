package requests

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operation to the API.
func (s *Service) Routes(a route.API) {
	route.Add(a, route.Operation{ID: "list-refused-requests", Method: http.MethodGet, Path: "/v1/requests", Tag: "Tenant", Access: route.Scope(api.KeysWrite),
		Summary: "List the refused requests of the last 24 hours, by key and code, the last first",
		Description: "A line counts requests that have key, operation, status, code and cause in common, and has the id of the last. Refused are those that were answered with 400 or above; rows of batches and beacons are not requests of their own. " +
			"Only requests with the secret of one of the tenant's keys are here, also of one that is revoked or has expired: without it nobody knows whose they are. " +
			"A line appears within seconds. It is no evidence: what a process has counted in its last seconds is lost when it ends. " +
			"A tenant has at most 256 lines, of which a key has 64. Those of a key that are more count in a line without operation and code, and what else is in no other line in one without a key, too."}, s.list)
}

// SchemaName returns the schema name in the OpenAPI document.
func (Line) SchemaName() string { return "RefusedRequests" }

// SchemaName returns the schema name in the OpenAPI document.
func (List) SchemaName() string { return "RefusedRequestsList" }

// Line is refused requests that have something in common.
type Line struct {
	KeyID     string        `json:"keyId" doc:"The API key that they have shown; empty in the line for all that is in no other."`
	KeyLabel  string        `json:"keyLabel" doc:"The label of the key."`
	Operation string        `json:"operation" doc:"The id of the operation in this document; or broadsign, of a player; forwarded, which a node refused before control has seen it; unmatched, of an unknown path or method. Empty in a line for what is in no other."`
	Status    int           `json:"status" doc:"The HTTP status of the responses; 0 in a line without an operation."`
	Code      api.Code      `json:"code" doc:"The error of the responses; empty in a line without an operation."`
	Cause     string        `json:"cause" doc:"What is known besides: the reason of a 503, the scopes that the key lacks, the first rule of the gate that is broken, or the field that is missing or wrong. Empty for nothing."`
	Count     int64         `json:"count" doc:"How many there were since firstAt. It begins again once firstAt is more than a day ago."`
	FirstAt   store.Instant `json:"firstAt" doc:"When the first was refused, to the minute."`
	LastAt    store.Instant `json:"lastAt" doc:"When the last was refused, to the minute: at most 24 hours ago."`
	RequestID string        `json:"requestId" doc:"The x-request-id of the last."`
	Advice    string        `json:"advice" doc:"What to do about it, for people; it may change."`

	place string
}

// List is one page of lines.
type List struct {
	Requests   []Line  `json:"requests" doc:"A page of the lines, the last first."`
	NextCursor *string `json:"nextCursor"`
}

type listInput struct {
	route.Page
	KeyID string `query:"keyId" maxLength:"64" doc:"Only those with this key."`
	Code  string `query:"code" enum:"AUTH_INVALID,SCOPE_MISSING,RESOURCE_NOT_FOUND,STATE_CONFLICT,PRECONDITION_FAILED,VALIDATION_FAILED,RATE_LIMITED,BAD_REQUEST,INTERNAL_ERROR" doc:"Only those with this error."`
}

func (s *Service) list(ctx context.Context, in *listInput) (found List, err error) {
	slice, err := in.Slice()
	if err != nil {
		return found, err
	}
	tenantID := auth.PrincipalFrom(ctx).TenantID
	var w store.Where
	w.Is("r.tenant_id", tenantID)
	w.And("r.last_at >= $", store.At(s.db.Now().Add(-kept)))
	w.Is("r.key_id", in.KeyID)
	w.Is("r.code", in.Code)
	var next string
	found.Requests, next, err = store.ListPage(ctx, s.db.Read(), slice, "the refused requests of "+tenantID, func(l Line) string { return l.place }, func(row store.Row) (l Line, err error) {
		err = row.Scan(&l.place, &l.KeyID, &l.KeyLabel, &l.Operation, &l.Status, &l.Code, &l.Cause, &l.Count, &l.FirstAt, &l.LastAt, &l.RequestID)
		if l.Advice = api.Remedy(l.Status, l.Operation); l.Operation == "" {
			l.Advice = "see what the other lines say first"
		}
		return l, err
	}, `SELECT r.place, r.key_id, COALESCE(k.label, ''), r.operation, r.status, r.code, r.cause, r.request_count, r.first_at, r.last_at, r.last_request
		FROM refused_requests r LEFT JOIN api_keys k ON k.key_id = r.key_id`, "r.place", w)
	found.NextCursor = in.Next(next)
	return found, err
}
