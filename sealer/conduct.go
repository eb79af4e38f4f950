package sealer

import (
	"slices"
	"time"
	"unique"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Events that stop a right or an API key, or end that, and the one that makes a right.
const (
	rightIssued    = "right.issued"
	rightSuspended = "right.suspended"
	rightResumed   = "right.resumed"
	rightRevoked   = "right.revoked"
	apiKeyRevoked  = "key.revoked"

	subjectKey = "key"
)

// keptID is an id that outlives its event: it holds no text of that in memory.
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
	right, key keptID // key is zero if no API key asked for it
	revision   int64
}

// decided is a delivery with its decision.
type decided struct {
	decision
	leaf uint64
	at   time.Time
}

// noted is a delivery as a conduct keeps it, by the million: what many share stands
// once.
type noted struct {
	decision, entry uint32 // in the list of decisions, and in the file
	at              int64  // in milliseconds
}

// conduct is what the entries of one file say of rights and API keys.
type conduct struct {
	tenantID   string
	first      uint64 // leaf
	single     bool   // a proof of one event
	entries    uint64
	moves      []rightMove
	parents    map[keptID][]keptID // named by events of a right
	keys       []keyStop
	deliveries []noted
	decisions  []decision
	places     map[decision]uint32 // in decisions
	seals      []seal
}

// seal is when a pack was sealed that ends a log of a size. What control had committed by
// then is in that log.
type seal struct {
	size uint64
	at   time.Time
}

func newConduct(tenantID string, first uint64) *conduct {
	return &conduct{tenantID: tenantID, first: first, parents: make(map[keptID][]keptID), places: make(map[decision]uint32)}
}

// note takes in the next entry.
func (c *conduct) note(f *finding) {
	leaf, e := c.first+c.entries, &f.event
	c.entries++
	switch {
	case f.code != "": // the file fails, and is not asked
	case f.delivery != nil:
		d := decision{right: unique.Make(f.delivery.RightID), revision: f.delivery.RightRevision}
		if e.Actor.Kind == subjectKey {
			d.key = unique.Make(e.Actor.ID)
		}
		c.deliver(d, e.At)
	case e.Subject.Kind == subjectKey && e.Type == apiKeyRevoked:
		c.keys = append(c.keys, keyStop{unique.Make(e.Subject.ID), e.At})
	case e.Subject.Kind == subjectRight:
		c.noteRight(leaf, e)
	}
}

// deliver takes in a delivery, the last entry.
func (c *conduct) deliver(d decision, at time.Time) {
	place, known := c.places[d]
	if !known {
		place = uint32(len(c.decisions))
		c.places[d], c.decisions = place, append(c.decisions, d)
	}
	c.deliveries = append(c.deliveries, noted{place, uint32(c.entries - 1), at.UnixMilli()})
}

// close gives back what only more entries would need.
func (c *conduct) close() { c.places, c.deliveries = nil, slices.Clone(c.deliveries) }

// delivery is the i-th delivery.
func (c *conduct) delivery(i int) *decided {
	d := &c.deliveries[i]
	return &decided{c.decisions[d.decision], c.first + uint64(d.entry), time.UnixMilli(d.at).UTC()}
}

// sealed takes in when a pack of some entries was sealed. A full one may have been cut off:
// what control had committed may be in the next.
func (c *conduct) sealed(entries, size uint64, at time.Time) {
	if entries < MaxPackEntries {
		c.seals = append(c.seals, seal{size, at})
	}
}

func (c *conduct) noteRight(leaf uint64, e *Event) {
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
	parent := scanner{text: string(record["parentRightId"])}
	if id := parent.name(); parent.end() == nil {
		c.parents[right] = append(c.parents[right], unique.Make(id))
	}
	number := scanner{text: string(record["revision"])}
	if revision := number.integer(); number.end() == nil {
		c.moves = append(c.moves, rightMove{right, revision, e.Type, leaf, e.At})
	}
}
