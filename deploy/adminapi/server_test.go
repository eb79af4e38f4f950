package adminapi

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/certs"
)

// TestCommandWithoutItsServer: the error says who named the address at which nobody answers, and what to do.
func TestCommandWithoutItsServer(t *testing.T) {
	data := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	file := filepath.Join(data, File)
	require.NoError(t, os.WriteFile(file, []byte(`{"url":"http://`+ln.Addr().String()+`","token":"x"}`), 0o600))
	require.ErrorContains(t, (&Server{Data: data}).Do(t.Context(), "GET", "/admin/tenants", nil, nil), "no answer from http://"+ln.Addr().String()+", which "+file+" names")
	require.ErrorContains(t, (&Server{Data: data, Admin: ln.Addr().String()}).Do(t.Context(), "GET", "/admin/tenants", nil, nil), ", which --admin names: start the server, or say where it listens with --admin HOST:PORT, for example --admin 127.0.0.1:9090")
	err = (&Server{Data: filepath.Join(data, "none"), Admin: "127.0.0.1:9090"}).Do(t.Context(), "GET", "/admin/tenants", nil, nil)
	require.ErrorContains(t, err, "there is no "+filepath.Join(data, "none", File)+", where a running server keeps its admin token")
	require.ErrorContains(t, err, "with --data, for example --data /")
	require.ErrorContains(t, err, "with --admin HOST:PORT, and a file of its token with --admin-token-file")
	require.NotContains(t, err.Error(), "muniment up", "another server is no way to this one")
	require.ErrorContains(t, (&Server{Data: data, AdminCA: "/nope"}).Do(t.Context(), "GET", "/admin/tenants", nil, nil), "--admin-ca, --admin-cert and --admin-key are of no use")
	require.ErrorContains(t, (&Server{Data: data, AdminTokenFile: "/nope"}).Do(t.Context(), "GET", "/admin/tenants", nil, nil), "--admin-token-file needs --admin")
	require.ErrorContains(t, (&Server{Admin: "127.0.0.1:1", AdminTokenFile: "/nope"}).Do(t.Context(), "GET", "/admin/tenants", nil, nil), "--admin-token-file: ")
}

// TestAddressOfTheServer: --admin is honoured as an address and as a URL, with the data folder's token, or with that
// of a file where there is no data folder.
func TestAddressOfTheServer(t *testing.T) {
	asked := ""
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked = q.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"ok":true,"data":{}}`))
	}))
	defer served.Close()
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, File), []byte(`{"url":"http://127.0.0.1:1","token":"of-the-folder"}`), 0o600))
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("of-the-file\n"), 0o600))
	for _, admin := range []string{served.Listener.Addr().String(), served.URL, served.URL + "/"} {
		require.NoError(t, (&Server{Data: data, Admin: admin}).Do(t.Context(), "GET", "/admin/tenants", nil, nil))
		require.Equal(t, "Bearer of-the-folder", asked)
		require.NoError(t, (&Server{Data: filepath.Join(data, "none"), Admin: admin, AdminTokenFile: certs.PasswordFile(file)}).Do(t.Context(), "GET", "/admin/tenants", nil, nil))
		require.Equal(t, "Bearer of-the-file", asked)
	}
}

// TestBaseOfEveryAddress: a link leads to localhost where the server listens on every address.
func TestBaseOfEveryAddress(t *testing.T) {
	for url, base := range map[string]string{
		"http://127.0.0.1:9090": "http://127.0.0.1:9090", "http://[::]:9090": "http://localhost:9090", "https://0.0.0.0:9090": "https://localhost:9090", "https://[::1]:1": "https://[::1]:1",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, File), []byte(`{"url":"`+url+`","token":"x"}`), 0o600))
		got, err := (&Server{Data: dir}).Base()
		require.NoError(t, err)
		require.Equal(t, base, got)
	}
	_, err := (&Server{Data: t.TempDir()}).Base()
	require.ErrorContains(t, err, "there is no ")
}
