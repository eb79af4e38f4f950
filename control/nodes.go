package control

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/node"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// nodeRoutes are what a node in a process of its own asks: Source, over HTTP.
func (c *Control) nodeRoutes(a huma.API) {
	source := c.Source()
	operation := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"Nodes"}, Metadata: map[string]any{"node": true}}
	}
	join := operation("join", http.MethodPost, api.PathJoin, "Present a node for the first time")
	join.Metadata = map[string]any{"public": true} // the invitation is its credential
	huma.Register(a, join, func(ctx context.Context, in *struct{ Body api.JoinRequest }) (*store.Answer[api.Joined], error) {
		return store.Tell(c.cfg.Nodes.Join(ctx, in.Body))
	})
	huma.Register(a, operation("start", http.MethodPost, api.PathStart, "Count a start of the node"),
		func(ctx context.Context, in *struct {
			Body *api.StartRequest // may be absent
		}) (*store.Answer[api.Started], error) {
			var q api.StartRequest
			if in.Body != nil {
				q = *in.Body
			}
			return store.Tell(c.cfg.Nodes.Start(ctx, nodeFrom(ctx), q))
		})
	huma.Register(a, operation("enrol", http.MethodPost, api.PathEnrol, "Enrol the node's next signing key"),
		func(ctx context.Context, in *struct{ Body api.EnrolRequest }) (*store.Answer[api.SigningKey], error) {
			return store.Tell(c.cfg.Nodes.EnrolKey(ctx, nodeFrom(ctx), in.Body))
		})
	huma.Register(a, operation("retire", http.MethodPost, api.PathRetire, "Tell that an old signing key is out of use"),
		func(ctx context.Context, in *struct{ Body api.RetireRequest }) (*store.Answer[api.SigningKey], error) {
			return store.Tell(c.cfg.Nodes.RetireKey(ctx, nodeFrom(ctx), in.Body))
		})
	huma.Register(a, operation("feed", http.MethodPost, api.PathFeed, "Ask for what came after a revision"),
		func(ctx context.Context, in *struct{ Body api.FeedRequest }) (*store.Answer[api.Feed], error) {
			in.Body.NodeID = nodeFrom(ctx) // a node speaks for itself
			f, err := source.Feed(ctx, in.Body)
			f.At = c.cfg.DB.Now()
			return store.Tell(f, err)
		})
	huma.Register(a, operation("snapshot", http.MethodGet, api.PathSnapshots+"/{kind}/{id}", "Read the newest snapshot of one record"),
		func(ctx context.Context, in *struct {
			Kind string `path:"kind" maxLength:"16"`
			ID   string `path:"id" maxLength:"64"`
		}) (*store.Answer[api.Snapshot], error) {
			return store.Tell(source.Snapshot(ctx, in.Kind, in.ID))
		})
}

type nodeKey struct{}

func nodeFrom(ctx context.Context) string {
	id, _ := ctx.Value(nodeKey{}).(string)
	return id
}

// byNode lets in nodes that have joined.
func byNode(known *node.Room) authenticator {
	return func(ctx huma.Context) (context.Context, error) {
		if ctx.Operation().Metadata["public"] == true {
			return ctx.Context(), nil
		}
		credential, err := auth.Bearer(ctx.Header("Authorization"), "node credential")
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
