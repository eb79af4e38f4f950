package adapter

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// example is a golden file: a document, or the name of one of examples, what a request says beside it, and
// what comes of it.
// A line of rows is a row, or "field: message" behind a "-", or for a document that can't be
// read the message behind "--".
type example struct {
	name     string
	format   Format
	header   Header
	document []byte
	rows     string
}

// examples are those of a format; of all, if it is "*".
func examples(t testing.TB, format string) (all []example) {
	files, err := filepath.Glob(filepath.Join("testdata", format, "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		x := example{name: strings.TrimSuffix(filepath.ToSlash(file), ".txtar")}
		x.header.Now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		fields := map[string]string{}
		for line := range strings.Lines(string(archive.Comment)) {
			line = strings.TrimSpace(line)
			if query, ok := strings.CutPrefix(line, "query: "); ok {
				x.header.Query, err = url.ParseQuery(query)
				require.NoError(t, err, file)
			}
			if name, ok := strings.CutPrefix(line, "example: "); ok {
				x.document, err = os.ReadFile(filepath.Join("examples", filepath.Base(filepath.Dir(file)), name))
				require.NoError(t, err)
			}
			if field, ok := strings.CutPrefix(line, "field: "); ok {
				name, value, _ := strings.Cut(field, ": ")
				fields[name] = value
			}
		}
		x.header.Field = func(name string) string { return fields[name] }
		for _, part := range archive.Files {
			switch part.Name {
			case "document":
				x.document = part.Data
			case "rows":
				x.rows = string(part.Data)
			}
		}
		var ok bool
		x.format, ok = Lookup(filepath.Base(filepath.Dir(file)), "")
		require.True(t, ok, file)
		all = append(all, x)
	}
	return all
}

// render reads a document and shows what comes of it as golden files have it.
func render(x example) string {
	var b strings.Builder
	for row, err := range x.format.Rows(x.header, x.document) {
		switch err.(type) {
		case nil:
			fmt.Fprintf(&b, "%s\n", row)
		case *RowError:
			fmt.Fprintf(&b, "- %s\n", err)
		default:
			fmt.Fprintf(&b, "-- %s\n", err)
		}
	}
	return b.String()
}

// TestGolden: with MUNIMENT_UPDATE the files are written, to be read.
func TestGolden(t *testing.T) {
	for _, x := range examples(t, "*") {
		if os.Getenv("MUNIMENT_UPDATE") != "" {
			archive, err := txtar.ParseFile(x.name + ".txtar")
			require.NoError(t, err)
			archive.Files[len(archive.Files)-1].Data = []byte(render(x))
			require.NoError(t, os.WriteFile(x.name+".txtar", txtar.Format(archive), 0o644))
			continue
		}
		require.Equal(t, x.rows, render(x), x.name)
	}
}

// TestEveryFormatHasGoodAndBadDocuments: in each there is a row beside a row that is none.
func TestEveryFormatHasGoodAndBadDocuments(t *testing.T) {
	for _, name := range Names() {
		both := false
		for _, x := range examples(t, name) {
			both = both || strings.Contains("\n"+x.rows, "\n{") && strings.Contains("\n"+x.rows, "\n- ")
		}
		require.True(t, both, name)
	}
}

// TestNothingElseIsKept: what a document says beside the fields that are read is in no row
// and in no message, wherever it stands.
func TestNothingElseIsKept(t *testing.T) {
	changed := 0
	for _, x := range examples(t, "*") {
		require.NotContains(t, render(x), "secret", x.name)
		before := render(x)
		switch x.format.Name {
		case "csv":
			lines := strings.SplitAfter(string(x.document), "\n")
			if len(lines) < 2 || strings.Contains(string(x.document), "\"") {
				continue
			}
			separator := ","
			for _, other := range []string{";", "\t"} {
				if strings.Contains(lines[0], other) {
					separator = other
				}
			}
			for i, line := range lines {
				if strings.TrimSpace(line) != "" {
					lines[i] = "secret" + fmt.Sprint(min(i, 1)) + separator + line
				}
			}
			x.document = []byte(strings.Join(lines, ""))
			before = strings.NewReplacer("has 6 columns", "has 7 columns", "header has 8", "header has 9").Replace(before)
		case "vast":
			x.document = []byte(strings.ReplaceAll(string(x.document), "/v?", "/secret?secret=secret&"))
		default:
			var ok bool
			if x.document, ok = stuffed(x.document); !ok {
				continue
			}
		}
		changed++
		require.Equal(t, before, render(x), "%s as %s", x.name, x.document)
	}
	require.Greater(t, changed, 25)
}

// stuffed adds a member to every object of a document but to telemetry, which is the row's own.
func stuffed(document []byte) (text []byte, ok bool) {
	dec := jsontext.NewDecoder(strings.NewReader(string(document)), jsontext.AllowDuplicateNames(true))
	for {
		value, err := dec.ReadValue()
		if err != nil {
			return text, err.Error() == "EOF"
		}
		text = append(stuff(text, value), '\n')
	}
}

func stuff(dst []byte, value jsontext.Value) []byte {
	dec := jsontext.NewDecoder(strings.NewReader(string(value)), jsontext.AllowDuplicateNames(true))
	switch kind := value.Kind(); kind {
	case jsontext.KindBeginObject:
		_, _ = dec.ReadToken()
		dst = append(dst, `{"a secret":{"secret":["secret"]}`...)
		for dec.PeekKind() != jsontext.KindEndObject {
			name, _ := dec.ReadValue()
			key := string(name)
			dst = append(append(append(dst, ','), name...), ':')
			member, _ := dec.ReadValue()
			if key == `"telemetry"` {
				dst = append(dst, member...)
				continue
			}
			dst = stuff(dst, member)
		}
		return append(dst, '}')
	case jsontext.KindBeginArray:
		_, _ = dec.ReadToken()
		dst = append(dst, '[')
		for i := 0; dec.PeekKind() != jsontext.KindEndArray; i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			member, _ := dec.ReadValue()
			dst = stuff(dst, member)
		}
		return append(dst, ']')
	}
	return append(dst, value...)
}
