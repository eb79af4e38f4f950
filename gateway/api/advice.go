package api

import "net/http"

// remedies are what to do about errors, by status. They are those of the table of errors in gateway/integrating.md, without
// its links: a test compares the two.
var remedies = map[int]string{
	http.StatusBadRequest:                  "correct the program",
	http.StatusUnauthorized:                "get another key",
	http.StatusForbidden:                   "use a key that has it",
	http.StatusNotFound:                    "correct the id or the path",
	http.StatusMethodNotAllowed:            "correct the program",
	http.StatusRequestTimeout:              "send it again",
	http.StatusConflict:                    "read the record; a new request needs a new Idempotency-Key",
	http.StatusPreconditionFailed:          "don't show it this way; don't send it again",
	http.StatusRequestEntityTooLarge:       "split it",
	http.StatusUnsupportedMediaType:        "correct the program",
	http.StatusUnprocessableEntity:         "correct the request",
	http.StatusTooManyRequests:             "wait for retry-after, which differs from caller to caller",
	http.StatusRequestHeaderFieldsTooLarge: "correct the program",
	http.StatusInternalServerError:         "send it again, and report it if it stays",
	http.StatusServiceUnavailable:          "send it again after retry-after",
}

// remediesOf are those of operations that have another remedy for a status than all others.
var remediesOf = map[string]map[int]string{
	"erase": {http.StatusPreconditionFailed: "look at preview, and send it again with the confirmationToken"},
}

// Remedy is what to do about an error of a status that an operation had; empty for one that the contract does not have.
func Remedy(status int, operation string) string {
	if own := remediesOf[operation][status]; own != "" {
		return own
	}
	return remedies[status]
}
