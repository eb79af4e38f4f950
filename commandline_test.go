package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

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

func TestBuildOf(t *testing.T) {
	of := func(main string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "muniment", Version: main}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	for _, c := range []struct {
		name             string
		linked, revision string
		info             *debug.BuildInfo
		want             string
	}{
		{"of a tag", "", "", of("v1.2.0", "vcs.revision", "c9f006e", "vcs.modified", "false"), "v1.2.0 (revision c9f006e, go1.26.8)"},
		{"of a changed work tree", "", "", of("v1.2.1-0.20261121040000-c9f006e+dirty", "vcs.revision", "c9f006e", "vcs.modified", "true"),
			"v1.2.1-0.20261121040000-c9f006e+dirty (revision c9f006e-dirty, go1.26.8)"},
		{"as the linker sets it", "v1.2.0-3-gc9f006e", "", of("(devel)", "vcs.revision", "c9f006e"), "v1.2.0-3-gc9f006e (revision c9f006e, go1.26.8)"},
		{"without git", "", "", of("(devel)"), "devel (revision unknown, go1.26.8)"},
		{"without git, as the linker sets it", "v1.2.0", "", of(""), "v1.2.0 (revision unknown, go1.26.8)"},
		{"of a release", "v1.2.0", "c9f006e", of("(devel)"), "v1.2.0 (revision c9f006e, go1.26.8)"},
		{"of which nothing is known", "", "", nil, "devel (revision unknown, " + runtime.Version() + ")"},
	} {
		require.Equal(t, c.want, buildOf(c.linked, c.revision, c.info).String(), c.name)
	}
}

// shellBlock is a block of commands, with the mark before it.
var shellBlock = regexp.MustCompile("(?m)((?:^ *<!-- [^\n]* -->\n)?)^ *```sh\n((?s:.*?))^ *```$")

// ofMachine begins a line of a block that needs no mark: it builds, tests or measures.
var ofMachine = regexp.MustCompile(`^(#.*|make .*|eval .*|go .*|MUNIMENT_TEST_FULL=1 go .*|bin/muniment-bench .*)?$`)

// TestPagesCommands: each block of commands is part of a session, or says why it is not run, and
// is then correct shell; and every command and flag of muniment that a page names is there.
func TestPagesCommands(t *testing.T) {
	app := commandLine()
	for _, page := range systemtest.Pages(t) {
		text := string(systemtest.ReadFile(t, page))
		for _, m := range shellBlock.FindAllStringSubmatch(text, -1) {
			switch mark := strings.TrimSpace(m[1]); {
			case strings.HasPrefix(mark, "<!-- session"), mark == "<!-- a test runs these commands -->":
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

// TestCommandWithoutItsServer: the error says who named the address at which nobody answers, and what to do.
func TestCommandWithoutItsServer(t *testing.T) {
	data := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	file := filepath.Join(data, adminFile)
	require.NoError(t, os.WriteFile(file, []byte(`{"url":"http://`+ln.Addr().String()+`","token":"x"}`), 0o600))
	require.ErrorContains(t, (&running{Data: data}).Do("GET", "/admin/tenants", nil, nil), "no answer from http://"+ln.Addr().String()+", which "+file+" names")
	require.ErrorContains(t, (&running{Data: data, Admin: ln.Addr().String()}).Do("GET", "/admin/tenants", nil, nil), ", which --admin names: start the server, or say where it listens with --admin HOST:PORT, for example --admin 127.0.0.1:9090")
	require.ErrorContains(t, (&running{Data: filepath.Join(data, "none")}).Do("GET", "/admin/tenants", nil, nil), "no server runs on")
}
