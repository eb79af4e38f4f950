package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/verify"
)

// TestArchive: the same files make the same bytes, which say nothing about who made them.
func TestArchive(t *testing.T) {
	at := time.Unix(1795000000, 0)
	files := map[string][]byte{"muniment": []byte("program"), "LICENSE": []byte("text"), "completion/muniment.bash": []byte("script"), "completion/_muniment": nil}
	var first, second bytes.Buffer
	require.NoError(t, archive(&first, gzip.BestCompression, "muniment_v1.2.3", "muniment", at, files))
	require.NoError(t, archive(&second, gzip.BestCompression, "muniment_v1.2.3", "muniment", at, files))
	require.Equal(t, first.Bytes(), second.Bytes())

	z, err := gzip.NewReader(&first)
	require.NoError(t, err)
	require.Empty(t, z.Name)
	require.True(t, z.ModTime.IsZero())
	var names []string
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		names = append(names, h.Name)
		require.True(t, h.ModTime.Equal(at))
		require.Zero(t, h.Uid+h.Gid)
		require.Empty(t, h.Uname+h.Gname)
		want := int64(0o644)
		if h.Typeflag == tar.TypeDir || h.Name == "muniment_v1.2.3/muniment" {
			want = 0o755
		}
		require.Equal(t, want, h.Mode, h.Name)
	}
	require.Equal(t, []string{"muniment_v1.2.3/", "muniment_v1.2.3/LICENSE", "muniment_v1.2.3/completion/", "muniment_v1.2.3/completion/_muniment",
		"muniment_v1.2.3/completion/muniment.bash", "muniment_v1.2.3/muniment"}, names)
}

func TestRecognise(t *testing.T) {
	const bsdText = "Redistribution and use in source and binary\nforms, with or without modification, are permitted"
	for _, c := range []struct {
		body string
		want []string
	}{
		{"   Apache License\n   Version 2.0, January 2004", []string{"Apache-2.0"}},
		{"Mozilla Public License Version 2.0", []string{"MPL-2.0"}},
		{"Mozilla Public License, version 2.0", []string{"MPL-2.0"}},
		{"Permission is hereby granted, free of charge, to any person", []string{"MIT"}},
		{"Permission to use, copy, modify, and/or distribute this software for any purpose", []string{"ISC"}},
		{bsdText, []string{"BSD-2-Clause"}},
		{bsdText + " … to endorse or promote products derived\n * from this software", []string{"BSD-3-Clause"}},
		{"Permission is hereby granted, free of charge\n" + bsdText, []string{"MIT", "BSD-2-Clause"}},
		{"All rights reserved.", nil},
	} {
		require.Equal(t, c.want, recognise(c.body), c.body)
	}
}

func TestVersionIsATag(t *testing.T) {
	for version, ok := range map[string]bool{"v0.1.0": true, "v1.20.3-rc.1": true, "0.1.0": false, "v1.2": false, "v01.2.3": false, "": false, "v1.2.3 ": false, "v1.2.3/x": false} {
		require.Equal(t, ok, tag.MatchString(version), version)
	}
	require.Equal(t, "v1.2.3", newestEntry("# Changelog\n\n## v1.2.3\n\ntext\n\n## v1.2.2\n"))
	require.Empty(t, newestEntry("# Changelog\n"))
}

// TestLinkedModulesAreKnown: the bill of materials has licence and hash of each library, and the
// archives have the texts of the licences.
func TestLinkedModulesAreKnown(t *testing.T) {
	var list []module
	for _, p := range programs {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Sum}}{{end}}{{end}}", p.dir)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		require.NoError(t, err)
		seen := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 3 && !seen[f[0]] {
				seen[f[0]] = true
				list = append(list, module{path: f[0], version: f[1], sum: f[2], programs: []string{p.name}})
			}
		}
		require.True(t, seen["github.com/klauspost/compress"])
	}
	list = append(list, module{path: std, version: "1.26.8", programs: []string{"muniment", "muniment-verify"}})
	require.NoError(t, readLicences(list))
	for _, m := range list {
		require.NotEmpty(t, m.licences, "%s: which licence has it?", m.path)
		require.NotEmpty(t, m.texts, m.path)
	}
	c := config{version: "v1.2.3", revision: "c9f006e", at: time.Unix(1795000000, 0).UTC()}
	text, err := c.bom(list)
	require.NoError(t, err)
	var d document
	require.NoError(t, json.Unmarshal(text, &d))
	require.Len(t, d.Components, len(list)+len(programs)-1)
	refs := map[string]bool{}
	for _, part := range d.Components {
		refs[part.Ref] = true
		require.True(t, part.Type == "application" || part.Name == std || len(part.Hashes) == 1, part.Name)
	}
	for _, dependency := range d.Dependencies {
		for _, ref := range dependency.DependsOn {
			require.True(t, refs[ref], ref)
		}
	}
	ofVerifier := string(notices("muniment-verify", list))
	require.Contains(t, ofVerifier, "github.com/klauspost/compress")
	require.NotContains(t, ofVerifier, "modernc.org/sqlite")
}

// TestCheckToolchain: an experiment of Go's would be in the programs.
func TestCheckToolchain(t *testing.T) {
	t.Setenv("GOEXPERIMENT", "nogreenteagc")
	require.Error(t, checkToolchain())
}

// TestSignedSums: what was signed is found whole, and any change is found: of a file, of the checksums, of
// the signature, of which files there are, and another key.
func TestSignedSums(t *testing.T) {
	dir, keys := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600)) }
	require.NoError(t, makeKey(filepath.Join(keys, "key"), "muniment.example/release"))
	require.ErrorIs(t, makeKey(filepath.Join(keys, "key"), "muniment.example/release"), os.ErrExist, "a key is never written over")
	require.NoError(t, makeKey(filepath.Join(keys, "other"), "muniment.example/release"))
	signer, err := readSigner(filepath.Join(keys, "key"))
	require.NoError(t, err)
	vkey, err := os.ReadFile(filepath.Join(keys, "key.vkey"))
	require.NoError(t, err)
	other, err := os.ReadFile(filepath.Join(keys, "other.vkey"))
	require.NoError(t, err)
	_, err = readSigner(filepath.Join(keys, "key.vkey"))
	require.ErrorContains(t, err, "holds no key")

	write("a.tar.gz", "a")
	write("b.tgz", "b")
	require.NoError(t, writeSums(dir))
	require.NoError(t, signSums(dir, signer))
	n, err := verify.Release(dir, string(vkey))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = verify.Release(dir, string(other))
	require.ErrorContains(t, err, "is not signed by")

	change := func(says, name, text string) {
		t.Helper()
		before, missing := os.ReadFile(at(name))
		write(name, text)
		_, err := verify.Release(dir, string(vkey))
		require.ErrorContains(t, err, says)
		if missing != nil {
			require.NoError(t, os.Remove(at(name)))
			return
		}
		write(name, string(before))
	}
	signed, err := os.ReadFile(at(verify.SignedReleaseSums))
	require.NoError(t, err)
	change("a.tar.gz is not what was signed", "a.tar.gz", "b")
	change("c.tgz is not a file of this release", "c.tgz", "c")
	change("SHA256SUMS is not what was signed", verify.ReleaseSums, "")
	change("SHA256SUMS.note is not what the key muniment.example/release+", verify.SignedReleaseSums, strings.Replace(string(signed), "a.tar.gz", "x.tar.gz", 1))
	require.NoError(t, os.Remove(at("b.tgz")))
	_, err = verify.Release(dir, string(vkey))
	require.ErrorContains(t, err, "b.tgz is missing")

	// The auditor's program says so, too.
	judge := func(key string, args ...string) (int, string) {
		var said bytes.Buffer
		status := verify.Files(t.Context(), verify.Options{Root: key, Files: []string{at(verify.SignedReleaseSums)}, JSON: len(args) > 0}, &said)
		return status, said.String()
	}
	status, said := judge(filepath.Join(keys, "key.vkey"))
	require.Equal(t, verify.ExitUnsound, status)
	require.Contains(t, said, "b.tgz is missing\n\nNOT SOUND: ")
	write("b.tgz", "b")
	status, said = judge(string(vkey), "json")
	require.Equal(t, verify.ExitSound, status)
	require.Contains(t, said, "all of 2 files are as they were signed")
	require.Contains(t, said, `"kind": "release"`)
	for _, nothing := range []string{"", filepath.Join(keys, "key"), dir} {
		status, said = judge(nothing)
		require.Equal(t, verify.ExitUnjudged, status, nothing)
		require.Contains(t, said, "CAN'T BE JUDGED")
	}
}

// TestStrangersCheckSums: the commands of the page find a release sound, and whatever was changed.
func TestStrangersCheckSums(t *testing.T) {
	for _, tool := range []string{"openssl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("there is no " + tool)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", ".github", "SECURITY.md"))
	require.NoError(t, err)
	commands := regexp.MustCompile("(?s)<!-- a test runs these commands in the folder of a release -->\n```sh\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, commands)
	keys := t.TempDir()
	dir := filepath.Join(keys, "v0.1.0")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.tgz"), []byte("a"), 0o600))
	require.NoError(t, makeKey(filepath.Join(keys, "release"), "muniment.example/release"))
	require.NoError(t, makeKey(filepath.Join(keys, "other"), "muniment.example/release"))
	signer, err := readSigner(filepath.Join(keys, "release"))
	require.NoError(t, err)
	require.NoError(t, writeSums(dir))
	require.NoError(t, signSums(dir, signer))
	run := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", string(commands[1]))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run()
	require.NoError(t, err, out)
	require.Contains(t, out, "Signature Verified Successfully")
	for _, changed := range []string{filepath.Join(dir, "a.tgz"), filepath.Join(dir, verify.ReleaseSums), filepath.Join(keys, "release.vkey")} {
		before, err := os.ReadFile(changed)
		require.NoError(t, err)
		other, err := os.ReadFile(filepath.Join(keys, "other.vkey"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(changed, other, 0o600))
		out, err := run()
		require.Error(t, err, "%s: %s", changed, out)
		require.NoError(t, os.WriteFile(changed, before, 0o600))
	}
}

// fileOfOurs is a word of a command that may be a path of the checkout.
var fileOfOurs = regexp.MustCompile(`[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+`)

// TestPages: who has a release and no checkout has every file that its pages lead to or that their commands name.
// Pages for contributors, and commands of Go, are for who has a checkout.
func TestPages(t *testing.T) {
	root := filepath.Join("..", "..")
	all, err := pages(root)
	require.NoError(t, err)
	has := func(name string) bool {
		for file := range all {
			if file == name || strings.HasPrefix(file, name+"/") {
				return true
			}
		}
		return false
	}
	commands, ours, size := regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$"), 0, 0
	for page, text := range all {
		size += len(text)
		if !strings.HasSuffix(page, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			require.True(t, has(path.Join(path.Dir(page), m[1])), "%s links to %s", page, m[1])
		}
		if strings.HasPrefix(page, ".ci/") || strings.HasPrefix(page, "bench/") {
			continue
		}
		for _, block := range commands.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				if strings.HasPrefix(line, "go ") {
					continue
				}
				for _, word := range fileOfOurs.FindAllString(line, -1) {
					for _, name := range []string{path.Clean(word), path.Join(path.Dir(page), word)} {
						if _, err := os.Stat(filepath.Join(root, name)); err == nil && !strings.HasPrefix(name, "bin/") {
							ours++
							require.True(t, has(name), "%s: no reader of a release has %s of %s", page, name, line)
						}
					}
				}
			}
		}
	}
	require.Greater(t, ours, 3)
	require.Less(t, size, 2<<20, "what an archive is larger by, before it is compressed")
}

// TestVersionsOfClients: a tag as the registries write it.
func TestVersionsOfClients(t *testing.T) {
	for tag, want := range map[string]string{"v0.1.0": "0.1.0", "v1.20.3-rc.1": "1.20.3rc1", "v1.0.0-alpha.12": "1.0.0a12", "v1.0.0-beta.2": "1.0.0b2", "v1.0.0-preview": ""} {
		got, err := pythonVersion(tag)
		require.Equal(t, want, got, tag)
		require.Equal(t, want == "", err != nil, tag)
	}
}
