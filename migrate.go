package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"muniment.example/control/store"
	"muniment.example/deploy/process"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/kafka"
)

// migrateCmd makes the tables and the topic of a scaled service, and changes older ones.
type migrateCmd struct {
	Kafka      []string `address:"host" example:"kafka.internal:9092" group:"Kafka:" help:"Some brokers of Kafka, for the topic of the event log." placeholder:"HOST:PORT"`
	Topic      string   `default:"muniment.events" group:"Kafka:" help:"The topic."`
	ClickHouse string   `name:"clickhouse" url:"clickhouse http https" example:"clickhouse://muniment@clickhouse.internal:9000/muniment" group:"ClickHouse:" help:"URL of the warehouse." placeholder:"URL"`
	Cluster    string   `group:"ClickHouse:" help:"Name of the ClickHouse cluster whose replicas hold the tables; default: one server."`
	Database   string   `url:"postgres postgresql" example:"postgres://muniment@db.internal/muniment?sslmode=verify-full" group:"PostgreSQL:" help:"URL of control's PostgreSQL database." placeholder:"URL"`
	kafkaHop
	clickhouseHop
	databaseHop

	Partitions  int           `least:"1" example:"12" help:"Partitions of the topic, for its life: a tenant is in one. Default: those that it has; 12 of a new one." placeholder:"N"`
	Replication int           `least:"1" example:"3" help:"Brokers that keep a partition. Default: those of the topic; 3 of a new one." placeholder:"N"`
	Retention   time.Duration `least:"1h" example:"168h" help:"How long the topic keeps a record. It is raised, never lowered. Default: as long as the topic does; a new one 168h." placeholder:"DURATION"`

	Only   string `env:"-" enum:",kafka,clickhouse,postgresql" default:"" help:"Migrate this engine alone, while the others that the variables name may be away: kafka, clickhouse or postgresql." placeholder:"ENGINE"`
	DryRun bool   `help:"Change nothing; print what would be done."`
	JSON   bool   `help:"Print one JSON object."`
}

// Validate refuses to do nothing.
func (c *migrateCmd) Validate() error {
	if c.Only == "" && len(c.Kafka) == 0 && c.ClickHouse == "" && c.Database == "" {
		return errors.New("nothing to migrate: give --kafka, --clickhouse or --database")
	}
	switch {
	case c.Only == "kafka" && len(c.Kafka) == 0:
		return errors.New("--only kafka needs --kafka")
	case c.Only == "clickhouse" && c.ClickHouse == "":
		return errors.New("--only clickhouse needs --clickhouse")
	case c.Only == "postgresql" && c.Database == "":
		return errors.New("--only postgresql needs --database")
	}
	if c.ClickHouse != "" {
		if err := checkClickHouse(c.ClickHouse); err != nil {
			return err
		}
	}
	if c.Database != "" {
		if err := checkDatabase(c.Database); err != nil {
			return err
		}
	}
	return valid(c.kafkaHop)
}

// migrated is what is printed.
type migrated struct {
	DryRun  bool        `json:"dryRun"`
	Changes []migration `json:"changes"`
}

type migration struct {
	Engine string `json:"engine"`
	Change string `json:"change"`
}

// Run migrates the named engines. All are looked at, as a dry run does, before the first is changed, so
// that one that is away or does not fit leaves the others as they are. If one fails later all the same,
// what is done stays, and another run continues from there.
func (c *migrateCmd) Run(out io.Writer) error {
	ctx, stop := process.Interrupted()
	defer stop()
	done := migrated{DryRun: c.DryRun, Changes: []migration{}}
	err := c.migrate(ctx, func(engine, change string) {
		done.Changes = append(done.Changes, migration{engine, change})
		if !c.JSON {
			fmt.Fprintf(out, "%s: %s\n", engine, change)
		}
	})
	switch {
	case c.JSON:
		if printErr := json.NewEncoder(out).Encode(done); err == nil {
			err = printErr
		}
	case err == nil && len(done.Changes) == 0:
		fmt.Fprintln(out, "everything is up to date")
	case err == nil && c.DryRun:
		fmt.Fprintln(out, "nothing was changed")
	}
	return err
}

func (c *migrateCmd) migrate(ctx context.Context, report func(engine, change string)) error {
	engines := []struct {
		name  string
		named bool
		do    func(ctx context.Context, dryRun bool) (changes []string, err error)
	}{
		{"postgresql", c.Database != "", c.postgresql},
		{"clickhouse", c.ClickHouse != "", c.clickhouse},
		{"kafka", len(c.Kafka) > 0, c.kafka},
	}
	for _, dryRun := range []bool{true, c.DryRun} {
		for _, e := range engines {
			if !e.named || c.Only != "" && c.Only != e.name {
				continue
			}
			changes, err := e.do(ctx, dryRun)
			if dryRun == c.DryRun {
				for _, change := range changes {
					report(e.name, change)
				}
			}
			switch {
			case err != nil && dryRun:
				return fmt.Errorf("nothing was changed: %w", err)
			case err != nil:
				return err
			}
		}
		if c.DryRun {
			break
		}
	}
	return nil
}

func (c *migrateCmd) postgresql(ctx context.Context, dryRun bool) (changes []string, err error) {
	cfg, err := c.databaseHop.config(store.Config{URL: c.Database})
	if err != nil {
		return nil, err
	}
	names, err := store.Migrate(ctx, cfg, dryRun)
	return applied(names), err
}

func (c *migrateCmd) clickhouse(ctx context.Context, dryRun bool) (changes []string, err error) {
	cfg, err := c.clickhouseHop.config(clickhouse.Config{URL: c.ClickHouse, Cluster: c.Cluster}, nil, nil)
	if err != nil {
		return nil, err
	}
	names, err := clickhouse.Migrate(ctx, cfg, dryRun)
	return applied(names), err
}

func applied(names []string) (changes []string) {
	for _, name := range names {
		changes = append(changes, "apply "+name)
	}
	return changes
}

func (c *migrateCmd) kafka(ctx context.Context, dryRun bool) (changes []string, err error) {
	cfg, err := c.kafkaHop.config(kafka.Config{Brokers: c.Kafka, Topic: c.Topic})
	if err != nil {
		return nil, err
	}
	made, err := kafka.Topic{Partitions: c.Partitions, Replication: c.Replication, Retention: c.Retention}.Migrate(ctx, cfg, dryRun)
	for _, change := range made {
		changes = append(changes, change.String())
	}
	return changes, err
}
