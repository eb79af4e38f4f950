package event

import (
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/table"
	"muniment.example/gateway/api"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	route.Add(a, route.Operation{ID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tag: "Events", Access: route.Scope(api.AuditRead),
		Summary: "List the tenant's events, newest first",
		Description: "Lists the events that the warehouse has loaded: an event appears shortly after it is durable. Events are in the order of the log; " +
			"`from` and `to` bound their own time. A cursor neither skips nor repeats an event, whatever arrives meanwhile; " +
			"it is valid for its order only, and the filters must be repeated with it."}, s.listEvents)
	route.AddFile(a, route.Operation{ID: "export-events", Method: http.MethodGet, Path: "/v1/events/export", Tag: "Events", Access: route.Scope(api.AuditRead),
		Summary: "Download a range of sealed events with its proof", Heavy: true, Content: route.Content{Type: "application/x-ndjson", Note: "The export"},
		Description: "NDJSON of canonical lines: a header with the signed checkpoints of the packs that hold the events, the hashes of the " +
			"proof and the key directory, then the events verbatim, oldest first. muniment verify needs only this file and " +
			"the root key. The response is 409 if no event of the range is sealed yet, or not all events up to upTo. The export is recorded as an event of the log.", Errors: []int{http.StatusConflict}}, s.exportEvents)
	route.AddDataOrFile(a, route.Operation{ID: "list-receipts", Method: http.MethodGet, Path: "/v1/receipts", Tag: "Receipts", Access: route.Scope(api.AuditRead), HeavyFiles: true,
		Summary: "Search receipts, newest first",
		Description: "Searches the receipts that the warehouse has loaded: a receipt appears shortly after its caller got it, and can be read by its id at once. " +
			"A receipt must match every given filter; `from` and `to` bound its `renderedAt`. Receipts are in the order of the log. A cursor neither " +
			"skips nor repeats one, whatever arrives meanwhile; the filters must be repeated with it.\n\n" +
			"With `format` csv, ndjson or parquet the response is a file of all that match, with a row for each and the columns of the table `receipts` that analysts read, duplicates included, as of the position in `" + route.HeaderAsOf + "`. " +
			"In CSV an apostrophe precedes text that a spreadsheet would interpret as a formula. A transfer that ends without its last chunk is incomplete: send the request again, " +
			"or continue by `asOf` with the position of the last row, its generation, log_partition and position with points between them.",
		Files:   []string{table.TypeCSV, table.TypeNDJSON, table.TypeParquet},
		Headers: map[string]string{route.HeaderAsOf: "Of a file: the log position that it holds for, a value for `asOf`. Absent while nothing is loaded."},
	}, s.listReceipts)
	route.Add(a, route.Operation{ID: "get-receipt", Method: http.MethodGet, Path: "/v1/receipts/{receiptId}", Tag: "Receipts", Access: route.Scope(api.AuditRead),
		Summary:     "Get a receipt, its signature, and the event that holds it",
		Description: "sealed is null until a proof pack holds the event. A receipt can be read as soon as its caller has it."}, s.getReceipt)
	route.Add(a, route.Operation{ID: "prove-receipt", Method: http.MethodGet, Path: "/v1/receipts/{receiptId}/proof", Tag: "Receipts", Access: route.Scope(api.AuditRead),
		Summary: "Prove that the tenant's log includes a receipt",
		Description: "proof is a C2SP tlog-proof: leaf index, RFC 6962 inclusion proof, and the signed checkpoint. " +
			"event is verbatim: it is the leaf. The whole response is a file for muniment verify. It is 409 until a pack holds the receipt.", Errors: []int{http.StatusConflict}}, s.proveReceipt)
}
