package payeelink

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/paper"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	sealerstatement "muniment.example/sealer/statement"
)

// TestCSVIsOfThePaper: the CSV of a correction or a voiding has what it changes, which sums to the paper, and not the lines of
// the whole period.
func TestCSVIsOfThePaper(t *testing.T) {
	payee := "cp_a"
	p := &paper.Paper{Document: sealerstatement.Statement{
		CounterpartyID: &payee, Currency: "EUR", Total: "3.637111",
		Lines: []sealerstatement.Line{{RightID: "rgh_1", Amount: "3.637111", Shares: []sealerstatement.Share{{CounterpartyID: payee, Amount: "3.637111", Bps: 10_000}}}},
	}}
	last := func(p *paper.Paper) string {
		a, err := (&Service{}).file(t.Context(), &statement.Part{Paper: p}, fileCSV)
		require.NoError(t, err)
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(a.body), "\ufeff"))).ReadAll()
		require.NoError(t, err)
		require.Len(t, rows, 2)
		return rows[1][slices.Index(rows[0], "amount")]
	}
	require.Equal(t, "3.637111", last(p))
	p.Document.Correction = &sealerstatement.Correction{Of: "stm_0", Difference: "-0.1", Changes: []sealerstatement.Change{{Amount: "-0.1", Reason: "DISPUTE", RightID: "rgh_1"}}}
	require.Equal(t, "-0.1", last(p))
	p.Document.Correction.Changes = nil
	_, err := (&Service{}).file(t.Context(), &statement.Part{Paper: p}, fileCSV)
	require.ErrorIs(t, err, errNoFile, "the text that it corrects is lost")
}

// TestDaysAreOfTheTenantsZone: the page says when a statement was corrected by the same clocks as the paper says when one was issued.
func TestDaysAreOfTheTenantsZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	corrected := &statement.Statement{IssuedAt: store.At(time.Date(2026, 11, 29, 23, 30, 0, 0, time.UTC))}
	h := handout(&Link{}, &statement.Part{Paper: &paper.Paper{}, Corrected: corrected}, "token", berlin)
	require.Len(t, h.Notes, 1)
	require.Contains(t, h.Notes[0], "corrected on 30 November 2026")
}
