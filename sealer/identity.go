package sealer

import (
	"errors"
	"time"
)

// RowIdentity says which row of a vendor's report a delivery is: all deliveries with one
// identity are the same play, whenever they are sent. The zero value is that of a delivery
// that is no row.
type RowIdentity struct {
	// Hash is base64url SHA-256(tenantId ‖ 1 ‖ what names the row, as it was sent).
	Hash string
	// Day is the UTC day of the play, as in 2026-10-24, where that is part of what names the
	// row; empty for a row with an id of its own.
	Day string
}

// dayLayout is the one spelling of a day, of the years 1 to 9999.
const dayLayout = "2006-01-02"

// check accepts none as well.
func (i RowIdentity) check() error {
	switch {
	case i == RowIdentity{}:
		return nil
	case !isHash(i.Hash):
		return errors.New("identity hash is no base64url SHA-256")
	case i.Day != "" && !isDay(i.Day):
		return errors.New("identity day is no day of the form " + dayLayout)
	}
	return nil
}

func isDay(s string) bool {
	t, err := time.Parse(dayLayout, s)
	return err == nil && t.Year() > 0
}

func (i RowIdentity) append(dst []byte) []byte {
	dst = append(dst, '{')
	if i.Day != "" {
		dst = append(dst, `"day":`...)
		dst = append(AppendString(dst, i.Day), ',')
	}
	dst = append(dst, `"hash":`...)
	return append(AppendString(dst, i.Hash), '}')
}

// readIdentity reads what RowIdentity.append writes.
func readIdentity(s *scanner) (i RowIdentity) {
	s.lit(`{`)
	if s.has(`"day":`) {
		if i.Day = s.str(); !isDay(i.Day) {
			s.fail("a day")
		}
		s.lit(`,`)
	}
	s.lit(`"hash":`)
	hash := s.hash()
	i.Hash = hash.String()
	s.lit(`}`)
	return i
}
