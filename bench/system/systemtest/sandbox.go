package systemtest

import (
	"net/http"
)

// RoundTrip is a transport.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r RoundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return r(q) }
