package route

import (
	"github.com/danielgtaylor/huma/v2"

	"muniment.example/gateway/api"
)

// Origin, embedded in an input, is the address to which the caller sent the request.
type Origin struct{ base string }

// Base is that address without a path, such as https://muniment.example.
func (o *Origin) Base() string { return o.base }

// Resolve implements huma.Resolver. The scheme comes from the gateway, the one trusted hop.
func (o *Origin) Resolve(ctx huma.Context) []error {
	o.base = "http://" + ctx.Host()
	if ctx.Header(api.HeaderForwardedProto) == "https" {
		o.base = "https://" + ctx.Host()
	}
	return nil
}
