package access

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"muniment.example/control/route"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/terminal"
)

// Commands are what "muniment access" does, in the form that kong reads.
type Commands struct {
	List    ListCommand    `cmd:"" help:"List the applications for a key of the sandbox, newest first, and how far their mails are."`
	Approve ApproveCommand `cmd:"" help:"Approve an application and send its mail. Of one that is approved another mail is sent, and the links before end."`
	Refuse  RefuseCommand  `cmd:"" help:"Refuse an application, whose link ends if it was approved; or all of an address or host, or of a time, that are not approved."`
}

const adminPath = "/admin/access/applications"

// ListCommand lists applications.
type ListCommand struct {
	State string `help:"List those in this state: UNCONFIRMED, RECEIVED, APPROVED, ACTIVATED, REFUSED or EXPIRED; default: all." placeholder:"STATE"`
	JSON  bool   `help:"Print one JSON object."`
}

// Run sends the request to the server.
func (c *ListCommand) Run(server route.AdminClient, out io.Writer) error {
	all := []Listed{}
	query := url.Values{"limit": {"500"}}
	if c.State != "" {
		query.Set("state", strings.ToUpper(c.State))
	}
	for {
		var page List
		if err := server.Do(http.MethodGet, adminPath+"?"+query.Encode(), nil, &page); err != nil {
			return fmt.Errorf("cannot list the applications: %w", err)
		}
		all = append(all, page.Applications...)
		if page.NextCursor == nil {
			break
		}
		query.Set("cursor", *page.NextCursor)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(map[string]any{"applications": all})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "APPLICATION\tSTATE\tMADE\tEMAIL\tORGANISATION\tUSE\tMAIL\tTENANT")
	for _, a := range all {
		tenantID := "-"
		if a.ActivatedTenantID != nil {
			tenantID = *a.ActivatedTenantID
		}
		terminal.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, a.State, a.CreatedAt, a.Email, a.Organisation, strings.Join(strings.Fields(a.Use), " "), a.Mail.text(), tenantID)
	}
	return table.Flush()
}

// text is a mail in a table.
func (m Mail) text() string {
	text := string(m.State)
	if m.State == MailNone {
		text = "-"
	}
	if m.Code != "" {
		text += " after " + fmt.Sprint(m.Attempts) + " attempts: " + m.Code + ", " + cmp.Or(m.Detail, "-")
	}
	return text
}

// ApproveCommand approves an application.
type ApproveCommand struct {
	ApplicationID string `arg:"" help:"The application, such as app_01J…"`
	JSON          bool   `help:"Print one JSON object."`
}

// Run sends the request to the server.
func (c *ApproveCommand) Run(server route.AdminClient, out io.Writer) error {
	return decide(server, out, c.JSON, c.ApplicationID, "approve", "%s is approved, and its mail is queued: muniment access list shows whether it was sent\n")
}

// RefuseCommand refuses an application, or many.
type RefuseCommand struct {
	ApplicationID string        `arg:"" optional:"" help:"The application, such as app_01J…"`
	AllFrom       string        `help:"Refuse all applications of this address, or of this host, that are not approved." placeholder:"HOST|ADDRESS"`
	OlderThan     time.Duration `least:"0s" example:"72h" help:"Refuse all that are older and not approved; with --all-from, of those." placeholder:"DURATION"`
	JSON          bool          `help:"Print one JSON object."`
}

// Validate returns an error unless the command says which applications.
func (c *RefuseCommand) Validate() error {
	if many := c.AllFrom != "" || c.OlderThan > 0; many == (c.ApplicationID != "") {
		return errors.New("say one application, or --all-from or --older-than")
	}
	return nil
}

// Run sends the request to the server.
func (c *RefuseCommand) Run(server route.AdminClient, out io.Writer) error {
	if c.ApplicationID != "" {
		return decide(server, out, c.JSON, c.ApplicationID, "refuse", "%s is refused\n")
	}
	body, done := map[string]any{}, RefusedCount{}
	if c.AllFrom != "" {
		body["allFrom"] = c.AllFrom
	}
	if c.OlderThan > 0 {
		body["olderThan"] = canonical.FormatTime(time.Now().Add(-c.OlderThan))
	}
	if err := server.Do(http.MethodPost, adminPath+"/refuse", body, &done); err != nil {
		return fmt.Errorf("cannot refuse the applications: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(done)
	}
	_, err := fmt.Fprintf(out, "%d applications are refused\n", done.Refused)
	return err
}

func decide(server route.AdminClient, out io.Writer, asJSON bool, id, action, text string) error {
	var done One
	if err := server.Do(http.MethodPost, adminPath+"/"+url.PathEscape(id)+"/"+action, nil, &done); err != nil {
		return fmt.Errorf("cannot %s the application: %w", action, err)
	}
	if asJSON {
		return json.NewEncoder(out).Encode(done)
	}
	_, err := terminal.Fprintf(out, text, done.Application.ID)
	return err
}
