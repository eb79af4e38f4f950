package node

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"muniment.example/control/route"
	"muniment.example/sealer/terminal"
)

// Commands are the subcommands of "muniment node", as kong reads them.
type Commands struct {
	Invite InviteCommand `cmd:"" help:"Make an invitation that lets one node join within an hour."`
	Expel  ExpelCommand  `cmd:"" help:"Permanently remove a node, after sealing what it signed."`
	Unbar  UnbarCommand  `cmd:"" help:"Let another node join with a certificate that has the name of a node that was expelled or asked to leave."`
}

// InviteCommand makes an invitation.
type InviteCommand struct {
	JSON bool `help:"Print one JSON object."`
}

// Run sends the request to the server, and prints the invitation.
func (c *InviteCommand) Run(server route.AdminClient, out io.Writer) error {
	var v Invitation
	if err := server.Do(http.MethodPost, "/admin/nodes/invitations", nil, &v); err != nil {
		return fmt.Errorf("cannot invite a node: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(v)
	}
	_, err := terminal.Fprintf(out, "%s\n\nThis invitation lets one node join until %s. It is not shown again.\n", v.Token, v.ExpiresAt)
	return err
}

// ExpelCommand expels a node.
type ExpelCommand struct {
	NodeID string `arg:"" help:"The node's id (muniment signing-key list)."`
	Reason string `help:"Reason to record in the audit log."`
	Force  bool   `help:"Expel the node even if it has not reported that everything it signed is in the log, or if some tenants can't be sealed. The output names these tenants."`

	AbandonSpool bool `help:"Give up the records in the node's spool because they are lost. An event records how many the node last reported, and seals no longer list them. Also works on a node that is already expelled."`
	JSON         bool `help:"Print one JSON object."`
}

// Run sends the request to the server, and prints what was done.
func (c *ExpelCommand) Run(server route.AdminClient, out io.Writer) error {
	var v Expelled
	in := map[string]any{"reason": c.Reason, "force": c.Force, "abandonSpool": c.AbandonSpool}
	if err := server.Do(http.MethodPost, "/admin/nodes/"+url.PathEscape(c.NodeID)+"/expel", in, &v); err != nil {
		return fmt.Errorf("cannot expel the node: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(v)
	}
	for _, u := range v.Unsealed {
		terminal.Fprintf(out, "%s could not be sealed before the expulsion: %s\n", u.TenantID, u.Reason)
	}
	for _, k := range v.Keys {
		terminal.Fprintf(out, "key %s was revoked at %s\n", k.KeyID, k.RevokedAt)
	}
	if v.Spooled > 0 {
		terminal.Fprintf(out, "%d records are only in the node's spool: seals list them until you give them up with --abandon-spool\n", v.Spooled)
	}
	if v.Name != "" {
		terminal.Fprintf(out, "no node can join as %s until you run muniment node unbar %s\n", v.Name, v.Name)
	}
	_, err := terminal.Fprintf(out, "node %s was expelled at %s\n", v.NodeID, v.ExpelledAt)
	return err
}

// UnbarCommand lifts the bar on a node's name.
type UnbarCommand struct {
	Name string `arg:"" help:"The node's name in the certificate."`
	JSON bool   `help:"Print one JSON object."`
}

// Run sends the request to the server, and prints what was done.
func (c *UnbarCommand) Run(server route.AdminClient, out io.Writer) error {
	var v Unbarred
	if err := server.Do(http.MethodPost, "/admin/nodes/unbar", map[string]string{"name": c.Name}, &v); err != nil {
		return fmt.Errorf("cannot lift the bar on the name: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(v)
	}
	_, err := terminal.Fprintf(out, "another node may join as %s, formerly the name of %s\n", v.Name, v.NodeID)
	return err
}
