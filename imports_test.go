package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms is the map of the house: which room may import which of ours. A new room
// is a line here. A name that ends in "/..." stands for the room and all below it.
var rooms = map[string][]string{
	".":                       {"bench", "control/...", "gate", "gateway/...", "pipeline/...", "sealer", "sealer/keyfile"},
	"deploy":                  {},
	"bench":                   {"gate", "gateway", "gateway/api", "gateway/issue", "pipeline/...", "sealer"},
	"control":                 {"control/...", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer"},
	"control/backup":          {"control/node", "control/proof", "control/store", "sealer", "sealer/keyfile"},
	"control/beacon":          {"control/route", "control/store", "gateway/api", "gateway/auth", "sealer"},
	"control/challenge":       {"control/node", "control/right", "control/route", "control/store", "gateway/api", "gateway/auth", "sealer"},
	"control/historytest":     {"gateway/api"},
	"control/ingest":          {"control/node", "control/right", "control/route", "control/store", "gateway/api", "gateway/auth", "sealer"},
	"control/meter":           {"control/route", "control/store", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer"},
	"control/node":            {"control/route", "control/store", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/keyfile"},
	"control/offer":           {"control/right", "control/route", "control/store", "gateway/api", "gateway/auth", "sealer"},
	"control/proof":           {"control/node", "control/route", "control/store", "control/tenant", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/keyfile"},
	"control/rapidtest":       {},
	"control/right":           {"control/node", "control/route", "control/store", "control/tenant", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer"},
	"control/roomtest":        {"control/node", "control/store", "control/store/storetest", "sealer"},
	"control/route":           {"control/store", "gateway/api", "sealer"},
	"control/route/routetest": {"control/route"},
	"control/sandbox":         {"control/challenge", "control/node", "control/offer", "control/proof", "control/right", "control/route", "control/settle", "control/settle/rate", "control/store", "control/tenant", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer"},
	"control/settle":          {"control/settle/rate", "control/store", "gate", "gateway/api", "sealer"},
	"control/settle/rate":     {},
	"control/store":           {"gateway/api", "sealer"},
	"control/store/storetest": {},
	"control/tenant":          {"control/node", "control/route", "control/store", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer"},
	"gate":                    {},
	"gateway":                 {"gate", "gateway/...", "sealer"},
	"gateway/adapter":         {"gateway/api"},
	"gateway/api":             {"gate"},
	"gateway/auth":            {"gateway/api"},
	"gateway/certs":           {},
	"gateway/certs/certstest": {},
	"gateway/identity":        {"gateway/api", "gateway/snapshot", "sealer", "sealer/keyfile"},
	"gateway/issue":           {"gate", "gateway/api", "gateway/auth", "gateway/snapshot", "sealer", "sealer/keyfile"},
	"gateway/issue/issuetest": {"gate", "gateway/api", "gateway/auth", "sealer"},
	"gateway/upload":          {"gateway/api"},
	"gateway/snapshot":        {"gate", "gateway/api", "gateway/auth"},
	"pipeline":                {"gate", "sealer"},
	"pipeline/clickhouse":     {"gate", "pipeline", "pipeline/drift", "sealer"},
	"pipeline/conform":        {"gate", "pipeline", "pipeline/drift", "sealer"},
	"pipeline/drift":          {"pipeline", "sealer"},
	"pipeline/edge":           {"pipeline", "pipeline/segment", "sealer"},
	"pipeline/kafka":          {"pipeline", "sealer"},
	"pipeline/segment":        {"pipeline", "sealer"},
	"pipeline/sqlite":         {"gate", "pipeline", "pipeline/drift", "sealer"},
	"sealer":                  {"gate"},
	"sealer/independent":      {},
	"sealer/keyfile":          {"sealer"},
}

// testsOnly are rooms that no shipped code may import. They are none, and may import each other.
var testsOnly = []string{"control/historytest", "control/rapidtest", "control/roomtest", "control/route/routetest", "control/store/storetest", "gateway/certs/certstest", "gateway/issue/issuetest", "pipeline/conform"}

// adapters are the dependencies that belong to one room each. A prefix of the
// import path and the rooms that may name it.
var adapters = map[string][]string{
	"github.com/valyala/fasthttp":      {"gateway", "bench", "."},
	"github.com/dgraph-io/ristretto":   {"gateway/snapshot"},
	"github.com/danielgtaylor/huma":    {"control", "control/route", "control/route/routetest", "control/sandbox"},
	"github.com/transparency-dev":      {"sealer"},
	"modernc.org/sqlite":               {"control/backup", "control/store", "pipeline/sqlite"},
	"github.com/jackc/pgx":             {"control/store", "control/store/storetest"},
	"github.com/alecthomas/kong":       {"."},
	"github.com/pressly/goose":         {"control/store", "pipeline/clickhouse", "pipeline/sqlite"},
	"github.com/segmentio/kafka-go":    {"pipeline/kafka"},
	"github.com/klauspost/compress":    {"control/proof", "gateway", "gateway/upload", "sealer"},
	"github.com/ClickHouse/clickhouse": {"pipeline/clickhouse", "bench"}, // what the product is held against
	"github.com/cespare/xxhash":        {"pipeline/clickhouse"},
	"github.com/cloudevents/sdk-go":    {"gateway/adapter"},
	"github.com/prebid/openrtb":        {"gateway/adapter"},
}

// TestImportMap holds every import of shipped code against the map of the house.
// Tests may look into other rooms: they prove the parts together.
func TestImportMap(t *testing.T) {
	seen := map[string]bool{}
	for file, imports := range goFiles(t) {
		room := filepath.ToSlash(filepath.Dir(file))
		allowed, known := rooms[room]
		require.True(t, known, "%s: the room %q is not in the map of the house", file, room)
		seen[room] = true
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, path := range imports {
			if ours, ok := strings.CutPrefix(path, "muniment/"); ok {
				require.True(t, covers(allowed, ours), "%s: %s may not import %s", file, room, path)
				if !slices.Contains(testsOnly, room) {
					require.NotContains(t, testsOnly, ours, "%s: %s is for tests only", file, path)
				}
			}
			for prefix, owners := range adapters {
				if strings.HasPrefix(path, prefix) {
					require.Contains(t, owners, room, "%s: %s belongs to %v", file, path, owners)
				}
			}
		}
	}
	for room := range rooms {
		require.True(t, seen[room], "the room %s is in the map but not in the house", room)
	}
}

func covers(allowed []string, room string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		if all, ok := strings.CutSuffix(a, "/..."); ok {
			return room == all || strings.HasPrefix(room, all+"/")
		}
		return room == a
	})
}

// goFiles lists the imports of every Go file of the module. What was built and what engines
// keep, in bin, is none of it and may go at any moment.
func goFiles(t *testing.T) map[string][]string {
	files := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || path == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files[path] = []string{}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			files[path] = append(files[path], name)
		}
		return nil
	})
	require.NoError(t, err)
	return files
}
