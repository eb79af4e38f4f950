// Package sealertest has a small service for tests: keys, a directory, and one tenant's log.
package sealertest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/gate"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

// Epoch is when the fixture's world begins: its keys are valid from then on.
var Epoch = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// PrivateKey makes an Ed25519 key out of a name: the seed is SHA-256 of the name.
func PrivateKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// Public is the public half of a key.
func Public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// RootKey makes a C2SP key pair out of a name.
func RootKey(tb testing.TB, name string) (note.Signer, string) {
	tb.Helper()
	key := PrivateKey(name)
	vkey, err := note.NewEd25519VerifierKey(name, Public(key))
	require.NoError(tb, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(tb, err)
	skey := fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, v.KeyHash(),
		base64.StdEncoding.EncodeToString(append([]byte{1}, key.Seed()...)))
	signer, err := note.NewSigner(skey)
	require.NoError(tb, err)
	return signer, vkey
}

// World is a small service: keys, a directory, one tenant's log. Everything in it
// follows from names, so that the same world makes the same bytes.
type World struct {
	TB       testing.TB
	Tenant   string
	RootName string
	VKey     string
	Keys     []keydir.Key
	Nodes    []*sealer.Signer
	PackKey  ed25519.PrivateKey
	Officer  string    // name of the directory key
	Until    time.Time // the end of its delegation
	Now      time.Time
	Tree     *merkle.Tree
	Previous *pack.Ref
	Rules    []settlement.Rule // of the log
	Scopes   []settlement.Right
	Packs    int
	events   int
}

// Named makes an id out of a name: its ULID is of epoch and the SHA-256 of the name.
func Named(prefix, name string) string {
	u := ulid.ULID(make([]byte, 16))
	if err := u.SetTime(uint64(Epoch.UnixMilli())); err != nil {
		panic(err)
	}
	sum := sha256.Sum256([]byte(name))
	copy(u[6:], sum[:])
	return prefix + u.String()
}

// TenantID is the tenant of a name.
func TenantID(name string) string { return Named("tnt_", name) }

// NewWorld returns a service of one tenant, two nodes and no packs.
func NewWorld(tb testing.TB) *World {
	w := &World{TB: tb, Tenant: TenantID("fixture"), RootName: "root.example", Now: Epoch, Tree: merkle.NewTree(),
		PackKey: PrivateKey("pack"), Officer: "directory", Until: Epoch.AddDate(2, 0, 0)}
	_, w.VKey = RootKey(tb, w.RootName)
	w.Keys = append(w.Keys,
		keydir.NewKey(Public(PrivateKey(w.Officer)), keydir.PurposeDirectory, Epoch),
		keydir.NewKey(Public(w.PackKey), keydir.PurposePack, Epoch),
		keydir.NewKey(Public(PrivateKey("sandbox")), keydir.PurposeSandbox, Epoch))
	for _, name := range []string{"nod_a", "nod_b"} {
		key := PrivateKey(name)
		w.Keys = append(w.Keys, keydir.NewKey(Public(key), keydir.PurposeReceipt, Epoch))
		w.Nodes = append(w.Nodes, &sealer.Signer{KeyID: keydir.KeyID(Public(key)), Node: name, Key: key})
	}
	return w
}

// Key returns the directory's entry of a key, to be changed.
func (w *World) Key(id string) *keydir.Key {
	for i := range w.Keys {
		if w.Keys[i].KeyID == id {
			return &w.Keys[i]
		}
	}
	require.Fail(w.TB, "no such key")
	return nil
}

// Directory is the signed key directory.
func (w *World) Directory() []byte {
	w.TB.Helper()
	root, _ := RootKey(w.TB, w.RootName)
	key := PrivateKey(w.Officer)
	delegation, err := keydir.Delegate(root, Public(key), w.Key(keydir.KeyID(Public(key))).NotBefore, w.Until)
	require.NoError(w.TB, err)
	text, err := keydir.Sign(&keydir.Directory{
		Keys: w.Keys, IssuedAt: w.Now, SnapshotID: keydir.KeyID(Public(key)), Delegation: delegation,
	}, key)
	require.NoError(w.TB, err)
	return text
}

// ID makes an id of the moment now.
func (w *World) ID(prefix string) string {
	w.events++
	var u ulid.ULID
	require.NoError(w.TB, u.SetTime(uint64(w.Now.UnixMilli())))
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", w.Tenant, w.events))
	require.NoError(w.TB, u.SetEntropy(sum[:10]))
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

// Draft is a delivery before it is sealed: the n-th of the world.
func (w *World) Draft(n int) (*sealer.Signer, *sealer.Delivery, *sealer.Receipt) {
	w.TB.Helper()
	w.Now = w.Now.Add(time.Second)
	telemetry := `{"viewable":true}`
	if n%5 == 3 {
		telemetry = `{"visibilityState":"hidden","appState":"background"}`
	}
	if n%5 == 4 {
		telemetry = `{"viewable":true,"completionState":"complete"}`
	}
	dwell := float64(1500*(n%7)) + 0.25*float64(n%4)
	nonce := sha256.Sum256(fmt.Appendf(nil, "nonce %d", w.events))
	substrate := []gate.Substrate{gate.DOOH, gate.CTV, gate.Mobile}[n%3]
	d := &sealer.Delivery{
		TenantID:      w.Tenant,
		Actor:         sealer.Ref{Kind: "key", ID: "key_fixture"},
		RightID:       fmt.Sprintf("rgh_%d", n%4),
		RightRevision: int64(10 + n%2),
		BasisID:       fmt.Sprintf("bas_%d", n%2),
		Substrate:     substrate,
		Metering:      metering(w.TB, substrate, telemetry, dwell),
	}
	r := &sealer.Receipt{
		ReceiptID:       w.ID("rcp_"),
		SpatialAnchorID: fmt.Sprintf("anchor/%d", n),
		IssuedAt:        w.Now,
		RenderedAt:      w.Now.Add(-time.Duration(n%3) * time.Millisecond),
		DwellMs:         dwell,
		Nonce:           base64.RawURLEncoding.EncodeToString(nonce[:16]),
	}
	if n%2 == 0 {
		placement, correlation := "slot \"é\"", fmt.Sprintf("trace\t%d", n)
		r.SpatialPlacementID, r.CorrelationID = &placement, &correlation
	}
	return w.Nodes[n%len(w.Nodes)], d, r
}

// Delivery seals the n-th delivery, with an idempotency key unless it is empty.
func (w *World) Delivery(n int, key string) []byte {
	w.TB.Helper()
	s, d, r := w.Draft(n)
	if key != "" {
		sum := sha256.Sum256([]byte(w.Tenant + "\x00" + key))
		d.Idempotency = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(w.TB, err)
	return event
}

// Note returns an event that is no delivery.
func (w *World) Note(kind string) []byte {
	w.TB.Helper()
	w.Now = w.Now.Add(time.Second)
	event, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: w.ID("evt_"), TenantID: w.Tenant, Type: kind, At: w.Now,
		Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: sealer.Ref{Kind: "right", ID: "rgh_0"}, Data: []byte(`{"reason":"end of campaign","revision":12}`),
	})
	require.NoError(w.TB, err)
	return event
}

// Run makes n deliveries, the second half of a pair repeating the idempotency key
// of the first now and then.
func (w *World) Run(n int) [][]byte {
	events, before := make([][]byte, n), w.events
	for i := range events {
		events[i] = w.Delivery(i, fmt.Sprintf("order %d", before+i-i%9/8))
	}
	return events
}

// PackID names the n-th pack of the log, from 1 on.
func (w *World) PackID(n int) string {
	return Named("ppk_", fmt.Sprintf("%s %d", w.Tenant, n))
}

// Seal builds the next pack of the log.
func (w *World) Seal(events [][]byte, change ...func(*pack.Config)) *pack.Pack {
	w.TB.Helper()
	p, err := w.TrySeal(events, change...)
	require.NoError(w.TB, err)
	w.Packs++
	ref := p.Header.Ref()
	w.Tree, w.Previous, w.Rules = p.Tree, &ref, p.Header.Rules()
	return p
}

// TrySeal is Seal, which may be refused.
func (w *World) TrySeal(events [][]byte, change ...func(*pack.Config)) (*pack.Pack, error) {
	w.TB.Helper()
	return w.Builder(events, change...).Seal()
}

// Builder is that of the next pack, with the events.
func (w *World) Builder(events [][]byte, change ...func(*pack.Config)) *pack.Builder {
	w.TB.Helper()
	w.Now = w.Now.Add(time.Second)
	cfg := pack.Config{
		PackID: w.PackID(w.Packs + 1), TenantID: w.Tenant, Before: w.Tree, Previous: w.Previous,
		SealedAt: w.Now, Directory: w.Directory(), Key: w.PackKey, Rules: w.Rules, Rate: rate.Rating.Rate,
		Rights: func(_ *settlement.ScopeNames, ids []string) ([]settlement.Right, error) {
			return slices.DeleteFunc(slices.Clone(w.Scopes), func(r settlement.Right) bool { return !slices.Contains(ids, r.RightID) }), nil
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	b, err := pack.NewBuilder(cfg)
	require.NoError(w.TB, err)
	for _, e := range events {
		b.Add(e)
	}
	return b
}

// Bundle is the pack as NDJSON.
func Bundle(tb testing.TB, p *pack.Pack, events [][]byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := pack.NewBundleWriter(&out, p)
	for _, e := range events {
		require.NoError(tb, w.Add(e))
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}

// Identity is that of the row of a name, played on a day unless that is empty.
func (w *World) Identity(name, day string) sealer.RowIdentity {
	sum := sha256.Sum256([]byte(w.Tenant + "\x01" + name))
	return sealer.RowIdentity{Hash: base64.RawURLEncoding.EncodeToString(sum[:]), Day: day}
}

// Rewitness replaces the witness in an event's text by the right one.
func Rewitness(t testing.TB, event string) string {
	t.Helper()
	parts, err := sealer.SplitDelivery([]byte(event))
	require.NoError(t, err)
	bare := strings.Replace(event, `,"receipt":`+string(parts.Receipt), "", 1)
	bare = strings.Replace(bare, `,"signature":`+string(parts.Signature), "", 1)
	sum := sha256.Sum256([]byte(bare))
	at := strings.Index(event, `"witness":"`)
	end := at + strings.Index(event[at:], `"}`)
	return event[:end-43] + base64.RawURLEncoding.EncodeToString(sum[:]) + event[end:]
}

// Rounds is the number of rounds of a test: the second, with MUNIMENT_TEST_FULL.
func Rounds(usual, full int) int {
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		return full
	}
	return usual
}
