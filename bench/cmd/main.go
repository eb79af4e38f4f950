// Command muniment-bench measures the product: see bench/README.md. It runs the muniment
// binary as the server that is measured, and itself as the servers that do less and as clients
// that need a process of their own.
package main

import (
	"context"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"muniment.example/bench/abuse"
	"muniment.example/bench/compare"
	"muniment.example/bench/soak"
	"muniment.example/bench/system"
	"muniment.example/pipeline/kafka"
)

type commands struct {
	Compare    compareCmd    `cmd:"" default:"withargs" help:"Measure what a receipt costs, against servers that do less (the default)."`
	Stack      stackCmd      `cmd:"" help:"Measure a gateway on Kafka, and a loader, on engines of this machine that run already; what it makes there stays."`
	Tenant     tenantCmd     `cmd:"" help:"Measure what one tenant, who is in one partition, can sustain on engines of this machine that run already; what it makes there stays."`
	Load       loadCmd       `cmd:"" help:"Measure what loading a row costs, against a bare insert: in SQLite, and with --clickhouse on that server of this machine."`
	Scale      scaleCmd      `cmd:"" help:"Measure a service that holds much: an embedded one, and with --clickhouse that warehouse."`
	Settlement settlementCmd `cmd:"" help:"Measure what a tenant's month takes to be settled, among rows that a ClickHouse makes."`
	Soak       soakCmd       `cmd:"" help:"Measure good traffic without abuse and beside it."`
	Bare       bareCmd       `cmd:"" hidden:"" help:"Be one of the servers that do less."`
	Abuse      abuseCmd      `cmd:"" hidden:"" help:"Be the clients that standard input describes."`
}

func main() {
	var cli commands
	ctx, out, stop := system.UntilInterrupted()
	defer stop()
	command := kong.Parse(&cli, kong.Name("muniment-bench"), kong.Description("Measures muniment."),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(out, (*io.Writer)(nil)))
	command.FatalIfErrorf(command.Run())
}

// common are the flags of all measurements but soak, which has its own.
type common struct {
	Quick bool   `help:"Measure for a moment, to see that everything works: the figures say nothing."`
	Dir   string `help:"Folder on the disk to measure; default: that of temporary files. Up to 30 GB are used meanwhile." type:"existingdir"`
}

// folder makes one for a measurement. remove removes it.
func (c *common) folder() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(c.Dir, "muniment-bench-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// product is the flag of measurements that run the product.
type product struct {
	Muniment string `default:"./bin/muniment" help:"The binary that is measured." placeholder:"FILE" type:"path"`
}

type soakCmd struct {
	soak.Soak
	product
}

func (c *soakCmd) Run(ctx context.Context, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return c.Measure(ctx, c.Muniment, self, out)
}

type abuseCmd struct{}

// Run ends with standard input.
func (c *abuseCmd) Run(ctx context.Context, out io.Writer) error {
	return abuse.Run(ctx, os.Stdin, out)
}

type bareCmd struct {
	compare.Bare

	Kafka   []string `help:"Brokers that have its log." placeholder:"HOST:PORT"`
	LogName string   `name:"topic" help:"Topic that is its log."`
}

// Run serves until it is interrupted.
func (c *bareCmd) Run(ctx context.Context) error {
	if len(c.Kafka) > 0 {
		topic, err := kafka.Open(kafka.Config{Brokers: c.Kafka, Topic: c.LogName})
		if err != nil {
			return err
		}
		defer topic.Close()
		c.Topic = topic
	}
	return c.Serve(ctx)
}
