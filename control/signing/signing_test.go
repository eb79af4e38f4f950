package signing

import (
	"bytes"
	"context"
	"crypto/ed25519"
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

	"muniment.example/control/rollback"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// place is a data folder with a clock.
type place struct {
	dir      string
	now      time.Time
	clock    func() time.Time // instead of now
	sealTime time.Duration
	log      bytes.Buffer
	metrics  prometheus.Registerer
	sealed   time.Time       // when the newest pack was sealed
	events   rollback.Reader // that a start checks the database against; nil: none
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

// start opens the keys as a start of control does; stop closes the database.
func (p *place) start(t *testing.T) (r *Service, stop func(), err error) {
	t.Helper()
	path, url := storetest.Place(t, p.dir)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: p.read})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	if p.events != nil {
		_, err := rollback.History{Log: p.events}.Reconcile(t.Context(), db)
		require.NoError(t, err)
	}
	r, err = New(t.Context(), Config{
		DB: db, Dir: p.keys(), SealTime: p.sealTime, Logger: slog.New(slog.NewTextHandler(&p.log, nil)), Registerer: p.metrics,
		LastSeal: func(context.Context, store.Querier) (time.Time, error) { return p.sealed, nil },
	})
	return r, func() { require.NoError(t, db.Close()) }, err
}

func (p *place) mustStart(t *testing.T) (*Service, func()) {
	t.Helper()
	r, stop, err := p.start(t)
	require.NoError(t, err)
	return r, stop
}

// events reads the types of the events in the outbox.
func (r *Service) events(t *testing.T) (types []string) {
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

// admit puts the first key of a node into the directory, and returns its id.
func (r *Service) admit(t *testing.T, nodeID, purpose string) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Admit(t.Context(), tx, nodeID, purpose, public, operator)
		return err
	}))
	return keydir.KeyID(public)
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

// verified is the directory, verified under the root key.
func (r *Service) verified(t *testing.T) *keydir.Directory {
	t.Helper()
	text, err := r.Directory(t.Context())
	require.NoError(t, err)
	d, err := keydir.Verify(text, r.RootVkey())
	require.NoError(t, err)
	return d
}

func TestFirstStartMakesEverything(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	require.Equal(t, []string{"key.enrolled", "key.enrolled", "key.enrolled", "key.enrolled", "key.enrolled"}, r.events(t))
	modes := map[string]os.FileMode{"root.skey": 0o600, "root.vkey": 0o644, "directory-" + r.directory.ring().current().signer.KeyID + ".key": 0o600}
	signers := map[string]*sealer.Signer{}
	for purpose, stem := range map[string]string{keydir.PurposePack: "pack-", keydir.PurposeBeacon: "beacon-", keydir.PurposeWebhook: "webhook-", keydir.PurposeSandbox: "sandbox-"} {
		signers[purpose] = r.mustSigner(t, purpose)
		modes[stem+signers[purpose].KeyID+".key"] = 0o600
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
	d, err := keydir.Verify(text, strings.TrimSpace(string(vkey)))
	require.NoError(t, err)
	for purpose, signer := range signers {
		require.Equal(t, control, signer.Node)
		_, code := d.Find(signer.KeyID, purpose, p.now)
		require.Empty(t, code)
		_, code = d.Find(signer.KeyID, purpose, p.now.Add(-time.Millisecond))
		require.Equal(t, sealer.KeyOutsideWindow, code, "no key is valid before it was enrolled")
	}
	_, other, err := keydir.GenerateRoot("muniment")
	require.NoError(t, err)
	_, err = keydir.Verify(text, other)
	require.Error(t, err)
	for _, purpose := range []string{keydir.PurposeReceipt, keydir.PurposeDirectory} {
		_, err := r.Signer(t.Context(), purpose)
		require.ErrorContains(t, err, "control has no keys for "+purpose)
	}
}

func TestSecondStartKeepsTheKeys(t *testing.T) {
	p := newPlace(t)
	first, stop := p.mustStart(t)
	before, err := first.Directory(t.Context())
	require.NoError(t, err)
	events := first.events(t)
	stop()

	second, _ := p.mustStart(t)
	after, err := second.Directory(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Equal(t, events, second.events(t), "no key was enrolled")
	require.Equal(t, first.RootVkey(), second.RootVkey())
}

func TestClockSetBackKeepsTheDirectoryValid(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	p.now = p.now.Add(-24 * time.Hour)
	r.verified(t)
}
