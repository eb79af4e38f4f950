package main

import (
	"context"
	"errors"
	"net"
	"time"

	"muniment/gateway"
	"muniment/gateway/certs"
	"muniment/pipeline"
	"muniment/pipeline/clickhouse"
	"muniment/pipeline/kafka"
	"muniment/sealer"
)

// pipelineCmd is one of any number of loader processes. It keeps nothing: where to
// load from is what the warehouse says.
type pipelineCmd struct {
	logFlags
	kafkaFlags
	clickhouseFlags
	profilingFlags

	Admin string `default:"127.0.0.1:9090" help:"Address for operators: metrics and health."`

	AdminTLS certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`

	Group          string        `help:"Consumer group whose members share the partitions; default: muniment.pipeline. and the topic." placeholder:"NAME"`
	SessionTimeout time.Duration `default:"10s" help:"How long the partitions of a loader that died stay unloaded; brokers refuse less than 6s."`
	FromAll        bool          `help:"Load every partition, without a consumer group: for a service with one loader."`
	BatchSize      int           `default:"5000" help:"Most records of one batch."`
}

// Validate refuses what would only fail once the loader runs.
func (c *pipelineCmd) Validate() error {
	if c.BatchSize < 1 {
		return errors.New("--batch-size must be positive")
	}
	if c.SessionTimeout < time.Second {
		return errors.New("--session-timeout must be at least a second")
	}
	return nil
}

// Run loads until it is told to stop. It waits for engines that are away.
func (c *pipelineCmd) Run() (err error) {
	told, stop := interrupted()
	defer stop()
	ctx, fail := context.WithCancelCause(told)
	defer fail(nil)
	logger := c.logger()
	started := false
	defer func() { err = stopped(told, ctx, logger, started, err) }()
	registry := newRegistry()

	token, err := c.token()
	if err != nil {
		return err
	}
	adminTLS, err := certs.Server(certs.Options{Use: "admin", Logger: logger, Registerer: registry}, c.AdminTLS)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Admin)
	if err != nil {
		return cannotListen("--admin", err)
	}
	defer listener.Close()
	// The first line names the address: what is opened from here on has something to say.
	logger.Info("muniment pipeline is starting", "admin", urlOf(listener.Addr(), adminTLS), "topic", c.Topic)
	topic, err := c.kafkaFlags.config(logger, registry)
	if err != nil {
		return err
	}
	topic.OnFailure = fail
	eventLog, err := kafka.Open(topic)
	if err != nil {
		return err
	}
	defer closing(&err, eventLog)
	where, err := c.clickhouseFlags.config(logger, registry)
	if err != nil {
		return err
	}
	where.Away, where.Registerer = true, registry
	warehouse, err := clickhouse.Open(ctx, where)
	if err != nil {
		return err
	}
	defer closing(&err, warehouse)
	checks := []gateway.Check{
		{Name: "log", Ready: func(context.Context) error { return eventLog.Ready() }},
		{Name: "clickhouse", Ready: warehouse.Ready},
	}
	assignment := pipeline.AllPartitions(eventLog)
	var committed func(int32) (sealer.Position, bool)
	if !c.FromAll {
		group, err := eventLog.Group(kafka.GroupConfig{Name: c.Group, SessionTimeout: c.SessionTimeout, Loaded: warehouse.Resume})
		if err != nil {
			return err
		}
		assignment, committed = group, group.Committed
		checks = append(checks, gateway.Check{Name: "group", Ready: func(context.Context) error { return group.Ready() }})
	}
	fleet, err := pipeline.NewFleet(pipeline.FleetConfig{Assignment: assignment, Loader: pipeline.LoaderConfig{
		Log: eventLog, Warehouse: warehouse, RetentionUsed: eventLog.RetentionUsed, Committed: committed, BatchSize: c.BatchSize,
		Logger: logger, Registerer: registry,
	}})
	if err != nil {
		return err
	}

	operators := gateway.Admin{
		Gatherer: registry, Token: token,
		Checks: append(checks, gateway.Check{Name: "loaders", Ready: fleet.Ready}),
		Notes:  []gateway.Note{{Name: "loaders", Tell: fleet.Tell}},
	}.Handler()
	operated, background := newParts(ctx, fail), newParts(ctx, fail)
	defer operated.stop()
	defer background.stop()
	operated.run("the admin listener", func(ctx context.Context) error {
		return serve(ctx, secured(listener, adminTLS), gateway.LoopbackOnly(listener.Addr(), operators))
	})
	background.run("the loaders", fleet.Run)

	started = true
	<-ctx.Done()
	if err := whyEnded(told, ctx); err != nil {
		return err
	}
	background.stop()
	logger.Info("muniment pipeline has stopped")
	return nil
}
