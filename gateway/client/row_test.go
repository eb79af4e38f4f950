package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestReasonsOfRows: a row that the service could not take now is sent again, and one whose right was
// not in force is not.
func TestReasonsOfRows(t *testing.T) {
	for _, c := range []struct {
		refused api.RowError
		again   bool
		status  int
	}{
		{api.RowError{Code: api.InternalError, Reason: api.RightsStale}, true, 503},
		{api.RowError{Code: api.InternalError}, true, 500},
		{api.RowError{Code: api.StateConflict, Reason: api.RightNotInForce}, false, 409},
		{api.RowError{Code: api.StateConflict}, false, 409},
	} {
		r := &RowResult{Status: Rejected, Error: &c.refused}
		require.Equal(t, c.again, passingRow(r), "%+v", c.refused)
		require.Equal(t, c.status, OfRow(r).Status)
		require.Equal(t, c.refused.Reason, OfRow(r).Reason)
	}
}
