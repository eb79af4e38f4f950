package signing

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/sealer/terminal"
)

// Commands are what "muniment signing-key" does, in the form that kong reads.
type Commands struct {
	List     ListCommand     `cmd:"" help:"List every key that ever signed, oldest first."`
	Rotate   RotateCommand   `cmd:"" help:"Replace a current key by a new one, without a gap."`
	Revoke   RevokeCommand   `cmd:"" help:"Revoke a key, so that verifiers no longer trust it."`
	Delegate DelegateCommand `cmd:"" help:"Submit the root's delegation to the directory key that waits for it."`
}

// ListCommand lists signing keys.
type ListCommand struct {
	JSON bool `help:"Print one JSON object."`
}

// Run sends the request to the server.
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
		terminal.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.KeyID, k.Purpose, k.NodeID, k.State, k.NotBefore, k.NotAfter)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	terminal.Fprintf(out, "\nroot  %s\n", list.Root)
	return list.Waiting.print(out)
}

// print says what the root's holder has to do.
func (w *Waiting) print(out io.Writer) error {
	if w == nil {
		return nil
	}
	_, err := terminal.Fprintf(out, "\nThe directory key %s waits for the root's delegation. Copy its public half to the machine that\n"+
		"has the root key, run muniment root delegate there, and submit the output with muniment signing-key delegate.\n\n", w.KeyID)
	if err != nil {
		return err
	}
	if block, _ := pem.Decode([]byte(w.PublicKey)); block != nil { // the only text of a server that has several lines
		return pem.Encode(out, &pem.Block{Type: "PUBLIC KEY", Bytes: block.Bytes})
	}
	_, err = terminal.Fprintf(out, "%s\n", w.PublicKey)
	return err
}

// RotateCommand rotates a signing key.
type RotateCommand struct {
	KeyID string `arg:"" help:"The current key (muniment signing-key list)."`
	JSON  bool   `help:"Print one JSON object."`
}

// Run sends the request to the server.
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
		_, err = terminal.Fprintf(out, "The node %s has to make a new key, and does so when it next reaches control; %s is valid until %s at the latest.\n",
			s.Replaced.NodeID, s.Replaced.KeyID, s.Replaced.NotAfter)
	case s.Replaced != nil:
		_, err = terminal.Fprintf(out, "%s signs from %s on; %s is valid until %s\n", s.Key.KeyID, s.Key.NotBefore, s.Replaced.KeyID, s.Replaced.NotAfter)
	default:
		_, err = terminal.Fprintf(out, "%s signs from %s on\n", s.Key.KeyID, s.Key.NotBefore)
	}
	return err
}

// RevokeCommand revokes a signing key.
type RevokeCommand struct {
	KeyID  string `arg:"" help:"The key (muniment signing-key list)."`
	Reason string `help:"Why; kept in the audit log."`
	Force  bool   `help:"Revoke the key even if some tenants can't be sealed first, which the response names, or if its node did not confirm that it has stopped using the key."`
	JSON   bool   `help:"Print one JSON object."`
}

// Run sends the request to the server.
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
		terminal.Fprintf(out, "%s signs from %s on\n", v.Successor.KeyID, v.Successor.NotBefore)
	}
	for _, u := range v.Unsealed {
		terminal.Fprintf(out, "%s could not be sealed before the revocation: %s\n", u.TenantID, u.Reason)
	}
	_, err := terminal.Fprintf(out, "%s was revoked at %s\n", v.Key.KeyID, v.Key.RevokedAt)
	return err
}

// DelegateCommand submits a delegation.
type DelegateCommand struct {
	File string `arg:"" type:"existingfile" help:"The delegation, as muniment root delegate printed it."`
	JSON bool   `help:"Print one JSON object."`
}

// Run sends the request to the server.
func (c *DelegateCommand) Run(server route.AdminClient, out io.Writer) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	var s Succession
	if err := server.Do(http.MethodPost, "/admin/signing-keys/delegations", map[string]any{"delegation": string(text)}, &s); err != nil {
		return fmt.Errorf("cannot submit the delegation: %w", err)
	}
	return s.print(out, c.JSON)
}

// RootCommands are what "muniment root" does, on the machine that has the root key and without a
// server.
type RootCommands struct {
	Generate GenerateRootCommand `cmd:"" help:"Make a root key, and print its verifying half, which belongs into keys/root.vkey of a new data folder and to every auditor."`
	Delegate RootDelegateCommand `cmd:"" help:"Sign the root key's delegation to a directory key, and print it."`
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

// RootDelegateCommand signs a delegation with the root key.
type RootDelegateCommand struct {
	KeyFile string        `arg:"" type:"existingfile" help:"Public half of the directory key, PEM."`
	SKey    string        `name:"skey" required:"" type:"existingfile" help:"Signing half of the root key." placeholder:"FILE"`
	From    time.Time     `time:"" example:"2027-01-31T00:00:00Z" help:"Start of the delegation, RFC 3339; default: now."`
	For     time.Duration `default:"17520h" least:"1s" help:"Duration of the delegation; the default is two years."`
}

// Run prints the delegation.
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
