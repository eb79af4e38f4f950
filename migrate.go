package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"muniment/control/store"
	"muniment/pipeline/clickhouse"
	"muniment/pipeline/kafka"
)

// migrateCmd makes the tables and the topic of a scaled service, and changes older ones.
type migrateCmd struct {
	Kafka      []string `group:"Kafka:" help:"Some brokers of Kafka, for the topic of the event log." placeholder:"HOST:PORT"`
	Topic      string   `default:"muniment.events" group:"Kafka:" help:"The topic."`
	ClickHouse string   `name:"clickhouse" group:"ClickHouse:" help:"URL of the warehouse." placeholder:"URL"`
	Cluster    string   `group:"ClickHouse:" help:"Name of the ClickHouse cluster whose replicas hold the tables; default: one server."`
	Database   string   `group:"PostgreSQL:" help:"URL of control's PostgreSQL database." placeholder:"URL"`
	kafkaHop
	clickhouseHop
	databaseHop

	Partitions  int           `default:"12" least:"1" help:"Partitions of the topic, for its life: a tenant is in one."`
	Replication int           `default:"3" least:"1" help:"Brokers that keep a partition."`
	Retention   time.Duration `default:"168h" least:"1h" help:"How long the topic keeps a record."`

	DryRun bool `help:"Change nothing; print what would be done."`
	JSON   bool `help:"Print one JSON object."`
}

// Validate refuses to do nothing.
func (c *migrateCmd) Validate() error {
	if len(c.Kafka) == 0 && c.ClickHouse == "" && c.Database == "" {
		return fmt.Errorf("nothing to migrate: give --kafka, --clickhouse or --database")
	}
	return nil
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

// Run migrates the named engines, and stops at the first that fails: what is
// done stays, and another run continues from there.
func (c *migrateCmd) Run(out io.Writer) error {
	ctx, stop := interrupted()
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
	if c.Database != "" {
		cfg, err := c.databaseHop.config(store.Config{URL: c.Database})
		if err != nil {
			return err
		}
		names, err := store.Migrate(ctx, cfg, c.DryRun)
		for _, name := range names {
			report("postgresql", "apply "+name)
		}
		if err != nil {
			return err
		}
	}
	if c.ClickHouse != "" {
		cfg, err := c.clickhouseHop.config(clickhouse.Config{URL: c.ClickHouse, Cluster: c.Cluster}, nil, nil)
		if err != nil {
			return err
		}
		names, err := clickhouse.Migrate(ctx, cfg, c.DryRun)
		for _, name := range names {
			report("clickhouse", "apply "+name)
		}
		if err != nil {
			return err
		}
	}
	if len(c.Kafka) == 0 {
		return nil
	}
	cfg, err := c.kafkaHop.config(kafka.Config{Brokers: c.Kafka, Topic: c.Topic})
	if err != nil {
		return err
	}
	topic := kafka.Topic{Partitions: c.Partitions, Replication: c.Replication, Retention: c.Retention}
	changes, err := topic.Migrate(ctx, cfg, c.DryRun)
	for _, change := range changes {
		report("kafka", change.String())
	}
	return err
}
