package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"text/tabwriter"

	"muniment.example/control/route"
	"muniment.example/sealer/terminal"
)

// QuarantineCommands declares the subcommands of "muniment quarantine" for kong.
type QuarantineCommands struct {
	List    ListCommand    `cmd:"" help:"List the records that hold sealing, and why."`
	Release ReleaseCommand `cmd:"" help:"Permanently release records, so that sealing continues without them; each release is an event."`
}

// ListCommand lists quarantined records.
type ListCommand struct {
	JSON bool `help:"Print one JSON object."`
}

// Run sends the request to the server.
func (c *ListCommand) Run(server route.AdminClient, out io.Writer) error {
	var list QuarantinedList
	if err := server.Do(http.MethodGet, "/admin/quarantine", nil, &list); err != nil {
		return fmt.Errorf("cannot list the quarantined records: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(list)
	}
	if list.Total == 0 {
		_, err := fmt.Fprintln(out, "No record holds sealing.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POSITION\tTENANT\tEVENT\tREASON")
	for _, s := range list.Records {
		terminal.Fprintf(table, "%s\t%s\t%s\t%s\n", s.Position, s.TenantID, s.EventID, s.Reason)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if more := list.Total - int64(len(list.Records)); more > 0 {
		terminal.Fprintf(out, "and %d more after them\n", more)
	}
	return nil
}

// ReleaseCommand releases quarantined records.
type ReleaseCommand struct {
	Position []string `arg:"" optional:"" help:"The records' positions (muniment quarantine list)."`
	All      bool     `help:"Release every record that holds sealing."`
	Reason   string   `required:"" help:"Kept in the audit log."`
	JSON     bool     `help:"Print one JSON object for each request, of up to 500 records."`
}

// Validate requires records.
func (c *ReleaseCommand) Validate() error {
	if c.All == (len(c.Position) > 0) {
		return errors.New("give positions or --all")
	}
	return nil
}

// Run sends requests to the server, each for at most mostListed records.
func (c *ReleaseCommand) Run(server route.AdminClient, out io.Writer) error {
	for positions := range slices.Chunk(c.Position, mostListed) {
		if err := c.release(server, out, positions); err != nil {
			return err
		}
	}
	for c.All {
		var list QuarantinedList
		if err := server.Do(http.MethodGet, "/admin/quarantine", nil, &list); err != nil {
			return fmt.Errorf("cannot list the quarantined records: %w", err)
		}
		var positions []string
		for _, s := range list.Records {
			positions = append(positions, s.Position)
		}
		if len(positions) == 0 {
			break
		}
		if err := c.release(server, out, positions); err != nil {
			return err
		}
	}
	return nil
}

func (c *ReleaseCommand) release(server route.AdminClient, out io.Writer, positions []string) error {
	var done Releases
	in := map[string]any{"positions": positions, "reason": c.Reason}
	if err := server.Do(http.MethodPost, "/admin/quarantine/release", in, &done); err != nil {
		return fmt.Errorf("cannot release the records: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(done)
	}
	for _, one := range done.Released {
		if _, err := terminal.Fprintf(out, "%s is released; the event is in the log of %s\n", one.Record.Position, one.TenantID); err != nil {
			return err
		}
	}
	return nil
}
