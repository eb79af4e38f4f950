package faults

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/sealer/canonical"
)

// TestTombstones: packs in each form, and exports, say who was erased since a backup was made. A
// file that is neither, or that breaks off, is refused: it does not prove that no person was erased.
func TestTombstones(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Tenant = systemtest.CreateTenant(t, h.Data, "--scope", "*")
	h.Client.Key = h.Tenant.APIKey
	older := filepath.Join(t.TempDir(), "older")
	h.BackUp(older)
	done := systemtest.Erased(t, h.Server, h.Client.Key, "ada.lovelace@example.org")
	packs := systemtest.SealAndExport(t, h.Client)
	certificate := filepath.Join(t.TempDir(), "certificate")
	require.NoError(t, os.WriteFile(certificate, []byte(done.Certificate), 0o600))
	export, empty, cut := filepath.Join(t.TempDir(), "export"), filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "cut")
	require.NoError(t, h.Client.Download(t.Context(), "/v1/events/export", export))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(cut, bytes.Join(bytes.SplitAfter(systemtest.ReadFile(t, export), []byte("\n"))[:3], nil), 0o600))
	kept, err := filepath.Glob(filepath.Join(h.Data, "packs", "*", "ppk_*.zst"))
	require.NoError(t, err)
	for _, c := range []struct {
		files []string
		found int
		fails string
	}{
		{packs, 1, ""}, {kept, 1, ""}, {[]string{export}, 1, ""}, {[]string{empty}, 0, ""}, {[]string{empty, export}, 1, ""},
		{[]string{certificate}, 0, "neither"}, {[]string{filepath.Join(h.Data, "keys", "root.vkey")}, 0, "neither"}, {[]string{cut}, 0, "cannot read export"},
	} {
		if c.fails != "" {
			said := systemtest.Fails(t, append([]string{"restore", "--from", older, "--data", filepath.Join(t.TempDir(), "data")}, since(c.files)...)...)
			require.Contains(t, said, c.files[0]+": ")
			require.Contains(t, said, c.fails)
			continue
		}
		_, made := h.Restored(older, since(c.files)...)
		require.Equal(t, c.found, made.Tombstones, "%s", c.files)
	}

	_, made := h.Restored(older, "--tombstones", packs[len(packs)-1])
	require.Equal(t, 1, made.Tombstones)
	require.Greater(t, made.TombstonesUpTo[h.Tenant.TenantID], made.TakenAt)
}

// TestTextsOfARestoredBackup: a person whom only a text of the backup names is erased from it, too, by the
// hash in the tombstone. Texts of others stay.
func TestTextsOfARestoredBackup(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Tenant = systemtest.CreateTenant(t, h.Data, "--scope", "*")
	h.Client.Key = h.Tenant.APIKey
	const person, other = "ada.lovelace@example.org", "b+ada.lovelace@example.org"
	for _, who := range []string{person, other} {
		h.Post("/v1/settlement/counterparties", map[string]any{"name": "a studio", "kind": "OTHER", "currency": "EUR", "payoutRef": "IBAN of " + who + "."}, nil)
	}
	older := filepath.Join(t.TempDir(), "older")
	h.BackUp(older)
	done := systemtest.Erased(t, h.Server, h.Client.Key, person)
	require.Equal(t, map[string]int{"counterparty": 1}, done.Counts.Records)
	copied, _ := h.Restored(older, since(systemtest.SealAndExport(t, h.Client))...)
	copied.Start()
	waittest.Until(t, func() bool { return len(systemtest.Holding(t, copied.Data, "of "+person, "log")) == 0 }, "the person is erased from the restored service")
	require.NotEmpty(t, systemtest.Holding(t, copied.Data, "of "+other, "log"))
	var list struct{ Counterparties []struct{ PayoutRef string } }
	copied.Get("/v1/settlement/counterparties", &list)
	require.Len(t, list.Counterparties, 2)
	require.Equal(t, []string{"IBAN of " + other + ".", ""}, []string{list.Counterparties[0].PayoutRef, list.Counterparties[1].PayoutRef}, "nobody is paid to a hash")
}

// TestRestoreNeedsTombstones, however young the backup is: a person may have been erased a second
// after it was made. What ends before the backup does not say who was, and a backup from the future
// none can follow.
func TestRestoreNeedsTombstones(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(1)
	before := systemtest.SealAndExport(t, h.Client)
	to := filepath.Join(t.TempDir(), "backup")
	m := h.BackUp(to)
	data := filepath.Join(t.TempDir(), "restored")
	said := systemtest.Fails(t, "restore", "--from", to, "--data", data)
	require.Contains(t, said, "--tombstones /dev/null")
	require.Contains(t, systemtest.Fails(t, append([]string{"restore", "--from", to, "--data", data}, since(before)...)...), "they don't say who was erased since")
	require.NoDirExists(t, data)
	h.Receipts(1)
	h.Restored(to, since(systemtest.SealAndExport(t, h.Client))...)
	h.Restored(to)

	m.TakenAt = canonical.FormatTime(time.Now().Add(time.Hour))
	text, err := json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, "manifest.json"), text, 0o600))
	require.Contains(t, systemtest.Fails(t, "restore", "--from", to, "--data", data, "--tombstones", os.DevNull), "in the future")
}

// since are the arguments with files of later events.
func since(files []string) (args []string) {
	for _, file := range files {
		args = append(args, "--tombstones", file)
	}
	return args
}
