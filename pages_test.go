package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
)

// prose is a page without its blocks of code.
func prose(t *testing.T, page string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(systemtest.ReadFile(t, page)), "")
}

var (
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	pageLink  = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
)

// anchors are the names of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(prose(t, page), -1) {
		names[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return names
}

// TestPagesLinks follows every link of every page: to a file that is there, and to a heading in it.
// Files of the code that a page names are there, too.
func TestPagesLinks(t *testing.T) {
	reached := map[string]bool{"README.md": true}
	for _, page := range systemtest.Pages(t) {
		for _, m := range pageLink.FindAllStringSubmatch(prose(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := page
			if m[1] != "" {
				target = path.Join(path.Dir(page), m[1])
			}
			require.FileExists(t, target, "%s: %s", page, m[0])
			reached[target] = true
			if m[2] != "" {
				require.True(t, anchors(t, target)[m[2]], "%s: %s has no heading #%s", page, target, m[2])
			}
		}
	}
	named := regexp.MustCompile("`((?:gate|gateway|sealer|pipeline|control|deploy|bench|testdata)/[a-zA-Z0-9_/.-]+\\.[a-z]+)[` ]")
	for _, page := range systemtest.Pages(t) {
		require.True(t, reached[page], "no page links to %s", page)
		for _, m := range named.FindAllStringSubmatch(prose(t, page), -1) {
			require.FileExists(t, m[1], page)
		}
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
		for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(prose(t, page), -1) {
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

// TestPagesMakeTargets holds the make targets that pages show against the Makefile.
func TestPagesMakeTargets(t *testing.T) {
	makefile := string(systemtest.ReadFile(t, "Makefile"))
	for _, page := range systemtest.Pages(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllSubmatch(systemtest.ReadFile(t, page), -1) {
			require.Regexp(t, `(?m)^`+string(m[1])+`:`, makefile, page)
		}
	}
	require.Regexp(t, `(?s)^# Muniment\n\n`+"```sh\nmake demo .*\nmake test ", string(systemtest.ReadFile(t, "README.md")), "the README starts with two commands")
}

// TestPagesGo: the examples of gateway/client, which are compiled, have each block of Go.
func TestPagesGo(t *testing.T) {
	lines := func(text string) (joined string) {
		for line := range strings.Lines(text) {
			joined += strings.TrimSpace(line) + "\n"
		}
		return joined
	}
	examples := lines(string(systemtest.ReadFile(t, "gateway/client/example_test.go")))
	found := 0
	for _, page := range systemtest.Pages(t) {
		for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(systemtest.ReadFile(t, page)), -1) {
			found++
			require.Contains(t, examples, lines(m[1]), page)
		}
	}
	require.NotZero(t, found)
}

// TestVerdictCodes: the auditors' page explains every code of a verdict.
func TestVerdictCodes(t *testing.T) {
	page := string(systemtest.ReadFile(t, "sealer/README.md"))
	files, err := filepath.Glob("sealer/*.go")
	require.NoError(t, err)
	more, err := filepath.Glob("sealer/verify/*.go")
	require.NoError(t, err)
	found := 0
	for _, file := range append(files, more...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^\s*(?:const )?[A-Z]\w* (?:sealer\.)?Code += "([a-z._]+)"`).FindAllSubmatch(text, -1) {
			found++
			require.Contains(t, page, fmt.Sprintf("`%s`", m[1]), file)
		}
	}
	require.Greater(t, found, 50)
}
