// Command muniment is the evidence ledger for governed delivery: see README.md.
//
// The files of this folder hold the commands with their flags, and what a process opens in
// which order; a file for each of the larger commands. What a command does lives in the package
// that it concerns.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"muniment.example/control/access"
	"muniment.example/control/node"
	"muniment.example/control/operator"
	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/settle"
	"muniment.example/control/signing"
	"muniment.example/control/tenant"
	"muniment.example/deploy/adminapi"
	"muniment.example/deploy/commandline"
	"muniment.example/deploy/process"
	"muniment.example/sealer/terminal"
	"muniment.example/sealer/verify"
)

// commands is the command line; commandline.Variables says which flags the environment gives, too.
type commands struct {
	Up       upCmd       `cmd:"" variables:"all" help:"Run everything in one process, on one data folder."`
	Control  controlCmd  `cmd:"" variables:"all" help:"Run one of the control processes of a service on more than one machine."`
	Gateway  gatewayCmd  `cmd:"" variables:"all" help:"Run an edge node of a service on more than one machine."`
	Pipeline pipelineCmd `cmd:"" variables:"all" help:"Load the event log into the warehouse: any number of processes share the work."`
	Migrate  migrateCmd  `cmd:"" variables:"all" help:"Create or migrate the topic and the tables of a service on more than one machine."`
	Tenant   struct {
		running
		tenant.TenantCommands
	} `cmd:"" help:"Administer the tenants of a running server."`
	Key struct {
		running
		tenant.Commands
	} `cmd:"" help:"Administer the API keys of a running server."`
	SigningKey struct {
		running
		signing.Commands
	} `cmd:"" help:"Administer the keys that a running server signs with."`
	Node struct {
		running
		node.Commands
	} `cmd:"" help:"Let edge nodes join a running service, or remove them."`
	Sandbox struct {
		running
		sandbox.Commands
	} `cmd:"" help:"Administer the sandbox of a running server."`
	Access struct {
		running
		access.Commands
	} `cmd:"" help:"Decide on applications for keys of the sandbox of a running server."`
	Console struct {
		running
		operator.Command
	} `cmd:"" help:"Print a link that opens the operators' page of a running server: nodes, lag, drift, quarantine, refusals, applications."`
	Quarantine struct {
		running
		proof.QuarantineCommands
	} `cmd:"" help:"List quarantined records, which can't be verified and hold sealing, and release them."`
	Root       signing.RootCommands   `cmd:"" help:"Create a root key and delegate with it; offline."`
	Backup     backupCmd              `cmd:"" help:"Copy a data folder as of one point in time; its server may run."`
	Restore    restoreCmd             `cmd:"" help:"Make a data folder from a backup, once all of it is verified."`
	Ingest     ingestCmd              `cmd:"" help:"Upload files of plays, in batches; an interrupted upload can be continued."`
	Export     exportCmd              `cmd:"" help:"Write what analysts read of one tenant to Parquet or SQLite; an interrupted export can be continued."`
	Verify     verifyCmd              `cmd:"" help:"Verify receipts, proof packs and chains of packs, offline."`
	Version    versionCmd             `cmd:"" help:"Print the version of this program."`
	Completion commandline.Completion `cmd:"" help:"Print completion for a shell: source <(muniment completion bash)."`
	Complete   commandline.Complete   `cmd:"" hidden:"" help:"Complete a command line, for the scripts of completion."`
	Demo       demoCmd                `cmd:"" variables:"engines" help:"Deliver, kill, seal and verify against a throw-away data folder."`

	ShowVersion kong.VersionFlag `name:"version" env:"-" help:"Print the version of this program."`
}

// version is set by the linker (-X main.version=v1.2.0): the Makefile does so if git describes
// a tag. Else the version is what the Go toolchain has put into the binary. A release is built
// without git: its revision is set in the same way.
var version, revision string

func thisBuild() process.Build { return process.ThisBuild(version, revision) }

// exitUsage is the status of a command line that can't be run as it stands.
const exitUsage = 2

// commandLine is the parser of the command line.
func commandLine() *kong.Kong {
	return kong.Must(new(commands), kong.Name("muniment"), commandline.Variables(), commandline.Bounds(), commandline.Needs(), commandline.Files(), kong.DefaultEnvars("MUNIMENT"),
		kong.Description("The evidence ledger for governed delivery."), kong.Vars{"version": "muniment " + thisBuild().String()}, kong.Writers(os.Stdout, terminal.Writer(os.Stderr)), kong.BindTo(terminal.Writer(os.Stdout), (*io.Writer)(nil)))
}

func main() {
	app := commandLine()
	command, err := app.Parse(os.Args[1:])
	if err != nil {
		app.Errorf("%s", err)
		os.Exit(exitUsage)
	}
	app.FatalIfErrorf(commandline.Named(command, command.Run()))
}

type versionCmd struct {
	JSON bool `help:"Print one JSON object."`
}

// Run prints the version.
func (c *versionCmd) Run(out io.Writer) error {
	if c.JSON {
		return json.NewEncoder(out).Encode(thisBuild())
	}
	_, err := fmt.Fprintln(out, "muniment", thisBuild())
	return err
}

type verifyCmd struct {
	Files []string         `arg:"" name:"file" help:"Receipts, packs or chains of packs (oldest first); or SHA256SUMS.note alone, in the folder of a release."`
	Root  commandline.Once `help:"The trust anchor: a root key (C2SP vkey), or a file that holds one. Of a release: its key." placeholder:"KEY"`
	Keys  commandline.Once `help:"A weaker anchor: a key directory, or the response of the sandbox's runtime-keys, that is trusted as it is. At most one." placeholder:"FILE"`
	JSON  bool             `help:"Print one JSON object."`

	Bound     time.Duration `default:"90s" least:"1s" help:"Longest delay between a stop and the last honest receipt: the service's --bound, and a minute for clock differences."`
	NoSandbox bool          `help:"Refuse what is signed by a key of the sandbox: anyone can make such evidence."`
	OneByOne  bool          `help:"Check each signature by itself, by the standard library alone. The verdicts are the same."`

	ExpectCheckpoint commandline.Once `help:"A checkpoint that was kept elsewhere, or anything that holds one: the files must prove that its log has only grown since. At most one." placeholder:"FILE"`
}

// Run never returns: the exit status is the verdict.
func (c *verifyCmd) Run() error {
	ctx, stop := process.Interrupted()
	defer stop()
	os.Exit(verify.Files(ctx, verify.Options{
		Files: c.Files, Root: string(c.Root), Keys: string(c.Keys), Expect: string(c.ExpectCheckpoint), Bound: c.Bound, NoSandbox: c.NoSandbox, OneByOne: c.OneByOne,
		Rating: settle.Rating, JSON: c.JSON,
	}, os.Stdout))
	return nil
}

// running is the server that an administrative command calls.
type running struct {
	adminapi.Server
}

// Do calls the server's admin listener, until a signal ends the command.
func (c *running) Do(method, path string, in, out any) error {
	ctx, stop := process.Interrupted()
	defer stop()
	return c.Server.Do(ctx, method, path, in, out)
}

// AfterApply passes the server to the commands.
func (c *running) AfterApply(k *kong.Context) error {
	k.BindTo(c, (*route.AdminClient)(nil))
	return nil
}
