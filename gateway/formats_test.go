package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestFormats sends the golden documents of every format. What the adapters make rows of is
// taken for one, whatever becomes of it: no mapping knows it, and its play may be too long ago.
// What they refuse is refused by the field that they name.
func TestFormats(t *testing.T) {
	w := newWorld(t, nil)
	files, err := filepath.Glob("adapter/testdata/*/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		target, mediaType := pathBatch+"?format="+filepath.Base(filepath.Dir(file)), "application/json"
		var headers []string
		document := archive.Files[0].Data
		for line := range strings.Lines(string(archive.Comment)) {
			if query, ok := strings.CutPrefix(line, "query: "); ok {
				target += "&" + strings.TrimSpace(query)
			}
			if name, ok := strings.CutPrefix(line, "example: "); ok {
				document, err = os.ReadFile(filepath.Join("adapter", "examples", filepath.Base(filepath.Dir(file)), strings.TrimSpace(name)))
				require.NoError(t, err)
			}
			if header, ok := strings.CutPrefix(line, "field: "); ok {
				if kind, ok := strings.CutPrefix(header, "content-type: "); ok {
					mediaType = strings.TrimSpace(kind)
				} else {
					headers = append(headers, strings.TrimSpace(header))
				}
			}
		}
		answer := w.raw(targeted(target, w.token, mediaType, string(document), headers...))
		rows := strings.Split(strings.TrimSuffix(string(archive.Files[len(archive.Files)-1].Data), "\n"), "\n")
		if strings.HasPrefix(rows[0], "--") {
			require.Equal(t, 400, answer.status, file)
			continue
		}
		results := w.ingested(answer).Results
		require.Len(t, results, len(rows), file)
		for i, row := range rows {
			refused, isRefused := strings.CutPrefix(row, "- ")
			switch got := results[i]; {
			case isRefused:
				require.Equal(t, "rejected", string(got.Status), row)
				require.Equal(t, api.ValidationFailed, got.Error.Code, row)
				require.True(t, strings.HasPrefix(refused, got.Error.Field), "%s: %s", got.Error.Field, row)
			case got.Error != nil && (got.Error.Code == api.ValidationFailed || got.Error.Code == api.BadRequest):
				require.Equal(t, "playedAt", got.Error.Field, row)
				require.NotContains(t, got.Error.Message, "must be", row)
			}
		}
	}
}

// TestWhatABatchBeginsWith: a byte order mark is none of a batch, whatever its type; header fields alone
// make an event of CloudEvents in binary mode; t and z stand for T and Z.
func TestWhatABatchBeginsWith(t *testing.T) {
	w := newWorld(t, nil)
	row := func(id string) string {
		return fmt.Sprintf(`{"rowId":%q,"rightId":%q,"spatialAnchorId":"a","playedAt":%q,"dwellMs":1000}`, id, w.right, strings.ToLower(today.Format(time.RFC3339)))
	}
	for name, c := range map[string]struct {
		mediaType, body string
		headers         []string
	}{
		"rows":     {"application/json", "\ufeff" + `{"vendor":"v","rows":[` + row("1") + `]}`, nil},
		"lines":    {"application/x-ndjson", "\ufeff" + row("2"), nil},
		"a table":  {"text/csv", "\ufeffrowId,rightId,spatialAnchorId,playedAt,dwellMs\n3," + w.right + ",a," + strings.ToLower(today.Format(time.RFC3339)) + ",1000\n", nil},
		"an event": {"application/json", row("4"), []string{"ce-specversion: 1.0", "ce-id: e", "ce-source: /p", "ce-type: play"}},
		"events":   {"application/cloudevents-batch+json", "\ufeff" + `[{"specversion":"1.0","id":"5","source":"/p","type":"play","data":` + row("5") + `}]`, nil},
	} {
		results := w.ingested(w.raw(batchRequest(w.token, c.mediaType, c.body, c.headers...))).Results
		require.Len(t, results, 1, name)
		require.Equal(t, "accepted", string(results[0].Status), "%s: %v", name, results[0].Error)
		require.Len(t, results[0].RowID, 1, name)
	}
}
