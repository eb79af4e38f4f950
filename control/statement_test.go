package control_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
)

// TestCursorsOfASettlement: a cursor that names no row is refused.
func TestCursorsOfASettlement(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	for _, row := range []string{"1.0.1", "1.0.1 ", "1.0.1 x", "1.0.1 -5", "1.0.1 0", "1.0.1 99999999999999999999"} {
		a := h.call(key, "GET", "/v1/settlement?cursor="+*route.PageOf("/v1/settlement", "").Next(row), "")
		require.Equal(t, 422, a.status, "%s: %s", row, a.text)
		require.Contains(t, a.text, `"field":"cursor"`, row)
	}
	a := h.call(key, "GET", "/v1/settlement?currency=eur", "")
	require.Equal(t, 422, a.status, a.text)
	require.Contains(t, a.text, `"field":"currency"`)
	require.Equal(t, 200, h.call(key, "GET", "/v1/settlement", "").status)
}

// TestStatementsOfNothing: without a delivery there is nothing to state, and what is wrong with
// a request is reported before that.
func TestStatementsOfNothing(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	for body, want := range map[string]string{
		`{"from":"2026-01-01","to":"2026-02-01","currency":"EUR"}`:                                   "nothing has been delivered yet",
		`{"from":"2026-01-01","to":"2026-02-01","currency":"eur"}`:                                   `"field":"currency"`,
		`{"from":"2026-01-01","to":"2026-01-01","currency":"EUR"}`:                                   `"field":"to"`,
		`{"from":"2026-01-01","to":"2026-02-01","currency":"EUR","counterpartyId":"cp_of_a_friend"}`: `"field":"counterpartyId"`,
	} {
		require.Contains(t, h.call(key, "POST", "/v1/settlement/statements", body).text, want, body)
	}
}
