package storytest

import (
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// statementOfAService: what was delivered is stated, held out while it is disputed, issued, and
// recomputed offline from the packs: by our command and by a program that has nothing of ours.
func Statement(t *testing.T, s *systemtest.Service, rows int) {
	now := time.Now().Truncate(time.Second)
	from, to := now.Add(-5*24*time.Hour), now.Add(-time.Hour)
	payees := s.RegisterRules(from)
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := s.PlayRows(rng, rows, from.Add(-24*time.Hour), to)
	require.Positive(t, accepted)
	s.Seal()

	// A dispute holds a window of a right; the amount is released when it is rejected.
	whole := s.Draft(systemtest.PeriodOf(from, to))
	require.Equal(t, "0", whole.HeldAmount)
	var opened struct{ Dispute struct{ ID string } }
	s.Post("/v1/disputes", map[string]any{"rightId": s.Rights["DOOH"], "reason": "not shown",
		"window": map[string]any{"from": from.UTC().Format(time.RFC3339), "to": from.Add(24 * time.Hour).UTC().Format(time.RFC3339)}}, &opened)
	held := s.Draft(systemtest.PeriodOf(from, to))
	require.Equal(t, whole.Total, systemtest.Added(t, held.Total, held.HeldAmount))
	require.NotEqual(t, "0", held.HeldAmount)
	require.ErrorContains(t, s.Client.Do(t.Context(), http.MethodPost, "/v1/settlement/statements/"+whole.ID+"/issue", nil, nil), "draft it again")

	var issued struct{ Statement systemtest.Stated }
	s.Post("/v1/settlement/statements/"+held.ID+"/issue", nil, &issued)
	require.Equal(t, "ISSUED", issued.Statement.State)
	require.ErrorContains(t, s.Client.Do(t.Context(), http.MethodPost, "/v1/settlement/statements", systemtest.PeriodOf(from.Add(time.Hour), to), nil), "overlaps with that of "+held.ID)

	// Late rows, copies and the dispute's end change nothing of what was issued.
	s.Post("/v1/disputes/"+opened.Dispute.ID+"/resolve", map[string]any{"outcome": "REJECTED", "resolution": "shown"}, nil)
	s.PlayRows(rng, 50, from, to)
	dir := t.TempDir()
	signed := filepath.Join(dir, held.ID+".json")
	require.NoError(t, s.Client.Download(t.Context(), "/v1/settlement/statements/"+held.ID+"?format=signed", signed))
	var after struct{ Statement systemtest.Stated }
	s.Get("/v1/settlement/statements/"+held.ID, &after)
	require.Equal(t, issued.Statement, after.Statement)
	require.NotContains(t, string(systemtest.ReadFile(t, signed)), "tax 7")
	require.NotContains(t, string(systemtest.ReadFile(t, signed)), "DE00 1234")

	packs := systemtest.SealAndExport(t, s.Client)
	said := systemtest.Command(t, append([]string{"verify", "--root", filepath.Join(s.Data, "keys", "root.vkey"), signed}, packs...)...)
	require.Contains(t, said, "statement.ok")
	require.NotContains(t, said, "statement.unproven")
	if python := os.Getenv("MUNIMENT_TEST_PYTHON"); python != "" {
		upTo := systemtest.PacksUpTo(t, signed, packs)
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
	s.Get("/v1/settlement/statements/"+held.ID, &list)
	require.Len(t, list.Document.Payees, 2)
	var stated int64
	for _, l := range list.Document.Lines { // each receipt is behind one line
		seen := map[string]bool{}
		for cursor := ""; ; {
			var page struct {
				Receipts   []struct{ ReceiptID string }
				NextCursor string
			}
			s.Get("/v1/settlement/statements/"+held.ID+"/receipts?limit=500&rightId="+l.RightID+"&ruleId="+l.RuleID+"&meteringBasis="+l.MeteringBasis+"&cursor="+cursor, &page)
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
	texts := map[string]string{}
	for _, format := range []string{"csv&table=shares", "html", "csv&table=shares&bom=true"} {
		file := filepath.Join(dir, "statement")
		require.NoError(t, s.Client.Download(t.Context(), "/v1/settlement/statements/"+held.ID+"?format="+format, file))
		texts[format] = string(systemtest.ReadFile(t, file))
		require.Contains(t, texts[format], payees[0])
	}
	require.Equal(t, "\ufeff"+texts["csv&table=shares"], texts["csv&table=shares&bom=true"])
	s.Post("/v1/settlement/statements/"+held.ID+"/settle", map[string]any{"reference": "transfer 12"}, &after)
	require.Equal(t, "SETTLED", after.Statement.State)
	s.CorrectTwice(&after.Statement, from, signed, payees)
}
