package main

import (
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"muniment.example/sealer/verify"
)

// program is one that is released.
type program struct {
	name, dir string
	// ofLinux are further files in its archives for Linux, by their names there.
	ofLinux map[string]string
	// completed is true if it prints completion for shells.
	completed bool
	// flags are further ones of go build.
	flags []string
	// limit is the size in bytes that it must stay below; 0 is any.
	limit int64
}

var programs = []program{
	{name: "muniment", dir: ".", completed: true, ofLinux: units()},
	// The library that reads Parquet brings protocol buffers, which nothing here uses: without
	// inlining they take 0.15 MB less.
	{name: "muniment-verify", dir: "./sealer/verify/muniment-verify", flags: []string{"-gcflags=google.golang.org/protobuf/...=-l"}, limit: 10_000_000},
}

// units are those of systemd: of all in one process, and of separate ones.
func units() map[string]string {
	all := map[string]string{}
	for _, name := range []string{"muniment", "muniment-control", "muniment-gateway", "muniment-migrate", "muniment-pipeline"} {
		all["systemd/"+name+".service"] = "deploy/systemd/" + name + ".service"
	}
	return all
}

// shells are those with completion, with the names of their files in an archive.
var shells = map[string]string{"bash": "completion/muniment.bash", "zsh": "completion/_muniment", "fish": "completion/muniment.fish"}

// release makes all files of a release in c.out.
func (c *config) release() error {
	began := time.Now()
	changelog, err := os.ReadFile("deploy/CHANGELOG.md")
	if err != nil {
		return err
	}
	if newest := newestEntry(string(changelog)); newest != c.version {
		return fmt.Errorf("the newest entry of deploy/CHANGELOG.md is of %s, not %s", newest, c.version)
	}
	if err := makeEmpty(c.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "muniment-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := c.makeClients(work); err != nil {
		return err
	}
	if c.programs {
		if err := c.makePrograms(work); err != nil {
			return err
		}
	}
	if err := writeSums(c.out); err != nil {
		return err
	}
	if c.signer != nil {
		if err := signSums(c.out, c.signer); err != nil {
			return err
		}
	}
	c.progress("%s: done in %v", c.out, time.Since(began).Round(time.Second))
	return nil
}

// makePrograms makes the archives of all programs, and their bill of materials.
func (c *config) makePrograms(work string) error {
	c.progress("muniment %s of %s, for %d platforms; building takes some minutes for each", c.version, c.revision, len(c.targets))
	if _, err := output("go", "run", "./control/verifier/program"); err != nil { // muniment embeds it
		return err
	}
	built := map[string][]*buildinfo.BuildInfo{} // of each program
	binary := func(p program, t target) string { return filepath.Join(work, t.os+"_"+t.arch, p.name) }
	for _, t := range c.targets {
		for _, p := range programs {
			info, err := c.build(p, t, binary(p, t))
			if err != nil {
				return err
			}
			built[p.name] = append(built[p.name], info)
		}
	}
	modules, err := modulesOf(built)
	if err != nil {
		return err
	}
	completion, err := c.completions(work)
	if err != nil {
		return err
	}
	for _, t := range c.targets {
		for _, p := range programs {
			if err := c.pack(p, t, binary(p, t), modules, completion); err != nil {
				return err
			}
		}
	}
	bom, err := c.bom(modules)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.out, "muniment_"+c.version+".cdx.json"), bom, 0o644)
}

// makeClients makes what the clients are installed from.
func (c *config) makeClients(work string) error {
	makers := map[string]func(work string) error{"typescript": c.npmPackage, "python": c.pythonPackages, "go": c.goModule}
	for _, language := range c.clients {
		if err := makers[language](work); err != nil {
			return err
		}
	}
	return nil
}

func (c *config) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// makeEmpty makes a folder, and refuses one that holds anything.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty", dir)
	}
	return err
}

// build builds one program for one target.
func (c *config) build(p program, t target, file string) (*buildinfo.BuildInfo, error) {
	began := time.Now()
	args := append([]string{"build", "-trimpath", "-buildvcs=false"}, p.flags...)
	args = append(args, "-ldflags", "-s -w -X main.version="+c.version+" -X main.revision="+c.revision, "-o", file, p.dir)
	cmd := exec.Command("go", args...)
	// Settings of a user, in the environment or by go env -w, would change the bytes. GOEXPERIMENT has
	// no value that stands for the default: checkToolchain refuses any.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-mod=readonly", "GOFIPS140=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build %s for %s: %w\n%s", p.name, t, err, out)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read what is in %s for %s: %w", p.name, t, err)
	}
	size, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if p.limit > 0 && size.Size() >= p.limit {
		return nil, fmt.Errorf("%s for %s has %d bytes, but must have less than %d", p.name, t, size.Size(), p.limit)
	}
	c.progress("  %s for %s: %.2f MB, %v", p.name, t, float64(size.Size())/1e6, time.Since(began).Round(time.Second))
	return info, nil
}

// completions returns the files for shells, by their names in an archive. They are the same for all
// targets: the program for this machine prints them.
func (c *config) completions(work string) (map[string][]byte, error) {
	here := target{runtime.GOOS, runtime.GOARCH}
	file := filepath.Join(work, here.os+"_"+here.arch, "muniment")
	if !slices.Contains(c.targets, here) {
		if _, err := c.build(programs[0], here, file); err != nil {
			return nil, err
		}
	}
	files := map[string][]byte{}
	for shell, name := range shells {
		text, err := exec.Command(file, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("cannot make the completion for %s: %w", shell, err)
		}
		files[name] = text
	}
	return files, nil
}

// pack writes the archive of one program for one target.
func (c *config) pack(p program, t target, binary string, modules []module, completion map[string][]byte) error {
	files, err := pages(".")
	if err != nil {
		return err
	}
	files["THIRD-PARTY.txt"] = notices(p.name, modules)
	sources := map[string]string{p.name: binary, "LICENSE": "LICENSE", "CHANGELOG.md": "deploy/CHANGELOG.md"}
	if t.os == "linux" {
		for name, source := range p.ofLinux {
			sources[name] = source
		}
	}
	if p.completed {
		for name, text := range completion {
			files[name] = text
		}
	}
	for name, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		files[name] = text
	}
	name := fmt.Sprintf("%s_%s_%s_%s", p.name, c.version, t.os, t.arch)
	file, err := os.Create(filepath.Join(c.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	err = errors.Join(archive(file, gzip.BestCompression, name, p.name, c.at, files), file.Close())
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", file.Name(), err)
	}
	c.progress("  %s", filepath.Base(file.Name()))
	return nil
}

// writeSums writes SHA256SUMS of all files in a folder, in the form of sha256sum.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, verify.ReleaseSums), []byte(sums.String()), 0o644)
}
