package verify

import (
	"slices"
	"time"
	"unique"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
)

// Events that stop a right or an API key, or end that, and the one that makes a right.
const (
	rightIssued    = sealer.TypeRightIssued
	rightSuspended = "right.suspended"
	rightResumed   = "right.resumed"
	rightRevoked   = "right.revoked"
	apiKeyRevoked  = "key.revoked"

	subjectKeys   = "key"
	subjectRights = "right"
)

// keptID is an id that does not keep its event's text in memory.
type keptID = unique.Handle[string]

// rightMove is an event that changed a right, or made it.
type rightMove struct {
	right    keptID
	revision int64 // of the right's record from then on
	kind     string
	leaf     uint64
	at       time.Time
}

// keyStop is the revocation of an API key.
type keyStop struct {
	key keptID
	at  time.Time
}

// decision is what a delivery was decided by.
type decision struct {
	right, key keptID // key is zero if it was not requested with an API key
	revision   int64
}

// decidedDelivery is a delivery with its decision.
type decidedDelivery struct {
	decision
	leaf         uint64
	at, rendered time.Time
}

// keptDelivery is a delivery as a conduct keeps it. There may be millions, so decisions that they share
// are kept once.
type keptDelivery struct {
	decision, entry uint32 // in the list of decisions, and in the file
	at, rendered    int64  // in milliseconds
}

// conduct is what the entries of one file record about rights, API keys, disputes, statements and
// erasures.
type conduct struct {
	tenantID   string
	first      uint64 // leaf
	single     bool   // a proof of one event
	entries    uint64
	moves      []rightMove
	parents    map[keptID][]keptID           // named by events of a right
	names      *settlement.ScopeNames        // of rules, of all files
	scopes     map[keptID][]settlement.Right // of the rights that were issued, what names has
	keys       []keyStop
	deliveries []keptDelivery
	decisions  []decision
	places     map[decision]uint32 // in decisions
	seals      []seal
	tombstones []tombstone
	statements []statementIssued
	disputes   []disputeHistory
	rules      []settlement.Rule // as of their events
}

// seal is the size of the log at the end of a pack, and when that was sealed. The log holds what
// control had committed by then.
type seal struct {
	size uint64
	at   time.Time
}

func newConduct(tenantID string, first uint64, names *settlement.ScopeNames) *conduct {
	return &conduct{tenantID: tenantID, first: first, names: names, parents: make(map[keptID][]keptID), scopes: make(map[keptID][]settlement.Right), places: make(map[decision]uint32)}
}

// note records the next entry.
func (c *conduct) note(f *pack.Finding) {
	leaf, e := c.first+c.entries, &f.Event
	c.entries++
	switch {
	case f.Code != "": // the file fails, so its events are not used
	case f.Delivery != nil:
		d := decision{right: unique.Make(f.Delivery.RightID), revision: f.Delivery.RightRevision}
		if e.Actor.Kind == subjectKeys {
			d.key = unique.Make(e.Actor.ID)
		}
		c.deliver(d, e.At, f.Delivery.Receipt.RenderedAt)
	case e.Subject.Kind == subjectKeys && e.Type == apiKeyRevoked:
		c.keys = append(c.keys, keyStop{unique.Make(e.Subject.ID), e.At})
	case e.Type == sealer.TypeErased:
		c.noteErasure(leaf, e)
	case e.Type == statementIssuedEvent, e.Type == statementVoidedEvent, e.Type == disputeOpened, e.Type == disputeResolved:
		c.noteMoney(leaf, e)
	case e.Subject.Kind == subjectRights:
		c.noteRight(leaf, e)
	default:
		if rule := settlement.RuleIn(e, leaf); rule != nil {
			c.rules = append(c.rules, *rule)
		}
	}
}

// deliver records a delivery, the last entry.
func (c *conduct) deliver(d decision, at, rendered time.Time) {
	place, known := c.places[d]
	if !known {
		place = uint32(len(c.decisions))
		c.places[d], c.decisions = place, append(c.decisions, d)
	}
	c.deliveries = append(c.deliveries, keptDelivery{place, uint32(c.entries - 1), at.UnixMilli(), rendered.UnixMilli()})
}

// close frees what only further entries would need.
func (c *conduct) close() { c.places, c.deliveries = nil, slices.Clone(c.deliveries) }

// delivery is the i-th delivery.
func (c *conduct) delivery(i int) *decidedDelivery {
	d := &c.deliveries[i]
	return &decidedDelivery{c.decisions[d.decision], c.first + uint64(d.entry), time.UnixMilli(d.at).UTC(), time.UnixMilli(d.rendered).UTC()}
}

// sealed records when a pack was sealed, unless it is full: then part of what control had
// committed may be in the next.
func (c *conduct) sealed(entries, size uint64, at time.Time) {
	if entries < pack.MaxEntries {
		c.seals = append(c.seals, seal{size, at})
	}
}

func (c *conduct) noteRight(leaf uint64, e *sealer.Event) {
	switch e.Type {
	case rightIssued, rightSuspended, rightResumed, rightRevoked:
	default:
		return
	}
	var record map[string]jsontext.Value
	if json.Unmarshal(e.Data, &record) != nil {
		return
	}
	right := unique.Make(e.Subject.ID)
	if c.names != nil && !c.names.Empty() {
		if scope := settlement.RightIn(e); scope != nil {
			c.scopes[right] = append(c.scopes[right], c.names.Only(*scope))
		}
	}
	var parent string
	if json.Unmarshal(record["parentRightId"], &parent) == nil && parent != "" {
		c.parents[right] = append(c.parents[right], unique.Make(parent))
	}
	if revision, ok := wholeNumber(record["revision"]); ok {
		c.moves = append(c.moves, rightMove{right, revision, e.Type, leaf, e.At})
	}
}
