package verify

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/rate"
)

// TestSummaries: a person reads first what the files prove, or what decides and what to do.
func TestSummaries(t *testing.T) {
	for files, want := range map[string]string{
		"good/chain-1.ndjson good/chain-2.ndjson":                          "These 5 plays, 13.5 s, were recorded before 1 May 2026, 12:00:12 UTC and were not changed since.",
		"good/chain-1.ndjson good/chain-1.json good/receipt.json":          "These 4 plays, 9 s, were recorded before 1 May 2026, 12:00:07 UTC and were not changed since.",
		"good/receipt.json good/keys.json":                                 "The receipt for a play of 1.5 s was signed by the service on 1 May 2026, 12:00:02 UTC. Nothing here shows that it is in the log.",
		"good/sandbox.json":                                                "These 3 plays, 4.5 s, were recorded before 1 May 2026, 12:00:04 UTC and were not changed since. This is evidence of a sandbox, which anyone can make.",
		"good/proof.json good/proof-keys.json":                             "This play, 1.5 s, was recorded before 1 May 2026, 12:00:05 UTC and was not changed since.",
		"good/proof.tlog-proof good/proof-event.json good/proof-keys.json": "This event, which is no play, was recorded before 1 May 2026, 12:00:11 UTC and was not changed since.",
		"good/keys.json":                                                   "The key directory is signed under the root key.",
		"bad/receipt-dwell.json good/keys.json":                            "This must not be relied on: ../testdata/bad/receipt-dwell.json, receipt rcp_",
		"good/proof.tlog-proof good/proof-keys.json":                       "This can't be judged yet: ../testdata/good/proof.tlog-proof, the event of leaf 6 was not given (event.missing). Next: give the event that the proof is about.",
		"good/proof.tlog-proof good/proof-keys.json bad/header-ms.ndjson":  "This must not be relied on: ../testdata/bad/header-ms.ndjson, the header is not what key ",
		"good/checkpoint.note good/consistency.json good/proof-keys.json":  "The log muniment/tnt_01KQHPHXG01TSY6TZV4KEDKERX had 8 entries by 1 May 2026, 12:00:10 UTC. The log muniment/tnt_01KQHPHXG01TSY6TZV4KEDKERX only grew from 3 entries to 10 entries. The key directory is signed under the root key.",
	} {
		o := Options{Root: "../testdata/root.vkey", Rating: rate.Rating}
		for name := range strings.FieldsSeq(files) {
			o.Files = append(o.Files, filepath.Join("../testdata", name))
		}
		var out bytes.Buffer
		Files(context.Background(), o, &out)
		summary, _, _ := strings.Cut(out.String(), "\n")
		require.True(t, strings.HasPrefix(summary, want), "%s: %s", files, summary)
	}
}

// TestSummaryOfAStatement names its period, its total and its state.
func TestSummaryOfAStatement(t *testing.T) {
	c := newCorrected(t)
	first := c.verify(&c.first, c.packs...)
	require.Regexp(t, `^These \d+ plays, .* not changed since\. The statement from .* follows from the receipts and the rules: [\d.,]+ [A-Z]{3} for \d payees\.`, first.Summary)
	require.Regexp(t, `^The statement from .* payees\.$`, first.Files[0].Summary)
	corrected := c.beside(&c.third, &c.second, &c.first)
	require.Regexp(t, ` It corrects stm_2 by -?[\d.,]+ [A-Z]{3}\.$`, corrected.Files[0].Summary)
	void := c.void(&c.second)
	require.Regexp(t, `^This voids the statement stm_2, from .*: nothing of it is due\.$`, c.beside(&void, &c.second).Files[0].Summary)
}

// TestSummaryOfAPayable says who stated what as due, and not that it still is: it may be void since.
func TestSummaryOfAPayable(t *testing.T) {
	a := newArchive(t, 3)
	for gross, stated := range map[string]string{"1006.30": `1,006\.30 EUR as due to cpt_1`, "-6.30": `6\.30 EUR as credited against cpt_1`} {
		a.Now = a.Now.Add(time.Second)
		event, err := sealer.AppendEvent(nil, &sealer.Event{
			EventID: a.ID("evt_"), TenantID: a.Tenant, Type: "payable.issued", At: a.Now, Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: sealer.Ref{Kind: "payable", ID: "pay_1"},
			Data: fmt.Appendf(nil, `{"counterpartyId":"cpt_1","currency":"EUR","dueOn":"2026-06-30","gross":%q,"number":"2026-000001","statementId":"stm_1"}`, gross),
		})
		require.NoError(t, err)
		a.keep([][]byte{event})
		leaf := len(a.events) - 1
		r := a.verify(a.Directory(), nil, file{"proof", a.proofAnswer(leaf, a.home(leaf))})
		require.True(t, r.OK, "%+v", r.Files)
		want := `^The entry that ` + a.Tenant + ` stated ` + stated + ` by 2026-06-30, with the number 2026-000001, of the statement stm_1, was recorded before .* and was not changed since\. Later voids, corrections and payments are not in this proof\.$`
		require.Regexp(t, want, r.Summary)
		require.Regexp(t, want, r.Files[0].Summary)
	}
}

// TestSummaryIsInert: what stands in files can't write lines of its own.
func TestSummaryIsInert(t *testing.T) {
	f := newFolder(t)
	name := f.write("x\n  ok    signature.ok\n\x1b[2K", []byte("{}"))
	var out bytes.Buffer
	require.Equal(t, ExitUnjudged, Files(t.Context(), Options{Root: f.w.VKey, Files: []string{name}}, &out))
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\n  ok ")
}

func TestNumbersForPeople(t *testing.T) {
	for ms, want := range map[float64]string{0: "0 s", 8200: "8.2 s", 59_949: "59.9 s", 59_950: "1 min 0 s", 432_000: "7 min 12 s", 3_600_000: "1 h 0 min", 4_331_100_000: "1,203 h 5 min"} {
		require.Equal(t, want, duration(ms))
	}
	for amount, want := range map[string]string{"0": "0", "12.5": "12.5", "1234.56": "1,234.56", "-1234567": "-1,234,567", "999": "999", "-999.000001": "-999.000001"} {
		require.Equal(t, want, money(amount))
	}
	require.Equal(t, "1 June 2026", date("2026-06-01T00:00:00.000+02:00"))
	require.Equal(t, "1 June 2026, 06:30:00", date("2026-06-01T06:30:00.000Z"))
}
