package prooftest

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Delivery is what a test wants of one delivery; zero values have defaults.
type Delivery struct {
	Tenant    string
	Right     string
	Substrate gate.Substrate
	Telemetry string
	DwellMs   float64
	Key       string         // idempotency key
	Row, Day  string         // what names a row, and its day
	Subject   string         // data subject, of the private part
	Anchor    string         // in space
	Trace     string         // correlation id
	Rendered  time.Duration  // before it was issued
	Signer    *sealer.Signer // another than the node's

	Multiplier int64
}

// Event returns the record of a delivery, as a gateway makes it.
func (s *Stage) Event(d Delivery) *sealer.Record {
	t := s.T
	if d.Tenant == "" {
		d.Tenant = s.Tenant
	}
	if d.Right == "" {
		d.Right = "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	}
	if d.Telemetry == "" {
		d.Telemetry = "{}"
	}
	if d.Signer == nil {
		d.Signer = s.Keys.Receipt
	}
	right, err := gate.ParseRight(d.Substrate, nil)
	require.NoError(t, err)
	var seen gate.Telemetry
	faults, err := seen.Decode(jsontext.NewDecoder(strings.NewReader(d.Telemetry)), nil)
	require.NoError(t, err)
	require.Empty(t, faults)
	verdict := gate.Evaluate(&right, &seen, d.DwellMs)
	require.False(t, verdict.Refused(), "%+v", d)

	now := s.Now()
	receipt := sealer.Receipt{
		ReceiptID: api.NewID(api.PrefixReceipt, now), SpatialAnchorID: cmp.Or(d.Anchor, "anchor"),
		IssuedAt: now, RenderedAt: now.Add(-d.Rendered), DwellMs: d.DwellMs, Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16)),
	}
	if d.Trace != "" {
		receipt.CorrelationID = &d.Trace
	}
	what := sealer.Delivery{
		TenantID: d.Tenant, Actor: sealer.Ref{Kind: "key", ID: "key_test"}, RightID: d.Right, RightRevision: 1,
		BasisID: "bas_01ARZ3NDEKTSV4RRFFQ69G5FAV", Substrate: right.Substrate, Metering: verdict.Meter(&seen, d.DwellMs),
	}
	if d.Key != "" {
		sum := sha256.Sum256([]byte(d.Tenant + "\x00" + d.Key))
		what.Idempotency = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if d.Row != "" {
		sum := sha256.Sum256([]byte(d.Tenant + "\x01" + d.Row))
		what.Identity = sealer.RowIdentity{Hash: base64.RawURLEncoding.EncodeToString(sum[:]), Day: d.Day}
	}
	what.Multiplier = d.Multiplier
	var private []byte
	if d.Subject != "" {
		secret := sealer.Private{Salt: [16]byte{1}, DataSubjects: sealer.About(d.Subject), AttentionMs: -1}
		private = sealer.AppendPrivate(nil, &secret)
		what.PrivateCommitment = secret.Commitment()
	}
	text, err := d.Signer.SealDelivery(nil, &what, &receipt)
	require.NoError(t, err)
	return &sealer.Record{
		TenantID: d.Tenant, EventID: "evt_" + receipt.ReceiptID[4:], Node: "nod_test", Epoch: 1, Seq: 1, Event: text, Private: private,
	}
}

// Deliver makes deliveries durable.
func (s *Stage) Deliver(all ...Delivery) {
	for _, d := range all {
		s.Append(s.Event(d))
	}
}

// Append makes a record durable.
func (s *Stage) Append(r *sealer.Record) {
	_, err := s.Log.Append(s.T.Context(), r)
	require.NoError(s.T, err)
}

// Deliveries are n plain ones.
func Deliveries(n int) []Delivery {
	all := make([]Delivery, n)
	for i := range all {
		all[i] = Delivery{Substrate: gate.DOOH, DwellMs: float64(1000 + i)}
	}
	return all
}

// Audit makes an event of control durable.
func (s *Stage) Audit(kind string) {
	err := s.DB.Change(s.T.Context(), func(tx *store.Tx) error {
		return tx.Emit(s.T.Context(), &store.Kind{Type: kind}, sealer.Event{
			TenantID: s.Tenant, Actor: Operator, Subject: sealer.Ref{Kind: "tenant", ID: s.Tenant}, Data: []byte(`{}`),
		})
	})
	require.NoError(s.T, err)
}
