package control_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/snapshot"
)

// TestNodeFollowsOverHTTP has a view in another process: it holds a lease, reads
// rights and keys, and knows of a revocation when that is acknowledged.
func TestNodeFollowsOverHTTP(t *testing.T) {
	h := newFixture(t, time.Minute)
	tenantID, key := h.tenant()
	rightID := h.right(key, h.basis(key))
	server := httptest.NewServer(h.control().Nodes())
	defer server.Close()
	n := newNewcomer(t)
	credential := h.admit(n, h.invite())
	source, err := snapshot.NewRemote([]string{server.URL}, credential, server.Client())
	require.NoError(t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: "nod_somebody_else"})
	require.NoError(t, err)
	defer view.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- view.Run(ctx) }()
	waittest.Until(t, func() bool { return view.Fresh() == nil })

	r, err := view.Right(t.Context(), tenantID, rightID)
	require.NoError(t, err)
	require.Equal(t, rightID, r.ID)
	none, err := source.Snapshot(t.Context(), api.Rights.Name, api.NewID(api.PrefixRight, time.Now()))
	require.NoError(t, err)
	require.Nil(t, none.Change)
	known, err := view.Key(t.Context(), "key_"+strings.Split(key, "_")[2])
	require.NoError(t, err)
	require.Equal(t, tenantID, known.TenantID)
	missing, err := view.Key(t.Context(), api.NewID(api.PrefixKey, time.Now()))
	require.NoError(t, err)
	require.Nil(t, missing)

	revoked := h.call(key, "POST", "/v1/rights/"+rightID+"/revoke", "").ok()
	nodes := get[[]any](t, revoked, "propagation", "nodes")
	require.Equal(t, n.id, get[string](t, nodes[0].(map[string]any), "nodeId"), "a node speaks for itself, whatever it says its name is")
	require.Equal(t, true, get[bool](t, revoked, "propagation", "applied"))
	_, err = view.Right(t.Context(), tenantID, rightID)
	require.Equal(t, api.StateConflict, api.From(err).Code)
	stop()
	require.NoError(t, <-ended)
}

// TestNodeReadsMappingsOverHTTP has a view in another process resolve more vendors' ids than
// one question takes, and learn of one that now stands for something else.
func TestNodeReadsMappingsOverHTTP(t *testing.T) {
	h := newFixture(t)
	put := func(player int, right string) {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			revision, err := tx.Revision(t.Context())
			require.NoError(t, err)
			return store.Publish(t.Context(), tx, api.Mappings, &api.Mapping{
				ID: api.VendorKey("tnt_a", "acme", "player", fmt.Sprint(player)), TenantID: "tnt_a", Revision: revision,
				Windows: []api.MappingWindow{{RightID: right, From: time.Unix(0, 0)}},
			})
		}))
	}
	for player := range 20 {
		put(player, "rgh_a")
	}
	server := httptest.NewServer(h.control().Nodes())
	defer server.Close()
	source, err := snapshot.NewRemote([]string{server.URL}, h.admit(newNewcomer(t), h.invite()), server.Client())
	require.NoError(t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: "nod_a"})
	require.NoError(t, err)
	defer view.Close()
	var plays []snapshot.VendorPlay
	for player := range 2*api.MostSnapshots + 1 {
		plays = append(plays, snapshot.VendorPlay{Vendor: "acme", IDType: "player", VendorID: fmt.Sprint(player), At: time.Now()})
	}
	for player, m := range view.Mappings(t.Context(), "tnt_a", plays) {
		require.NoError(t, m.Err)
		if player >= 20 {
			require.Nil(t, m.Window)
			continue
		}
		require.Equal(t, "rgh_a", m.Window.RightID)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- view.Run(ctx) }()
	waittest.Until(t, func() bool { return view.Fresh() == nil })
	put(1, "rgh_b")
	waittest.Until(t, func() bool { return view.Mappings(t.Context(), "tnt_a", plays[1:2])[0].Window.RightID == "rgh_b" })
	stop()
	require.NoError(t, <-ended)
	server.Close()
	unknown := []snapshot.VendorPlay{{Vendor: "other", IDType: "player", VendorID: "1", At: time.Now()}}
	require.Equal(t, api.ControlUnavailable, api.From(view.Mappings(t.Context(), "tnt_a", unknown)[0].Err).Reason)
}

func TestNodeRoutesAskForTheCredential(t *testing.T) {
	h := newFixture(t)
	n := newNewcomer(t)
	credential := h.admit(n, h.invite())
	other := h.admit(newNewcomer(t), h.invite())
	_, key := h.tenant()
	id, secret, _ := strings.Cut(credential, ".")
	otherID, _, _ := strings.Cut(other, ".")
	for _, route := range [][2]string{
		{"POST", api.PathFeed}, {"POST", api.PathStart},
		{"POST", api.PathSnapshots + "/mapping"},
		{"GET", api.PathSnapshots + "/right/" + api.NewID(api.PrefixRight, time.Now())}, {"GET", api.PathSnapshots + "/key/" + api.NewID(api.PrefixKey, time.Now())},
	} {
		body := ""
		if route[1] == api.PathFeed {
			body = `{"nodeId":"x","after":0}`
		}
		if route[1] == api.PathSnapshots+"/mapping" {
			body = `{"ids":["vid_1"]}`
		}
		request := func(as string) answer { return send(t, h.control().Nodes(), as, route[0], route[1], body) }
		request(credential).ok()
		request("").refused(401, api.AuthRequired)
		for _, bad := range []string{key, adminToken, id, id + ".", otherID + "." + secret, credential + "x", credential[:len(credential)-1]} {
			request(bad).refused(401, api.AuthInvalid)
		}
		h.call(credential, route[0], route[1], body).refused(404, api.ResourceNotFound) // not on the public listener
	}
}

func TestRemoteNamesWhatIsWrong(t *testing.T) {
	h := newFixture(t)
	server := httptest.NewServer(h.control().Nodes())
	source, err := snapshot.NewRemote([]string{server.URL}, "nod_x.y", nil)
	require.NoError(t, err)
	_, err = source.Feed(t.Context(), api.FeedRequest{})
	require.ErrorContains(t, err, "401 AUTH_INVALID")
	server.Close()
	_, err = source.Feed(t.Context(), api.FeedRequest{})
	require.ErrorContains(t, err, "control does not answer")
	require.NotContains(t, err.Error(), "nod_x.y")
	for _, bad := range []string{"", "control:9443", "http://control.internal:9443", "ftp://127.0.0.1", "https://"} {
		_, err := snapshot.NewRemote([]string{bad}, "nod_x.y", nil)
		require.Error(t, err, bad)
	}
	_, err = snapshot.NewRemote([]string{"https://control.internal:9443"}, "", nil)
	require.ErrorContains(t, err, "enrol it first")
}
