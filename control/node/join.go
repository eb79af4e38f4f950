package node

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"muniment/control/signing"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// # Joining
//
// An operator makes an invitation, or control for a node of its own process, which lets one
// node join, within an hour; or the node shows a certificate (certificate.go). The node brings the public half of a key that it made itself,
// proves that it has the other half, and tells the hash of a credential, which it made as
// well, for all that it asks later. Until its key is in the directory it has signed nothing.
// How it leaves: expel.go.
//
// A node may be killed at any moment of this, and starts again: what it joins with is on
// its disk before control hears of it. If control knows the credential, the node has
// joined, and asks for nothing more; else it joins now, by that invitation or by another,
// as the same node with the same key. A join that is asked for again changes nothing. So it
// is with a node whose joining a restored database has forgotten: it joins once more, and
// the key that the log has told of stays what it was.
//
// So control hands out no secret. Who gets hold of an invitation that was used, or of a
// whole request to join, can have that answered once more, by a moment that the directory
// tells everybody. For another name, key or credential it takes a signature by that
// very key, and an invitation that nobody has used; and what has joined is not changed by
// anybody's request to join.

// prefixInvitation begins an invitation's id.
const prefixInvitation api.Prefix = "inv_"

// invitationLife is how long an invitation is good for.
const invitationLife = time.Hour

// Invitation lets one node join.
type Invitation struct {
	ID string `json:"invitationId"`
	// Token is shown this once.
	Token     string        `json:"token"`
	ExpiresAt store.Instant `json:"expiresAt"`
}

// Invite makes an invitation.
func (r *Service) Invite(ctx context.Context, by sealer.Ref) (Invitation, error) {
	return r.invite(ctx, sealer.PurposeReceipt, by)
}

// InviteSandbox makes an invitation for a node that issues the receipts of the sandbox's
// tenants, and no others.
func (r *Service) InviteSandbox(ctx context.Context) (Invitation, error) {
	return r.invite(ctx, sealer.PurposeSandbox, store.BySystem())
}

func (r *Service) invite(ctx context.Context, purpose string, by sealer.Ref) (v Invitation, err error) {
	now := r.db.Now()
	v = Invitation{ID: api.NewID(prefixInvitation, now), ExpiresAt: store.At(now.Add(invitationLife))}
	token, hash := api.NewBearer(v.ID)
	v.Token = token
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO invitations (invitation_id, secret_hash, expires_at, purpose) VALUES ($1, $2, $3, $4)`, v.ID, hash, v.ExpiresAt, purpose)
		if err != nil {
			return err
		}
		told := map[string]any{"invitationId": v.ID, "expiresAt": sealer.FormatTime(v.ExpiresAt.Time), "purpose": purpose}
		return tx.EmitSystem(ctx, "node.invited", by, sealer.Ref{Kind: "invitation", ID: v.ID}, told)
	})
	if err != nil {
		return Invitation{}, fmt.Errorf("cannot invite a node: %w", err)
	}
	return v, nil
}

// refusedJoin tells a stranger nothing about what was wrong.
var refusedJoin = &api.Error{Code: api.AuthInvalid, Message: "the invitation is not valid: unknown, expired, or used by another node"}

// permit is what lets one node join.
type permit interface {
	// check returns what the keys of the node are for, and whether it has used the permit. It is an
	// error if the permit is not good for that node.
	check(ctx context.Context, from store.Querier, now time.Time, nodeID string) (purpose string, used bool, err error)
	// use gives the permit to that node, which has not used it. again says that the node has joined by
	// another one.
	use(ctx context.Context, tx *store.Tx, nodeID string, again bool) error
	// describe is what the event of the joining says of the permit.
	describe() map[string]any
}

// permitOf returns the permit of a request, which came over a connection that showed these
// certificates.
func (r *Service) permitOf(ctx context.Context, q api.JoinRequest, shown []*x509.Certificate) (permit, error) {
	if q.CertificateHash != "" {
		return r.readCertificate(ctx, q, shown)
	}
	return readToken(q.Invitation)
}

// Join lets a node in: its key is in the directory when Join returns. shown are the certificates of
// the client whose connection the request came over.
//
// The same request once more, however late, is answered as the first time and changes
// nothing. So is the same node with another invitation that is good, which is used up by it.
func (r *Service) Join(ctx context.Context, q api.JoinRequest, shown []*x509.Certificate) (joined api.Joined, err error) {
	key, err := presented(q)
	if err == nil {
		err = r.onTime(q.At)
	}
	if err != nil {
		return joined, err
	}
	p, err := r.permitOf(ctx, q, shown)
	if err != nil {
		return joined, err
	}
	// A stranger takes no turn of those that changes have, and is told of no node.
	err = r.db.View(ctx, func(from store.Querier) error {
		_, _, err := p.check(ctx, from, r.db.Now(), q.NodeID)
		return err
	})
	if err != nil {
		return joined, fmt.Errorf("cannot let the node %q join: %w", q.NodeID, err)
	}
	made := false
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		purpose, used, err := p.check(ctx, tx, tx.Now(), q.NodeID)
		if err != nil {
			return err
		}
		m, err := find(ctx, tx, q.NodeID)
		if err != nil || m != nil && !m.expelledAt.IsZero() {
			return cmp.Or[error](err, errExpelled(q.NodeID))
		}
		row, err := sameNode(ctx, tx, q.NodeID, sealer.KeyID(key), q.CredentialHash)
		if err != nil {
			return err
		}
		made = row == nil
		switch {
		case made && used: // with another key or credential
			return errKnown
		case !made && !used:
			err = p.use(ctx, tx, q.NodeID, true)
		case made:
			row, err = newcomer{q.NodeID, key, purpose, p, q.CredentialHash}.admit(ctx, tx, m)
		}
		if err != nil {
			return err
		}
		joined = api.Joined{NotBefore: row.NotBefore}
		return nil
	})
	if err != nil {
		return api.Joined{}, fmt.Errorf("cannot let the node %q join: %w", q.NodeID, err)
	}
	if made {
		r.cfg.Logger.Info("a node joined", "nodeId", q.NodeID, "keyId", sealer.KeyID(key))
	}
	return joined, nil
}

// presented checks what a node says of itself.
func presented(q api.JoinRequest) (ed25519.PublicKey, error) {
	key, err := signing.ReadKey(q.PublicKey)
	switch {
	case !api.IsID(api.PrefixNode, q.NodeID):
		return nil, api.InvalidField("nodeId", "must be nod_ and a ULID")
	case err != nil:
		return nil, err
	case !api.IsHash(q.CredentialHash):
		return nil, api.InvalidField("credentialHash", "must be 32 bytes in lower-case hexadecimal")
	}
	return key, signing.SignedBy(key, api.JoinText(q.NodeID, q.PublicKey, q.CredentialHash, q.Invitation, q.CertificateHash), q.Signature)
}

// token is the permit of an invitation.
type token struct{ id, hash string }

func readToken(text string) (permit, error) {
	id, hash, ok := api.ReadBearer(prefixInvitation, text)
	if !ok {
		return nil, refusedJoin
	}
	return token{id, hash}, nil
}

// check is permit's. What a node has used stays good for it.
func (i token) check(ctx context.Context, from store.Querier, now time.Time, nodeID string) (purpose string, used bool, err error) {
	var known string
	var expires store.Instant
	var usedBy sql.NullString
	err = from.QueryRowContext(ctx, `SELECT secret_hash, expires_at, node_id, purpose FROM invitations WHERE invitation_id = $1`, i.id).Scan(&known, &expires, &usedBy, &purpose)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, refusedJoin
	case err != nil:
		return "", false, err
	case subtle.ConstantTimeCompare([]byte(known), []byte(i.hash)) != 1, !usedBy.Valid && !now.Before(expires.Time), usedBy.Valid && usedBy.String != nodeID:
		return "", false, refusedJoin
	}
	return purpose, usedBy.Valid, nil
}

func (i token) use(ctx context.Context, tx *store.Tx, nodeID string, _ bool) error {
	used, err := store.Affected(tx.ExecContext(ctx, `UPDATE invitations SET node_id = $1 WHERE invitation_id = $2 AND node_id IS NULL`, nodeID, i.id))
	if err == nil && !used {
		err = refusedJoin
	}
	return err
}

func (i token) describe() map[string]any {
	return map[string]any{"how": "invitation", "invitationId": i.id}
}

// sameNode is the key of a node that has joined with it and with that credential; nil if
// there is none.
func sameNode(ctx context.Context, tx *store.Tx, nodeID, keyID, credentialHash string) (*signing.Key, error) {
	known, err := store.One(ctx, tx, "the node "+nodeID, store.Text, `SELECT node_id FROM node_credentials WHERE node_id = $1 AND secret_hash = $2`, nodeID, credentialHash)
	if err != nil || known == nil {
		return nil, err
	}
	key, err := signing.Find(ctx, tx, keyID)
	if err != nil || key == nil || key.Node != nodeID {
		return nil, err
	}
	return key, nil
}

// errKnown refuses a node that is not what control knows by its id or its key. Its field
// tells a node that another permit would not help.
var errKnown = &api.Error{Code: api.StateConflict, Field: "nodeId", Message: "the node's id or its key is known already, and is another node's, or has another key or credential"}

// newcomer is a node that asks to join by a permit that nobody has used.
type newcomer struct {
	nodeID         string
	key            ed25519.PublicKey
	purpose        string
	permit         permit
	credentialHash string
}

// admit writes the node, its key and its credential, and uses up the permit. m is what
// is known of the node.
func (n newcomer) admit(ctx context.Context, tx *store.Tx, m *member) (*signing.Key, error) {
	known, err := n.knownKey(ctx, tx, m)
	if err != nil {
		return nil, err
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision) VALUES ($1, 0, $2, $2, $3)
		ON CONFLICT (node_id) DO NOTHING`, n.nodeID, store.Millis(tx.Now()), revision)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO node_credentials (node_id, secret_hash) VALUES ($1, $2)`, n.nodeID, n.credentialHash); err != nil {
		return nil, err
	}
	if err := n.permit.use(ctx, tx, n.nodeID, false); err != nil {
		return nil, err
	}
	by := sealer.Ref{Kind: "node", ID: n.nodeID}
	told := n.permit.describe()
	told["nodeId"] = n.nodeID
	if err := tx.EmitSystem(ctx, "node.joined", by, by, told); err != nil || known != nil {
		return known, err
	}
	return signing.Admit(ctx, tx, n.nodeID, n.purpose, n.key, by)
}

// knownKey is the newcomer's key if the directory has it: the database went back, and knows
// the node's keys from the log (signing.Replay), though not the node itself. It has the newest
// of them, which is in force and stays as it is. With any other key it could be somebody else.
func (n newcomer) knownKey(ctx context.Context, tx *store.Tx, m *member) (*signing.Key, error) {
	known, err := signing.Find(ctx, tx, sealer.KeyID(n.key))
	if err != nil {
		return nil, err
	}
	all, err := signing.OfNode(ctx, tx, n.nodeID)
	if err != nil {
		return nil, err
	}
	if m == nil && len(all) == 0 && known == nil {
		return nil, nil
	}
	if len(all) == 0 || m != nil && (!m.leaving || m.joined) {
		return nil, errKnown
	}
	newest := &all[len(all)-1]
	if newest.KeyID != sealer.KeyID(n.key) || newest.Purpose != n.purpose || newest.Retired || !newest.InForce(tx.Now()) {
		return nil, errKnown
	}
	return newest, nil
}

// Authenticate names the node that bears a credential.
func (r *Service) Authenticate(ctx context.Context, credential string) (nodeID string, err error) {
	invalid := &api.Error{Code: api.AuthInvalid, Message: "the node's credential is not valid"}
	nodeID, hash, ok := api.ReadBearer(api.PrefixNode, credential)
	if !ok {
		return "", invalid
	}
	var known string
	err = r.db.Read().QueryRowContext(ctx, `SELECT secret_hash FROM node_credentials WHERE node_id = $1`, nodeID).Scan(&known)
	var m *member
	if errors.Is(err, sql.ErrNoRows) {
		m, err = find(ctx, r.db.Read(), nodeID)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot authenticate the node %s: %w", nodeID, err)
	case m != nil && !m.expelledAt.IsZero():
		return "", errExpelled(nodeID)
	}
	if subtle.ConstantTimeCompare([]byte(known), []byte(hash)) != 1 {
		return "", invalid
	}
	return nodeID, nil
}

// Start counts a start of a node that has joined, and tells it what the directory says
// of its keys.
func (r *Service) Start(ctx context.Context, nodeID string, q api.StartRequest) (v api.Started, err error) {
	if err := r.onTime(q.At); err != nil {
		return v, err
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		v.Epoch, err = startNode(ctx, tx, nodeID, tx.Now())
		return err
	})
	var m *member
	if err == nil {
		m, err = find(ctx, r.db.Read(), nodeID)
		v.Last = m != nil && m.leaving
	}
	if err == nil {
		v.SigningKeys, err = r.keys.Told(ctx, nodeID, q.SigningKeys, func(*signing.Key) bool { return true })
	}
	if err != nil {
		return api.Started{}, fmt.Errorf("cannot start the node %s: %w", nodeID, err)
	}
	return v, nil
}

// onTime refuses a node whose clock is too far ahead: what it dated would hold packs and
// revocations to moments that have not come.
func (r *Service) onTime(at time.Time) error {
	if now := r.db.Now(); at.Sub(now) > api.ClockSlack {
		return api.Conflict(fmt.Sprintf("it is %s at the node, but %s here: set the node's clock", sealer.FormatTime(at), sealer.FormatTime(now)))
	}
	return nil
}
