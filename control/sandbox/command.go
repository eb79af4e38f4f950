package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Commands are what "muniment sandbox" does, in the form that kong reads.
type Commands struct {
	RotateSecret RotateCommand `cmd:"" help:"Sign the cookies with a new secret; no process accepts older cookies after that."`
}

// RotateCommand rotates the secret of the cookies.
type RotateCommand struct {
	JSON bool `help:"Print one JSON object."`
}

// Rotated is the response to a rotation.
type Rotated struct {
	RotatedAt store.Instant `json:"rotatedAt"`
}

// Run sends the request to the server.
func (c *RotateCommand) Run(server route.AdminClient, out io.Writer) error {
	var done Rotated
	if err := server.Do(http.MethodPost, "/admin/sandbox/rotate-secret", nil, &done); err != nil {
		return fmt.Errorf("cannot rotate the secret of the cookies: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(done)
	}
	_, err := fmt.Fprintf(out, "Cookies from before %s are no longer accepted\n", done.RotatedAt)
	return err
}

// OperatorRoutes adds what an operator may do to the API of the admin listener.
func (s *Service) OperatorRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "rotate-sandbox-secret", Method: http.MethodPost, Path: "/admin/sandbox/rotate-secret", Tag: "Operator", Access: route.Operator{},
		Summary: "Sign the sandbox's cookies with a new secret, and accept no older cookies"}, func(ctx context.Context, _ *struct{}) (Rotated, error) {
		at, err := s.RotateSecret(ctx, store.ByOperator())
		return Rotated{at}, err
	})
}

const rotatedEvent = "sandbox.secret_rotated"

// RotateSecret invalidates every visitor's cookie, in every process once it returns.
func (s *Service) RotateSecret(ctx context.Context, by sealer.Ref) (at store.Instant, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		at = store.At(tx.Now())
		if err := replaceSecret(ctx, tx, newSecret(), at); err != nil {
			return err
		}
		return tx.EmitRecord(ctx, sealer.Event{
			TenantID: api.SystemTenant, Type: rotatedEvent, At: at.Time, Actor: by, Subject: sealer.Ref{Kind: "sandbox", ID: "cookies"},
		}, struct{}{})
	})
	return at, err
}
