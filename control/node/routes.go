package node

import (
	"context"
	"net/http"

	"muniment/control/route"
)

// Routes adds the room's operations to the API.
func (r *Room) Routes(a route.API) {
	route.AddRaw(a, route.Operation{
		ID: "get-key-directory", Method: http.MethodGet, Path: "/.well-known/muniment/keys.json", Tag: "Verification", Access: route.Public{},
		Summary:     "Get the signed directory of verification keys",
		Description: "Canonical JSON, without an envelope: its bytes are what is signed.",
		Content:     route.Content{Type: "application/json", Note: "The directory"},
	}, func(ctx context.Context, _ *struct{}) (*directoryAnswer, error) {
		text, err := r.Directory(ctx)
		if err != nil {
			return nil, err
		}
		return &directoryAnswer{ContentType: "application/json", CacheControl: "public, max-age=60", Body: text}, nil
	})
}

type directoryAnswer struct {
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	Body         []byte
}

// SchemaName is for the document, where names have no package before them.
func (State) SchemaName() string { return "NodeState" }
