package main

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

// stated is a statement as tests read it.
type stated struct {
	ID, State, Total, HeldAmount string
	Receipts                     int64
	SHA256                       *string
	Corrects, Difference         *string
}

// plays sends random rows of batches, of which each fifth is sent twice, and returns how many
// receipts they made.
func (s *service) playRows(rng *rand.Rand, n int, from, to time.Time) (accepted int) {
	s.t.Helper()
	rights := []string{s.rights["DOOH"], s.rights["CTV"]}
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
		s.post("/v1/delivery/ingest-batch", map[string]any{"rows": rows}, &answer)
		require.Zero(s.t, answer.Counts.Rejected)
		done, accepted = done+min(500, n-done), accepted+answer.Counts.Accepted
	}
	return accepted
}

// register makes two counterparties and rules of all units, with a minimum and a cap.
func (s *service) registerRules(from time.Time) (payees []string) {
	s.t.Helper()
	for _, name := range []string{"Studio North", "Agency South"} {
		var made struct{ Counterparty struct{ ID string } }
		s.post("/v1/settlement/counterparties", map[string]any{"name": name, "kind": "PUBLISHER", "currency": "EUR", "payoutRef": "DE00 1234", "taxId": "tax 7"}, &made)
		payees = append(payees, made.Counterparty.ID)
	}
	shares := []any{map[string]any{"counterpartyId": payees[0], "bps": 6667}, map[string]any{"counterpartyId": payees[1], "bps": 3333}}
	for _, rule := range []map[string]any{
		{"unit": "SECOND", "price": "0.0125"},
		{"unit": "CPM", "price": "7.333333333", "match": map[string]any{"rightId": s.rights["CTV"]}},
		{"unit": "IMPRESSION", "price": "0.01", "priority": 5, "match": map[string]any{"completion": "complete"}, "cap": "1.5"},
		{"unit": "EVENT", "price": "0.003", "match": map[string]any{"meteringBasis": "viewable"}, "priority": 2, "minimum": "100"},
	} {
		rule["currency"], rule["shares"], rule["effectiveFrom"] = "EUR", shares, from.UTC().Format(time.RFC3339)
		s.post("/v1/settlement/rules", rule, nil)
	}
	return payees
}

// periodOf is a period as a request has it.
func periodOf(from, to time.Time) map[string]any {
	return map[string]any{"from": from.UTC().Format(time.RFC3339), "to": to.UTC().Format(time.RFC3339), "currency": "EUR"}
}

// draft drafts a statement, however long the loader takes to catch up.
func (s *service) draft(body map[string]any) stated {
	s.t.Helper()
	s.seal()
	var made struct{ Statement stated }
	s.post("/v1/settlement/statements", body, &made)
	return made.Statement
}

func TestStatementOfAService(t *testing.T) {
	t.Parallel()
	s := newService(t)
	statementOfAService(t, s, times(2_000, 200_000))
}

// statementOfAService: what was delivered is stated, held out while it is disputed, issued, and
// recomputed offline from the packs: by our command and by a program that has nothing of ours.
func statementOfAService(t *testing.T, s *service, rows int) {
	now := time.Now().Truncate(time.Second)
	from, to := now.Add(-5*24*time.Hour), now.Add(-time.Hour)
	payees := s.registerRules(from)
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := s.playRows(rng, rows, from.Add(-24*time.Hour), to)
	require.Positive(t, accepted)
	s.seal()

	// A dispute holds a window of a right; the amount is released when it is rejected.
	whole := s.draft(periodOf(from, to))
	require.Equal(t, "0", whole.HeldAmount)
	var opened struct{ Dispute struct{ ID string } }
	s.post("/v1/disputes", map[string]any{"rightId": s.rights["DOOH"], "reason": "not shown",
		"window": map[string]any{"from": from.UTC().Format(time.RFC3339), "to": from.Add(24 * time.Hour).UTC().Format(time.RFC3339)}}, &opened)
	held := s.draft(periodOf(from, to))
	require.Equal(t, whole.Total, added(t, held.Total, held.HeldAmount))
	require.NotEqual(t, "0", held.HeldAmount)
	require.ErrorContains(t, s.client.Do(t.Context(), http.MethodPost, "/v1/settlement/statements/"+whole.ID+"/issue", nil, nil), "draft it again")

	var issued struct{ Statement stated }
	s.post("/v1/settlement/statements/"+held.ID+"/issue", nil, &issued)
	require.Equal(t, "ISSUED", issued.Statement.State)
	again := s.draft(periodOf(from.Add(time.Hour), to))
	require.ErrorContains(t, s.client.Do(t.Context(), http.MethodPost, "/v1/settlement/statements/"+again.ID+"/issue", nil, nil), "overlaps")

	// Late rows, copies and the dispute's end change nothing of what was issued.
	s.post("/v1/disputes/"+opened.Dispute.ID+"/resolve", map[string]any{"outcome": "REJECTED", "resolution": "shown"}, nil)
	s.playRows(rng, 50, from, to)
	dir := t.TempDir()
	signed := filepath.Join(dir, held.ID+".statement")
	require.NoError(t, s.client.Download(t.Context(), "/v1/settlement/statements/"+held.ID+"?format=signed", signed))
	var after struct{ Statement stated }
	s.get("/v1/settlement/statements/"+held.ID, &after)
	require.Equal(t, issued.Statement, after.Statement)
	require.NotContains(t, string(read(t, signed)), "tax 7")
	require.NotContains(t, string(read(t, signed)), "1234")

	packs := sealAndExport(t, s.client)
	said := muniment(t, append([]string{"verify", "--root", filepath.Join(s.data, "keys", "root.vkey"), signed}, packs...)...)
	require.Contains(t, said, "statement.ok")
	require.NotContains(t, said, "statement.unproven")
	if python := os.Getenv("MUNIMENT_TEST_PYTHON"); python != "" {
		upTo := packsUpTo(t, signed, packs)
		out, err := exec.Command(python, append([]string{"sealer/independent/settle.py", "--statement", signed}, upTo...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", out)
	}

	// Of one counterparty: the same to the last micro-unit, as its part of all.
	var list struct {
		Document struct {
			Payees []struct{ CounterpartyID, Amount string }
			Lines  []struct {
				RightID, RuleID, MeteringBasis string
				Receipts                       int64
			}
		}
	}
	s.get("/v1/settlement/statements/"+held.ID, &list)
	require.Len(t, list.Document.Payees, 2)
	var stated int64
	for _, l := range list.Document.Lines { // each receipt is behind one line
		seen := map[string]bool{}
		for cursor := ""; ; {
			var page struct {
				Receipts   []struct{ ReceiptID string }
				NextCursor string
			}
			s.get("/v1/settlement/statements/"+held.ID+"/receipts?limit=500&rightId="+l.RightID+"&ruleId="+l.RuleID+"&meteringBasis="+l.MeteringBasis+"&cursor="+cursor, &page)
			for _, receipt := range page.Receipts {
				require.False(t, seen[receipt.ReceiptID])
				seen[receipt.ReceiptID] = true
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		require.Len(t, seen, int(l.Receipts), "%+v", l)
		stated += l.Receipts
	}
	require.Equal(t, held.Receipts, stated)
	for _, format := range []string{"csv", "html"} {
		file := filepath.Join(dir, "statement."+format)
		require.NoError(t, s.client.Download(t.Context(), "/v1/settlement/statements/"+held.ID+"?format="+format, file))
		require.Contains(t, string(read(t, file)), payees[0])
	}
	s.post("/v1/settlement/statements/"+held.ID+"/settle", map[string]any{"reference": "transfer 12"}, &after)
	require.Equal(t, "SETTLED", after.Statement.State)
	s.correctTwice(&after.Statement, from, signed, payees)
}

// correctTwice corrects a statement by what came late and by disputes, though a newer rule would
// price all of it otherwise, and verifies the chain.
func (s *service) correctTwice(first *stated, from time.Time, signed string, payees []string) {
	t, path := s.t, "/v1/settlement/statements/"
	s.post("/v1/settlement/rules", map[string]any{"unit": "EVENT", "price": "1000", "currency": "EUR", "priority": 100, "effectiveFrom": from.UTC().Format(time.RFC3339),
		"shares": []any{map[string]any{"counterpartyId": payees[0], "bps": 10_000}}}, nil)
	correct := func(id string) stated {
		s.seal()
		var made struct{ Statement stated }
		s.post(path+id+"/correct", nil, &made)
		require.Equal(t, first.ID, *made.Statement.Corrects)
		s.post(path+made.Statement.ID+"/issue", nil, &made)
		return made.Statement
	}
	reasons := func(of *stated) (reasons []string) {
		var answer struct {
			Document struct {
				Correction struct{ Changes []struct{ Reason string } }
			}
		}
		s.get(path+of.ID, &answer)
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
	require.ErrorContains(t, s.client.Do(t.Context(), http.MethodPost, path+one.ID+"/correct", nil, nil), "nothing has changed")

	var opened struct{ Dispute struct{ ID string } }
	s.post("/v1/disputes", map[string]any{"rightId": s.rights["CTV"], "reason": "not shown",
		"window": map[string]any{"from": from.Add(24 * time.Hour).UTC().Format(time.RFC3339), "to": from.Add(48 * time.Hour).UTC().Format(time.RFC3339)}}, &opened)
	s.post("/v1/disputes/"+opened.Dispute.ID+"/resolve", map[string]any{"outcome": "UPHELD", "resolution": "not shown"}, nil)
	two := correct(one.ID)
	require.Equal(t, []string{"DISPUTE"}, reasons(&two))
	require.Less(t, two.Receipts, one.Receipts)
	require.Equal(t, two.Total, added(t, added(t, first.Total, *one.Difference), *two.Difference))
	var list struct{ Statements []stated }
	s.get("/v1/settlement/statements?corrects="+first.ID, &list)
	require.Len(t, list.Statements, 2)

	files := []string{signed}
	for _, of := range []stated{one, two} {
		files = append(files, filepath.Join(filepath.Dir(signed), of.ID+".statement"))
		require.NoError(t, s.client.Download(t.Context(), path+of.ID+"?format=signed", files[len(files)-1]))
	}
	require.Equal(t, sha256.Sum256(read(t, signed)), s.download(path+first.ID+"?format=signed"), "what was issued stays")
	packs := sealAndExport(t, s.client)
	anchor := []string{"verify", "--root", filepath.Join(s.data, "keys", "root.vkey")}
	said := muniment(t, slices.Concat(anchor, files, packs)...)
	require.Equal(t, 3, strings.Count(said, "statement.ok"), said)
	require.NotContains(t, said, "statement.unproven")
	if python := os.Getenv("MUNIMENT_TEST_PYTHON"); python != "" {
		for i := range files[1:] {
			out, err := exec.Command(python, append([]string{"sealer/independent/settle.py", "--statement", files[i+1], "--previous", files[i]}, packsUpTo(t, files[i+1], packs)...)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
		}
	}

	// Any change is found: of what is signed, and of which statement comes before.
	lie := filepath.Join(t.TempDir(), "lie.statement")
	require.NoError(t, os.WriteFile(lie, []byte(strings.Replace(string(read(t, files[2])), `"reason":"DISPUTE"`, `"reason":"LATE"`, 1)), 0o600))
	require.Contains(t, fails(t, slices.Concat(anchor, []string{files[1], lie}, packs)...), "signature.invalid")
	without := muniment(t, slices.Concat(anchor, []string{files[0], files[2]}, packs)...)
	require.Contains(t, without, "the statement "+one.ID+", which it corrects, is not among the given files")
	for _, format := range []string{"csv", "html"} {
		require.NotZero(t, s.download(path+two.ID+"?format="+format))
	}
}

// download is the hash of a file.
func (s *service) download(path string) [32]byte {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "file")
	require.NoError(s.t, s.client.Download(s.t.Context(), path, file))
	return sha256.Sum256(read(s.t, file))
}

// packsUpTo are those up to the one up to which a statement states.
func packsUpTo(t *testing.T, statement string, packs []string) []string {
	t.Helper()
	text, _, _ := strings.Cut(string(read(t, statement)), "\n")
	packID := parse[struct{ AsOf struct{ PackID string } }](t, text).AsOf.PackID
	for i, file := range packs {
		if filepath.Base(file) == packID+".ndjson" {
			return packs[:i+1]
		}
	}
	require.Fail(t, "no pack is named", packID)
	return nil
}

// added is the sum of two amounts.
func added(t *testing.T, a, b string) string {
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
