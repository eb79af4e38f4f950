package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
	"muniment.example/gateway/issue"
	"muniment.example/pipeline/segment"
)

func TestMain(m *testing.M) { systemtest.Main(m) }

// TestLimits compares each row of the page of limits with the constant and the flag that it names.
func TestLimits(t *testing.T) {
	app := commandLine()
	row := regexp.MustCompile("(?m)^\\| (.*?) \\| (.*?) \\| .*? \\| (?:`--([a-z-]+)`.*?)? ?\\| (?:`(\\S+) (\\w+)`)? ?\\|$")
	found := 0
	for line := range strings.Lines(string(systemtest.ReadFile(t, "gateway/api/limits.md"))) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what |") {
			continue
		}
		m := row.FindStringSubmatch(strings.ReplaceAll(strings.TrimSpace(line), "| |", "|  |"))
		require.NotNil(t, m, line)
		what, limit, flag, file, name := m[1], m[2], m[3], m[4], m[5]
		require.False(t, flag == "" && file == "", "%s: neither flag nor code", what)
		found++
		if file != "" {
			require.Equal(t, number(t, limit), inCode(t, file, name), "%s: %s of %s", what, name, file)
		}
		if flag != "" {
			defaults := flagDefaults(app.Model.Node, flag)
			require.NotEmpty(t, defaults, "%s: no command has the flag --%s", what, flag)
			if !strings.Contains(line, "`--bound` of `verify`") && defaults[0] != "" {
				require.Equal(t, number(t, limit), number(t, defaults[0]), "%s: --%s", what, flag)
			}
		}
	}
	require.Greater(t, found, 80)
}

// units are what numbers of the page and of flags end with.
var units = map[string]float64{
	"": 1, "bytes": 1, "characters": 1, "levels": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	"s": float64(time.Second), "min": float64(time.Minute), "h": float64(time.Hour), "days": 24 * float64(time.Hour),
}

// number reads a limit such as "64 KiB", "24h" or "a quarter of that, 1,024".
func number(t *testing.T, text string) float64 {
	m := regexp.MustCompile(`([0-9][0-9,]*) ?(\w*)$`).FindStringSubmatch(text)
	require.NotNil(t, m, text)
	value, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
	require.NoError(t, err)
	unit, ok := units[m[2]]
	require.True(t, ok, "%s: unit %s", text, m[2])
	return value * unit
}

// flagDefaults are the defaults of a flag, of all commands that have it.
func flagDefaults(n *kong.Node, name string) (all []string) {
	for _, f := range n.Flags {
		if f.Name == name {
			all = append(all, f.Default)
		}
	}
	for _, c := range n.Children {
		all = append(all, flagDefaults(c, name)...)
	}
	return all
}

// inCode is a number in a source file: a constant of that name, the maximum of a field of that
// name, what a statement assigns to such a field, or the last value of a list that begins with
// the name, such as {"MaxConns", &c.MaxConns, 16_384}.
func inCode(t *testing.T, file, name string) float64 {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	var found ast.Expr
	maximum := ""
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if id.Name == name && i < len(n.Values) {
					found = n.Values[i]
				}
			}
		case *ast.CompositeLit:
			if len(n.Elts) > 1 {
				if first, ok := n.Elts[0].(*ast.BasicLit); ok && first.Value == strconv.Quote(name) {
					found = n.Elts[len(n.Elts)-1]
				}
			}
		case *ast.AssignStmt:
			if field, ok := n.Lhs[0].(*ast.SelectorExpr); ok && field.Sel.Name == name && len(n.Lhs) == 1 {
				found = n.Rhs[0]
			}
		case *ast.Field:
			if len(n.Names) == 1 && n.Names[0].Name == name && n.Tag != nil {
				if given := reflect.StructTag(strings.Trim(n.Tag.Value, "`")).Get("maximum"); given != "" {
					maximum = given
				}
			}
		}
		return true
	})
	if found == nil {
		require.NotEmpty(t, maximum, "%s of %s", name, file)
		return number(t, maximum)
	}
	value, ok := constant.Float64Val(evaluate(t, parsed, found))
	require.True(t, ok || value != 0, "%s of %s", name, file)
	return value
}

var moments = map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour, "Millisecond": time.Millisecond}

// evaluate computes a constant expression of numbers and durations.
func evaluate(t *testing.T, in *ast.File, e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.ToFloat(constant.MakeFromLiteral(e.Value, e.Kind, 0))
	case *ast.ParenExpr:
		return evaluate(t, in, e.X)
	case *ast.SelectorExpr:
		require.Contains(t, moments, e.Sel.Name)
		return constant.MakeFloat64(float64(moments[e.Sel.Name]))
	case *ast.BinaryExpr:
		x, y := evaluate(t, in, e.X), evaluate(t, in, e.Y)
		if e.Op == token.SHL {
			bits, ok := constant.Uint64Val(constant.ToInt(y))
			require.True(t, ok)
			return constant.ToFloat(constant.Shift(constant.ToInt(x), token.SHL, uint(bits)))
		}
		return constant.BinaryOp(x, e.Op, y)
	}
	require.Fail(t, fmt.Sprintf("%T is no constant expression of this test", e))
	return nil
}

// TestNoSecretHasADefault: who starts a command names engines, users and secrets, or
// goes without.
func TestNoSecretHasADefault(t *testing.T) {
	var cli commands
	app, err := kong.New(&cli, kong.Vars{})
	require.NoError(t, err)
	secret := regexp.MustCompile(`password|token|secret|user|invitation|cert|\bkey\b|-ca$|^(kafka|clickhouse|database)$`)
	seen := 0
	for _, command := range app.Model.Leaves(false) {
		for _, flag := range command.Flags {
			if secret.MatchString(flag.Name) {
				seen++
				require.False(t, flag.HasDefault, "%s --%s is %q by default", command.Path(), flag.Name, flag.Default)
			}
			require.NotContains(t, flag.Default, "@", flag.Name)
		}
	}
	require.Greater(t, seen, 50)
}

// shellBlock is a block of commands, with the mark before it.
var shellBlock = regexp.MustCompile("(?m)((?:^ *<!-- [^\n]* -->\n)?)^ *```sh\n((?s:.*?))^ *```$")

// ofMachine begins a line of a block that needs no mark: it builds, tests or measures.
var ofMachine = regexp.MustCompile(`^(#.*|make .*|eval .*|go .*|MUNIMENT_TEST_FULL=1 go .*|bin/muniment-bench .*)?$`)

// runners are the tests that run the commands of pages.
var runners = map[string]string{
	"deploy/README.md": "deploy/readme_test.go", "deploy/runbooks.md": "deploy/alerttest/drill.go", "deploy/systemd/processes.md": "bench/stack/processes_test.go",
	"control/operator/README.md": "bench/service/console_test.go", ".github/SECURITY.md": "deploy/release/release_test.go",
	"README.md": sessions, "gateway/integrating.md": sessions, "sealer/README.md": sessions, "control/rights.md": sessions, "control/settlement.md": sessions, "control/money.md": sessions,
	"control/webhooks.md": sessions, "control/personal-data.md": sessions, "control/sandbox.md": sessions, "deploy/operating.md": sessions, "deploy/procedures.md": sessions,
}

const sessions = "bench/service/sessions_test.go"

// TestPagesCommands: each block of commands is part of a session, or says why it is not run, and
// is then correct shell; and every command and flag of muniment that a page names is there.
func TestPagesCommands(t *testing.T) {
	app := commandLine()
	for _, page := range systemtest.Pages(t) {
		text := string(systemtest.ReadFile(t, page))
		for _, m := range shellBlock.FindAllStringSubmatch(text, -1) {
			switch mark := strings.TrimSpace(m[1]); {
			case strings.HasPrefix(mark, "<!-- session"), strings.HasPrefix(mark, "<!-- a test runs these commands"):
				require.Contains(t, runners, page, "its commands are said to be run, and nothing runs them")
				source := string(systemtest.ReadFile(t, runners[page]))
				require.Regexp(t, `"(`+regexp.QuoteMeta(page)+`|`+regexp.QuoteMeta(filepath.Base(page))+`)"`, source, "%s does not name %s", runners[page], page)
			case strings.HasPrefix(mark, "<!-- not run: "):
				check := exec.CommandContext(t.Context(), "sh", "-n")
				check.Stdin = strings.NewReader(m[2])
				out, err := check.CombinedOutput()
				require.NoError(t, err, "%s: %s", page, out)
			default:
				for line := range strings.Lines(m[2]) {
					require.Regexp(t, ofMachine, strings.TrimSpace(line), "%s: the block has no mark that says whether it is run", page)
				}
			}
			for line := range strings.Lines(strings.ReplaceAll(m[2], "\\\n", " ")) {
				requireCommands(t, app, page, line)
			}
		}
		for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(systemtest.Prose(t, page), -1) {
			requireCommands(t, app, page, m[1])
			if flag, ok := strings.CutPrefix(m[1], "--"); ok && !strings.HasPrefix(page, "bench/") && page != "sealer/independent/README.md" {
				name, _, _ := strings.Cut(strings.Fields(flag)[0], "=")
				require.True(t, strings.HasSuffix(name, "…") || hasFlag(app.Model.Node, name), "%s: no command has the flag --%s", page, name)
			}
		}
	}
}

// hasFlag says whether a command, or one below it, has a flag.
func hasFlag(n *kong.Node, name string) bool {
	for _, f := range n.Flags {
		if f.Name == name {
			return true
		}
	}
	for _, c := range n.Children {
		if hasFlag(c, name) {
			return true
		}
	}
	return false
}

var (
	invocation = regexp.MustCompile(`(?:^|[ (]/?)muniment((?: +[^ |;&)]+)*)`)
	flagWord   = regexp.MustCompile(`^--([a-z-]+)`)
)

// requireCommands fails if a text calls muniment by a command or a flag that it doesn't have.
func requireCommands(t *testing.T, app *kong.Kong, page, text string) {
	text, _, _ = strings.Cut(text, "  #")
	for _, m := range invocation.FindAllStringSubmatch(text, -1) {
		node, words := app.Model.Node, strings.Fields(m[1])
		for len(words) > 0 && !strings.HasPrefix(words[0], "-") {
			var next *kong.Node
			for _, c := range node.Children {
				if c.Type == kong.CommandNode && c.Name == words[0] {
					next = c
				}
			}
			if next == nil {
				break
			}
			node, words = next, words[1:]
		}
		if node.Type != kong.CommandNode {
			require.Empty(t, words, "%s: %q is no command of muniment", page, m[0])
			continue
		}
		for _, word := range words {
			if f := flagWord.FindStringSubmatch(word); f != nil {
				found := hasFlag(node, f[1])
				for up := node.Parent; up != nil; up = up.Parent {
					for _, flag := range up.Flags {
						found = found || flag.Name == f[1]
					}
				}
				require.True(t, found, "%s: muniment %s has no flag --%s", page, node.Path(), f[1])
			}
		}
	}
}

// unbounded are flags with a number that any value suits.
var unbounded = []string{"log-level", "seed"}

// TestBoundsOfFlags: a value just out of range is refused in words that name the flag, its least value and an
// example, and the bounds themselves are taken. A flag with a number needs bounds.
func TestBoundsOfFlags(t *testing.T) {
	tried := map[string]string{}
	visitFlags(t, commandLine().Model.Node, func(command *kong.Node, flag *kong.Flag) {
		target, shown := flag.Target.Type(), flag.Summary()
		switch target.Kind() {
		case reflect.Int, reflect.Int64, reflect.Float64:
		case reflect.String:
			if flag.Tag.Get("address") == "" && flag.Tag.Has("address") {
				for _, wrong := range []string{"http://127.0.0.1:9090", "127.0.0.1", "9090", "127.0.0.1:9090/", "127.0.0.1:70000", ""} {
					require.ErrorContains(t, parseFlag(command, flag, wrong), "--"+flag.Name+": ", shown)
					require.ErrorContains(t, parseFlag(command, flag, wrong), "must be HOST:PORT, without http://, for example "+flag.Default, shown)
				}
				require.NotContains(t, fmt.Sprint(parseFlag(command, flag, "[::1]:0")), "HOST:PORT, without", shown)
				require.NotContains(t, fmt.Sprint(parseFlag(command, flag, "localhost:9090")), "HOST:PORT, without", shown)
			}
			return
		default:
			return
		}
		for _, name := range unbounded {
			if flag.Name == name {
				return
			}
		}
		require.True(t, flag.Tag.Has("least"), "%s of %s has no bounds", shown, command.Path())
		tried[flag.Name] = flag.Tag.Get("most")
		step := int64(1)
		if target == reflect.TypeFor[time.Duration]() {
			step = int64(time.Millisecond)
		}
		written := func(n int64) string {
			if target == reflect.TypeFor[time.Duration]() {
				return time.Duration(n).String()
			}
			return fmt.Sprint(n)
		}
		for _, bound := range []struct {
			tag  string
			sign int64
		}{{"least", -1}, {"most", 1}} {
			if !flag.Tag.Has(bound.tag) {
				continue
			}
			limit, err := readLimit(flag.Tag.Get(bound.tag), target)
			require.NoError(t, err, shown)
			if flag.Tag.Has("zero") {
				require.NotContains(t, fmt.Sprint(parseFlag(command, flag, written(0))), "--"+flag.Name+":", shown)
				require.ErrorContains(t, parseFlag(command, flag, written(1)), "it must be 0, or at least", shown)
			}
			err = parseFlag(command, flag, written(limit+bound.sign*step))
			require.ErrorContains(t, err, "--"+flag.Name+": ", shown)
			require.ErrorContains(t, err, "is out of range", shown)
			require.ErrorContains(t, err, flag.Tag.Get("least"), shown)
			_, example, found := strings.Cut(err.Error(), ", for example ")
			require.True(t, found && example != "", err)
			for _, right := range []string{example, written(limit)} {
				require.NotContains(t, fmt.Sprint(parseFlag(command, flag, right)), "--"+flag.Name+":", shown)
			}
			require.ErrorContains(t, parseFlag(command, flag, written(math.MinInt64)), "is out of range", shown)
			require.ErrorContains(t, parseFlag(command, flag, "many"), ", for example "+example, shown)
		}
	})
	require.Greater(t, len(tried), 25)
	for name, most := range map[string]time.Duration{"row-age": api.MaxRowAge, "ack-timeout": issue.DefaultTimeout / 2} {
		got, err := time.ParseDuration(tried[name])
		require.NoError(t, err)
		require.Equal(t, most, got, name)
	}
	least, err := time.ParseDuration("25h")
	require.NoError(t, err)
	require.Equal(t, segment.LeastKeep, least, "the least --keep")
}

// visitFlags calls visit with each flag of a command and of those below it.
func visitFlags(t *testing.T, command *kong.Node, visit func(*kong.Node, *kong.Flag)) {
	for _, flag := range command.Flags {
		visit(command, flag)
	}
	for _, below := range command.Children {
		visitFlags(t, below, visit)
	}
}

// parseFlag parses a command line with that flag; what else the command needs is missing.
func parseFlag(command *kong.Node, flag *kong.Flag, value string) error {
	for command.Type == kong.CommandNode && len(command.Children) > 0 { // a flag of a group
		command = command.Children[0]
	}
	_, err := commandLine().Parse(append(strings.Fields(command.FullPath())[1:], "--"+flag.Name+"="+value))
	return err
}

// readLimit reads a least or most value of a flag.
func readLimit(text string, of reflect.Type) (int64, error) {
	if of == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		return int64(d), err
	}
	return strconv.ParseInt(text, 10, 64)
}

// wrongs are values that no flag of a kind takes, by the tag of the kind.
var wrongs = map[string][]string{
	"url":   {"foo", "127.0.0.1:8080", "ftp://example.com/"},
	"time":  {"foo", "yesterday", "2026-11-01"},
	"day":   {"foo", "yesterday", "2026-13-01"},
	"level": {"foo"},
	"least": {"many", "-1000000h"},
}

// particular are wrong values of flags that their command checks itself, with what else it needs for that.
var particular = map[string][]string{
	"bundles":              {"s3://"},
	"packs":                {"s3://", "--bundles=s3://muniment-bundles"},
	"webhook-allow":        {"http://receiver.internal"},
	"kafka-sasl-mechanism": {"plain"}, "kafka-sasl-user": {"muniment"}, "kafka-sasl-password-file": {"/file"},
	"mail-from": {"me@example.com"}, "mail-user": {"me"}, "mail-password-file": {"/file"}, "mail-tls-ca": {"/file"},
	"oidc-client-id": {"muniment"}, "oidc-secret-file": {"/file"}, "oidc-ca": {"/file"}, "traces-ca": {"/file"}, "parts-cert": {"/file"}, "parts-key": {"/file"}, "parts-ca": {"/file"},
}

// freeText are the flags without a form: any text suits them, or only the server knows which does.
var freeText = []string{
	"state", "all-from", "invitation", "topic", "cluster", "group", "org", "email", "scope", "time-zone", "tenant", "label", "reason", "format", "option", "results", "name", "out", "skey",
	"root", "keys", "expect-checkpoint", "keep", "to", "from", "data", "tombstones",
}

// needed are values of flags that commands need.
var needed = map[string]string{"kafka": "127.0.0.1:1", "clickhouse": "clickhouse://127.0.0.1:1/muniment", "database": "postgres://127.0.0.1:1/muniment", "control": "127.0.0.1:1", "nodes": "https://127.0.0.1:1"}

// leastLine is a command line with all that a command needs, where a file will do for the rest, and the command's flags.
func leastLine(command *kong.Node, file string) (flags []*kong.Flag, line []string) {
	for _, group := range command.AllFlags(false) {
		flags = append(flags, group...)
	}
	line = strings.Fields(command.FullPath())[1:]
	for _, flag := range flags {
		if value, known := needed[flag.Name]; known && flag.Required {
			line = append(line, "--"+flag.Name+"="+value)
		} else if flag.Required {
			line = append(line, "--"+flag.Name+"="+file)
		}
	}
	if command.Name == "migrate" {
		line = append(line, "--database="+needed["database"])
	}
	for range command.Positional {
		line = append(line, file)
	}
	return flags, line
}

// TestWrongValues gives each flag of each command a value of another kind than its own: the error names the flag and
// an example, before a folder is made. A flag without a kind is free text, or a file.
func TestWrongValues(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("bash", nil, 0o600)) // a file that is there, and one of the shells
	tried := 0
	for _, command := range commandLine().Model.Leaves(false) {
		flags, line := leastLine(command, "bash")
		for _, flag := range flags {
			values, extra := []string(nil), []string(nil)
			for tag, wrong := range wrongs {
				if flag.Tag.Has(tag) {
					values = append(values, wrong...)
				}
			}
			if flag.Tag.Has("address") {
				values = append(values, "foo", "127.0.0.1", "ftp://127.0.0.1:1", "127.0.0.1:70000")
			}
			if flag.Tag.Has("needs") {
				values = append(values, "/file")
			}
			if p, ok := particular[flag.Name]; ok {
				values, extra = p[:1], p[1:]
			}
			if len(values) == 0 {
				free := flag.IsBool() || flag.Enum != "" || flag.Tag.Type != "" || strings.HasSuffix(flag.Name, "server-name")
				for _, name := range append(unbounded, freeText...) {
					free = free || flag.Name == name
				}
				assert.True(t, free, "%s --%s has no kind", command.Path(), flag.Name)
			}
			for _, value := range values {
				given := append(slices.DeleteFunc(slices.Clone(line), func(word string) bool { return strings.HasPrefix(word, "--"+flag.Name+"=") }), "--"+flag.Name+"="+value)
				_, err := commandLine().Parse(append(given, extra...))
				named := flag.Name
				if _, ok := particular[flag.Name]; ok { // what is missing may be another of the same group
					named, _, _ = strings.Cut(named, "-")
				}
				require.ErrorContains(t, err, "--"+named, "%s", given)
				require.Contains(t, err.Error(), ", for example ", "%s", given)
				require.NotContains(t, err.Error(), "for example \n", "%s", given)
				require.NotRegexp(t, "for example $", err.Error(), "%s", given)
				tried++
			}
		}
	}
	require.Greater(t, tried, 300)
	made, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, made, 1, "a wrong command line makes nothing")
	for flag, value := range map[string]string{"database": "postgres://u:hunter2@h:x/", "clickhouse": "ftp://u:hunter2@h/"} {
		_, err := commandLine().Parse([]string{"migrate", "--" + flag + "=" + value})
		require.ErrorContains(t, err, "--"+flag)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// anyText are flags of files that hold any text, or whose text the command reads itself.
var anyText = []string{"key-file", "tombstones", "expect-checkpoint"}

// notRead are flags of files that are read later than at the start, or written.
var notRead = map[string]string{
	"gateway node-cert": "read when the node joins, and may be gone afterwards", "gateway node-key": "likewise", "root generate out": "a new file", "backup to": "a new file or folder",
	"verify expect-checkpoint": "judged as the other files are: the report has a line of it",
	"ingest results":           "made after rows were sent", "demo parts-cert": "with --stack alone", "demo parts-key": "likewise", "demo parts-ca": "likewise",
}

// with are flags without which those with the same beginning are refused.
var with = map[string][]string{
	"mail-": {"--mail-smtp=127.0.0.1:1", "--mail-from=Muniment <muniment@example.com>", "--public-url=https://muniment.example"}, "mail-password-file": {"--mail-user=muniment"}, "oidc-": {"--oidc-issuer=https://127.0.0.1:1", "--oidc-client-id=muniment", "--public-url=https://muniment.example"},
	"admin-token-file": {"--admin=127.0.0.1:1"}, "admin-c": {"--admin=https://127.0.0.1:1"}, "admin-key": {"--admin=https://127.0.0.1:1"}, "traces-ca": {"--traces-endpoint=https://127.0.0.1:1"},
	"kafka-sasl-password-file": {"--kafka-sasl-mechanism=scram-sha-512", "--kafka-sasl-user=muniment"},
}

// TestErrorsOfFilesNameTheFlag gives each flag of a file or folder, of each command, one that isn't there, that is of the other kind,
// empty, or holds something else: the command ends, and its error names the flag.
func TestErrorsOfFilesNameTheFlag(t *testing.T) {
	dir := t.TempDir()
	garbage, empty, folder := filepath.Join(dir, "garbage"), filepath.Join(dir, "empty"), filepath.Join(dir, "folder")
	require.NoError(t, os.WriteFile(garbage, []byte("no PEM"), 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.Mkdir(folder, 0o700))
	pair := certstest.New(t).Issue(t, certstest.Leaf{})
	tried, seen := 0, map[string]bool{}
	for _, command := range commandLine().Model.Leaves(true) {
		flags, least := leastLine(command, garbage)
		for _, flag := range flags {
			isFolder := strings.HasPrefix(flag.PlaceHolder, "DIR") || flag.Name == "data"
			switch {
			case flag.Tag.Type == "" && !(command.Name == "verify" && flag.PlaceHolder == "FILE"):
				continue
			case notRead[strings.TrimPrefix(command.FullPath(), "muniment ")+" "+flag.Name] != "":
				continue
			}
			faults := []string{filepath.Join(dir, "missing"), folder, filepath.Join(garbage, "beneath"), empty, garbage}
			switch {
			case isFolder:
				faults = []string{filepath.Join(garbage, "beneath")}
			case slices.Contains(anyText, flag.Name), flag.Target.Type() == reflect.TypeFor[certs.PasswordFile]():
				faults = faults[:3]
			}
			if seen[flag.Name+flag.Help] { // of the same struct
				faults = faults[:1]
			}
			seen[flag.Name+flag.Help] = true
			for _, fault := range faults {
				line := slices.DeleteFunc(slices.Clone(least), func(word string) bool { return strings.HasPrefix(word, "--"+flag.Name+"=") })
				line = append(line, "--"+flag.Name+"="+fault)
				for end, file := range map[string]string{"cert": pair.Cert, "key": pair.Key} { // belong together, and to client-ca
					own, _, declared := strings.Cut(flag.Tag.Get("needs"), "=")
					if other := strings.TrimSuffix(flag.Name, own) + end; declared && own != end {
						line = append(line, "--"+other+"="+file)
					}
				}
				for prefix, others := range with {
					if strings.HasPrefix(flag.Name, prefix) {
						line = append(line, others...)
					}
				}
				shown := ""
				if flag.Tag.Has("file") { // it is looked at before the command runs
					_, err := commandLine().Parse(line)
					shown = fmt.Sprint(err)
				} else {
					run := exec.CommandContext(t.Context(), "muniment", line...)
					run.Dir = dir
					ended := time.AfterFunc(20*time.Second, func() { _ = run.Process.Kill() })
					out, err := run.CombinedOutput()
					ended.Stop()
					assert.Error(t, err, line)
					shown = string(out)
				}
				tried++
				assert.Contains(t, shown, "--"+flag.Name+": ", line)
			}
		}
	}
	require.Greater(t, tried, 200)
	t.Log(tried)
}
