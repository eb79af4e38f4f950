package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/pipeline/clickhouse"
	"muniment/pipeline/kafka"
)

// The flags that say where an engine is, for every command that uses it. Files of
// certificates and passwords of a hop belong beside its address.

type kafkaFlags struct {
	Kafka []string `required:"" help:"Some brokers of Kafka, which holds the event log." placeholder:"HOST:PORT"`
	Topic string   `default:"muniment.events" help:"Its topic."`
}

func (f *kafkaFlags) config(logger *slog.Logger, registry prometheus.Registerer) kafka.Config {
	return kafka.Config{Brokers: f.Kafka, Topic: f.Topic, Log: logger, Registerer: registry}
}

type clickhouseFlags struct {
	ClickHouse string `name:"clickhouse" required:"" help:"URL of the warehouse: clickhouse://user:password@host:9000/database, or http(s)://…" placeholder:"URL"`
	Cluster    string `help:"Name of the ClickHouse cluster whose replicas hold the tables; default: one server."`
}

func (f *clickhouseFlags) config() clickhouse.Config {
	return clickhouse.Config{URL: f.ClickHouse, Cluster: f.Cluster}
}

type databaseFlags struct {
	Database string `required:"" help:"URL of control's PostgreSQL database: postgres://user:password@host/database?sslmode=verify-full" placeholder:"URL"`
}

// lookAgain is how often a process that starts looks whether an engine is there.
const lookAgain = 250 * time.Millisecond

// patiently does what needs an engine until that does not fail for passing reasons. It
// says once in the log what it waits for.
func patiently(ctx context.Context, logger *slog.Logger, engine string, passing func(error) bool, do func() error) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for told := false; ; told = true {
		err := do()
		if err == nil || !passing(err) {
			return err
		}
		if !told {
			logger.Info("waiting for an engine", "engine", engine, "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
