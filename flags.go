package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/store"
	"muniment.example/gateway/certs"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/kafka"
)

// keysFlags are those of every process that answers deliveries.
type keysFlags struct {
	IdempotencyEntries int `default:"5000000" least:"1" help:"How many idempotency keys and rows of batches are remembered, the newest of 24h, in 50 to 80 bytes of memory each and 24 on the disk: ${default} last for 24h at 58 deliveries a second with a key, for 83 minutes at 1,000." placeholder:"N"`
	rowFlags
}

// rowFlags are those of every process that decides on rows of batches.
type rowFlags struct {
	RowAge time.Duration `default:"720h" least:"1s" most:"720h" help:"Highest age of the play of a row of a batch, at most ${default}: the same for all gateways and control processes."`
}

// checkpointFolder is where a data folder keeps checkpoints of its idempotency keys.
const checkpointFolder = "idempotency"

// profilingFlags are those of a process that makes no admin token of its own.
type profilingFlags struct {
	AdminTokenFile certs.PasswordFile `help:"File of a token that opens /debug/pprof on the address for operators, as Authorization: Bearer TOKEN. Default: it is closed." placeholder:"FILE" type:"path" file:""`
}

// token reads the file; it is empty where there is none.
func (f *profilingFlags) token() (string, error) {
	read := f.AdminTokenFile.Password()
	if read == nil {
		return "", nil
	}
	token, err := read()
	if err != nil {
		return "", fmt.Errorf("--admin-token-file: %w", err)
	}
	return token, nil
}

// The flags with an engine's address, for every command that uses it, with the files of
// certificates and passwords for it. No password is a flag: it is read from a file, or is part
// of a URL.

// valid is the first error of some flags: kong calls no method of flags of a type that is not exported.
func valid(all ...interface{ Validate() error }) error {
	for _, flags := range all {
		if err := flags.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// kafkaFlags are those of a command that needs Kafka.
type kafkaFlags struct {
	Kafka []string `required:"" address:"host" example:"kafka.internal:9092" group:"Kafka:" help:"Some brokers of Kafka, which holds the event log." placeholder:"HOST:PORT"`
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
	PasswordFile certs.PasswordFile `help:"File of that user's password. Read again for each connection." placeholder:"FILE" type:"path" file:""`
}

// Validate refuses flags without those that they need.
func (f kafkaHop) Validate() error {
	s := f.KafkaSASL
	const example = ", for example --kafka-sasl-mechanism scram-sha-512 --kafka-sasl-user muniment --kafka-sasl-password-file kafka.password"
	switch {
	case s != saslFlags{} && s.Mechanism == "":
		return errors.New("--kafka-sasl-mechanism is missing" + example)
	case s != saslFlags{} && (s.User == "" || s.PasswordFile == ""):
		return errors.New("--kafka-sasl-mechanism needs --kafka-sasl-user and --kafka-sasl-password-file" + example)
	}
	return nil
}

// config completes a cfg that names brokers and topic.
func (f *kafkaHop) config(cfg kafka.Config) (kafka.Config, error) {
	s := f.KafkaSASL
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
	ClickHouse string `name:"clickhouse" required:"" url:"clickhouse http https" example:"clickhouse://muniment@clickhouse.internal:9000/muniment" group:"ClickHouse:" help:"URL of the warehouse: clickhouse://user:password@host:9000/database, or http(s)://…" placeholder:"URL"`
	Cluster    string `group:"ClickHouse:" help:"Name of the ClickHouse cluster whose replicas hold the tables. A write waits for a majority of them: of two, for both. At each table one muniment pipeline writes at a time. Default: one server."`
	clickhouseHop
}

// Validate refuses a URL that the driver can't read.
func (f clickhouseFlags) Validate() error { return checkClickHouse(f.ClickHouse) }

func checkClickHouse(url string) error {
	if err := clickhouse.CheckURL(url); err != nil {
		return fmt.Errorf("--clickhouse: %w; it must be a URL, for example clickhouse://muniment@clickhouse.internal:9000/muniment", err)
	}
	return nil
}

func (f *clickhouseFlags) config(logger *slog.Logger, registry prometheus.Registerer) (clickhouse.Config, error) {
	return f.clickhouseHop.config(clickhouse.Config{URL: f.ClickHouse, Cluster: f.Cluster}, logger, registry)
}

type clickhouseHop struct {
	ClickHouseTLS          certs.ClientFlags  `embed:"" prefix:"clickhouse-" group:"ClickHouse:"`
	ClickHousePasswordFile certs.PasswordFile `name:"clickhouse-password-file" group:"ClickHouse:" help:"File of the password, in place of the URL's. Read again for each connection." placeholder:"FILE" type:"path" file:""`
}

// config completes a cfg that says where the warehouse is.
func (f *clickhouseHop) config(cfg clickhouse.Config, logger *slog.Logger, registry prometheus.Registerer) (clickhouse.Config, error) {
	hop, err := certs.NewClient(certs.Options{Use: "clickhouse", Logger: logger, Registerer: registry}, f.ClickHouseTLS)
	cfg.TLS, cfg.Password = hop.TLS(), f.ClickHousePasswordFile.Password()
	return cfg, err
}

// databaseFlags are those of a command that needs control's database.
type databaseFlags struct {
	Database string `required:"" url:"postgres postgresql" example:"postgres://muniment@db.internal/muniment?sslmode=verify-full" group:"PostgreSQL:" help:"URL of control's PostgreSQL database: postgres://user:password@host/database?sslmode=verify-full" placeholder:"URL"`
	databaseHop
}

// Validate refuses a URL that the driver can't read.
func (f databaseFlags) Validate() error { return checkDatabase(f.Database) }

func checkDatabase(url string) error {
	if err := store.CheckURL(url); err != nil {
		return fmt.Errorf("--database: %w; it must be a URL, for example postgres://muniment@db.internal/muniment?sslmode=verify-full", err)
	}
	return nil
}

func (f *databaseFlags) config(logger *slog.Logger, registry prometheus.Registerer) (store.Config, error) {
	return f.databaseHop.config(store.Config{URL: f.Database, Logger: logger, Registerer: registry})
}

type databaseHop struct {
	DatabaseTLS          certs.ClientFlags  `embed:"" prefix:"database-" group:"PostgreSQL:"`
	DatabasePasswordFile certs.PasswordFile `group:"PostgreSQL:" help:"File of the password, in place of the URL's. Read again for each connection." placeholder:"FILE" type:"path" file:""`
}

// config completes a cfg that says where the database is.
func (f *databaseHop) config(cfg store.Config) (store.Config, error) {
	hop, err := certs.NewClient(certs.Options{Use: "database", Logger: cfg.Logger, Registerer: cfg.Registerer}, f.DatabaseTLS)
	cfg.TLS, cfg.Password = hop.TLS(), f.DatabasePasswordFile.Password()
	return cfg, err
}
