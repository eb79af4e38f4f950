package signing

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"muniment/control/route"
	"muniment/control/store"
)

// Commands are what "muniment signing-key" does, in the form that kong reads.
type Commands struct {
	List     ListCommand     `cmd:"" help:"List every key that ever signed, oldest first."`
	Rotate   RotateCommand   `cmd:"" help:"Let a new key take over from a current one, without a gap."`
	Revoke   RevokeCommand   `cmd:"" help:"Declare that a key is not to be trusted any more."`
	Delegate DelegateCommand `cmd:"" help:"Hand in the root's delegation to the directory key that waits."`
}

// ListCommand lists signing keys.
type ListCommand struct {
	JSON bool `help:"Print one JSON object."`
}

// Run asks the server.
func (c *ListCommand) Run(server route.AdminClient, out io.Writer) error {
	var list SigningKeys
	if err := server.Do(http.MethodGet, "/admin/signing-keys", nil, &list); err != nil {
		return fmt.Errorf("cannot list the signing keys: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(list)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tPURPOSE\tNODE\tSTATE\tNOT BEFORE\tNOT AFTER")
	for _, k := range list.Keys {
		if k.Leaving && k.State == "ACTIVE" {
			k.State = "LEAVING"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.KeyID, k.Purpose, k.NodeID, k.State, k.NotBefore, k.NotAfter)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nroot  %s\n", list.Root)
	return list.Waiting.print(out)
}

// print says what the root has to do.
func (w *Waiting) print(out io.Writer) error {
	if w == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "\nThe directory key %s waits for the root's delegation. Take its public half to the root key,\n"+
		"run muniment root delegate there, and hand its answer in by muniment signing-key delegate.\n\n%s", w.KeyID, w.PublicKey)
	return err
}

// RotateCommand rotates a signing key.
type RotateCommand struct {
	KeyID string `arg:"" help:"The current key (muniment signing-key list)."`
	JSON  bool   `help:"Print one JSON object."`
}

// Run asks the server.
func (c *RotateCommand) Run(server route.AdminClient, out io.Writer) error {
	var s Succession
	if err := server.Do(http.MethodPost, "/admin/signing-keys/"+url.PathEscape(c.KeyID)+"/rotate", nil, &s); err != nil {
		return fmt.Errorf("cannot rotate the signing key: %w", err)
	}
	return s.print(out, c.JSON)
}

func (s *Succession) print(out io.Writer, asJSON bool) (err error) {
	switch {
	case asJSON:
		err = json.NewEncoder(out).Encode(s)
	case s.Waiting != nil:
		err = s.Waiting.print(out)
	case s.Key == nil:
		_, err = fmt.Fprintf(out, "The node %s was asked for another key, and makes it once it reaches control; %s is valid until %s at most.\n",
			s.Replaced.NodeID, s.Replaced.KeyID, s.Replaced.NotAfter)
	case s.Replaced != nil:
		_, err = fmt.Fprintf(out, "%s signs from %s on; %s is valid until %s\n", s.Key.KeyID, s.Key.NotBefore, s.Replaced.KeyID, s.Replaced.NotAfter)
	default:
		_, err = fmt.Fprintf(out, "%s signs from %s on\n", s.Key.KeyID, s.Key.NotBefore)
	}
	return err
}

// RevokeCommand revokes a signing key.
type RevokeCommand struct {
	KeyID  string `arg:"" help:"The key (muniment signing-key list)."`
	Reason string `help:"Told in the audit log."`
	Force  bool   `help:"Seal what can be sealed, and revoke it although some tenants can't be, which the answer names, or a node in a process of its own did not put it out of use."`
	JSON   bool   `help:"Print one JSON object."`
}

// Run asks the server.
func (c *RevokeCommand) Run(server route.AdminClient, out io.Writer) error {
	var v Revoked
	in := map[string]any{"reason": c.Reason, "force": c.Force}
	if err := server.Do(http.MethodPost, "/admin/signing-keys/"+url.PathEscape(c.KeyID)+"/revoke", in, &v); err != nil {
		return fmt.Errorf("cannot revoke the signing key: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(v)
	}
	if v.Successor != nil {
		fmt.Fprintf(out, "%s signs from %s on\n", v.Successor.KeyID, v.Successor.NotBefore)
	}
	for _, u := range v.Unsealed {
		fmt.Fprintf(out, "%s could not be sealed before: %s\n", u.TenantID, u.Reason)
	}
	_, err := fmt.Fprintf(out, "%s is revoked since %s\n", v.Key.KeyID, v.Key.RevokedAt)
	return err
}

// DelegateCommand hands in a delegation.
type DelegateCommand struct {
	File string `arg:"" type:"existingfile" help:"The delegation: what muniment root delegate printed."`
	JSON bool   `help:"Print one JSON object."`
}

// Run asks the server.
func (c *DelegateCommand) Run(server route.AdminClient, out io.Writer) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	var s Succession
	if err := server.Do(http.MethodPost, "/admin/signing-keys/delegations", map[string]any{"delegation": string(text)}, &s); err != nil {
		return fmt.Errorf("cannot hand in the delegation: %w", err)
	}
	return s.print(out, c.JSON)
}

// RootCommands are what "muniment root" does, beside the root key and without a server.
type RootCommands struct {
	Generate GenerateRootCommand `cmd:"" help:"Make a root key; print its verifying half, which goes into keys/root.vkey of a new data folder and to every auditor."`
	Delegate RootDelegateCommand `cmd:"" help:"Let the root key delegate to a directory key; print the delegation."`
}

// GenerateRootCommand makes a root key.
type GenerateRootCommand struct {
	Out  string `required:"" type:"path" help:"New file for the signing half; keep it offline." placeholder:"FILE"`
	Name string `default:"muniment" help:"Name of the root key."`
}

// Run makes the key.
func (c *GenerateRootCommand) Run(out io.Writer) error {
	vkey, err := GenerateRoot(c.Out, c.Name)
	if err == nil {
		_, err = fmt.Fprintln(out, vkey)
	}
	return err
}

// RootDelegateCommand lets the root delegate.
type RootDelegateCommand struct {
	KeyFile string        `arg:"" type:"existingfile" help:"Public half of the directory key, PEM."`
	SKey    string        `name:"skey" required:"" type:"existingfile" help:"Signing half of the root key." placeholder:"FILE"`
	From    time.Time     `help:"From when on, RFC 3339; default: now."`
	For     time.Duration `default:"17520h" help:"How long; by default for two years."`
}

// Run signs.
func (c *RootDelegateCommand) Run(out io.Writer) error {
	from := c.From
	if from.IsZero() {
		from = time.Now()
	}
	from = store.At(from).Time
	delegation, err := DelegateOffline(c.SKey, c.KeyFile, from, store.At(from.Add(c.For)).Time)
	if err == nil {
		_, err = io.WriteString(out, delegation)
	}
	return err
}
