package deploy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/deploy/alerttest"
)

// TestEachAlertHasADrill: the runbooks' table has a row for each alert, in the order of the rules. The row
// says how the alert is provoked and how that went, or why it can't be.
func TestEachAlertHasADrill(t *testing.T) {
	var alerts, rows []string
	for _, r := range rules(t, shown{}) {
		if r.Alert != "" {
			alerts = append(alerts, r.Alert)
		}
	}
	for _, row := range alerttest.Table(t, "runbooks.md") {
		rows = append(rows, row.Alert)
		require.Regexp(t, `^(On the engines|In one process|Not provoked): `, row.How, row.Alert)
		require.Regexp(t, `^fired after \d+ s, ended after \d+ s; (no|\d+) commands?( typed)?$|^\d+ commands? typed$|^none to type$`, row.Outcome, row.Alert)
	}
	require.Equal(t, alerts, rows)
}
