package upload

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShapes sends the same rows in all shapes that a file may have.
func TestShapes(t *testing.T) {
	rows := rowsOf(2345)
	text := strings.Join(rows, "\n") + "\n"
	list := "[" + strings.Join(rows, ", ") + "]"
	for name, content := range map[string][]byte{
		"plays.ndjson":     []byte(text),
		"crlf.jsonl":       []byte("\ufeff" + strings.ReplaceAll(text, "\n", "\r\n\r\n")),
		"open.ndjson":      []byte(strings.TrimSuffix(text, "\n")),
		"plays.ndjson.gz":  gzipped(t, text),
		"PLAYS.NDJSON.ZST": zstandard(t, text),
		"two.ndjson.gz":    append(gzipped(t, text[:len(text)/2]), gzipped(t, text[len(text)/2:])...),
		"list.json":        []byte(list),
		"packed.json":      gzipped(t, list), // whatever its name says
		"object.json":      []byte(`{"of":{"rows":[1]},"rows":` + list + `,"vendor":"v1"}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			path := put(t, t.TempDir(), name, content)
			p, err := s.run(Config{Senders: 1}, path)
			require.NoError(t, err)
			var got []string
			for _, r := range s.requests {
				got = append(got, r.rows...)
				require.Equal(t, map[bool]string{true: "v1"}[name == "object.json"], r.vendor)
			}
			require.Equal(t, rows, got)
			require.Len(t, s.requests, 3, "of 1,000 rows, but for the last")
			require.EqualValues(t, 2345, p.Accepted.Load())
			require.Equal(t, p.TotalBytes.Load(), p.Bytes.Load())
			require.EqualValues(t, 1, p.Files.Load())
			results := resultsOf(t, path)
			require.Len(t, results, 2345)
			for i, row := range rows {
				require.Equal(t, statusAccepted, results[int64(i)].Status)
				require.Equal(t, s.taken[row], results[int64(i)].ReceiptID)
			}

			again, err := s.run(Config{}, path)
			require.NoError(t, err)
			require.EqualValues(t, 2345, again.Skipped.Load(), "the second run has nothing to do")
			require.Equal(t, again.TotalBytes.Load(), again.Bytes.Load())
			require.Len(t, s.requests, 3)
		})
	}
}

// TestCSV: each batch begins with the header, and records are whole whatever is in them.
func TestCSV(t *testing.T) {
	text := "\ufeffrowId,playedAt,note\r\n"
	for i := range 1500 {
		text += fmt.Sprintf("r%d,2026-11-01T12:00:00Z,\"a, \"\"quoted\"\" note\"\r\n\r\n", i)
	}
	s := newService(t)
	path := put(t, t.TempDir(), "plays.csv", []byte(text))
	options := url.Values{"tz": {"Europe/Berlin"}}
	_, err := s.run(Config{Senders: 1, Options: options}, path)
	require.NoError(t, err)
	require.Len(t, s.requests, 2)
	for i, r := range s.requests {
		require.Equal(t, "text/csv", r.mediaType)
		require.Equal(t, url.Values{"format": {"csv"}, "separator": {"comma"}, "tz": {"Europe/Berlin"}}, r.query)
		header, first, _ := strings.Cut(r.body, "\r\n")
		require.Equal(t, "rowId,playedAt,note", header)
		require.True(t, strings.HasPrefix(first, fmt.Sprintf("r%d,", 1000*i)), first[:40])
	}
	require.Len(t, s.taken, 1500)

	p, err := s.run(Config{Options: options}, path)
	require.NoError(t, err)
	require.EqualValues(t, 1500, p.Skipped.Load())
	p, err = s.run(Config{Options: url.Values{"tz": {"UTC"}}}, path)
	require.NoError(t, err)
	require.EqualValues(t, 0, p.Skipped.Load(), "with other options they are other rows")
}

// TestRowsAtFault: what is no row is rejected here, what the service rejects as it says, and all
// others are in.
func TestRowsAtFault(t *testing.T) {
	dir := t.TempDir()
	s := newService(t)
	s.of = func(row string) map[string]any {
		if strings.Contains(row, "poison") {
			return map[string]any{"status": "rejected", "error": map[string]any{"error": "VALIDATION_FAILED", "field": "line 2, dwellMs", "message": "is missing"}}
		}
		if strings.Contains(row, "unknown") {
			return map[string]any{"status": "unmapped", "heldId": "hld_1"}
		}
		return nil
	}
	long := `{"rowId":"` + strings.Repeat("x", maxBody) + `"}`
	lines := put(t, dir, "plays.ndjson", []byte("{\"a\":1}\n{\"a\":\n"+long+"\n\"\xff\"\n{\"poison\":1}\n{\"unknown\":1}\n{\"a\":2}"))
	table := put(t, dir, "plays.csv", []byte("rowId,n\na,1\nb,\"1\"2\nc,1\nd,\xff\ne,\"two\nlines\"\npoison,1\nf,\"open\n"))
	p, err := s.run(Config{Senders: 1}, lines, table)
	require.NoError(t, err)
	require.EqualValues(t, 3+2+1+1, p.Rejected.Load())
	require.EqualValues(t, 1, p.Unmapped.Load())

	results := resultsOf(t, lines)
	require.Len(t, results, 7)
	for i, status := range []string{statusAccepted, statusRejected, statusRejected, statusRejected, statusRejected, statusUnmapped, statusAccepted} {
		require.Equal(t, status, results[int64(i)].Status, i)
	}
	require.JSONEq(t, `{"error":"BAD_REQUEST","message":"it is not one JSON value in UTF-8"}`, string(results[1].Error))
	require.Contains(t, string(results[2].Error), "8 MiB")
	require.Equal(t, "hld_1", results[5].HeldID)

	results = resultsOf(t, table)
	require.Len(t, results, 7)
	require.Contains(t, string(results[1].Error), `line 3: `)
	require.Equal(t, statusAccepted, results[3].Status, "whether it is UTF-8 matters where it is used")
	require.Equal(t, statusAccepted, results[4].Status)
	require.Contains(t, string(results[5].Error), `"field":"line 8, dwellMs"`, "the line of the file, not of the batch")
	require.Contains(t, string(results[6].Error), `line 9: `)

	before := len(s.requests)
	p, err = s.run(Config{}, lines, table)
	require.NoError(t, err)
	require.Len(t, s.requests, before, "what was rejected permanently isn't sent again")
	require.EqualValues(t, 14, p.Skipped.Load())
	p, err = s.run(Config{Again: true}, lines, table)
	require.NoError(t, err)
	require.EqualValues(t, 7, p.Rejected.Load(), "unless a flag says so")
	require.EqualValues(t, 7, p.Skipped.Load())
}

// TestFilesAtFault: a file that can't be read to its end does not keep others from being sent.
func TestFilesAtFault(t *testing.T) {
	dir := t.TempDir()
	rows := strings.Join(rowsOf(3), "\n")
	packed := gzipped(t, strings.Join(rowsOf(9000), "\n"))
	for name, content := range map[string]string{
		"a.json": `{"rows":[{"a":1},{"a":2}`, "b.json": `{"vendor":"x"}`, "c.json": rows, "c2.json": "[{}] []", "d.json": `{"rows":[],"rows":[]}`, "e.json": ``, "f.json": `7`, "f2.json": `{"Vendor":"x","rows":[{}]}`,
		"g.csv": "", "h.csv": "a,\"b\nc", "i.csv": "rowId,b\n1,\"" + strings.Repeat("x", maxRecord+1), "j.ndjson": string(packed[:len(packed)/2]), "k.ndjson": "\x1f\x8b?",
	} {
		put(t, dir, name, []byte(content))
	}
	good := put(t, dir, "z.ndjson", []byte(rows))
	s := newService(t)
	_, err := s.run(Config{}, dir)
	for name, want := range map[string]string{
		"a.json": "it is not JSON", "b.json": "neither a list of rows nor", "c.json": "name the --format ndjson", "c2.json": "after its end", "d.json": "two lists", "e.json": "neither", "f.json": "neither", "f2.json": `"Vendor" is unknown: did you mean vendor?`,
		"g.csv": "no header line", "h.csv": "line 1: extraneous or missing", "i.csv": "line 2: it is longer", "j.ndjson": "it is cut off", "k.ndjson": "cannot read it",
	} {
		require.Regexp(t, regexp.QuoteMeta(filepath.Join(dir, name)+": ")+".*"+regexp.QuoteMeta(want), err.Error())
	}
	require.Len(t, resultsOf(t, good), 3)
	sent := len(resultsOf(t, filepath.Join(dir, "j.ndjson")))
	require.Greater(t, sent, 1000, "what can be read is sent")
	require.Less(t, sent, 9000)
	p, err := s.run(Config{}, filepath.Join(dir, "j.ndjson"))
	require.Error(t, err)
	require.Zero(t, p.Answered(), "all of it, at once")
}

// TestPieces: a document of which not every part is a row is cut at those that are.
func TestPieces(t *testing.T) {
	text := "<?xml version='1.0'?>\n<stats>"
	for i := range 2500 {
		text += fmt.Sprintf("<!-- %d --><stat type='layout'/><stat type='media' a='%d' b='&lt;'></stat>\n", i, i)
	}
	path := put(t, t.TempDir(), "stats.xml.gz", gzipped(t, text+"</stats>"))
	empty := put(t, t.TempDir(), "none.xml", []byte("<stats/>"))
	s := newService(t)
	s.of = func(row string) map[string]any {
		if strings.Contains(row, "'1203'") {
			return map[string]any{"status": "rejected", "error": map[string]any{"error": "VALIDATION_FAILED", "field": "stat[203].todt", "message": "is missing"}}
		}
		return nil
	}
	cfg := Config{Format: "xibo", Senders: 1, Options: url.Values{"display": {"lobby"}}}
	_, err := s.run(cfg, path, empty)
	require.ErrorContains(t, err, empty+": it holds no <stat>")
	require.Len(t, s.requests, 3)
	require.Equal(t, url.Values{"format": {"xibo"}, "display": {"lobby"}}, s.requests[0].query)
	results := resultsOf(t, path)
	require.Len(t, results, 2500)
	require.Contains(t, string(results[2407].Error), `"stat[2407].todt"`)
	for i := range int64(2500) {
		require.Equal(t, i == 1203, results[2*i+1].Status == statusRejected, i)
	}
	p, err := s.run(cfg, path)
	require.NoError(t, err)
	require.EqualValues(t, 2500, p.Skipped.Load())
}

// TestPlaysOfADocument: a document of any length is cut at its plays, each of which is sent with what the
// document says of all, and has a result by its place in the document.
func TestPlaysOfADocument(t *testing.T) {
	dir := t.TempDir()
	var plays []string
	for i := range 2500 {
		plays = append(plays, fmt.Sprintf(`{"frame_id":%d,"ext1":"\ud800"}`, i))
	}
	list := strings.Join(plays, ",")
	for name, c := range map[string]struct {
		document, place string
		format          string
	}{
		"one object":        {`{"api_key":"k","player_id":7,"pop":[` + list + `]}`, "pop[%d]", "broadsign"},
		"behind the list":   {`{"pop":[` + list + `],"other":[{}],"player_id":7}`, "pop[%d]", "broadsign"},
		"with a mark":       {"\ufeff" + `{"player_id":7,"pop":[` + list + `]}`, "pop[%d]", "broadsign"},
		"of an array":       {`[{"player_id":7,"pop":[` + list + `]}]`, "[0].pop[%d]", "broadsign"},
		"of an object each": {`{"player_id":7,"pop":[` + strings.Join(plays, "]}\n{\"player_id\":7,\"pop\":[") + `]}`, "[%d].pop[0]", "broadsign"},
		"values":            {strings.Join(plays, "\n"), "[%d]", "openrtb"},
		"an array":          {" [" + list + "] ", "[%d]", "cloudevents"},
	} {
		s := newService(t)
		s.of = func(row string) map[string]any {
			if strings.Contains(row, `:1234,`) {
				return map[string]any{"status": "rejected", "error": map[string]any{"error": "VALIDATION_FAILED", "message": "is missing",
					"field": map[bool]string{true: "[0].pop[234]", false: "[234]"}[c.format == "broadsign"] + ".duration"}}
			}
			return nil
		}
		path := put(t, dir, name+".txt", []byte(c.document))
		_, err := s.run(Config{Format: c.format, Senders: 1}, path)
		require.NoError(t, err, name)
		require.Len(t, s.requests, 3, name)
		for _, r := range s.requests {
			require.Equal(t, c.format == "broadsign", strings.HasPrefix(r.body, `[{"player_id":7,"pop":[`), name)
		}
		results := resultsOf(t, path)
		require.Len(t, results, 2500, name)
		require.Contains(t, string(results[1234].Error), `"`+fmt.Sprintf(c.place, 1234)+`.duration"`, name)
		p, err := s.run(Config{Format: c.format}, path)
		require.NoError(t, err)
		require.EqualValues(t, 2500, p.Skipped.Load(), name)
	}
	for name, c := range map[string][2]string{
		"cut off": {`{"player_id":7,"pop":[{},{}`, "it is not JSON"},
		"twice":   {`{"pop":[{}],"pop":[{}]}`, ""},
		"no list": {`{"pop":7}`, ""},
		"nothing": {" ", "it is empty"},
	} {
		s := newService(t)
		path := put(t, dir, name+".txt", []byte(c[0]))
		_, err := s.run(Config{Format: "broadsign"}, path)
		if c[1] != "" {
			require.ErrorContains(t, err, c[1], name)
			require.Empty(t, s.requests)
		} else {
			require.NoError(t, err)
			require.Equal(t, "["+c[0]+"]", s.requests[0].body, "the service says what is wrong")
		}
	}
}

// TestFind: what is uploaded of files and folders, and where its results are.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	row := []byte(`{"a":1}`)
	for _, name := range []string{"in/b.ndjson", "in/deep/a.jsonl.gz", "in/.hidden.ndjson", "in/.git/x.ndjson", "in/readme.txt", "in/b.ndjson.results.ndjson", "other/b.ndjson"} {
		put(t, dir, name, row)
	}
	in, other, results := filepath.Join(dir, "in"), filepath.Join(dir, "other"), filepath.Join(dir, "results")
	s := newService(t)
	p, err := s.run(Config{Results: results}, in, other, filepath.Join(in, "b.ndjson.results.ndjson"))
	require.NoError(t, err)
	require.EqualValues(t, 3, p.Files.Load())
	require.EqualValues(t, 1, p.Unknown.Load())
	for _, name := range []string{"in/b.ndjson", "in/deep/a.jsonl.gz", "other/b.ndjson"} {
		require.Len(t, resultsOf(t, filepath.Join(results, name)), 1)
	}
	p, err = s.run(Config{}, filepath.Join(in, "b.ndjson"), filepath.Join(in, ".", "b.ndjson"))
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Files.Load(), "named twice")

	for want, paths := range map[string][]string{
		"no such file":              {filepath.Join(dir, "absent")},
		"name the --format":         {filepath.Join(in, "readme.txt")},
		"there is no file":          {filepath.Join(in, ".git", "..", "..", "results", "nothing")},
		"would have one results":    {filepath.Join(in, "b.ndjson"), filepath.Join(other, "b.ndjson")},
		"neither a file nor a fold": {os.DevNull},
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(results, "nothing"), 0o755))
		_, err := s.run(Config{Results: results}, paths...)
		require.ErrorContains(t, err, want)
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{
		{URL: "ledger.example", Key: "k"}, {URL: "ftp://muniment.example", Key: "k"}, {URL: "https://muniment.example?x", Key: "k"}, {URL: "https://u:p@muniment.example", Key: "k"},
		{URL: "https://muniment.example"}, {URL: "https://muniment.example", Key: "a b"}, {URL: "https://muniment.example", Key: "k", Senders: -1},
	} {
		_, err := New(cfg)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "a b", "no part of a key is shown")
	}
}

// TestLogThatEndsInAValue: what stands before a value that is cut off is sent, as of any log.
func TestLogThatEndsInAValue(t *testing.T) {
	s := newService(t)
	path := put(t, t.TempDir(), "events.ndjson", []byte(`{"id":"1"}`+"\n"+`{"id":"2"}`+"\n"+`{"id":`))
	_, err := s.run(Config{Format: "cloudevents"}, path)
	require.ErrorContains(t, err, "it is not JSON")
	require.Len(t, s.taken, 2)
}
