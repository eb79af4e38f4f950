package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"muniment.example/control/export"
	"muniment.example/deploy/process"
	"muniment.example/sealer/terminal"
)

type exportCmd struct {
	Out string `arg:"" name:"name" help:"The file (sqlite) or the folder (parquet) to write; it must not exist." type:"path"`

	URL     string `default:"http://127.0.0.1:8080" url:"http https" env:"MUNIMENT_URL" help:"The service. Its API key, with the scope audit:read, is read from MUNIMENT_API_KEY or --key-file."`
	KeyFile string `env:"MUNIMENT_API_KEY_FILE" help:"File that holds the API key." placeholder:"FILE" type:"path" file:""`
	CA      string `help:"Certificate authorities to trust as the service (PEM); default: those of the system." placeholder:"FILE" type:"path" file:"PEM"`

	Format   string        `default:"parquet" enum:"parquet,sqlite" help:"parquet: a folder with a file a table. sqlite: a file with all tables."`
	From     string        `day:"" example:"2026-11-01" help:"First day, in UTC, of what was shown or refused; default: from the beginning." placeholder:"DAY"`
	To       string        `day:"" example:"2026-12-01" help:"Day, in UTC, before which it was; default: to the end." placeholder:"DAY"`
	RetryFor time.Duration `default:"15m" least:"1ms" help:"How long to retry what the service can't answer."`
}

// Help is shown with the help of the flags.
func (c *exportCmd) Help() string {
	return "The tables are those of For analysts: receipts, metering_hourly, metering_daily, refusals, settlement_lines, and events with the rights and rules. " +
		"All are as of one moment. What is not whole is called NAME.partial: run the same command again to continue from it."
}

// Run exports.
func (c *exportCmd) Run() error {
	ctx, stop := process.Interrupted()
	defer stop()
	key, err := apiKeyOf(c.KeyFile)
	if err != nil {
		return err
	}
	over, err := transportTo(c.CA, 1)
	if err != nil {
		return err
	}
	shown := progressLines{every: 10 * time.Second}
	err = export.Run(ctx, export.Config{
		URL: c.URL, Key: key, HTTP: over, Format: export.Format(c.Format), Out: c.Out, From: c.From, To: c.To, RetryFor: c.RetryFor, Progress: shown.show,
	})
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return errors.New("interrupted: run the same command again to continue")
	case err != nil:
		return err
	}
	terminal.Fprintf(os.Stdout, "%s is whole: %d receipts\n", c.Out, shown.last.Receipts)
	return nil
}

// progressLines prints the progress of an export: each new step and trouble, and otherwise now and then.
type progressLines struct {
	every time.Duration
	at    time.Time
	last  export.Progress
}

func (l *progressLines) show(p export.Progress) {
	news := p.Step != l.last.Step || p.Trouble != l.last.Trouble
	l.last = p
	if !news && time.Since(l.at) < l.every {
		return
	}
	l.at = time.Now()
	line := fmt.Sprintf("%s: %d receipts", p.Step, p.Receipts)
	if p.Oldest != "" {
		line += ", back to " + p.Oldest
	}
	if p.Trouble != "" {
		line += "; again, since " + p.Trouble
	}
	terminal.Fprintf(os.Stderr, "%s\n", line)
}
