package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"muniment.example/bench/demo"
	"muniment.example/bench/system"
	"muniment.example/pipeline/kafka"
)

type demoCmd struct {
	Deliveries int    `default:"20000" least:"1000" help:"Deliveries to post: fewer are too few to kill a server in between."`
	Clients    int    `default:"64" least:"1" help:"Concurrent clients."`
	Seed       uint64 `default:"1" help:"Seed of the traffic."`
	Keep       string `placeholder:"DIR" help:"Run in this new folder, and keep it."`

	Stack      bool     `help:"Run 3 gateways, 2 loaders and 2 control processes on running engines; what it creates there is kept."`
	Kafka      []string `address:"host" example:"kafka.internal:9092" group:"Kafka:" help:"With --stack: some brokers." placeholder:"HOST:PORT"`
	ClickHouse string   `name:"clickhouse" url:"clickhouse http https" example:"clickhouse://muniment@clickhouse.internal:9000/muniment" group:"ClickHouse:" help:"With --stack: any database of the server." placeholder:"URL"`
	Database   string   `url:"postgres postgresql" example:"postgres://muniment@db.internal/muniment?sslmode=verify-full" group:"PostgreSQL:" help:"With --stack: any database of the PostgreSQL server." placeholder:"URL"`
	kafkaHop
	clickhouseHop
	databaseHop

	PartsCert string `group:"TLS of the processes:" help:"With --stack: each listener presents this certificate, for 127.0.0.1 (PEM)." placeholder:"FILE" type:"path" file:"PEM"`
	PartsKey  string `group:"TLS of the processes:" help:"Its key (PEM)." placeholder:"FILE" type:"path" file:"PEM"`
	PartsCA   string `group:"TLS of the processes:" help:"Authorities that issued it (PEM)." placeholder:"FILE" type:"path" file:"PEM"`
}

// Validate refuses half a stack.
func (c *demoCmd) Validate() error {
	if c.Stack && (len(c.Kafka) == 0 || c.ClickHouse == "" || c.Database == "") {
		return errors.New("--stack needs --kafka, --clickhouse and --database")
	}
	if parts := c.PartsCert + c.PartsKey + c.PartsCA; parts != "" && (c.PartsCert == "" || c.PartsKey == "" || c.PartsCA == "") {
		return errors.New("--parts-cert, --parts-key and --parts-ca belong together, for example --parts-cert cert.pem --parts-key key.pem --parts-ca ca.pem")
	}
	return valid(c.kafkaHop)
}

// stack is the engines of --stack.
func (c *demoCmd) stack(k *kong.Context) *system.Stack {
	stack := &system.Stack{
		Engines: system.Engines{Kafka: strings.Join(c.Kafka, ","), ClickHouse: c.ClickHouse, Database: c.Database, Env: environment(k)},
		OpenLog: func(topic string) (system.ReadCloser, error) {
			cfg, err := c.kafkaHop.config(kafka.Config{Brokers: c.Kafka, Topic: topic})
			if err != nil {
				return nil, err
			}
			return kafka.Open(cfg)
		},
	}
	if c.PartsCert != "" {
		stack.TLS = &system.Certificates{Cert: c.PartsCert, Key: c.PartsKey, CA: c.PartsCA}
	}
	return stack
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

// Run runs the demo in a folder that is removed afterwards.
func (c *demoCmd) Run(k *kong.Context) error {
	ctx, out, stop := system.UntilInterrupted()
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
	run := demo.Demo{
		Exe: exe, Dir: dir, Out: out, Live: info.Mode()&os.ModeCharDevice != 0,
		Deliveries: c.Deliveries, Clients: c.Clients, Seed: c.Seed,
	}
	if c.Stack {
		run.Stack = c.stack(k)
	}
	return run.Run(ctx)
}
