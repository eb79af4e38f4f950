package conform

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment.example/gate"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// The rows of the suite are those of real records: sealer writes the event, and
// pipeline.NewRow takes it apart, as the loader does. So columns and text agree, event ids
// are "evt_" and a ULID of the event's moment, and idempotency hashes are base64url of 32
// bytes: an engine may keep either, and read the other out of it.

// noon is the time around which test events happen; rows have milliseconds.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 123e6, time.UTC)

// signer seals the deliveries of the suite.
var signer = newSigner()

func newSigner() *sealer.Signer {
	seed := sha256.Sum256([]byte("conform"))
	key := ed25519.NewKeyFromSeed(seed[:])
	return &sealer.Signer{KeyID: keydir.KeyID(key.Public().(ed25519.PublicKey)), Node: "nod_conform", Key: key}
}

// at is a position in partition 3 of generation 1.
func at(offset int64) sealer.Position {
	return sealer.Position{Generation: 1, Partition: 3, Offset: offset}
}

// newID makes the ULID of a tenant's event that stands first at p.
func newID(tenant string, p sealer.Position, when time.Time) ulid.ULID {
	entropy := sha256.Sum256([]byte(tenant + " " + p.String()))
	var id ulid.ULID
	_ = id.SetEntropy(entropy[:10])          // it is of ten bytes
	_ = id.SetTime(uint64(when.UnixMilli())) // and no time of a test beyond the year 10889
	return id
}

// row makes the row of a record. What can't be a row is a fault of the suite.
func row(tenant string, p sealer.Position, eventID string, event, private []byte) pipeline.Row {
	r, err := pipeline.NewRow(sealer.Entry{Position: p, Record: sealer.Record{
		TenantID: tenant, EventID: eventID, Node: signer.Node, Epoch: 7, Seq: uint64(p.Offset + 1), Event: event, Private: private,
	}})
	if err != nil {
		panic(fmt.Sprintf("conform: %v", err))
	}
	return r
}

// audit makes a row of another type than a delivery: of right.issued at noon, unless alter
// says otherwise.
func audit(tenant string, p sealer.Position, alter ...func(*sealer.Event)) pipeline.Row {
	e := sealer.Event{
		TenantID: tenant, Type: "right.issued", At: noon, Data: []byte(`{}`),
		Actor: sealer.Ref{Kind: "key", ID: "key_1"}, Subject: sealer.Ref{Kind: "right", ID: "rgh_1"},
	}
	for _, change := range alter {
		change(&e)
	}
	e.EventID = "evt_" + newID(tenant, p, e.At).String()
	text, err := sealer.AppendEvent(nil, &e)
	if err != nil {
		panic(fmt.Sprintf("conform: %v", err))
	}
	return row(tenant, p, e.EventID, text, nil)
}

// annotated makes the row of an event about a record of a kind, with notes, and with a person unless that is
// empty.
func annotated(tenant string, p sealer.Position, kind, subject, notes string, when time.Time) pipeline.Row {
	written, err := sealer.NotesOf(json.RawMessage(notes))
	if err != nil {
		panic(fmt.Sprintf("conform: %v", err))
	}
	about := sealer.Private{AttentionMs: -1, DataSubjects: sealer.About(subject), Notes: written}
	private := sealer.AppendPrivate(nil, &about)
	r := audit(tenant, p, func(e *sealer.Event) {
		e.Type, e.At, e.Subject = "dsar.requested", when, sealer.Ref{Kind: kind, ID: kind + "_1"}
		e.PrivateCommitment = about.Commitment()
	})
	r.Private = private
	return r
}

// Annotated makes such a row for what an engine's package tests of erasing.
func Annotated(tenant string, offset int64, kind, notes string) pipeline.Row {
	return annotated(tenant, at(offset), kind, "", notes, noon.Add(time.Duration(offset)*time.Millisecond))
}

// Said makes the row of an event of a type with data, for tests of what reads events.
func Said(tenant string, offset int64, eventType, data string) pipeline.Row {
	return audit(tenant, at(offset), func(e *sealer.Event) {
		e.Type = eventType
		var err error
		if e.Data, err = canonical.JSON(json.RawMessage(data)); err != nil {
			panic(fmt.Sprintf("conform: %v", err))
		}
	})
}

// of makes audit write another type.
func of(eventType string) func(*sealer.Event) {
	return func(e *sealer.Event) { e.Type = eventType }
}

// delivery makes a row of a metered delivery of a second, unless alter says otherwise. key
// may be empty; "row …" is the identity of a row with an id, "play …" that of one without.
func delivery(tenant string, p sealer.Position, issued time.Time, key string, alter ...func(*sealer.Delivery, *sealer.Receipt)) pipeline.Row {
	return personal(tenant, p, issued, key, sealer.Private{AttentionMs: -1}, alter...)
}

// shown makes delivery write one to persons.
func shown(tenant string, p sealer.Position, issued time.Time, subjects ...string) pipeline.Row {
	return personal(tenant, p, issued, "", sealer.Private{AttentionMs: -1, DataSubjects: sealer.About(subjects...), Telemetry: []byte(`{"viewable":true}`)})
}

func personal(tenant string, p sealer.Position, issued time.Time, key string, about sealer.Private, alter ...func(*sealer.Delivery, *sealer.Receipt)) pipeline.Row {
	private := sealer.AppendPrivate(nil, &about)
	d := sealer.Delivery{
		TenantID: tenant, Actor: sealer.Ref{Kind: "key", ID: "key_1"}, RightID: "rgh_1", RightRevision: 4, BasisID: "bas_1",
		Substrate:         gate.CTV,
		Metering:          gate.Metering{Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisViewable, QuantityMs: 1000, AttentionMs: -1},
		PrivateCommitment: about.Commitment(),
	}
	switch hash := hashOf(tenant, key); {
	case key == "":
	case strings.HasPrefix(key, "row "):
		d.Identity.Hash = hash
	case strings.HasPrefix(key, "play "):
		d.Identity = sealer.RowIdentity{Hash: hash, Day: noon.AddDate(0, 0, -int(hash[0])%30).Format(time.DateOnly)}
	default:
		d.Idempotency = hash
	}
	r := sealer.Receipt{
		ReceiptID: "rcp_" + newID(tenant, p, issued).String(), SpatialAnchorID: "screen 1", IssuedAt: issued, RenderedAt: issued.Add(-time.Second),
		DwellMs: 1000, Nonce: base64.RawURLEncoding.EncodeToString(about.Salt[:]),
	}
	for _, change := range alter {
		change(&d, &r)
	}
	if d.Metering.Metered {
		d.Metering.QuantityMs = int64(r.DwellMs)
	}
	text, err := signer.SealDelivery(nil, &d, &r)
	if err != nil {
		panic(fmt.Sprintf("conform: %v", err))
	}
	return row(tenant, p, "evt_"+r.ReceiptID[4:], text, private)
}

// hashOf stands for an idempotency key, or for what names a row.
func hashOf(tenant, key string) string {
	hash := sha256.Sum256([]byte(tenant + "\x00" + key))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// under makes delivery write one of another right.
func under(right string) func(*sealer.Delivery, *sealer.Receipt) {
	return func(d *sealer.Delivery, _ *sealer.Receipt) { d.RightID = right }
}

// unseen makes delivery write one that is not metered.
func unseen(d *sealer.Delivery, _ *sealer.Receipt) {
	d.Metering = gate.Metering{Reason: gate.ReasonNotVisible, Reasons: 1 << (gate.ReasonNotVisible - gate.ReasonConsentRequired), AttentionMs: -1}
}

// again is the same event once more, at another position.
func again(r pipeline.Row, p sealer.Position) pipeline.Row {
	r.Position, r.Seq = p, uint64(p.Offset+1)
	return r
}
