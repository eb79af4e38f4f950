package gateway

import (
	"net"
	"net/http"
	"strings"

	"muniment/gateway/api"
)

var errForeignHost = &api.Error{
	Code: api.BadRequest, HTTPStatus: http.StatusForbidden,
	Message: "this listener is on a loopback address and answers to localhost or such an address only, not to the Host of this request",
}

// LoopbackOnly guards the handler of a listener for operators. On a loopback address it
// refuses requests whose Host is neither localhost nor such an address: a page in an
// operator's browser could have its own name resolve to 127.0.0.1, and read the answers
// (DNS rebinding). A listener on another address is not checked, as its names are not known
// here.
func LoopbackOnly(at net.Addr, h http.Handler) http.Handler {
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil { // there is no port
			host = strings.Trim(r.Host, "[]")
		}
		if !api.Loopback(strings.ToLower(host)) {
			writeError(w, r, errForeignHost)
			return
		}
		h.ServeHTTP(w, r)
	})
}
