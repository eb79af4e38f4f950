package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"muniment.example/bench/compare"
	"muniment.example/bench/system"
	"muniment.example/pipeline/kafka"
)

// comparison are the flags of both comparisons.
type comparison struct {
	common
	product

	Connections []int         `help:"Numbers of connections to measure with; default: 1,64,256, of stack 64,256,1024."`
	Rounds      int           `default:"5" help:"Undisturbed rounds that are wanted; at most three times as many are measured, of stack 3 more."`
	Warm        time.Duration `default:"1s" help:"How long each measurement runs before it counts."`
	During      time.Duration `default:"3s" help:"How long it counts."`
	Profile     time.Duration `default:"15s" help:"How long the product's CPU is profiled (needs the Go tool), of stack half of it; 0: not at all."`
	JSON        string        `help:"Write every measurement into this file." placeholder:"FILE" type:"path"`
}

// Validate refuses what can't be measured.
func (c *comparison) Validate() error {
	for _, n := range c.Connections {
		if n < 1 || n > 4000 {
			return errors.New("--connections must be from 1 to 4000")
		}
	}
	if c.Rounds < 1 || c.During <= 0 || c.Warm < 0 {
		return errors.New("--rounds and --during must not be 0")
	}
	return nil
}

// in is the comparison in a folder, with these connections unless the flags name others.
func (c *comparison) in(dir string, out io.Writer, connections ...int) (compare.Comparison, error) {
	self, err := os.Executable()
	if len(c.Connections) > 0 {
		connections = c.Connections
	}
	return compare.Comparison{
		Exe: c.Muniment, Bench: self, Dir: dir, Out: out, Connections: connections, Rounds: c.Rounds,
		Warm: c.Warm, During: c.During, Profile: c.Profile,
	}, err
}

// publish fails unless every figure that must hold does.
func (c *comparison) publish(report *compare.Report, out io.Writer) error {
	if err := report.Publish(out, c.JSON); err != nil {
		return err
	}
	return report.Failed()
}

type compareCmd struct {
	comparison
	Sustain time.Duration `default:"5m" help:"How long the product with its loader is watched under the most connections."`
}

func (c *compareCmd) Run(ctx context.Context, out io.Writer) error {
	dir, remove, err := c.folder()
	if err != nil {
		return err
	}
	defer remove()
	measured, err := c.in(dir, out, 1, 64, 256)
	if err != nil {
		return err
	}
	measured.Spare, measured.Sustain = 2*c.Rounds, c.Sustain
	if c.Quick {
		measured.Shorten()
	}
	report, err := measured.Run(ctx)
	if err != nil {
		return err
	}
	return c.publish(report, out)
}

// engines are the flags of measurements on the stack.
type engines struct {
	Kafka      []string `required:"" help:"Some brokers." placeholder:"HOST:PORT"`
	ClickHouse string   `required:"" name:"clickhouse" help:"Any database of the server." placeholder:"URL"`
	Database   string   `required:"" help:"Any database of the PostgreSQL server." placeholder:"URL"`
}

func (e *engines) stack() system.Stack {
	return system.Stack{
		Engines: system.Engines{Kafka: strings.Join(e.Kafka, ","), ClickHouse: e.ClickHouse, Database: e.Database},
		OpenLog: func(topic string) (system.ReadCloser, error) {
			return kafka.Open(kafka.Config{Brokers: e.Kafka, Topic: topic})
		},
	}
}

type tenantCmd struct {
	common
	product
	engines

	Rounds int           `default:"5" help:"Rounds, each of one measurement of one tenant, and one of 64."`
	Warm   time.Duration `default:"2s" help:"How long the engines are warmed up."`
	During time.Duration `default:"4s" help:"How long each measurement delivers."`
}

// Validate refuses what can't be measured.
func (c *tenantCmd) Validate() error {
	if c.Rounds < 1 || c.During <= 0 || c.Warm <= 0 {
		return errors.New("--rounds, --warm and --during must not be 0")
	}
	return nil
}

func (c *tenantCmd) Run(ctx context.Context, out io.Writer) error {
	dir, remove, err := c.folder()
	if err != nil {
		return err
	}
	defer remove()
	measured := &compare.StackComparison{
		Comparison: compare.Comparison{Exe: c.Muniment, Dir: dir, Out: out, Rounds: c.Rounds, Warm: c.Warm, During: c.During},
		Partitions: 12, Stack: c.stack(),
	}
	if c.Quick {
		measured.Rounds, measured.Warm, measured.During = 1, 100*time.Millisecond, 300*time.Millisecond
	}
	rate, err := measured.TenantRate(ctx)
	if err == nil {
		_, err = fmt.Fprintln(out, rate)
	}
	return err
}

type stackCmd struct {
	comparison
	engines
}

func (c *stackCmd) Run(ctx context.Context, out io.Writer) error {
	dir, remove, err := c.folder()
	if err != nil {
		return err
	}
	defer remove()
	base, err := c.in(dir, out, 64, 256, 1024)
	if err != nil {
		return err
	}
	base.Spare, base.Profile = min(c.Rounds, 3), c.Profile/2
	measured := &compare.StackComparison{
		Comparison: base, Partitions: 12, Backlog: 10 * time.Second, Lag: 20 * time.Second, PerSecond: 1000,
		Stack: c.stack(),
	}
	if c.Quick {
		measured.Shorten()
	}
	report, err := measured.Run(ctx)
	if err != nil {
		return err
	}
	return c.publish(report, out)
}
