package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"muniment.example/bench/measure"
	"muniment.example/bench/scale"
	"muniment.example/bench/warehouse"
	"muniment.example/pipeline/clickhouse"
)

type loadCmd struct {
	common
	Rounds     int    `default:"5" help:"Rounds to measure."`
	SQLite     bool   `name:"sqlite" default:"true" negatable:"" help:"Measure SQLite."`
	ClickHouse string `name:"clickhouse" help:"Any database of the ClickHouse server." placeholder:"URL"`
}

func (c *loadCmd) Run(ctx context.Context, out io.Writer) error {
	dir, remove, err := c.folder()
	if err != nil {
		return err
	}
	defer remove()
	rows := &warehouse.RowCost{Dir: dir, Out: out, ClickHouse: server(c.ClickHouse), SQLite: c.SQLite, Rounds: c.Rounds, Large: 3, Small: 30}
	if c.Quick {
		rows.Rounds, rows.Large, rows.Small = 1, 0, 1
	}
	report, err := rows.Run(ctx)
	if err != nil {
		return err
	}
	if err := report.WriteText(out); err != nil || c.Quick {
		return err
	}
	return measure.Failed(report.Verdicts)
}

// server is the ClickHouse at an address; nil if there is none.
func server(url string) *clickhouse.Config {
	if url == "" {
		return nil
	}
	return &clickhouse.Config{URL: url}
}

type scaleCmd struct {
	common
	product
	Embedded   bool   `default:"true" negatable:"" help:"Measure an embedded service."`
	Python     string `help:"A Python that has what sealer/independent needs." placeholder:"FILE" type:"path"`
	ClickHouse string `name:"clickhouse" help:"Any database of the ClickHouse server." placeholder:"URL"`
}

func (c *scaleCmd) Run(ctx context.Context, out io.Writer) error {
	dir, remove, err := c.folder()
	if err != nil {
		return err
	}
	defer remove()
	small := &scale.Scale{Exe: c.Muniment, Dir: dir, Out: out, Receipts: 1_500_000, Rights: 50_000, Python: c.Python, Window: 20 * time.Second, Backup: time.Minute}
	large := &warehouse.Scale{Out: out, Config: server(c.ClickHouse), Deliveries: 10_000_000, Copies: 100}
	if c.Quick {
		small.Receipts, small.Rights, small.Window, small.Backup, large.Deliveries, large.Copies = 50, 10, 20*time.Millisecond, time.Hour, 40_000, 2
	}
	var verdicts []measure.Verdict
	if c.ClickHouse != "" {
		if verdicts, err = large.Run(ctx); err != nil {
			return err
		}
	}
	if c.Embedded {
		more, err := small.Run(ctx)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, more...)
	}
	return c.conclude(out, dir, verdicts)
}

// conclude writes the verdicts, and fails unless all figures hold; a quick run does not.
func (c *common) conclude(out io.Writer, dir string, verdicts []measure.Verdict) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, on %s.\n\n", time.Now().UTC().Format("2 January 2006"), measure.DescribeMachine(dir))
	measure.WriteVerdicts(&b, verdicts)
	if _, err := io.WriteString(out, b.String()); err != nil || c.Quick {
		return err
	}
	return measure.Failed(verdicts)
}

type settlementCmd struct {
	common
	Rounds     int    `default:"5" help:"How often each is measured."`
	Rows       int    `default:"100000000" help:"Rows, of which a tenth are the month's; each takes 50 bytes of the server's disk, and as much again while they merge."`
	Keep       string `help:"Make the rows in this database, or measure those that are there; it stays." placeholder:"DATABASE"`
	ClickHouse string `required:"" name:"clickhouse" help:"Any database of the ClickHouse server." placeholder:"URL"`
}

// Validate refuses rows that can't be dealt out evenly.
func (c *settlementCmd) Validate() error {
	if c.ClickHouse == "" || c.Rows < 40 || c.Rows%40 != 0 {
		return errors.New("settlement needs --clickhouse, and --rows that are a multiple of 40")
	}
	return nil
}

func (c *settlementCmd) Run(ctx context.Context, out io.Writer) error {
	s := &warehouse.Settlement{Config: server(c.ClickHouse), Out: out, Rows: c.Rows, Rounds: c.Rounds, Keep: c.Keep}
	if c.Quick {
		s.Rows, s.Rounds = 40_000, 1
	}
	verdicts, err := s.Run(ctx)
	if err != nil {
		return err
	}
	return c.conclude(out, cmp.Or(c.Dir, os.TempDir()), verdicts)
}
