package node

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// # Nodes in processes of their own
//
// An operator makes an invitation, which lets one node join, within an hour. The
// node brings the public half of a key that it made itself, proves that it has the
// other half, and gets a credential for all that it asks later. Until its key is in
// the directory it has signed nothing. Its later keys: enrol.go; how it
// leaves: expel.go.

// prefixInvitation begins an invitation's id.
const prefixInvitation api.Prefix = "inv_"

// invitationLife is how long an invitation is good for.
const invitationLife = time.Hour

var secretCoding = base64.RawURLEncoding.Strict()

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
	token, hash := newBearer(v.ID)
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
// A node that did not get the answer may send the same request again, within the
// invitation's hour; the credential of the answer before is void then.
func (r *Room) Join(ctx context.Context, q api.JoinRequest) (joined api.Joined, err error) {
	key, err := presented(q)
	if err == nil {
		err = r.onTime(q.At)
	}
	if err != nil {
		return joined, err
	}
	id, hash, ok := readBearer(prefixInvitation, q.Invitation)
	if !ok {
		return joined, refusedJoin
	}
	credential, credentialHash := newBearer(q.NodeID)
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		if m, err := r.member(ctx, tx, q.NodeID); err != nil || m != nil && !m.expelledAt.IsZero() {
			return cmp.Or[error](err, errExpelled(q.NodeID))
		}
		purpose, again, err := useInvitation(ctx, tx, id, hash, q.NodeID)
		if err != nil {
			return err
		}
		row := &signingKey{Key: sealer.NewKey(key, purpose, r.db.Now()), node: q.NodeID}
		if again {
			if row, err = sameKey(ctx, tx, row); err != nil {
				return err
			}
		} else if err := newNode(ctx, tx, row); err != nil {
			return err
		}
		joined = api.Joined{Credential: credential, NotBefore: row.NotBefore}
		_, err = tx.ExecContext(ctx, `INSERT INTO node_credentials (node_id, secret_hash) VALUES ($1, $2)
			ON CONFLICT (node_id) DO UPDATE SET secret_hash = excluded.secret_hash`, q.NodeID, credentialHash)
		return err
	})
	if err != nil {
		return api.Joined{}, fmt.Errorf("cannot let the node %q join: %w", q.NodeID, err)
	}
	r.cfg.Logger.Info("a node joined", "nodeId", q.NodeID, "keyId", sealer.KeyID(key))
	return joined, nil
}

// presented checks what a node says of itself.
func presented(q api.JoinRequest) (ed25519.PublicKey, error) {
	key, err := secretCoding.DecodeString(q.PublicKey)
	signature, signatureErr := secretCoding.DecodeString(q.Signature)
	switch {
	case !api.IsID(api.PrefixNode, q.NodeID):
		return nil, api.Invalid(api.ValidationError{Field: "nodeId", Message: "must be nod_ and a ULID"})
	case err != nil || len(key) != ed25519.PublicKeySize:
		return nil, api.Invalid(api.ValidationError{Field: "publicKey", Message: "must be 32 bytes in base64url"})
	case signatureErr != nil || !ed25519.Verify(key, api.JoinText(q.NodeID, q.PublicKey, q.Invitation), signature):
		return nil, api.Invalid(api.ValidationError{Field: "signature", Message: "is not by publicKey over this request"})
	}
	return key, nil
}

// useInvitation spends an invitation, and says what for. again is true if the same node
// has spent it.
func useInvitation(ctx context.Context, tx *store.Tx, id, hash, nodeID string) (purpose string, again bool, err error) {
	var known string
	var expires store.Instant
	var usedBy sql.NullString
	err = tx.QueryRowContext(ctx, `SELECT secret_hash, expires_at, node_id, purpose FROM invitations WHERE invitation_id = $1`, id).Scan(&known, &expires, &usedBy, &purpose)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, refusedJoin
	case err != nil:
		return "", false, err
	case subtle.ConstantTimeCompare([]byte(known), []byte(hash)) != 1, !tx.Now().Before(expires.Time), usedBy.Valid && usedBy.String != nodeID:
		return "", false, refusedJoin
	case usedBy.Valid:
		return purpose, true, nil
	}
	_, err = tx.ExecContext(ctx, `UPDATE invitations SET node_id = $1 WHERE invitation_id = $2`, nodeID, id)
	return purpose, false, err
}

// newNode writes a node that was unknown, and its key.
func newNode(ctx context.Context, tx *store.Tx, row *signingKey) (err error) {
	if row.revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	now := tx.Now()
	made, err := affected(tx.ExecContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision) VALUES ($1, 0, $2, $2, $3)
		ON CONFLICT (node_id) DO NOTHING`, row.node, store.Millis(now), row.revision))
	if err != nil {
		return err
	}
	var taken int
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM signing_keys WHERE key_id = $1`, row.KeyID).Scan(&taken)
	if err == nil && (!made || taken > 0) {
		err = api.Conflict("the node's id or its key is known already: a node makes its own")
	}
	if err != nil {
		return err
	}
	if err := insertKey(ctx, tx, row); err != nil {
		return err
	}
	by := sealer.Ref{Kind: "node", ID: row.node}
	if err := tx.EmitSystem(ctx, "node.enrolled", by, by, map[string]any{"nodeId": row.node}); err != nil {
		return err
	}
	return emit(ctx, tx, "key.enrolled", row, by, row.describe())
}

// sameKey finds the row of a key that is presented once more.
func sameKey(ctx context.Context, tx *store.Tx, row *signingKey) (*signingKey, error) {
	known, err := scanKey(tx.QueryRowContext(ctx, `SELECT `+readColumns+` FROM signing_keys WHERE key_id = $1 AND node_id = $2`, row.KeyID, row.node))
	if errors.Is(err, sql.ErrNoRows) {
		err = refusedJoin
	}
	return &known, err
}

// Authenticate names the node that bears a credential.
func (r *Room) Authenticate(ctx context.Context, credential string) (nodeID string, err error) {
	invalid := &api.Error{Code: api.AuthInvalid, Message: "the node's credential is not valid"}
	nodeID, hash, ok := readBearer(api.PrefixNode, credential)
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

// newBearer makes a bearer token for an id, and the hash to know it by.
func newBearer(id string) (token, hash string) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	text := secretCoding.EncodeToString(secret[:])
	return id + "." + text, hashOf(text)
}

// readBearer parses a bearer token.
func readBearer(prefix api.Prefix, token string) (id, hash string, ok bool) {
	id, secret, ok := strings.Cut(token, ".")
	return id, hashOf(secret), ok && api.IsID(prefix, id)
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
