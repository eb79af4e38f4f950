//go:build !race

// The race detector allocates for itself: its bytes would count.

package adapter

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	mostTaken = 1001 // rows that a caller takes before it refuses them all
	perByte   = 25   // bytes that are allocated for one of a document, one after the other
	perCell   = 384  // the same in a line of nothing but commas, of which there are at most mostCells
	perNotice = 80   // the same where there is an array to grow in each play: of it, maxValue at a time
)

// filled repeats a part between a head and a tail until the document has a size.
func filled(size int, head, part, tail string) []byte {
	n := (size - len(head) - len(tail)) / len(part)
	return []byte(head + strings.TrimSuffix(strings.Repeat(part, n), ",") + tail)
}

// TestHostileDocumentsCostLittle: whatever a document holds, reading it allocates a bounded
// multiple of it in all, and hands out no more than is taken. The long form has the 8 MiB of a
// body.
func TestHostileDocumentsCostLittle(t *testing.T) {
	size := 1 << 20
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		size = 8 << 20
	}
	for name, document := range hostile(size) {
		for _, format := range formats {
			n, bytes := taken(*format, document)
			require.LessOrEqual(t, n, mostTaken, "%s as %s", name, format.Name)
			most := perByte * size
			if name == "one line of cells" {
				most = perCell * len(document)
			}
			if format == &openRTB && name == "notices of impressions" {
				most = perNotice * size
			}
			require.LessOrEqual(t, bytes, uint64(most), "%s as %s", name, format.Name)
		}
	}
}

// hostile are documents of a size, by what they hold.
func hostile(size int) map[string][]byte {
	row := `{"adSessionId":"s","timestamp":1,"type":"a"},`
	documents := map[string][]byte{
		"many empty objects":     filled(size, "[", "{},", "]"),
		"many numbers":           filled(size, "", "0 ", ""),
		"one deep value":         filled(size, "", "[", ""),
		"many members":           filled(size, "{", `"a":0,`, "}"),
		"one long text":          filled(size, `"`, "a", `"`),
		"one long name":          filled(size, `{"`, "a", `":0}`),
		"plays of nothing":       filled(size, `{"pop":[`, "[],", "]}"),
		"a play of many values":  filled(size, `{"pop":[[`, "0,", "]]}"),
		"advertisements":         filled(size, `{"advertisement":[`, "{},", "]}"),
		"requests":               filled(size, `{"requests":[`, "{},", "]}"),
		"impressions":            filled(size, `{"bidrequest":{"imp":[`, "{},", "]}}"),
		"notices of impressions": filled(size, "[", `{"bidrequest":{"imp":[`+strings.Repeat("{},", 20000)+"{}]}},", "]"),
		"events of a session":    filled(size, "[", row, "]"),
		"lines":                  filled(size, "", "\n", ""),
		"commas":                 filled(size, "", ",", ""),
		"commas within bounds":   append(filled(size, "rightId\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", ""), 0),
		"one line of cells":      []byte(strings.Repeat(",", mostCells)),
		"quotes":                 filled(size, "a\n", `""""`, ""),
		"URLs":                   filled(size, "", "http://a/?event=start&adservingid=a&timestamp=2026-10-24T18:00:00Z\n", ""),
		"parameters":             filled(size, "http://a/?", "a&", ""),
		"a tag of attributes":    filled(size, "<stat ", "a ", "/>"),
		"tags":                   filled(size, "<stats>", "<stat a='' b=''/>", ""),
		"an export of commas":    filled(size, "Type,FromDT,ToDT\n", ",", ""),
		"not UTF-8":              bytes.Repeat([]byte{0xff}, size),
		"nothing":                {},
	}
	names := new(bytes.Buffer) // a million names of one object
	names.WriteByte('{')
	for i := 0; names.Len() < size-16; i++ {
		if i > 0 {
			names.WriteByte(',')
		}
		names.WriteString(`"` + base(i) + `":0`)
	}
	names.WriteByte('}')
	documents["different members"] = names.Bytes()
	return documents
}

// taken reads a document as a caller does, and says what that has allocated.
func taken(f Format, document []byte) (rows int, bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range f.Rows(Header{Field: func(string) string { return "" }}, document) {
		if rows++; rows == mostTaken {
			break
		}
	}
	runtime.ReadMemStats(&after)
	return rows, after.TotalAlloc - before.TotalAlloc
}

// base formats a number in few bytes.
func base(i int) string {
	const digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var b []byte
	for ; i >= 0; i = i/len(digits) - 1 {
		b = append(b, digits[i%len(digits)])
	}
	return string(b)
}
