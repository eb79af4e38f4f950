package systemtest

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pages are all pages of documentation: every Markdown file that is a person's work.
func Pages(t *testing.T) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == ".git" || file == "bin" || d.Name() == "node_modules" || file == "sealer/testdata"):
			return fs.SkipDir
		case strings.HasSuffix(file, ".md") && file != "control/page/overview.md": // a part of /docs
			all = append(all, file)
		}
		return nil
	}))
	require.Contains(t, all, "README.md")
	return all
}

// Prose is a page without its blocks of code.
func Prose(t *testing.T, page string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(ReadFile(t, page)), "")
}
