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

	"muniment/control/node"
	"muniment/control/signing"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// TestKilledAsItJoins starts a node again that was killed at each moment of its first
// start, by each way in which an operator may start it: it ends as one node with one key,
// of which control says everything once.
func TestKilledAsItJoins(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	at := func(path string, nth int, befalls trouble) func() func(string) trouble {
		return func() func(string) trouble {
			asked := 0
			return func(p string) trouble {
				if p == path {
					asked++
				}
				if p == path && asked == nth {
					return befalls
				}
				return none
			}
		}
	}
	for name, kill := range map[string]struct {
		// fault is the request at which the node is killed: what its folder holds then is
		// what the next start finds.
		fault func() func(path string) trouble
		gone  []string // files that it had not come to write
		known bool     // control has let it join
	}{
		"before its key was on disk":            {fault: at(api.PathStart, 1, away), gone: []string{"*.key", savedFile}},
		"before its name was on disk":           {fault: at(api.PathStart, 1, away), gone: []string{savedFile}},
		"before control received it":            {fault: at(api.PathStart, 1, away)},
		"before control let it join":            {fault: at(api.PathJoin, 1, away)},
		"after control let it join":             {fault: at(api.PathJoin, 1, lost), known: true},
		"once it had joined":                    {fault: at(api.PathStart, 2, away), known: true},
		"after control counted its first start": {fault: at(api.PathStart, 2, lost), known: true},
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
				cfg = h.killed(t, cfg, kill.fault(), kill.gone)
				cfg.Invitation = invitation(cfg.Invitation)
				n, err := Open(t.Context(), cfg)
				require.NoError(t, err)
				s, err := n.sign(time.Now())
				require.NoError(t, err)
				h.requireValid(s)
				require.Len(t, h.keys(n.ID()), 1)
				require.Len(t, keyFiles(t, cfg.Dir), 1)
				after := h.count()
				for what := range before {
					before[what]++
				}
				require.Equal(t, before, after)
				require.NoError(t, n.Close())
			})
		}
	}
}

// TestRefusedOnTheWay: what stands before control knows nothing of expulsions.
func TestRefusedOnTheWay(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "<h1>Forbidden</h1>", http.StatusForbidden)
	}))
	defer server.Close()
	h := newControl(t)
	cfg := h.config(t.TempDir())
	n := h.open(cfg.Dir)
	require.NoError(t, n.Close())
	cfg.Control = server.URL
	_, err := Open(t.Context(), cfg)
	require.ErrorContains(t, err, "403 Forbidden")
	require.NotContains(t, err.Error(), "move")
}

// TestControlOfAnotherVersion does not know what the node has signed.
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
	_, err := Open(t.Context(), Config{Dir: t.TempDir(), Control: server.URL, Invitation: "inv_x.y"})
	require.ErrorContains(t, err, "422 VALIDATION_FAILED")
	require.ErrorContains(t, err, "is of another version than this node: upgrade control first")
	require.NotContains(t, err.Error(), "make an invitation")
}

// TestBadCredential is nothing to join with: control would take whatever stands there for
// the node's, for good.
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
		require.ErrorContains(t, err, savedFile+": the credential is missing, cut, or another node's")
		require.NotContains(t, err.Error(), other)
	}
	require.Equal(t, before, h.count())
}

// TestControlRestored: control has the node's keys from the log again, but not the node. By
// an invitation it is the same node with the same keys, whichever of them control asks for.
func TestControlRestored(t *testing.T) {
	lost, h := newControl(t), newControl(t)
	dir := t.TempDir()
	n := lost.open(dir)
	before, err := n.sign(time.Now())
	require.NoError(t, err)
	require.NoError(t, n.enrol(t.Context()))
	keys := keyFiles(t, dir)
	require.Len(t, keys, 2)
	require.NoError(t, n.Close())
	texts, err := store.List(t.Context(), lost.db.Read(), "the events", store.Text, `SELECT event FROM outbox ORDER BY epoch, seq`)
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
	require.ErrorContains(t, err, "control was restored from a time before it had, make an invitation")
	cfg.Invitation = h.invite()
	again, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, n.ID(), again.ID())
	require.Len(t, h.keys(n.ID()), 2)
	after, err := again.sign(time.Now())
	require.NoError(t, err)
	h.requireValid(before, after)

	// A node without its id can't be identified, and its spool must stay.
	require.NoError(t, again.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, savedFile)))
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "401 AUTH_INVALID")
	cfg.Invitation = h.invite()
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "is known already")
	require.ErrorContains(t, err, "move "+dir+" away (only that, not the spool beside it), make an invitation")
	require.True(t, IsKnown(err))
}

// killed opens a node that is killed at a request, and returns its config on the folder
// as it was left.
func (h *controlFixture) killed(t *testing.T, cfg Config, fault func(path string) trouble, gone []string) Config {
	t.Helper()
	left := filepath.Join(t.TempDir(), "identity")
	ctx, stop := context.WithCancel(t.Context())
	dead := false
	h.setFault(func(path string) trouble {
		if dead { // and control has done what it was asked before
			stop()
			return away
		}
		befalls := fault(path)
		if dead = befalls != none; dead {
			require.NoError(t, os.CopyFS(left, os.DirFS(cfg.Dir)))
		}
		return befalls
	})
	defer h.setFault(nil)
	_, err := Open(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	for _, pattern := range gone {
		files, err := filepath.Glob(filepath.Join(left, pattern))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0]))
	}
	cfg.Dir = left
	require.NoError(t, filepath.WalkDir(left, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == left {
			return err
		}
		return os.Chmod(path, 0o600)
	}))
	return cfg
}

// count is what control has of nodes that joined, and what it said of it.
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
			if strings.Contains(event, `"`+kind+`"`) { // no table is named so
				n[kind]++
			}
		}
	}
	require.NoError(h.t, rows.Err())
	return n
}
