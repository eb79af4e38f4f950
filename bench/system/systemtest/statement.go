package systemtest

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Stated is a statement as tests read it.
type Stated struct {
	ID, State, Total, HeldAmount string
	Receipts                     int64
	SHA256                       *string
	Corrects, Difference         *string
}

// plays sends random rows of batches, of which each fifth is sent twice, and returns how many
// receipts they made.
func (s *Service) PlayRows(rng *rand.Rand, n int, from, to time.Time) (accepted int) {
	s.T.Helper()
	rights := []string{s.Rights["DOOH"], s.Rights["CTV"]}
	states := []string{"started", "first_quartile", "midpoint", "third_quartile", "complete"}
	for done := 0; done < n; {
		var rows []any
		for range min(500, n-done) {
			at := from.Add(time.Duration(rng.Int64N(int64(to.Sub(from)))))
			row := map[string]any{
				"rowId": fmt.Sprintf("row-%d", rng.Int64()), "playedAt": at.UTC().Format(time.RFC3339Nano), "rightId": rights[rng.IntN(2)], "spatialAnchorId": "screen-7",
				"dwellMs": rng.IntN(30_000), "telemetry": map[string]any{"viewable": rng.IntN(2) == 0, "completionState": states[rng.IntN(5)]},
			}
			if rng.IntN(3) == 0 {
				row["multiplier"] = float64(rng.IntN(50_000)+1) / 10_000
			}
			rows = append(rows, row)
			if rng.IntN(5) == 0 {
				rows = append(rows, row)
			}
		}
		var answer struct {
			Counts struct{ Accepted, Rejected int }
		}
		s.Post("/v1/delivery/ingest-batch", map[string]any{"rows": rows}, &answer)
		require.Zero(s.T, answer.Counts.Rejected)
		done, accepted = done+min(500, n-done), accepted+answer.Counts.Accepted
	}
	return accepted
}

// register makes two counterparties and rules of all units, with a minimum and a cap.
func (s *Service) RegisterRules(from time.Time) (payees []string) {
	s.T.Helper()
	for _, name := range []string{"Studio North", "Agency South"} {
		var made struct{ Counterparty struct{ ID string } }
		s.Post("/v1/settlement/counterparties", map[string]any{"name": name, "kind": "PUBLISHER", "currency": "EUR", "payoutRef": "DE00 1234", "taxId": "tax 7"}, &made)
		payees = append(payees, made.Counterparty.ID)
	}
	shares := []any{map[string]any{"counterpartyId": payees[0], "bps": 6667}, map[string]any{"counterpartyId": payees[1], "bps": 3333}}
	for _, rule := range []map[string]any{
		{"unit": "SECOND", "price": "0.0125"},
		{"unit": "CPM", "price": "7.333333333", "match": map[string]any{"rightId": s.Rights["CTV"]}},
		{"unit": "IMPRESSION", "price": "0.01", "priority": 5, "match": map[string]any{"completion": "complete"}, "cap": "1.5"},
		{"unit": "EVENT", "price": "0.003", "match": map[string]any{"meteringBasis": "viewable"}, "priority": 2, "minimum": "100"},
	} {
		rule["currency"], rule["shares"], rule["effectiveFrom"] = "EUR", shares, from.UTC().Format(time.RFC3339)
		s.Post("/v1/settlement/rules", rule, nil)
	}
	return payees
}

// DollarPayee makes a counterparty that is paid in dollars.
func (s *Service) DollarPayee() (id string) {
	s.T.Helper()
	var made struct{ Counterparty struct{ ID string } }
	s.Post("/v1/settlement/counterparties", map[string]any{"name": "Overseas", "kind": "PUBLISHER", "currency": "USD"}, &made)
	return made.Counterparty.ID
}

// PeriodOf is a period as a request has it.
func PeriodOf(from, to time.Time) map[string]any {
	return map[string]any{"from": from.UTC().Format(time.RFC3339), "to": to.UTC().Format(time.RFC3339), "currency": "EUR"}
}

// Draft drafts a statement, however long the loader takes to catch up.
func (s *Service) Draft(body map[string]any) Stated {
	s.T.Helper()
	s.Seal()
	var made struct{ Statement Stated }
	s.Post("/v1/settlement/statements", body, &made)
	return made.Statement
}

// CorrectTwice corrects a statement by what came late and by disputes, though a newer rule would
// price all of it otherwise, and verifies the chain.
func (s *Service) CorrectTwice(first *Stated, from time.Time, signed string, payees []string) {
	t, path := s.T, "/v1/settlement/statements/"
	s.Post("/v1/settlement/rules", map[string]any{"unit": "EVENT", "price": "1000", "currency": "EUR", "priority": 100, "effectiveFrom": from.UTC().Format(time.RFC3339),
		"shares": []any{map[string]any{"counterpartyId": payees[0], "bps": 10_000}}}, nil)
	correct := func(id string) Stated {
		s.Seal()
		var made struct{ Statement Stated }
		s.Post(path+id+"/correct", nil, &made)
		require.Equal(t, first.ID, *made.Statement.Corrects)
		s.Post(path+made.Statement.ID+"/issue", nil, &made)
		return made.Statement
	}
	reasons := func(of *Stated) (reasons []string) {
		var answer struct {
			Document struct {
				Correction struct{ Changes []struct{ Reason string } }
			}
		}
		s.Get(path+of.ID, &answer)
		for _, c := range answer.Document.Correction.Changes {
			if !slices.Contains(reasons, c.Reason) {
				reasons = append(reasons, c.Reason)
			}
		}
		return reasons
	}
	// Rows came late, and the window of a dispute that was held out is to be paid.
	one := correct(first.ID)
	require.ElementsMatch(t, []string{"DISPUTE", "LATE"}, reasons(&one))
	require.Greater(t, one.Receipts, first.Receipts)
	require.ErrorContains(t, s.Client.Do(t.Context(), http.MethodPost, path+one.ID+"/correct", nil, nil), "nothing has changed")

	var opened struct{ Dispute struct{ ID string } }
	s.Post("/v1/disputes", map[string]any{"rightId": s.Rights["CTV"], "reason": "not shown",
		"window": map[string]any{"from": from.Add(24 * time.Hour).UTC().Format(time.RFC3339), "to": from.Add(48 * time.Hour).UTC().Format(time.RFC3339)}}, &opened)
	s.Post("/v1/disputes/"+opened.Dispute.ID+"/resolve", map[string]any{"outcome": "UPHELD", "resolution": "not shown"}, nil)
	two := correct(one.ID)
	require.Equal(t, []string{"DISPUTE"}, reasons(&two))
	require.Less(t, two.Receipts, one.Receipts)
	require.Equal(t, two.Total, Added(t, Added(t, first.Total, *one.Difference), *two.Difference))
	var list struct{ Statements []Stated }
	s.Get("/v1/settlement/statements?corrects="+first.ID, &list)
	require.Len(t, list.Statements, 2)

	files := []string{signed}
	for _, of := range []Stated{one, two} {
		files = append(files, filepath.Join(filepath.Dir(signed), of.ID+".json"))
		require.NoError(t, s.Client.Download(t.Context(), path+of.ID+"?format=signed", files[len(files)-1]))
	}
	require.Equal(t, sha256.Sum256(ReadFile(t, signed)), s.download(path+first.ID+"?format=signed"), "what was issued stays")
	packs := SealAndExport(t, s.Client)
	anchor := []string{"verify", "--root", filepath.Join(s.Data, "keys", "root.vkey")}
	said := Command(t, slices.Concat(anchor, files, packs)...)
	require.Equal(t, 3, strings.Count(said, "statement.ok"), said)
	require.NotContains(t, said, "statement.unproven")
	if python := os.Getenv("MUNIMENT_TEST_PYTHON"); python != "" {
		for i := range files[1:] {
			out, err := exec.Command(python, append([]string{"sealer/independent/settle.py", "--statement", files[i+1], "--previous", files[i]}, PacksUpTo(t, files[i+1], packs)...)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
		}
	}

	// Any change is found: of what is signed, and of which statement comes before.
	lie := filepath.Join(t.TempDir(), "lie.json")
	require.NoError(t, os.WriteFile(lie, []byte(strings.Replace(string(ReadFile(t, files[2])), `"reason":"DISPUTE"`, `"reason":"LATE"`, 1)), 0o600))
	require.Contains(t, Fails(t, slices.Concat(anchor, []string{files[1], lie}, packs)...), "signature.invalid")
	without := Fails(t, slices.Concat(anchor, []string{files[0], files[2]}, packs)...)
	require.NotContains(t, without, "FAIL", "what is missing is no fault")
	require.Contains(t, without, "the statement "+one.ID+", which it corrects, is not among the given files")
	for _, format := range []string{"csv", "html"} {
		require.NotZero(t, s.download(path+two.ID+"?format="+format))
	}
}

// download is the hash of a file.
func (s *Service) download(path string) [32]byte {
	s.T.Helper()
	file := filepath.Join(s.T.TempDir(), "file")
	require.NoError(s.T, s.Client.Download(s.T.Context(), path, file))
	return sha256.Sum256(ReadFile(s.T, file))
}

// PacksUpTo are those up to the one up to which a statement states.
func PacksUpTo(t *testing.T, statement string, packs []string) []string {
	t.Helper()
	text, _, _ := strings.Cut(string(ReadFile(t, statement)), "\n")
	packID := Parse[struct{ AsOf struct{ PackID string } }](t, text).AsOf.PackID
	for i, file := range packs {
		if filepath.Base(file) == packID+".ndjson" {
			return packs[:i+1]
		}
	}
	require.Fail(t, "no pack is named", packID)
	return nil
}

// Added is the sum of two amounts.
func Added(t *testing.T, a, b string) string {
	t.Helper()
	sum, err := decimal(a)
	require.NoError(t, err)
	more, err := decimal(b)
	require.NoError(t, err)
	text := sum.Add(sum, more).FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// decimal reads an amount.
func decimal(text string) (*big.Rat, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("%q is no number", text)
	}
	return r, nil
}
