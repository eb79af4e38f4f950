package api

import "time"

// Control holds rows of batches that wait: for a mapping of their vendor's id, or for the end of a
// suspension of their right. It keeps the plays that players have sent by themselves and that were
// rejected, until somebody has looked. A node sends both before it answers.

// HeldReason is what a held row waits for.
type HeldReason string

// The reasons.
const (
	// HeldUnmapped: the vendor's id had no mapping at the time of the play.
	HeldUnmapped HeldReason = "UNMAPPED"
	// HeldRightSuspended: the right was in force when it was played, and it, or a right that it
	// derives from, is suspended now.
	HeldRightSuspended HeldReason = "RIGHT_SUSPENDED"
)

// The most that one HoldRequest has, so that it fits what control reads of a body.
const (
	MostHeldRows  = 250
	MostHeldBytes = 900 << 10 // of their JSON
	// MaxHeldRow is the longest text of a row, in bytes.
	MaxHeldRow = 64 << 10
)

// HoldRequest makes control hold rows of one caller, and keep rejected plays.
type HoldRequest struct {
	TenantID string `json:"tenantId" maxLength:"64"`
	// KeyID is the API key that sent them, and with which they will be delivered.
	KeyID    string         `json:"keyId" maxLength:"64"`
	Rows     []HeldRow      `json:"rows,omitempty" maxItems:"250"`
	Rejected []RejectedPlay `json:"rejected,omitempty" maxItems:"250"`
}

// RejectedPlay is a play to be kept.
type RejectedPlay struct {
	// Hash is of all that the player said of it: one of the same hash is kept once.
	Hash string `json:"hash" minLength:"1" maxLength:"64"`
	// Format is that of the player's document.
	Format string `json:"format" minLength:"1" maxLength:"32"`
	// Row is the play as the JSON text of a row; empty if it could not be made one.
	Row string `json:"row,omitempty" maxLength:"65536"`
	// Play is then what the player said of it, as a JSON object; empty if that could not be read.
	Play string `json:"play,omitempty" maxLength:"65536"`
	// Error is why it was rejected: the JSON text of a RowError.
	Error string `json:"error" maxLength:"65536"`
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
	Reason   HeldReason  `json:"reason" enum:"UNMAPPED,RIGHT_SUSPENDED"`
	// RightID is the right of a row that waits for it, whether the row names it or a mapping does.
	RightID string `json:"rightId,omitempty" maxLength:"64"`
	// Vendor, IDType and VendorID are the row's, where it has a vendor's id; Vendor also where it
	// has none.
	Vendor   string `json:"vendor,omitempty" maxLength:"512"`
	IDType   string `json:"idType,omitempty" maxLength:"512"`
	VendorID string `json:"vendorId,omitempty" maxLength:"512"`
	// PlayedAt is the row's, read.
	PlayedAt time.Time `json:"playedAt" maxLength:"64"`
	// Content is a hash of all that the row says, as nodes compare rows of one identity.
	Content string `json:"content" minLength:"1" maxLength:"64"`
	// Row is the row as it was sent: a text, not a value, so that it stays unchanged.
	Row string `json:"row" maxLength:"65536"`
	// Format is that of the document of a player that posts by itself: what becomes of a row that can't be
	// delivered is to be kept, as of a RejectedPlay. Empty for the rows of all other callers.
	Format string `json:"format,omitempty" maxLength:"32"`
}

// Held is the answer: one result for each row, in their order. The rejected plays are kept.
type Held struct {
	Results []HeldResult `json:"results"`
}

// HeldResult is the outcome of a row. A row that is held already has the id that it got then,
// and so has one that was refused when it was to be delivered, and is held once more.
type HeldResult struct {
	HeldID string `json:"heldId,omitempty"`
	// Delivered: the row was held, and has its receipt.
	Delivered bool `json:"delivered,omitempty"`
	// Error is set where the row is not held: RATE_LIMITED while the tenant's rows fill its
	// quota, VALIDATION_FAILED for one that is too old or too long, STATE_CONFLICT where a row
	// of this identity and other content is held.
	Error *RowError `json:"error,omitempty"`
}

// Err is the error for the row's result; nil if the row is held.
func (r *HeldResult) Err() *Error {
	if r.Error == nil {
		return nil
	}
	return r.Error.Err()
}
