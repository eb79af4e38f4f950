package sealer

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// delegationHeader is the first line of a delegation, so that the root can't be
// made to delegate by a note meant for something else.
const delegationHeader = "muniment/directory-key.v1"

// Delegate lets key sign directories that are issued from notBefore on and before
// notAfter. It returns a C2SP signed note by the root of five lines:
// "muniment/directory-key.v1", key id, public key in base64url, notBefore and
// notAfter. The root must not give two keys the same notBefore: that is what orders
// them.
func Delegate(root note.Signer, key ed25519.PublicKey, notBefore, notAfter time.Time) (string, error) {
	d := Delegation{key, notBefore, notAfter}
	said, err := note.Sign(&note.Note{Text: d.text()}, root)
	if err == nil {
		_, err = parseDelegation(string(said)) // what can't be read must not be used
	}
	if err != nil {
		return "", fmt.Errorf("cannot delegate to directory key %s: %w", KeyID(key), err)
	}
	return string(said), nil
}

// Delegation is what the root says in a delegation: Key may sign directories that
// are issued at NotBefore ≤ t < NotAfter.
type Delegation struct {
	Key                 ed25519.PublicKey
	NotBefore, NotAfter time.Time
}

func (d *Delegation) text() string {
	return strings.Join([]string{
		delegationHeader, KeyID(d.Key), base64url.EncodeToString(d.Key), FormatTime(d.NotBefore), FormatTime(d.NotAfter), "",
	}, "\n")
}

// covers reports whether a directory may be issued at t.
func (d *Delegation) covers(t time.Time) bool { return !t.Before(d.NotBefore) && t.Before(d.NotAfter) }

// ReadDelegation reads what Delegate returned, strictly, and verifies that the
// root key, a C2SP vkey, has signed it.
func ReadDelegation(text, rootVkey string) (*Delegation, error) {
	root, err := ReadRoot(rootVkey)
	if err != nil {
		return nil, fmt.Errorf("cannot read root key: %w", err)
	}
	d, err := parseDelegation(text)
	if err == nil {
		err = checkRoot(text, root)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read delegation: %w", err)
	}
	return d, nil
}

// parseDelegation reads a delegation. It verifies no signature.
func parseDelegation(text string) (*Delegation, error) {
	said := delegationLines(text)
	lines := strings.Split(said, "\n")
	if len(lines) != 6 || lines[0] != delegationHeader {
		return nil, errors.New("the delegation is not for a directory key")
	}
	key, err := ReadPublicKey(lines[2])
	if err != nil {
		return nil, err
	}
	d := &Delegation{Key: key}
	if d.NotBefore, err = ParseTime(lines[3]); err != nil {
		return nil, err
	}
	if d.NotAfter, err = ParseTime(lines[4]); err != nil {
		return nil, err
	}
	switch {
	case d.text() != said:
		return nil, ErrNotCanonical
	case !d.NotBefore.Before(d.NotAfter):
		return nil, errors.New("the delegation ends before it begins")
	}
	return d, nil
}

// delegationLines is what a delegation says: the note up to the blank line.
func delegationLines(text string) string {
	said, _, _ := strings.Cut(text, "\n\n")
	return said + "\n"
}

// checkRoot asks that the root has signed the delegation.
func checkRoot(delegation string, root note.Verifier) error {
	said, err := openNote(delegation, root)
	if err == nil && said.Text != delegationLines(delegation) {
		err = ErrNotCanonical
	}
	if err != nil {
		return fmt.Errorf("delegation by the root: %w", err)
	}
	return nil
}
