//go:build independent

package independent_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment/control/settle"
	"muniment/control/settle/rate"
	"muniment/gate"
	"muniment/sealer"
)

// epoch is when the keys of a service begin to be valid.
var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// service is one that seals evidence: its keys, and the chance that decides what
// is in the evidence. The same seed makes the same bytes.
type service struct {
	testing.TB
	*rand.Rand
	chance *rand.ChaCha8

	root     note.Signer
	vkey     string
	officer  ed25519.PrivateKey // signs directories
	since    time.Time          // when the delegation to it begins
	until    time.Time          // and ends
	sealing  ed25519.PrivateKey
	sandbox  ed25519.PrivateKey
	nodes    []*sealer.Signer
	keys     []sealer.Key
	turns    map[string]int
	answered [][]byte // deliveries as their callers hold them
}

func newService(tb testing.TB, seed string) *service {
	chance := rand.NewChaCha8(sha256.Sum256([]byte(seed)))
	s := &service{TB: tb, Rand: rand.New(chance), chance: chance, turns: make(map[string]int)}
	s.root, s.vkey = s.rootKey("root.independent")
	s.officer, s.since, s.until = s.key(sealer.PurposeDirectory), epoch, epoch.AddDate(2, 0, 0)
	s.sealing = s.key(sealer.PurposePack)
	s.sandbox = s.key(sealer.PurposeSandbox)
	for i := range 3 {
		key := s.key(sealer.PurposeReceipt)
		s.nodes = append(s.nodes, &sealer.Signer{KeyID: keyID(key), Node: fmt.Sprintf("nod:%d", i), Key: key})
	}
	return s
}

func keyID(key ed25519.PrivateKey) string { return sealer.KeyID(key.Public().(ed25519.PublicKey)) }

// key makes a key and lists it.
func (s *service) key(purpose string) ed25519.PrivateKey {
	key := s.newKey()
	s.keys = append(s.keys, sealer.NewKey(key.Public().(ed25519.PublicKey), purpose, epoch))
	return key
}

func (s *service) newKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(s.bytes(ed25519.SeedSize))
}

func (s *service) bytes(n int) []byte {
	b := make([]byte, n)
	_, err := s.chance.Read(b)
	require.NoError(s, err)
	return b
}

func (s *service) rootKey(name string) (note.Signer, string) {
	key := s.newKey()
	vkey, err := note.NewEd25519VerifierKey(name, key.Public().(ed25519.PublicKey))
	require.NoError(s, err)
	verifier, err := note.NewVerifier(vkey)
	require.NoError(s, err)
	signer, err := note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, verifier.KeyHash(),
		base64.StdEncoding.EncodeToString(append([]byte{1}, key.Seed()...))))
	require.NoError(s, err)
	return signer, vkey
}

// entry is a key's entry in the directory, to be changed.
func (s *service) entry(key ed25519.PrivateKey) *sealer.Key {
	for i := range s.keys {
		if s.keys[i].KeyID == keyID(key) {
			return &s.keys[i]
		}
	}
	require.Fail(s, "no such key")
	return nil
}

// revoke has all later directories say that a key is revoked.
func (s *service) revoke(key ed25519.PrivateKey, at time.Time) { s.entry(key).RevokedAt = &at }

// directory is the signed key directory as of a moment.
func (s *service) directory(at time.Time) []byte {
	delegation, err := sealer.Delegate(s.root, s.officer.Public().(ed25519.PublicKey), s.since, s.until)
	require.NoError(s, err)
	text, err := sealer.SignDirectory(&sealer.Directory{
		Keys: s.keys, IssuedAt: at, SnapshotID: s.text(), Delegation: delegation,
	}, s.officer)
	require.NoError(s, err)
	return text
}

// succeed has the root delegate to another directory key from a moment on. What it
// returns is the service in the hands of a thief of the key before: it knows of the
// successor, and revokes it.
func (s *service) succeed(at time.Time) (thief *service) {
	stolen := *s
	s.officer, s.since, s.until = s.key(sealer.PurposeDirectory), at, at.AddDate(2, 0, 0)
	s.entry(s.officer).NotBefore = at
	stolen.keys = slices.Clone(s.keys)
	stolen.revoke(s.officer, at)
	return &stolen
}

// id makes an id of a moment.
func (s *service) id(prefix string, at time.Time) string {
	id, err := ulid.New(uint64(at.UnixMilli()), s.chance)
	require.NoError(s, err)
	return prefix + id.String()
}

// text makes a string of characters that JSON writers like to disagree about.
func (s *service) text() string {
	alphabet := []rune("ab/<&\"\\\b\t\n\f\r\x00\x1f\x7fé\u2028\ue000\ufb33\ufffd😀")
	runes := make([]rune, 1+s.IntN(8))
	for i := range runes {
		runes[i] = alphabet[s.IntN(len(alphabet))]
	}
	return string(runes)
}

// value makes a JSON value, of any shape up to a depth.
func (s *service) value(depth int) any {
	switch s.IntN(8) {
	case 0:
		return nil
	case 1:
		return s.IntN(2) == 0
	case 2:
		return s.text()
	case 3: // any double there is
		if f := math.Float64frombits(s.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
		return 0
	case 4: // those around the places where the spelling of numbers changes
		return float64(s.IntN(2000)-1000) * math.Pow10(s.IntN(60)-30)
	case 5:
		return s.IntN(1 << 53)
	}
	if depth == 0 {
		return ""
	}
	if s.IntN(2) == 0 {
		list := make([]any, s.IntN(4))
		for i := range list {
			list[i] = s.value(depth - 1)
		}
		return list
	}
	return s.object(depth - 1)
}

func (s *service) object(depth int) map[string]any {
	members := make(map[string]any)
	for range s.IntN(6) {
		members[s.text()] = s.value(depth)
	}
	return members
}

// log is the log of one tenant, growing pack by pack.
type log struct {
	*service
	tenant   string
	signers  []*sealer.Signer // of receipts
	sealing  ed25519.PrivateKey
	now      time.Time
	tree     *sealer.Tree
	previous *sealer.PackRef
	rules    []sealer.SettlementRule
	priced   bool // it gets settlement rules
	packs    []*pack
	repeats  []sighting

	// What proofs are made of: all events, and the hashes of the log's nodes.
	events [][]byte
	grown  *sealer.Tree
	row    []byte
}

// sighting is a delivery with a key.
type sighting struct {
	leaf uint64
	key  key
	at   time.Time
}

// key is what a delivery has in common with its duplicates: one of both, or none.
type key struct {
	idempotency string
	row         sealer.RowIdentity
}

// repeats says whether a delivery with the key repeats an earlier one, that is older by so much.
func (k key) repeats(earlier key, older time.Duration) bool {
	return k != key{} && k == earlier && (k.idempotency == "" || older <= sealer.DuplicateWindow)
}

func (s *service) newLog() *log {
	l := &log{
		service: s, tenant: s.id("tnt_", epoch), signers: s.nodes, sealing: s.sealing,
		now:  epoch.Add(time.Hour + time.Duration(s.IntN(1e6))*time.Millisecond),
		tree: sealer.NewTree(), grown: sealer.NewTree(), priced: s.IntN(2) == 0,
	}
	if s.IntN(8) == 0 {
		l.sealing = s.sandbox
		l.signers = []*sealer.Signer{{KeyID: keyID(s.sandbox), Node: "sandbox", Key: s.sandbox}}
	}
	return l
}

// moment passes some time and returns about now: nodes have clocks of their own.
func (l *log) moment() time.Time {
	switch l.IntN(40) {
	case 0:
		l.now = l.now.Add(sealer.DuplicateWindow)
	default:
		l.now = l.now.Add(time.Duration(l.IntN(5000)) * time.Millisecond)
	}
	return l.now.Add(time.Duration(l.IntN(3)-1) * time.Millisecond)
}

// notice is an event that is no delivery.
func (l *log) notice() []byte {
	data, err := sealer.Canonical(l.object(3))
	require.NoError(l, err)
	return l.told("right.revised", data)
}

// told is the event of a type, with its data.
func (l *log) told(kind string, data []byte) []byte {
	at := l.moment()
	e := sealer.Event{
		EventID: l.id("evt_", at), TenantID: l.tenant, Type: kind, At: at,
		Actor: sealer.Ref{Kind: "key", ID: l.text()}, Subject: sealer.Ref{Kind: "right", ID: l.text()}, Data: data,
	}
	if l.IntN(2) == 0 {
		e.PrivateCommitment = sealer.Commit([16]byte(l.bytes(16)), data)
	}
	text, err := sealer.AppendEvent(nil, &e)
	require.NoError(l, err)
	return text
}

// rule is the event of a settlement rule: a new one, or one of which more is told.
func (l *log) rule() []byte {
	maybe := func(names ...string) any {
		if i := l.IntN(2 * len(names)); i < len(names) {
			return names[i]
		}
		return nil
	}
	shares, left := []object{}, 10_000
	for n := l.IntN(10); n > 0 && left > 1; n-- {
		bps := 1 + l.IntN(left-1)
		shares = append(shares, object{"counterpartyId": fmt.Sprint("cp_", l.text(), n), "bps": bps})
		left -= bps
	}
	shares = append(shares, object{"counterpartyId": "cp_last", "bps": left})
	from := l.now.Add(time.Duration(l.IntN(20_000)-15_000) * time.Millisecond)
	until := any(nil)
	if l.IntN(3) == 0 {
		until = sealer.FormatTime(from.Add(time.Duration(1+l.IntN(60_000)) * time.Millisecond))
	}
	price := []string{"0", "0.000000001", "0.0000015", "0.5", "12.345678901", "9223372036.854775807"}[l.IntN(6)]
	if l.IntN(2) == 0 {
		price = rate.Price(l.Int64N(1 << []int{1 + l.IntN(62), 62}[l.IntN(2)])).String() // of some no amount can be told
	}
	id, kind := fmt.Sprint("rule_", l.text(), l.Uint64()), "settlement_rule.created"
	if len(l.rules) > 0 && l.IntN(3) == 0 {
		said := l.parse(l.rules[l.IntN(len(l.rules))].Record)
		id, kind = said["id"].(string), []string{"settlement_rule.updated", "settlement_rule.retired"}[l.IntN(2)]
	}
	return l.told(kind, l.canonical(object{
		"id": id, "currency": "EUR", "price": price, "unit": []string{"EVENT", "MS", "SECOND"}[l.IntN(3)], "shares": shares,
		"match": object{
			"rightId": maybe("rgh_0", "rgh_1"), "basisId": maybe("bas_é", "bas_😀"), "substrate": maybe("DOOH", "CTV"), "meteringBasis": maybe("gross", "viewable"),
		},
		"effectiveFrom": sealer.FormatTime(from), "effectiveUntil": until, "priority": l.IntN(3), "state": []string{"ACTIVE", "RETIRED"}[l.IntN(2)],
		"createdAt": sealer.FormatTime(l.now), "updatedAt": sealer.FormatTime(l.now), "revision": l.IntN(1 << 53),
	}))
}

// draft is a delivery before it is signed, without an idempotency key.
func (l *log) draft() (*sealer.Delivery, *sealer.Receipt) {
	at := l.moment()
	substrate := []gate.Substrate{gate.DOOH, gate.CTV, gate.Mobile}[l.IntN(3)]
	dwell := []float64{0, 1, 1500, 0.1 + float64(l.IntN(100)), 1e-7, l.Float64() * 1e5, sealer.MaxDwellMs}[l.IntN(7)]
	telemetry := []string{`{"viewable":true}`, `{"viewable":false}`, `{"visibilityState":"hidden","appState":"background"}`}[l.IntN(3)]
	var observed gate.Telemetry
	faults, err := observed.Decode(jsontext.NewDecoder(bytes.NewReader([]byte(telemetry))), nil)
	require.NoError(l, err)
	require.Empty(l, faults)
	d := &sealer.Delivery{
		TenantID: l.tenant, Actor: sealer.Ref{Kind: "key", ID: "key_1"}, RightID: fmt.Sprintf("rgh_%d", l.IntN(4)),
		RightRevision: int64(l.IntN(1 << 20)), BasisID: []string{"bas_1", "bas_é", "bas_😀", "bas_\ufb33"}[l.IntN(4)],
		Substrate: substrate,
		Metering:  gate.Evaluate(&gate.Right{Substrate: substrate}, &observed, dwell).Meter(&observed, dwell),
		// Multiplier is none, one impression, the least, the most, or any.
		Multiplier: []int64{0, 0, sealer.Impression, 1, sealer.MaxMultiplier, 1 + l.Int64N(sealer.MaxMultiplier)}[l.IntN(6)],
	}
	r := &sealer.Receipt{
		ReceiptID: l.id("rcp_", at), SpatialAnchorID: l.text(), DwellMs: dwell,
		IssuedAt: at, RenderedAt: at.Add(-time.Duration(l.IntN(3)) * time.Millisecond),
		Nonce: base64.RawURLEncoding.EncodeToString(l.bytes(16)),
	}
	if l.IntN(2) == 0 {
		placement, correlation := l.text(), ""
		r.SpatialPlacementID, r.CorrelationID = &placement, &correlation
	}
	return d, r
}

// sign has one of the nodes sign.
func (l *log) sign(d *sealer.Delivery, r *sealer.Receipt) []byte {
	event, err := l.signers[l.IntN(len(l.signers))].SealDelivery(nil, d, r)
	require.NoError(l, err)
	return event
}

// hash stands for an idempotency key, or for what names a row.
func (l *log) hash() string { return base64.RawURLEncoding.EncodeToString(l.bytes(sha256.Size)) }

// key draws one, of either kind.
func (l *log) key() key {
	return []key{{idempotency: l.hash()}, {row: sealer.RowIdentity{Hash: l.hash()}}, {row: sealer.RowIdentity{Hash: l.hash(), Day: "2026-02-28"}}}[l.IntN(3)]
}

// like draws a key that is the same, or differs in its kind or its day.
func (l *log) like(k key) key {
	hash := k.idempotency + k.row.Hash
	return []key{k, k, k, {idempotency: hash}, {row: sealer.RowIdentity{Hash: hash}}, {row: sealer.RowIdentity{Hash: hash, Day: "2026-03-01"}}}[l.IntN(6)]
}

// delivery makes the delivery that will stand at leaf. first is the leaf that it
// repeats, if it does.
func (l *log) delivery(leaf uint64) (event []byte, id string, first *uint64) {
	d, r := l.draft()
	var k key
	switch {
	case l.IntN(4) == 0 && len(l.repeats) > 0:
		k = l.like(l.repeats[l.IntN(len(l.repeats))].key)
	case l.IntN(4) > 0:
		k = l.key()
	}
	d.Idempotency, d.Identity = k.idempotency, k.row
	for _, s := range l.repeats {
		if k.repeats(s.key, r.IssuedAt.Sub(s.at)) {
			first = &s.leaf
			break
		}
	}
	if k != (key{}) {
		l.repeats = append(l.repeats, sighting{leaf, k, r.IssuedAt})
	}
	return l.sign(d, r), "evt_" + r.ReceiptID[len("rcp_"):], first
}

// pack is a sealed pack with all that it was made from.
type pack struct {
	*log
	*sealer.SealedPack
	sealing ed25519.PrivateKey
	before  *sealer.Tree
	events  [][]byte
	file    []byte // of either form
	refused bool   // by the builder
}

// seal makes n entries and seals them.
func (l *log) seal(n int) *pack { return l.sealed(l.entries(n)) }

// entries makes the next n, and names those that repeat leaves of packs before.
func (l *log) entries(n int) (events [][]byte, earlier map[string]uint64) {
	earlier = make(map[string]uint64)
	for leaf := l.tree.Size(); len(events) < n; leaf++ {
		switch l.IntN(24) {
		case 0, 1, 2, 3:
			events = append(events, l.notice())
			continue
		case 4:
			if l.priced {
				events = append(events, l.rule())
				continue
			}
		}
		event, id, first := l.delivery(leaf)
		if first != nil && *first < l.tree.Size() {
			earlier[id] = *first
		}
		events = append(events, event)
		if l.IntN(20) == 0 {
			l.answered = append(l.answered, event)
		}
	}
	return events, earlier
}

// sealed is the next pack, of these events. earlier names, by event id, the leaves
// of packs before that they repeat. What no service would sign is signed behind its back.
func (l *log) sealed(events [][]byte, earlier map[string]uint64) *pack {
	p := &pack{log: l, sealing: l.sealing, before: l.tree, events: events}
	l.now = l.now.Add(time.Second)
	cfg := sealer.PackConfig{
		PackID: l.id("ppk_", l.now), TenantID: l.tenant, Before: l.tree, Previous: l.previous,
		SealedAt: l.now, Directory: l.directory(l.now), Key: l.sealing, Earlier: earlier,
		Rules: l.rules, Rate: settle.Rate,
	}
	var err error
	if p.SealedPack, err = build(l, cfg, events); err != nil {
		require.ErrorContains(l, err, "what is known of earlier packs contradicts itself")
		p.refused = true
		cfg.Earlier = nil
		p.SealedPack, err = build(l, cfg, events)
		require.NoError(l, err)
		p.repeat(earlier)
	}
	ref := p.Header.Ref()
	l.tree, l.previous, l.rules = p.Tree, &ref, p.Header.Rules()
	l.packs = append(slices.Clip(l.packs), p)
	l.events = append(slices.Clip(l.events), events...)
	l.grown, l.row = l.grown.Clone(), slices.Clip(l.row)
	for _, e := range events {
		l.row = l.grown.AppendNodes(l.row, sealer.LeafHash(e))
	}

	if l.IntN(4) == 0 {
		p.file = sealer.AppendPackObject(nil, p.SealedPack, p.events)
		return p
	}
	var bundle bytes.Buffer
	w := sealer.NewBundleWriter(&bundle, p.SealedPack)
	for _, e := range p.events {
		require.NoError(l, w.Add(e))
	}
	require.NoError(l, w.Close())
	p.file = bundle.Bytes()
	return p
}

func build(t require.TestingT, cfg sealer.PackConfig, events [][]byte) (*sealer.SealedPack, error) {
	b, err := sealer.NewPackBuilder(cfg)
	require.NoError(t, err)
	for _, e := range events {
		b.Add(e)
	}
	return b.Seal()
}

// repeat has the pack list what earlier names, rows included, and signs that. What was
// rated stays as it was.
func (p *pack) repeat(earlier map[string]uint64) {
	firsts := map[uint64]uint64{}
	for _, d := range p.Header.Duplicates {
		firsts[d.Leaf] = d.First
	}
	var m sealer.Meter
	list, rows := []sealer.Duplicate{}, []object{}
	for leaf, event := p.Header.FirstIndex, 0; event < len(p.events); leaf, event = leaf+1, event+1 {
		d, err := sealer.ReadDelivery(p.events[event])
		if err != nil {
			continue // another event
		}
		first, repeats := firsts[leaf]
		if named, ok := earlier[d.Event.EventID]; ok && (d.Idempotency != "" || d.Identity.Hash != "") {
			first, repeats = named, true
		}
		m.Add(&d, repeats)
		if repeats {
			list = append(list, sealer.Duplicate{Leaf: leaf, First: first})
		}
	}
	p.Header.Duplicates, p.Header.Metering = list, m.Rows()
	for _, r := range p.Header.Metering {
		rows = append(rows, object{"rightId": r.RightID, "substrate": r.Substrate, "basisId": r.BasisID,
			"meteringBasis": r.MeteringBasis, "reason": r.Reason, "receipts": r.Receipts, "quantityMs": r.QuantityMs,
			"impressions": sealer.FormatImpressions(r.Impressions)})
	}
	said, header := []object{}, p.parse(p.HeaderText)
	for _, d := range list {
		said = append(said, object{"leaf": d.Leaf, "first": d.First})
	}
	header["duplicates"], header["metering"] = said, rows
	p.HeaderText = p.canonical(header)
	p.Signature = ed25519.Sign(p.sealing, p.HeaderText)
}

// answer is what the caller of a delivery holds.
func (s *service) answer(event []byte) []byte {
	parts, err := sealer.SplitDelivery(event)
	require.NoError(s, err)
	return fmt.Appendf(nil, `{"ok":true,"data":{"receipt":%s,"substrate":%s,"signature":%s,"metering":%s},"contractVersion":"v1.0"}`,
		parts.Receipt, parts.Substrate, parts.Signature, parts.Metering)
}
