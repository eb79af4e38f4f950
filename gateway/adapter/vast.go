package adapter

import (
	"bytes"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// vast is tracking URLs of VAST 4 as a player called them, one a line (text/uri-list, RFC
// 2483). Those of one ADSERVINGID, which is that of one ad in one place, become one row.
// https://interactiveadvertisingbureau.github.io/vast/vast4macros/vast4-macros-latest.html
//
//	https://t.example/v?event=complete&adservingid=[ADSERVINGID]&timestamp=[TIMESTAMP]&adplayhead=[ADPLAYHEAD]&universaladid=[UNIVERSALADID]
//
// A URL's parameters are named as the macros that they hold, in any case; event is the tracking
// event. Who makes the URLs and knows them may put rightId and spatialAnchorId there, in place
// of a vendorId, and spatialPlacementId. Host, path and all other parameters are skipped: many
// macros are about people.
var vast = Format{
	Name:    "vast",
	ids:     []string{"universaladid", "contentid", "appbundle", "domain"},
	options: []string{optionIDType, optionLength, optionZone, optionVendor},
	media:   []string{"text/uri-list"},
	kind:    Lines,
	event:   func(d *document, all *sessions, line []byte) { d.readTracking(all, "", line) },
	read:    (*document).readVAST,
}

const vastRight, vastAnchor, vastPlacement = "rightid", "spatialanchorid", "spatialplacementid"

// vastKinds are events by their names in lower case. Others say that the ad goes on.
var vastKinds = map[string]happening{
	"impression": shown, "creativeview": shown, "start": started, "firstquartile": quarter, "midpoint": half, "thirdquartile": threeQuarters,
	"complete": completed, "pause": paused, "resume": resumed, "skip": skipped, "close": ended, "closelinear": ended,
	"mute": audible, "unmute": audible,
}

func (d *document) readVAST() error {
	if text := bytes.TrimSpace(d.body); len(text) > 0 && text[0] == '<' {
		return unreadable("the document is XML: send the tracking URLs that the player called, one a line, and not the VAST that names them")
	}
	var all sessions
	number := 0
	for line := range bytes.Lines(d.body) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		if d.readTracking(&all, "line "+strconv.Itoa(number), line); len(all.order) == mostSessions {
			break
		}
	}
	if len(all.order) == 0 {
		return unreadable("the document holds no URL")
	}
	all.emit(d, "event", "timestamp", func(p *play, s *session) {
		p.text(&p.row.SpatialPlacementID, vastPlacement, string(s.ids[vastPlacement]))
		if s.ids[vastRight]+s.ids[vastAnchor] == "" {
			p.named(p.ids, s.ids)
			return
		}
		p.row.Vendor = p.vendor
		p.text(&p.row.RightID, vastRight, p.either(vastRight, string(s.ids[vastRight])))
		p.text(&p.row.SpatialAnchorID, vastAnchor, p.either(vastAnchor, string(s.ids[vastAnchor])))
	})
	return nil
}

// readTracking reads one URL.
func (d *document) readTracking(all *sessions, place string, line []byte) {
	p := d.play(place)
	macros := p.macros(line)
	key := macros["adservingid"]
	if p.fault == nil {
		p.text(&p.row.RowID, "adservingid", p.either("adservingid", key))
		p.either("event", macros["event"])
	}
	e := moment{at: p.clock("timestamp", macros["timestamp"]), kind: vastKinds[strings.ToLower(macros["event"])]}
	if text := macros["adplayhead"]; text != "" {
		head, err := time.Parse("15:04:05", text)
		if err != nil {
			p.refuse("adplayhead", "must be a time in the ad, such as 00:00:15.000")
		}
		passed := head.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))
		e.head = &passed
	}
	s := all.of(key, p)
	if p.fault != nil {
		return
	}
	s.video = true
	for _, name := range vastParameters {
		s.say(name, id(macros[name]))
	}
	switch name := strings.ToLower(macros["event"]); name {
	case "unmute":
		e.on = true
	case "viewable", "notviewable":
		viewable := name == "viewable" || s.viewed != nil && *s.viewed
		s.viewed = &viewable
	}
	s.moments = append(s.moments, e)
	if state := macros["playerstate"]; state != "" && e.kind != audible {
		s.moments = append(s.moments, moment{at: e.at, kind: audible, on: !strings.Contains(state, "muted"), head: e.head})
	}
}

// macros are the parameters of a tracking URL that are used, by their names in lower case. All others,
// host and path are skipped, whatever they hold. A macro that the player did not replace is not there.
func (p *play) macros(line []byte) map[string]string {
	if len(line) > maxValue {
		p.refuse("", "must be at most %d KiB", maxValue>>10)
		return nil
	}
	_, query, ok := strings.Cut(string(line), "?")
	if !ok || !strings.Contains(string(line), "://") {
		p.refuse("", "is not a URL with parameters")
		return nil
	}
	query, _, _ = strings.Cut(query, "#")
	macros, seen := map[string]string{}, map[string]bool{}
	for parameter := range strings.SplitSeq(query, "&") {
		name, raw, _ := strings.Cut(parameter, "=")
		if name = strings.ToLower(name); !slices.Contains(vastParameters, name) {
			continue
		}
		if seen[name] {
			p.refuse("", "has the parameter %s more than once", quoted(name))
		}
		seen[name] = true
		if Unreplaced(raw) {
			continue
		}
		value, err := url.QueryUnescape(raw)
		if err != nil || !utf8.ValidString(value) {
			p.refuse(name, "is not text in UTF-8, percent-encoded")
		} else if value != "" && !Unreplaced(value) {
			macros[name] = value
		}
	}
	return macros
}

// vastParameters are those that are used.
var vastParameters = []string{"event", "adservingid", "timestamp", "adplayhead", "playerstate",
	"universaladid", "contentid", "appbundle", "domain", vastRight, vastAnchor, vastPlacement}

// unreplaced is a macro as servers, players and templates write it: alone, or in capitals wherever it
// stands. What is in braces may be an id, which has hyphens.
var unreplaced = regexp.MustCompile(`^(-[12]|\[[A-Za-z][\w:. ]*\]|\{?\{[A-Za-z][\w:. ]*\}\}?|%%[A-Za-z][\w:. ]*%%|\$\{[A-Za-z][\w:. ]*\})$` +
	`|\[[A-Z][A-Z0-9_:]*\]|%%[A-Z][A-Z0-9_:]*%%|\$?\{[A-Z][A-Z0-9_:]*\}`)

// Unreplaced reports whether the value of a parameter is a macro that the player did not replace, or
// replaced by -1 or -2, which say that the value is unknown or withheld (VAST 4):
// [X], %%X%%, ${X} and {X}.
func Unreplaced(value string) bool { return unreplaced.MatchString(value) }
