package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"muniment.example/gateway/client"
)

// requestFilters are those of the operation.
var requestFilters = []filter{
	{Name: "keyId", Label: "Key", Of: oneKey, Example: "key_…"},
	{Name: "code", Label: "Error", Options: []string{"AUTH_INVALID", "SCOPE_MISSING", "RESOURCE_NOT_FOUND", "STATE_CONFLICT", "PRECONDITION_FAILED", "VALIDATION_FAILED", "RATE_LIMITED", "BAD_REQUEST", "INTERNAL_ERROR"}},
}

func requestsList(query url.Values) list[client.RefusedRequests] {
	return list[client.RefusedRequests]{
		op: "list-refused-requests", query: query, plural: "requests",
		columns: []string{"Last", "Key", "Operation", "Error", "Because of", "What to do", "How often", "Request", "Since"},
		row: func(r client.RefusedRequests) []cell {
			key, failed := link(r.KeyLabel, r.KeyID, "/keys"), state(r.Code)
			switch {
			case r.KeyID == "":
				key, failed = text("all others"), text("")
			case r.Operation == "":
				key.Note, failed = short(r.KeyID), text("all others")
			default:
				key.Note, failed.Note = short(r.KeyID), strconv.FormatInt(r.Status, 10)
			}
			return []cell{minute(r.LastAt), key, text(r.Operation), failed, text(r.Cause), text(upper(r.Advice)), amount(r.Count), text(r.RequestID), minute(r.FirstAt)}
		},
	}
}

// upper is a sentence of a text that begins in lower case.
func upper(text string) string {
	if text == "" {
		return ""
	}
	return upperFirst(text) + "."
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func showRequests(p *page) error {
	p.show("Requests", "Refused requests")
	return showList(p, requestsList(nil), listed{
		Lead: "What was refused of your requests within 24 hours, by key and error. Only requests with one of your keys are here, a revoked or expired one too: of all others nobody knows whose they are. " +
			"A line appears within seconds, and the last seconds of a process that ends are lost.",
		Empty: "Nothing was refused within 24 hours. If a program of yours gets errors and nothing is here, look at the key that it sends: a wrong one is nobody’s.",
		New:   p.offer("list-api-keys", "Keys and their last use", "/keys"),
	}, slices.Clone(requestFilters)...)
}

func sendRequests(p *page) error {
	return requestsList(p.filters("keyId", "code")).csv(p, "refused-requests")
}
