// Package api is the wire contract of the service: the response envelope, the
// closed list of error codes with their statuses, scopes, id prefixes, and the
// feed that carries snapshots of records, such as rights and keys, from control to the nodes.
//
// The contract's list of codes is closed. What it lacks is in a further field, so that
// a client written against the contract still understands the response: 503 is
// INTERNAL_ERROR with a reason, 413 and 405 are BAD_REQUEST.
//
// Nothing here depends on an HTTP server: the gateway (fasthttp) and control (net/http)
// both render these values.
package api

// ContractVersion is in every /v1 envelope.
const ContractVersion = "v1.0"

// Body is the success envelope of /v1: always HTTP 200.
type Body[T any] struct {
	OK              bool   `json:"ok" doc:"always true"`
	Data            T      `json:"data"`
	ContractVersion string `json:"contractVersion" example:"v1.0"`
}

// OK puts data into the success envelope.
func OK[T any](data T) Body[T] {
	return Body[T]{OK: true, Data: data, ContractVersion: ContractVersion}
}

// Header names, a path and limits shared by gateway and control.
const (
	HeaderRequestID      = "X-Request-Id"
	HeaderIdempotencyKey = "Idempotency-Key"
	HeaderReplayed       = "Idempotent-Replayed"
	// HeaderForwardedProto is how the gateway was called, for control: http or https.
	HeaderForwardedProto = "X-Forwarded-Proto"
	// PathDownloads is the path of a download before its token.
	PathDownloads = "/downloads/"
	// MaxRequestID is the longest request id that is accepted from a caller, in bytes.
	MaxRequestID = 64
	// MaxIdempotencyKey is the longest idempotency key, in bytes.
	MaxIdempotencyKey = 255
)

// Printable says whether s is 1 to limit bytes of visible ASCII, the form of
// request ids and idempotency keys.
func Printable[T string | []byte](s T, limit int) bool {
	if len(s) == 0 || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
