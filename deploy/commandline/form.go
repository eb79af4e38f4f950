package commandline

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// form is what the text of a flag must be, by the tag of its name.
type form struct {
	// noun is what a wrong text is not.
	noun string
	// must says what it must be. of is the tag's value.
	must func(of string) string
	is   func(text, of string) bool
}

// forms are those that flags declare.
//
//	address:""           HOST:PORT to listen on, where HOST may be empty
//	address:"host"       HOST:PORT to connect to
//	address:"url"        the same, or http(s)://HOST:PORT
//	url:"http https"     a URL of one of these schemes, with a host
//	url:"postgres" etc.  likewise; of PostgreSQL with one host, several or none (a socket)
//	time:"", day:""      RFC 3339
//	level:""             a level of the log
var forms = map[string]form{
	"address": {"address", func(of string) string {
		if of == "url" {
			return "HOST:PORT, http://HOST:PORT or https://HOST:PORT"
		}
		return "HOST:PORT, without http://"
	}, isAddress},
	"url": {"usable URL", func(schemes string) string {
		return "a URL with a host, of " + strings.Join(strings.Fields(strings.ReplaceAll(schemes+" ", " ", ":// ")), " or ")
	}, isURL},
	"time":  {"time", func(string) string { return "a time of RFC 3339" }, func(text, _ string) bool { return parses(time.RFC3339, text) }},
	"day":   {"day", func(string) string { return "YYYY-MM-DD" }, func(text, _ string) bool { return parses(time.DateOnly, text) }},
	"level": {"level", func(string) string { return "debug, info, warn or error" }, func(text, _ string) bool { return new(slog.Level).UnmarshalText([]byte(text)) == nil }},
}

func parses(layout, text string) bool {
	_, err := time.Parse(layout, text)
	return err == nil
}

func isAddress(text, of string) bool {
	if of == "url" {
		if _, address, found := strings.Cut(text, "://"); found {
			return isURL(text, "http https") && isAddress(strings.TrimSuffix(address, "/"), "host")
		}
	}
	host, port, err := net.SplitHostPort(text)
	_, notPort := strconv.ParseUint(port, 10, 16)
	return err == nil && notPort == nil && (host != "" || of == "") && !strings.ContainsAny(host, "/@")
}

func isURL(text, schemes string) bool {
	scheme, rest, _ := strings.Cut(text, "://")
	if !slices.Contains(strings.Fields(schemes), scheme) {
		return false
	}
	if strings.HasPrefix(scheme, "postgres") {
		return rest != ""
	}
	u, err := url.Parse(text)
	return err == nil && u.Host != ""
}

// formed is the mapper of a flag, or of each of its values, with a form.
type formed struct {
	kong.Mapper
	form
	tag *kong.Tag
	// Without needed, an empty text says that there is none.
	needed bool
}

// Decode implements kong.Mapper. Kong puts the name of the flag before the error.
func (m formed) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	given := fmt.Sprint(ctx.Scan.Peek().Value)
	if given == "" && !m.needed && !m.tag.Has("address") {
		return m.Mapper.Decode(ctx, target)
	}
	wrong := m.Mapper.Decode(ctx, target) != nil
	texts := []string{given}
	if target.Kind() == reflect.Slice {
		texts, _ = reflect.TypeAssert[[]string](target)
	}
	var of string
	for name := range forms {
		if m.tag.Has(name) {
			of = m.tag.Get(name)
		}
	}
	for _, text := range texts {
		wrong = wrong || !m.is(text, of)
	}
	if !wrong {
		return nil
	}
	shown := strconv.Quote(given)
	if strings.ContainsAny(given, "@=") { // there may be a password in it
		shown = "what is given"
	}
	return fmt.Errorf("%s is no %s; it must be %s, for example %s", shown, m.noun, m.must(of), exampleOf(m.tag))
}
