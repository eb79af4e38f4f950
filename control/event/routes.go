package event

import (
	"net/http"

	"muniment/control/route"
	"muniment/gateway/api"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	route.Add(a, route.Operation{ID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tag: "Events", Access: route.Scope(api.AuditRead),
		Summary: "List the tenant's events, newest first",
		Description: "What the warehouse has loaded: an event turns up here shortly after it is durable. Events are in the order of the log, " +
			"`from` and `to` are of their own time. A cursor neither skips nor repeats an event, whatever arrives meanwhile; " +
			"it belongs to the order it was made in, and the filters are given again beside it."}, s.listEvents)
	route.AddFile(a, route.Operation{ID: "export-events", Method: http.MethodGet, Path: "/v1/events/export", Tag: "Events", Access: route.Scope(api.AuditRead),
		Summary: "Download a run of sealed events with what proves it", Heavy: true, Content: route.Content{Type: "application/x-ndjson", Note: "The export"},
		Description: "NDJSON of canonical lines: a header with the signed checkpoints of the packs that hold the events, the hashes that lead " +
			"there and the key directory, then the events verbatim, oldest first. The file is for muniment verify, and needs nothing " +
			"but the root key. 409 if nothing of the run is sealed yet, or not all up to upTo. That it was exported is an event of the log.", Errors: []int{http.StatusConflict}}, s.exportEvents)
	route.Add(a, route.Operation{ID: "list-receipts", Method: http.MethodGet, Path: "/v1/receipts", Tag: "Receipts", Access: route.Scope(api.AuditRead),
		Summary: "Find receipts by what their deliveries said, newest first",
		Description: "What the warehouse has loaded: a receipt turns up here shortly after its caller got it, and can be read by its id at once. " +
			"A receipt has to meet each filter that is given; `from` and `to` bound its `renderedAt`. Receipts are in the order of the log. A cursor neither " +
			"skips nor repeats one, whatever arrives meanwhile; the filters are given again beside it."}, s.listReceipts)
	route.Add(a, route.Operation{ID: "get-receipt", Method: http.MethodGet, Path: "/v1/receipts/{receiptId}", Tag: "Receipts", Access: route.Scope(api.AuditRead),
		Summary:     "Get a receipt, its signature, and the event that holds it",
		Description: "sealed is null until a proof pack holds the event. A receipt can be read as soon as its caller has it."}, s.getReceipt)
	route.Add(a, route.Operation{ID: "prove-receipt", Method: http.MethodGet, Path: "/v1/receipts/{receiptId}/proof", Tag: "Receipts", Access: route.Scope(api.AuditRead),
		Summary: "Prove that the tenant's log includes a receipt",
		Description: "proof is a C2SP tlog-proof: leaf index, RFC 6962 inclusion proof, and the signed checkpoint that it leads to. " +
			"event is verbatim: it is the leaf. The whole answer is a file for muniment verify. 409 until a pack holds the receipt.", Errors: []int{http.StatusConflict}}, s.proveReceipt)
}
