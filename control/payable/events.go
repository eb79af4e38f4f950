package payable

import (
	"context"
	"slices"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// TypeIssued is the type of the event by which a payable gets its number.
const TypeIssued = "payable.issued"

// The events about payables and their issuer.
var (
	issuerEvents  = &store.Noun{Name: "issuer", Scope: api.SettlementRead}
	eventIssuer   = issuerEvents.Kind("issuer.changed", "The profile of the organisation on papers was set. Names and addresses are left out.", Issuer{})
	payableEvents = &store.Noun{Name: "payable", Scope: api.SettlementRead}
	eventIssued   = payableEvents.Kind(TypeIssued, "What a payee is due of a statement got its number. The parties are left out.", Payable{})
	eventPaid     = payableEvents.Kind("payable.paid", "A payment was recorded or taken back, or something was set off. The parties are left out.", Payable{})
)

// emit emits events of payables that were issued before. The parties do not change with a payment, so
// these have no private parts.
func emit(ctx context.Context, tx *store.Tx, changed []Payable, by sealer.Ref) error {
	public, shown := payables, slices.Clone(changed)
	public.Hide = nil
	for i := range shown {
		shown[i].Issuer, shown[i].Recipient = Party{}, Party{}
	}
	return public.EmitAll(ctx, tx, eventPaid, shown, by)
}

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{issuerEvents, payableEvents}

// Replay applies the newest event of a payable for rollback.Replay: its number, amounts and payments. The
// parties stay as the older database has them; no event shows them.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	was, said, err := payables.NewerInEvent(ctx, tx, e)
	if err != nil || said == nil {
		return false, err
	}
	if was != nil {
		said.Issuer, said.Recipient = was.Issuer, was.Recipient
	}
	return true, payables.Restore(ctx, tx, was, said)
}

// ReplayIssuer applies the newest event of an issuer for rollback.Replay. What the database has of names and
// addresses may be outdated, and no event shows them: it forgets them, and Issue refuses to issue until they
// are set again.
func ReplayIssuer(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	was, said, err := issuers.NewerInEvent(ctx, tx, e)
	if err != nil || said == nil {
		return false, err
	}
	if was == nil { // another may have been set since
		if other, err := issuerOf(ctx, tx, e.TenantID); err != nil || other != nil {
			return false, err
		}
	}
	return true, issuers.Restore(ctx, tx, was, said)
}
