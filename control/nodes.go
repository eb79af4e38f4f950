package control

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/node"
	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// nodeRoutes adds the operations for nodes in processes of their own, with Source over HTTP.
func (c *Control) nodeRoutes(a route.API) {
	source := c.Source()
	operation := func(access route.Access, id, method, path, summary string) route.Operation {
		return route.Operation{ID: id, Method: method, Path: path, Summary: summary, Tag: "Nodes", Access: access}
	}
	invited, node := route.Public{}, route.Node{} // a node joins with an invitation or a certificate
	route.Add(a, operation(invited, "join", http.MethodPost, api.PathJoin, "Join as a node"),
		func(ctx context.Context, in *struct{ Body api.JoinRequest }) (api.Joined, error) {
			return c.cfg.Nodes.Join(ctx, in.Body, shownBy(ctx))
		})
	route.Add(a, operation(node, "start", http.MethodPost, api.PathStart, "Report a start of the node"),
		func(ctx context.Context, in *struct {
			Body *api.StartRequest // may be absent
		}) (api.Started, error) {
			var q api.StartRequest
			if in.Body != nil {
				q = *in.Body
			}
			return c.cfg.Nodes.Start(ctx, nodeFrom(ctx), q)
		})
	route.Add(a, operation(node, "enrol", http.MethodPost, api.PathEnrol, "Enrol the node's next signing key"),
		func(ctx context.Context, in *struct{ Body api.EnrolRequest }) (api.SigningKey, error) {
			if err := c.cfg.Nodes.CheckEpoch(nodeFrom(ctx), in.Body.Epoch); err != nil {
				return api.SigningKey{}, err
			}
			return c.cfg.Keys.EnrolKey(ctx, nodeFrom(ctx), in.Body)
		})
	route.Add(a, operation(node, "retire", http.MethodPost, api.PathRetire, "Report that an old signing key is no longer used"),
		func(ctx context.Context, in *struct{ Body api.RetireRequest }) (api.SigningKey, error) {
			return c.cfg.Keys.RetireKey(ctx, nodeFrom(ctx), in.Body)
		})
	route.Add(a, operation(node, "feed", http.MethodPost, api.PathFeed, "Get the changes after a revision"),
		func(ctx context.Context, in *struct{ Body api.FeedRequest }) (api.Feed, error) {
			in.Body.NodeID = nodeFrom(ctx) // a node polls only for itself
			f, err := source.Feed(ctx, in.Body)
			f.At = c.cfg.DB.Now()
			return f, err
		})
	route.Add(a, operation(node, "snapshot", http.MethodGet, api.PathSnapshots+"/{kind}/{id}", "Read the newest snapshot of one record"),
		func(ctx context.Context, in *struct {
			Kind string `path:"kind" maxLength:"16"`
			ID   string `path:"id" maxLength:"64"`
		}) (api.Snapshot, error) {
			return source.Snapshot(ctx, in.Kind, in.ID)
		})
	route.Add(a, operation(node, "snapshots", http.MethodPost, api.PathSnapshots+"/{kind}", "Read the newest snapshots of several records"),
		func(ctx context.Context, in *struct {
			Kind string `path:"kind" maxLength:"16"`
			Body api.SnapshotsRequest
		}) (api.Snapshots, error) {
			return source.Snapshots(ctx, in.Kind, in.Body.IDs)
		})
	route.Add(a, operation(node, "suspended", http.MethodPost, api.PathSuspended, "Read whether rights were suspended at moments"),
		func(ctx context.Context, in *struct{ Body api.SuspendedRequest }) (found api.Suspended, err error) {
			found.Suspended, err = source.Suspended(ctx, in.Body.Moments)
			return found, err
		})
	if rows := c.cfg.Ingest; rows != nil {
		route.Add(a, operation(node, "hold", http.MethodPost, api.PathHold, "Hold rows of batches that wait for a mapping, or for the end of a suspension"),
			func(ctx context.Context, in *struct{ Body api.HoldRequest }) (held api.Held, err error) {
				held.Results, err = rows.Hold(ctx, in.Body)
				return held, err
			})
	}
	if issue := c.cfg.SandboxRows; issue != nil {
		route.Add(a, operation(node, "sandbox-rows", http.MethodPost, api.PathSandbox, "Issue rows of batches of the sandbox's tenants"),
			func(ctx context.Context, in *struct{ Body api.SandboxRows }) (issued api.SandboxRowsIssued, err error) {
				issued.Results, err = issue(ctx, in.Body)
				// What the caller is refused is not an error of the node's request.
				if refused, ok := errors.AsType[*api.Error](err); ok {
					why := refused.OfRow()
					return api.SandboxRowsIssued{Refused: &why, Status: refused.GetStatus(), RetryAfter: refused.RetryAfterSeconds()}, nil
				}
				return issued, err
			})
	}
}

type nodeKey struct{}

func nodeFrom(ctx context.Context) string {
	id, _ := ctx.Value(nodeKey{}).(string)
	return id
}

type shownKey struct{}

// shownBy returns the certificates that the client of a public operation has sent for its
// connection. TLS has verified only that the client has the first one's key.
func shownBy(ctx context.Context) []*x509.Certificate {
	shown, _ := ctx.Value(shownKey{}).([]*x509.Certificate)
	return shown
}

// byNode admits nodes that have joined, and any caller to public operations.
func byNode(known *node.Service) authenticator {
	return func(access route.Access) admission {
		switch access.(type) {
		case route.Public:
			return func(ctx huma.Context) (context.Context, error) {
				if ctx.TLS() == nil {
					return ctx.Context(), nil
				}
				return context.WithValue(ctx.Context(), shownKey{}, ctx.TLS().PeerCertificates), nil
			}
		case route.Node:
			return func(ctx huma.Context) (context.Context, error) {
				credential, err := auth.Bearer(authorization(ctx), "node credential")
				if err != nil {
					return nil, err
				}
				id, err := known.Authenticate(ctx.Context(), credential)
				if err != nil {
					return nil, err
				}
				return context.WithValue(ctx.Context(), nodeKey{}, id), nil
			}
		}
		return nil
	}
}
