package identity

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/sealer/keyfile"
)

func TestFirstStartAndLater(t *testing.T) {
	h := newControl(t)
	dir := filepath.Join(t.TempDir(), "identity")
	n := h.open(dir)
	require.True(t, api.IsID(api.PrefixNode, n.ID()))
	require.Equal(t, uint64(1), n.Epoch())
	first, err := n.sign(time.Now())
	require.NoError(t, err)
	h.requireValid(first)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), e.Name())
	}

	_, err = Open(t.Context(), h.config(dir))
	require.ErrorIs(t, err, keyfile.ErrInUse)
	require.NoError(t, n.Close())

	for epoch := uint64(2); epoch < 4; epoch++ {
		again, err := Open(t.Context(), h.config(dir)) // without an invitation
		require.NoError(t, err)
		require.Equal(t, n.ID(), again.ID())
		require.Equal(t, epoch, again.Epoch())
		later, err := again.sign(time.Now())
		require.NoError(t, err)
		require.Equal(t, first.keyID, later.keyID)
		h.requireValid(first, later)
		require.NoError(t, again.Close())
	}
	require.Len(t, h.keysOf(n.ID()), 1)
}

func TestErrorsSayWhatToDo(t *testing.T) {
	h := newControl(t)
	dir := t.TempDir()
	_, err := Open(t.Context(), h.config(dir))
	require.ErrorContains(t, err, "muniment node invite")
	require.NoFileExists(t, filepath.Join(dir, savedFile))

	cfg := h.config(dir)
	cfg.Invitation = "inv_x.y"
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "401 AUTH_INVALID")
	require.ErrorContains(t, err, "make an invitation")
	require.NotContains(t, err.Error(), "inv_x.y")

	// An invitation is for one node; the refused node can join with another one.
	used := h.invite()
	cfg.Invitation = used
	n, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	other := h.config(t.TempDir())
	other.Invitation = used
	_, err = Open(t.Context(), other)
	require.ErrorContains(t, err, "used by another node")
	other.Invitation = h.invite()
	second, err := Open(t.Context(), other)
	require.NoError(t, err)
	require.NotEqual(t, n.ID(), second.ID())
	require.NoError(t, second.Close())

	// Another control does not know the credential.
	require.NoError(t, n.Close())
	elsewhere := Config{Dir: dir, Control: []string{newControl(t).server.URL}}
	_, err = Open(t.Context(), elsewhere)
	require.ErrorContains(t, err, "or control was restored from a time before it joined, make an invitation")
	elsewhere.Invitation = used
	require.NoError(t, os.Rename(keyFiles(t, dir)[0], filepath.Join(dir, "moved")))
	_, err = Open(t.Context(), elsewhere)
	require.ErrorContains(t, err, "move "+dir+" away (only this folder, not the spool beside it)")

	require.NoError(t, os.Chmod(filepath.Join(dir, savedFile), 0o644))
	_, err = Open(t.Context(), h.config(dir))
	require.ErrorContains(t, err, "others may read it")

	for want, cfg := range map[string]Config{
		"Dir": {Control: []string{"https://control"}}, "URL": {Dir: dir}, "neither https": {Dir: dir, Control: []string{"http://control"}},
		"RotateEvery": {Dir: dir, Control: []string{"https://control"}, RotateEvery: -1},
	} {
		_, err := Open(t.Context(), cfg)
		require.ErrorContains(t, err, want)
	}
}

// TestControlUnreachable: a start waits for control, and can be cancelled.
func TestControlUnreachable(t *testing.T) {
	h := newControl(t)
	requests := make(chan struct{}, 100)
	h.inject(func(string) fault { requests <- struct{}{}; return unreachable })
	cfg := h.config(t.TempDir())
	cfg.Invitation = h.invite()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Open(ctx, cfg)
		ended <- err
	}()
	for range 3 {
		<-requests
	}
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)

	type opened struct {
		n   *Node
		err error
	}
	waited := make(chan opened, 1)
	go func() {
		n, err := Open(t.Context(), cfg)
		waited <- opened{n, err}
	}()
	for range 3 {
		<-requests
	}
	h.inject(nil)
	o := <-waited
	require.NoError(t, o.err)
	s, err := o.n.sign(time.Now())
	require.NoError(t, err)
	h.requireValid(s)
	require.NoError(t, o.n.Close())
}
