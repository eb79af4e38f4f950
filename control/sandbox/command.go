package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/terminal"
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
	_, err := terminal.Fprintf(out, "Cookies from before %s are no longer accepted\n", done.RotatedAt)
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

// RotateSecret invalidates every visitor's cookie, in every process once it returns.
func (s *Service) RotateSecret(ctx context.Context, by sealer.Ref) (at store.Instant, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		at = store.At(tx.Now())
		if err := replaceSecret(ctx, tx, newSecret(), at); err != nil {
			return err
		}
		return tx.EmitRecord(ctx, secretRotated, sealer.Event{
			TenantID: api.SystemTenant, At: at.Time, Actor: by, Subject: sealer.Ref{Kind: "sandbox", ID: "cookies"},
		}, struct{}{})
	})
	return at, err
}

// Flags are the flags of a command that serves the sandbox, in the form that kong reads.
type Flags struct {
	Tenants int   `default:"5000" least:"0" help:"How many visitors may have a tenant of the sandbox, in all processes together. For one more, the tenant that is idle longest (over an hour) is dropped; if there is none, the response is 503. 0 turns the sandbox off; existing tenants then keep their keys and rights, and are dropped as idle when it is on again." placeholder:"N"`
	Events  int64 `default:"400000" least:"8192" help:"How many events of all visitors together the log may have, each of which takes about 4 KB in log, warehouse and packs: beyond that the response is 503. One IP address may cause a 64th of them, however many tenants it creates: beyond that the response is 429." placeholder:"N"`
	Free    int64 `default:"268435456" least:"0" help:"How many bytes must be free on the disk of the data folder: while fewer are, the response to visitors is 503." placeholder:"N"`
	Limits  `embed:""`
	Idle    time.Duration `default:"24h" least:"1m" help:"After how long without a request a tenant of the sandbox is dropped."`
}
