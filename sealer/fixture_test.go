package sealer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment/gate"
)

// epoch is when the fixture's world begins: its keys are valid from then on.
var epoch = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// testKey makes an Ed25519 key out of a name: the seed is SHA-256 of the name.
func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func pub(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// rootKey makes a C2SP key pair out of a name.
func rootKey(tb testing.TB, name string) (note.Signer, string) {
	tb.Helper()
	key := testKey(name)
	vkey, err := note.NewEd25519VerifierKey(name, pub(key))
	require.NoError(tb, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(tb, err)
	skey := fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, v.KeyHash(),
		base64.StdEncoding.EncodeToString(append([]byte{1}, key.Seed()...)))
	signer, err := note.NewSigner(skey)
	require.NoError(tb, err)
	return signer, vkey
}

// world is a small service: keys, a directory, one tenant's log. Everything in it
// follows from names, so that the same world makes the same bytes.
type world struct {
	tb       testing.TB
	tenant   string
	rootName string
	vkey     string
	keys     []Key
	nodes    []*Signer
	packKey  ed25519.PrivateKey
	officer  string    // name of the directory key
	until    time.Time // the end of its delegation
	now      time.Time
	tree     *Tree
	previous *PackRef
	rules    []SettlementRule // of the log
	packs    int
	events   int
}

// named makes an id out of a name: its ULID is of epoch and the SHA-256 of the name.
func named(prefix, name string) string {
	u := ulid.ULID(make([]byte, 16))
	if err := u.SetTime(uint64(epoch.UnixMilli())); err != nil {
		panic(err)
	}
	sum := sha256.Sum256([]byte(name))
	copy(u[6:], sum[:])
	return prefix + u.String()
}

// tenantID is the tenant of a name.
func tenantID(name string) string { return named(tenantPrefix, name) }

func newWorld(tb testing.TB) *world {
	w := &world{tb: tb, tenant: tenantID("fixture"), rootName: "root.example", now: epoch, tree: NewTree(),
		packKey: testKey("pack"), officer: "directory", until: epoch.AddDate(2, 0, 0)}
	_, w.vkey = rootKey(tb, w.rootName)
	w.keys = append(w.keys,
		NewKey(pub(testKey(w.officer)), PurposeDirectory, epoch),
		NewKey(pub(w.packKey), PurposePack, epoch),
		NewKey(pub(testKey("sandbox")), PurposeSandbox, epoch))
	for _, name := range []string{"nod_a", "nod_b"} {
		key := testKey(name)
		w.keys = append(w.keys, NewKey(pub(key), PurposeReceipt, epoch))
		w.nodes = append(w.nodes, &Signer{KeyID: KeyID(pub(key)), Node: name, Key: key})
	}
	return w
}

// key returns the directory's entry of a key, to be changed.
func (w *world) key(id string) *Key {
	for i := range w.keys {
		if w.keys[i].KeyID == id {
			return &w.keys[i]
		}
	}
	require.Fail(w.tb, "no such key")
	return nil
}

func (w *world) directory() []byte {
	w.tb.Helper()
	root, _ := rootKey(w.tb, w.rootName)
	key := testKey(w.officer)
	delegation, err := Delegate(root, pub(key), w.key(KeyID(pub(key))).NotBefore, w.until)
	require.NoError(w.tb, err)
	text, err := SignDirectory(&Directory{
		Keys: w.keys, IssuedAt: w.now, SnapshotID: KeyID(pub(key)), Delegation: delegation,
	}, key)
	require.NoError(w.tb, err)
	return text
}

// id makes an id of the moment now.
func (w *world) id(prefix string) string {
	w.events++
	var u ulid.ULID
	require.NoError(w.tb, u.SetTime(uint64(w.now.UnixMilli())))
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", w.tenant, w.events))
	require.NoError(w.tb, u.SetEntropy(sum[:10]))
	return prefix + u.String()
}

// metering lets the gate decide about telemetry.
func metering(tb testing.TB, s gate.Substrate, telemetry string, dwell float64) gate.Metering {
	tb.Helper()
	right := gate.Right{Substrate: s}
	var observed gate.Telemetry
	faults, err := observed.Decode(jsontext.NewDecoder(bytes.NewReader([]byte(telemetry))), nil)
	require.NoError(tb, err)
	require.Empty(tb, faults)
	return gate.Evaluate(&right, &observed, dwell).Meter(&observed, dwell)
}

// draft is a delivery before it is sealed: the n-th of the world.
func (w *world) draft(n int) (*Signer, *Delivery, *Receipt) {
	w.tb.Helper()
	w.now = w.now.Add(time.Second)
	telemetry := `{"viewable":true}`
	if n%5 == 3 {
		telemetry = `{"visibilityState":"hidden","appState":"background"}`
	}
	dwell := float64(1500*(n%7)) + 0.25*float64(n%4)
	nonce := sha256.Sum256(fmt.Appendf(nil, "nonce %d", w.events))
	substrate := []gate.Substrate{gate.DOOH, gate.CTV, gate.Mobile}[n%3]
	d := &Delivery{
		TenantID:      w.tenant,
		Actor:         Ref{"key", "key_fixture"},
		RightID:       fmt.Sprintf("rgh_%d", n%4),
		RightRevision: int64(10 + n%2),
		BasisID:       fmt.Sprintf("bas_%d", n%2),
		Substrate:     substrate,
		Metering:      metering(w.tb, substrate, telemetry, dwell),
	}
	r := &Receipt{
		ReceiptID:       w.id(receiptPrefix),
		SpatialAnchorID: fmt.Sprintf("anchor/%d", n),
		IssuedAt:        w.now,
		RenderedAt:      w.now.Add(-time.Duration(n%3) * time.Millisecond),
		DwellMs:         dwell,
		Nonce:           base64url.EncodeToString(nonce[:16]),
	}
	if n%2 == 0 {
		placement, correlation := "slot \"é\"", fmt.Sprintf("trace\t%d", n)
		r.SpatialPlacementID, r.CorrelationID = &placement, &correlation
	}
	return w.nodes[n%len(w.nodes)], d, r
}

// delivery seals the n-th delivery, with an idempotency key unless it is empty.
func (w *world) delivery(n int, key string) []byte {
	w.tb.Helper()
	s, d, r := w.draft(n)
	if key != "" {
		sum := sha256.Sum256([]byte(w.tenant + "\x00" + key))
		d.Idempotency = base64url.EncodeToString(sum[:])
	}
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(w.tb, err)
	return event
}

// note returns an event that is no delivery.
func (w *world) note(kind string) []byte {
	w.tb.Helper()
	w.now = w.now.Add(time.Second)
	event, err := AppendEvent(nil, &Event{
		EventID: w.id(eventPrefix), TenantID: w.tenant, Type: kind, At: w.now,
		Actor: Ref{"key", "key_fixture"}, Subject: Ref{"right", "rgh_0"}, Data: []byte(`{"reason":"end of campaign","revision":12}`),
	})
	require.NoError(w.tb, err)
	return event
}

// run makes n deliveries, the second half of a pair repeating the idempotency key
// of the first now and then.
func (w *world) run(n int) [][]byte {
	events, before := make([][]byte, n), w.events
	for i := range events {
		events[i] = w.delivery(i, fmt.Sprintf("order %d", before+i-i%9/8))
	}
	return events
}

// packID names the n-th pack of the log, from 1 on.
func (w *world) packID(n int) string {
	return named(packPrefix, fmt.Sprintf("%s %d", w.tenant, n))
}

// seal builds the next pack of the log.
func (w *world) seal(events [][]byte, change ...func(*PackConfig)) *SealedPack {
	w.tb.Helper()
	p, err := w.trySeal(events, change...)
	require.NoError(w.tb, err)
	w.packs++
	ref := p.Header.Ref()
	w.tree, w.previous, w.rules = p.Tree, &ref, p.Header.Rules()
	return p
}

func (w *world) trySeal(events [][]byte, change ...func(*PackConfig)) (*SealedPack, error) {
	w.tb.Helper()
	return w.builder(events, change...).Seal()
}

// builder is that of the next pack, with the events.
func (w *world) builder(events [][]byte, change ...func(*PackConfig)) *PackBuilder {
	w.tb.Helper()
	w.now = w.now.Add(time.Second)
	cfg := PackConfig{
		PackID: w.packID(w.packs + 1), TenantID: w.tenant, Before: w.tree, Previous: w.previous,
		SealedAt: w.now, Directory: w.directory(), Key: w.packKey, Rules: w.rules, Rate: testRate,
	}
	for _, c := range change {
		c(&cfg)
	}
	b, err := NewPackBuilder(cfg)
	require.NoError(w.tb, err)
	for _, e := range events {
		b.Add(e)
	}
	return b
}

// bundle is the pack as NDJSON.
func bundle(tb testing.TB, p *SealedPack, events [][]byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := NewBundleWriter(&out, p)
	for _, e := range events {
		require.NoError(tb, w.Add(e))
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}

// verdicts verifies a pack under the world's root.
func (w *world) verdicts(pack []byte) []Verdict {
	w.tb.Helper()
	v, err := verifyPack(context.Background(), bytes.NewReader(pack), w.vkey)
	require.NoError(w.tb, err)
	return v
}

// verifyPack verifies one pack that a reader gives, with nothing known of its log.
func verifyPack(ctx context.Context, r io.Reader, rootVkey string) ([]Verdict, error) {
	t, err := readTrust(rootVkey, "")
	if err != nil {
		return nil, err
	}
	c := packCheck{trust: t, rate: testRate}
	err = c.run(ctx, r, newHistory(nil))
	c.settle(false)
	return c.verdicts, err
}

// failures are the codes of the verdicts that are not OK, each once.
func failures(verdicts []Verdict) []Code {
	var codes []Code
	seen := make(map[Code]bool)
	for _, v := range verdicts {
		if !v.OK && !seen[v.Code] {
			seen[v.Code] = true
			codes = append(codes, v.Code)
		}
	}
	return codes
}

// forge assembles a bundle out of raw lines.
func forge(lines ...[]byte) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		b.Write(l)
		b.WriteByte('\n')
	}
	return b.Bytes()
}
