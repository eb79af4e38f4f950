package proof

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
)

// Server is the admin listener of a running server.
type Server interface {
	// Do calls an operation and decodes the data of its answer into out.
	Do(method, path string, in, out any) error
}

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
func (c *ListCommand) Run(server Server, out io.Writer) error {
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
	Position []string `arg:"" help:"Where the records stand (muniment set-aside list)."`
	Reason   string   `required:"" help:"Told in the audit log."`
	JSON     bool     `help:"Print one JSON object a record."`
}

// Run asks the server, record by record, and stops at the first that can't be released.
func (c *ReleaseCommand) Run(server Server, out io.Writer) error {
	for _, at := range c.Position {
		var done Released
		in := map[string]any{"reason": c.Reason}
		err := server.Do(http.MethodPost, "/admin/set-aside/"+url.PathEscape(at)+"/release", in, &done)
		switch {
		case err != nil:
			return fmt.Errorf("cannot release the record at %s: %w", at, err)
		case c.JSON:
			err = json.NewEncoder(out).Encode(done)
		default:
			_, err = fmt.Fprintf(out, "%s is released; the event is in the log of %s\n", done.Record.Position, done.TenantID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
