package dsar

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/dsar"
	"muniment.example/sealer/verify"
)

// awkward are texts that readers of some format take for something else.
var awkward = []string{
	"", " ", "=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "'", "''=1", "\"", `""`, ",", ";", `\.`, `\"`, "a,b\r\n\"c\"\n", "null", "NULL", "true", "0", "007", "1e5",
	"9007199254740993", "Gräfe & Söhne", "👩‍🚀 e\u0301", "\ufeffx", "\u2028", "\u202e", "<b>", "\u0001", "2026-01-01T00:00:00Z", `{"a":1}`, "[]", strings.Repeat("long, ", 1000),
}

// collectedAs are the bundles of one moment of a job, one in each format.
func (h *fixture) collectedAs(requested Job, formats ...Format) (files []string) {
	h.t.Helper()
	v := h.mustCreate(h.t, requested)
	_, err := h.run(h.t.Context(), requested.TenantID, v.ID, byKey)
	require.NoError(h.t, err)
	job, err := h.db.Jobs.Claim(h.t.Context(), ExportJob, time.Minute)
	require.NoError(h.t, err)
	of, err := h.beginCollecting(h.t.Context(), job, v.ID)
	require.NoError(h.t, err)
	for _, f := range formats {
		of := *of
		of.Format = f
		out, err := os.Create(filepath.Join(h.t.TempDir(), string(f)+".zip"))
		require.NoError(h.t, err)
		bundle, manifest := dsar.NewWriter(out), dsar.Manifest{Format: string(f), JobID: of.ID, Kind: string(of.Scope.Kind), TenantID: of.TenantID, CreatedAt: canonical.FormatTime(h.clock.Now()), Directory: h.keys.text}
		w := &work{Service: h.Service, job: job, of: &of, beat: h.clock.Now().Add(time.Hour)} // how far it is stands in its own export
		require.NoError(h.t, w.collect(h.t.Context(), bundle, &manifest))
		_, _, err = bundle.Close(manifest, h.keys.pack)
		require.NoError(h.t, err)
		require.NoError(h.t, out.Close())
		files = append(files, out.Name())
	}
	return files
}

// TestStrangersRead has verify.py judge bundles of each format, DuckDB read PARQUET, and Python's own library the other formats: they
// find the same rows in all of one export, whatever stands in them, and in PARQUET times and amounts of their own types. MUNIMENT_TEST_PYTHON names
// a Python that has the packages of sealer/independent.
func TestStrangersRead(t *testing.T) {
	python := os.Getenv("MUNIMENT_TEST_PYTHON")
	if python == "" {
		t.Skip("MUNIMENT_TEST_PYTHON is not set")
	}
	h := newFixture(t, nil)
	var all []delivery
	for i := range 10_500 { // more than one row group
		all = append(all, delivery{right: "rgh_a", substrate: gate.CTV, edit: func(d *sealer.Delivery, r *sealer.Receipt, p *sealer.Private) {
			text := awkward[i%len(awkward)]
			canonical, err := canonical.JSON(map[string]any{text: text, "n": []float64{9007199254740991, -0.5, 1e21, 5e-324}, "no": nil})
			require.NoError(t, err)
			r.SpatialAnchorID, r.DwellMs = "x"+text, []float64{0, 0.1, 68719476735.5, 68719476736}[i%4]
			d.Metering.QuantityMs = int64(r.DwellMs)
			if i%2 == 0 {
				r.CorrelationID, r.SpatialPlacementID, p.Telemetry = &text, &text, canonical
			}
			if i%5 == 0 {
				p.DataSubjects, p.AttentionMs = sealer.About(text, "x"+text), []int64{0, 9007199254740991}[i%2]
			}
		}})
	}
	h.deliver(all...)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		for i, text := range awkward {
			var reference *string
			if i%2 == 0 {
				reference = &text
			}
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO bases (basis_id, tenant_id, kind, title, holder_org_id, reference, effective_from, created_at, updated_at, revision)
				VALUES ($1, 'tnt_a', 'CONTRACT', $2, $2, $3, $4, $5, 0, $6)`, fmt.Sprintf("bas_%02d", i), text, reference, i-1, int64(i)*100_000_000_000, int64(1)<<53-1); err != nil {
				return err
			}
		}
		return nil
	}))
	requested := full()
	requested.RequestNotes, requested.RequestedBy = &awkward[17], "=1+1"
	files := h.collectedAs(requested, NDJSON, JSON, CSV, Parquet)
	for _, name := range files {
		status, report := h.verified(name)
		require.Equal(t, verify.ExitSound, status, report)
	}
	root := filepath.Join(t.TempDir(), "root.vkey")
	require.NoError(t, os.WriteFile(root, []byte(h.keys.vkey), 0o600))
	out, err := exec.Command(python, append([]string{"../../sealer/independent/verify.py", "--root", root}, files...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, len(files), strings.Count(string(out), "ok "), "%s", out)
	rows := sections(t, files[0])
	delete(rows, "manifest")
	delete(rows, "README")
	for _, section := range rows {
		for line := range bytes.Lines(section) {
			canonical, err := canonical.JSON(bytes.TrimSuffix(line, []byte("\n")))
			require.NoError(t, err)
			require.Equal(t, string(canonical)+"\n", string(line))
		}
	}
	out, err = exec.Command(python, append([]string{"testdata/compare.py"}, files...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "deliveries 10500\n")
	require.Contains(t, string(out), "bases 37\n")
	require.Contains(t, string(out), "dsarJobs 1\n")
	require.Contains(t, string(out), "offers 0\n")
	require.Contains(t, string(out), "deliveries impressions:decimal(18,4) issuedAt:moment renderedAt:moment\n")
	require.Contains(t, string(out), "settlementRules cap:decimal(38,6) createdAt:moment effectiveFrom:moment effectiveUntil:moment minimum:decimal(38,6) price:decimal(38,9) updatedAt:moment\n")
	require.Contains(t, string(out), "statements createdAt:moment difference:decimal(38,6) dueAmount:decimal(38,6) from:moment heldAmount:decimal(38,6) issuedAt:moment paidAmount:decimal(38,6) settledAt:moment to:moment total:decimal(38,6) updatedAt:moment\n")
}
