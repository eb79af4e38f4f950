// Command asks lists the tests that ask for an engine of make stack: a line for each package, with the
// folder and a pattern for go test -run. It reads the source. A test asks if a call of
// deploy/stack/stacktest is reached from it, through functions and methods of its package and of
// packages for tests; methods are matched by their names. A test that calls
// stacktest.WithoutPostgres does not ask.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	module    = "muniment/"
	stacktest = module + "deploy/stack/stacktest"
)

// function is a name that calls refer to: of a function as <folder>.<name>, of a method as
// <folder>.().<name>.
type function string

func main() {
	calls, err := readCalls(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "asks:", err)
		os.Exit(1)
	}
	byFolder := map[string][]string{}
	for f := range calls {
		folder, name, _ := strings.Cut(string(f), ".")
		if strings.HasPrefix(name, "Test") && name != "TestMain" && asks(calls, f, map[function]bool{}) {
			byFolder[folder] = append(byFolder[folder], name)
		}
	}
	for _, folder := range slices.Sorted(mapKeys(byFolder)) {
		slices.Sort(byFolder[folder])
		fmt.Printf("./%s ^(%s)$\n", folder, strings.Join(byFolder[folder], "|"))
	}
}

func mapKeys(m map[string][]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// asks is whether a function reaches stacktest.
func asks(calls map[function][]function, f function, seen map[function]bool) bool {
	if seen[f] {
		return false
	}
	seen[f] = true
	if slices.Contains(calls[f], "deploy/stack/stacktest.WithoutPostgres") {
		return false
	}
	return slices.ContainsFunc(calls[f], func(next function) bool {
		return strings.HasPrefix(string(next), "deploy/stack/stacktest.") || asks(calls, next, seen)
	})
}

// readCalls reads which functions the functions of tests and of packages for tests name.
func readCalls(top string) (map[function][]function, error) {
	calls := map[function][]function{}
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != top && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || !strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(filepath.Dir(file), "test"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err == nil && !tagged(f) {
			readFile(calls, filepath.ToSlash(filepath.Dir(file)), f)
		}
		return err
	})
	return calls, err
}

// tagged is whether a file is built with a tag alone: make targets of their own run what it has.
func tagged(f *ast.File) bool {
	return slices.ContainsFunc(f.Comments, func(c *ast.CommentGroup) bool {
		return slices.ContainsFunc(c.List, func(line *ast.Comment) bool {
			return strings.HasPrefix(line.Text, "//go:build ") && c.End() < f.Package && !strings.Contains(line.Text, "linux")
		})
	})
}

func readFile(calls map[function][]function, folder string, f *ast.File) {
	imports, forTests := map[string]string{}, []string{folder} // by their names here; the folders whose methods may be called
	for _, spec := range f.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		of, ours := strings.CutPrefix(name, module)
		if !ours || !strings.HasSuffix(of, "test") {
			continue
		}
		forTests = append(forTests, of)
		local := path.Base(of)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imports[local] = of
	}
	for _, d := range f.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := function(folder + "." + decl.Name.Name)
		if decl.Recv != nil {
			name = function(folder + ".()." + decl.Name.Name)
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] != "" {
					calls[name] = append(calls[name], function(imports[x.Name]+"."+n.Sel.Name))
					return false
				}
				for _, of := range forTests {
					calls[name] = append(calls[name], function(of+".()."+n.Sel.Name))
				}
			case *ast.Ident:
				calls[name] = append(calls[name], function(folder+"."+n.Name))
			}
			return true
		})
		if calls[name] == nil {
			calls[name] = []function{}
		}
	}
}
