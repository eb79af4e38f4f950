package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// TestTombstones: packs in each form, and exports, say who was erased since a backup was made. A
// file that is neither, or that breaks off, is refused: it does not prove that no person was erased.
func TestTombstones(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.tenant = createTenant(t, h.data, "--scope", "*")
	h.client.Key = h.tenant.APIKey
	older := filepath.Join(t.TempDir(), "older")
	h.backUp(older)
	done := erased(t, h.server, h.client.Key, "ada.lovelace@example.org")
	packs := sealAndExport(t, h.client)
	certificate := filepath.Join(t.TempDir(), "certificate")
	require.NoError(t, os.WriteFile(certificate, []byte(done.Certificate), 0o600))
	export, empty, cut := filepath.Join(t.TempDir(), "export"), filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "cut")
	require.NoError(t, h.client.Download(t.Context(), "/v1/events/export", export))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(cut, bytes.Join(bytes.SplitAfter(read(t, export), []byte("\n"))[:3], nil), 0o600))
	kept, err := filepath.Glob(filepath.Join(h.data, "packs", "*", "ppk_*.zst"))
	require.NoError(t, err)
	for _, c := range []struct {
		files []string
		found int
		fails string
	}{
		{packs, 1, ""}, {kept, 1, ""}, {[]string{export}, 1, ""}, {[]string{empty}, 0, ""}, {[]string{empty, export}, 1, ""},
		{[]string{certificate}, 0, "neither"}, {[]string{filepath.Join(h.data, "keys", "root.vkey")}, 0, "neither"}, {[]string{cut}, 0, "cannot read export"},
	} {
		found := 0
		err := tombstones(c.files)(func(event []byte) error {
			if e, err := sealer.ParseEvent(event); err != nil || e.Type == sealer.TypeErased {
				found++
			}
			return nil
		})
		if c.fails != "" {
			require.ErrorContains(t, err, c.files[0]+": ")
			require.ErrorContains(t, err, c.fails)
			continue
		}
		require.NoError(t, err, "%s", c.files)
		require.Equal(t, c.found, found, "%s", c.files)
	}

	_, made := h.restored(older, "--tombstones", packs[len(packs)-1])
	require.Equal(t, 1, made.Tombstones)
	require.Greater(t, made.TombstonesUpTo[h.tenant.TenantID], made.TakenAt)
}

// TestRestoreNeedsTombstones, however young the backup is: a person may have been erased a second
// after it was made. What ends before the backup does not say who was, and a backup from the future
// none can follow.
func TestRestoreNeedsTombstones(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.receipts(1)
	before := sealAndExport(t, h.client)
	to := filepath.Join(t.TempDir(), "backup")
	m := h.backUp(to)
	data := filepath.Join(t.TempDir(), "restored")
	said := fails(t, "restore", "--from", to, "--data", data)
	require.Contains(t, said, "--tombstones /dev/null")
	require.Contains(t, fails(t, append([]string{"restore", "--from", to, "--data", data}, since(before)...)...), "they don't say who was erased since")
	require.NoDirExists(t, data)
	h.receipts(1)
	h.restored(to, since(sealAndExport(t, h.client))...)
	h.restored(to)

	m.TakenAt = sealer.FormatTime(time.Now().Add(time.Hour))
	text, err := json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, "manifest.json"), text, 0o600))
	require.Contains(t, fails(t, "restore", "--from", to, "--data", data, "--tombstones", os.DevNull), "in the future")
}

// since are the arguments with files of later events.
func since(files []string) (args []string) {
	for _, file := range files {
		args = append(args, "--tombstones", file)
	}
	return args
}
