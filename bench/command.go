package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"muniment/pipeline/clickhouse"
)

// Command is the command line of a Comparison.
type Command struct {
	Connections []int         `help:"Numbers of connections to measure with; default: 1,64,256, and 64,256,1024 with --stack."`
	Rounds      int           `default:"5" help:"Undisturbed rounds that are wanted; at most three times as many are measured, and 3 more with --stack."`
	Warm        time.Duration `default:"1s" help:"How long each measurement runs before it counts."`
	During      time.Duration `default:"3s" help:"How long it counts."`
	Sustain     time.Duration `default:"5m" help:"How long the product with its loader is watched under the most connections."`
	Profile     time.Duration `default:"15s" help:"How long its CPU is profiled (needs the Go tool); 0: not at all."`
	Batches     bool          `help:"Measure batches alone."`
	Quick       bool          `help:"Measure for a moment, to see that everything works: the figures say nothing."`
	Dir         string        `help:"Folder on the disk to measure; default: that of temporary files. Up to 30 GB are used meanwhile." type:"existingdir"`
	Parts       string        `help:"What go test -bench printed of the parts of a receipt; shown with the figures." placeholder:"FILE" type:"existingfile"`
	JSON        string        `help:"Write every measurement into this file." placeholder:"FILE" type:"path"`
	Readme      string        `help:"Write the figures into this file, between its two marks." placeholder:"FILE" type:"path"`
}

// Validate refuses what can't be measured.
func (c *Command) Validate() error {
	for _, n := range c.Connections {
		if n < 1 || n > 4000 {
			return errors.New("--connections must be from 1 to 4000")
		}
	}
	if (c.Quick || c.Batches) && c.Readme != "" {
		return errors.New("what --quick or --batches measures is not for a README")
	}
	if c.Rounds < 1 || c.During <= 0 || c.Warm < 0 {
		return errors.New("--rounds and --during must not be 0")
	}
	return nil
}

// Measure runs the comparison with the binary exe and reports to out. It fails
// unless every figure that must hold does; a quick one, if something doesn't work.
func (c *Command) Measure(ctx context.Context, exe string, out io.Writer) error {
	if c.Readme != "" { // before a quarter of an hour is lost
		if _, _, err := figures.around(c.Readme); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(c.Dir, "muniment-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	comparison := &Comparison{
		Exe: exe, Dir: dir, Out: out, Connections: c.connections(1, 64, 256), Rounds: c.Rounds, Spare: 2 * c.Rounds,
		Warm: c.Warm, During: c.During, Sustain: c.Sustain, Profile: c.Profile, Batches: c.Batches,
	}
	if c.Quick {
		comparison.Shorten()
	}
	var parts []Part
	if c.Parts != "" {
		if parts, err = ReadParts(c.Parts); err != nil {
			return err
		}
	}
	report, err := comparison.Run(ctx)
	if err != nil {
		return err
	}
	report.Parts = parts
	return c.publish(report, out)
}

func (c *Command) publish(report *Report, out io.Writer) error {
	if err := report.Publish(out, c.JSON, c.Readme); err != nil {
		return err
	}
	return report.failed()
}

// MeasureStack is Measure for a StackComparison.
func (c *Command) MeasureStack(ctx context.Context, exe string, stack Stack, out io.Writer) error {
	if c.Readme != "" {
		if _, _, err := stackFigures.around(c.Readme); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(c.Dir, "muniment-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	comparison := &StackComparison{
		Comparison: Comparison{
			Exe: exe, Dir: dir, Out: out, Connections: c.connections(64, 256, 1024), Rounds: c.Rounds, Spare: min(c.Rounds, 3),
			Warm: c.Warm, During: c.During, Profile: c.Profile / 2, Batches: c.Batches,
		},
		Stack: stack, Partitions: 12, Backlog: 10 * time.Second, Lag: 20 * time.Second, PerSecond: 1000,
	}
	if c.Quick {
		comparison.Shorten()
	}
	report, err := comparison.Run(ctx)
	if err != nil {
		return err
	}
	return c.publish(report, out)
}

// MeasureRows is Measure for a RowCost. Without a ClickHouse it leaves that out.
func (c *Command) MeasureRows(ctx context.Context, server *clickhouse.Config, lite bool, out io.Writer) error {
	dir, err := os.MkdirTemp(c.Dir, "muniment-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rows := &RowCost{
		Dir: dir, Out: out, ClickHouse: server, SQLite: lite, Rounds: c.Rounds, Large: 3, Small: 30,
	}
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
	return failed(report.Verdicts)
}

// MeasureScale is Measure for a Scale and, if there is a ClickHouse, for a ScaleWarehouse.
func (c *Command) MeasureScale(ctx context.Context, exe, python string, server *clickhouse.Config, embedded bool, out io.Writer) error {
	dir, err := os.MkdirTemp(c.Dir, "muniment-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	small := &Scale{Exe: exe, Dir: dir, Out: out, Receipts: 1_500_000, Rights: 50_000, Python: python, Window: 20 * time.Second}
	large := &ScaleWarehouse{Out: out, Config: server, Deliveries: 10_000_000, Copies: 100}
	if c.Quick {
		small.Receipts, small.Rights, small.Window, large.Deliveries, large.Copies = 1000, 20, 200*time.Millisecond, 40_000, 2
	}
	var verdicts []Verdict
	if server != nil {
		if verdicts, err = large.Run(ctx); err != nil {
			return err
		}
	}
	if embedded {
		more, err := small.Run(ctx)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, more...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, on %s.\n\n", time.Now().UTC().Format("2 January 2006"), describeMachine(dir))
	writeVerdicts(&b, verdicts)
	if _, err := io.WriteString(out, b.String()); err != nil || c.Quick {
		return err
	}
	return failed(verdicts)
}

// connections are those that were asked for, or the usual ones.
func (c *Command) connections(usual ...int) []int {
	if len(c.Connections) > 0 {
		return c.Connections
	}
	return usual
}
