package adapter

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// xibo is the statistics of Xibo, in two forms: those that a player sends to its content management
// system (SubmitStats of its XMDS service), and the export of the system's statistics page.
// https://xibosignage.com/docs/developer/creating-a-player/xmds
// https://xibosignage.com/manual/en/displays_metrics
//
//	<stats><stat type="media" fromdt="2026-10-24 18:00:00" todt="2026-10-24 18:00:08" scheduleid="5" layoutid="12" mediaid="34"/></stats>
//
//	Stat Date,Type,FromDT,ToDT,Layout,Display,Media,Tag,Duration,Count,Engagements
//
// A player's statistics do not say whose they are: ?display= does. A layout is shown while its media are,
// so only media and widgets count, or with ?type=layout only layouts; events are no plays. Times have no
// zone. Aggregated statistics sum up plays: their number is the multiplier, but one row is one receipt,
// and their time is the sum of all. Xibo gives a play no id of its own: it is that of the display, of what
// was shown, and of when.
var xibo = Format{
	Name:    "xibo",
	ids:     []string{"display", "layout", "media"},
	options: []string{optionDisplay, optionIDType, optionMultiplier, optionType, optionZone, optionVendor},
	kind:    Elements,
	read:    (*document).readXibo,
}

// xiboStat is one statistic. Layout, media and display are ids in the one form, and names in the other.
type xiboStat struct {
	kind, from, to, layout, media, widget, display, duration, count string
}

// xiboColumns are the columns of an export that are used.
var xiboColumns = []string{"Type", "FromDT", "ToDT", "Layout", "Display", "Media", "Duration", "Count"}

func (d *document) readXibo() error {
	text := bytes.TrimSpace(bytes.TrimPrefix(utf8Of(d.body), byteOrderMark))
	if len(text) > 0 && text[0] == '<' {
		return d.readXiboXML(text)
	}
	return d.readXiboTable(text)
}

// readXiboXML reads stats wherever they stand in the document. Attributes of other names are skipped.
func (d *document) readXiboXML(text []byte) error {
	count := 0
	for range 2 { // what is no XML to its end has no rows
		dec := xml.NewDecoder(bytes.NewReader(text))
		dec.Strict, dec.CharsetReader = false, func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
		n := 0
		for {
			token, err := dec.RawToken()
			if err == io.EOF {
				break
			} else if err != nil {
				fault, _ := errors.AsType[*xml.SyntaxError](err)
				if fault == nil {
					return unreadable("the document is not XML")
				}
				return unreadable("line %d: %s", fault.Line, fault.Msg)
			}
			start, ok := token.(xml.StartElement)
			if !ok || start.Name.Local != "stat" {
				continue
			}
			if n++; count > 0 && !d.emitXibo("stat["+strconv.Itoa(n-1)+"]", xiboAttributes(start.Attr), xiboNames) {
				return nil
			}
		}
		if n == 0 {
			return unreadable("the document holds no <stat>")
		}
		count = n
	}
	return nil
}

func xiboAttributes(attributes []xml.Attr) (s xiboStat) {
	for _, a := range attributes {
		for _, of := range []struct {
			name string
			dst  *string
		}{
			{"type", &s.kind}, {"fromdt", &s.from}, {"todt", &s.to}, {"layoutid", &s.layout}, {"mediaid", &s.media}, {"widgetid", &s.widget},
			{"duration", &s.duration}, {"count", &s.count},
		} {
			if a.Name.Local == of.name {
				*of.dst = a.Value
			}
		}
	}
	return s
}

// xiboFields are a form's names of what is used.
type xiboFields struct{ kind, from, to, layout, media, duration, count string }

var (
	xiboNames   = xiboFields{"type", "fromdt", "todt", "layoutid", "mediaid", "duration", "count"}
	xiboHeaders = xiboFields{"Type", "FromDT", "ToDT", "Layout", "Media", "Duration", "Count"}
)

func (d *document) readXiboTable(text []byte) error {
	lines := &table{text: string(text), separator: ',', line: 1}
	header, _, err := lines.next()
	if err != nil {
		return unreadable("the document is empty")
	}
	places := map[string]int{}
	for _, name := range xiboColumns {
		places[name] = slices.Index(header, name)
	}
	if places["Type"] < 0 || places["FromDT"] < 0 || places["ToDT"] < 0 {
		return unreadable("the document is neither <stats> nor an export, whose columns are Stat Date, Type, FromDT, ToDT and more")
	}
	columns := len(header)
	for checked := *lines; ; {
		if _, line, err := checked.next(); err == io.EOF {
			break
		} else if err != nil {
			return unreadable("line %d: %s", line, err)
		}
	}
	for {
		cells, line, err := lines.next()
		if err != nil {
			return nil
		}
		place := "line " + strconv.Itoa(line)
		if len(cells) != columns {
			p := d.play(place)
			p.refuse("", "has %d columns, and the header has %d", len(cells), columns)
			if !d.emit(p) {
				return nil
			}
			continue
		}
		cell := func(name string) string {
			if i := places[name]; i >= 0 {
				return cells[i]
			}
			return ""
		}
		stat := xiboStat{kind: cell("Type"), from: cell("FromDT"), to: cell("ToDT"), layout: cell("Layout"), media: cell("Media"),
			display: cell("Display"), duration: cell("Duration"), count: cell("Count")}
		if !d.emitXibo(place, stat, xiboHeaders) {
			return nil
		}
	}
}

// emitXibo hands out the play of a statistic, if it is of a kind that counts.
func (d *document) emitXibo(place string, s xiboStat, f xiboFields) bool {
	p := d.play(place)
	switch kind := strings.ToLower(s.kind); {
	case kind == "":
		p.refuse(f.kind, "is missing")
	case kind == "layout" != (d.statType == "layout") || kind == "event":
		return true
	case kind != "layout" && kind != "media" && kind != "widget":
		p.refuse(f.kind, "must be layout, media, widget or event")
	}
	p.readXibo(&s, f)
	return d.emit(p)
}

func (p *play) readXibo(s *xiboStat, f xiboFields) {
	display := s.display
	if p.display != "" {
		display = p.display
	}
	if display == "" {
		p.refuse("display", "is missing: say with the parameter display whose statistics they are")
	}
	media := s.media
	if media == "" {
		media = s.widget
	}
	p.named(p.ids, map[string]id{"display": id(display), "layout": id(s.layout), "media": id(media)})
	p.text(&p.row.SpatialPlacementID, f.layout, s.layout)
	p.text(&p.row.CorrelationID, f.media, media)
	from, to := p.clock(f.from, s.from), p.clock(f.to, s.to)
	p.played(f.from, from)
	p.known(f.from, display, strings.ToLower(s.kind), s.layout, media, p.row.PlayedAt)
	if s.duration != "" {
		p.duration(f.duration, s.duration, true)
	} else {
		p.until(f.to, from, to)
	}
	if s.count == "" || s.count == "1" {
		return
	}
	if p.summed(f.count, s.count); !p.summedUp {
		p.summedUp = true
		p.warn("statistics that sum up plays become one row and one receipt each, whose multiplier is the number of plays")
	}
}
