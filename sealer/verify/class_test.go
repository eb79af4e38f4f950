package verify

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

// TestEachCodeHasOneClass: all codes of both packages are classified, and what can't be judged says what
// to do.
func TestEachCodeHasOneClass(t *testing.T) {
	declared := make(map[sealer.Code]bool)
	for _, file := range []string{"report.go", "../code.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 || !strings.HasSuffix(typeName(v.Type), "Code") {
				return true
			}
			code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			declared[sealer.Code(code)] = true
			return true
		})
	}
	require.Greater(t, len(declared), 60)
	for code := range declared {
		require.NotZero(t, classes[code].class, code)
	}
	require.Len(t, classes, len(declared))
	for code, c := range classes {
		require.Equal(t, c.class == unjudged, c.next != "", code)
	}
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestReadmeListsTheCodes: the auditors' page has each code once, under its class.
func TestReadmeListsTheCodes(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, codes, found := strings.Cut(string(text), "## What a verdict means\n")
	require.True(t, found)
	codes, _, _ = strings.Cut(codes, "\n## ")
	parts := regexp.MustCompile(`\n\*\*(\w[\w' ]*)[.:]\*\*`).Split(codes, -1)[1:]
	require.Len(t, parts, 4)
	for i, part := range parts {
		var listed, classified []string
		for line := range strings.Lines(part) {
			cell := line
			if strings.HasPrefix(line, "| ") {
				cell = strings.SplitN(line, "|", 3)[1]
			} else if i > 0 {
				continue // it is no row
			}
			for _, m := range regexp.MustCompile("`([a-z_]+\\.?[a-z_]*)`").FindAllStringSubmatch(cell, -1) {
				listed = append(listed, m[1])
			}
		}
		for code, c := range classes {
			if c.class == []class{passed, remark, unjudged, unsound}[i] {
				classified = append(classified, string(code))
			}
		}
		slices.Sort(listed)
		slices.Sort(classified)
		require.Equal(t, classified, listed)
	}
}
