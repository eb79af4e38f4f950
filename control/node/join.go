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

	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// # Joining
//
// An operator makes an invitation, which lets one node join within an hour; for a node in its
// own process, control makes it. Or the node presents a certificate (certificate.go). The node
// sends the public key of a key pair that it made itself, proves that it holds the private key,
// and sends the hash of a credential that it made as well, for its later requests. It signs
// nothing before its key is in the directory. expel.go describes how a node leaves.
//
// A node may be killed at any point of this and started again, because it stores its key and
// credential on disk before it sends them. If control knows the credential, the node has joined
// and needs nothing more. Otherwise it joins now, by the same invitation or by another, as the
// same node with the same key. Repeating a request to join changes nothing. If a restored
// database has lost the node, it joins again, and its key keeps the state that the log records.
//
// Control returns no secret to the node. An attacker with a used invitation, or with a complete
// request to join, can only repeat that request, and receives a time that is public in the
// directory. To join under another id, or with another key or credential, the attacker needs a
// signature by that key and an unused invitation. No request to join changes a node that has
// joined.

// prefixInvitation begins an invitation's id.
const prefixInvitation api.Prefix = "inv_"

// invitationTTL is how long an invitation is valid.
const invitationTTL = time.Hour

// Invitation lets one node join.
type Invitation struct {
	ID string `json:"invitationId"`
	// Token is a secret, and is returned only once.
	Token     string        `json:"token"`
	ExpiresAt store.Instant `json:"expiresAt"`
}

// Invite makes an invitation for a node that signs receipts of tenants outside the sandbox.
func (r *Service) Invite(ctx context.Context, by sealer.Ref) (Invitation, error) {
	return r.invite(ctx, keydir.PurposeReceipt, by)
}

// InviteSandbox makes an invitation for a node that signs only receipts of the sandbox's tenants.
func (r *Service) InviteSandbox(ctx context.Context) (Invitation, error) {
	return r.invite(ctx, keydir.PurposeSandbox, store.BySystem())
}

func (r *Service) invite(ctx context.Context, purpose string, by sealer.Ref) (v Invitation, err error) {
	now := r.db.Now()
	v = Invitation{ID: api.NewID(prefixInvitation, now), ExpiresAt: store.At(now.Add(invitationTTL))}
	token, hash := api.NewBearer(v.ID)
	v.Token = token
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO invitations (invitation_id, secret_hash, expires_at, purpose) VALUES ($1, $2, $3, $4)`, v.ID, hash, v.ExpiresAt, purpose)
		if err != nil {
			return err
		}
		fields := map[string]any{"invitationId": v.ID, "expiresAt": canonical.FormatTime(v.ExpiresAt.Time), "purpose": purpose}
		return tx.EmitSystem(ctx, eventInvited, by, sealer.Ref{Kind: "invitation", ID: v.ID}, fields)
	})
	if err != nil {
		return Invitation{}, fmt.Errorf("cannot invite a node: %w", err)
	}
	return v, nil
}

// errInvitation does not reveal to a stranger which of the three it is.
var errInvitation = &api.Error{Code: api.AuthInvalid, Message: "the invitation is not valid: unknown, expired, or used by another node"}

// permit lets one node join: an invitation or a certificate.
type permit interface {
	// check returns the purpose of the node's keys, and whether the node has used the permit. The
	// error is an api.Error if the permit does not let that node join.
	check(ctx context.Context, from store.Querier, now time.Time, nodeID string) (purpose string, used bool, err error)
	// use records that the node has used the permit. The caller has checked that it has not used it
	// before. again is true if the node has already joined by another permit.
	use(ctx context.Context, tx *store.Tx, nodeID string, again bool) error
	// describe returns the fields of the permit for the event node.joined.
	describe() map[string]any
}

// readPermit returns the permit of a request. presented are the client certificates of its
// connection.
func (r *Service) readPermit(q api.JoinRequest, presented []*x509.Certificate) (permit, error) {
	if q.CertificateHash != "" {
		return r.readCertificate(q, presented)
	}
	return readInvitation(q.Invitation)
}

// Join lets a node join: when Join returns, its key is in the directory and in the log. presented are the
// client certificates of the request's connection.
//
// Repeating the same request, however late, returns the same response and changes nothing. If
// the same node sends another valid invitation, that is used up, and the response is the same.
func (r *Service) Join(ctx context.Context, q api.JoinRequest, presented []*x509.Certificate) (joined api.Joined, err error) {
	key, err := checkRequest(q)
	if err == nil {
		err = r.checkClock(q.At)
	}
	if err != nil {
		return joined, err
	}
	p, err := r.readPermit(q, presented)
	if err != nil {
		return joined, err
	}
	// Check in a read transaction first, so that requests without a valid permit never wait for
	// the write lock, and learn nothing about existing nodes.
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
		row, err := joinedKey(ctx, tx, q.NodeID, keydir.KeyID(key), q.CredentialHash)
		if err != nil {
			return err
		}
		made = row == nil
		switch {
		case made && used: // by the same node id with another key or credential
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
	if err == nil {
		err = r.db.Confirm(ctx)
	}
	if err != nil {
		return api.Joined{}, fmt.Errorf("cannot let the node %q join: %w", q.NodeID, err)
	}
	if made {
		r.cfg.Logger.Info("a node joined", "nodeId", q.NodeID, "keyId", keydir.KeyID(key))
	}
	return joined, nil
}

// checkRequest checks the node's own part of a request to join, and returns its key.
func checkRequest(q api.JoinRequest) (ed25519.PublicKey, error) {
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

// token is the permit of a node that joins by an invitation.
type token struct{ id, hash string }

func readInvitation(text string) (permit, error) {
	id, hash, ok := api.ReadBearer(prefixInvitation, text)
	if !ok {
		return nil, errInvitation
	}
	return token{id, hash}, nil
}

// check implements permit. An invitation stays valid for the node that has used it, even after it
// has expired.
func (i token) check(ctx context.Context, from store.Querier, now time.Time, nodeID string) (purpose string, used bool, err error) {
	var known string
	var expires store.Instant
	var usedBy sql.NullString
	err = from.QueryRowContext(ctx, `SELECT secret_hash, expires_at, node_id, purpose FROM invitations WHERE invitation_id = $1`, i.id).Scan(&known, &expires, &usedBy, &purpose)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, errInvitation
	case err != nil:
		return "", false, err
	case subtle.ConstantTimeCompare([]byte(known), []byte(i.hash)) != 1, !usedBy.Valid && !now.Before(expires.Time), usedBy.Valid && usedBy.String != nodeID:
		return "", false, errInvitation
	}
	return purpose, usedBy.Valid, nil
}

func (i token) use(ctx context.Context, tx *store.Tx, nodeID string, _ bool) error {
	used, err := store.Affected(tx.ExecContext(ctx, `UPDATE invitations SET node_id = $1 WHERE invitation_id = $2 AND node_id IS NULL`, nodeID, i.id))
	if err == nil && !used {
		err = errInvitation
	}
	return err
}

func (i token) describe() map[string]any {
	return map[string]any{"how": "invitation", "invitationId": i.id}
}

// joinedKey returns the node's key if the node has joined with that key and that credential, nil
// otherwise.
func joinedKey(ctx context.Context, tx *store.Tx, nodeID, keyID, credentialHash string) (*signing.Key, error) {
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

// errKnown refuses a node whose id or key control already knows with other details. By its field
// the node recognises that another permit would not help.
var errKnown = &api.Error{Code: api.StateConflict, Field: "nodeId", Message: "the node's id or key is already known, and belongs to another node, or to this one with another key or credential"}

// newcomer is a node that joins by an unused permit.
type newcomer struct {
	nodeID         string
	key            ed25519.PublicKey
	purpose        string
	permit         permit
	credentialHash string
}

// admit writes the node, its key and its credential, and uses up the permit. m is the node's
// record, nil if there is none.
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
	by := sealer.Ref{Kind: kindNode, ID: n.nodeID}
	fields := n.permit.describe()
	fields["nodeId"] = n.nodeID
	if err := tx.EmitSystem(ctx, eventJoined, by, by, fields); err != nil || known != nil {
		return known, err
	}
	return signing.Admit(ctx, tx, n.nodeID, n.purpose, n.key, by)
}

// knownKey returns the newcomer's key if the directory already has it, nil if neither the node
// nor the key is known. The directory has it if an older database was restored and received the
// node's keys from the log (signing.Replay), but not the node itself. Only the newest of these
// keys proves that this is the same node; it must be in force, and stays unchanged.
func (n newcomer) knownKey(ctx context.Context, tx *store.Tx, m *member) (*signing.Key, error) {
	known, err := signing.Find(ctx, tx, keydir.KeyID(n.key))
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
	if newest.KeyID != keydir.KeyID(n.key) || newest.Purpose != n.purpose || newest.Retired || !newest.InForce(tx.Now()) {
		return nil, errKnown
	}
	return newest, nil
}

// Authenticate returns the id of the node that a credential belongs to.
func (r *Service) Authenticate(ctx context.Context, credential string) (nodeID string, err error) {
	invalid := &api.Error{Code: api.AuthInvalid, Message: "the node's credential is not valid"}
	nodeID, hash, ok := api.ReadBearer(api.PrefixNode, credential)
	if !ok {
		return "", invalid
	}
	var known string
	err = r.db.Vital().QueryRowContext(ctx, `SELECT secret_hash FROM node_credentials WHERE node_id = $1`, nodeID).Scan(&known)
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

// Start counts a start of a node that has joined, and returns the directory's entries of its
// keys.
func (r *Service) Start(ctx context.Context, nodeID string, q api.StartRequest) (v api.Started, err error) {
	if err := r.checkClock(q.At); err != nil {
		return v, err
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		polled, err := r.newestPolled(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		v.Epoch, err = startNode(ctx, tx, nodeID, polled, tx.Now())
		return err
	})
	var m *member
	if err == nil {
		m, err = find(ctx, r.db.Read(), nodeID)
		v.Last = m != nil && m.leaving
	}
	if err == nil {
		v.SigningKeys, err = r.keys.NodeKeys(ctx, nodeID, q.SigningKeys, func(*signing.Key) bool { return true })
	}
	if err != nil {
		return api.Started{}, fmt.Errorf("cannot record the start of the node %s: %w", nodeID, err)
	}
	return v, nil
}

// checkClock refuses a node whose clock is too far ahead: packs and revocations could not be
// dated before its receipts, and would lie in the future.
func (r *Service) checkClock(at time.Time) error {
	if now := r.db.Now(); at.Sub(now) > api.ClockSlack {
		return api.Conflict(fmt.Sprintf("the node's clock shows %s, control's clock %s: set the node's clock", canonical.FormatTime(at), canonical.FormatTime(now)))
	}
	return nil
}
