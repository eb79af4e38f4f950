package sealer_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/sealertest"
)

func TestSealDelivery(t *testing.T) {
	w := sealertest.NewWorld(t)
	for n := range 20 {
		s, d, r := w.Draft(n)
		switch n % 4 {
		case 1:
			d.Idempotency = w.Identity("order", "").Hash
		case 2:
			d.Identity, d.Multiplier = w.Identity("row", ""), 1
		case 3:
			d.Identity, d.Multiplier = w.Identity("play", "2026-10-24"), sealer.MaxMultiplier
		}
		prefix := []byte("kept")
		event, err := s.SealDelivery(prefix, d, r)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(event, prefix))
		event = event[len(prefix):]
		require.True(t, IsJSON(event))

		got, err := sealer.ReadDelivery(event)
		require.NoError(t, err)
		require.Equal(t, *r.Witness, *got.Receipt.Witness)
		require.Equal(t, string(sealer.AppendReceipt(nil, r)), string(got.ReceiptText))
		require.True(t, ed25519.Verify(sealertest.Public(s.Key.(ed25519.PrivateKey)), got.ReceiptText, got.Signature))
		require.Equal(t, s.KeyID, got.KeyID)
		require.Equal(t, s.Node, got.Node)
		require.Equal(t, d.TenantID, got.Event.TenantID)
		require.Equal(t, d.Actor, got.Event.Actor)
		require.Equal(t, sealer.Ref{Kind: "right", ID: d.RightID}, got.Event.Subject)
		require.Equal(t, strings.TrimPrefix(r.ReceiptID, "rcp_"), strings.TrimPrefix(got.Event.EventID, "evt_"))
		require.True(t, got.Event.At.Equal(r.IssuedAt))
		require.Equal(t, d.RightID, got.RightID)
		require.Equal(t, d.RightRevision, got.RightRevision)
		require.Equal(t, d.BasisID, got.BasisID)
		require.Equal(t, d.Substrate.String(), got.Substrate)
		require.Equal(t, d.Metering.Metered, got.Metered)
		require.Equal(t, d.Metering.Reason.String(), got.Reason)
		require.Equal(t, d.Metering.Basis.String(), got.Basis)
		require.Equal(t, d.Metering.QuantityMs, got.QuantityMs)
		require.ElementsMatch(t, d.Metering.Reasons.Strings(), got.Reasons)
		require.Equal(t, d.Idempotency, got.Idempotency)
		require.Equal(t, d.Identity, got.Identity)
		require.Equal(t, sealer.CountImpressions(got.Metered, d.Multiplier), got.Impressions)
		require.Equal(t, d.Metering.Completion.String(), got.Completion)

		// A generic reader sees the same event.
		e, err := sealer.ParseEvent(event)
		require.NoError(t, err)
		require.Equal(t, got.Event, e)
		again, err := sealer.AppendEvent(nil, &e)
		require.NoError(t, err)
		require.Equal(t, string(event), string(again))
	}
}

// TestWitnessIsWhatTheManualSays computes the witness as a stranger would.
func TestWitnessIsWhatTheManualSays(t *testing.T) {
	w := sealertest.NewWorld(t)
	event := w.Delivery(0, "order")
	parts, err := sealer.SplitDelivery(event)
	require.NoError(t, err)
	bare := strings.Replace(string(event), `,"receipt":`+string(parts.Receipt), "", 1)
	bare = strings.Replace(bare, `,"signature":`+string(parts.Signature), "", 1)
	require.True(t, IsJSON([]byte(bare)))
	sum := sha256.Sum256([]byte(bare))
	require.Contains(t, string(parts.Receipt), `"witness":"edge:nod_a:`+base64.RawURLEncoding.EncodeToString(sum[:])+`"}`)
}

func TestSealDeliveryRefuses(t *testing.T) {
	w := sealertest.NewWorld(t)
	row := w.Identity("row 1", "")
	for name, spoil := range map[string]func(*sealer.Delivery, *sealer.Receipt){
		"receipt id":         func(_ *sealer.Delivery, r *sealer.Receipt) { r.ReceiptID = "rcp_1" },
		"lower-case id":      func(_ *sealer.Delivery, r *sealer.Receipt) { r.ReceiptID = "rcp_" + strings.ToLower(r.ReceiptID[4:]) },
		"id of another time": func(_ *sealer.Delivery, r *sealer.Receipt) { r.IssuedAt = r.IssuedAt.Add(1e6) },
		"rendered later":     func(_ *sealer.Delivery, r *sealer.Receipt) { r.RenderedAt = r.IssuedAt.Add(1e6) },
		"negative dwell":     func(_ *sealer.Delivery, r *sealer.Receipt) { r.DwellMs = -1 },
		"endless dwell":      func(_ *sealer.Delivery, r *sealer.Receipt) { r.DwellMs = math.Inf(1) },
		"no dwell":           func(_ *sealer.Delivery, r *sealer.Receipt) { r.DwellMs = math.NaN() },
		"three years":        func(_ *sealer.Delivery, r *sealer.Receipt) { r.DwellMs = sealer.MaxDwellMs + 1 },
		"nonce":              func(_ *sealer.Delivery, r *sealer.Receipt) { r.Nonce = "AAAA" },
		"no anchor":          func(_ *sealer.Delivery, r *sealer.Receipt) { r.SpatialAnchorID = "" },
		"anchor of bytes":    func(_ *sealer.Delivery, r *sealer.Receipt) { r.SpatialAnchorID = "\xff" },
		"no tenant":          func(d *sealer.Delivery, _ *sealer.Receipt) { d.TenantID = "" },
		"no right":           func(d *sealer.Delivery, _ *sealer.Receipt) { d.RightID = "" },
		"no basis":           func(d *sealer.Delivery, _ *sealer.Receipt) { d.BasisID = "" },
		"idempotency":        func(d *sealer.Delivery, _ *sealer.Receipt) { d.Idempotency = "order 1" },
		"row and key":        func(d *sealer.Delivery, _ *sealer.Receipt) { d.Identity, d.Idempotency = row, row.Hash },
		"row without a hash": func(d *sealer.Delivery, _ *sealer.Receipt) { d.Identity.Day = "2026-10-24" },
		"row's hash":         func(d *sealer.Delivery, _ *sealer.Receipt) { d.Identity.Hash = "row 1" },
		"no day": func(d *sealer.Delivery, _ *sealer.Receipt) {
			d.Identity = sealer.RowIdentity{Hash: row.Hash, Day: "2026-02-29"}
		},
		"time of a day": func(d *sealer.Delivery, _ *sealer.Receipt) {
			d.Identity = sealer.RowIdentity{Hash: row.Hash, Day: "2026-10-24T00:00:00Z"}
		},
		"day of year 0": func(d *sealer.Delivery, _ *sealer.Receipt) {
			d.Identity = sealer.RowIdentity{Hash: row.Hash, Day: "0000-10-24"}
		},
		"negative":   func(d *sealer.Delivery, _ *sealer.Receipt) { d.Multiplier = -1 },
		"too many":   func(d *sealer.Delivery, _ *sealer.Receipt) { d.Multiplier = sealer.MaxMultiplier + 1 },
		"commitment": func(d *sealer.Delivery, _ *sealer.Receipt) { d.PrivateCommitment = "AA" },
	} {
		s, d, r := w.Draft(1)
		spoil(d, r)
		dst, err := s.SealDelivery([]byte("kept"), d, r)
		require.Error(t, err, name)
		require.Equal(t, "kept", string(dst), name)
	}
}

// TestReWrapped takes a genuine receipt and claims something else around it.
func TestReWrapped(t *testing.T) {
	w := sealertest.NewWorld(t)
	event := string(w.Delivery(2, ""))
	d, err := sealer.ReadDelivery([]byte(event))
	require.NoError(t, err)
	other := w.ID("")
	for name, change := range map[string][2]string{
		"right":     {d.RightID, "rgh_9"},
		"tenant":    {w.Tenant, "tnt_other"},
		"event id":  {`"evt_` + d.Event.EventID[4:], `"evt_` + d.Event.EventID[4:14] + other[10:]},
		"revision":  {`"rightRevision":10`, `"rightRevision":11`},
		"quantity":  {`"quantityMs":3000`, `"quantityMs":9000`},
		"more":      {`"impressions":"1"`, `"impressions":"2"`},
		"completed": {`"completion":"none"`, `"completion":"complete"`},
		"substrate": {`"substrate":"` + d.Substrate, `"substrate":"AUDIO`},
		"actor":     {"key_fixture", "key_other"},
		"basis":     {d.BasisID, "bas_9"},
	} {
		moved := strings.ReplaceAll(event, change[0], change[1])
		require.NotEqual(t, event, moved, name)
		require.True(t, IsJSON([]byte(moved)), name)
		_, err := sealer.ReadDelivery([]byte(moved))
		require.ErrorIs(t, err, sealer.ErrWitness, name)

		e, err := sealer.ParseEvent([]byte(moved))
		require.NoError(t, err)
		_, _, err = sealer.CheckRecord(&sealer.Record{TenantID: e.TenantID, EventID: e.EventID, Event: []byte(moved)})
		require.ErrorIs(t, err, sealer.ErrWitness, name)
	}
}

// TestReadDeliveryCrossChecks has events whose witness is right, and which
// contradict themselves nevertheless: only a node that lies can make them.
func TestReadDeliveryCrossChecks(t *testing.T) {
	w := sealertest.NewWorld(t)
	for name, change := range map[string][2]string{
		"subject":      {`"subject":{"id":"rgh_2"`, `"subject":{"id":"rgh_3"`},
		"quantity":     {`"quantityMs":3000`, `"quantityMs":3001`},
		"impressions":  {`"impressions":"1"`, `"impressions":"0"`},
		"too many":     {`"impressions":"1"`, `"impressions":"10000.0001"`},
		"too fine":     {`"impressions":"1"`, `"impressions":"1.00001"`},
		"completion":   {`"completion":"none"`, `"completion":"half"`},
		"no word":      {`"completion":"none"`, `"completion":""`},
		"not metered":  {`"metered":true`, `"metered":false`},
		"reason":       {`"reason":"METERED"`, `"reason":"NOT_VISIBLE"`},
		"event id":     {`"eventId":"evt_01`, `"eventId":"evt_00`},
		"event time":   {`},"at":"2026-05-01T12:00:01.000Z"`, `},"at":"2026-05-01T12:00:01.001Z"`},
		"rendered":     {`"renderedAt":"2026-05-01T12:00:00.998Z"`, `"renderedAt":"2026-05-01T12:00:01.998Z"`},
		"receipt id":   {`"receiptId":"rcp_01`, `"receiptId":"rcp_02`},
		"no witness":   {`edge:`, `core:`},
		"own revision": {`"rightRevision":10`, `"rightRevision":-10`},
	} {
		w.Now = sealertest.Epoch
		event := string(w.Delivery(2, ""))
		lie := strings.Replace(event, change[0], change[1], 1)
		require.NotEqual(t, event, lie, name)
		_, err := sealer.ReadDelivery([]byte(sealertest.Rewitness(t, lie)))
		require.Error(t, err, name)
		if name != "no witness" {
			require.NotErrorIs(t, err, sealer.ErrWitness, name)
		}
	}
}

// TestReadSuppressedCrossChecks does the same with a delivery that is not billed.
func TestReadSuppressedCrossChecks(t *testing.T) {
	w := sealertest.NewWorld(t)
	event := string(w.Delivery(3, ""))
	for name, change := range map[string][2]string{
		"billed nevertheless": {`"quantityMs":0`, `"quantityMs":1`},
		"impressions made":    {`"impressions":"0"`, `"impressions":"1"`},
		"no reasons":          {`"reasons":["NOT_VISIBLE","APP_BACKGROUND"]`, `"reasons":[]`},
		"other first reason":  {`"reasons":["NOT_VISIBLE","APP_BACKGROUND"]`, `"reasons":["APP_BACKGROUND","NOT_VISIBLE"]`},
		"metered":             {`"metered":false`, `"metered":true`},
	} {
		lie := strings.Replace(event, change[0], change[1], 1)
		require.NotEqual(t, event, lie, name)
		_, err := sealer.ReadDelivery([]byte(sealertest.Rewitness(t, lie)))
		require.Error(t, err, name)
		require.NotErrorIs(t, err, sealer.ErrWitness, name)
		require.NotErrorIs(t, err, canonical.ErrNotCanonical, name)
	}
	_, err := sealer.ReadDelivery([]byte(sealertest.Rewitness(t, event)))
	require.NoError(t, err)
}

func TestSplitDelivery(t *testing.T) {
	w := sealertest.NewWorld(t)
	s, d, r := w.Draft(4)
	// Names of members inside strings must not confuse it.
	trap := `},"eventId":},"receipt":},"rightId":,"signature":},"substrate":,"metering":{`
	r.SpatialAnchorID, r.CorrelationID, d.RightID, d.BasisID, d.Actor.ID = trap, &trap, trap, trap, trap
	d.Identity, d.Multiplier = w.Identity("play", "2026-10-24"), 25_000
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(t, err)
	parts, err := sealer.SplitDelivery(event)
	require.NoError(t, err)
	require.Equal(t, string(sealer.AppendReceipt(nil, r)), string(parts.Receipt))
	require.Equal(t, `"`+d.Substrate.String()+`"`, string(parts.Substrate))
	require.Equal(t, `{"basis":"viewable","completion":"complete","impressions":"2.5","metered":true,"quantityMs":6000,"reason":"METERED","reasons":[]}`, string(parts.Metering))
	require.True(t, strings.HasPrefix(string(parts.Signature), `{"algorithm":"ed25519","keyId":"`+s.KeyID+`","value":"`))
	require.True(t, IsJSON(parts.Signature))

	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := sealer.SplitDelivery(event); err != nil {
			panic(err)
		}
	}))
	for _, other := range [][]byte{nil, []byte("{}"), w.Note("right.revoked"), event[:len(event)-1], event[1 : len(event)/2]} {
		_, err := sealer.SplitDelivery(other)
		require.Error(t, err)
	}
}

func TestCheckRecord(t *testing.T) {
	w := sealertest.NewWorld(t)
	s, d, r := w.Draft(2)
	private := sealer.Private{Salt: [16]byte{1, 2, 3}, DataSubjects: sealer.About("sub_1"), AttentionMs: -1, Telemetry: []byte(`{"viewable":true}`)}
	text := sealer.AppendPrivate(nil, &private)
	d.PrivateCommitment = private.Commitment()
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(t, err)
	good := sealer.Record{TenantID: w.Tenant, EventID: "evt_" + r.ReceiptID[4:], Event: event, Private: text}
	e, delivery, err := sealer.CheckRecord(&good)
	require.NoError(t, err)
	require.Equal(t, good.EventID, e.EventID)
	require.Equal(t, d.RightID, delivery.RightID)

	erased := good
	erased.Private = nil
	_, _, err = sealer.CheckRecord(&erased)
	require.NoError(t, err, "erasure removes the private part")

	other := private
	other.DataSubjects = sealer.About("sub_2")
	for name, spoil := range map[string]func(*sealer.Record){
		"tenant":         func(r *sealer.Record) { r.TenantID = "tnt_other" },
		"event id":       func(r *sealer.Record) { r.EventID = w.ID("evt_") },
		"private part":   func(r *sealer.Record) { r.Private = sealer.AppendPrivate(nil, &other) },
		"private format": func(r *sealer.Record) { r.Private = append([]byte(" "), text...) },
		"event":          func(r *sealer.Record) { r.Event = append([]byte(" "), event...) },
		"no commitment": func(r *sealer.Record) {
			r.Event = w.Delivery(2, "")
			e, _ := sealer.ParseEvent(r.Event)
			r.EventID = e.EventID
		},
	} {
		bad := good
		spoil(&bad)
		_, _, err := sealer.CheckRecord(&bad)
		require.Error(t, err, name)
	}

	note := w.Note("right.revoked")
	e, err = sealer.ParseEvent(note)
	require.NoError(t, err)
	_, delivery, err = sealer.CheckRecord(&sealer.Record{TenantID: w.Tenant, EventID: e.EventID, Event: note})
	require.NoError(t, err)
	require.Nil(t, delivery)
}

// TestSealDeliveryAllocations fixes what sealing allocates: witness and the pointer to
// it, and the signature, which the standard library makes.
func TestSealDeliveryAllocations(t *testing.T) {
	w := sealertest.NewWorld(t)
	s, d, r := w.Draft(2)
	d.Identity, d.Multiplier = w.Identity("play", "2026-10-24"), 25_000
	buf := make([]byte, 0, 4096)
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() {
		var err error
		if buf, err = s.SealDelivery(buf[:0], d, r); err != nil {
			panic(err)
		}
	}), 3.0)
}

func BenchmarkSealDelivery(b *testing.B) {
	w := sealertest.NewWorld(b)
	s, d, r := w.Draft(2)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = s.SealDelivery(buf[:0], d, r)
	}
}

func BenchmarkReadDelivery(b *testing.B) {
	event := sealertest.NewWorld(b).Delivery(2, "order")
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = sealer.ReadDelivery(event)
	}
}

func BenchmarkSplitDelivery(b *testing.B) {
	event := sealertest.NewWorld(b).Delivery(2, "order")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = sealer.SplitDelivery(event)
	}
}
