// Command asks lists the tests that ask for an engine of make stack: a line for each package, with the
// folder and a pattern for go test -run. A test asks if it reaches a function of
// deploy/stack/stacktest, through whatever functions of tests and of packages for tests; not if it
// reaches stacktest.WithoutPostgres or stacktest.OnlyWith. A call through an interface is not followed.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module    = "muniment.example"
	stacktest = module + "/deploy/stack/stacktest"
)

// listed is a package as go list -json has it.
type listed struct {
	ImportPath, Dir, ForTest, Export string
	GoFiles                          []string
	ImportMap                        map[string]string
}

// reached are the functions and variables that each function and variable names, by their full names.
type reached map[string][]string

func main() {
	lines, err := run("./...")
	if err != nil {
		fmt.Fprintln(os.Stderr, "asks:", err)
		os.Exit(1)
	}
	for _, line := range lines {
		fmt.Println(line)
	}
}

// run returns the lines of the packages that patterns match.
func run(patterns ...string) (lines []string, err error) {
	packages, err := list(patterns)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	all, tests := reached{}, map[string][]string{} // tests by folder
	for _, p := range packages {
		ours := p.ImportPath == module || strings.HasPrefix(p.ImportPath, module+"/")
		if !ours || strings.HasSuffix(p.ImportPath, ".test") || p.ForTest == "" && !strings.HasSuffix(p.ImportPath, "test") {
			continue
		}
		names, err := all.read(p, exports)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", p.ImportPath, err)
		}
		folder := "." + strings.TrimPrefix(strings.TrimSuffix(p.ForTest, "_test"), module)
		tests[folder] = append(tests[folder], names...)
	}
	for folder, names := range tests {
		names = slices.DeleteFunc(names, func(name string) bool {
			seen := map[string]bool{}
			all.walk(name, seen)
			return seen[stacktest+".WithoutPostgres"] || seen[stacktest+".OnlyWith"] || !asks(seen)
		})
		if len(names) == 0 {
			continue
		}
		for i, name := range names {
			names[i] = name[strings.LastIndex(name, ".")+1:]
		}
		slices.Sort(names)
		lines = append(lines, fmt.Sprintf("%s ^(%s)$", folder, strings.Join(names, "|")))
	}
	slices.Sort(lines)
	return lines, nil
}

// asks is whether a function of stacktest is among names.
func asks(names map[string]bool) bool {
	for name := range names {
		if strings.HasPrefix(name, stacktest+".") && name != stacktest+".PostgresIfUp" {
			return true
		}
	}
	return false
}

// list has the go command list packages and what they are made of, with their test variants and their export data.
func list(patterns []string) (packages []listed, err error) {
	cmd := exec.Command("go", append([]string{"list", "-test", "-deps", "-export", "-json=ImportPath,Dir,ForTest,Export,GoFiles,ImportMap"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// read type-checks a package, notes what its functions and variables name, and returns its tests.
func (r reached) read(p listed, exports map[string]string) (tests []string, err error) {
	files := token.NewFileSet()
	var syntax []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		syntax = append(syntax, f)
	}
	imported := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		if variant, ok := p.ImportMap[path]; ok {
			path = variant
		}
		return os.Open(exports[path])
	})
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: imported}).Check(p.ImportPath, files, syntax, info)
	if err != nil {
		return nil, err
	}
	for _, f := range syntax {
		for _, d := range f.Decls {
			for name, body := range named(d, info) {
				ast.Inspect(body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						if used := info.Uses[id]; lasting(used) {
							r[name] = append(r[name], fullName(used))
						}
					}
					return true
				})
				if test := name[strings.LastIndex(name, ".")+1:]; strings.HasPrefix(test, "Test") && test != "TestMain" && p.ForTest != "" && checked.Scope().Lookup(test) != nil {
					tests = append(tests, name)
				}
			}
		}
	}
	return tests, nil
}

// named are the functions and variables that a declaration declares.
func named(d ast.Decl, info *types.Info) map[string]ast.Node {
	found := map[string]ast.Node{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		found[fullName(info.Defs[d.Name])] = d
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, id := range v.Names {
					found[fullName(info.Defs[id])] = v
				}
			}
		}
	}
	return found
}

// lasting is whether a thing is a function, or a variable of a package.
func lasting(o types.Object) bool {
	switch o := o.(type) {
	case *types.Func:
		return o.Pkg() != nil
	case *types.Var:
		return o.Pkg() != nil && o.Parent() == o.Pkg().Scope()
	}
	return false
}

// fullName is the same for a thing and for what its importers see of it, tests' variants included.
func fullName(o types.Object) string {
	name := ""
	if f, ok := o.(*types.Func); ok {
		name = f.Origin().FullName()
	} else if o.Pkg() != nil {
		name = o.Pkg().Path() + "." + o.Name()
	}
	before, after, variant := strings.Cut(name, " [")
	if !variant {
		return name
	}
	_, after, _ = strings.Cut(after, "]")
	return before + after
}

// walk visits all that is reached from a name.
func (r reached) walk(name string, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	for _, next := range r[name] {
		r.walk(next, seen)
	}
}
