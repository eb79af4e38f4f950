package settlement

import (
	"errors"
	"fmt"
	"time"

	"muniment.example/sealer/canonical"
)

// Adjust applies tiers, minimum and cap of a rule to its lines in a month, in this order; older are lines by
// earlier texts with another unit or price. It must be pure, as Rate.
type Adjust func(rule Rule, lines, older []Line, from, to time.Time) ([]Adjustment, error)

// Precedence returns a function that finds the rule that rates receipts: its place among rules, −1 if
// none does. It must be pure, as Rate, and fails if a rule can't be read.
type Precedence func(rules []Rule) (func(*Metered) int, error)

// Rating computes statements.
type Rating struct {
	Rate       Rate
	Adjust     Adjust
	Precedence Precedence
	Months     Months
}

// Adjustment is that of a rule in a month, in the order of the rule's shares.
type Adjustment struct {
	Reason, Amount string
	Shares         []string
}

// Months returns the months that end at from < end ≤ to and in which a rule has something to adjust, in
// their order. It returns ErrMonths if they are too many.
type Months func(rule Rule, from, to time.Time) ([]Month, error)

// Month is a calendar month in a time zone. The moments are stated because the rules of time
// zones change.
type Month struct {
	From     canonical.Moment `json:"from"`
	Month    string           `json:"month"` // as 2026-11
	TimeZone string           `json:"timeZone"`
	To       canonical.Moment `json:"to"`
}

// MaxMonths bounds the months of a statement.
const MaxMonths = 400

// ErrTimeZone says that this machine does not know a time zone.
var ErrTimeZone = errors.New("is not known here")

// ErrMonths says that a period has more than MaxMonths months with something to adjust.
var ErrMonths = fmt.Errorf("more than %d months end in the period, in which rules have a minimum, a cap or tiers", MaxMonths)
