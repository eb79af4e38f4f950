package service

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

var (
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	pageLink  = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
)

// anchors are the names of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(systemtest.Prose(t, page), -1) {
		names[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return names
}

// TestPagesLinks follows every link of every page: to a file that is there, and to a heading in it.
// Files of the code that a page names are there, too.
func TestPagesLinks(t *testing.T) {
	reached := map[string]bool{"README.md": true}
	for _, page := range systemtest.Pages(t) {
		for _, m := range pageLink.FindAllStringSubmatch(systemtest.Prose(t, page), -1) {
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
		for _, m := range named.FindAllStringSubmatch(systemtest.Prose(t, page), -1) {
			require.FileExists(t, m[1], page)
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

// TestPagesGo: the examples of gateway/client, which are compiled, have each block of Go that is no
// program: such a one is built by TestClientIsSmall.
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
			if strings.HasPrefix(m[1], "package main\n") {
				continue
			}
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

// TestTestingNamesRealTests: every test that .ci/TESTING.md names is there.
func TestTestingNamesRealTests(t *testing.T) {
	page, err := os.ReadFile(".ci/TESTING.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`([a-z./-]+)/(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	for _, n := range named {
		files, err := filepath.Glob(filepath.Join(n[1], "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || regexp.MustCompile(`(?m)^func `+n[2]+`\(`).Match(text)
		}
		require.True(t, found, "TESTING.md names %s of %s, which is not there", n[2], n[1])
	}
}

var (
	function = regexp.MustCompile(`(?m)^func (?:\((?:\w+ )?\*?(\w+)(?:\[.*?\])?\) )?(\w+)[\[(]`)
	codeStep = regexp.MustCompile(`^[0-9]+\. `) // of a way through the code
)

// TestCodeNamesRealCode: the files that the steps in .ci/CODE.md name are there, with the functions that stand behind them.
func TestCodeNamesRealCode(t *testing.T) {
	page, err := os.ReadFile(".ci/CODE.md")
	require.NoError(t, err)
	functions := func(file string) (names []string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			names = append(names, strings.TrimPrefix(m[1]+"."+m[2], "."))
		}
		return names
	}
	named := 0
	for line := range strings.Lines(string(page)) {
		if !codeStep.MatchString(line) {
			continue
		}
		file := ""
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
			name := quoted[1]
			if strings.Contains(name, "/") {
				file, name, _ = strings.Cut(name, " ")
			}
			require.NotEmpty(t, file, "CODE.md: %s is of no file", name)
			require.Contains(t, functions(file), name, "CODE.md: it is not in %s", file)
			named++
		}
	}
	require.Greater(t, named, 50)
}

// TestLinksLeadSomewhere: what the pages for contributors, operators and auditors link to is there.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob(".github/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range append(pages, "deploy/CHANGELOG.md", "deploy/stability.md", "deploy/regions.md", "deploy/systemd/README.md", "deploy/systemd/processes.md", "bench/service/testdata/upgrade/README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, link := range regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			require.FileExists(t, filepath.Join(filepath.Dir(page), link[1]), "%s links to it", page)
		}
	}
}
