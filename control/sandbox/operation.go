package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

const tag = "Sandbox"

// Open completes an operation of another package, under PlaygroundBase, that is for visitors with a
// tenant: cookie, limits and errors are as in the sandbox. Its handler passes its error through
// Refuse.
func (s *Service) Open(op route.Operation) route.Operation {
	op.Path, op.Tag = PlaygroundBase+op.Path, tag
	return s.open(op, toTenants)
}

// OpenStream is Open for an operation whose answer has no end: it is not counted among what a
// visitor has in flight, and has to count itself.
func (s *Service) OpenStream(op route.Operation) route.Operation {
	op = s.Open(op)
	own := op.Access.(route.Own)
	own.Tenant = nil
	op.Access = own
	return op
}

func (s *Service) open(op route.Operation, to admission) route.Operation {
	op.Refuse, op.EmptyIsMissing = refuse, true
	if op.Method != http.MethodGet { // refused if a page of another site sends it
		op.Errors = append(op.Errors, http.StatusForbidden)
	}
	tenant := func(ctx context.Context) string { return visitorOf(ctx).tenantID }
	switch cookie := map[string][]string{SecurityScheme: {}}; to {
	case toAnyone:
		op.Access = s.anyone()
	case toVisitors:
		op.Access = route.Own{Let: s.withOrWithout, Tenant: tenant, Security: []map[string][]string{{}, cookie}}
	default:
		op.Access = route.Own{Let: s.withTenant, Tenant: tenant, Security: []map[string][]string{cookie}}
		op.Errors = append(op.Errors, http.StatusNotFound, http.StatusGone)
	}
	return op
}

// Refuse is the error of a handler as the sandbox answers it; nil for none.
func (s *Service) Refuse(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*api.Error](err); ok { // would get the envelope of /v1
		err = refuse(e, []error{err})
	}
	if s.gone(ctx, err) {
		err = evicted()
	}
	return err
}

// gone says whether an error that looks like an internal fault only means that the visitor's tenant
// was dropped during the request.
func (s *Service) gone(ctx context.Context, err error) bool {
	v := visitorOf(ctx)
	own, ok := errors.AsType[*Error](err)
	if err == nil || !v.hasTenant() || ok && own.status != http.StatusInternalServerError {
		return false
	}
	l, unknown := findVisitorTenant(ctx, s.db.Read(), v.tenantID)
	return l == nil && unknown == nil
}

// Visitor is who has sent an admitted request.
type Visitor struct {
	TenantID string
	// Address is a keyed hash of where it came from.
	Address string
}

// VisitorOf returns the visitor of an operation that was opened by Open or OpenStream.
func VisitorOf(ctx context.Context) Visitor {
	v := visitorOf(ctx)
	return Visitor{v.tenantID, v.address}
}

// Lives says whether a tenant still is a visitor's. It is not once it was dropped, or its key was
// revoked.
func (s *Service) Lives(ctx context.Context, tenantID string) (bool, error) {
	l, err := findVisitorTenant(ctx, s.db.Read(), tenantID)
	if err != nil || l == nil {
		return false, err
	}
	of, err := s.callerOf(ctx, l.keyID)
	return of.Key != nil, err
}

// Deliver issues a receipt for the visitor's body of POST /v1/delivery, if the budget has space for it.
// The answer is that route's. Errors are as of Config.Deliver, or an *Error.
func (s *Service) Deliver(ctx context.Context, body []byte) (answer json.RawMessage, err error) {
	if err := s.admit(ctx, 1); err != nil {
		return nil, err
	}
	of := visitorOf(ctx).caller
	answer, err = s.cfg.Deliver(ctx, of.TenantID, of.ID, body)
	if refused, ok := errors.AsType[*api.Error](err); ok && refused.GetStatus() == http.StatusUnauthorized { // the key was revoked meanwhile
		return nil, evicted()
	}
	if err == nil {
		s.count(ctx, weight(len(body)))
	}
	return answer, err
}
