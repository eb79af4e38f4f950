//go:build independent

package independent_test

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

// log is the log of one tenant, growing pack by pack.
type log struct {
	*service
	tenant   string
	signers  []*sealer.Signer // of receipts
	sealing  ed25519.PrivateKey
	now      time.Time
	tree     *merkle.Tree
	previous *pack.Ref
	rules    []settlement.Rule
	priced   bool // it gets settlement rules
	packs    []*sealedPack
	repeats  []sighting

	// What proofs are made of: all events, and the hashes of the log's nodes.
	events [][]byte
	grown  *merkle.Tree
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
		tree: merkle.NewTree(), grown: merkle.NewTree(), priced: s.IntN(2) == 0,
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
	data, err := canonical.JSON(l.object(3))
	require.NoError(l, err)
	return l.event("right.revised", data)
}

// event is the event of a type, with its data.
func (l *log) event(kind string, data []byte) []byte {
	return l.eventOf(sealer.Ref{Kind: "right", ID: l.text()}, kind, data)
}

func (l *log) eventOf(subject sealer.Ref, kind string, data []byte) []byte {
	at := l.moment()
	e := sealer.Event{
		EventID: l.id("evt_", at), TenantID: l.tenant, Type: kind, At: at,
		Actor: sealer.Ref{Kind: "key", ID: l.text()}, Subject: subject, Data: data,
	}
	if l.IntN(2) == 0 {
		e.PrivateCommitment = sealer.Commit([16]byte(l.bytes(16)), data)
	}
	text, err := sealer.AppendEvent(nil, &e)
	require.NoError(l, err)
	return text
}

// rule is the event of a settlement rule: a new one, or a new revision of one.
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
	until, state := any(nil), []string{"ACTIVE", "RETIRED"}[l.IntN(2)]
	switch l.IntN(6) {
	case 0, 1:
		until = canonical.FormatTime(from.Add(time.Duration(1+l.IntN(60_000)) * time.Millisecond))
	case 2: // it was retired before it began
		until, state = canonical.FormatTime(from), "RETIRED"
	}
	price := []string{"0", "0.000000001", "0.0000015", "0.5", "12.345678901", "9223372036.854775807"}[l.IntN(6)]
	if l.IntN(2) == 0 {
		price = rate.Price(l.Int64N(1 << []int{1 + l.IntN(62), 62}[l.IntN(2)])).String() // with some of them amounts are too large
	}
	tiers, mode := []any{}, any(nil)
	for above := range int64(l.IntN(3)) {
		tiers, mode = append(tiers, object{"above": above*7 + 1, "price": "0.1"}), []string{"GRADUATED", "VOLUME"}[l.IntN(2)]
	}
	id, kind := fmt.Sprint("rule_", l.text(), l.Uint64()), "settlement_rule.created"
	if len(l.rules) > 0 && l.IntN(3) == 0 {
		said := l.parse(l.rules[l.IntN(len(l.rules))].Record)
		id, kind = said["id"].(string), []string{"settlement_rule.updated", "settlement_rule.retired"}[l.IntN(2)]
	}
	return l.event(kind, l.canonical(object{
		"id": id, "currency": "EUR", "price": price, "unit": []string{"EVENT", "MS", "SECOND", "IMPRESSION", "CPM"}[l.IntN(5)], "shares": shares,
		"minimum": maybe("0", "1.000001", "9223372036854.775807"), "cap": maybe("9223372036854.775807"),
		"match": object{
			"rightId": maybe("rgh_0", "rgh_1"), "basisId": maybe("bas_é", "bas_😀"), "substrate": maybe("DOOH", "CTV"), "meteringBasis": maybe("gross", "viewable"),
			"completion": maybe("none", "complete"), "campaign": maybe("spring", "été"), "label": l.label(),
		},
		"effectiveFrom": canonical.FormatTime(from), "effectiveUntil": until, "tiers": tiers, "tiersMode": mode, "timeZone": []string{"UTC", "Europe/Berlin", "Mars/Olympus"}[l.IntN(3)], "priority": l.IntN(3), "state": state,
		"createdAt": canonical.FormatTime(l.now), "updatedAt": canonical.FormatTime(l.now), "revision": l.IntN(1 << 53),
	}))
}

// label is what a rule names of labels, if anything.
func (l *log) label() any {
	if l.IntN(3) > 0 {
		return nil
	}
	return object{"name": []string{"venue", "😀"}[l.IntN(2)], "value": []string{"", "north"}[l.IntN(2)]}
}

// scopes are those of rights; the others have none.
var scopes = map[string]string{
	"rgh_0": `{"campaigns":["spring"],"labels":{"venue":"north","😀":""}}`,
	"rgh_1": `{"campaigns":["\u00e9t\u00e9","spring","x"],"description":"all"}`,
}

// issued is the event of a right.
func (l *log) issued() []byte {
	right := fmt.Sprintf("rgh_%d", l.IntN(4))
	scope := cmp.Or(scopes[right], []string{`{}`, `{"campaigns":[]}`, `{"labels":{"team":"north"}}`, `null`, `{"campaigns":["spring",5]}`, `{"campaigns":{},"labels":{"venue":"north"}}`}[l.IntN(6)])
	return l.eventOf(sealer.Ref{Kind: "right", ID: right}, sealer.TypeRightIssued, l.canonical(object{"revision": 0, "scope": l.parse([]byte(scope))}))
}

// rights are the scopes that packs know.
func rights(_ *settlement.ScopeNames, ids []string) (list []settlement.Right, err error) {
	for _, id := range ids {
		if text := scopes[id]; text != "" {
			r, err := settlement.ScopeOf(id, []byte(text))
			if err != nil {
				return nil, err
			}
			list = append(list, r)
		}
	}
	return list, nil
}

// draft is a delivery before it is signed, without an idempotency key.
func (l *log) draft() (*sealer.Delivery, *sealer.Receipt) {
	at := l.moment()
	substrate := []gate.Substrate{gate.DOOH, gate.CTV, gate.Mobile}[l.IntN(3)]
	dwell := []float64{0, 1, 1500, 0.1 + float64(l.IntN(100)), 1e-7, l.Float64() * 1e5, sealer.MaxDwellMs}[l.IntN(7)]
	telemetry := []string{`{"viewable":true}`, `{"viewable":false}`, `{"visibilityState":"hidden","appState":"background"}`, `{"completionState":"complete"}`}[l.IntN(4)]
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
