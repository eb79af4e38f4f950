package adminapi

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.ErrorContains(t, (&Server{Data: filepath.Join(data, "none")}).Do(t.Context(), "GET", "/admin/tenants", nil, nil), "no server runs on")
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
	require.ErrorContains(t, err, "no server runs on")
}
