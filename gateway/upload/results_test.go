package upload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKilled ends runs after any request and tears the results file anywhere: in the end each
// row is in, and what was known to be in was not sent again.
func TestKilled(t *testing.T) {
	rows := rowsOf(5000)
	path := put(t, t.TempDir(), "plays.ndjson.gz", gzipped(t, strings.Join(rows, "\n")))
	s := newService(t)
	random := rand.New(rand.NewPCG(1, 2))
	killed := errors.New("killed")
	for kills := 0; ; kills++ {
		require.Less(t, kills, 200, "each run goes further")
		at := len(s.requests) + 1 + random.IntN(3)
		ctx, kill := context.WithCancelCause(t.Context())
		s.before = func(n int, _ *http.Request) (*http.Response, error) {
			if n >= at && kills < 20 {
				kill(killed)
				return nil, killed
			}
			return nil, nil
		}
		u, err := New(Config{URL: "https://muniment.example", Key: "mun_test_x", HTTP: s, Senders: 2})
		require.NoError(t, err)
		err = u.Run(ctx, []string{path})
		kill(nil)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, killed)
		text, err := os.ReadFile(path + resultsSuffix)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path+resultsSuffix, int64(len(text)-random.IntN(min(len(text)+1, 60000)))))
	}
	require.Len(t, s.taken, 5000)
	results := resultsOf(t, path)
	require.Len(t, results, 5000, "a torn line is no row's")
	for i, row := range rows {
		require.Contains(t, []string{statusAccepted, statusDuplicate}, results[int64(i)].Status)
		require.Equal(t, s.taken[row], results[int64(i)].ReceiptID)
	}
	before := len(s.requests)
	_, err := s.run(Config{}, path)
	require.NoError(t, err)
	require.Len(t, s.requests, before)
}

// TestResultsOnlySaveWork: rows are recognized by their content, whatever a results file says.
func TestResultsOnlySaveWork(t *testing.T) {
	dir := t.TempDir()
	path := put(t, dir, "plays.ndjson", []byte("{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n"))
	s := newService(t)
	_, err := s.run(Config{}, path)
	require.NoError(t, err)

	put(t, dir, "plays.ndjson", []byte("{\"a\":1}\n{\"a\":22}\n{\"a\":3}\n{\"a\":4}\n"))
	p, err := s.run(Config{}, path)
	require.NoError(t, err)
	require.EqualValues(t, 2, p.Skipped.Load())
	require.Contains(t, s.taken, `{"a":22}`, "a row that was changed")
	require.Contains(t, s.taken, `{"a":4}`, "a row that was added")

	for _, damage := range []string{"", "\n\n", "no JSON\n", `{"index":-1,"row":"AAAAAAAAAAA","status":"accepted"}` + "\n" + `{"index":0,"row":"?","status":"accepted"}` + "\n{}\n"} {
		require.NoError(t, os.WriteFile(path+resultsSuffix, []byte(damage), 0o644))
		p, err := s.run(Config{}, path)
		require.NoError(t, err)
		require.EqualValues(t, 4, p.Duplicate.Load())
	}

	held, err := openResults(path+resultsSuffix, false)
	require.NoError(t, err)
	_, err = s.run(Config{}, path)
	require.ErrorContains(t, err, "another process uploads this file")
	require.NoError(t, held.close())

	require.NoError(t, os.Remove(path+resultsSuffix))
	require.NoError(t, os.Mkdir(path+resultsSuffix, 0o755))
	_, err = s.run(Config{}, path)
	require.ErrorContains(t, err, "cannot open the results file")
}

// FuzzRecords: records are taken apart where the reader of the service does it.
func FuzzRecords(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "a,\"x\ny\"\r\n\r\n\"\"\"\n\",1", "a\"b,\"c\"\"\"\n", ",\"\n\",\n", "\"a\"b\n", "\r\n\r", "a\r\rb\n", "\r\r", "a\r"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		whole := csv.NewReader(strings.NewReader(text))
		whole.FieldsPerRecord = -1
		want, err := whole.ReadAll()
		if err != nil || len(text) > maxRecord {
			return // one of the records is at fault, and those after it can't be parsed
		}
		in := &recordReader{in: bufio.NewReader(strings.NewReader(text)), separator: ','}
		var got [][]string
		for {
			record, _, err := in.next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			one := csv.NewReader(bytes.NewReader(record))
			one.FieldsPerRecord = -1
			cells, err := one.Read()
			require.NoError(t, err, "%q", record)
			got = append(got, cells)
		}
		require.Equal(t, want, got)
	})
}
