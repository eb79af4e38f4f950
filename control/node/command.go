package node

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"muniment/control/route"
)

// Commands are what "muniment node" does, in the form that kong reads.
type Commands struct {
	Invite InviteCommand `cmd:"" help:"Let one node in a process of its own join, within an hour."`
	Expel  ExpelCommand  `cmd:"" help:"Put a node in a process of its own out for good, once what it signed is sealed."`
	Unbar  UnbarCommand  `cmd:"" help:"Let another node join by a certificate under the name of one that was expelled."`
}

// InviteCommand makes an invitation.
type InviteCommand struct {
	JSON bool `help:"Print one JSON object."`
}

// Run asks the server.
func (c *InviteCommand) Run(server route.AdminClient, out io.Writer) error {
	var v Invitation
	if err := server.Do(http.MethodPost, "/admin/nodes/invitations", nil, &v); err != nil {
		return fmt.Errorf("cannot invite a node: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(v)
	}
	_, err := fmt.Fprintf(out, "%s\n\nIt lets one node join until %s, and is not shown again.\n", v.Token, v.ExpiresAt)
	return err
}

// ExpelCommand expels a node.
type ExpelCommand struct {
	NodeID string `arg:"" help:"The node (muniment signing-key list)."`
	Reason string `help:"Told in the audit log."`
	Force  bool   `help:"Expel it although it did not say that what it signed is in the log, or some tenants can't be sealed, which the answer names."`

	AbandonSpool bool `help:"Give up what is in its spool, which is lost: an event tells how many records that were by its last word, and seals name them no more. Also of a node that was expelled before."`
	JSON         bool `help:"Print one JSON object."`
}

// Run asks the server.
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
		fmt.Fprintf(out, "%s could not be sealed before: %s\n", u.TenantID, u.Reason)
	}
	for _, k := range v.Keys {
		fmt.Fprintf(out, "%s is revoked since %s\n", k.KeyID, k.RevokedAt)
	}
	if v.Spooled > 0 {
		fmt.Fprintf(out, "%d records are in its spool alone: seals name them until they are given up, by --abandon-spool\n", v.Spooled)
	}
	if v.Name != "" {
		fmt.Fprintf(out, "no node joins as %s any more, until muniment node unbar %s\n", v.Name, v.Name)
	}
	_, err := fmt.Fprintf(out, "%s is expelled since %s\n", v.NodeID, v.ExpelledAt)
	return err
}

// UnbarCommand lifts the bar of a node's name.
type UnbarCommand struct {
	Name string `arg:"" help:"The name in the certificate."`
	JSON bool   `help:"Print one JSON object."`
}

// Run asks the server.
func (c *UnbarCommand) Run(server route.AdminClient, out io.Writer) error {
	var v Unbarred
	if err := server.Do(http.MethodPost, "/admin/nodes/unbar", map[string]string{"name": c.Name}, &v); err != nil {
		return fmt.Errorf("cannot lift the bar: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(v)
	}
	_, err := fmt.Fprintf(out, "another node may join as %s, which was the name of %s\n", v.Name, v.NodeID)
	return err
}
