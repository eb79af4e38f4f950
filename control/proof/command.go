package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"text/tabwriter"

	"muniment/control/node"
)

// SetAsideCommands are what "muniment set-aside" does, in the form that kong reads.
type SetAsideCommands struct {
	List    ListCommand    `cmd:"" help:"List the records that hold sealing, and why."`
	Release ReleaseCommand `cmd:"" help:"Let sealing go on without records, for good; an event tells of each."`
}

// ListCommand lists records set aside.
type ListCommand struct {
	JSON bool `help:"Print one JSON object."`
}

// Run asks the server.
func (c *ListCommand) Run(server node.Server, out io.Writer) error {
	var list SetAsides
	if err := server.Do(http.MethodGet, "/admin/set-aside", nil, &list); err != nil {
		return fmt.Errorf("cannot list the records set aside: %w", err)
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%q\n", s.Position, s.TenantID, s.EventID, s.Reason)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if more := list.Total - int64(len(list.Records)); more > 0 {
		fmt.Fprintf(out, "and %d more behind them\n", more)
	}
	return nil
}

// ReleaseCommand releases records set aside.
type ReleaseCommand struct {
	Position []string `arg:"" optional:"" help:"Where the records stand (muniment set-aside list)."`
	All      bool     `help:"Release every record that holds sealing."`
	Reason   string   `required:"" help:"Told in the audit log."`
	JSON     bool     `help:"Print one JSON object a call, of up to 500 records."`
}

// Validate asks for records.
func (c *ReleaseCommand) Validate() error {
	if c.All == (len(c.Position) > 0) {
		return errors.New("name positions, or --all")
	}
	return nil
}

// Run asks the server, some records at a time.
func (c *ReleaseCommand) Run(server node.Server, out io.Writer) error {
	for positions := range slices.Chunk(c.Position, mostListed) {
		if err := c.release(server, out, positions); err != nil {
			return err
		}
	}
	for c.All {
		var list SetAsides
		if err := server.Do(http.MethodGet, "/admin/set-aside", nil, &list); err != nil {
			return fmt.Errorf("cannot list the records set aside: %w", err)
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

func (c *ReleaseCommand) release(server node.Server, out io.Writer, positions []string) error {
	var done Releases
	in := map[string]any{"positions": positions, "reason": c.Reason}
	if err := server.Do(http.MethodPost, "/admin/set-aside/release", in, &done); err != nil {
		return fmt.Errorf("cannot release the records: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(done)
	}
	for _, one := range done.Released {
		if _, err := fmt.Fprintf(out, "%s is released; the event is in the log of %s\n", one.Record.Position, one.TenantID); err != nil {
			return err
		}
	}
	return nil
}
