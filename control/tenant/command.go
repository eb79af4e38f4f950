package tenant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/sealer/terminal"
)

// TenantCommands are what "muniment tenant" does, in the form that kong reads.
type TenantCommands struct {
	Create CreateTenantCommand `cmd:"" help:"Create a tenant, its first developer and an API key."`
	List   ListTenantsCommand  `cmd:"" help:"List the tenants, newest first."`
}

// CreateTenantCommand creates a tenant.
type CreateTenantCommand struct {
	Org   string   `required:"" help:"Organisation, such as org_acme."`
	Email string   `help:"E-mail address of the developer."`
	Scope []string `help:"Scopes of the key; default: every scope but *."`
	Env   string   `default:"test" enum:"test,live" help:"Environment of the key: ${enum}."`

	TimeZone string `help:"IANA time zone of its statements and rules, unless they name another; default: UTC."`
	Another  bool   `help:"Create a tenant even if the organisation has one."`
	Print
}

// Run sends the request to the server.
func (c *CreateTenantCommand) Run(server route.AdminClient, out io.Writer) error {
	var made Created
	request := Request{Org: c.Org, Email: c.Email, Scopes: c.Scope, Env: c.Env, Another: c.Another, TimeZone: c.TimeZone}
	if err := server.Do(http.MethodPost, "/admin/tenants", request, &made); err != nil {
		return fmt.Errorf("cannot create the tenant: %w", err)
	}
	text := terminal.Sprintf("tenant     %s\norg        %s\ndeveloper  %s\nkey        %s\n", made.TenantID, made.OrgID, made.DeveloperID, made.KeyID)
	return c.print(out, made, text, made.APIKey)
}

// ListTenantsCommand lists tenants.
type ListTenantsCommand struct {
	JSON bool `help:"Print one JSON object."`
}

// Run sends the request to the server.
func (c *ListTenantsCommand) Run(server route.AdminClient, out io.Writer) error {
	all, err := pages(server, "/admin/tenants", url.Values{}, func(page Tenants) ([]Listed, *string) { return page.Tenants, page.NextCursor })
	if err != nil {
		return fmt.Errorf("cannot list the tenants: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(map[string]any{"tenants": all})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TENANT\tORGANISATION\tCREATED\tKEYS\tEMAIL\tSANDBOX")
	for _, t := range all {
		sandbox := "-"
		if t.Sandbox {
			sandbox = "sandbox"
		}
		terminal.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", t.TenantID, t.OrgID, t.CreatedAt, t.Keys, cmp.Or(t.Email, "-"), sandbox)
	}
	return table.Flush()
}

// pages requests a whole list from the server, page by page.
func pages[P, R any](server route.AdminClient, path string, query url.Values, of func(P) (records []R, next *string)) ([]R, error) {
	all := []R{}
	query.Set("limit", "500")
	for {
		var page P
		if err := server.Do(http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		records, next := of(page)
		if all = append(all, records...); next == nil {
			return all, nil
		}
		query.Set("cursor", *next)
	}
}

// Commands are what "muniment key" does, in the form that kong reads.
type Commands struct {
	Create CreateCommand `cmd:"" help:"Create an API key for a tenant."`
	List   ListCommand   `cmd:"" help:"List the API keys of a tenant, newest first."`
	Rotate RotateCommand `cmd:"" help:"Replace an API key by a new one."`
	Revoke RevokeCommand `cmd:"" help:"Permanently revoke an API key."`
}

// CreateCommand creates a key.
type CreateCommand struct {
	Tenant  string    `required:"" help:"Tenant, such as tnt_01J…"`
	Label   string    `required:"" help:"What the key is for."`
	Scope   []string  `help:"Scopes of the key; default: every scope but *."`
	Env     string    `default:"test" enum:"test,live" help:"Environment of the key: ${enum}."`
	Expires time.Time `time:"" example:"2027-01-31T00:00:00Z" help:"When the key expires, RFC 3339; default: never."`
	Print
}

// Run sends the request to the server.
func (c *CreateCommand) Run(server route.AdminClient, out io.Writer) error {
	q := OperatorKeyRequest{TenantID: c.Tenant, Env: c.Env, KeyRequest: KeyRequest{Label: c.Label, Scopes: c.Scope, ExpiresAt: timeFlag(c.Expires)}}
	var made Made
	if err := server.Do(http.MethodPost, "/admin/api-keys", q, &made); err != nil {
		return fmt.Errorf("cannot create the key: %w", err)
	}
	return c.print(out, made, made.Key.text(), made.APIKey)
}

// ListCommand lists keys.
type ListCommand struct {
	Tenant string `required:"" help:"Tenant, such as tnt_01J…"`
	JSON   bool   `help:"Print one JSON object."`
}

// Run sends the request to the server.
func (c *ListCommand) Run(server route.AdminClient, out io.Writer) error {
	all, err := pages(server, "/admin/api-keys", url.Values{"tenantId": {c.Tenant}}, func(page List) ([]Key, *string) { return page.Keys, page.NextCursor })
	if err != nil {
		return fmt.Errorf("cannot list the keys: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(map[string]any{"keys": all})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tLABEL\tCREATED\tEXPIRES\tREVOKED\tSUCCESSOR")
	for _, k := range all {
		successor := "-"
		if k.SuccessorKeyID != nil {
			successor = *k.SuccessorKeyID
		}
		terminal.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.KeyID, k.Label, k.CreatedAt, k.ExpiresAt, k.RevokedAt, successor)
	}
	return table.Flush()
}

// RotateCommand rotates a key.
type RotateCommand struct {
	KeyID   string        `arg:"" help:"The old key, such as key_01J…"`
	Overlap time.Duration `default:"24h" least:"0s" help:"How long the old key still works."`
	Expires time.Time     `time:"" example:"2027-01-31T00:00:00Z" help:"When the new key expires, RFC 3339; by default it lives as long as the old one was meant to."`
	Print
}

// Run sends the request to the server.
func (c *RotateCommand) Run(server route.AdminClient, out io.Writer) error {
	overlap := int64(c.Overlap / time.Second)
	var rotated Rotated
	q := Rotation{OverlapSeconds: &overlap, ExpiresAt: timeFlag(c.Expires)}
	if err := server.Do(http.MethodPost, "/admin/api-keys/"+url.PathEscape(c.KeyID)+"/rotate", q, &rotated); err != nil {
		return fmt.Errorf("cannot rotate the key: %w", err)
	}
	if !c.JSON && !c.KeyOnly {
		terminal.Fprintf(out, "%s works until %s\n\n", rotated.Replaced.KeyID, rotated.Replaced.ExpiresAt)
	}
	return c.print(out, rotated, rotated.Key.text(), rotated.APIKey)
}

// RevokeCommand revokes a key.
type RevokeCommand struct {
	KeyID string `arg:"" help:"The key, such as key_01J…"`
	JSON  bool   `help:"Print one JSON object."`
}

// Run sends the request to the server.
func (c *RevokeCommand) Run(server route.AdminClient, out io.Writer) error {
	var revoked Revocation
	if err := server.Do(http.MethodPost, "/admin/api-keys/"+url.PathEscape(c.KeyID)+"/revoke", nil, &revoked); err != nil {
		return fmt.Errorf("cannot revoke the key: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(revoked)
	}
	where := "on every live node"
	if !revoked.Propagation.Applied {
		where = "in control; not every live node has applied it yet"
	}
	_, err := terminal.Fprintf(out, "%s was revoked at %s, %s\n", revoked.Key.KeyID, revoked.Key.RevokedAt, where)
	for _, successor := range revoked.Successors {
		if err == nil {
			_, err = terminal.Fprintf(out, "Its successor %s still works: revoke it too, unless you created it.\n", successor)
		}
	}
	for _, made := range revoked.MadeKeys {
		if err == nil && !slices.Contains(revoked.Successors, made.KeyID) {
			_, err = terminal.Fprintf(out, "The key %s, %q, was created with it and still works: revoke it too, unless you created it.\n", made.KeyID, made.Label)
		}
	}
	for _, m := range revoked.MadeMembers {
		if err == nil {
			_, err = terminal.Fprintf(out, "The member %s, with the role %s, was invited with it and may sign in: remove the member, unless you know who it is.\n", m.MemberID, m.Role)
		}
	}
	for _, l := range revoked.MadePayeeLinks {
		if err == nil {
			_, err = terminal.Fprintf(out, "The payee's link %s was made with it and still works: revoke it too, unless you made it.\n", l.PayeeLinkID)
		}
	}
	for _, invited := range revoked.WithdrawnInvitations {
		if err == nil {
			_, err = terminal.Fprintf(out, "The member %s, whom it had invited and who had not signed in, was removed.\n", invited)
		}
	}
	if err == nil && (revoked.MoreMadeKeys || revoked.MoreMadeMembers || revoked.MoreMadePayeeLinks) {
		_, err = fmt.Fprintln(out, "It made more than is listed: end some of these, and run the command again.")
	}
	return err
}

// Print are the flags for how a new key is printed.
type Print struct {
	JSON    bool `help:"Print one JSON object."`
	KeyOnly bool `help:"Print the API key and nothing else."`
}

// print writes the record, whose text is made, and the API key after it.
func (p Print) print(out io.Writer, all any, made, token string) (err error) {
	switch {
	case p.KeyOnly:
		_, err = terminal.Fprintf(out, "%s\n", token)
	case p.JSON:
		err = json.NewEncoder(out).Encode(all)
	default:
		_, err = fmt.Fprintf(out, "%s\nAPI key, shown only once:\n%s\n", made, terminal.Text(token))
	}
	return err
}

func (k *Key) text() string {
	return terminal.Sprintf("key      %s\nlabel    %s\nexpires  %s\n", k.KeyID, k.Label, k.ExpiresAt)
}

// timeFlag is nil for a flag that is not set.
func timeFlag(t time.Time) *route.Time {
	if t.IsZero() {
		return nil
	}
	return new(route.Time(store.At(t).String()))
}
