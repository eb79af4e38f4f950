package api

import (
	"encoding/json"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxRowAge is the highest age of the play of a row: nodes keep mappings that ended
// since.
const MaxRowAge = 30 * 24 * time.Hour

// MostAhead is how far ahead of a node's clock the play of a row may begin, and end.
const MostAhead = 5 * time.Minute

// Row is one play of a batch, as POST /v1/delivery/ingest-batch takes it. It names its right
// and anchor, or a vendor id that a mapping resolves. The gateway decodes rows from bytes,
// without this type: the OpenAPI document and the writers of rows use it.
//
// An empty field is absent.
type Row struct {
	RowID              string          `json:"rowId,omitempty" minLength:"1" maxLength:"512" doc:"The vendor's own id of the play, if it gives each play one and never two: the row's identity, with vendor." example:"play-0001"`
	PlayedAt           string          `json:"playedAt" maxLength:"64" format:"date-time" doc:"When it was shown, with its zone: up to 30 days ago, at most 5 minutes ahead." example:"2026-10-24T18:00:00Z"`
	DwellMs            float64         `json:"dwellMs" minimum:"0" maximum:"68719476736" doc:"How long, in milliseconds." example:"8200"`
	Vendor             string          `json:"vendor,omitempty" minLength:"1" maxLength:"512" doc:"Whose ids vendorId and rowId are." example:"broadsign"`
	IDType             string          `json:"idType,omitempty" minLength:"1" maxLength:"512" doc:"Which of the vendor's kinds of ids vendorId is." example:"display_unit_id"`
	VendorID           string          `json:"vendorId,omitempty" minLength:"1" maxLength:"512" doc:"The id that a mapping resolves to a right and an anchor; in place of both." example:"20077"`
	RightID            string          `json:"rightId,omitempty" minLength:"1" maxLength:"512" doc:"The right: in force at playedAt, and not revoked since. While it is suspended the row is held." example:"rgh_01M7Y45MG0YQ2E2D8Z1V5K3T9B"`
	SpatialAnchorID    string          `json:"spatialAnchorId,omitempty" minLength:"1" maxLength:"512" doc:"Where it was shown." example:"screen-0042"`
	SpatialPlacementID string          `json:"spatialPlacementId,omitempty" maxLength:"512" doc:"Placement within the anchor." example:"slot-3"`
	CorrelationID      string          `json:"correlationId,omitempty" maxLength:"512" doc:"The caller's own tracing id."`
	DataSubjectID      string          `json:"dataSubjectId,omitempty" minLength:"1" maxLength:"256" doc:"The person it was shown to, for export and erasure. Kept in the private part of the event, which is not hashed."`
	DataSubjectIDs     []string        `json:"dataSubjectIds,omitempty" maxItems:"8" minLength:"1" maxLength:"256" doc:"More persons it was shown to, as in POST /v1/delivery."`
	Telemetry          json.RawMessage `json:"telemetry,omitempty" doc:"What the device observed."`
	Multiplier         json.Number     `json:"multiplier,omitempty" maxLength:"64" doc:"Impressions that the play counts as, as a number or a decimal string: more than 0, at most 10000, up to four decimals." example:"12.5"`
}

// AppendJSON appends the row as one JSON object on one line, its multiplier as a decimal
// string. Telemetry must be JSON on one line, DwellMs finite; invalid UTF-8 in a text
// becomes U+FFFD.
func (r *Row) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "rowId", r.RowID)
	dst = appendName(dst, "playedAt")
	dst, _ = jsontext.AppendQuote(dst, r.PlayedAt) // an error is the invalid UTF-8 that it has replaced
	dst = appendName(dst, "dwellMs")
	dst = jsontext.AppendFloat(dst, r.DwellMs, 64)
	for _, field := range [...]struct{ name, text string }{
		{"vendor", r.Vendor},
		{"idType", r.IDType},
		{"vendorId", r.VendorID},
		{"rightId", r.RightID},
		{"spatialAnchorId", r.SpatialAnchorID},
		{"spatialPlacementId", r.SpatialPlacementID},
		{"correlationId", r.CorrelationID},
		{"dataSubjectId", r.DataSubjectID},
	} {
		dst = appendText(dst, field.name, field.text)
	}
	for i, id := range r.DataSubjectIDs {
		if i == 0 {
			dst = append(appendName(dst, "dataSubjectIds"), '[')
		} else {
			dst = append(dst, ',')
		}
		dst, _ = jsontext.AppendQuote(dst, id)
	}
	if len(r.DataSubjectIDs) > 0 {
		dst = append(dst, ']')
	}
	if len(r.Telemetry) > 0 {
		dst = appendName(dst, "telemetry")
		dst = append(dst, r.Telemetry...)
	}
	dst = appendText(dst, "multiplier", string(r.Multiplier))
	return append(dst, '}')
}

// appendText appends a member unless its text is empty.
func appendText(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	dst, _ = jsontext.AppendQuote(appendName(dst, name), text)
	return dst
}

// appendName appends a member's name, after a comma unless it is the first.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}
