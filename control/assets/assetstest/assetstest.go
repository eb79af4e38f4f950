// Package assetstest is for tests of pages that are made of embedded files.
package assetstest

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/assets"
)

// EveryFileIsReached from index.html of the page at base, by the names in its files, and everything
// that they name is there. Files that stand beside others for readers are named in besides.
func EveryFileIsReached(t *testing.T, page *assets.Page, base string, besides ...string) {
	t.Helper()
	names := page.Names()
	reached := map[string]bool{}
	for _, name := range besides {
		reached[name] = true
	}
	mentions := regexp.MustCompile(`(?:src|href)="` + base + `/([^"]+)"|'` + base + `/([\w-]+\.\w+)'|(?:from |import |fetch\()'\./([^']+)'`)
	var reach func(name string)
	reach = func(name string) {
		if reached[name] {
			return
		}
		require.Contains(t, names, name, "it is named, and not there")
		reached[name] = true
		for _, m := range mentions.FindAllStringSubmatch(string(page.Text(name)), -1) {
			reach(m[1] + m[2] + m[3])
		}
	}
	reach("index.html")
	for _, name := range names {
		require.True(t, reached[name], "nothing leads to %s", name)
	}
}

// PolicyHolds requires that assets.Policy blocks nothing that the page at base needs, and that the
// page tries nothing that the policy is there for. Vendored files may name other origins.
func PolicyHolds(t *testing.T, page *assets.Page, base string, vendored ...string) {
	t.Helper()
	for _, name := range page.Names() {
		text := string(page.Text(name))
		if path.Ext(name) == ".html" {
			require.NotRegexp(t, `(?i)<style|<script[^>]*>[^<]|\son\w+=|\sstyle=|javascript:`, text, name)
			require.NotRegexp(t, `<script(?: type="module"| src="`+base+`/[\w.-]+")*\s[^ts]`, text, name)
		}
		if path.Ext(name) == ".js" {
			require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\('style'|\.style\b|localStorage|sessionStorage|indexedDB|document\.cookie`, text, name)
		}
		if slices.Contains(vendored, name) {
			continue
		}
		for _, address := range regexp.MustCompile(`(?:https?:|wss?:)?//[\w-]+\.[^\s'")]*`).FindAllString(text, -1) {
			require.Equal(t, "http://www.w3.org/2000/svg", address, "%s names another origin", name)
		}
		require.LessOrEqual(t, strings.Count(text, "\n"), 500, name)
	}
}
