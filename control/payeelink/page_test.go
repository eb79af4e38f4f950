package payeelink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/paper"
	"muniment.example/control/statement"
	"muniment.example/control/store"
)

// TestDaysAreOfTheTenantsZone: the page says when a statement was corrected by the same clocks as the paper says when one was issued.
func TestDaysAreOfTheTenantsZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	corrected := &statement.Statement{IssuedAt: store.At(time.Date(2026, 11, 29, 23, 30, 0, 0, time.UTC))}
	h := handout(&Link{}, &statement.Part{Paper: &paper.Paper{}, Corrected: corrected}, "token", berlin)
	require.Len(t, h.Notes, 1)
	require.Contains(t, h.Notes[0], "corrected on 30 November 2026")
}
