package api

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
)

// Scope is one permission of an API key, as a bit of Scopes. An operation needs one, and further ones
// for what it does to things that others guard (control/route.Effect). AuditRead shows all events.
type Scope uint32

// The complete list. Wildcard passes every check; the destructive operations
// are reserved for it.
const (
	RightsRead Scope = 1 << iota
	RightsWrite
	OffersRead
	OffersWrite
	ChallengesRead
	ChallengesWrite
	DeliveryWrite
	AuditRead
	ProofWrite
	MeteringRead
	SettlementRead
	SettlementWrite
	WebhooksRead
	WebhooksWrite
	DisputesRead
	DisputesWrite
	KeysWrite
	Wildcard
)

// scopeNames are in the order of the bits.
var scopeNames = [...]string{
	"rights:read", "rights:write", "offers:read", "offers:write", "challenges:read", "challenges:write",
	"delivery:write", "audit:read", "proof:write", "metering:read", "settlement:read", "settlement:write",
	"webhooks:read", "webhooks:write", "disputes:read", "disputes:write", "keys:write", "*",
}

// Scopes is a set of scopes.
type Scopes uint32

// EveryScope is all scopes but the wildcard, the default of a new key.
const EveryScope = Scopes(Wildcard - 1)

// String is the scope's name in the contract.
func (s Scope) String() string { return scopeNames[bits.TrailingZeros32(uint32(s))] }

// Allows says whether a key with these scopes passes a check for s.
func (set Scopes) Allows(s Scope) bool { return uint32(set)&uint32(s|Wildcard) != 0 }

// Names lists the set's scopes by name, in the order of the list above.
func (set Scopes) Names() []string {
	names := make([]string, 0, bits.OnesCount32(uint32(set)))
	for i, name := range scopeNames {
		if set&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// MarshalJSON writes the names, so that stored sets keep their meaning when the
// list above grows.
func (set Scopes) MarshalJSON() ([]byte, error) { return json.Marshal(set.Names()) }

// UnmarshalJSON reads names.
func (set *Scopes) UnmarshalJSON(b []byte) error {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return err
	}
	parsed, err := ParseScopes(names)
	*set = parsed
	return err
}

// ParseScopes makes a set from names; it names the first that is none.
func ParseScopes(names []string) (Scopes, error) {
	var set Scopes
	for _, name := range names {
		i := slices.Index(scopeNames[:], name)
		if i < 0 {
			return 0, fmt.Errorf("%q is no scope", name)
		}
		set |= 1 << i
	}
	return set, nil
}

// Missing is the 403 of a key that lacks a scope.
func Missing(required Scope, held Scopes) *Error {
	return &Error{
		Code: ScopeMissing, Message: "the key lacks the scope " + required.String(),
		RequiredScopes: []string{required.String()}, KeyScopes: held.Names(),
	}
}
