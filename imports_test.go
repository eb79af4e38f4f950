package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// packages says which package may import which of ours. A new package
// is a line here. A name that ends in "/..." stands for the package and all below it.
var packages = map[string][]string{
	".":                         {"bench/demo", "bench/system", "control/...", "deploy/adminapi", "deploy/commandline", "deploy/process", "gate", "gateway/...", "pipeline/...", "sealer", "sealer/pack", "sealer/terminal", "sealer/verify", "pipeline/trace"},
	"deploy":                    {},
	"deploy/commandline":        {},
	"deploy/process":            {"gateway", "gateway/certs", "pipeline/trace", "sealer/keyfile"},
	"deploy/adminapi":           {"gateway/api", "gateway/certs", "pipeline", "sealer/keyfile", "sealer/terminal"},
	"deploy/alerttest":          {"bench/waittest"},
	"deploy/stack/stacktest":    {},
	"bench/abuse":               {"bench/load", "bench/system", "pipeline"},
	"bench/cmd":                 {"bench/...", "pipeline/clickhouse", "pipeline/kafka"},
	"bench/compare":             {"bench/abuse", "bench/load", "bench/measure", "bench/system", "gateway", "gateway/api", "gateway/issue", "pipeline", "pipeline/segment", "sealer", "sealer/keydir"},
	"bench/demo":                {"bench/load", "bench/measure", "bench/system", "pipeline", "pipeline/segment", "sealer"},
	"bench/load":                {"bench/system", "gate", "pipeline"},
	"bench/measure":             {"gateway/api"},
	"bench/scale":               {"bench/load", "bench/measure", "bench/system", "pipeline", "sealer"},
	"bench/browser":             {},
	"bench/drills":              {},
	"bench/faults":              {},
	"bench/hostile":             {},
	"bench/service":             {},
	"bench/stack":               {},
	"bench/soak":                {"bench/abuse", "bench/load", "bench/measure", "bench/system"},
	"bench/system/storytest":    {"bench/system", "bench/system/systemtest", "bench/waittest", "control/access", "control/sandbox", "gateway/api", "sealer", "sealer/keydir", "sealer/verify", "pipeline/trace", "pipeline/trace/tracetest"},
	"bench/system/systemtest":   {"bench/load", "bench/system", "bench/waittest", "control/access", "control/backup", "control/operator", "control/node", "control/proof", "control/route/routetest", "control/sandbox", "deploy/stack/stacktest", "gateway/api", "gateway/client", "gateway/snapshot", "pipeline", "pipeline/clickhouse", "pipeline/drift", "pipeline/kafka", "pipeline/segment", "sealer", "sealer/keydir"},
	"bench/system":              {"deploy/adminapi", "pipeline"},
	"bench/warehouse":           {"bench/measure", "bench/system", "control/proof", "control/proof/sums", "control/statement", "control/store", "gate", "gateway/api", "pipeline/...", "sealer", "sealer/canonical", "sealer/settlement", "sealer/statement"},
	"bench/waittest":            {},
	"control":                   {"control/...", "gate", "gateway/api", "gateway/auth", "gateway/keyuse", "pipeline", "pipeline/trace", "sealer/calendar"},
	"control/access":            {"control/mailer", "control/member", "control/route", "control/sandbox", "control/store", "control/tenant", "gateway/api", "gateway/auth", "sealer", "sealer/canonical", "sealer/terminal"},
	"control/analyst":           {"control/table"},
	"control/assets":            {"gateway/api"},
	"control/assets/assetstest": {"control/assets"},
	"control/backup":            {"control/proof", "control/reserve", "control/rollback", "control/signing", "control/store", "gateway/api", "sealer", "sealer/canonical", "sealer/checkpoint", "sealer/keyfile", "sealer/pack", "sealer/terminal"},
	"control/beacon":            {"control/route", "control/store", "gateway/api", "gateway/auth", "sealer", "sealer/keydir"},
	"control/challenge":         {"control/node", "control/right", "control/route", "control/store", "gateway/api", "gateway/auth", "sealer"},
	"control/console":           {"control/assets", "control/member", "control/route", "control/store", "gate", "gateway/api", "gateway/auth", "gateway/client", "sealer", "sealer/calendar", "sealer/canonical", "sealer/keydir", "sealer/rate"},
	"control/operator":          {"control/access", "control/assets", "control/node", "control/proof", "control/route", "control/store", "gateway/api", "pipeline", "sealer", "sealer/terminal"},
	"control/dispute":           {"control/right", "control/route", "control/store", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/canonical"},
	"control/dsar":              {"control/challenge", "control/dispute", "control/erasure", "control/ingest", "control/member", "control/objects", "control/offer", "control/payable", "control/payeelink", "control/proof", "control/right", "control/route", "control/settle", "control/statement", "control/store", "control/table", "control/tenant", "control/webhook", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/canonical", "sealer/dsar", "sealer/settlement"},
	"control/erasure":           {"control/route", "control/store", "gateway/api", "gateway/auth", "pipeline", "sealer"},
	"control/event":             {"control/analyst", "control/proof", "control/route", "control/store", "control/table", "gateway/api", "gateway/auth", "pipeline", "sealer"},
	"control/export":            {"control/analyst", "control/reserve", "control/route", "control/table", "gateway/api", "gateway/remote", "sealer", "sealer/keyfile", "sealer/rate", "sealer/settlement"},
	"control/historytest":       {"gateway/api"},
	"control/ingest":            {"control/node", "control/right", "control/route", "control/store", "control/tenant", "gateway/api", "gateway/auth", "sealer", "sealer/canonical"},
	"control/mailer":            {"control/store", "gateway/api", "sealer/keyfile"},
	"control/mailer/mailertest": {},
	"control/member":            {"control/mailer", "control/oidc", "control/route", "control/sandbox", "control/store", "control/tenant", "gateway/api", "gateway/auth", "sealer"},
	"control/meter":             {"control/route", "control/store", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/calendar", "sealer/settlement"},
	"control/node":              {"control/route", "control/signing", "control/store", "gateway/api", "sealer", "sealer/canonical", "sealer/keydir", "sealer/terminal"},
	"control/objects":           {"control/reserve", "gateway/api", "sealer/keyfile"},
	"control/objects/s3test":    {},
	"control/oidc":              {"gateway/api"},
	"control/oidc/oidctest":     {},
	"control/offer":             {"control/right", "control/route", "control/store", "gateway/api", "gateway/auth", "sealer", "sealer/canonical"},
	"control/paper":             {"control/payable", "control/route", "sealer/rate", "sealer/statement"},
	"control/payable":           {"control/route", "control/settle", "control/store", "control/tenant", "gateway/api", "gateway/auth", "sealer", "sealer/rate"},
	"control/payeelink":         {"control/paper", "control/payable", "control/route", "control/statement", "control/store", "control/tenant", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/canonical", "sealer/checkpoint", "sealer/statement"},
	"control/plane":             {"control", "control/...", "deploy/process", "gateway", "gateway/api", "gateway/auth", "gateway/certs", "gateway/issue", "gateway/localnode", "pipeline", "pipeline/drift", "pipeline/segment", "pipeline/trace", "sealer", "sealer/pack"},
	"control/playground":        {"control/assets", "control/route", "control/sandbox", "gateway/api"},
	"control/proof":             {"control/objects", "control/proof/sums", "control/reserve", "control/route", "control/store", "control/tenant", "control/webhook", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/checkpoint", "sealer/keydir", "sealer/keyfile", "sealer/merkle", "sealer/pack", "sealer/settlement", "sealer/terminal", "pipeline/trace"},
	"control/proof/sums":        {"sealer", "sealer/pack"},
	"control/proof/prooftest":   {"control/roomtest", "control/store", "control/store/storetest", "gate", "gateway/api", "pipeline", "pipeline/kafka", "pipeline/segment", "pipeline/sqlite", "sealer", "sealer/keydir", "sealer/verify"},
	"control/rapidtest":         {},
	"control/right":             {"control/node", "control/route", "control/store", "control/tenant", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/canonical", "sealer/settlement"},
	"control/requests":          {"control/route", "control/store", "gateway/api", "gateway/auth", "gateway/keyuse"},
	"control/roomtest":          {"control/node", "control/store", "control/store/storetest", "deploy/stack/stacktest", "sealer"},
	"control/rollback":          {"control/store", "pipeline", "sealer"},
	"control/route":             {"control/store", "gateway/api", "sealer", "sealer/calendar"},
	"control/route/routetest":   {"control/route", "gateway/api"},
	"control/sandbox":           {"control/challenge", "control/event", "control/node", "control/offer", "control/proof", "control/right", "control/route", "control/settle", "control/store", "control/tenant", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/keydir", "sealer/pack", "sealer/rate", "sealer/terminal"},
	"control/settle":            {"control/right", "control/route", "control/store", "control/tenant", "gate", "gateway/api", "gateway/auth", "sealer", "sealer/calendar", "sealer/canonical", "sealer/rate", "sealer/settlement"},
	"control/signing":           {"control/route", "control/store", "gateway/api", "sealer", "sealer/canonical", "sealer/keydir", "sealer/keyfile", "sealer/terminal"},
	"control/statement":         {"control/dispute", "control/paper", "control/payable", "control/proof", "control/route", "control/settle", "control/store", "control/tenant", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/calendar", "sealer/canonical", "sealer/pack", "sealer/rate", "sealer/settlement", "sealer/statement"},
	"control/reserve":           {},
	"control/store":             {"control/reserve", "gateway/api", "sealer", "sealer/canonical"},
	"control/store/storetest":   {"deploy/stack/stacktest"},
	"control/table":             {"control/route", "sealer", "sealer/canonical"},
	"control/tenant":            {"control/node", "control/route", "control/store", "gate", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/calendar", "sealer/keydir", "sealer/terminal"},
	"control/verifier":          {"control/assets", "control/route", "gateway/api"},
	"control/verifier/program":  {},
	"control/webhook":           {"control/route", "control/store", "gateway/api", "gateway/auth", "pipeline", "sealer", "sealer/keydir", "pipeline/trace"},
	"gate":                      {},
	"gateway":                   {"gate", "gateway/...", "pipeline/trace", "sealer"},
	"gateway/adapter":           {"gateway/api"},
	"gateway/api":               {"gate"},
	"gateway/auth":              {"gateway/api"},
	"gateway/certs":             {},
	"gateway/certs/certstest":   {},
	"gateway/client":            {"gate", "gateway/api", "sealer", "sealer/canonical", "sealer/keydir", "sealer/terminal", "sealer/verify"},
	"gateway/identity":          {"gateway/api", "gateway/snapshot", "sealer", "sealer/canonical", "sealer/keydir", "sealer/keyfile"},
	"gateway/issue":             {"gate", "gateway/api", "gateway/auth", "gateway/issue/idempotency", "gateway/snapshot", "pipeline/trace", "sealer", "sealer/canonical"},
	"gateway/issue/idempotency": {"gateway/api", "sealer", "sealer/keyfile"},
	"gateway/issue/issuetest":   {"gate", "gateway/api", "gateway/auth", "sealer", "sealer/keydir"},
	"gateway/localnode":         {"gateway/api", "gateway/identity", "gateway/issue", "gateway/snapshot", "sealer/keyfile"},
	"gateway/remote":            {"sealer/terminal"},
	"gateway/upload":            {"gateway/adapter", "gateway/api", "gateway/remote", "sealer/terminal"},
	"gateway/snapshot":          {"gate", "gateway/api", "gateway/auth", "gateway/keyuse"},
	"gateway/keyuse":            {"gateway/api"},
	"pipeline":                  {"gate", "sealer", "sealer/pack", "pipeline/trace"},
	"pipeline/admission":        {"pipeline"},
	"pipeline/clickhouse":       {"gate", "pipeline", "pipeline/drift", "sealer"},
	"pipeline/conform":          {"gate", "pipeline", "pipeline/drift", "sealer", "sealer/canonical", "sealer/keydir"},
	"pipeline/copies":           {"pipeline", "pipeline/segment", "sealer"},
	"pipeline/drift":            {"pipeline", "sealer", "sealer/pack"},
	"pipeline/kafka":            {"pipeline", "sealer"},
	"pipeline/segment":          {"pipeline", "sealer"},
	"pipeline/sqlite":           {"gate", "pipeline", "pipeline/drift", "sealer"},
	"pipeline/trace":            {},
	"pipeline/trace/tracetest":  {},
	"sealer":                    {"gate", "sealer/canonical", "sealer/merkle"},
	"sealer/calendar":           {},
	"sealer/canonical":          {},
	"sealer/checkpoint":         {"sealer", "sealer/canonical", "sealer/merkle"},
	"sealer/dsar":               {"sealer", "sealer/canonical"},
	"sealer/independent":        {},
	"sealer/keydir":             {"sealer", "sealer/canonical"},
	"sealer/keyfile":            {"sealer/keydir"},
	"sealer/merkle":             {},
	"sealer/pack":               {"sealer", "sealer/canonical", "sealer/checkpoint", "sealer/keydir", "sealer/merkle", "sealer/settlement", "sealer/signature"},
	"sealer/rate":               {"sealer/calendar", "sealer/canonical", "sealer/settlement"},
	"sealer/sealertest":         {"gate", "sealer", "sealer/keydir", "sealer/merkle", "sealer/pack", "sealer/rate", "sealer/settlement"},
	"sealer/settlement":         {"sealer", "sealer/canonical"},
	"sealer/signature":          {},
	"sealer/statement":          {"sealer", "sealer/canonical", "sealer/keydir", "sealer/settlement"},
	"sealer/terminal":           {},
	"sealer/verify":             {"gate", "sealer", "sealer/canonical", "sealer/checkpoint", "sealer/dsar", "sealer/keydir", "sealer/merkle", "sealer/pack", "sealer/settlement", "sealer/signature", "sealer/statement", "sealer/terminal"},

	// Programs of their own.
	"deploy/stack/asks":             {},
	"deploy/module":                 {},
	"deploy/release":                {"sealer/verify"},
	"sealer/verify/muniment-verify": {"sealer/rate", "sealer/terminal", "sealer/verify"},
}

// testsOnly are packages that no shipped code may import. They may import each other.
var testsOnly = []string{"bench/waittest", "bench/system/storytest", "bench/system/systemtest", "control/assets/assetstest", "control/historytest", "control/mailer/mailertest", "control/objects/s3test", "control/oidc/oidctest", "control/proof/prooftest", "control/rapidtest", "control/roomtest", "control/route/routetest", "control/store/storetest", "deploy/alerttest", "deploy/stack/stacktest", "gateway/certs/certstest", "gateway/issue/issuetest", "pipeline/conform", "pipeline/trace/tracetest", "sealer/sealertest"}

// adapters are the dependencies that belong to one package each. A prefix of the
// import path and the packages that may name it.
var adapters = map[string][]string{
	"github.com/KimMachineGun":         {"deploy/process"},
	"github.com/valyala/fasthttp":      {"gateway", "bench/compare", "bench/load", "."},
	"github.com/dgraph-io/ristretto":   {"gateway/snapshot"},
	"github.com/danielgtaylor/huma":    {"control", "control/operator", "control/dsar", "control/route", "control/route/routetest", "control/sandbox"},
	"github.com/coreos/go-oidc":        {"control/oidc"},
	"golang.org/x/oauth2":              {"control/oidc"},
	"github.com/go-jose":               {},
	"github.com/transparency-dev":      {"sealer/checkpoint", "sealer/merkle"},
	"github.com/google/btree":          {"sealer/pack"},
	"filippo.io/edwards25519":          {"sealer/signature"},
	"modernc.org/sqlite":               {"bench/system/storytest", "control/backup", "control/export", "control/store", "control/store/storetest", "pipeline/sqlite"},
	"github.com/jackc/pgx":             {"control/store", "control/store/storetest"},
	"github.com/alecthomas/kong":       {".", "bench/cmd", "deploy/commandline"},
	"github.com/pressly/goose":         {"control/store", "control/store/storetest", "pipeline/clickhouse", "pipeline/sqlite"},
	"github.com/segmentio/kafka-go":    {"pipeline/kafka"},
	"github.com/klauspost/compress":    {"bench/system/systemtest", "control/proof", "control/proof/sums", "gateway", "gateway/upload", "pipeline/sqlite", "sealer/pack"},
	"github.com/ClickHouse/clickhouse": {"pipeline/clickhouse", "bench/warehouse"}, // what the product is held against
	"github.com/parquet-go/parquet-go": {"control/table"},
	"github.com/minio/minio-go":        {"control/objects"},
	"github.com/wneessen/go-mail":      {"control/mailer"},
	"github.com/cespare/xxhash":        {"pipeline/clickhouse"},
	"code.dny.dev/ssrf":                {"control/webhook"},
	"codeberg.org/go-pdf/fpdf":         {"control/paper"},
	"golang.org/x/image":               {"control/paper"},
	"go.opentelemetry.io":              {"pipeline/trace/tracetest"},
	"google.golang.org/protobuf":       {"pipeline/trace/tracetest"},
}

// TestImportMap holds every import of shipped code against the map.
// Tests may look into other packages: they prove the parts together.
func TestImportMap(t *testing.T) {
	seen := map[string]bool{}
	for file, imports := range goFiles(t) {
		pkg := filepath.ToSlash(filepath.Dir(file))
		allowed, known := packages[pkg]
		require.True(t, known, "%s: the package %q is not in the map", file, pkg)
		seen[pkg] = true
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, path := range imports {
			if ours, ok := strings.CutPrefix(path, "muniment.example/"); ok {
				require.True(t, covers(allowed, ours), "%s: %s may not import %s", file, pkg, path)
				if !slices.Contains(testsOnly, pkg) {
					require.NotContains(t, testsOnly, ours, "%s: %s is for tests only", file, path)
				}
			}
			for prefix, owners := range adapters {
				if strings.HasPrefix(path, prefix) {
					require.Contains(t, owners, pkg, "%s: %s belongs to %v", file, path, owners)
				}
			}
		}
	}
	for pkg := range packages {
		require.True(t, seen[pkg], "the package %s is in the map but does not exist", pkg)
	}
}

func covers(allowed []string, pkg string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		if all, ok := strings.CutSuffix(a, "/..."); ok {
			return pkg == all || strings.HasPrefix(pkg, all+"/")
		}
		return pkg == a
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

// TestFilesThatCommentsName: they are there, beside the comment or by their path.
func TestFilesThatCommentsName(t *testing.T) {
	files, err := exec.Command("git", "ls-files", "-z").Output()
	require.NoError(t, err)
	all := strings.Split(strings.Trim(string(files), "\x00"), "\x00")
	named := regexp.MustCompile(`[\w/.-]*\w\.go\b`)
	found := 0
	var missing []string
	for _, file := range all {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for line := range strings.Lines(string(systemtest.ReadFile(t, file))) {
			text, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
			if !isComment {
				continue
			}
			for _, name := range named.FindAllString(text, -1) {
				found++
				if !slices.Contains(all, name) && !slices.Contains(all, path.Join(path.Dir(file), name)) {
					missing = append(missing, file+" names "+name)
				}
			}
		}
	}
	require.Empty(t, missing)
	require.Greater(t, found, 10)
}
