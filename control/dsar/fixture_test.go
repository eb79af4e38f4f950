package dsar

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/control/ingest"
	"muniment.example/control/objects"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/verify"
)

// fixture is what the service stands on, as the embedded service has it, in one folder.
type fixture struct {
	*Service
	t         testing.TB
	dir       string
	log       *segment.Log
	warehouse *sqlite.Warehouse
	keys      *keyring
	clock     *clock
	// unconfirmed says that callers have not signed in a moment ago.
	unconfirmed bool
	// scopes are those of the maker of a link, when it is used.
	scopes api.Scopes
	// caller makes the requests.
	caller string
}

// clock goes on by itself, and may be moved.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// newFixture makes a fixture; change alters how its service is made.
func newFixture(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	h := &fixture{t: t, dir: t.TempDir(), clock: &clock{}, keys: newKeyring(t), scopes: api.Scopes(api.Wildcard), caller: "key_a"}
	var err error
	h.log, err = segment.Open(segment.Config{Dir: filepath.Join(h.dir, "log")})
	require.NoError(t, err)
	h.warehouse, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(h.dir, "warehouse.db")})
	require.NoError(t, err)
	require.NoError(t, h.warehouse.Erase(t.Context(), pipeline.SubjectKey{}, nil))
	loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: h.log, Warehouse: h.warehouse})
	require.NoError(t, err)
	db := roomtest.Open(t, h.dir, h.clock.Now)
	bundles, err := objects.Open(filepath.Join(h.dir, "bundles"), BundleType)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = loader.Run(ctx) })
	running.Go(func() { _ = db.Outbox.Relay(ctx, h.log) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		require.NoError(t, errors.Join(h.warehouse.Close(), h.log.Close()))
	})
	cfg := Config{
		DB: db, Warehouse: h.warehouse, Log: h.log, Keys: h.keys, Tables: append(Tables, ingest.Tables...), Bundles: bundles, Logger: slog.New(slog.DiscardHandler),
		Scopes: func(_ context.Context, _ store.Querier, actorID string, _ time.Time) (api.Scopes, error) {
			require.Equal(t, h.caller, actorID)
			return h.scopes, nil
		},
		Failed: func(code string, err error) error { return fmt.Errorf("%s: %w", code, err) },
	}
	if change != nil {
		change(&cfg)
	}
	h.Service, err = New(cfg)
	require.NoError(t, err)
	return h
}

// silent is the report of what reports nothing.
func silent(context.Context) error { return nil }

// keyring is the signing keys and their directory.
type keyring struct {
	vkey          string
	text          []byte
	pack, receipt *sealer.Signer
}

func newKeyring(t testing.TB) *keyring {
	skey, vkey, err := keydir.GenerateRoot("muniment-test-root")
	require.NoError(t, err)
	root, err := note.NewSigner(skey)
	require.NoError(t, err)
	k, since := &keyring{vkey: vkey}, time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	d := &keydir.Directory{IssuedAt: since, SnapshotID: "test"}
	add := func(purpose string) *sealer.Signer {
		pub, key, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		d.Keys = append(d.Keys, keydir.NewKey(pub, purpose, since))
		return &sealer.Signer{KeyID: keydir.KeyID(pub), Node: "nod_test", Key: key}
	}
	directory := add(keydir.PurposeDirectory)
	k.pack, k.receipt = add(keydir.PurposePack), add(keydir.PurposeReceipt)
	own := directory.Key.(ed25519.PrivateKey)
	d.Delegation, err = keydir.Delegate(root, own.Public().(ed25519.PublicKey), since, since.AddDate(10, 0, 0))
	require.NoError(t, err)
	k.text, err = keydir.Sign(d, own)
	require.NoError(t, err)
	return k
}

func (k *keyring) Signer(context.Context, string) (*sealer.Signer, error) { return k.pack, nil }
func (k *keyring) Directory(context.Context) ([]byte, error)              { return k.text, nil }

// delivery is what a test wants of one.
type delivery struct {
	tenant, right, subject, correlation string
	others                              []string // more persons
	substrate                           gate.Substrate
	telemetry                           string
	ago                                 time.Duration // when it was rendered
	edit                                func(*sealer.Delivery, *sealer.Receipt, *sealer.Private)
}

// deliver makes deliveries durable, and returns the ids of their events.
func (h *fixture) deliver(all ...delivery) (ids []string) {
	records := make([]*sealer.Record, len(all))
	for i, d := range all {
		now := h.clock.Now().UTC().Truncate(time.Millisecond)
		p := sealer.Private{DataSubjects: sealer.About(append([]string{d.subject}, d.others...)...), AttentionMs: -1}
		require.NoError(h.t, p.DrawSalts(rand.Reader))
		if d.telemetry != "" {
			p.Telemetry = []byte(d.telemetry)
		}
		what := sealer.Delivery{
			TenantID: d.tenant, Actor: sealer.Ref{Kind: "key", ID: "key_a"}, RightID: d.right, RightRevision: 1, BasisID: "bas_a", Substrate: d.substrate,
			Metering: gate.Metering{Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisViewable, QuantityMs: 1000, AttentionMs: -1},
		}
		if what.TenantID == "" {
			what.TenantID = tenantID
		}
		receipt := sealer.Receipt{
			ReceiptID: api.NewID(api.PrefixReceipt, now), SpatialAnchorID: "=cmd|' /C calc'!A1", IssuedAt: now, RenderedAt: now.Add(-d.ago), DwellMs: 1000,
			Nonce: base64.RawURLEncoding.EncodeToString(p.Salt[:]),
		}
		if d.correlation != "" {
			receipt.CorrelationID = &d.correlation
		}
		if d.edit != nil {
			d.edit(&what, &receipt, &p)
		}
		private := sealer.AppendPrivate(nil, &p)
		what.PrivateCommitment = p.Commitment()
		text, err := h.keys.receipt.SealDelivery(nil, &what, &receipt)
		require.NoError(h.t, err)
		records[i] = &sealer.Record{TenantID: what.TenantID, EventID: "evt_" + receipt.ReceiptID[4:], Node: "nod_test", Epoch: 1, Seq: uint64(i + 1), Event: text, Private: private}
		ids = append(ids, records[i].EventID)
	}
	_, errs := h.log.AppendAll(h.t.Context(), records)
	require.NoError(h.t, errors.Join(errs...))
	return ids
}

// export requests a job and runs it as a worker would.
func (h *fixture) export(requested Job) View {
	h.t.Helper()
	v := h.mustCreate(h.t, requested)
	_, err := h.run(h.t.Context(), requested.TenantID, v.ID, byKey)
	require.NoError(h.t, err)
	job, err := h.db.Jobs.Claim(h.t.Context(), ExportJob, time.Minute)
	require.NoError(h.t, err)
	require.NotNil(h.t, job)
	require.NoError(h.t, h.Export(h.t.Context(), job))
	require.NoError(h.t, job.Done(h.t.Context()))
	_, v, err = find(h.t.Context(), h.db.Read(), requested.TenantID, v.ID)
	require.NoError(h.t, err)
	require.Equal(h.t, Ready, v.State)
	return v
}

// bundle is the file of a job's bundle, which is what the job says it is.
func (h *fixture) bundle(v View) string {
	h.t.Helper()
	name := filepath.Join(h.dir, "bundles", filepath.FromSlash(*v.Delivery.BundleStoreKey))
	text, err := os.ReadFile(name)
	require.NoError(h.t, err)
	sum := sha256.Sum256(text)
	require.Equal(h.t, v.Delivery.BundleSHA256, base64.RawURLEncoding.EncodeToString(sum[:]))
	require.EqualValues(h.t, len(text), v.Delivery.BundleSizeBytes)
	return name
}

// sections are the texts of a bundle by their names without extension.
func sections(t require.TestingT, name string) map[string][]byte {
	r, err := zip.OpenReader(name)
	require.NoError(t, err)
	defer r.Close()
	all := map[string][]byte{}
	for _, f := range r.File {
		in, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		all[f.Name[:len(f.Name)-len(filepath.Ext(f.Name))]] = text
	}
	return all
}

// verified verifies a file under the root key.
func (h *fixture) verified(name string) (status int, report string) {
	var out bytes.Buffer
	status = verify.Files(context.Background(), verify.Options{Files: []string{name}, Root: h.keys.vkey, JSON: true}, &out)
	return status, out.String()
}

// row is what tests read of a row.
type row struct {
	EventID, RightID, Substrate, CorrelationID, Type, SubjectID, ID string
	DataSubjectIDs                                                  []string
}

// requireOf requires that a section is of no other person.
func requireOf(t require.TestingT, rows []row, subject string) {
	for _, r := range rows {
		require.Equal(t, []string{subject}, r.DataSubjectIDs)
	}
}
