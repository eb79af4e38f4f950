package identity

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// What an operator must do.
const (
	invite  = "make an invitation with muniment node invite, and start the node with it"
	certify = "give the node a certificate, or " + invite
)

// create makes what the node joins with: a key, unless a start that was killed has left one,
// and then its id and its credential. All of it is on disk when create returns.
func (n *Node) create(files []*keyfile.Key) ([]*keyfile.Key, error) {
	if n.cfg.Invitation == "" && n.cfg.Invite == nil && n.cfg.Certificate == nil {
		return nil, errors.New("the node has not joined yet, and has neither an invitation nor a certificate: " + certify)
	}
	if len(files) == 0 {
		key, err := makeKey(n.cfg.Dir)
		if err != nil {
			return nil, err
		}
		files = []*keyfile.Key{key}
	}
	n.saved.NodeID = api.NewID(api.PrefixNode, n.cfg.Now())
	n.saved.Credential, _ = api.NewBearer(n.saved.NodeID)
	return files, n.saved.save(n.cfg.Dir)
}

// join presents the node to control, which has said that it does not know it.
func (n *Node) join(ctx context.Context, files []*keyfile.Key, unknown error) error {
	// A node that was ever open has joined before: an operator must decide that it joins again, unless
	// an authority goes on certifying it.
	if n.cfg.Invitation == "" && n.cfg.Invite != nil && n.highWater.IsZero() {
		var err error
		if n.cfg.Invitation, err = n.cfg.Invite(ctx); err != nil {
			return err
		}
	}
	switch {
	case n.cfg.Invitation == "" && n.cfg.Certificate == nil:
		return fmt.Errorf("%w\nIf the node has never joined, or control was restored from a time before it had, %s", unknown, invite)
	case len(files) == 0:
		return fmt.Errorf("%w\nThe node has no keys any more: %s", unknown, n.another())
	}
	// After a restore control may know keys of the node. Then it lets the node join with the
	// newest of them only, and the node does not know which that is.
	var err error
	for _, f := range files {
		if err = n.present(ctx, f); err == nil {
			n.cfg.Logger.Info("the node has joined", "nodeId", n.saved.NodeID, "keyId", sealer.KeyID(f.Pub))
			return nil
		}
		if !IsKnown(err) {
			break
		}
	}
	switch {
	case IsKnown(err):
		err = fmt.Errorf("%w\nAs it is this node can't join: %s", err, n.another())
	case refusal(err) != nil && refusal(err).Status == http.StatusUnprocessableEntity:
		err = fmt.Errorf("%w\nIt seems that control is of another version than this node: upgrade control first, then the node", err)
	case refusal(err) != nil && n.cfg.Certificate == nil:
		err = fmt.Errorf("%w\nIf the invitation is used up or too old, %s", err, invite)
	}
	return err
}

// another says how to have another node join in place of this one and take over its spool.
func (n *Node) another() string {
	if n.cfg.Certificate != nil {
		return fmt.Sprintf("move %s away (only that, not the spool beside it), and start the node again", n.cfg.Dir)
	}
	return fmt.Sprintf("move %s away (only that, not the spool beside it), %s", n.cfg.Dir, invite)
}

// IsKnown says whether Open has failed because control knows the node's id or its key
// otherwise: an identity of which a part was lost. It is of no use any more.
func IsKnown(err error) bool {
	r := refusal(err)
	return r != nil && r.Code == api.StateConflict && r.Field == "nodeId"
}

// present asks to join with a key.
func (n *Node) present(ctx context.Context, key *keyfile.Key) error {
	_, hash, _ := api.ReadBearer(api.PrefixNode, n.saved.Credential)
	pub := base64.RawURLEncoding.EncodeToString(key.Pub)
	once := func(control *api.Client, certificate string) error {
		signature, err := sign(key, api.JoinText(n.saved.NodeID, pub, hash, n.cfg.Invitation, certificate))
		if err != nil {
			return err
		}
		return n.once(ctx, control, api.PathJoin, api.JoinRequest{
			Invitation: n.cfg.Invitation, CertificateHash: certificate, NodeID: n.saved.NodeID, PublicKey: pub, CredentialHash: hash,
			Signature: signature, At: n.cfg.Now(),
		}, &api.Joined{})
	}
	if n.cfg.Certificate == nil {
		return n.again(ctx, "join", func() error { return once(n.control, "") })
	}
	if _, _, err := n.cfg.Certificate(); err != nil {
		return fmt.Errorf("cannot join by a certificate: %w", err)
	}
	return n.again(ctx, "join", func() error { // control may be away for longer than one is valid
		client, certificate, err := n.cfg.Certificate()
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		control, err := api.NewClient(n.cfg.Control, client)
		if err != nil {
			return err
		}
		return once(control, certificate)
	})
}

func sign(key *keyfile.Key, text []byte) (string, error) {
	signature, err := key.Sign(nil, text, &ed25519.Options{})
	return base64.RawURLEncoding.EncodeToString(signature), err
}

// start counts the start, and returns the directory's entries of the keys. Only control knows
// whether the node has joined: a start that was killed may not have received the answer.
func (n *Node) start(ctx context.Context, files []*keyfile.Key) ([]api.SigningKey, error) {
	q := api.StartRequest{At: n.cfg.Now()}
	for _, f := range files {
		q.SigningKeys = append(q.SigningKeys, sealer.KeyID(f.Pub))
	}
	var started api.Started
	err := n.ask(ctx, "report the start to control", api.PathStart, q, &started)
	switch r := refusal(err); {
	case r == nil:
	case r.Status == http.StatusForbidden && r.Code == api.AuthInvalid: // control's own, not that of what stands before it
		err = fmt.Errorf("%w\nIt can't come back: %s", err, n.another())
	case r.Status == http.StatusUnauthorized:
		if err = n.join(ctx, files, err); err == nil {
			err = n.ask(ctx, "report the start to control", api.PathStart, q, &started)
		}
	}
	n.epoch, n.leaving = started.Epoch, started.Last
	return started.SigningKeys, err
}

// sort finds the keys that are trusted and the one that is not enrolled yet, and destroys the
// others. A key that no longer signs is retired by Run, or has yet to vouch for its successor.
func (n *Node) sort(files []*keyfile.Key, known []api.SigningKey) error {
	for _, f := range files {
		id := sealer.KeyID(f.Pub)
		i := slices.IndexFunc(known, func(k api.SigningKey) bool { return k.KeyID == id })
		switch {
		case i >= 0 && known[i].RevokedAt.IsZero():
			n.keys = append(n.keys, n.hold(f, known[i]))
		case i < 0 && n.next == nil:
			n.next = &next{file: f, unsure: true} // the last process may have asked
		default:
			if err := f.Destroy(); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(n.keys, oldestFirst)
	if n.latest = n.cfg.Now(); n.highWater.After(n.latest) {
		n.latest = n.highWater // the clock was set back, or this comes soon after a crash
	}
	if len(n.keys) > 0 {
		n.handOver()
	}
	if n.leaving || slices.ContainsFunc(known, func(k api.SigningKey) bool { return k.Last }) {
		n.leave()
	}
	return nil
}

// ready enrols the key that was not yet, and another if there is none to sign with.
func (n *Node) ready(ctx context.Context) error {
	for n.next != nil || n.over() && !n.leaving {
		err := n.enrol(ctx)
		switch {
		case err == nil, n.dropNext(err):
		case refusal(err) != nil && len(n.SigningKeys()) == 0:
			return fmt.Errorf("%w\nIf the node's keys are lost, %s", err, n.another())
		case ctx.Err() != nil, refusal(err) != nil && n.over():
			return err
		case refusal(err) != nil:
			n.cfg.Logger.Error("cannot enrol the next signing key; the current one signs on", "err", err)
			return nil
		default:
			n.cfg.Logger.Warn("waiting for control", "to", "enrol a signing key", "err", err)
			sleep(ctx, n.backOff())
		}
	}
	n.pause = 0
	if n.leaving {
		return nil
	}
	if from := n.current().from; n.cfg.Now().Before(from) {
		n.cfg.Logger.Warn("the clock stands before the key's window: nothing is signed until it has come",
			"keyId", n.current().signer.KeyID, "notBefore", sealer.FormatTime(from))
	}
	return nil
}
