package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a library that is linked into programs.
type module struct {
	path, version string
	sum           string // as go.sum has it; the standard library has none
	programs      []string
	// licences are SPDX ids, sorted; empty if none was recognised.
	licences []string
	// texts are the files that have to be passed on with it.
	texts []text
}

type text struct{ name, body string }

// std is the name of the standard library, as a module.
const std = "std"

// modulesOf lists the modules in the programs, sorted by path, as the binaries themselves name them.
func modulesOf(built map[string][]*buildinfo.BuildInfo) (list []module, err error) {
	byPath := map[string]*module{}
	add := func(program string, m module) {
		known := byPath[m.path]
		if known == nil {
			known = &m
			byPath[m.path] = known
		}
		if !slices.Contains(known.programs, program) {
			known.programs = append(known.programs, program)
			slices.Sort(known.programs)
		}
	}
	for program, infos := range built {
		for _, info := range infos {
			add(program, module{path: std, version: strings.TrimPrefix(info.GoVersion, "go")})
			for _, d := range info.Deps {
				if d.Replace != nil {
					return nil, fmt.Errorf("%s is replaced in go.mod, which the bill of materials can't say", d.Path)
				}
				add(program, module{path: d.Path, version: d.Version, sum: d.Sum})
			}
		}
	}
	for _, m := range byPath {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return list, readLicences(list)
}

// readLicences reads the licences of modules where the Go toolchain keeps them.
func readLicences(list []module) error {
	dirs, err := foldersOf(list)
	if err != nil {
		return err
	}
	for i := range list {
		m := &list[i]
		dir := dirs[m.path]
		if dir == "" {
			return fmt.Errorf("the source of %s is not on this machine: go mod download", m.path)
		}
		if m.texts, err = licenceFiles(dir); err != nil {
			return fmt.Errorf("cannot read the licence of %s: %w", m.path, err)
		}
		for _, t := range m.texts {
			if !ofLicence.MatchString(t.name) {
				continue
			}
			for _, id := range recognise(t.body) {
				if !slices.Contains(m.licences, id) {
					m.licences = append(m.licences, id)
				}
			}
		}
		slices.Sort(m.licences)
	}
	return nil
}

// foldersOf returns the folders of the modules' sources, by path.
func foldersOf(list []module) (map[string]string, error) {
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{std: root}
	args := []string{"list", "-m", "-json=Path,Dir"}
	for _, m := range list {
		if m.path != std {
			args = append(args, m.path)
		}
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list the modules: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return dirs, nil
		case err != nil:
			return nil, fmt.Errorf("cannot read the list of modules: %w", err)
		}
		dirs[m.Path] = m.Dir
	}
}

var (
	// wanted are the files that are passed on with a module, ofLicence those of them that hold its
	// licence.
	wanted    = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)
	ofLicence = regexp.MustCompile(`(?i)^(licen[cs]e|copying)(\.(md|txt))?$`)
)

func licenceFiles(dir string) (texts []text, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || !wanted.MatchString(e.Name()) {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text{e.Name(), string(body)})
	}
	return texts, nil
}

// phrases identify the licences of libraries, in texts without commas, signs of headings, line
// breaks and capitals. A text may hold several licences.
var phrases = []struct{ id, says string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MIT", "permission is hereby granted free of charge"},
	{"ISC", "permission to use copy modify and/or distribute this software for any purpose"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
}

const (
	bsd         = "redistribution and use in source and binary forms"
	bsdThirdOne = "to endorse or promote products derived from this software" // without permission
)

// recognise returns the licences in a text, by their SPDX ids.
func recognise(body string) (ids []string) {
	plain := strings.NewReplacer(",", "", "*", "", "#", "").Replace(strings.ToLower(body))
	plain = strings.Join(strings.Fields(plain), " ")
	for _, p := range phrases {
		if strings.Contains(plain, p.says) {
			ids = append(ids, p.id)
		}
	}
	switch {
	case !strings.Contains(plain, bsd):
	case strings.Contains(plain, bsdThirdOne):
		ids = append(ids, "BSD-3-Clause")
	default:
		ids = append(ids, "BSD-2-Clause")
	}
	return ids
}

// notices returns the licences of the libraries in a program, which have to be passed on with it.
func notices(program string, modules []module) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is licensed under the Apache License 2.0, see LICENSE. It contains the following libraries.\n", program)
	for _, m := range modules {
		if !slices.Contains(m.programs, program) {
			continue
		}
		for _, t := range m.texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n%[1]s\n\n%s\n", strings.Repeat("=", 80), m.path, m.version, t.name, strings.TrimSpace(t.body))
		}
	}
	return []byte(b.String())
}
