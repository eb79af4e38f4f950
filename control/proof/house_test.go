package proof

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment/control/node"
	"muniment/control/settle"
	"muniment/control/store"
	"muniment/control/store/storetest"
	"muniment/gate"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/pipeline/kafka"
	"muniment/pipeline/segment"
	"muniment/pipeline/sqlite"
	"muniment/sealer"
)

// house is everything around the room, as the embedded default has it: segment
// log, loader, SQLite warehouse, database and relay in one folder. It can be
// closed and opened again over that folder. Its log may be a topic instead.
type house struct {
	t      tb
	dir    string
	tenant string // whom deliver, audit, seal and check are about
	keys   *keyring
	clock

	topic kafka.Config // without brokers: the log is in the folder
	log   interface {
		pipeline.Log
		io.Closer
	}
	warehouse *sqlite.Warehouse
	loaders   []*pipeline.Loader // by partition
	db        *store.DB
	room      *Room
	running   sync.WaitGroup
	stop      context.CancelFunc
}

// tb is what a house needs of a *testing.T or a *rapid.T.
type tb interface {
	require.TestingT
	Helper()
	Context() context.Context
	Cleanup(func())
}

// build makes a house in a new folder. cfg holds what a test wants otherwise.
func build(t tb, cfg ...Config) *house { return buildOver(t, kafka.Config{}, cfg...) }

// buildOver makes a house whose log is a topic.
func buildOver(t tb, topic kafka.Config, cfg ...Config) *house {
	dir, err := os.MkdirTemp("", "muniment-proof-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	h := &house{t: t, dir: dir, topic: topic, tenant: tenant, clock: clock{now: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)}}
	h.keys = newKeyring(t, &h.clock)
	h.open(append(cfg, Config{})[0])
	t.Cleanup(h.close)
	return h
}

// open starts everything over the folder.
func (h *house) open(cfg Config) {
	t := h.t
	var err error
	if h.topic.Brokers != nil {
		h.log, err = kafka.Open(h.topic)
	} else {
		h.log, err = segment.Open(segment.Config{Dir: filepath.Join(h.dir, "log")})
	}
	require.NoError(t, err)
	h.warehouse, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(h.dir, "warehouse.db")})
	require.NoError(t, err)
	path, url := storetest.Place(t, h.dir)
	h.db, err = store.Open(t.Context(), store.Config{Path: path, URL: url, Now: h.Now, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)

	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	partitions, err := h.log.Partitions(t.Context())
	require.NoError(t, err)
	h.loaders = nil
	for p := range int32(partitions) {
		loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: h.log, Warehouse: h.warehouse, Partition: p})
		require.NoError(t, err)
		h.loaders = append(h.loaders, loader)
		h.running.Go(func() { _ = loader.Run(ctx) })
	}
	h.running.Go(func() { _ = h.db.Relay(ctx, h.log) })

	cfg.DB, cfg.Log, cfg.Keys, cfg.Dir, cfg.Now = h.db, h.log, h.keys, filepath.Join(h.dir, "packs"), h.Now
	cfg.Logger, cfg.Rate = slog.New(slog.DiscardHandler), settle.Rate
	if cfg.Warehouse == nil {
		cfg.Warehouse = h.warehouse
	}
	h.room, err = New(cfg)
	require.NoError(t, err)
	h.room.turns.shared = false // the head decides, and who was killed keeps nobody waiting
}

// another is another process on the same database and folder. It takes no turns, either.
func (h *house) another() *Room {
	h.t.Helper()
	room, err := New(h.room.cfg)
	require.NoError(h.t, err)
	room.turns.shared = false
	return room
}

func (h *house) close() {
	h.stop()
	h.running.Wait()
	require.NoError(h.t, h.db.Close())
	require.NoError(h.t, h.warehouse.Close())
	require.NoError(h.t, h.log.Close())
}

// reopen is a restart of the process.
func (h *house) reopen(cfg Config) {
	h.close()
	h.open(cfg)
}

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// keyring is the signing keys and their directory.
type keyring struct {
	*clock
	root      note.Signer
	vkey      string
	directory ed25519.PrivateKey
	pack      *sealer.Signer
	receipt   *sealer.Signer
	sandbox   *sealer.Signer // of packs and of receipts

	mu      sync.Mutex
	entries []sealer.Key
}

func newKeyring(t tb, c *clock) *keyring {
	skey, vkey, err := sealer.GenerateRoot("muniment-test-root")
	require.NoError(t, err)
	root, err := note.NewSigner(skey)
	require.NoError(t, err)
	k := &keyring{clock: c, root: root, vkey: vkey}
	since := c.Now().Add(-time.Hour)
	k.directory = k.add(t, sealer.PurposeDirectory, since).Key.(ed25519.PrivateKey)
	k.pack = k.add(t, sealer.PurposePack, since)
	k.receipt = k.add(t, sealer.PurposeReceipt, since)
	k.sandbox = k.add(t, sealer.PurposeSandbox, since)
	return k
}

// add makes a key and lists it.
func (k *keyring) add(t tb, purpose string, since time.Time) *sealer.Signer {
	s := newSigner(t)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries = append(k.entries, sealer.NewKey(s.Key.Public().(ed25519.PublicKey), purpose, since))
	return s
}

func newSigner(t tb) *sealer.Signer {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return &sealer.Signer{KeyID: sealer.KeyID(pub), Node: "nod_test", Key: key}
}

func (k *keyring) revoke(keyID string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.entries {
		if k.entries[i].KeyID == keyID {
			k.entries[i].RevokedAt = &at
		}
	}
}

func (k *keyring) Signer(_ context.Context, purpose string) (*sealer.Signer, error) {
	if purpose == sealer.PurposeSandbox {
		return k.sandbox, nil
	}
	return k.pack, nil
}

func (k *keyring) Vouches(context.Context, *store.Tx, string) (bool, error) { return true, nil }

func (k *keyring) Directory(context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	issuedAt := k.Now()
	for _, key := range k.entries {
		if key.NotBefore.After(issuedAt) {
			issuedAt = key.NotBefore // as control/node does after the clock was set back
		}
	}
	delegation, err := sealer.Delegate(k.root, k.directory.Public().(ed25519.PublicKey), k.entries[0].NotBefore, k.entries[0].NotBefore.AddDate(10, 0, 0))
	if err != nil {
		return nil, err
	}
	return sealer.SignDirectory(&sealer.Directory{
		Keys: k.entries, IssuedAt: issuedAt, SnapshotID: "test", Delegation: delegation,
	}, k.directory)
}

var _ Keys = (*node.Room)(nil)

// tenant is the one that most tests work with.
const tenant = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAV"

var operator = sealer.Ref{Kind: "operator", ID: "admin"}

// delivery is what a test wants of one delivery; zero values have defaults.
type delivery struct {
	tenant    string
	right     string
	substrate gate.Substrate
	telemetry string
	dwellMs   float64
	key       string         // idempotency key
	row, day  string         // what names a row, and its day
	subject   string         // data subject, of the private part
	anchor    string         // in space
	trace     string         // correlation id
	rendered  time.Duration  // before it was issued
	signer    *sealer.Signer // another than the node's

	multiplier int64
}

// event returns the record of a delivery, as a gateway makes it.
func (h *house) event(d delivery) *sealer.Record {
	t := h.t
	if d.tenant == "" {
		d.tenant = h.tenant
	}
	if d.right == "" {
		d.right = "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	}
	if d.telemetry == "" {
		d.telemetry = "{}"
	}
	if d.signer == nil {
		d.signer = h.keys.receipt
	}
	right, err := gate.ParseRight(d.substrate, nil)
	require.NoError(t, err)
	var seen gate.Telemetry
	faults, err := seen.Decode(jsontext.NewDecoder(strings.NewReader(d.telemetry)), nil)
	require.NoError(t, err)
	require.Empty(t, faults)
	verdict := gate.Evaluate(&right, &seen, d.dwellMs)
	require.False(t, verdict.Refused(), "%+v", d)

	now := h.Now()
	receipt := sealer.Receipt{
		ReceiptID: api.NewID(api.PrefixReceipt, now), SpatialAnchorID: cmp.Or(d.anchor, "anchor"),
		IssuedAt: now, RenderedAt: now.Add(-d.rendered), DwellMs: d.dwellMs, Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16)),
	}
	if d.trace != "" {
		receipt.CorrelationID = &d.trace
	}
	what := sealer.Delivery{
		TenantID: d.tenant, Actor: sealer.Ref{Kind: "key", ID: "key_test"}, RightID: d.right, RightRevision: 1,
		BasisID: "bas_01ARZ3NDEKTSV4RRFFQ69G5FAV", Substrate: right.Substrate, Metering: verdict.Meter(&seen, d.dwellMs),
	}
	if d.key != "" {
		sum := sha256.Sum256([]byte(d.tenant + "\x00" + d.key))
		what.Idempotency = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if d.row != "" {
		sum := sha256.Sum256([]byte(d.tenant + "\x01" + d.row))
		what.Identity = sealer.RowIdentity{Hash: base64.RawURLEncoding.EncodeToString(sum[:]), Day: d.day}
	}
	what.Multiplier = d.multiplier
	var private []byte
	if d.subject != "" {
		secret := sealer.Private{Salt: [16]byte{1}, DataSubject: d.subject, AttentionMs: -1}
		private = sealer.AppendPrivate(nil, &secret)
		what.PrivateCommitment = sealer.Commit(secret.Salt, private)
	}
	text, err := d.signer.SealDelivery(nil, &what, &receipt)
	require.NoError(t, err)
	return &sealer.Record{
		TenantID: d.tenant, EventID: "evt_" + receipt.ReceiptID[4:], Node: "nod_test", Epoch: 1, Seq: 1, Event: text, Private: private,
	}
}

// deliver makes deliveries durable.
func (h *house) deliver(all ...delivery) {
	for _, d := range all {
		h.append(h.event(d))
	}
}

func (h *house) append(r *sealer.Record) {
	_, err := h.log.Append(h.t.Context(), r)
	require.NoError(h.t, err)
}

// deliveries are n plain ones.
func deliveries(n int) []delivery {
	all := make([]delivery, n)
	for i := range all {
		all[i] = delivery{substrate: gate.DOOH, dwellMs: float64(1000 + i)}
	}
	return all
}

// audit makes an event of control durable.
func (h *house) audit(kind string) {
	err := h.db.Change(h.t.Context(), func(tx *store.Tx) error {
		return tx.Emit(h.t.Context(), sealer.Event{
			TenantID: h.tenant, Type: kind, Actor: operator, Subject: sealer.Ref{Kind: "tenant", ID: h.tenant}, Data: []byte(`{}`),
		})
	})
	require.NoError(h.t, err)
}

// seal must succeed; it returns the headers of the packs. The event of the
// sealing is in the log then.
func (h *house) seal() []sealer.PackHeader {
	h.t.Helper()
	sealed, err := h.room.sealWhole(h.t.Context(), h.tenant, operator)
	require.NoError(h.t, err)
	require.NoError(h.t, h.db.Drain(h.t.Context(), h.tenant))
	return headers(h.t, sealed)
}

func headers(t tb, sealed Sealed) []sealer.PackHeader {
	t.Helper()
	list := make([]sealer.PackHeader, 0, len(sealed.Packs))
	for _, text := range sealed.Packs {
		header, err := sealer.ParsePackHeader(text)
		require.NoError(t, err)
		list = append(list, header)
	}
	if len(list) > 0 {
		require.Equal(t, string(sealed.Packs[len(list)-1]), string(sealed.Pack))
	}
	return list
}

// sealErr must fail; it returns what a caller sees of it.
func (h *house) sealErr() *api.Error {
	h.t.Helper()
	_, err := h.room.sealWhole(h.t.Context(), h.tenant, operator)
	require.Error(h.t, err)
	return api.From(err)
}

// behind is what a caller sees of a seal that the warehouse keeps waiting. One whose time
// was over before it came to that is tried again.
func (h *house) behind() *api.Error {
	h.t.Helper()
	refused := h.sealErr()
	for tries := 1; refused.Reason == api.LogUnavailable; tries++ {
		require.Less(h.t, tries, 100, "there is never time for the warehouse")
		refused = h.sealErr()
	}
	return refused
}

// pause stops a loader that has loaded all there is: one that is about to read would still
// find what comes now.
func (h *house) pause(partition int32) {
	h.t.Helper()
	_, end, err := h.log.Bounds(h.t.Context(), partition)
	require.NoError(h.t, err)
	require.Eventually(h.t, func() bool {
		next, _, err := h.warehouse.Resume(h.t.Context(), partition)
		return err == nil && next == end
	}, time.Minute, time.Millisecond)
	h.loaders[partition].Pause()
}

// end is that of the tenant's partition of the log.
func (h *house) end() sealer.Position {
	h.t.Helper()
	partition, err := h.log.PartitionOf(h.t.Context(), h.tenant)
	require.NoError(h.t, err)
	_, end, err := h.log.Bounds(h.t.Context(), partition)
	require.NoError(h.t, err)
	return end
}

// sealWhole seals all that was acknowledged before the call, or fails, as Vouch does.
func (r *Room) sealWhole(ctx context.Context, tenantID string, by sealer.Ref) (Sealed, error) {
	return r.timed(ctx, tenantID, request{spoolWait: r.cfg.SpoolWait, by: by})
}

// packs are the tenant's packs, as the database lists them.
func (h *house) packs() []Pack {
	packs, err := listPacks(h.t.Context(), h.db.Read(), h.tenant, 0, 1_000_000)
	require.NoError(h.t, err)
	return packs
}

// check verifies, from the files alone, that all packs make one chain and hold
// each event of the tenant's log exactly once, but for those that came after the
// last seal. It returns the entries in their order.
func (h *house) check() [][]byte {
	h.t.Helper()
	var entries [][]byte
	var previous *sealer.PackRef
	var files []string
	for _, p := range h.packs() {
		text, err := os.ReadFile(h.room.folder.path(h.tenant, p.ID))
		require.NoError(h.t, err)
		files = append(files, h.room.folder.path(h.tenant, p.ID))
		reader, err := sealer.ReadPack(bytes.NewReader(text))
		require.NoError(h.t, err)
		header := reader.Header()
		require.EqualValues(h.t, len(entries), header.FirstIndex)
		require.Equal(h.t, previous, header.Previous)
		require.Equal(h.t, string(p.Header), string(reader.HeaderText()))
		require.EqualValues(h.t, len(text), p.File.Bytes)
		for {
			entry, err := reader.Next()
			if err == io.EOF {
				break
			}
			require.NoError(h.t, err)
			entries = append(entries, entry)
		}
		ref := header.Ref()
		previous = &ref
	}
	var report bytes.Buffer
	exit := sealer.VerifyFiles(h.t.Context(), sealer.Options{Files: files, Root: h.keys.vkey, Rate: settle.Rate, JSON: true}, &report)
	require.Equal(h.t, sealer.ExitSound, exit, report.String())
	seen := map[string]bool{}
	for _, entry := range entries {
		require.False(h.t, seen[string(entry)], "twice: %s", entry)
		seen[string(entry)] = true
	}
	rows, err := h.warehouse.Events(h.t.Context(), pipeline.EventQuery{TenantID: h.tenant, Limit: 1_000_000})
	require.NoError(h.t, err)
	require.GreaterOrEqual(h.t, len(rows), len(entries))
	for i := range entries {
		require.Equal(h.t, string(rows[i].Event), string(entries[i]), "entry %d", i)
	}
	return entries
}

// files are the names in the tenant's folder of packs, but for those of nodes.
func (h *house) files() []string {
	entries, err := os.ReadDir(filepath.Join(h.dir, "packs", h.tenant))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(h.t, err)
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), nodesSuffix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// onlyOneRootOfASize opens every checkpoint that was ever signed, those of files
// without a pack included.
func (h *house) onlyOneRootOfASize() {
	h.t.Helper()
	roots := map[uint64]sealer.Hash{}
	for _, name := range h.files() {
		file, err := os.Open(h.room.folder.name(h.tenant, name))
		require.NoError(h.t, err)
		pack, err := sealer.ReadPack(file)
		require.NoError(h.t, file.Close())
		if err != nil {
			continue // a draft that was cut off
		}
		header := pack.Header()
		root, met := roots[header.TreeSize]
		require.True(h.t, !met || root == header.RootHash, "two roots of size %d", header.TreeSize)
		roots[header.TreeSize] = header.RootHash
	}
}
