package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The feed carries what a node must know from control to the node: snapshots of records
// of some kinds, ordered by revision. There is one revision counter, and commit order is
// revision order, so a node that has applied revision R knows everything up to R.

// FeedRequest requests the changes after revision After.
type FeedRequest struct {
	NodeID string `json:"nodeId" maxLength:"64"`
	// Epoch is Started.Epoch of the process: control refuses its polls once a process that started later
	// has polled as the same node (see IsSuperseded).
	Epoch uint64 `json:"epoch,omitempty"`
	// After is the newest revision that the node has applied; it doubles as the
	// node's report of its progress. 0 requests a first copy, which has only
	// what a node must never miss: every key or right that is or was stopped.
	After int64 `json:"after"`
	// Spooled is how many acknowledged records are still in the node's spool, and not in the
	// log that control seals from.
	Spooled int64 `json:"spooled,omitempty" minimum:"0"`
	// SigningKeys are the ids of the keys that a node in a process of its own holds.
	SigningKeys []string `json:"signingKeys,omitempty" maxItems:"100" maxLength:"64"`
	// KeyUses is what the node has counted since it last told.
	KeyUses KeyUses `json:"keyUses,omitzero"`
}

// Feed is control's response, read from the primary database after the request arrived.
type Feed struct {
	// Incarnation identifies the database between two restores; each restore makes a new one.
	// A node that receives another than before must begin again.
	Incarnation string `json:"incarnation"`
	// Promotions counts the promotions of a standby of the database in this incarnation, and
	// PromotedAt is the newest revision that the standby had at the last of them. A node that has seen
	// a later revision before must begin again: it may know what the standby lacks.
	Promotions int64 `json:"promotions,omitempty"`
	PromotedAt int64 `json:"promotedAt,omitempty"`
	// Newest is the database's newest revision when the answer was read.
	Newest int64 `json:"newest"`
	// UpTo is the revision that a node has applied once it applied Changes; less
	// than Newest when there are more.
	UpTo    int64    `json:"upTo"`
	Changes []Change `json:"changes"`
	// SigningKeys are those of the requested keys that end or are revoked. A lease that
	// begins with this response covers no signature by a key that is revoked in it.
	SigningKeys []SigningKey `json:"signingKeys,omitempty"`
	// At is control's time, for a node in a process of its own.
	At time.Time `json:"at,omitzero"`
}

// Change is the newest snapshot of one record.
type Change struct {
	// Kind is the Name of a Kind. A node skips those that it has no use for.
	Kind string `json:"kind"`
	// ID identifies the record among those of its kind.
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
	// Snapshot is what the kind's Read reads.
	Snapshot json.RawMessage `json:"snapshot"`
}

// Snapshot is control's response about one record.
type Snapshot struct {
	// Change is the newest, null if there is no such record.
	Change *Change `json:"change"`
	// AsOf is the database's newest revision at the read.
	AsOf int64 `json:"asOf"`
	// Promotions is Feed's. A node discards an answer from before or after a promotion that its feed
	// does not know of, or no longer.
	Promotions int64 `json:"promotions,omitempty"`
}

// MostSnapshots is how many records a node may request at once.
const MostSnapshots = 1000

// SnapshotsRequest requests the newest snapshots of several records of a kind.
type SnapshotsRequest struct {
	IDs []string `json:"ids" maxItems:"1000" maxLength:"64"`
}

// Snapshots is control's response about several records.
type Snapshots struct {
	// Changes are the newest of those that there are, in any order.
	Changes []Change `json:"changes"`
	// AsOf is the database's newest revision at the read, which is one for all.
	AsOf int64 `json:"asOf"`
	// Promotions is Feed's, as in Snapshot.
	Promotions int64 `json:"promotions,omitempty"`
}

// Kind is one kind of records that nodes get, and T what they get of one.
type Kind[T any] struct {
	// Name names the kind in the feed, and in the paths of nodes' requests.
	Name string
	// Prefix is that of its records' ids.
	Prefix Prefix
	// Of returns a snapshot's record id and revision. stopped says that it takes a permission
	// away: what is or ever was stopped is in every node's first copy. So is a kind of which
	// nodes hold every record.
	Of func(*T) (id string, revision int64, stopped bool)
	// Was reports whether a snapshot which is not stopped names an earlier stop, which the feed
	// may not have had: after a restore it comes back from the log. nil: none names any.
	Was func(*T) bool
}

// Rights are stopped while they are not ACTIVE, and name their suspensions.
var Rights = Kind[Right]{"right", PrefixRight, func(r *Right) (string, int64, bool) { return r.ID, r.Revision, r.State != RightActive },
	func(r *Right) bool { return len(r.Suspensions) > 0 || !r.SuspensionsSince.IsZero() }}

// Keys are stopped as soon as they have a moment of revocation, also one in the future.
var Keys = Kind[Key]{"key", PrefixKey, func(k *Key) (string, int64, bool) { return k.ID, k.Revision, !k.RevokedAt.IsZero() }, nil}

// BeaconKeys are all in every node's first copy, as they are few: so a caller can't cause
// requests to control by naming keys.
var BeaconKeys = Kind[BeaconKey]{"beacon_key", "", func(k *BeaconKey) (string, int64, bool) { return k.ID, k.Revision, true }, nil}

// Change is what the feed carries of a snapshot.
func (k Kind[T]) Change(snapshot *T) (c Change, err error) {
	c.Kind = k.Name
	c.ID, c.Revision, _ = k.Of(snapshot)
	c.Snapshot, err = json.Marshal(snapshot)
	return c, err
}

// Read reads the snapshot of a change, which must be what the change says it is.
func (k Kind[T]) Read(c *Change) (*T, error) {
	snapshot := new(T)
	if err := json.Unmarshal(c.Snapshot, snapshot); err != nil {
		return nil, fmt.Errorf("cannot read the %s %q of the feed: %w", k.Name, c.ID, err)
	}
	id, revision, _ := k.Of(snapshot)
	if c.Kind != k.Name || id != c.ID || revision != c.Revision || !strings.HasPrefix(id, string(k.Prefix)) {
		return nil, fmt.Errorf("the feed shows the %s %q of revision %d as the %s %q of revision %d", c.Kind, c.ID, c.Revision, k.Name, id, revision)
	}
	return snapshot, nil
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
	// Suspensions are the right's own, oldest first: all that last or ended since SuspensionsSince,
	// which is the end of the newest that is left out, or zero if none is. Those of its ancestors are in
	// their snapshots.
	Suspensions      []Suspension `json:"suspensions,omitempty"`
	SuspensionsSince time.Time    `json:"suspensionsSince,omitzero"`
}

// What nodes know of a right's suspensions: those that ended less than KnownSuspensionAge before its
// newest change, at most MostSuspensions. Of older ones, or more, they ask control (SuspendedRequest).
const (
	KnownSuspensionAge = MaxRowAge + 24*time.Hour
	MostSuspensions    = 64
)

// Suspension is a time in which a right was suspended: from From on, and before Until. Until is
// zero while it lasts.
type Suspension struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
}

// Holds reports whether the right was suspended at a time, by this suspension.
func (s *Suspension) Holds(at time.Time) bool {
	return !at.Before(s.From) && (s.Until.IsZero() || at.Before(s.Until))
}

// RightMoment is a moment in the history of a right.
type RightMoment struct {
	RightID string    `json:"rightId" maxLength:"64"`
	At      time.Time `json:"at" maxLength:"64"`
}

// SuspendedRequest asks whether rights were suspended at moments.
type SuspendedRequest struct {
	Moments []RightMoment `json:"moments" maxItems:"1000"`
}

// Suspended is control's answer: for each moment, in their order, whether the right itself was
// suspended then. Ancestors are moments of their own.
type Suspended struct {
	Suspended []bool `json:"suspended"`
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
