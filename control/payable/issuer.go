package payable

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Issuer is the profile of the organisation that issues a tenant's statements.
type Issuer struct {
	ID          string        `json:"id" db:"issuer_id"`
	TenantID    string        `json:"-" db:"tenant_id"`
	LegalName   string        `json:"legalName" db:"legal_name,moves" doc:"Its name on papers. Never written to events."`
	Address     *string       `json:"address" db:"address,moves" doc:"Its postal address on papers, in lines. Never written to events."`
	TaxID       *string       `json:"taxId" db:"tax_id,moves" doc:"Its tax number on papers. Never written to events."`
	Email       *string       `json:"email" db:"email,moves" doc:"Where it is asked about papers. Never written to events."`
	Note        *string       `json:"note" db:"note,moves" doc:"What each paper says besides, in lines. Never written to events."`
	PaymentDays int64         `json:"paymentDays" db:"payment_days,moves" doc:"How many days after its issue a paper is due, unless the counterparty's terms say otherwise."`
	CreatedAt   store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt   store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision    int64         `json:"revision" db:"revision,moves"`
}

// defaultDays is when papers are due of a tenant without a profile.
const defaultDays = 30

const maxLine, maxLines = 256, 1024

func (i *Issuer) faults() (faults []api.ValidationError) {
	for _, f := range []struct{ field, message string }{
		{"legalName", settle.Line(&i.LegalName, maxLine)}, {"taxId", settle.Line(i.TaxID, maxLine)}, {"email", settle.Email(i.Email, maxLine)},
		{"address", settle.Lines(i.Address, maxLines)}, {"note", settle.Lines(i.Note, maxLines)},
	} {
		if f.message != "" {
			faults = append(faults, api.ValidationError{Field: f.field, Message: f.message})
		}
	}
	if i.PaymentDays < 0 || i.PaymentDays > settle.MaxPaymentDays {
		faults = append(faults, api.ValidationError{Field: "paymentDays", Message: fmt.Sprintf("must be 0 to %d", settle.MaxPaymentDays)})
	}
	return faults
}

// issuerOf returns a tenant's profile, nil if it has none.
func issuerOf(ctx context.Context, q store.Querier, tenantID string) (*Issuer, error) {
	return store.One(ctx, q, "the issuer", issuers.Scan, issuers.Select()+` WHERE tenant_id = $1`, tenantID)
}

// party is the issuer on papers.
func (i *Issuer) party() Party {
	if i == nil {
		return Party{}
	}
	return Party{&i.LegalName, i.Address, i.TaxID, i.Email, i.Note}
}

// set makes or replaces the profile. If nothing changes, there is no event.
func set(ctx context.Context, tx *store.Tx, requested Issuer, by sealer.Ref) (next Issuer, err error) {
	if faults := requested.faults(); len(faults) > 0 {
		return requested, api.Invalid(faults...)
	}
	was, err := issuerOf(ctx, tx, requested.TenantID)
	if err != nil {
		return requested, err
	}
	next = requested
	next.UpdatedAt = store.At(tx.Now())
	if was == nil {
		next.ID, next.CreatedAt = api.NewID(issuerPrefix, tx.Now()), next.UpdatedAt
		err = issuers.Insert(ctx, tx, &next)
	} else {
		next.ID, next.CreatedAt, next.Revision = was.ID, was.CreatedAt, was.Revision
		same := next
		if same.UpdatedAt = was.UpdatedAt; reflect.DeepEqual(same, *was) {
			return *was, nil
		}
		err = issuers.Update(ctx, tx, was, &next)
	}
	public := next
	public.LegalName, public.Address, public.TaxID, public.Email, public.Note = "", nil, nil, nil, nil
	return next, errors.Join(err, issuers.Emit(ctx, tx, eventIssuer, &public, by, nil))
}
