package client

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

func someRows(n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{RowID: fmt.Sprint("row-", i), PlayedAt: "2026-05-01T12:00:00Z", DwellMs: 8200, RightID: "rgh_1", SpatialAnchorID: "a"}
	}
	return rows
}

// TestBatchesFitTheService: at most 1,000 rows and 8 MiB, and results that are aligned to the rows.
func TestBatchesFitTheService(t *testing.T) {
	l := newLedger()
	c := newTestClient(t, l)
	got, err := c.DeliverBatch(t.Context(), someRows(2345))
	require.NoError(t, err)
	require.Equal(t, []int{1000, 1000, 345}, l.batches)
	require.Len(t, got, 2345)
	for i := range got {
		require.Equal(t, i, got[i].Index)
		require.Equal(t, Accepted, got[i].Status)
	}

	l.batches = nil
	long := someRows(400)
	for i := range long {
		long[i].RowID += "-long"
		long[i].Telemetry = json.RawMessage(`{"x": "` + strings.Repeat("y", 60<<10) + "\"\n}")
	}
	got, err = c.DeliverBatch(t.Context(), long)
	require.NoError(t, err)
	require.Len(t, l.batches, 3)
	for _, n := range l.batches {
		require.LessOrEqual(t, n*(60<<10), maxBody)
	}
	require.Equal(t, Accepted, got[399].Status)

	got, err = c.DeliverBatch(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Len(t, l.batches, 3, "nothing is sent")
}

// TestRowsStandByThemselves: a row that can't be sent has its result, and delays no other.
func TestRowsStandByThemselves(t *testing.T) {
	l := newLedger()
	c := newTestClient(t, l)
	rows := someRows(5)
	rows[1].DwellMs = math.NaN()
	rows[2].Telemetry = json.RawMessage(`{"x":`)
	rows[3].CorrelationID = strings.Repeat("x", 70<<10)
	rows[4].RowID = rows[0].RowID
	got, err := c.DeliverBatch(t.Context(), rows)
	require.NoError(t, err)
	for i, want := range []string{Accepted, Rejected, Rejected, Rejected, Duplicate} {
		require.Equal(t, i, got[i].Index)
		require.Equal(t, want, got[i].Status, i)
		require.Equal(t, want == Rejected, OfRow(&got[i]) != nil)
		if want == Rejected {
			require.ErrorIs(t, OfRow(&got[i]), ErrInvalid)
		}
	}
}

// TestBusyRowsAreSentAgain: they alone, until they are answered or have been tried often enough.
func TestBusyRowsAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		c := newTestClient(t, l)
		busy := &api.RowError{Code: api.InternalError, Reason: api.RightsStale, Message: "stale"}
		l.decide = func(r api.Row) *api.RowError {
			switch {
			case r.RowID == "row-3" && l.sent[r.RowID] < 3, r.RowID == "row-4":
				return busy
			case r.RowID == "row-5":
				return &api.RowError{Code: api.PreconditionFailed, Message: "no", Violations: json.RawMessage(`[{"code":"SPEED","observed":65}]`)}
			}
			return nil
		}
		got, err := c.DeliverBatch(t.Context(), someRows(10))
		require.NoError(t, err)
		require.Equal(t, []int{10, 2, 2, 1, 1}, l.batches)
		require.Equal(t, Accepted, got[3].Status)
		require.ErrorIs(t, OfRow(&got[4]), ErrUnavailable)
		require.Equal(t, api.RightsStale, OfRow(&got[4]).Reason)
		require.ErrorIs(t, OfRow(&got[5]), ErrPrecondition)
		require.Equal(t, "SPEED", OfRow(&got[5]).Violations[0].Code)
		require.Nil(t, OfRow(&got[6]))
		for i := range got {
			require.Equal(t, i, got[i].Index)
		}
	})
}

// TestBatchThatIsRefused: what was answered before is kept, and the rest says that it was not.
func TestBatchThatIsRefused(t *testing.T) {
	l := newLedger()
	l.refuse = func(rows []api.Row) *api.Error {
		if rows[0].RowID == "row-1000" {
			return &api.Error{Code: api.AuthInvalid}
		}
		return nil
	}
	got, err := newTestClient(t, l).DeliverBatch(t.Context(), someRows(1500))
	require.ErrorIs(t, err, ErrAuth)
	require.Equal(t, Accepted, got[999].Status)
	require.Empty(t, got[1000].Status)
}
