package main

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
)

// named are folders and files that commands and texts of the pages name: who has a release and no checkout
// has them too.
var named = []string{
	"deploy/compose.yaml", "deploy/grafana", "deploy/helm", "deploy/prometheus", "gateway/adapter/examples", "pipeline/clickhouse/dashboards.sql",
	"sealer/independent/requirements.txt", "sealer/independent/settle.py", "sealer/independent/verify.py",
}

var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	link   = regexp.MustCompile(`\]\(([^):#\s]+)(?:#[^)]*)?\)`)
)

// pages returns the documentation of a checkout by its paths there, so that its links lead somewhere in an
// archive, too: README.md, all files to which its pages lead, and those that are named.
func pages(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for found := []string{"README.md"}; len(found) > 0; found = found[1:] {
		name := found[0]
		if files[name] != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		files[name] = text
		if path.Ext(name) == ".md" {
			for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
				found = append(found, path.Join(path.Dir(name), m[1]))
			}
		}
	}
	for _, name := range named {
		err := filepath.WalkDir(filepath.Join(root, name), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			rel, relErr := filepath.Rel(root, file)
			files[filepath.ToSlash(rel)] = text
			return errors.Join(err, relErr)
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}
