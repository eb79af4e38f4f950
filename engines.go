package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/store"
	"muniment.example/gateway/certs"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
)

// The flags with an engine's address, for every command that uses it, with the files of
// certificates and passwords for it. No password is a flag: it is read from a file, or is part
// of a URL.

// kafkaFlags are those of a command that needs Kafka.
type kafkaFlags struct {
	Kafka []string `required:"" group:"Kafka:" help:"Some brokers of Kafka, which holds the event log." placeholder:"HOST:PORT"`
	Topic string   `default:"muniment.events" group:"Kafka:" help:"Its topic."`
	kafkaHop
}

func (f *kafkaFlags) config(logger *slog.Logger, registry prometheus.Registerer) (kafka.Config, error) {
	return f.kafkaHop.config(kafka.Config{Brokers: f.Kafka, Topic: f.Topic, Log: logger, Registerer: registry})
}

// kafkaHop is how brokers are trusted, and how we authenticate to them.
type kafkaHop struct {
	KafkaTLS  certs.ClientFlags `embed:"" prefix:"kafka-" group:"Kafka:"`
	KafkaSASL saslFlags         `embed:"" prefix:"kafka-sasl-" group:"Kafka:"`
}

type saslFlags struct {
	Mechanism    string             `help:"How to authenticate to the brokers: plain, scram-sha-256 or scram-sha-512." placeholder:"NAME"`
	User         string             `help:"As this user." placeholder:"NAME"`
	PasswordFile certs.PasswordFile `help:"File of that user's password. Read again for each connection." placeholder:"FILE" type:"path"`
}

// config completes a cfg that names brokers and topic.
func (f *kafkaHop) config(cfg kafka.Config) (kafka.Config, error) {
	s := f.KafkaSASL
	switch {
	case s != saslFlags{} && s.Mechanism == "":
		return cfg, errors.New("--kafka-sasl-mechanism is missing")
	case s != saslFlags{} && (s.User == "" || s.PasswordFile == ""):
		return cfg, errors.New("--kafka-sasl-mechanism needs --kafka-sasl-user and --kafka-sasl-password-file")
	}
	hop, err := certs.NewClient(certs.Options{Use: "kafka", Logger: cfg.Log, Registerer: cfg.Registerer}, f.KafkaTLS)
	if err != nil {
		return cfg, err
	}
	cfg.TLS = hop.TLS()
	cfg.SASL = kafka.SASL{Mechanism: s.Mechanism, User: s.User, PasswordNow: s.PasswordFile.Password()}
	return cfg, nil
}

// clickhouseFlags are those of a command that needs the warehouse.
type clickhouseFlags struct {
	ClickHouse string `name:"clickhouse" required:"" group:"ClickHouse:" help:"URL of the warehouse: clickhouse://user:password@host:9000/database, or http(s)://…" placeholder:"URL"`
	Cluster    string `group:"ClickHouse:" help:"Name of the ClickHouse cluster whose replicas hold the tables. A write waits for a majority of them: of two, for both. At each table one muniment pipeline writes at a time. Default: one server."`
	clickhouseHop
}

func (f *clickhouseFlags) config(logger *slog.Logger, registry prometheus.Registerer) (clickhouse.Config, error) {
	return f.clickhouseHop.config(clickhouse.Config{URL: f.ClickHouse, Cluster: f.Cluster}, logger, registry)
}

type clickhouseHop struct {
	ClickHouseTLS          certs.ClientFlags  `embed:"" prefix:"clickhouse-" group:"ClickHouse:"`
	ClickHousePasswordFile certs.PasswordFile `name:"clickhouse-password-file" group:"ClickHouse:" help:"File of the password, in place of the URL's. Read again for each connection." placeholder:"FILE" type:"path"`
}

// config completes a cfg that says where the warehouse is.
func (f *clickhouseHop) config(cfg clickhouse.Config, logger *slog.Logger, registry prometheus.Registerer) (clickhouse.Config, error) {
	hop, err := certs.NewClient(certs.Options{Use: "clickhouse", Logger: logger, Registerer: registry}, f.ClickHouseTLS)
	cfg.TLS, cfg.Password = hop.TLS(), f.ClickHousePasswordFile.Password()
	return cfg, err
}

// databaseFlags are those of a command that needs control's database.
type databaseFlags struct {
	Database string `required:"" group:"PostgreSQL:" help:"URL of control's PostgreSQL database: postgres://user:password@host/database?sslmode=verify-full" placeholder:"URL"`
	databaseHop
}

func (f *databaseFlags) config(logger *slog.Logger, registry prometheus.Registerer) (store.Config, error) {
	return f.databaseHop.config(store.Config{URL: f.Database, Logger: logger, Registerer: registry})
}

type databaseHop struct {
	DatabaseTLS          certs.ClientFlags  `embed:"" prefix:"database-" group:"PostgreSQL:"`
	DatabasePasswordFile certs.PasswordFile `group:"PostgreSQL:" help:"File of the password, in place of the URL's. Read again for each connection." placeholder:"FILE" type:"path"`
}

// config completes a cfg that says where the database is.
func (f *databaseHop) config(cfg store.Config) (store.Config, error) {
	hop, err := certs.NewClient(certs.Options{Use: "database", Logger: cfg.Logger, Registerer: cfg.Registerer}, f.DatabaseTLS)
	cfg.TLS, cfg.Password = hop.TLS(), f.DatabasePasswordFile.Password()
	return cfg, err
}

const (
	// retryPause is between two tries to reach an engine.
	retryPause = 250 * time.Millisecond
	// checkPause is between two checks inside the process.
	checkPause = 5 * time.Millisecond
)

// awaited is a check for /readyz: what a process waits for before it serves.
type awaited struct{ reason atomic.Pointer[error] }

func newAwaited(first error) *awaited {
	a := new(awaited)
	a.reason.Store(&first)
	return a
}

// Ready returns what is missing, as of the last try.
func (a *awaited) Ready(context.Context) error { return *a.reason.Load() }

// note keeps what is missing.
func (a *awaited) note(what string, err error) {
	err = fmt.Errorf("waiting for %s: %w", what, err)
	a.reason.Store(&err)
}

// retry calls do again as long as its error is temporary: the engine can't be reached. It logs
// the first of these errors, and keeps the last for /readyz.
func (a *awaited) retry(ctx context.Context, logger *slog.Logger, engine string, temporary func(error) bool, do func() error) error {
	tick := time.NewTicker(retryPause)
	defer tick.Stop()
	for logged := false; ; logged = true {
		err := do()
		if err == nil || !temporary(err) {
			return err
		}
		a.note(engine, err)
		if !logged {
			logger.Info("waiting for an engine", "engine", engine, "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// until waits until check passes, and keeps its last error for /readyz.
func (a *awaited) until(ctx context.Context, what string, check func() error) error {
	tick := time.NewTicker(checkPause)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		a.note(what, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reservedLog is the log of an embedded service for deliveries: it refuses records while only
// the space that is reserved for stops is free. A delivery may need no more space in the log,
// whose segments are allocated ahead, but it will in the warehouse.
type reservedLog struct {
	*segment.Log
	db     *store.DB
	traces *pipeline.Traceparents // of records that are traced, which the log does not keep
}

// Append is segment.Log's.
func (l reservedLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if err := l.db.Reserved(); err != nil {
		return sealer.Position{}, fmt.Errorf("%w: %w", pipeline.ErrFull, err)
	}
	l.traces.Keep(r)
	return l.Log.Append(ctx, r)
}

// AppendAll is segment.Log's.
func (l reservedLog) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	if err := l.db.Reserved(); err != nil {
		return pipeline.RefuseAll(rs, fmt.Errorf("%w: %w", pipeline.ErrFull, err))
	}
	for _, r := range rs {
		l.traces.Keep(r)
	}
	return l.Log.AppendAll(ctx, rs)
}

// Writable is segment.Log's.
func (l reservedLog) Writable(ctx context.Context) error {
	if err := l.db.Reserved(); err != nil {
		return fmt.Errorf("%w: %w", pipeline.ErrFull, err)
	}
	return l.Log.Writable(ctx)
}

// reservedSink is the warehouse for the loader of an embedded service: loading pauses while
// only the reserved space is free.
type reservedSink struct {
	*sqlite.Warehouse
	db *store.DB
}

// Load is pipeline.Sink's.
func (s reservedSink) Load(ctx context.Context, b pipeline.Batch) error {
	if err := s.db.Reserved(); err != nil {
		return err
	}
	return s.Warehouse.Load(ctx, b)
}
