package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
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
