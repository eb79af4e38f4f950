package warehouse

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// author writes the records of a log as nodes do: event, witness, private part and its
// commitment, 1.5 KB together. Only what an Ed25519 signature would be is noise, as a
// warehouse checks none. Tenants alternate, and a thousand records come in a second. Two
// authors of the same start and tenants write the same.
type author struct {
	random  *rand.ChaCha8
	signer  sealer.Signer
	begin   time.Time
	tenants []string
	rights  []string // of each tenant, one behind the other
	next    sealer.Position
	// repeats is how many records stand from one whose idempotency key was used before, a
	// duplicate, to the next.
	repeats int
}

// authorTenants is how many tenants deliver, unless a measurement says otherwise.
const authorTenants = 64

// rightsOfTenant is how many rights each tenant of an author delivers on.
const rightsOfTenant = 10

func newAuthor(begin time.Time, tenants int) *author {
	a := &author{
		random: rand.NewChaCha8([32]byte{1}), begin: begin.Truncate(time.Millisecond),
		next: sealer.Position{Generation: 1}, repeats: 10_000,
	}
	for range tenants {
		a.tenants = append(a.tenants, a.id(api.PrefixTenant, begin))
		for range rightsOfTenant {
			a.rights = append(a.rights, a.id(api.PrefixRight, begin))
		}
	}
	a.signer = sealer.Signer{KeyID: strings.Repeat("ab", 16), Node: a.id("nod_", begin), Key: noise{a.random}}
	return a
}

// noise signs nothing: it is what a signature looks like.
type noise struct{ random io.Reader }

func (n noise) Public() crypto.PublicKey { return nil }

func (n noise) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	signature := make([]byte, 64)
	_, err := n.random.Read(signature)
	return signature, err
}

// write returns the next n entries of the log.
func (a *author) write(n int) ([]sealer.Entry, error) {
	entries := make([]sealer.Entry, n)
	for i := range entries {
		e, err := a.entry()
		if err != nil {
			return nil, fmt.Errorf("cannot write record %s: %w", a.next, err)
		}
		entries[i] = e
		a.next = a.next.Next()
	}
	return entries, nil
}

func (a *author) entry() (sealer.Entry, error) {
	n := int(a.next.Offset)
	tenant := n % len(a.tenants)
	at := a.begin.Add(time.Duration(n) * time.Millisecond)
	private := sealer.Private{
		Telemetry:   fmt.Appendf(nil, `{"appState":"foreground","coverageCellId":"310-410-%04d","viewable":true}`, a.random.Uint64()%10_000),
		RequestHash: a.hash(), AttentionMs: -1,
	}
	a.read(private.Salt[:])
	text := sealer.AppendPrivate(nil, &private)
	right := a.rights[tenant*rightsOfTenant+int(a.random.Uint64()%rightsOfTenant)]
	correlation := fmt.Sprintf("order-%d", n)
	receipt := sealer.Receipt{
		ReceiptID: a.id(api.PrefixReceipt, at), CorrelationID: &correlation,
		SpatialAnchorID: fmt.Sprintf("shelter-%03d", a.random.Uint64()%200),
		IssuedAt:        at, RenderedAt: at.Add(-time.Duration(a.random.Uint64()%2000) * time.Millisecond),
		DwellMs: float64(a.random.Uint64() % 15_000), Nonce: base64.RawURLEncoding.EncodeToString(a.bytes(16)),
	}
	delivery := sealer.Delivery{
		TenantID: a.tenants[tenant], Actor: sealer.Ref{Kind: "key", ID: "key_" + a.tenants[tenant][4:]},
		RightID: right, RightRevision: 7, BasisID: "bas_" + right[4:], Substrate: gate.Substrate(n % 8),
		Metering: gate.Metering{
			Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisViewable, QuantityMs: int64(receipt.DwellMs), AttentionMs: -1,
		},
		Idempotency: a.key(tenant, n), PrivateCommitment: private.Commitment(),
	}
	event, err := a.signer.SealDelivery(nil, &delivery, &receipt)
	return sealer.Entry{Position: a.next, Record: sealer.Record{
		TenantID: delivery.TenantID, EventID: string(api.PrefixEvent) + receipt.ReceiptID[4:], Node: a.signer.Node,
		Epoch: 1, Seq: uint64(n + 1), Event: event, Private: text,
	}}, err
}

// key is the hash of the n-th record's idempotency key.
func (a *author) key(tenant, n int) string {
	if n%a.repeats == a.repeats-1 {
		n -= 7 * len(a.tenants)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00order-%d", a.tenants[tenant], n))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (a *author) id(prefix api.Prefix, at time.Time) string {
	return string(api.AppendID(nil, prefix, at, [10]byte(a.bytes(10))))
}

func (a *author) hash() string { return base64.RawURLEncoding.EncodeToString(a.bytes(32)) }

func (a *author) bytes(n int) []byte {
	b := make([]byte, n)
	a.read(b)
	return b
}

// read fills b. Words are drawn whole: what was drawn before decides, not how much of it
// was used.
func (a *author) read(b []byte) {
	for len(b) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], a.random.Uint64())
		b = b[copy(b, word[:]):]
	}
}
