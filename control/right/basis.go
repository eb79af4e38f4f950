package right

import (
	"time"

	"muniment.example/control/store"
)

// Basis is the record of a legal basis.
type Basis struct {
	ID             string        `json:"id" db:"basis_id"`
	TenantID       string        `json:"-" db:"tenant_id"`
	Kind           string        `json:"kind" db:"kind" enum:"LICENSE,CONSENT,CONTRACT,STATUTE,LEGITIMATE_INTEREST"`
	Title          string        `json:"title" db:"title"`
	HolderOrgID    string        `json:"holderOrgId" db:"holder_org_id"`
	Jurisdiction   *string       `json:"jurisdiction" db:"jurisdiction"`
	Reference      *string       `json:"reference" db:"reference"`
	EffectiveFrom  store.Instant `json:"effectiveFrom" db:"effective_from" nullable:"true" doc:"Null is since ever."`
	EffectiveUntil store.Instant `json:"effectiveUntil" db:"effective_until" nullable:"true" doc:"Exclusive; null is open."`
	ContentHash    *string       `json:"contentHash" db:"content_hash"`
	CreatedAt      store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt      store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision       int64         `json:"revision" db:"revision,moves"`
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
