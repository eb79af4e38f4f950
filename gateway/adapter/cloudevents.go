package adapter

import (
	"encoding/base64"
	"mime"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// CloudEvents is the format's name. In binary mode its header fields name it, and not its type.
const CloudEvents = "cloudevents"

// cloudEvents is CloudEvents 1.0 whose data is a row: structured, batched, and in binary mode,
// where attributes are header fields and the body is the data.
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
//
// No two events share source and id, which name the row: id is the rowId, and source the
// vendor. Data that names a vendor or a rowId of its own keeps it. Where data has no playedAt,
// it is the event's time. Extension attributes are skipped.
var cloudEvents = Format{
	Name:  CloudEvents,
	media: []string{"application/cloudevents+json", "application/cloudevents-batch+json"},
	read: func(d *document) error {
		if d.header.Field("ce-specversion") != "" && !strings.HasPrefix(strings.ToLower(d.header.Field("content-type")), "application/cloudevents") {
			return d.readBinaryEvent()
		}
		return d.each(func(place string, value jsontext.Value) error {
			p := d.play(place)
			var v cloudEvent
			if p.decode(value, &v); p.fault == nil {
				p.readEvent(&v)
			}
			d.emit(p)
			return nil
		})
	},
}

type cloudEvent struct {
	SpecVersion     string         `json:"specversion"`
	ID              string         `json:"id"`
	Source          string         `json:"source"`
	Type            string         `json:"type"`
	Time            string         `json:"time"`
	DataContentType string         `json:"datacontenttype"`
	Data            jsontext.Value `json:"data"`
	DataBase64      string         `json:"data_base64"`
}

// readBinaryEvent reads an event whose attributes are header fields, with percent signs for
// what those can't hold.
func (d *document) readBinaryEvent() error {
	p := d.play("")
	v := cloudEvent{DataContentType: d.header.Field("content-type"), Data: d.body}
	for _, field := range [...]struct {
		name string
		dst  *string
	}{
		{"ce-specversion", &v.SpecVersion}, {"ce-id", &v.ID}, {"ce-source", &v.Source}, {"ce-type", &v.Type}, {"ce-time", &v.Time},
	} {
		var err error
		if *field.dst, err = url.PathUnescape(d.header.Field(field.name)); err != nil {
			return unreadable("the header field %s has an invalid percent-encoding", field.name)
		}
	}
	if !v.Data.IsValid(lenient...) {
		return unreadable("the body is not one JSON value in UTF-8")
	}
	p.readEvent(&v)
	d.emit(p)
	return nil
}

// readEvent holds the attributes against the specification, and makes a row of the data.
func (p *play) readEvent(v *cloudEvent) {
	if v.SpecVersion != "1.0" {
		p.refuse("specversion", "must be 1.0")
		return
	}
	for _, required := range [...]struct{ name, value, rule string }{
		{"id", v.ID, "MUST be a non-empty string"}, {"source", v.Source, "REQUIRED"}, {"type", v.Type, "MUST be a non-empty string"},
	} {
		if required.value == "" {
			p.refuse(required.name, "violates CloudEvents 1.0: %s", required.rule)
		}
	}
	if strings.ContainsAny(v.Source, " \t\r\n") {
		p.refuse("source", "must be a URI reference")
	}
	if v.Time != "" {
		p.played("time", p.clock("time", v.Time))
	}
	data := p.eventData(v)
	if p.fault != nil {
		return
	}
	p.place = member(p.place, "data")
	p.readRow(data)
	switch row := &p.row; {
	case row.RowID != "" && row.Vendor != "":
	case row.RowID != "" || row.Vendor == "":
		p.text(&row.RowID, "rowId", p.either("rowId", row.RowID, v.ID))
		p.text(&row.Vendor, "vendor", v.Source)
	default: // ids of the source are not those of the vendor; a source holds no space
		p.text(&row.RowID, "rowId", v.Source+" "+v.ID)
	}
}

// eventData is the data, as JSON.
func (p *play) eventData(v *cloudEvent) jsontext.Value {
	if kind, _, err := mime.ParseMediaType(v.DataContentType); v.DataContentType != "" &&
		(err != nil || kind != "application/json" && kind != "text/json" && !strings.HasSuffix(kind, "+json")) {
		p.refuse("datacontenttype", "must be application/json")
	}
	switch {
	case v.Data == nil && v.DataBase64 == "":
		p.refuse("data", "is missing")
	case v.DataBase64 == "":
		return v.Data
	case v.Data != nil:
		p.refuse("data_base64", "is given together with data")
	default:
		data, err := base64.StdEncoding.DecodeString(v.DataBase64)
		if err != nil || !jsontext.Value(data).IsValid(lenient...) {
			p.refuse("data_base64", "must hold JSON in UTF-8, in base64")
		}
		return data
	}
	return nil
}
