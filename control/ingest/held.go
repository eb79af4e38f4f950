package ingest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muniment/control/store"
	"muniment/gateway/api"
)

// HeldState is the state of a held row.
type HeldState string

// The states. A row is REPLAYED with a receipt, or with the error that refused it: its caller
// may send it again, and it is then judged like any other.
const (
	Held     HeldState = "HELD"
	Replayed HeldState = "REPLAYED"
	Expired  HeldState = "EXPIRED"
)

// keepEnded is how long a held row is listed whose wait has ended.
const keepEnded = 7 * 24 * time.Hour

// HeldRow is the record of a held row, as it is answered.
type HeldRow struct {
	ID         string          `json:"id"`
	Vendor     string          `json:"vendor" doc:"Whose id it is."`
	IDType     string          `json:"idType" doc:"Which of the vendor's kinds of ids it is."`
	VendorID   string          `json:"vendorId" doc:"The id that no mapping knew."`
	PlayedAt   store.Instant   `json:"playedAt" doc:"When it was shown."`
	Row        json.RawMessage `json:"row" doc:"The row as it was sent, without dataSubjectId and telemetry; null once it waits no more."`
	State      HeldState       `json:"state" enum:"HELD,REPLAYED,EXPIRED" doc:"REPLAYED once it was delivered, with its receiptId, or refused, with the error."`
	ReceiptID  *string         `json:"receiptId" doc:"The receipt that it got."`
	Error      *api.RowError   `json:"error,omitempty" doc:"Why it was refused when it was to be delivered. It may be sent again."`
	ExpiresAt  store.Instant   `json:"expiresAt" doc:"When it is given up, as its play is too long ago to be delivered: 30 days after it, or as the operator has set. Of one that waits no more, when it is forgotten."`
	CreatedAt  store.Instant   `json:"createdAt"`
	UpdatedAt  store.Instant   `json:"updatedAt"`
	tenantID   string
	keyID      string
	identity   api.RowIdentity
	content    string // empty if the person was erased
	vendorKey  string
	personal   personal
	writtenRow string // as it is kept: without what is personal
}

// personal is the personal data of a row.
type personal struct{ dataSubjectID, telemetry string }

// rowFields are the members that are kept of a row, beside what names its vendor's id and what
// is personal; all others mean nothing. Each is kept as it was sent: the row that is delivered
// must say the same, word for word.
var rowFields = []string{"rowId", "playedAt", "dwellMs", "spatialPlacementId", "correlationId", "multiplier"}

// take makes a held row of what a node sends.
func (s *Service) take(tenantID, keyID string, asked *api.HeldRow, now store.Instant) (h HeldRow, err error) {
	if len(asked.Row) > api.MaxHeldRow {
		return h, api.InvalidField("row", textRule(api.MaxHeldRow))
	}
	h = HeldRow{
		ID: api.NewID(api.PrefixHeld, now.Time), Vendor: asked.Vendor, IDType: asked.IDType, VendorID: asked.VendorID, PlayedAt: store.At(asked.PlayedAt),
		State: Held, ExpiresAt: store.At(asked.PlayedAt.Add(s.cfg.RowAge)), CreatedAt: now, UpdatedAt: now,
		tenantID: tenantID, keyID: keyID, identity: asked.Identity, content: asked.Content, vendorKey: api.VendorKey(tenantID, asked.Vendor, asked.IDType, asked.VendorID),
	}
	var row map[string]json.RawMessage
	if err := json.Unmarshal([]byte(asked.Row), &row); err != nil || row == nil {
		return h, api.InvalidField("row", "is no row of a batch")
	}
	var text objectWriter
	text.text("vendor", h.Vendor)
	text.text("idType", h.IDType)
	text.text("vendorId", h.VendorID)
	for _, name := range rowFields {
		text.value(name, row[name])
	}
	h.writtenRow = text.String()
	if subject, given := row["dataSubjectId"]; given {
		if err := json.Unmarshal(subject, &h.personal.dataSubjectID); err != nil {
			return h, api.InvalidField("row", "is no row of a batch")
		}
	}
	h.personal.telemetry = string(row["telemetry"])
	for _, text := range []string{h.Vendor, h.IDType, h.VendorID, h.writtenRow, h.personal.dataSubjectID, h.personal.telemetry, h.identity.Hash, h.identity.Day, h.content, h.keyID} {
		if !store.Storable(text) {
			return h, api.InvalidField("row", "must be UTF-8 without U+0000")
		}
	}
	if !now.Before(h.ExpiresAt.Time) {
		return h, api.InvalidField("playedAt", "is too long ago for a row that no mapping knows")
	}
	return h, nil
}

// objectWriter writes a JSON object, member by member.
type objectWriter struct{ strings.Builder }

func (w *objectWriter) value(name string, value json.RawMessage) {
	if len(value) == 0 {
		return
	}
	w.WriteString(map[bool]string{true: "{", false: ","}[w.Len() == 0])
	w.WriteString(`"` + name + `":`)
	w.Write(value)
}

func (w *objectWriter) text(name, text string) {
	quoted, _ := jsontext.AppendQuote(nil, text) // an error is the invalid UTF-8 that it has replaced
	w.value(name, quoted)
}

func (w *objectWriter) String() string { return w.Builder.String() + "}" }

// size is what the row takes of its tenant's quota.
func (h *HeldRow) size() int64 {
	return int64(256 + len(h.Vendor) + len(h.IDType) + len(h.VendorID) + len(h.writtenRow) + len(h.personal.dataSubjectID) + len(h.personal.telemetry))
}

// whole is the text of the row as it was sent, with what is personal.
func (h *HeldRow) whole() []byte {
	var text objectWriter
	text.WriteString(strings.TrimSuffix(h.writtenRow, "}"))
	if h.personal.dataSubjectID != "" {
		text.text("dataSubjectId", h.personal.dataSubjectID)
	}
	text.value("telemetry", json.RawMessage(h.personal.telemetry))
	return []byte(text.String())
}

// sameContent says whether a row has the same content as another of its identity, which is held, as
// far as that is known.
func (h *HeldRow) sameContent(held *HeldRow) bool {
	return held.content == "" || h.content == held.content
}
