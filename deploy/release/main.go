// Command release makes the files of a release, from a clean checkout:
//
//   - muniment_VERSION_OS_ARCH.tar.gz: the program, with LICENSE, CHANGELOG, the pages and what
//     they name, by their paths in a checkout, the licences of the libraries in it, completion for shells and, for Linux, the units of systemd;
//   - muniment-verify_VERSION_OS_ARCH.tar.gz: the auditor's program, with all but the last two;
//   - muniment_VERSION.cdx.json: what is linked into both, a CycloneDX document;
//   - muniment-client-VERSION.tgz: the client for TypeScript, as npm installs it;
//   - muniment_client-VERSION-py3-none-any.whl and .tar.gz: the client for Python, as pip does;
//   - muniment-go_VERSION.tar.gz: the Go module and what its client needs, as a module proxy has them;
//   - SHA256SUMS of all of them and, with --sign-key, SHA256SUMS.note, which is signed.
//
// The clients have the release's version: in the checkout theirs is 0.0.0.
//
// --make-key makes a key that signs, --check holds a folder against its signed checksums.
//
// The same commit, version and Go toolchain make the same bytes, in any folder and on any machine:
// nothing in them depends on the clock, the folder or the user. All times are that of the commit.
// Without git, --revision and --time replace what git says.
//
// It makes nothing with another toolchain than that of go.mod, or of a version that is not the
// changelog's newest.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer/verify"
)

// config says what to release.
type config struct {
	version  string // a tag, v1.2.3
	revision string // the commit
	at       time.Time
	targets  []target
	out      string      // a folder that is missing or empty
	signer   note.Signer // nil: nothing is signed
	clients  []string    // of which languages clients are made
	programs bool        // whether programs are made

}

// target is a platform to build for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

const allClients = "typescript,python,go"

const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

func main() {
	if done, err := onKeys(os.Args[1:]); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, "release:", err)
			os.Exit(1)
		}
		return
	}
	c, err := parse(os.Args[1:])
	if err == nil && c.revision == "" {
		err = c.readGit()
	}
	if err == nil {
		err = checkToolchain()
	}
	if err == nil {
		err = c.release()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// tag is the form of a version.
var tag = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// parse reads the command line.
func parse(args []string) (c config, err error) {
	set := flag.NewFlagSet("release", flag.ExitOnError)
	set.StringVar(&c.version, "version", "", "the version, as `v1.2.3`: the newest entry of deploy/CHANGELOG.md")
	set.StringVar(&c.out, "out", "", "the `folder` to write, missing or empty; default bin/release/VERSION")
	set.StringVar(&c.revision, "revision", "", "the `commit`, with --time; default: git's, whose checkout must be clean")
	seconds := set.Int64("time", 0, "when it was committed, in `seconds` since 1970")
	targets := set.String("targets", allTargets, "what to build for, as `OS/ARCH,...`")
	key := set.String("sign-key", "", "the `file` of the key that signs the checksums, as --make-key makes it")
	only := set.String("clients", "", "make nothing but checksums and what the clients of these `LANGUAGE,...` are installed from: "+allClients)
	_ = set.Parse(args) // it exits on an error
	if *key != "" {
		if c.signer, err = readSigner(*key); err != nil {
			return c, err
		}
	}
	if !tag.MatchString(c.version) || set.NArg() > 0 {
		return c, fmt.Errorf("usage: make release VERSION=v1.2.3; %q is no version", c.version)
	}
	if (c.revision == "") != (*seconds == 0) {
		return c, errors.New("--revision and --time are given together, or neither")
	}
	c.at = time.Unix(*seconds, 0).UTC()
	if c.out == "" {
		c.out = filepath.Join("bin", "release", c.version)
	}
	c.programs = *only == ""
	c.clients = strings.Split(cmp.Or(*only, allClients), ",")
	for _, name := range c.clients {
		if !slices.Contains(strings.Split(allClients, ","), name) {
			return c, fmt.Errorf("--clients: %q is none of %s", name, allClients)
		}
	}
	for name := range strings.SplitSeq(*targets, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok {
			return c, fmt.Errorf("--targets: %q is not OS/ARCH", name)
		}
		c.targets = append(c.targets, target{system, arch})
	}
	return c, nil
}

// onKeys does what --make-key FILE NAME and --check FOLDER VKEY ask for; false if neither is there.
func onKeys(args []string) (done bool, err error) {
	if len(args) == 0 || args[0] != "--make-key" && args[0] != "--check" {
		return false, nil
	}
	if len(args) != 3 {
		return true, errors.New("usage: release --make-key FILE NAME, or release --check FOLDER VKEY")
	}
	if args[0] == "--make-key" {
		return true, makeKey(args[1], args[2])
	}
	files, err := verify.Release(args[1], args[2])
	if err == nil {
		fmt.Printf("%s: all of %d files are as they were signed\n", args[1], files)
	}
	return true, err
}

// readGit fills in commit and time. The checkout must be clean, and a tag of this version must be
// of this commit: anyone can check out what is released.
func (c *config) readGit() error {
	changes, err := output("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the checkout has changes that are in no commit:\n%s", changes)
	}
	if c.revision, err = output("git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	text, err := output("git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("cannot read the time of the commit: %w", err)
	}
	c.at = time.Unix(seconds, 0).UTC()
	if tagged, err := output("git", "rev-parse", "--verify", "--quiet", "refs/tags/"+c.version+"^{commit}"); err == nil && tagged != c.revision {
		return fmt.Errorf("the tag %s is of %s, but %s is checked out", c.version, tagged, c.revision)
	}
	return nil
}

// checkToolchain refuses a Go toolchain other than that of go.mod, and experiments: they would make
// other bytes.
func checkToolchain() error {
	version, err := output("go", "list", "-m", "-f", "{{.GoVersion}}")
	if err != nil {
		return err
	}
	if runtime.Version() != "go"+version {
		return fmt.Errorf("this is %s, but go.mod names Go %s: GOTOOLCHAIN=go%[2]s selects it", runtime.Version(), version)
	}
	experiments, err := output("go", "env", "GOEXPERIMENT")
	if err == nil && experiments != "" {
		err = fmt.Errorf("GOEXPERIMENT is %s: unset it", experiments)
	}
	return err
}

// output runs a command in the current folder and returns what it prints.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// newestEntry returns the version of the newest entry of a changelog.
func newestEntry(changelog string) string {
	m := regexp.MustCompile(`(?m)^## (\S+)`).FindStringSubmatch(changelog)
	if m == nil {
		return ""
	}
	return m[1]
}
