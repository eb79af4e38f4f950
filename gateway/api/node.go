package api

import (
	"errors"
	"fmt"
	"time"
)

// The protocol between control and the nodes is not part of the public contract: processes of
// one version speak it, on a listener of its own. It uses the contract's envelope. Every request
// but the first carries the node's credential, Authorization: Bearer nod_<ULID>.<secret>.
const (
	PathFeed      = "/nodes/feed"      // POST FeedRequest → Feed
	PathSnapshots = "/nodes/snapshots" // GET …/{kind}/{id} → Snapshot; POST …/{kind} SnapshotsRequest → Snapshots
	PathSuspended = "/nodes/suspended" // POST SuspendedRequest → Suspended
	PathHold      = "/nodes/hold"      // POST HoldRequest → Held
	PathSandbox   = "/nodes/sandbox"   // POST SandboxRows → SandboxRowsIssued
	PathJoin      = "/nodes/join"      // POST JoinRequest → Joined
	PathStart     = "/nodes/start"     // POST StartRequest → Started
	PathEnrol     = "/nodes/enrol"     // POST EnrolRequest → SigningKey
	PathRetire    = "/nodes/retire"    // POST RetireRequest → SigningKey
)

// ClockSlack is how far ahead of control's the clock of a node may be, which dates its
// receipts and the windows of its keys. One that is further ahead may not join or start.
const ClockSlack = time.Minute

// JoinRequest makes a node join for the first time. If it is repeated, because the response was
// lost, it gets the same response and changes nothing. The node joins either with an invitation or with
// the client certificate of the connection (see NodeURI). The invitation, the request's only secret,
// is used up by it, also if the node has joined before. An unused invitation lets anyone who has it
// join until it expires.
type JoinRequest struct {
	// Invitation is the token that an operator made for one node.
	Invitation string `json:"invitation,omitempty" maxLength:"256"`
	// CertificateHash is the SHA-256 of the connection's client certificate (DER), in lower-case
	// hexadecimal. The signature covers it, so the request is of no use over a connection
	// with another certificate.
	CertificateHash string `json:"certificateHash,omitempty" maxLength:"256"`
	// NodeID was made by the node: nod_ and a ULID.
	NodeID string `json:"nodeId" maxLength:"64"`
	// PublicKey is the key that its receipts will be signed with: 32 bytes in
	// base64url. The private half never leaves the node.
	PublicKey string `json:"publicKey" maxLength:"256"`
	// CredentialHash is that of the node's credential, by NewBearer, which the node made
	// itself.
	CredentialHash string `json:"credentialHash" maxLength:"256"`
	// Signature of JoinText by that key, in base64url.
	Signature string `json:"signature" maxLength:"256"`
	// At is the node's time.
	At time.Time `json:"at,omitzero" maxLength:"64"`
}

// NodeURI and a name are the one URI in the certificate by which a node of that name joins.
const NodeURI = "muniment://node/"

// JoinText is what a node signs to prove that it has the key that it presents, and that
// the credential is its own. It has an invitation or the hash of a certificate.
func JoinText(nodeID, publicKey, credentialHash, invitation, certificateHash string) []byte {
	return fmt.Appendf(nil, "muniment node/v3\n%s\n%s\n%s\n%s\n%s\n", nodeID, publicKey, credentialHash, invitation, certificateHash)
}

// FieldName is the field of the error by which control refuses a certificate's name that another node has
// or that is barred. Repeating the request helps once the other node is gone, or the bar lifted.
const FieldName = "name"

// Joined is the response to a node that has joined.
type Joined struct {
	// NotBefore is the moment from which on the node's key may sign.
	NotBefore time.Time `json:"notBefore"`
}

// StartRequest reports the start of a node that has joined.
type StartRequest struct {
	// SigningKeys are the ids of the keys that the node holds.
	SigningKeys []string `json:"signingKeys,omitempty" maxItems:"100" maxLength:"64"`
	// At is the node's time.
	At time.Time `json:"at,omitzero" maxLength:"64"`
}

// Started is the response to a node that starts.
type Started struct {
	// Epoch counts the node's starts, from 1.
	Epoch uint64 `json:"epoch"`
	// SigningKeys are those of the requested keys that the directory lists for the node.
	SigningKeys []SigningKey `json:"signingKeys"`
	// Last is as in SigningKey: the node may hold no key that says so.
	Last bool `json:"last,omitempty"`
}

// FieldEpoch is the field of the error by which control refuses a process.
const FieldEpoch = "epoch"

// IsSuperseded reports whether control has refused a process because another one, which started
// later, runs as the same node: one of them has a copy of the node's folder. Repeating the request
// does not help while the other one runs.
func IsSuperseded(err error) bool {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Code == StateConflict && r.Field == FieldEpoch
	}
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == StateConflict && e.Field == FieldEpoch
}

// # A node's signing keys
//
// A node makes its keys itself. The next one is enrolled before it signs: its window
// begins at a moment that the node names by its own clock, which dates its receipts,
// and that of the key before ends KeyOverlap later. Until the answer arrives the node goes on
// signing with the old key, at most for that long. Once all that was signed with it is in the
// log, RetireRequest reports where the old window ends.
//
// Control makes a node enroll another key by ending the window of the current one, KeyOverlap
// ahead, or by revoking it. The node reads that in Started or Feed. So does a node that must
// leave: it signs nothing from then on and retires all of its keys once what they signed is in
// the log. Afterwards all its requests are refused with 403, permanently; 401 means that control
// does not know the node.

// KeyOverlap is for how long the windows of two keys of a node overlap at most.
const KeyOverlap = time.Hour

// SigningKey is the directory's entry for a signing key of the requesting node.
type SigningKey struct {
	KeyID     string    `json:"keyId"`
	NotBefore time.Time `json:"notBefore"`
	// NotAfter is zero while the window is open, RevokedAt while the key is trusted.
	NotAfter  time.Time `json:"notAfter,omitzero"`
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	// Last is true once the node must leave: it signs nothing more, and no other key
	// takes over.
	Last bool `json:"last,omitempty"`
}

// EnrolRequest enrols a node's next key. If it is repeated it gets the first response again,
// whatever its NotBefore. The credential alone does not suffice to enrol a key: the
// node's newest key must vouch for it, also if its window is over, unless it is revoked.
type EnrolRequest struct {
	// PublicKey is 32 bytes in base64url.
	PublicKey string `json:"publicKey" maxLength:"256"`
	// NotBefore is the moment from which on the key may sign.
	NotBefore time.Time `json:"notBefore" maxLength:"64"`
	// Signature of EnrolText by that key, in base64url.
	Signature string `json:"signature" maxLength:"256"`
	// Voucher is a signature of EnrolText by the node's newest key in the directory, in
	// base64url. It may be empty if that is revoked.
	Voucher string `json:"voucher,omitempty" maxLength:"256"`
	// Epoch is as in FeedRequest.
	Epoch uint64 `json:"epoch,omitempty"`
}

// EnrolText is what a node signs to prove that it has its next key, and by the key
// before to vouch for it.
func EnrolText(nodeID, publicKey string) []byte {
	return fmt.Appendf(nil, "muniment node key/v1\n%s\n%s\n", nodeID, publicKey)
}

// RetireRequest reports that a key, which is not the node's newest unless the node is to
// leave, has signed nothing for NotAfter or later, and never will; and that what it
// signed is in the log.
type RetireRequest struct {
	KeyID    string    `json:"keyId" maxLength:"64"`
	NotAfter time.Time `json:"notAfter" maxLength:"64"`
}
