package node

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Routes adds the room's operations to the API.
func (r *Room) Routes(a huma.API) {
	huma.Register(a, huma.Operation{
		OperationID: "get-key-directory",
		Method:      http.MethodGet,
		Path:        "/.well-known/muniment/keys.json",
		Summary:     "Get the signed directory of verification keys",
		Description: "Canonical JSON, without an envelope: its bytes are what is signed.",
		Tags:        []string{"Verification"},
		Metadata:    map[string]any{"public": true},
		Responses: map[string]*huma.Response{"200": {
			Description: "The directory",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}},
		}},
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
