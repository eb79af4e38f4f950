package api

import (
	"encoding/json"
	"time"
)

// The feed carries what a node must know from control to the node: rights and
// keys, ordered by revision. There is one revision counter, and commit order is
// revision order, so a node that has applied revision R knows everything up to R.

// FeedRequest asks: I have applied After; what came behind it?
type FeedRequest struct {
	NodeID string `json:"nodeId" maxLength:"64"`
	// After is the newest revision that the node has applied; it doubles as the
	// node's report of how far it is. 0 asks for a first copy, which holds only
	// what a node may never forget: every key or right that is or was stopped.
	After int64 `json:"after"`
	// Limit is the most changes wanted, 0 for the default.
	Limit int `json:"limit"`
	// Spooled is how many records that the node has promised are not in the log that
	// control seals from yet, but in the node's spool.
	Spooled int64 `json:"spooled,omitempty" minimum:"0"`
	// SigningKeys are the ids of the keys that a node in a process of its own holds.
	SigningKeys []string `json:"signingKeys,omitempty" maxItems:"100" maxLength:"64"`
}

// Feed is control's answer, read from the primary database after the question
// arrived.
type Feed struct {
	// Incarnation names this life of the database; a restore makes a new one. A
	// node that meets another than it knew is stale until it was allowed to go on.
	Incarnation string `json:"incarnation"`
	// Newest is the database's newest revision when the answer was read.
	Newest int64 `json:"newest"`
	// UpTo is the revision that a node has applied once it applied Changes; less
	// than Newest when there are more.
	UpTo    int64    `json:"upTo"`
	Changes []Change `json:"changes"`
	// SigningKeys are those of the keys asked for that end or are revoked. A lease that
	// rests on this answer covers no signature by a key that is revoked in it.
	SigningKeys []SigningKey `json:"signingKeys,omitempty"`
	// At is control's time, for a node in a process of its own.
	At time.Time `json:"at,omitzero"`
}

// Change is the newest state of one right or key. Exactly one of them is set.
type Change struct {
	Revision int64  `json:"revision"`
	Right    *Right `json:"right,omitempty"`
	Key      *Key   `json:"key,omitempty"`
}

// RightState is the state of a right.
type RightState string

// The states of a right. Revoked is terminal.
const (
	RightActive    RightState = "ACTIVE"
	RightSuspended RightState = "SUSPENDED"
	RightRevoked   RightState = "REVOKED"
)

// Right is the snapshot of a right that travels to nodes: what a delivery needs
// of it, and no more. It is immutable once sent.
type Right struct {
	ID        string     `json:"id"`
	TenantID  string     `json:"tenantId"`
	Revision  int64      `json:"revision"`
	BasisID   string     `json:"basisId"`
	Substrate string     `json:"substrate"`
	State     RightState `json:"state"`
	// EffectiveFrom is inclusive, EffectiveUntil exclusive; the latter is already
	// the earliest end of the right, its ancestors and its basis. Zero is open.
	EffectiveFrom  time.Time `json:"effectiveFrom"`
	EffectiveUntil time.Time `json:"effectiveUntil,omitzero"`
	// Scope is the right's scope, as gate.ParseRight reads it.
	Scope json.RawMessage `json:"scope,omitempty"`
	// Ancestors are the ids of parent, grandparent and so on: while one of them is
	// stopped, so is this right.
	Ancestors []string `json:"ancestors,omitempty"`
}

// Key is the snapshot of an API key. It holds no secret, only its hash.
type Key struct {
	ID          string `json:"id"`
	TenantID    string `json:"tenantId"`
	OrgID       string `json:"orgId"`
	DeveloperID string `json:"developerId"`
	Revision    int64  `json:"revision"`
	Label       string `json:"label"`
	// Prefix is everything of the key before its secret.
	Prefix string `json:"prefix"`
	// SecretHash is the SHA-256 of the secret.
	SecretHash [32]byte  `json:"secretHash"`
	Scopes     Scopes    `json:"scopes"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero"`
	RevokedAt  time.Time `json:"revokedAt,omitzero"`
	// Sandbox says that its tenant is one of the sandbox: keys of the sandbox sign for it.
	Sandbox bool `json:"sandbox,omitempty"`
}
