package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// targets are the platforms that the tests build for, as --targets takes them; empty for none.
var targets = os.Getenv("MUNIMENT_TEST_RELEASE")

// TestReproducible builds the last commit twice, in two folders without git, the second time with
// another home, module folder and time zone, other settings of Go, and an empty cache. All files
// are the same, byte for byte, and hold what they should.
func TestReproducible(t *testing.T) {
	if targets == "" {
		t.Skip("compiles everything: make release-test")
	}
	revision, version := git(t, "rev-parse", "HEAD"), newestVersion(t)
	first := build(t, filepath.Join(t.TempDir(), "a"))
	modules, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	linked := filepath.Join(t.TempDir(), "modules")
	require.NoError(t, os.Symlink(strings.TrimSpace(string(modules)), linked))
	second := build(t, filepath.Join(t.TempDir(), "another", "folder, with a longer name"),
		"GOCACHE="+t.TempDir(), "GOMODCACHE="+linked, "HOME="+t.TempDir(), "TZ=Pacific/Chatham", "LC_ALL=C", "GOFLAGS=-ldflags=-X=main.version=other", "GOAMD64=v3")

	files := contents(t, first)
	require.Len(t, files, 2*len(strings.Split(targets, ","))+2+4, "programs, their bill, checksums, and the clients")
	requirePackages(t, strings.TrimPrefix(version, "v"), files)
	again := contents(t, second)
	require.Len(t, again, len(files))
	for name, text := range files {
		require.True(t, bytes.Equal(text, again[name]), "%s differs from build to build", name)
	}
	for name := range files {
		require.Equal(t, name != "SHA256SUMS", strings.Contains(string(files["SHA256SUMS"]), "  "+name+"\n"), name)
	}
	if _, err := exec.LookPath("sha256sum"); err == nil {
		check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
		check.Dir = first
		out, err := check.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	for name := range strings.SplitSeq(targets, ",") {
		system, arch, _ := strings.Cut(name, "/")
		of := func(program string) map[string][]byte {
			archived := "_" + version + "_" + system + "_" + arch
			inside := unpack(t, files[program+archived+".tar.gz"])
			for _, each := range []string{"LICENSE", "README.md", "CHANGELOG.md", "THIRD-PARTY.txt"} {
				require.NotEmpty(t, inside[each], "%s of %s", each, program+archived)
			}
			requireStatic(t, target{system, arch}, inside[program])
			return inside
		}
		service, verifier := of("muniment"), of("muniment-verify")
		for unit := range units() {
			require.Equal(t, system == "linux", service[unit] != nil, unit)
		}
		for _, file := range shells {
			require.NotEmpty(t, service[file], file)
		}
		for _, page := range []string{"gateway/integrating.md", "sealer/README.md", "sealer/independent/verify.py", "gateway/adapter/examples/broadsign/pop.json"} {
			require.NotEmpty(t, service[page], page)
			require.Equal(t, service[page], verifier[page], page)
		}
		require.Less(t, len(verifier["muniment-verify"]), 10_000_000)
		for _, function := range []string{"net/http.(*Server).Serve", "net.Listen", "database/sql.Open"} {
			require.NotContains(t, string(verifier["muniment-verify"]), function+"\x00", "a server is linked")
		}
		require.Contains(t, string(verifier["muniment-verify"]), "muniment.example/sealer/verify.Files\x00", "names of functions are no longer found like this")
		if (target{runtime.GOOS, runtime.GOARCH}).String() == name {
			requireRun(t, version, revision, service, verifier)
		}
	}
	requireValidBill(t, filepath.Join(first, "muniment_"+version+".cdx.json"))
}

// git runs git on this checkout.
func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", "../.."}, args...)...).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func newestVersion(t *testing.T) string {
	t.Helper()
	changelog, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	return newestEntry(string(changelog))
}

// build makes a release of the last commit from a copy in dir, and returns the folder that it wrote.
func build(t *testing.T, dir string, env ...string) (out string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	source := filepath.Join(t.TempDir(), "source.tar")
	git(t, "archive", "--output", source, "HEAD")
	text, err := exec.CommandContext(t.Context(), "tar", "-xf", source, "-C", dir).CombinedOutput()
	require.NoError(t, err, string(text))
	out = filepath.Join(t.TempDir(), "out")
	program := filepath.Join(t.TempDir(), "release")
	compile := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./deploy/release")
	compile.Dir = dir
	text, err = compile.CombinedOutput()
	require.NoError(t, err, string(text))
	release := exec.CommandContext(t.Context(), program, "--version", newestVersion(t), "--out", out, "--targets", targets,
		"--revision", git(t, "rev-parse", "HEAD"), "--time", git(t, "log", "-1", "--format=%ct"))
	release.Dir, release.Env = dir, append(os.Environ(), env...)
	printed, err := release.CombinedOutput()
	t.Logf("%s", printed)
	require.NoError(t, err)
	return out
}

// contents reads the files of a folder, by name.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string][]byte{}
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
	}
	return files
}

// unpack reads the files of an archive, by their names below its folder.
func unpack(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(text))
	require.NoError(t, err)
	files := map[string][]byte{}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		if _, name, _ := strings.Cut(h.Name, "/"); h.Typeflag == tar.TypeReg {
			files[name], err = io.ReadAll(in)
			require.NoError(t, err)
		}
	}
}

// requirePackages: what the clients are installed from names version, author and licence, and has what npm
// and Python's own tools put into it.
func requirePackages(t *testing.T, version string, files map[string][]byte) {
	t.Helper()
	var manifest struct {
		Name, Version, Author, License string
		Private                        bool
		Exports                        map[string]struct{ Types, Default string }
	}
	npm := unpack(t, files["muniment-client-"+version+".tgz"])
	require.NoError(t, json.Unmarshal(npm["package.json"], &manifest))
	require.Equal(t, []string{"muniment-client", version, "Muniment authors", "Apache-2.0"}, []string{manifest.Name, manifest.Version, manifest.Author, manifest.License})
	require.False(t, manifest.Private)
	for _, e := range manifest.Exports {
		require.NotEmpty(t, npm[strings.TrimPrefix(e.Types, "./")], e.Types)
		require.NotEmpty(t, npm[strings.TrimPrefix(e.Default, "./")], e.Default)
	}
	source := unpack(t, files["muniment_client-"+version+".tar.gz"])
	for _, name := range []string{"LICENSE", "README.md"} {
		require.NotEmpty(t, npm[name], name)
		require.NotEmpty(t, source[name], name)
	}
	module := unpack(t, files["muniment-go_v"+version+".tar.gz"])
	require.Equal(t, "v"+version+"\n", string(module["muniment.example/@v/list"]))
	for _, kind := range []string{".info", ".mod", ".zip"} {
		require.NotEmpty(t, module["muniment.example/@v/v"+version+kind], kind)
	}

	// The wheel that setuptools makes of the source distribution has the same metadata, and the same code.
	dir := t.TempDir()
	archived := filepath.Join(dir, "muniment_client-"+version+".tar.gz")
	require.NoError(t, os.WriteFile(archived, files[filepath.Base(archived)], 0o600))
	out, err := exec.CommandContext(t.Context(), os.Getenv("MUNIMENT_TEST_PYTHON"), "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", dir, archived).CombinedOutput()
	require.NoError(t, err, string(out))
	name := "muniment_client-" + version + "-py3-none-any.whl"
	theirs, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	ours, want := unzip(t, files[name]), unzip(t, theirs)
	for file, text := range want {
		if base := filepath.Base(file); base != "RECORD" && base != "WHEEL" {
			require.Equal(t, string(text), string(ours[file]), file)
		}
	}
	require.Len(t, ours, len(want))
}

// unzip reads the files of a zip archive.
func unzip(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	files := map[string][]byte{}
	for _, f := range r.File {
		in, err := f.Open()
		require.NoError(t, err)
		files[f.Name], err = io.ReadAll(in)
		require.NoError(t, errors.Join(err, in.Close()))
	}
	return files
}

// requireStatic: a program is one of its platform, and of Linux's needs no library of the machine.
// macOS has no static programs: there libSystem is all that one needs.
func requireStatic(t *testing.T, on target, program []byte) {
	t.Helper()
	if on.os == "darwin" {
		f, err := macho.NewFile(bytes.NewReader(program))
		require.NoError(t, err)
		require.Equal(t, map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[on.arch], f.Cpu)
		libraries, err := f.ImportedLibraries()
		require.NoError(t, err)
		for _, l := range libraries {
			require.Regexp(t, `^/usr/lib/lib(System\.B|resolv\.9)\.dylib$|^/System/Library/Frameworks/(CoreFoundation|Security)\.framework/`, l)
		}
		return
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	require.NoError(t, err)
	require.Equal(t, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[on.arch], f.Machine)
	for _, p := range f.Progs {
		require.NotContains(t, []elf.ProgType{elf.PT_INTERP, elf.PT_DYNAMIC}, p.Type, "it is linked dynamically")
	}
}

// requireRun runs the programs of this machine.
func requireRun(t *testing.T, version, revision string, service, verifier map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	muniment, verify := filepath.Join(dir, "muniment"), filepath.Join(dir, "muniment-verify")
	require.NoError(t, os.WriteFile(muniment, service["muniment"], 0o755))
	require.NoError(t, os.WriteFile(verify, verifier["muniment-verify"], 0o755))
	for program, args := range map[string][]string{muniment: {"version"}, verify: {"--version"}} {
		out, err := exec.CommandContext(t.Context(), program, args...).Output()
		require.NoError(t, err)
		require.Equal(t, filepath.Base(program)+" "+version+" (revision "+revision+", "+runtime.Version()+")\n", string(out))
	}
	requireAgreement(t, muniment, verify)
}

// requireValidBill has a validator that isn't ours hold the bill of materials against the schema
// that CycloneDX publishes.
func requireValidBill(t *testing.T, file string) {
	t.Helper()
	python := os.Getenv("MUNIMENT_TEST_PYTHON")
	require.NotEmpty(t, python, "make release-test says which Python has the validator")
	const validate = `
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1], encoding="utf-8").read())
sys.exit(error and f"it is invalid: {error.data.message}")`
	run := func(file string) (string, error) {
		out, err := exec.CommandContext(t.Context(), python, "-c", validate, file).CombinedOutput()
		return string(out), err
	}
	out, err := run(file)
	require.NoError(t, err, out)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	wrong := filepath.Join(t.TempDir(), "wrong.cdx.json")
	require.NoError(t, os.WriteFile(wrong, bytes.Replace(text, []byte(`"library"`), []byte(`"bookshop"`), 1), 0o600))
	out, err = run(wrong)
	require.Error(t, err)
	require.Contains(t, out, "it is invalid", "the validator finds nothing")
}
