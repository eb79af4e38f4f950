package service

import (
	"archive/zip"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// unpacked unpacks a ZIP file into a folder of its own, and returns its files.
func unpacked(t *testing.T, text string) (files []string) {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	dir := t.TempDir()
	for _, f := range r.File {
		open, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(open)
		require.NoError(t, err)
		require.NoError(t, open.Close())
		files = append(files, filepath.Join(dir, filepath.Base(f.Name)))
		require.NoError(t, os.WriteFile(files[len(files)-1], content, 0o600))
	}
	return files
}

// TestTenantConsoleGivesAuditorsAllFiles: what an auditor downloads at once, all packs of a month or all that a statement rests on, is
// sound as it is once it is unpacked, with nothing left open that a file of this service could settle. A viewer, who may read no members,
// reads who has acted by the name that the tenant gave.
func TestTenantConsoleGivesAuditorsAllFiles(t *testing.T) {
	t.Parallel()
	s := owned(t)
	m := &recordMaker{t: t, s: s, statement: time.Now().UTC().Truncate(time.Hour).Add(-40 * time.Hour)}
	m.basis = m.post("/v1/bases", `{"kind": "LICENSE", "title": "t"}`, "data.basis.id")
	statementID := m.issued()
	s.Seal()
	right := m.right()
	adaID, ada := invited(t, s, "Ada", "owner")
	owner := asMember(t, s, adaID, ada)
	status, _, text := owner.send("POST", "/console/rights/"+right+"/suspend", url.Values{"reason": {"x"}})
	require.Equal(t, 303, status, text)
	s.Seal()
	s.Seal()

	veraID, vera := invited(t, s, "Vera", "viewer")
	b := asMember(t, s, veraID, vera)
	get := func(at string) string {
		t.Helper()
		status, header, text := b.send("GET", at, nil)
		require.Equal(t, 200, status, "%s: %s", at, text)
		if strings.Contains(at, ".zip") {
			require.Equal(t, "application/zip", header.Get("Content-Type"))
		}
		return text
	}
	verified := func(files []string) string {
		t.Helper()
		return systemtest.Command(t, append([]string{"verify", "--root", filepath.Join(s.Data, "keys", "root.vkey")}, files...)...)
	}
	all := unpacked(t, get("/console/proof/packs.zip"))
	require.Greater(t, len(all), 3)
	since := "from=" + time.Now().UTC().Add(-24*time.Hour).Format(time.DateOnly)
	require.Contains(t, get("/console/proof?"+since), `href="/console/proof/packs.zip?`+since+`"`)
	require.Len(t, unpacked(t, get("/console/proof/packs.zip?"+since)), len(all))
	said := verified(all)
	require.Contains(t, said, "Sound")
	require.NotContains(t, said, "unproven")
	said = verified(unpacked(t, get("/console/proof/packs.zip?statementId="+statementID)))
	require.Contains(t, said, "statement.ok")
	require.NotContains(t, said, "issue.unproven")
	status, _, text = b.send("GET", "/console/proof/packs.zip?month=2020-01", nil)
	require.Equal(t, 404, status)
	require.Contains(t, text, "no pack was sealed then")

	require.Contains(t, get("/console/proof/keys.csv"), "packs, statements")
	text = get("/console/rights/" + right)
	require.Contains(t, text, "Ada")
	require.NotContains(t, text, ada)
	require.NotContains(t, text, "/console/members/"+adaID)
}
