package right

import (
	"time"

	"muniment/control/store"
)

// Basis is the record of a legal basis.
type Basis struct {
	ID             string        `json:"id"`
	TenantID       string        `json:"-"`
	Kind           string        `json:"kind" enum:"LICENSE,CONSENT,CONTRACT,STATUTE,LEGITIMATE_INTEREST"`
	Title          string        `json:"title"`
	HolderOrgID    string        `json:"holderOrgId"`
	Jurisdiction   *string       `json:"jurisdiction"`
	Reference      *string       `json:"reference"`
	EffectiveFrom  store.Instant `json:"effectiveFrom" nullable:"true" doc:"Null is since ever."`
	EffectiveUntil store.Instant `json:"effectiveUntil" nullable:"true" doc:"Exclusive; null is open."`
	ContentHash    *string       `json:"contentHash"`
	CreatedAt      store.Instant `json:"createdAt"`
	UpdatedAt      store.Instant `json:"updatedAt"`
	Revision       int64         `json:"revision"`
}

// BasisState is computed when it is read; nothing is written when a basis ends.
type BasisState string

// The states of a basis.
const (
	BasisActive  BasisState = "ACTIVE"
	BasisExpired BasisState = "EXPIRED"
)

// State of the basis at a moment.
func (b *Basis) State(now time.Time) BasisState {
	if !b.EffectiveUntil.IsZero() && !now.Before(b.EffectiveUntil.Time) {
		return BasisExpired
	}
	return BasisActive
}
