package storytest

import (
	"strings"
)

// open are the routes that require no key.
var open = []string{"/.well-known/muniment/keys.json", "/docs", "/docs/gate", "/gate.json", "/openapi.json", "/openapi-3.0.json", "/playground", "/v1", "/v1/healthz", "/verify"}

// unknown is an id that was never given out.
func unknown(id string) string {
	return id[:strings.IndexAny(id, "_:")+1] + "00000000000000000000000000"
}
