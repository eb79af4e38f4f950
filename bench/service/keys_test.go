package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/sealer/keydir"
)

// TestRootOffline serves with a root key that never was on the server.
func TestRootOffline(t *testing.T) {
	t.Parallel()
	data, offline := filepath.Join(t.TempDir(), "data"), t.TempDir()
	skey := filepath.Join(offline, "root.skey")
	vkey := systemtest.Command(t, "root", "generate", "--out", skey, "--name", "root.example")
	keys := filepath.Join(data, "keys")
	require.NoError(t, os.MkdirAll(keys, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(keys, "root.vkey"), []byte(vkey), 0o644))

	s := systemtest.NotStarted(t, data)
	require.Contains(t, s.Refused(), "muniment root delegate")
	request, err := filepath.Glob(filepath.Join(keys, "directory-*.pub"))
	require.NoError(t, err)
	require.Len(t, request, 1)
	note := systemtest.Command(t, "root", "delegate", "--skey", skey, "--for", "8760h", request[0])
	require.NoError(t, os.WriteFile(strings.TrimSuffix(request[0], ".pub")+".delegation", []byte(note), 0o600))

	s.Start()
	old := systemtest.Current(t, data, keydir.PurposeDirectory)
	waiting := systemtest.Command(t, "signing-key", "rotate", "--data", data, old)
	require.Contains(t, waiting, "waits for the root's delegation")
	carried := filepath.Join(offline, "key.pub")
	require.NoError(t, os.WriteFile(carried, []byte(waiting[strings.Index(waiting, "-----BEGIN"):]), 0o600))
	answer := filepath.Join(offline, "answer")
	require.NoError(t, os.WriteFile(answer, []byte(systemtest.Command(t, "root", "delegate", "--skey", skey, carried)), 0o600))
	require.Contains(t, systemtest.Command(t, "signing-key", "delegate", "--data", data, answer), old+" is valid until")
	require.NotEqual(t, old, systemtest.Current(t, data, keydir.PurposeDirectory))

	made := systemtest.CreateTenant(t, data)
	list := systemtest.Parse[struct{ Keys []struct{ KeyID string } }](t, systemtest.Command(t, "key", "list", "--data", data, "--tenant", made.TenantID, "--json"))
	require.Len(t, list.Keys, 1)
	another := systemtest.Command(t, "key", "create", "--data", data, "--tenant", made.TenantID, "--label", "another", "--scope", "rights:read", "--key-only")
	require.True(t, strings.HasPrefix(another, "mun_test_"))
	require.Contains(t, systemtest.Command(t, "key", "revoke", "--data", data, made.KeyID), "was revoked at")
	id := "key_" + strings.Split(another, "_")[2]
	rotated := systemtest.Command(t, "key", "rotate", "--data", data, "--key-only", id)
	require.Contains(t, systemtest.Command(t, "key", "revoke", "--data", data, id), "Its successor key_"+strings.Split(rotated, "_")[2]+" still works: revoke it too")
	require.Contains(t, systemtest.Command(t, "key", "list", "--data", data, "--tenant", made.TenantID), "another")
}
