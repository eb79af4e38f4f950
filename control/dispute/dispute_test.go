package dispute

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

var now = store.At(time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC))

func at(day int) store.Instant { return store.At(now.AddDate(0, 0, day)) }

// TestTransitions repeats the whole table.
func TestTransitions(t *testing.T) {
	want := map[string]State{
		"investigate OPEN":      Investigating,
		"respond INVESTIGATING": Responded,
		"resolve OPEN":          Resolved,
		"resolve INVESTIGATING": Resolved,
		"resolve RESPONDED":     Resolved,
	}
	for _, from := range []State{Open, Investigating, Responded, Resolved} {
		for _, a := range []Action{Investigate, Respond, Resolve, "withdraw"} {
			name := fmt.Sprintf("%s %s", a, from)
			t.Run(name, func(t *testing.T) {
				was := Dispute{DisputeSummary: DisputeSummary{ID: "dsp_a", State: from, UpdatedAt: now}}
				next, _, err := disputes.After(was, a, at(1))
				if want[name] == "" {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					require.ErrorContains(t, err, string(from))
					require.Equal(t, was, next)
					return
				}
				require.NoError(t, err)
				require.Equal(t, want[name], next.State)
				require.Equal(t, at(1), next.UpdatedAt)
				require.Equal(t, from, was.State, "the record before stays as it was")
				require.False(t, transitions[a].Stops)
			})
		}
	}
}

func TestOpen(t *testing.T) {
	many := make([]string, maxReceipts+1)
	for i := range many {
		many[i] = fmt.Sprintf("rcp_%d", i)
	}
	year := Window{From: at(0), To: at(400)}
	for _, c := range []struct {
		name    string
		ids     []string
		rightID *string
		window  Window
		field   string
	}{
		{"receipts", []string{"rcp_a", "rcp_b"}, nil, Window{}, ""},
		{"as many as there may be", many[1:], nil, Window{}, ""},
		{"a right in a window", nil, new("rgh_a"), year, ""},
		{"nothing", nil, nil, Window{}, "receiptIds"},
		{"one too many", many, nil, Window{}, "receiptIds"},
		{"one twice", []string{"rcp_a", "rcp_b", "rcp_a"}, nil, Window{}, "receiptIds[2]"},
		{"both", []string{"rcp_a"}, new("rgh_a"), year, "receiptIds"},
		{"receipts of a right", []string{"rcp_a"}, new("rgh_a"), Window{}, "receiptIds"},
		{"receipts in a window", []string{"rcp_a"}, nil, year, "receiptIds"},
		{"a window of nothing", nil, nil, year, "rightId"},
		{"a right for ever", nil, new("rgh_a"), Window{}, "window"},
		{"half a window", nil, new("rgh_a"), Window{To: at(1)}, "window"},
		{"an empty window", nil, new("rgh_a"), Window{From: at(1), To: at(1)}, "window.to"},
		{"a window from end to beginning", nil, new("rgh_a"), Window{From: at(1), To: at(0)}, "window.to"},
		{"a long window", nil, new("rgh_a"), Window{From: at(0), To: store.At(at(400).Add(time.Millisecond))}, "window.to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			requested := Dispute{DisputeSummary: DisputeSummary{ReceiptIDs: c.ids, RightID: c.rightID, Window: c.window, Reason: "why"}}
			made, err := open(requested, now)
			if c.field == "" {
				require.NoError(t, err)
				requested.State, requested.CreatedAt, requested.UpdatedAt = Open, now, now
				if c.rightID != nil {
					requested.Rendered = Rendered{c.window.From, store.At(c.window.To.Add(-time.Millisecond))}
				}
				require.Equal(t, requested, made)
				return
			}
			require.Equal(t, api.ValidationFailed, api.From(err).Code)
			require.Equal(t, c.field, api.From(err).Field)
		})
	}
}

func TestEvidenceIsBounded(t *testing.T) {
	several := func(n int, e Evidence) (list []Evidence) {
		for range n {
			list = append(list, e)
		}
		return list
	}
	references := func(n int, text string) (list []string) {
		for range n {
			list = append(list, text)
		}
		return list
	}
	widest := Evidence{Text: strings.Repeat("x", maxText), References: references(maxReferences, strings.Repeat("x", maxReference))}
	for _, c := range []struct {
		name      string
		has, more []Evidence
		field     string
	}{
		{"nothing", nil, nil, ""},
		{"all that there may be", several(maxEvidence-1, widest), several(1, widest), ""},
		{"one too many", several(maxEvidence, Evidence{}), several(1, Evidence{}), "evidence"},
		{"a long text in bytes", nil, []Evidence{{}, {Text: strings.Repeat("é", maxText/2) + "x"}}, "evidence[1].text"},
		{"many references", nil, []Evidence{{References: references(maxReferences+1, "x")}}, "evidence[0].references"},
		{"a long reference", nil, []Evidence{{References: []string{"x", strings.Repeat("é", maxReference/2) + "x"}}}, "evidence[0].references[1]"},
		{"no reference", nil, []Evidence{{References: []string{""}}}, "evidence[0].references[0]"},
		{"a reference of two lines", nil, []Evidence{{References: []string{"a\nb"}}}, "evidence[0].references[0]"},
		{"what is long as JSON only", nil, several(maxEvidence, Evidence{Text: strings.Repeat("\x01", maxText)}), "evidence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Dispute{Evidence: c.has}
			err := d.append(c.more)
			if c.field == "" {
				require.NoError(t, err)
				require.Equal(t, len(c.has)+len(c.more), len(d.Evidence))
				return
			}
			require.Equal(t, api.ValidationFailed, api.From(err).Code)
			require.Equal(t, c.field, api.From(err).Field)
			require.Equal(t, c.has, d.Evidence, "as it was")
		})
	}
}
