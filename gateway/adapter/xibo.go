package adapter

import (
	"bytes"
	"cmp"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
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
	text := bytes.TrimSpace(utf8Of(d.body))
	if len(text) > 0 && text[0] == '<' {
		return d.readXiboXML(text)
	}
	return d.readXiboTable(text)
}

// readXiboXML reads stats wherever they stand in the document, and nothing else of it.
func (d *document) readXiboXML(text []byte) error {
	n := 0
	for {
		start, end := NextElement(text)
		switch {
		case end == 0 && n == 0:
			return unreadable("the document holds no <stat>")
		case end == 0:
			return nil
		case !d.emitXibo("stat["+strconv.Itoa(n)+"]", xiboAttributes(text[start+len(statElement):end-1]), xiboNames):
			return nil
		}
		text = text[end:]
		n++
	}
}

var statElement = []byte("<stat")

// NextElement finds the first tag of Elements in XML: where it begins, and ends. end is 0 where there is
// none, or not all of it: what stands before start is done with.
func NextElement(text []byte) (start, end int) {
	for {
		next := bytes.IndexByte(text[start:], '<')
		if next < 0 {
			return len(text), 0
		}
		start += next
		rest := text[start:]
		skip := 1
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			skip = bytes.Index(rest, []byte("-->"))
		case bytes.HasPrefix(rest, []byte("<![CDATA[")):
			skip = bytes.Index(rest, []byte("]]>"))
		case len(rest) <= len(statElement):
			return start, 0
		case bytes.HasPrefix(rest, statElement) && bytes.IndexByte([]byte(" \t\r\n/>"), rest[len(statElement)]) >= 0:
			if size := tagOf(rest); size > 0 {
				return start, start + size
			}
			return start, 0
		}
		if skip < 0 {
			return start, 0
		}
		start += skip
	}
}

// tagOf is how long a tag is, in whose values in quotation marks anything may stand; 0: it does not end.
func tagOf(text []byte) int {
	var quote byte
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			return i + 1
		}
	}
	return 0
}

// xiboAttributes reads those attributes that are used.
func xiboAttributes(text []byte) (s xiboStat) {
	known := map[string]*string{"type": &s.kind, "fromdt": &s.from, "todt": &s.to, "layoutid": &s.layout, "mediaid": &s.media, "widgetid": &s.widget,
		"duration": &s.duration, "count": &s.count}
	for {
		name, rest, found := bytes.Cut(text, []byte{'='})
		if !found {
			return s
		}
		if rest = bytes.TrimLeft(rest, " \t\r\n"); len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
			text = rest
			continue
		}
		value, behind, _ := bytes.Cut(rest[1:], rest[:1])
		words := bytes.Fields(name)
		if len(words) > 0 && known[string(words[len(words)-1])] != nil {
			*known[string(words[len(words)-1])] = html.UnescapeString(string(value))
		}
		text = behind
	}
}

// xiboFields are a form's names of what is used.
type xiboFields struct{ kind, from, to, layout, media, duration, count string }

var (
	xiboNames   = xiboFields{"type", "fromdt", "todt", "layoutid", "mediaid", "duration", "count"}
	xiboHeaders = xiboFields{"Type", "FromDT", "ToDT", "Layout", "Media", "Duration", "Count"}
)

func (d *document) readXiboTable(text []byte) error {
	if bytes.Count(text, []byte{','}) > mostCells {
		return unreadable("the document has more than %d commas", mostCells)
	}
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
	for _, used := range [...]struct{ name, value string }{
		{f.kind, s.kind}, {f.from, s.from}, {f.to, s.to}, {f.layout, s.layout}, {f.media, s.media}, {"widgetid", s.widget},
		{"Display", s.display}, {f.duration, s.duration}, {f.count, s.count},
	} {
		if !utf8.ValidString(used.value) {
			p.refuse(used.name, msgNotUTF8)
		}
	}
	p.readXibo(&s, f)
	return d.emit(p)
}

func (p *play) readXibo(s *xiboStat, f xiboFields) {
	display, media := cmp.Or(p.display, s.display), cmp.Or(s.media, s.widget)
	if display == "" {
		p.refuse("display", "is missing: say with the parameter display whose statistics they are")
	}
	p.named(p.ids, map[string]id{"display": id(display), "layout": id(s.layout), "media": id(media)})
	p.text(&p.row.SpatialPlacementID, f.layout, s.layout)
	p.text(&p.row.CorrelationID, f.media, media)
	from, to := p.clock(f.from, s.from), p.clock(f.to, s.to)
	p.played(f.from, from)
	p.known(f.from, display, strings.ToLower(s.kind), s.layout, media, p.row.PlayedAt)
	p.until(f.to, f.from, from, to)
	single := s.count == "" || s.count == "1"
	if window := p.row.DwellMs; s.duration != "" {
		if p.duration(f.duration, s.duration, true); single && p.row.DwellMs > window+1000 {
			p.refuse(f.duration, "is longer than from %s to %s", f.from, f.to)
		}
	}
	if !single {
		p.summed(f.count, s.count)
	}
}
