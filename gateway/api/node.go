package api

import (
	"fmt"
	"time"
)

// What control and the nodes say to each other is no part of the public contract:
// processes of one version speak it, over a listener of their own. It wears the
// contract's envelope. A request but the first bears the node's credential:
// Authorization: Bearer nod_<ULID>.<secret>.
const (
	PathFeed   = "/nodes/feed"   // POST FeedRequest → Feed
	PathRights = "/nodes/rights" // GET …/{rightId} → RightAnswer
	PathKeys   = "/nodes/keys"   // GET …/{keyId} → KeyAnswer
	PathJoin   = "/nodes/join"   // POST JoinRequest → Joined
	PathStart  = "/nodes/start"  // POST → Started
)

// RightAnswer is what control knows of one right: null if there is none.
type RightAnswer struct {
	Right *Right `json:"right"`
	// AsOf is the database's newest revision at the read.
	AsOf int64 `json:"asOf"`
}

// KeyAnswer is RightAnswer for an API key.
type KeyAnswer struct {
	Key  *Key  `json:"key"`
	AsOf int64 `json:"asOf"`
}

// JoinRequest is how a node presents itself for the first time. Sent again, because
// the answer was lost, it is answered again.
type JoinRequest struct {
	// Invitation is the token that an operator made for one node.
	Invitation string `json:"invitation"`
	// NodeID was made by the node: nod_ and a ULID.
	NodeID string `json:"nodeId"`
	// PublicKey is the key that its receipts will be signed with: 32 bytes in
	// base64url. The private half never leaves the node.
	PublicKey string `json:"publicKey"`
	// Signature of JoinText by that key, in base64url.
	Signature string `json:"signature"`
}

// JoinText is what a node signs to prove that it has the key that it presents.
func JoinText(nodeID, publicKey, invitation string) []byte {
	return fmt.Appendf(nil, "muniment node/v1\n%s\n%s\n%s\n", nodeID, publicKey, invitation)
}

// Joined is the answer to a node that was let in.
type Joined struct {
	// Credential is the node's own secret; control keeps its hash only.
	Credential string `json:"credential"`
	// NotBefore is the moment from which on the node's key may sign.
	NotBefore time.Time `json:"notBefore"`
}

// Started is the answer to a node that starts.
type Started struct {
	// Epoch counts the node's starts, from 1.
	Epoch uint64 `json:"epoch"`
}
