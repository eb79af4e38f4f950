package api

import "time"

// Rows of batches whose vendor's id no mapping knows are held by control until one does. A
// node sends them before it answers.

// The most that one HoldRequest has, so that it fits what control reads of a body.
const (
	MostHeldRows  = 250
	MostHeldBytes = 900 << 10 // of their JSON
	// MaxHeldRow is the longest text of a row, in bytes.
	MaxHeldRow = 64 << 10
)

// HoldRequest asks control to hold rows of one caller.
type HoldRequest struct {
	TenantID string `json:"tenantId" maxLength:"64"`
	// KeyID is the API key that sent them, in whose name they will be delivered.
	KeyID string    `json:"keyId" maxLength:"64"`
	Rows  []HeldRow `json:"rows" maxItems:"250"`
}

// RowIdentity is a row's identity, as its event will have it. Day is empty for a row with a
// rowId.
type RowIdentity struct {
	Hash string `json:"hash" minLength:"1" maxLength:"64"`
	Day  string `json:"day,omitempty" maxLength:"10"`
}

// HeldRow is a row to be held.
type HeldRow struct {
	Identity RowIdentity `json:"identity"`
	Vendor   string      `json:"vendor" minLength:"1" maxLength:"512"`
	IDType   string      `json:"idType" minLength:"1" maxLength:"512"`
	VendorID string      `json:"vendorId" minLength:"1" maxLength:"512"`
	// PlayedAt is the row's, read.
	PlayedAt time.Time `json:"playedAt" maxLength:"64"`
	// Row is the row as Row.AppendJSON writes it. Here it is a text, not a value: control
	// reads what it holds only when it is delivered.
	Row string `json:"row" maxLength:"65536"`
}

// Held is the answer: one result for each row, in their order.
type Held struct {
	Results []HeldResult `json:"results"`
}

// HeldResult is what became of a row. A row that is held already has the id that it got then.
type HeldResult struct {
	HeldID string `json:"heldId,omitempty"`
	// Error is set where the row is not held: RATE_LIMITED while the tenant's rows fill its
	// quota, VALIDATION_FAILED for one that is too old or too long, STATE_CONFLICT where a row
	// of this identity and other content is held.
	Error *HeldError `json:"error,omitempty"`
}

// HeldError is why a row is not held.
type HeldError struct {
	Code    Code   `json:"error"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

// Err is the error for the row's result; nil if the row is held.
func (r *HeldResult) Err() *Error {
	if r.Error == nil {
		return nil
	}
	return &Error{Code: r.Error.Code, Message: r.Error.Message, Field: r.Error.Field}
}
