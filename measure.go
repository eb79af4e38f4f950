package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"muniment/bench"
	"muniment/pipeline/clickhouse"
	"muniment/pipeline/kafka"
)

type demoCmd struct {
	Deliveries int    `default:"20000" help:"Deliveries to post (at least 1000)."`
	Clients    int    `default:"64" help:"Concurrent clients."`
	Seed       uint64 `default:"1" help:"Seed of the traffic."`
	Keep       string `placeholder:"DIR" help:"Tell the story in this new folder and keep it."`

	Stack bool `help:"Tell it of 3 gateways, 2 loaders and 2 control processes, on engines that run already; what it makes there stays."`
	stackFlags

	PartsCert string `group:"TLS of the processes:" help:"With --stack: each listener shows this certificate, for 127.0.0.1 (PEM)." placeholder:"FILE" type:"path"`
	PartsKey  string `group:"TLS of the processes:" help:"Its key (PEM)." placeholder:"FILE" type:"path"`
	PartsCA   string `group:"TLS of the processes:" help:"Authorities that vouch for it (PEM)." placeholder:"FILE" type:"path"`
}

// Validate refuses half a stack, and a story too short to kill a server in.
func (c *demoCmd) Validate() error {
	if c.Deliveries < 1000 || c.Clients < 1 {
		return errors.New("a demo takes at least 1000 deliveries and 1 client")
	}
	if err := c.stackFlags.validate(c.Stack); err != nil {
		return err
	}
	if parts := c.PartsCert + c.PartsKey + c.PartsCA; parts != "" && (c.PartsCert == "" || c.PartsKey == "" || c.PartsCA == "") {
		return errors.New("--parts-cert, --parts-key and --parts-ca belong together")
	}
	return nil
}

// stackFlags say where the engines are on which a scaled service is raised.
type stackFlags struct {
	Kafka      []string `group:"Kafka:" help:"With --stack: some brokers." placeholder:"HOST:PORT"`
	ClickHouse string   `name:"clickhouse" group:"ClickHouse:" help:"With --stack: any database of the server." placeholder:"URL"`
	Database   string   `group:"PostgreSQL:" help:"With --stack: any database of the PostgreSQL server." placeholder:"URL"`
	kafkaHop
	clickhouseHop
	databaseHop
}

func (f *stackFlags) validate(wanted bool) error {
	if wanted && (len(f.Kafka) == 0 || f.ClickHouse == "" || f.Database == "") {
		return errors.New("--stack needs --kafka, --clickhouse and --database")
	}
	return nil
}

func (f *stackFlags) stack(k *kong.Context) bench.Stack {
	return bench.Stack{
		Engines: bench.Engines{Kafka: strings.Join(f.Kafka, ","), ClickHouse: f.ClickHouse, Database: f.Database, Env: environment(k)},
		OpenLog: func(topic string) (bench.ReadCloser, error) {
			cfg, err := f.kafkaHop.config(kafka.Config{Brokers: f.Kafka, Topic: topic})
			if err != nil {
				return nil, err
			}
			return kafka.Open(cfg)
		},
	}
}

// environment is the flags that were given for engines, as variables for the processes.
func environment(k *kong.Context) (env []string) {
	for _, p := range k.Path {
		if p.Flag != nil && p.Flag.Group != nil && len(p.Flag.Envs) > 0 {
			env = append(env, fmt.Sprintf("%s=%v", p.Flag.Envs[0], p.Flag.Target))
		}
	}
	return env
}

// Run tells the story in a folder that is removed afterwards.
func (c *demoCmd) Run(k *kong.Context) error {
	ctx, out, stop := watched()
	defer stop()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir := c.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "muniment-demo-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	} else if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stdout.Stat()
	if err != nil {
		return err
	}
	demo := bench.Demo{
		Exe: exe, Dir: dir, Out: out, Live: info.Mode()&os.ModeCharDevice != 0,
		Deliveries: c.Deliveries, Clients: c.Clients, Seed: c.Seed,
	}
	if c.Stack {
		stack := c.stackFlags.stack(k)
		demo.Stack = &stack
		if c.PartsCert != "" {
			demo.Stack.TLS = &bench.Certificates{Cert: c.PartsCert, Key: c.PartsKey, CA: c.PartsCA}
		}
	}
	return demo.Run(ctx)
}

type soakCmd struct{ bench.Soak }

// Run abuses a server that is this binary.
func (c *soakCmd) Run() error {
	ctx, out, stop := watched()
	defer stop()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return c.Measure(ctx, exe, out)
}

type abuseCmd struct{}

// Run does what standard input says until that ends.
func (c *abuseCmd) Run(out io.Writer) error {
	ctx, stop := interrupted()
	defer stop()
	return bench.RunAbuse(ctx, os.Stdin, out)
}

type benchCmd struct {
	bench.Command

	Stack  bool   `help:"Measure a gateway on Kafka, and a loader, on engines of this machine that run already; what it makes there stays."`
	Load   bool   `help:"Measure what loading a row costs, against a bare insert: in SQLite, and with --clickhouse on that server of this machine."`
	Scale  bool   `help:"Measure a service that holds much: an embedded one, and with --clickhouse that warehouse."`
	SQLite bool   `name:"sqlite" default:"true" negatable:"" help:"With --load and --scale: what is embedded, too."`
	Python string `help:"With --scale: a Python that has what sealer/independent needs." placeholder:"FILE" type:"path"`
	stackFlags
}

// Validate refuses what can't be measured.
func (c *benchCmd) Validate() error {
	if c.Stack && c.Load || c.Stack && c.Scale || c.Load && c.Scale {
		return errors.New("--stack, --load and --scale exclude each other")
	}
	return errors.Join(c.Command.Validate(), c.stackFlags.validate(c.Stack))
}

// Run measures with this binary.
func (c *benchCmd) Run(k *kong.Context) error {
	ctx, out, stop := watched()
	defer stop()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	var server *clickhouse.Config
	if c.ClickHouse != "" {
		cfg, err := c.clickhouseHop.config(clickhouse.Config{URL: c.ClickHouse}, nil, nil)
		if err != nil {
			return err
		}
		server = &cfg
	}
	switch {
	case c.Load:
		return c.MeasureRows(ctx, server, c.SQLite, out)
	case c.Scale:
		return c.MeasureScale(ctx, exe, c.Python, server, c.SQLite, out)
	case c.Stack:
		return c.MeasureStack(ctx, exe, c.stackFlags.stack(k), out)
	}
	return c.Measure(ctx, exe, out)
}

type bareCmd struct {
	bench.Bare

	Kafka   []string `group:"Kafka:" env:"MUNIMENT_BARE_KAFKA" help:"Brokers that have its log." placeholder:"HOST:PORT"`
	LogName string   `name:"topic" env:"MUNIMENT_BARE_TOPIC" help:"Topic that is its log."`
	kafkaHop
}

// Run serves until it is told to stop.
func (c *bareCmd) Run() (err error) {
	ctx, stop := interrupted()
	defer stop()
	if len(c.Kafka) > 0 {
		cfg, err := c.kafkaHop.config(kafka.Config{Brokers: c.Kafka, Topic: c.LogName})
		if err != nil {
			return err
		}
		topic, err := kafka.Open(cfg)
		if err != nil {
			return err
		}
		defer topic.Close()
		c.Topic = topic
	}
	return c.Serve(ctx)
}
