package adapter

import (
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/api"
)

// rowFields is a row in its own words: the one thing of which nothing is translated.
type rowFields struct {
	RowID              string         `json:"rowId"`
	PlayedAt           string         `json:"playedAt"`
	DwellMs            *float64       `json:"dwellMs"`
	Vendor             string         `json:"vendor"`
	IDType             string         `json:"idType"`
	VendorID           string         `json:"vendorId"`
	RightID            string         `json:"rightId"`
	SpatialAnchorID    string         `json:"spatialAnchorId"`
	SpatialPlacementID string         `json:"spatialPlacementId"`
	CorrelationID      string         `json:"correlationId"`
	DataSubjectID      string         `json:"dataSubjectId"`
	Telemetry          jsontext.Value `json:"telemetry"`
	Multiplier         decimal        `json:"multiplier"`
}

// readRow reads a row in its own words.
func (p *play) readRow(value jsontext.Value) {
	var v rowFields
	if p.decode(value, &v); p.fault == nil {
		p.refuseMisspelt(value)
		p.fill(&v)
		if v.PlayedAt != "" || p.row.PlayedAt == "" { // it may be known before
			p.played("playedAt", p.clock("playedAt", v.PlayedAt))
		}
		p.needed("dwellMs", v.DwellMs, p.dwell)
	}
}

// refuseMisspelt refuses a row, which is an object, for a name that is only misspelt.
func (p *play) refuseMisspelt(row jsontext.Value) {
	for name := range fields(row) {
		if meant := api.RowNames.Meant(name); meant != "" && meant != string(name) {
			p.refuse(string(name), api.Misspelt(meant))
		}
	}
}

// fill fills in what a row says, but for when it was played, and how long.
func (p *play) fill(v *rowFields) {
	for _, text := range [...]struct {
		dst         *string
		name, value string
	}{
		{&p.row.RowID, "rowId", v.RowID},
		{&p.row.Vendor, "vendor", v.Vendor},
		{&p.row.IDType, "idType", v.IDType},
		{&p.row.VendorID, "vendorId", v.VendorID},
		{&p.row.RightID, "rightId", v.RightID},
		{&p.row.SpatialAnchorID, "spatialAnchorId", v.SpatialAnchorID},
		{&p.row.SpatialPlacementID, "spatialPlacementId", v.SpatialPlacementID},
		{&p.row.CorrelationID, "correlationId", v.CorrelationID},
		{&p.row.DataSubjectID, "dataSubjectId", v.DataSubjectID},
	} {
		p.text(text.dst, text.name, text.value)
	}
	p.multiplier("multiplier", string(v.Multiplier))
	p.telemetry("telemetry", v.Telemetry)
}

// telemetry fills in an object, on one line.
func (p *play) telemetry(field string, value jsontext.Value) {
	switch kind := value.Kind(); {
	case len(value) == 0 || kind == jsontext.KindNull:
	case kind != jsontext.KindBeginObject:
		p.refuse(field, "must be an object")
	case len(value) > maxValue:
		p.refuse(field, "must be at most %d KiB", maxValue>>10)
	case !value.IsValid():
		p.refuse(field, "must be one JSON object in UTF-8, with no name given twice")
	default:
		value = value.Clone()
		_ = value.Compact() // it is valid
		p.row.Telemetry = []byte(value)
	}
}
