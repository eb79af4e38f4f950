package service

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

var (
	shellCommands = regexp.MustCompile("(?ms)((?:^ *<!-- [^\n]* -->\n)?)^ *```sh\n(.*?)^ *```$")
	// fileName is a word of a command that names a file.
	fileName = regexp.MustCompile(`(?:^|[\s"'@=<>(;])([A-Za-z0-9_./*${}%-]*\.(?:json|ndjson|csv|xml|txt|zip|tar|gz|vkey|skey|pub|pem|crt|key|sql|yaml|yml|py|sh|service|env|html|pdf|gif))(?:$|[\s"');|&>])`)
	// maker is what stands before the name of a file that a command makes, or copies to.
	maker = regexp.MustCompile(`(?:>|-o|-out|-keyout|tee|--out|--to|(?:cp|mv|install) .*)\s*$`)
	// ofService are files that a service makes in its data folder.
	ofService = regexp.MustCompile(`^muniment-data/|/keys/root\.[sv]key$`)
)

// TestPagesFiles: each file that a page's commands name is there for its reader: commands above have made it, or
// those of the first session which the page continues; or it is a file of ours, or of the service's data
// folder; or the page's text says where it comes from, above the command. Commands of a session are run, and
// fail if a file is not there.
func TestPagesFiles(t *testing.T) {
	ours := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (file == ".git" || file == "bin" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		ours[file] = true
		return err
	}))
	first := filesOf(string(systemtest.ReadFile(t, "README.md")))
	require.NotEmpty(t, first)
	named := 0
	for _, page := range systemtest.Pages(t) {
		text := string(systemtest.ReadFile(t, page))
		made := map[string]bool{}
		if strings.Contains(text, "<!-- session") {
			for _, f := range first {
				made[path.Base(f.name)] = made[path.Base(f.name)] || f.made
			}
		}
		for _, f := range filesOf(text) {
			named++
			local := path.Join(path.Dir(page), f.name)
			require.True(t, f.made || f.run || made[path.Base(f.name)] || ours[path.Clean(f.name)] || ours[local] || ofService.MatchString(f.name) || strings.Contains(f.above, "`"+f.name+"`"),
				"%s: no reader has the file %s of %s", page, f.name, f.line)
			made[path.Base(f.name)] = made[path.Base(f.name)] || f.made
		}
	}
	require.Greater(t, named, 100)
}

// namedFile is a file that a line of commands names.
type namedFile struct {
	name, line string
	above      string // the page's text above the commands
	made, run  bool   // whether the line makes it, and whether a session runs it
}

// filesOf are the files that a page's commands name, in order.
func filesOf(text string) (all []namedFile) {
	for _, at := range shellCommands.FindAllStringSubmatchIndex(text, -1) {
		above, run := shellCommands.ReplaceAllString(text[:at[0]], ""), strings.Contains(text[at[2]:at[3]], "<!-- session")
		for line := range strings.Lines(strings.ReplaceAll(text[at[4]:at[5]], "\\\n", " ")) {
			line = remark.ReplaceAllString(line, "")
			for from := 0; ; {
				m := fileName.FindStringSubmatchIndex(line[from:])
				if m == nil {
					break
				}
				begin, end := from+m[2], from+m[3]
				all = append(all, namedFile{line[begin:end], strings.TrimSpace(line), above, maker.MatchString(line[:begin]), run})
				from = end
			}
		}
	}
	return all
}
