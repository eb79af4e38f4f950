package identity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// TestKilledDuringJoin kills a node at each step of its first start, and starts it again in each
// way that an operator may: it is one node with one key, and control has each record and event of
// it once.
func TestKilledDuringJoin(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	at := func(path string, nth int, injected fault) func() func(string) fault {
		return func() func(string) fault {
			requests := 0
			return func(p string) fault {
				if p == path {
					requests++
				}
				if p == path && requests == nth {
					return injected
				}
				return noFault
			}
		}
	}
	for name, kill := range map[string]struct {
		// injector kills the node at a request: the next start finds the folder as it is then.
		injector func() func(path string) fault
		gone     []string // files that the node had not written yet
		known    bool     // control has let it join
	}{
		"before its key was on disk":            {injector: at(api.PathStart, 1, unreachable), gone: []string{"*.key", savedFile}},
		"before its name was on disk":           {injector: at(api.PathStart, 1, unreachable), gone: []string{savedFile}},
		"before control received it":            {injector: at(api.PathStart, 1, unreachable)},
		"before control let it join":            {injector: at(api.PathJoin, 1, unreachable)},
		"after control let it join":             {injector: at(api.PathJoin, 1, answerLost), known: true},
		"once it had joined":                    {injector: at(api.PathStart, 2, unreachable), known: true},
		"after control counted its first start": {injector: at(api.PathStart, 2, answerLost), known: true},
	} {
		for again, invitation := range map[string]func(used string) string{
			"the same invitation": func(used string) string { return used },
			"a fresh invitation":  func(string) string { return h.invite() },
			"no invitation":       func(string) string { return "" },
		} {
			if again == "no invitation" && !kill.known {
				continue
			}
			t.Run(name+", with "+again, func(t *testing.T) {
				before := h.count()
				cfg := h.config(t.TempDir())
				cfg.Invitation = h.invite()
				cfg = h.killed(t, cfg, kill.injector(), kill.gone)
				cfg.Invitation = invitation(cfg.Invitation)
				n, err := Open(t.Context(), cfg)
				require.NoError(t, err)
				s, err := n.sign(time.Now())
				require.NoError(t, err)
				h.requireValid(s)
				require.Len(t, h.keysOf(n.ID()), 1)
				require.Len(t, keyFiles(t, cfg.Dir), 1)
				after := h.count()
				for kind := range before {
					before[kind]++
				}
				require.Equal(t, before, after)
				require.NoError(t, n.Close())
			})
		}
	}
}

// TestRefusedByAProxy: a 403 of a proxy does not mean that the node was expelled.
func TestRefusedByAProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "<h1>Forbidden</h1>", http.StatusForbidden)
	}))
	defer server.Close()
	h := newControl(t)
	cfg := h.config(t.TempDir())
	n := h.open(cfg.Dir)
	require.NoError(t, n.Close())
	cfg.Control = []string{server.URL}
	_, err := Open(t.Context(), cfg)
	require.ErrorContains(t, err, "403 Forbidden")
	require.NotContains(t, err.Error(), "move")
}

// TestControlOfAnotherVersion: control expects a signature of other bytes than the node has signed.
func TestControlOfAnotherVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &api.Error{Code: api.AuthInvalid, Message: "the node's credential is not valid"}
		if r.URL.Path == api.PathJoin {
			e = api.InvalidField("signature", "is not by publicKey over this request")
		}
		body, err := e.Body()
		require.NoError(t, err)
		w.WriteHeader(e.GetStatus())
		_, _ = w.Write(body)
	}))
	defer server.Close()
	_, err := Open(t.Context(), Config{Dir: t.TempDir(), Control: []string{server.URL}, Invitation: "inv_x.y"})
	require.ErrorContains(t, err, "422 VALIDATION_FAILED")
	require.ErrorContains(t, err, "runs another version than this node: upgrade control first")
	require.NotContains(t, err.Error(), "make an invitation")
}

// TestBadCredential: a node does not join with a damaged credential, which control would
// permanently record as the node's.
func TestBadCredential(t *testing.T) {
	h := newControl(t)
	cfg := h.config(t.TempDir())
	id := api.NewID(api.PrefixNode, time.Now())
	credential, _ := api.NewBearer(id)
	other, _ := api.NewBearer(api.NewID(api.PrefixNode, time.Now()))
	before := h.count()
	for _, bad := range []string{"", id, id + ".", credential[:len(credential)-1], other} {
		require.NoError(t, saved{id, bad}.save(cfg.Dir))
		cfg.Invitation = h.invite()
		_, err := Open(t.Context(), cfg)
		require.ErrorContains(t, err, savedFile+": the credential is missing, truncated, or another node's")
		require.NotContains(t, err.Error(), other)
	}
	require.Equal(t, before, h.count())
}

// TestControlRestored: control has received the node's keys from the log again, but not the node.
// With an invitation the node joins as the same node with the same keys.
func TestControlRestored(t *testing.T) {
	old, h := newControl(t), newControl(t)
	dir := t.TempDir()
	n := old.open(dir)
	before, err := n.sign(time.Now())
	require.NoError(t, err)
	require.NoError(t, n.enrol(t.Context()))
	keys := keyFiles(t, dir)
	require.Len(t, keys, 2)
	require.NoError(t, n.Close())
	texts, err := store.List(t.Context(), old.db.Read(), "the events", store.Text, `SELECT event FROM outbox ORDER BY epoch, seq`)
	require.NoError(t, err)
	for _, text := range texts {
		if strings.Contains(text, n.ID()) {
			e, err := sealer.ParseEvent([]byte(text))
			require.NoError(t, err)
			require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
				apply := node.Replay
				if e.Subject.Kind == "signing_key" {
					apply = signing.Replay
				}
				_, err := apply(t.Context(), tx, &e)
				return err
			}))
		}
	}
	cfg := h.config(dir)
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "control was restored from a time before it joined, make an invitation")
	cfg.Invitation = h.invite()
	again, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, n.ID(), again.ID())
	require.Len(t, h.keysOf(n.ID()), 2)
	after, err := again.sign(time.Now())
	require.NoError(t, err)
	h.requireValid(before, after)

	// Without its id and credential the node can't join, but its spool must be kept.
	require.NoError(t, again.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, savedFile)))
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "401 AUTH_INVALID")
	cfg.Invitation = h.invite()
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "is already known")
	require.ErrorContains(t, err, "move "+dir+" away (only this folder, not the spool beside it), make an invitation")
	require.True(t, IsConflict(err))
}

// killed opens a node that is killed at a request, and returns its config with a copy of the
// folder as it was then, without the files of gone.
func (h *controlFixture) killed(t *testing.T, cfg Config, injector func(path string) fault, gone []string) Config {
	t.Helper()
	left := filepath.Join(t.TempDir(), "identity")
	ctx, stop := context.WithCancel(t.Context())
	dead := false
	h.inject(func(path string) fault {
		if dead { // the next request: control has served the one before
			stop()
			return unreachable
		}
		injected := injector(path)
		if dead = injected != noFault; dead {
			copyFolder(t, left, cfg.Dir)
		}
		return injected
	})
	defer h.inject(nil)
	_, err := Open(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	for _, pattern := range gone {
		files, err := filepath.Glob(filepath.Join(left, pattern))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0]))
	}
	cfg.Dir = left
	return cfg
}

// copyFolder copies the folder of an identity.
func copyFolder(t *testing.T, to, from string) {
	t.Helper()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	require.NoError(t, filepath.WalkDir(to, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == to {
			return err
		}
		return os.Chmod(path, 0o600)
	}))
}

// count counts control's records of nodes and keys, and the events about them.
func (h *controlFixture) count() map[string]int {
	h.t.Helper()
	n := map[string]int{"node.joined": 0, "key.enrolled": 0}
	for _, table := range []string{"nodes", "signing_keys", "node_credentials"} {
		var rows int
		require.NoError(h.t, h.db.Read().QueryRowContext(h.t.Context(), `SELECT COUNT(*) FROM `+table).Scan(&rows))
		n[table] = rows
	}
	rows, err := h.db.Read().QueryContext(h.t.Context(), `SELECT event FROM outbox`)
	require.NoError(h.t, err)
	defer rows.Close()
	for rows.Next() {
		var event string
		require.NoError(h.t, rows.Scan(&event))
		for kind := range n {
			if strings.Contains(event, `"`+kind+`"`) { // never a table's name
				n[kind]++
			}
		}
	}
	require.NoError(h.t, rows.Err())
	return n
}
