package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
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
