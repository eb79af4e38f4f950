package adapter

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// usedNames are the members of each format's documents that are read, wherever they stand. Ids are used
// where idType asks for them.
var usedNames = map[string]string{
	"broadsign": "pop player_id display_unit_id frame_id ad_copy_id impressions end_time duration",
	"vistar":    "advertisement id venue_id display_area_id creative_id display_time length_in_milliseconds length_in_seconds",
	"dv360": "requests adPlay adPlays adUnit adUnitExternalId line lineExternalId orderExternalId creativeAsset creative creativeAssetExternalId" +
		" startTime endTime impressionCount impressions",
	"openrtb": "bidrequest id imp dooh qty multiplier bid impid crid dur macros AUCTION_IMP_TS AUCTION_MULTIPLIER",
	"omsdk": "adSessionId timestamp type data verificationParameters duration mediaType creativeType adView percentageInView mediaPlayerVolume" +
		" videoPlayerVolume deviceVolume",
	"cloudevents": "specversion id source type time datacontenttype data data_base64 rowId playedAt dwellMs vendor idType vendorId rightId" +
		" spatialAnchorId spatialPlacementId correlationId dataSubjectId telemetry multiplier",
}

// strange are values of any type, encoding and repetition that is JSON by its form.
var strange = []string{
	`0`, `-1e400`, `""`, `"text"`, `"\ud800"`, `"\udc00\ud800"`, "\"caf\xe9\"", "\"\xff\xfe\"", `null`, `true`, `[]`, `[1,"2",[{}]]`, `{}`,
	`{"a":1,"a":2}`, `{"\ud800":{"\ud800":"\udfff"}}`, `"` + strings.Repeat("x", maxValue+1) + `"`, strings.Repeat("[", 100) + strings.Repeat("]", 100),
}

// TestWhatIsNotUsedCannotHurt: each member that is not used may have any value, and be given twice or in
// another encoding, in every golden document, whose rows stay the same.
func TestWhatIsNotUsedCannotHurt(t *testing.T) {
	changed := map[string]int{}
	for _, x := range examples(t, "*") {
		names, isJSON := usedNames[x.format.Name]
		if !isJSON {
			continue
		}
		used := append(strings.Fields(names), strings.Split(strings.ReplaceAll(x.header.Query.Get("idType"), ".", ","), ",")...)
		if slices.Contains(used, "appId") || slices.Contains(used, "customReferenceData") {
			used = append(used, "context", "app")
		}
		before := render(x)
		for _, value := range strange {
			for _, twice := range []bool{false, true} {
				m := mutation{used: used, value: value, twice: twice, keep: x.format.Name == "broadsign"}
				document, ok := m.document(x.document)
				if !ok || m.changed == 0 {
					continue
				}
				changed[x.format.Name]++
				after := x
				after.document = document
				require.Equal(t, before, render(after), "%s with %.40s, twice: %v:\n%.4000s", x.name, value, twice, document)
			}
		}
	}
	for name := range usedNames {
		require.Greater(t, changed[name], len(strange), name)
	}
}

// mutation writes a document with another value of all that is not used.
type mutation struct {
	used    []string
	value   string
	twice   bool
	keep    bool // the order of the values of an array names them
	changed int
}

func (m *mutation) document(text []byte) (out []byte, ok bool) {
	dec := decoder(text)
	for {
		value, err := dec.ReadValue()
		if err != nil {
			return out, err.Error() == "EOF"
		}
		out = append(m.write(out, value), '\n')
	}
}

func (m *mutation) write(dst []byte, value jsontext.Value) []byte {
	switch value.Kind() {
	case jsontext.KindBeginObject:
		dst = append(dst, '{')
		first := true
		member := func(name, value string) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(append(append(dst, '"'), name...), `":`+value...)
		}
		for name, value := range fields(value) {
			if name, value := string(name), value; !slices.Contains(m.used, name) {
				m.changed++
				member(name, m.value)
				if m.twice {
					member(name, m.value)
				}
			} else if name == "telemetry" {
				member(name, string(value))
			} else {
				member(name, string(m.write(nil, value)))
			}
		}
		member("not known", m.value)
		return append(dst, '}')
	case jsontext.KindBeginArray:
		dst = append(dst, '[')
		n := 0
		for _, element := range elements("", value) {
			if n > 0 {
				dst = append(dst, ',')
			}
			if short := m.keep && element.Kind() != jsontext.KindBeginObject && element.Kind() != jsontext.KindBeginArray; short && (n == 2 || n == 4 || n == 5 || n == 7 || n > 9) && !slices.Contains(m.used, broadsignOrder[min(n, 9)]) {
				m.changed++
				dst = append(dst, m.value...)
			} else {
				dst = m.write(dst, element)
			}
			n++
		}
		return append(dst, ']')
	}
	return append(dst, value...)
}

// TestUnusedParametersCannotHurt: neither can those of a tracking URL, nor its host and path.
func TestUnusedParametersCannotHurt(t *testing.T) {
	for _, x := range examples(t, "vast") {
		before := render(x)
		for _, junk := range []string{"cb=%%CACHEBUSTER%%", "ref=a;b=c", "cat=1&cat=2", "w=100%", "x=%zz&%zz=1", "y=caf\xe9", "z=\xed\xa0\xbd", "=", "&&", "url=https://a.example/?b", "[X]=[Y]", "mediaplayhead=[MEDIAPLAYHEAD]&mediaplayhead=99:99"} {
			x := x
			x.document = []byte(strings.ReplaceAll(strings.ReplaceAll(string(x.document), "/v?", "/v?"+junk+"&"), "//t.example/", "//[host]:%%PORT%%/{path}\xff/"))
			require.Equal(t, before, render(x), "%s with %s", x.name, junk)
		}
	}
}

// TestByteOrderMarks: a document may begin with one.
func TestByteOrderMarks(t *testing.T) {
	for _, x := range examples(t, "*") {
		before := render(x)
		if x.document = append(slices.Clone(byteOrderMark), x.document...); x.header.Field("ce-specversion") == "" {
			require.Equal(t, before, render(x), x.name)
		}
	}
}

var zoned = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?`)

// TestTimesOfEitherCase: t and z stand for T and Z, wherever a time is read.
func TestTimesOfEitherCase(t *testing.T) {
	changed := 0
	for _, x := range examples(t, "*") {
		before := render(x)
		x.document = zoned.ReplaceAllFunc(x.document, bytes.ToLower)
		if after := render(x); bytes.Contains(x.document, []byte("24t")) {
			changed++
			require.Equal(t, before, after, x.name)
		}
	}
	require.Greater(t, changed, 10)
}
