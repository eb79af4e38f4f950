package node

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// # Nodes in processes of their own
//
// An operator makes an invitation, which lets one node join, within an hour. The
// node brings the public half of a key that it made itself, proves that it has the
// other half, and tells the hash of a credential, which it made as well, for all that it
// asks later. Until its key is in the directory it has signed nothing. Its later keys:
// enrol.go; how it leaves: expel.go.
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

// textCoding is that of keys and signatures in what nodes ask.
var textCoding = base64.RawURLEncoding.Strict()

// Invitation lets one node join.
type Invitation struct {
	ID string `json:"invitationId"`
	// Token is shown this once.
	Token     string        `json:"token"`
	ExpiresAt store.Instant `json:"expiresAt"`
}

// Invite makes an invitation.
func (r *Room) Invite(ctx context.Context, by sealer.Ref) (Invitation, error) {
	return r.invite(ctx, sealer.PurposeReceipt, by)
}

// InviteSandbox makes an invitation for a node that issues the receipts of the sandbox's
// tenants, and no others.
func (r *Room) InviteSandbox(ctx context.Context) (Invitation, error) {
	return r.invite(ctx, sealer.PurposeSandbox, store.BySystem())
}

func (r *Room) invite(ctx context.Context, purpose string, by sealer.Ref) (v Invitation, err error) {
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

// Join lets a node in: its key and its name are in the directory when Join returns.
// The same request once more, however late, is answered as the first time and changes
// nothing. So is the same node with another invitation that is good, which is used up by it.
func (r *Room) Join(ctx context.Context, q api.JoinRequest) (joined api.Joined, err error) {
	key, err := presented(q)
	if err == nil {
		err = r.onTime(q.At)
	}
	if err != nil {
		return joined, err
	}
	id, hash, ok := api.ReadBearer(prefixInvitation, q.Invitation)
	if !ok {
		return joined, refusedJoin
	}
	// A stranger takes no turn of those that changes have, and is told of no node.
	err = r.db.View(ctx, func(from store.Querier) error {
		_, _, err := readInvitation(ctx, from, r.db.Now(), id, hash, q.NodeID)
		return err
	})
	if err != nil {
		return joined, fmt.Errorf("cannot let the node %q join: %w", q.NodeID, err)
	}
	made := false
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		purpose, used, err := readInvitation(ctx, tx, tx.Now(), id, hash, q.NodeID)
		if err != nil {
			return err
		}
		m, err := r.member(ctx, tx, q.NodeID)
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
			err = useInvitation(ctx, tx, id, q.NodeID)
		case made:
			row = &signingKey{Key: sealer.NewKey(key, purpose, r.db.Now()), node: q.NodeID}
			row, err = newNode(ctx, tx, row, m, id, q.CredentialHash)
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
	key, err := givenKey(q.PublicKey)
	switch {
	case !api.IsID(api.PrefixNode, q.NodeID):
		return nil, api.InvalidField("nodeId", "must be nod_ and a ULID")
	case err != nil:
		return nil, err
	case !api.IsHash(q.CredentialHash):
		return nil, api.InvalidField("credentialHash", "must be 32 bytes in lower-case hexadecimal")
	}
	return key, signedBy(key, api.JoinText(q.NodeID, q.PublicKey, q.CredentialHash, q.Invitation), q.Signature)
}

// readInvitation says what an invitation is for, and whether the node has used it; it is
// an error if the invitation is not good for that node. What it has used stays good for it.
func readInvitation(ctx context.Context, from store.Querier, now time.Time, id, hash, nodeID string) (purpose string, used bool, err error) {
	var known string
	var expires store.Instant
	var usedBy sql.NullString
	err = from.QueryRowContext(ctx, `SELECT secret_hash, expires_at, node_id, purpose FROM invitations WHERE invitation_id = $1`, id).Scan(&known, &expires, &usedBy, &purpose)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, refusedJoin
	case err != nil:
		return "", false, err
	case subtle.ConstantTimeCompare([]byte(known), []byte(hash)) != 1, !usedBy.Valid && !now.Before(expires.Time), usedBy.Valid && usedBy.String != nodeID:
		return "", false, refusedJoin
	}
	return purpose, usedBy.Valid, nil
}

// useInvitation spends an invitation, which is one node's.
func useInvitation(ctx context.Context, tx *store.Tx, id, nodeID string) error {
	used, err := affected(tx.ExecContext(ctx, `UPDATE invitations SET node_id = $1 WHERE invitation_id = $2 AND node_id IS NULL`, nodeID, id))
	if err == nil && !used {
		err = refusedJoin
	}
	return err
}

// sameNode is the key of a node that has joined with it and with that credential; nil if
// there is none.
func sameNode(ctx context.Context, tx *store.Tx, nodeID, keyID, credentialHash string) (*signingKey, error) {
	return store.One(ctx, tx, "the node "+nodeID, scanKey, `SELECT `+readColumns+` FROM signing_keys WHERE key_id = $1 AND node_id = $2
		AND EXISTS (SELECT 1 FROM node_credentials c WHERE c.node_id = $2 AND c.secret_hash = $3)`, keyID, nodeID, credentialHash)
}

// errKnown refuses a node that is not what control knows by its id or its key. Its field
// tells a node that another invitation would not help.
var errKnown = &api.Error{Code: api.StateConflict, Field: "nodeId", Message: "the node's id or its key is known already, and is another node's, or has another key or credential"}

// newNode writes a node that was unknown, its key and its credential, and uses up the
// invitation.
func newNode(ctx context.Context, tx *store.Tx, row *signingKey, m *member, invitationID, credentialHash string) (*signingKey, error) {
	known, err := keyOf(ctx, tx, row.KeyID)
	if err != nil {
		return nil, err
	}
	all, err := nodeKeys(ctx, tx, row.node)
	switch {
	case err != nil:
		return nil, err
	case m == nil && len(all) == 0 && known == nil:
	case (m == nil || m.leaving && !m.joined) && len(all) > 0 && isBack(row, &all[len(all)-1], tx.Now()):
	default:
		return nil, errKnown
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision) VALUES ($1, 0, $2, $2, $3)
		ON CONFLICT (node_id) DO NOTHING`, row.node, store.Millis(tx.Now()), revision)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO node_credentials (node_id, secret_hash) VALUES ($1, $2)`, row.node, credentialHash); err != nil {
		return nil, err
	}
	if err := useInvitation(ctx, tx, invitationID, row.node); err != nil {
		return nil, err
	}
	by := sealer.Ref{Kind: "node", ID: row.node}
	if err := tx.EmitSystem(ctx, "node.enrolled", by, by, map[string]any{"nodeId": row.node}); err != nil || known != nil {
		return known, err
	}
	row.revision = revision
	if err := insertKey(ctx, tx, row); err != nil {
		return nil, err
	}
	return row, emit(ctx, tx, "key.enrolled", row, by, row.describe())
}

// isBack says whether a node is one whose keys a database that went back has from the log
// (Replay), though not the node itself: it has the newest of them, which is in force and
// stays as it is. With any other key it could be somebody else.
func isBack(row, newest *signingKey, now time.Time) bool {
	return newest.KeyID == row.KeyID && newest.Purpose == row.Purpose &&
		newest.RevokedAt == nil && !newest.retired && (newest.NotAfter == nil || now.Before(*newest.NotAfter))
}

// Authenticate names the node that bears a credential.
func (r *Room) Authenticate(ctx context.Context, credential string) (nodeID string, err error) {
	invalid := &api.Error{Code: api.AuthInvalid, Message: "the node's credential is not valid"}
	nodeID, hash, ok := api.ReadBearer(api.PrefixNode, credential)
	if !ok {
		return "", invalid
	}
	var known string
	err = r.db.Read().QueryRowContext(ctx, `SELECT secret_hash FROM node_credentials WHERE node_id = $1`, nodeID).Scan(&known)
	var m *member
	if errors.Is(err, sql.ErrNoRows) {
		m, err = r.member(ctx, r.db.Read(), nodeID)
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
func (r *Room) Start(ctx context.Context, nodeID string, q api.StartRequest) (v api.Started, err error) {
	if err := r.onTime(q.At); err != nil {
		return v, err
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		v.Epoch, err = startNode(ctx, tx, nodeID, tx.Now())
		return err
	})
	var m *member
	if err == nil {
		m, err = r.member(ctx, r.db.Read(), nodeID)
		v.Last = m != nil && m.leaving
	}
	if err == nil {
		v.SigningKeys, err = r.told(ctx, nodeID, q.SigningKeys, func(*signingKey) bool { return true })
	}
	if err != nil {
		return api.Started{}, fmt.Errorf("cannot start the node %s: %w", nodeID, err)
	}
	return v, nil
}

// onTime refuses a node whose clock is too far ahead: what it dated would hold packs and
// revocations to moments that have not come.
func (r *Room) onTime(at time.Time) error {
	if now := r.db.Now(); at.Sub(now) > api.ClockSlack {
		return api.Conflict(fmt.Sprintf("it is %s at the node, but %s here: set the node's clock", sealer.FormatTime(at), sealer.FormatTime(now)))
	}
	return nil
}
