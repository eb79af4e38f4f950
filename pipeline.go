package main

import (
	"context"
	"errors"
	"time"

	"muniment.example/deploy/process"
	"muniment.example/gateway"
	"muniment.example/gateway/certs"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/kafka"
	"muniment.example/sealer"
)

// pipelineCmd is one of any number of loader processes. It has no state: the warehouse has
// the position from which to continue.
type pipelineCmd struct {
	process.Flags
	kafkaFlags
	clickhouseFlags
	profilingFlags

	Admin string `default:"127.0.0.1:9090" address:"" help:"Address for operators: metrics and health."`

	AdminTLS certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`

	Group          string        `help:"Consumer group whose members share the partitions; default: muniment.pipeline. and the topic." placeholder:"NAME"`
	SessionTimeout time.Duration `default:"10s" least:"1s" help:"How long the partitions of a dead loader stay unloaded; brokers refuse less than 6s."`
	FromAll        bool          `help:"Load every partition, without a consumer group: for a service with one loader."`
	BatchSize      int           `default:"5000" least:"1" help:"Most records of one batch."`
}

// Validate refuses what the engines' drivers can't read.
func (c *pipelineCmd) Validate() error { return valid(c.kafkaFlags, c.clickhouseFlags) }

// Run loads until it is signalled. It waits for engines that can't be reached.
func (c *pipelineCmd) Run() error { return c.Flags.Run(thisBuild(), "muniment pipeline", c.serve) }

func (c *pipelineCmd) serve(p *process.Process) error {
	token, err := c.token()
	if err != nil {
		return err
	}
	admin, err := p.Listen("admin", "--admin", c.Admin, c.AdminTLS)
	if err != nil {
		return err
	}
	// The first line names the address: what is opened from here on logs, too.
	p.Logger.Info("muniment pipeline is starting", "admin", admin.URL(), "topic", c.Topic)
	operators := p.Operate(admin, token, func(context.Context) error { return errors.New("the engines are being opened") })
	topic, err := c.kafkaFlags.config(p.Logger, p.Registry)
	if err != nil {
		return err
	}
	topic.OnFailure = p.Fail
	log, err := kafka.Open(topic)
	if err != nil {
		return err
	}
	p.AtEnd(log.Close)
	where, err := c.clickhouseFlags.config(p.Logger, p.Registry)
	if err != nil {
		return err
	}
	where.Away, where.Registerer = true, p.Registry
	warehouse, err := clickhouse.Open(p.Ctx, where)
	if err != nil {
		return err
	}
	p.AtEnd(warehouse.Close)
	checks := []gateway.Check{
		{Name: "log", Ready: func(context.Context) error { return log.Ready() }},
		{Name: "clickhouse", Ready: warehouse.Ready},
	}
	assignment := pipeline.AllPartitions(log)
	var committed func(int32) (sealer.Position, bool)
	if !c.FromAll {
		group, err := log.Group(kafka.GroupConfig{Name: c.Group, SessionTimeout: c.SessionTimeout, Loaded: warehouse.Resume})
		if err != nil {
			return err
		}
		assignment, committed = group, group.Committed
		checks = append(checks, gateway.Check{Name: "group", Ready: func(context.Context) error { return group.Ready() }})
	}
	fleet, err := pipeline.NewFleet(pipeline.FleetConfig{Assignment: assignment, Loader: pipeline.LoaderConfig{
		Log: log, Warehouse: warehouse, RetentionUsed: log.RetentionUsed, Committed: committed, BatchSize: c.BatchSize,
		Logger: p.Logger, Registerer: p.Registry, Tracer: p.Tracer,
	}})
	if err != nil {
		return err
	}
	operators.Set(gateway.Admin{
		Gatherer: p.Registry, LogLevel: p.LogLevel, Token: token,
		Checks:  append(checks, gateway.Check{Name: "loaders", Ready: fleet.Ready}),
		Notes:   []gateway.Note{{Name: "loaders", Status: fleet.Status}},
		Tenants: map[string]gateway.TenantsPart{"backlog": func(ctx context.Context) any { return fleet.Backlog(ctx) }},
	}.Handler())
	p.Parts().Run("the loaders", fleet.Run)
	p.Parts().Run("dropping old idempotency keys", func(ctx context.Context) error { return warehouse.ExpireKeys(ctx, log.Retention, p.Logger) })
	p.Wait()
	return nil
}
