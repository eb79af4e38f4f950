package identity

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
)

// inviteAdvice says what an operator must do.
const inviteAdvice = "make an invitation with muniment node invite, and start the node with it"

// create makes what the node joins with: a key, unless an earlier start was killed and left one,
// and then its id and its credential. Everything is on disk when create returns.
func (n *Node) create(files []*keyfile.Key) ([]*keyfile.Key, error) {
	if n.cfg.Invitation == "" && n.cfg.Invite == nil && n.cfg.Certificate == nil {
		return nil, errors.New("the node has not joined yet, and has neither an invitation nor a certificate: give it a certificate, or " + inviteAdvice)
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

// join joins the node. unknown is the error by which control has refused its credential.
func (n *Node) join(ctx context.Context, files []*keyfile.Key, unknown error) error {
	// A node with a high-water mark has joined before. It may join again by itself with a certificate,
	// but not with an invitation: an operator must decide that.
	if n.cfg.Invitation == "" && n.cfg.Invite != nil && n.highWater.IsZero() {
		var err error
		if n.cfg.Invitation, err = n.cfg.Invite(ctx); err != nil {
			return err
		}
	}
	switch {
	case n.cfg.Invitation == "" && n.cfg.Certificate == nil:
		return fmt.Errorf("%w\nIf the node has never joined, or control was restored from a time before it joined, %s", unknown, inviteAdvice)
	case len(files) == 0:
		return fmt.Errorf("%w\nThe node has lost its keys: %s", unknown, n.replaceAdvice())
	}
	// After a restore control may know keys of the node. Then the node can join only with the newest
	// of them, and does not know which one that is, so it tries each.
	var err error
	for _, f := range files {
		if err = n.sendJoin(ctx, f); err == nil {
			n.cfg.Logger.Info("the node has joined", "nodeId", n.saved.NodeID, "keyId", keydir.KeyID(f.Pub))
			return nil
		}
		if !IsConflict(err) {
			break
		}
	}
	switch {
	case IsConflict(err):
		err = fmt.Errorf("%w\nThis node can't join with this identity: %s", err, n.replaceAdvice())
	case refusal(err) != nil && refusal(err).Status == http.StatusUnprocessableEntity:
		err = fmt.Errorf("%w\nControl probably runs another version than this node: upgrade control first, then the node", err)
	case refusal(err) != nil && n.cfg.Certificate == nil:
		err = fmt.Errorf("%w\nIf the invitation is used or expired, %s", err, inviteAdvice)
	}
	return err
}

// replaceAdvice says how to let another node join in place of this one and take over its spool.
func (n *Node) replaceAdvice() string {
	if n.cfg.Certificate != nil {
		return fmt.Sprintf("move %s away (only this folder, not the spool beside it), and start the node again", n.cfg.Dir)
	}
	return fmt.Sprintf("move %s away (only this folder, not the spool beside it), %s", n.cfg.Dir, inviteAdvice)
}

// IsConflict reports whether Open has failed because control knows the node's id or key with
// other details: a part of the identity was lost, so it can't be used.
func IsConflict(err error) bool {
	r := refusal(err)
	return r != nil && r.Code == api.StateConflict && r.Field == "nodeId"
}

// sendJoin requests to join with a key.
func (n *Node) sendJoin(ctx context.Context, key *keyfile.Key) error {
	_, hash, _ := api.ReadBearer(api.PrefixNode, n.saved.Credential)
	pub := base64.RawURLEncoding.EncodeToString(key.Pub)
	send := func(control *api.Client, certificate string) error {
		signature, err := sign(key, api.JoinText(n.saved.NodeID, pub, hash, n.cfg.Invitation, certificate))
		if err != nil {
			return err
		}
		return n.send(ctx, control, api.PathJoin, api.JoinRequest{
			Invitation: n.cfg.Invitation, CertificateHash: certificate, NodeID: n.saved.NodeID, PublicKey: pub, CredentialHash: hash,
			Signature: signature, At: n.cfg.Now(),
		}, &api.Joined{})
	}
	if n.cfg.Certificate == nil {
		return n.retry(ctx, "join", func() error { return send(n.control, "") })
	}
	if _, _, err := n.cfg.Certificate(); err != nil {
		return fmt.Errorf("cannot join by a certificate: %w", err)
	}
	return n.retry(ctx, "join", func() error { // a certificate may expire while control is unreachable: read it each time
		client, certificate, err := n.cfg.Certificate()
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		control, err := api.NewClient(n.cfg.Control, client)
		if err != nil {
			return err
		}
		return send(control, certificate)
	})
}

func sign(key *keyfile.Key, text []byte) (string, error) {
	signature, err := key.Sign(nil, text, &ed25519.Options{})
	return base64.RawURLEncoding.EncodeToString(signature), err
}

// start reports the start to control, joins first if necessary, and returns the directory's
// entries of the keys. Only control knows whether the node has joined: an earlier start may have
// been killed before it received the response.
func (n *Node) start(ctx context.Context, files []*keyfile.Key) ([]api.SigningKey, error) {
	q := api.StartRequest{At: n.cfg.Now()}
	for _, f := range files {
		q.SigningKeys = append(q.SigningKeys, keydir.KeyID(f.Pub))
	}
	var started api.Started
	err := n.request(ctx, "report the start to control", api.PathStart, q, &started)
	switch r := refusal(err); {
	case r == nil:
	case r.Status == http.StatusForbidden && r.Code == api.AuthInvalid: // from control itself, not from a proxy
		err = fmt.Errorf("%w\nIt can't come back: %s", err, n.replaceAdvice())
	case r.Status == http.StatusUnauthorized:
		if err = n.join(ctx, files, err); err == nil {
			err = n.request(ctx, "report the start to control", api.PathStart, q, &started)
		}
	}
	n.epoch, n.leaving = started.Epoch, started.Last
	return started.SigningKeys, err
}

// sortKeys finds the keys that are trusted and the one that is not enrolled yet, and destroys the
// others. It keeps keys that have ended: Run retires them, or they still have to vouch for their
// successor.
func (n *Node) sortKeys(files []*keyfile.Key, known []api.SigningKey) error {
	for _, f := range files {
		id := keydir.KeyID(f.Pub)
		i := slices.IndexFunc(known, func(k api.SigningKey) bool { return k.KeyID == id })
		switch {
		case i >= 0 && known[i].RevokedAt.IsZero():
			n.keys = append(n.keys, n.newKey(f, known[i]))
		case i < 0 && n.next == nil:
			n.next = &next{file: f, unsure: true} // the previous process may have requested to enrol it
		default:
			if err := f.Destroy(); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(n.keys, oldestFirst)
	if n.latest = n.cfg.Now(); n.highWater.After(n.latest) {
		n.latest = n.highWater // the clock was set back, or the previous process crashed a moment ago
	}
	if len(n.keys) > 0 {
		n.handOver()
	}
	if n.leaving || slices.ContainsFunc(known, func(k api.SigningKey) bool { return k.Last }) {
		n.leave()
	}
	return nil
}

// ensureKey enrols the key that is not enrolled yet, and a new one if there is none to sign with.
func (n *Node) ensureKey(ctx context.Context) error {
	for n.next != nil || n.ended() && !n.leaving {
		err := n.enrol(ctx)
		switch {
		case err == nil, n.dropNext(err):
		case refusal(err) != nil && len(n.SigningKeys()) == 0:
			return fmt.Errorf("%w\nIf the node's keys are lost, %s", err, n.replaceAdvice())
		case ctx.Err() != nil, refusal(err) != nil && n.ended():
			return err
		case refusal(err) != nil:
			n.cfg.Logger.Error("cannot enrol the next signing key; the current one continues to sign", "err", err)
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
		n.cfg.Logger.Warn("the clock is before the key's window: the node signs nothing until the window begins",
			"keyId", n.current().signer.KeyID, "notBefore", canonical.FormatTime(from))
	}
	return nil
}
