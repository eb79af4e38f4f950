package ingest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// HeldState is the state of a held row.
type HeldState string

// The states. A REPLAYED row has a receipt, or the error that refused it. The caller may send a
// refused row again, and it is then processed like any other. An EXPIRED row has an event.
const (
	Held     HeldState = "HELD"
	Replayed HeldState = "REPLAYED"
	Expired  HeldState = "EXPIRED"
)

// keepEnded is how long a row is listed after it was replayed or expired.
const keepEnded = 7 * 24 * time.Hour

// HeldRow is the record of a held row.
type HeldRow struct {
	ID         string          `json:"id"`
	Reason     api.HeldReason  `json:"reason" enum:"UNMAPPED,RIGHT_SUSPENDED" doc:"What the row waits for, or waited for last: a mapping of its vendor's id, or the end of a suspension of its right or of a right above it."`
	RightID    *string         `json:"rightId" doc:"The right of a row that waits for it; null of one that waits for a mapping."`
	Vendor     string          `json:"vendor,omitempty" doc:"The row's vendor, if it has one."`
	IDType     string          `json:"idType,omitempty" doc:"The vendor's type of id, of a row with a vendor's id."`
	VendorID   string          `json:"vendorId,omitempty" doc:"The vendor's id, of a row that has one."`
	PlayedAt   store.Instant   `json:"playedAt" doc:"When the content was played."`
	Row        json.RawMessage `json:"row" doc:"The row as it was sent, without dataSubjectId, dataSubjectIds and telemetry; null once it is no longer HELD."`
	State      HeldState       `json:"state" enum:"HELD,REPLAYED,EXPIRED" doc:"REPLAYED once it was delivered, with its receiptId, or refused, with the error."`
	ReceiptID  *string         `json:"receiptId" doc:"The row's receipt."`
	Error      *api.RowError   `json:"error,omitempty" doc:"Why the delivery was refused. The row may be sent again."`
	ExpiresAt  store.Instant   `json:"expiresAt" doc:"When a HELD row becomes too old to be delivered: 30 days after its play, or as the operator has configured. For other states: when the row is deleted."`
	CreatedAt  store.Instant   `json:"createdAt"`
	UpdatedAt  store.Instant   `json:"updatedAt"`
	tenantID   string
	keyID      string
	identity   api.RowIdentity
	content    string // empty if the person was erased
	vendorKey  string
	personal   personal
	writtenRow string // as it is kept: without what is personal
	format     string // of a player's document
}

// personal is the personal data of a row: what store.WritePersons makes of the persons, and the telemetry.
type personal struct{ dataSubjects, telemetry string }

// rowFields are the members of a row that are stored besides the vendor's and personal data; all
// others have no meaning. Each is stored as it was sent, because the delivered row must have the
// same content, byte for byte.
var rowFields = []string{"rightId", "spatialAnchorId", "rowId", "playedAt", "dwellMs", "spatialPlacementId", "correlationId", "multiplier"}

// take converts a row that a node sends into a held row.
func (s *Service) take(tenantID, keyID string, requested *api.HeldRow, now store.Instant) (h HeldRow, err error) {
	if len(requested.Row) > api.MaxHeldRow {
		return h, api.InvalidField("row", textRule(api.MaxHeldRow))
	}
	h = HeldRow{
		ID: api.NewID(api.PrefixHeld, now.Time), Reason: requested.Reason, Vendor: requested.Vendor, IDType: requested.IDType, VendorID: requested.VendorID, PlayedAt: store.At(requested.PlayedAt),
		State: Held, ExpiresAt: store.At(requested.PlayedAt.Add(s.cfg.RowAge)), CreatedAt: now, UpdatedAt: now,
		format: requested.Format, tenantID: tenantID, keyID: keyID, identity: requested.Identity, content: requested.Content,
	}
	switch {
	case h.VendorID != "" && (h.Vendor == "" || h.IDType == ""), h.VendorID == "" && h.Reason != api.HeldRightSuspended:
		return h, api.InvalidField("vendorId", "is missing, or its vendor or idType is")
	case (requested.RightID != "") != (h.Reason == api.HeldRightSuspended):
		return h, api.InvalidField("rightId", "is the right of a row that waits for it")
	}
	if h.VendorID != "" {
		h.vendorKey = api.VendorKey(tenantID, h.Vendor, h.IDType, h.VendorID)
	}
	if requested.RightID != "" {
		h.RightID = &requested.RightID
	}
	var row map[string]json.RawMessage
	if err := json.Unmarshal([]byte(requested.Row), &row); err != nil || row == nil {
		return h, api.InvalidField("row", "is not a row of a batch")
	}
	var text objectWriter
	for _, of := range [...]struct{ name, text string }{{"vendor", h.Vendor}, {"idType", h.IDType}, {"vendorId", h.VendorID}} {
		if of.text != "" {
			text.text(of.name, of.text)
		}
	}
	for _, name := range rowFields {
		text.value(name, row[name])
	}
	h.writtenRow = text.String()
	var persons struct {
		One  string   `json:"dataSubjectId"`
		More []string `json:"dataSubjectIds"`
	}
	if err := json.Unmarshal([]byte(requested.Row), &persons); err != nil {
		return h, api.InvalidField("row", "is not a row of a batch")
	}
	var all []string
	for _, person := range append([]string{persons.One}, persons.More...) {
		if person != "" && !slices.Contains(all, person) {
			all = append(all, person)
		}
	}
	if h.personal.dataSubjects, err = store.WritePersons(all); err != nil {
		return h, api.InvalidField("row", "must be UTF-8 without U+0000")
	}
	h.personal.telemetry = string(row["telemetry"])
	for _, text := range []string{h.Vendor, h.IDType, h.VendorID, h.writtenRow, strings.Join(all, ""), h.personal.telemetry, h.identity.Hash, h.identity.Day, h.content, h.keyID, h.rightID(), h.format} {
		if !store.Storable(text) {
			return h, api.InvalidField("row", "must be UTF-8 without U+0000")
		}
	}
	if !now.Before(h.ExpiresAt.Time) {
		return h, api.InvalidField("playedAt", "is too long ago for a row that waits")
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
	quoted, _ := jsontext.AppendQuote(nil, text) // the only error is invalid UTF-8, which it replaces
	w.value(name, quoted)
}

func (w *objectWriter) String() string { return w.Builder.String() + "}" }

// rightID is the right that the row waits for; empty if there is none.
func (h *HeldRow) rightID() string {
	if h.RightID == nil {
		return ""
	}
	return *h.RightID
}

// size is what the row uses of its tenant's quota.
func (h *HeldRow) size() int64 {
	return int64(256 + len(h.Vendor) + len(h.IDType) + len(h.VendorID) + len(h.writtenRow) + len(h.personal.dataSubjects) + len(h.personal.telemetry))
}

// whole is the text of the row as it was sent, with its personal data.
func (h *HeldRow) whole() []byte {
	var text objectWriter
	text.WriteString(strings.TrimSuffix(h.writtenRow, "}"))
	persons, _ := store.ReadPersons(h.personal.dataSubjects) // as take has written them
	if len(persons) > 0 {
		text.text("dataSubjectId", persons[0])
	}
	if len(persons) > 1 {
		more, _ := store.WritePersons(persons[1:])
		text.value("dataSubjectIds", json.RawMessage(more))
	}
	text.value("telemetry", json.RawMessage(h.personal.telemetry))
	return []byte(text.String())
}

// sameContent reports whether a row has the same content as held, a row of the same identity, as
// far as the content is still known.
func (h *HeldRow) sameContent(held *HeldRow) bool {
	return held.content == "" || h.content == held.content
}
