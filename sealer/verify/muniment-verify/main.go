// Command muniment-verify is muniment verify as a program of its own, for auditors: it verifies
// receipts, proof packs and chains of packs, offline. It has the same options, output and exit
// statuses, and nothing of the service in it: no server, no database, no log.
//
// Its options are read by the standard library's package flag; the rules around it are those of
// muniment: options and files in any order, -- before a file whose name begins with a dash, a value
// that begins with a dash only behind =.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"muniment.example/sealer/rate"
	"muniment.example/sealer/terminal"
	"muniment.example/sealer/verify"
)

// version and revision are set by the linker (-X main.version=v1.2.0 -X main.revision=COMMIT).
var version, revision string

const usage = `Usage: muniment-verify <file> ... [flags]

Verify receipts, proof packs and chains of packs, offline.

Arguments:
  <file> ...    Receipts, packs or chains of packs (oldest first); or
                SHA256SUMS.note alone, in the folder of a release.

Flags:
  -h, --help                      Show this help.
      --version                   Print the version of this program.
      --root=KEY                  The trust anchor: a root key (C2SP vkey), or a
                                  file that holds one. Of a release: its key.
      --keys=FILE                 A weaker anchor: a key directory, or the
                                  response of the sandbox's runtime-keys, that is
                                  trusted as it is. At most one.
      --json                      Print one JSON object.
      --bound=90s                 Longest delay between a stop and the last
                                  honest receipt: the service's --bound, and a
                                  minute for clock differences.
      --no-sandbox                Refuse what is signed by a key of the sandbox:
                                  anyone can make such evidence.
      --one-by-one                Check each signature by itself, by the standard
                                  library alone. The verdicts are the same.
      --expect-checkpoint=FILE    A checkpoint that was kept elsewhere, or
                                  anything that holds one: the files must prove
                                  that its log has only grown since. At most one.

Exit status: 0 if everything is sound, 1 if something is not, 2 if something
can't be judged: a key, a file or an anchor is missing, or the command line is
wrong.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args)
	switch {
	case err != nil:
		terminal.Fprintf(stderr, "muniment-verify: error: %v\n", err)
		return verify.ExitUnjudged
	case c.help:
		fmt.Fprint(stdout, usage)
		return verify.ExitSound
	case c.version:
		info, _ := debug.ReadBuildInfo()
		fmt.Fprintln(stdout, "muniment-verify", versionOf(version, revision, info))
		return verify.ExitSound
	}
	return verify.Files(ctx, c.Options, stdout)
}

// command is a parsed command line.
type command struct {
	verify.Options
	help, version bool
}

// once is the value of an option that is refused when it is given twice, or empty: see once in
// muniment.
type once struct{ to *string }

func (o once) String() string { return "" }

func (o once) Set(value string) error {
	switch {
	case *o.to != "":
		return errors.New("it is given twice, but must be given once")
	case value == "":
		return errors.New("it is empty")
	}
	*o.to = value
	return nil
}

// parse reads a command line.
func parse(args []string) (c command, err error) {
	c.Rating = rate.Rating
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Var(once{&c.Root}, "root", "")
	set.Var(once{&c.Keys}, "keys", "")
	set.Var(once{&c.Expect}, "expect-checkpoint", "")
	set.DurationVar(&c.Bound, "bound", verify.DefaultBound, "")
	set.BoolVar(&c.JSON, "json", false, "")
	set.BoolVar(&c.NoSandbox, "no-sandbox", false, "")
	set.BoolVar(&c.OneByOne, "one-by-one", false, "")
	set.BoolVar(&c.version, "version", false, "")
	set.BoolVar(&c.help, "help", false, "")

	options, files, err := separate(set, args)
	if err != nil {
		return c, err
	}
	c.Files = files
	if err := set.Parse(options); err != nil {
		return c, err
	}
	switch {
	case c.help || c.version:
	case len(files) == 0:
		err = errors.New(`expected "<file> ..."`)
	case c.Bound <= 0:
		err = errors.New("--bound must be greater than 0")
	}
	return c, err
}

// separate splits the arguments into options and files. It puts an option and its value into one
// argument, because package flag takes any argument for the value, also the next option.
func separate(set *flag.FlagSet, args []string) (options, files []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, isOption := strings.CutPrefix(arg, "--")
		name, _, valued := strings.Cut(name, "=")
		switch known := set.Lookup(name); {
		case arg == "--":
			return options, append(files, args...), nil
		case arg == "-h":
			options = append(options, "--help")
		case !isOption && (arg == "-" || !strings.HasPrefix(arg, "-")):
			files = append(files, arg)
		case !isOption || known == nil:
			return nil, nil, fmt.Errorf("unknown flag %s", strings.SplitN(arg, "=", 2)[0])
		case valued || takesNone(known):
			options = append(options, arg)
		case len(args) == 0 || strings.HasPrefix(args[0], "-"):
			return nil, nil, fmt.Errorf("--%s: it has no value (one that begins with a dash is written --%s=VALUE)", name, name)
		default:
			options = append(options, arg+"="+args[0])
			args = args[1:]
		}
	}
	return options, files, nil
}

// takesNone reports whether an option is true without a value.
func takesNone(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// versionOf returns what the linker was given, or else what the Go toolchain knows; info may be nil.
func versionOf(version, revision string, info *debug.BuildInfo) string {
	if info == nil {
		info = new(debug.BuildInfo)
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = cmp.Or(revision, s.Value)
		}
	}
	version = cmp.Or(version, strings.Trim(info.Main.Version, "()"), "devel")
	return fmt.Sprintf("%s (revision %s, %s)", version, cmp.Or(revision, "unknown"), info.GoVersion)
}
