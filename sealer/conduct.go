package sealer

import (
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

// decided is what a delivery says of the right and the API key that it was decided by.
type decided struct {
	right, key keptID // key is zero if no API key asked for it
	revision   int64
	leaf       uint64
	at         time.Time
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
	deliveries []decided
	seals      []seal
}

// seal is when a pack was sealed that ends a log of a size. What control had committed by
// then is in that log.
type seal struct {
	size uint64
	at   time.Time
}

func newConduct(tenantID string, first uint64) *conduct {
	return &conduct{tenantID: tenantID, first: first, parents: make(map[keptID][]keptID)}
}

// note takes in the next entry.
func (c *conduct) note(f *finding) {
	leaf, e := c.first+c.entries, &f.event
	c.entries++
	switch {
	case f.code != "": // the file fails, and is not asked
	case f.delivery != nil:
		d := decided{right: unique.Make(f.delivery.RightID), revision: f.delivery.RightRevision, leaf: leaf, at: e.At}
		if e.Actor.Kind == subjectKey {
			d.key = unique.Make(e.Actor.ID)
		}
		c.deliveries = append(c.deliveries, d)
	case e.Subject.Kind == subjectKey && e.Type == apiKeyRevoked:
		c.keys = append(c.keys, keyStop{unique.Make(e.Subject.ID), e.At})
	case e.Subject.Kind == subjectRight:
		c.noteRight(leaf, e)
	}
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
