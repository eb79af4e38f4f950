package pipeline

import (
	"context"
	"time"

	"muniment.example/sealer"
)

// PackSumKeeper is a warehouse that keeps a copy of what the deliveries of sealed packs add up to, by hour, for
// those who read it by other means than this interface. Control writes the copy (see proof.Copier); the
// warehouse believes it up to where the newest copy of a tenant says that it goes, and counts its rows behind
// that. So a copy that ends early costs time, and one that says more than it has would be wrong.
//
// A copy has a number. Of two the higher is newer, and whatever becomes of the other does no harm. A warehouse
// that retracts a row (see TypeReleased) which a copy counts gives the copy up, before.
//
// Whatever was written when a method returned is seen by every later query, on each replica. Safe for
// concurrent use.
type PackSumKeeper interface {
	// PackSumsCopied lists how far the newest copy of each tenant goes.
	PackSumsCopied(ctx context.Context) ([]PackSumsCopied, error)
	// AddPackSums stores lines. A line that is there already is not there twice.
	AddPackSums(ctx context.Context, lines []PackSum) error
	// SetPackSumsCopied says how far copies go, at most one for each tenant. One that is not newer than the
	// tenant's newest copy, or doesn't go farther, changes nothing.
	SetPackSumsCopied(ctx context.Context, copied []PackSumsCopied) error
	// DeletePackSums deletes the lines of the tenants' copies that are older than these. A query that still reads
	// one of them would miss its lines, so the caller lets queries end first.
	DeletePackSums(ctx context.Context, newest []PackSumsCopied) error
}

// PackSumsCopied says how far a copy goes.
type PackSumsCopied struct {
	TenantID string
	Copy     uint64
	// PackID is the last pack that the copy has, with all before it; empty: it has none. Position is that of
	// the pack's last entry.
	PackID   string
	Position sealer.Position
	// State names the state of control's database that the copy is of; control gives up one of another state.
	State string
}

// PackSum is one line of a copy: the deliveries of a pack in an hour of renderedAt that share what a
// MeterRow names.
type PackSum struct {
	TenantID string
	Copy     uint64
	// Position is that of the pack's last entry.
	Position sealer.Position
	// Hour is its start, in UTC.
	Hour time.Time
	// Line numbers the lines of the pack in that hour, always the same.
	Line uint32

	RightID, Substrate, BasisID, MeteringBasis, Reason string
	Receipts, QuantityMs                               int64
	// Impressions are in ten-thousandths.
	Impressions int64
}

// NewerCopy is the number of a copy that is newer than one; of two that are drawn for the same one is newer
// than the other.
func NewerCopy(than uint64, random uint32) uint64 { return (than>>32+1)<<32 | uint64(random) }
