package node

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment/control/store"
	"muniment/control/store/storetest"
	"muniment/sealer"
)

// place is a data folder with a clock.
type place struct {
	dir      string
	now      time.Time
	clock    func() time.Time // instead of now
	ran      time.Duration    // of the clock that never steps
	sealTime time.Duration
	log      bytes.Buffer
	metrics  prometheus.Registerer
	sealed   time.Time // what the newest pack states
}

func newPlace(t *testing.T) *place {
	return &place{dir: t.TempDir(), now: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)}
}

func (p *place) read() time.Time {
	if p.clock != nil {
		return p.clock()
	}
	return p.now
}

func (p *place) keys() string { return filepath.Join(p.dir, "keys") }

// start opens the room as one start of control does; stop ends it.
func (p *place) start(t *testing.T) (r *Room, stop func(), err error) {
	t.Helper()
	path, url := storetest.Place(t, p.dir)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: p.read})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	r, err = New(t.Context(), Config{
		DB: db, Dir: p.keys(), Bound: 30 * time.Second, SealTime: p.sealTime,
		LastSeal: func(context.Context, store.Querier) (time.Time, error) { return p.sealed, nil },
		Clock:    func() time.Duration { return p.ran }, Logger: slog.New(slog.NewTextHandler(&p.log, nil)), Registerer: p.metrics,
	})
	return r, func() { require.NoError(t, db.Close()) }, err
}

func (p *place) mustStart(t *testing.T) (*Room, func()) {
	t.Helper()
	r, stop, err := p.start(t)
	require.NoError(t, err)
	return r, stop
}

// events reads the types of the events that no relay has taken yet.
func (r *Room) events(t *testing.T) (types []string) {
	t.Helper()
	rows, err := r.db.Read().Query(`SELECT event FROM outbox ORDER BY epoch, seq`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var text []byte
		require.NoError(t, rows.Scan(&text))
		e, err := sealer.ParseEvent(text)
		require.NoError(t, err)
		require.Equal(t, "tnt_system", e.TenantID)
		types = append(types, e.Type)
	}
	return types
}

// borrow returns the key that a node signs a moment with.
func (r *Room) borrow(t *testing.T, nodeID string, at time.Time) *sealer.Signer {
	t.Helper()
	lend, err := r.ReceiptSigner(nodeID, sealer.PurposeReceipt)
	require.NoError(t, err)
	signer, done, err := lend(t.Context(), at)
	require.NoError(t, err)
	done()
	return signer
}

// files lists the key folder.
func (p *place) files(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(p.keys())
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// verified is the directory as a stranger reads it.
func (r *Room) verified(t *testing.T) *sealer.Directory {
	t.Helper()
	text, err := r.Directory(t.Context())
	require.NoError(t, err)
	d, err := sealer.VerifyDirectory(text, r.RootVkey())
	require.NoError(t, err)
	return d
}

func TestFirstStartMakesEverything(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	require.Equal(t, []string{"key.enrolled", "key.enrolled", "key.enrolled", "key.enrolled"}, r.events(t))
	epoch, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.Equal(t, uint64(1), epoch)
	require.Equal(t, []string{"key.enrolled", "key.enrolled", "key.enrolled", "key.enrolled", "node.enrolled", "key.enrolled", "key.enrolled"}, r.events(t))

	signer := r.borrow(t, "nod_a", p.now)
	lend, err := r.ReceiptSigner("nod_a", sealer.PurposeSandbox)
	require.NoError(t, err)
	sandbox, done, err := lend(t.Context(), p.now)
	require.NoError(t, err)
	done()
	modes := map[string]os.FileMode{
		"sandbox-control-" + r.mustSigner(t, sealer.PurposeSandbox).KeyID + ".key": 0o600, "sandbox-nod_a-" + sandbox.KeyID + ".key": 0o600,
		"root.skey": 0o600, "root.vkey": 0o644, "directory-" + r.directory.current().signer.KeyID + ".key": 0o600,
		"pack-" + r.mustPackSigner(t).KeyID + ".key": 0o600, "beacon-" + r.mustSigner(t, sealer.PurposeBeacon).KeyID + ".key": 0o600, "node-nod_a-" + signer.KeyID + ".key": 0o600,
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(modes)), p.files(t), "no file is left behind")
	for name, mode := range modes {
		info, err := os.Stat(filepath.Join(p.keys(), name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}

	// A stranger with the root's public half alone trusts what is signed.
	vkey, err := os.ReadFile(filepath.Join(p.keys(), "root.vkey"))
	require.NoError(t, err)
	text, err := r.Directory(t.Context())
	require.NoError(t, err)
	d, err := sealer.VerifyDirectory(text, strings.TrimSpace(string(vkey)))
	require.NoError(t, err)
	require.Equal(t, "nod_a", signer.Node)
	for keyID, purpose := range map[string]string{
		signer.KeyID: sealer.PurposeReceipt, r.mustPackSigner(t).KeyID: sealer.PurposePack,
		sandbox.KeyID: sealer.PurposeSandbox, r.mustSigner(t, sealer.PurposeSandbox).KeyID: sealer.PurposeSandbox,
	} {
		_, code := d.Find(keyID, purpose, p.now)
		require.Empty(t, code)
		_, code = d.Find(keyID, purpose, p.now.Add(-time.Millisecond))
		require.Equal(t, sealer.KeyOutsideWindow, code, "no key is valid before it was enrolled")
	}
	_, other, err := sealer.GenerateRoot("muniment")
	require.NoError(t, err)
	_, err = sealer.VerifyDirectory(text, other)
	require.Error(t, err)
}

func TestSecondStartKeepsTheKeys(t *testing.T) {
	p := newPlace(t)
	first, stop := p.mustStart(t)
	_, err := first.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	before, err := first.Directory(t.Context())
	require.NoError(t, err)
	told := first.events(t)
	stop()

	second, _ := p.mustStart(t)
	epoch, err := second.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.Equal(t, uint64(2), epoch, "each start of a node is an epoch")
	after, err := second.Directory(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Equal(t, told, second.events(t), "nothing new was enrolled")
	require.Equal(t, first.RootVkey(), second.RootVkey())
}

func TestNodeIDsAreNoPaths(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	for _, id := range []string{"", "../x", "a/b", "a b", control, strings.Repeat("x", 65)} {
		_, err := r.Enrol(t.Context(), id)
		require.ErrorContains(t, err, "is no node id", id)
	}
	_, err := r.ReceiptSigner("nod_stranger", sealer.PurposeReceipt)
	require.ErrorContains(t, err, "not enrolled")
	_, err = r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	for _, purpose := range []string{sealer.PurposePack, sealer.PurposeDirectory} {
		_, err := r.ReceiptSigner("nod_a", purpose)
		require.ErrorContains(t, err, "not enrolled")
	}
	for _, purpose := range []string{sealer.PurposeReceipt, sealer.PurposeDirectory} {
		_, err := r.Signer(t.Context(), purpose)
		require.ErrorContains(t, err, "control has no keys for "+purpose)
	}
}

func TestClockSetBackKeepsTheDirectoryValid(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	p.now = p.now.Add(-24 * time.Hour)
	r.verified(t)
}

// TestLiveNodes walks a clock through what is known of nodes.
func TestLiveNodes(t *testing.T) {
	t.Setenv("MUNIMENT_TEST_POSTGRES", "") // where processes share it: shared_test.go
	p := newPlace(t)
	r, stop := p.mustStart(t)
	require.True(t, r.mustPropagation(t, 9).Applied, "without nodes there is nobody to wait for")
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.True(t, r.mustPropagation(t, 9).Applied, "a node that has not asked holds no lease")

	r.mustPoll(t, "nod_a", 8)
	require.Equal(t, Propagation{Revision: 9, Nodes: []State{{NodeID: "nod_a", AppliedRevision: 8, Live: true}}}, r.mustPropagation(t, 9))
	r.mustPoll(t, "nod_a", 9)
	r.mustPoll(t, "nod_b", 10)
	require.True(t, r.mustPropagation(t, 9).Applied)
	require.False(t, r.mustPropagation(t, 10).Applied)
	p.ran += 30 * time.Second
	require.False(t, r.mustPropagation(t, 10).Applied, "a lease lasts to the end of the bound")
	p.ran++
	require.Equal(t, Propagation{Revision: 10, Applied: true, Nodes: []State{
		{NodeID: "nod_a", AppliedRevision: 9}, {NodeID: "nod_b", AppliedRevision: 10},
	}}, r.mustPropagation(t, 10), "no lease is left")
	stop()

	// Another process: what the last one granted may still be held.
	r, stop = p.mustStart(t)
	require.Equal(t, []State{{NodeID: "nod_a", Live: true}}, r.mustPropagation(t, 1).Nodes)
	require.False(t, r.mustPropagation(t, 1).Applied)
	_, err = r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.True(t, r.mustPropagation(t, 1).Applied, "unless the node is in this process, so its lease ended with the last")
	stop()
	r, _ = p.mustStart(t)
	p.ran += 31 * time.Second
	require.True(t, r.mustPropagation(t, 1).Applied, "nor longer than the bound")
	for range 2 {
		p.ran += forget * 30 * time.Second
		r.mustPoll(t, "nod_c", int64(p.ran))
	}
	require.Len(t, r.mustPropagation(t, 1).Nodes, 1, "who is silent for long is forgotten")
}

// TestLiveNodesWhenTheClockIsSet steps the wall clock, by which no lease runs, either
// way: who is live stays so to the end of the bound, and no longer.
func TestLiveNodesWhenTheClockIsSet(t *testing.T) {
	t.Setenv("MUNIMENT_TEST_POSTGRES", "")
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		p := newPlace(t)
		r, stop := p.mustStart(t)
		_, err := r.Enrol(t.Context(), "nod_a")
		require.NoError(t, err)
		endsWithTheBound := func() {
			p.ran += 30 * time.Second
			require.False(t, r.mustPropagation(t, 2).Applied, "it may still hold a lease")
			p.ran++
			require.True(t, r.mustPropagation(t, 2).Applied)
		}

		r.mustPoll(t, "nod_a", 1)
		p.now = p.now.Add(step)
		endsWithTheBound()
		stop()

		r, _ = p.mustStart(t)
		p.now = p.now.Add(step)
		endsWithTheBound()
	}
}

func TestAwait(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	r.cfg.WaitFor = time.Minute
	r.mustPoll(t, "nod_a", 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, r.Await(gone, 2).Applied)
	answer := make(chan Propagation)
	go func() { answer <- r.Await(t.Context(), 2) }()
	r.mustPoll(t, "nod_a", 2)
	require.True(t, (<-answer).Applied)
}
