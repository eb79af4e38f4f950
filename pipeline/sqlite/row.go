package sqlite

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Classes of events, as the column class has them.
const (
	classDelivery = iota
	classRefusals
	classOther
)

// common is what many events have in common, a row of the table of that name.
type common struct {
	tenant                                                              int64
	node, kind, actorKind, actorID, subjectKind, subjectID              string
	right, basis, substrate, signingKey, reason, meteringBasis, metered string
	completion                                                          string
}

func commonOf(tenant int64, r *pipeline.Row) common {
	c := common{tenant: tenant, node: r.Node, kind: r.Type,
		actorKind: r.ActorKind, actorID: r.ActorID, subjectKind: r.SubjectKind, subjectID: r.SubjectID}
	if d := r.Delivery; d != nil {
		c.right, c.basis, c.substrate, c.signingKey = d.RightID, d.BasisID, d.Substrate, d.SigningKeyID
		c.reason, c.meteringBasis, c.metered, c.completion = d.Reason, d.MeteringBasis, "0", d.Completion
		if d.Metered {
			c.metered = "1"
		}
	}
	return c
}

// fields lists the texts of c.
func (c *common) fields() []*string {
	return []*string{&c.node, &c.kind, &c.actorKind, &c.actorID, &c.subjectKind, &c.subjectID,
		&c.right, &c.basis, &c.substrate, &c.signingKey, &c.reason, &c.meteringBasis, &c.metered, &c.completion}
}

// digest is different for different values.
func (c *common) digest() []byte {
	b := binary.AppendVarint(nil, c.tenant)
	for _, f := range c.fields() {
		b = append(binary.AppendUvarint(b, uint64(len(*f))), *f...)
	}
	sum := sha256.Sum256(b)
	return sum[:16]
}

// args are the values of c's columns, from digest to completion.
func (c *common) args() []any {
	args := []any{c.digest(), c.tenant, c.node, c.kind, c.actorKind, c.actorID, c.subjectKind, c.subjectID}
	if c.metered == "" {
		return append(args, nil, nil, nil, nil, nil, nil, nil, nil)
	}
	return append(args, c.right, c.basis, c.substrate, c.signingKey, c.metered == "1", c.reason, c.meteringBasis, c.completion)
}

// place is where a row stands among those of its tenant.
type place struct{ generation, position, partition int64 }

func placeOf(p sealer.Position) place {
	return place{int64(p.Generation), p.Offset, int64(p.Partition)}
}

func (p place) before(q place) bool {
	return p.generation < q.generation || p.generation == q.generation && p.position < q.position
}

// columns of events, in the order in which appendRow binds them.
const columns = `tenant, generation, position, log_partition, class, common, text, event_id, epoch, seq, at,
	right_revision, receipt_id, rendered_at, issued_at, quantity_ms, duplicate, dedup_key, impressions, spatial_anchor_id, spatial_placement_id, correlation_id`

// appendRow appends the values of columns.
func appendRow(args []any, n *newRow) []any {
	r, d := n.Row, n.Delivery
	args = append(args, n.tenant, n.generation, n.position, n.partition, n.class, n.common, n.text, n.id,
		int64(r.Epoch), int64(r.Seq), r.At.UnixMilli())
	if d == nil {
		return append(args, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil)
	}
	var receipt, issued, impressions any
	if len(r.EventID) < 4 || d.ReceiptID != "rcp_"+r.EventID[4:] {
		receipt = d.ReceiptID
	}
	if !d.IssuedAt.Equal(r.At) {
		issued = d.IssuedAt.UnixMilli()
	}
	if !usual(d) {
		impressions = d.Impressions
	}
	return append(args, d.RightRevision, receipt, d.RenderedAt.UnixMilli(), issued, d.QuantityMs, n.duplicate,
		n.key, impressions, text(d.SpatialAnchorID), text(d.SpatialPlacementID), text(d.CorrelationID))
}

// usual reports whether a delivery makes the impressions of one without a multiplier, which
// are not stored.
func usual(d *pipeline.Delivery) bool { return d.Impressions == sealer.CountImpressions(d.Metered, 0) }

// eventKey is the form in which the warehouse keeps an event's id: the 16 bytes of a ULID
// behind evt_, or the whole id.
func eventKey(id string) any {
	if ulidText, ok := strings.CutPrefix(id, "evt_"); ok {
		if u, err := ulid.ParseStrict(ulidText); err == nil && u.String() == ulidText {
			return u[:]
		}
	}
	return id
}

// eventKeyEnd is the bytes with which the key of an id ends that ends with a text: all that the text determines. ok is false
// if no key of bytes is of such an id.
func eventKeyEnd(end string) (bytes []byte, ok bool) {
	end = end[max(0, len(end)-ulid.EncodedSize):]
	bits := new(big.Int)
	for _, c := range []byte(end) {
		digit := strings.IndexByte(ulid.Encoding, c)
		if digit < 0 {
			return nil, false
		}
		bits.Lsh(bits, 5).Or(bits, big.NewInt(int64(digit)))
	}
	if bits.BitLen() > 128 {
		return nil, false
	}
	var all [16]byte
	bits.FillBytes(all[:])
	return all[16-min(16, 5*len(end)/8):], true
}

func eventID(key any) string {
	if b, ok := key.([]byte); ok {
		return "evt_" + ulid.ULID(b).String()
	}
	return key.(string)
}

// dedupKey is what a delivery has in common with its duplicates, as it is stored: the bytes of
// an idempotency hash, those of a row's hash, a space and its day, or the text of a hash that
// is no base64url; nil without a hash.
func dedupKey(d *pipeline.Delivery) any {
	hash := cmp.Or(d.Idempotency, d.Identity.Hash)
	b, err := base64.RawURLEncoding.Strict().DecodeString(hash)
	switch {
	case hash == "":
		return nil
	case err != nil || base64.RawURLEncoding.EncodeToString(b) != hash:
		return hash
	case d.Idempotency == "":
		return append(append(b, ' '), d.Identity.Day...)
	}
	return b
}

// isRow reports whether a dedupKey is of a row's identity.
func isRow(key any) bool {
	b, ok := key.([]byte)
	return ok && len(b) > sha256.Size
}

// setKey sets the fields of which dedupKey has made a key.
func setKey(d *pipeline.Delivery, key any) {
	switch k := key.(type) {
	case []byte:
		hash := base64.RawURLEncoding.EncodeToString(k[:min(len(k), sha256.Size)])
		if isRow(k) {
			d.Identity = sealer.RowIdentity{Hash: hash, Day: string(k[sha256.Size+1:])}
		} else {
			d.Idempotency = hash
		}
	case string:
		d.Idempotency = k
	}
}

// text stores an empty text as NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// verbatim keeps the driver from storing an empty value as NULL.
func verbatim(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// optional stores an empty value as NULL.
func optional(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// otherTexts joins the texts AS x of events AS e that are no deliveries.
const otherTexts = ` LEFT JOIN texts AS x ON x.text = CASE WHEN e.class > 0 THEN e.text END`

// storedRow is a row, and which of its tenant's texts are a delivery's, which scanRow doesn't read.
type storedRow struct {
	pipeline.Row
	tenant, text int64
}

// selected are the columns that scanRow reads, of events AS e, common AS c and texts AS x.
const selected = `e.tenant, e.text, e.generation, e.log_partition, e.position, e.event_id, e.epoch, e.seq, e.at, x.event, x.private,
	c.node, c.type, c.actor_kind, c.actor_id, c.subject_kind, c.subject_id, e.class,
	c.right_id, c.basis_id, c.substrate, c.signing_key_id, c.metered, c.reason, c.metering_basis, c.completion,
	e.right_revision, e.receipt_id, e.rendered_at, e.issued_at, e.quantity_ms, e.dedup_key, e.impressions`

// scanRow reads a row of selected.
func scanRow(scan func(...any) error) (storedRow, error) {
	var (
		r                                               storedRow
		epoch, seq, at, class                           int64
		id, dedup                                       any
		right, basis, substrate, key, reason, meterName sql.NullString
		receipt, completion                             sql.NullString
		revision, renderedAt, issuedAt, quantityMs      sql.NullInt64
		impressions                                     sql.NullInt64
		metered                                         sql.NullBool
	)
	err := scan(&r.tenant, &r.text, &r.Generation, &r.Partition, &r.Offset, &id, &epoch, &seq, &at, &r.Event, &r.Private,
		&r.Node, &r.Type, &r.ActorKind, &r.ActorID, &r.SubjectKind, &r.SubjectID, &class,
		&right, &basis, &substrate, &key, &metered, &reason, &meterName, &completion,
		&revision, &receipt, &renderedAt, &issuedAt, &quantityMs, &dedup, &impressions)
	if err != nil {
		return storedRow{}, err
	}
	r.EventID, r.Epoch, r.Seq, r.At = eventID(id), uint64(epoch), uint64(seq), instant(at)
	if class != classDelivery {
		if r.Event == nil {
			return storedRow{}, fmt.Errorf("the text of event %s is missing from the warehouse", r.EventID)
		}
		return r, nil
	}
	if !receipt.Valid {
		receipt.String = "rcp_" + r.EventID[4:]
	}
	if !issuedAt.Valid {
		issuedAt.Int64 = at
	}
	if !impressions.Valid {
		impressions.Int64 = sealer.CountImpressions(metered.Bool, 0)
	}
	r.Delivery = &pipeline.Delivery{
		ReceiptID:     receipt.String,
		RightID:       right.String,
		RightRevision: revision.Int64,
		BasisID:       basis.String,
		Substrate:     substrate.String,
		RenderedAt:    instant(renderedAt.Int64),
		IssuedAt:      instant(issuedAt.Int64),
		SigningKeyID:  key.String,
		Metered:       metered.Bool,
		Reason:        reason.String,
		MeteringBasis: meterName.String,
		QuantityMs:    quantityMs.Int64,
		Impressions:   impressions.Int64,
		Completion:    completion.String,
	}
	setKey(r.Delivery, dedup)
	return r, nil
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
