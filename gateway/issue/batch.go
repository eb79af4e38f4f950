package issue

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muniment/gateway/api"
	"muniment/gateway/snapshot"
	"muniment/sealer"
)

// MostRows is how many rows a batch has at most.
const MostRows = 1000

const (
	// pieceRows is how many rows of a batch are admitted, signed and appended at a time, and
	// pieceBytes how many bytes of their records: what is appended together delays whoever
	// comes next.
	pieceRows  = 128
	pieceBytes = 256 << 10
	// mostRecord is more than the record of a row can have: a piece ends where the next one
	// might not fit. Its texts are within their bounds, each byte of them six at most.
	mostRecord = 48 << 10
	// mostAhead is how far ahead of this node's clock a play may be.
	mostAhead = 5 * time.Minute
	// batchTimeouts is how many of Config.Timeout a batch may take.
	batchTimeouts = 2
)

// Batch is rows of one caller that came together. Nothing of it is kept: it is the caller's
// again when IssueRows returns.
type Batch struct {
	// Vendor is that of rows which name none.
	Vendor string
	// Rows are at most MostRows.
	Rows []Row
	// Admit, if it is set, is called before rows are issued, and may wait. Of so many it grants
	// some, at least one; leave is called when these are durable or given up. Its error is the
	// batch's.
	Admit func(ctx context.Context, rows int) (granted int, leave func(), err error)
	// IdempotencyKey is looked at if HasKey is true: two batches of a tenant with one key are
	// issued one after the other. What a row was answered it does not tell; rows do.
	IdempotencyKey []byte
	HasKey         bool
}

// Row is one row.
type Row struct {
	// JSON is its text.
	JSON []byte
	// Refused is why there is none, if it is set: it is the row's result.
	Refused *api.Error
}

// RowStatus is what became of a row.
type RowStatus uint8

const (
	// Accepted: its receipt is durable.
	Accepted RowStatus = iota
	// Duplicate: the play was delivered before, and its event is that of then.
	Duplicate
	// Rejected: no receipt was signed.
	Rejected
	// Unmapped: no mapping knows the vendor's id at the time of the play.
	Unmapped
	// RowStatuses is how many there are.
	RowStatuses
)

// String is the status in answers.
func (s RowStatus) String() string {
	return [RowStatuses]string{"accepted", "duplicate", "rejected", "unmapped"}[s]
}

// RowResult is the result of a row.
type RowResult struct {
	Status RowStatus
	// Event is the text of its event, in which the receipt stands (sealer.SplitDelivery), if it
	// is Accepted or a Duplicate. It is durable, and the caller's.
	Event []byte
	// Err is why it was Rejected; as Issue's, but of the row alone: also a 503 is one.
	Err error
	// Held is what control is to hold, if it is Unmapped.
	Held *api.HeldRow
}

var (
	errBatchSlow = api.Unavailable(api.Overloaded, "the batch took too long: some of its rows may be delivered; send it again, and they are duplicates", time.Second)
	errRowsBusy  = api.Unavailable(api.Overloaded, "rows of the batch are being delivered by another request; send it again", time.Second)
	errBatchLost = api.Unavailable(api.LogUnavailable, "some rows could not be made durable; send the batch again: those that were are duplicates", time.Second)
	errAhead     = api.InvalidField(fieldPlayed, "is more than 5 minutes ahead of this node's clock")
)

// IssueRows issues the receipts of a batch: each row stands or falls by itself, as its result
// says, and the results stand as the rows do. On an error there are none: nothing was promised,
// though some of the rows may be durable. The batch is to be sent again then, and these are
// duplicates.
//
// Rows are admitted, signed and appended in pieces, each with one moment of issue, one key and
// one wait for the log. Those of two batches that are the same play wait for each other.
func (i *Issuer) IssueRows(ctx context.Context, by Caller, b *Batch) ([]RowResult, error) {
	if i.ended.Load() {
		return nil, ErrEnded
	}
	ctx, cancel := context.WithTimeout(ctx, batchTimeouts*i.cfg.Timeout)
	defer cancel()
	if b.HasKey {
		free, err := i.alone(ctx, by, b.IdempotencyKey)
		if err != nil {
			return nil, err
		}
		defer free()
	}
	r := &batch{Issuer: i, Batch: b, by: by, results: make([]RowResult, len(b.Rows)), sealed: make(map[keyHash]int, len(b.Rows))}
	open := make([]int, len(b.Rows))
	for n := range open {
		open[n] = n
	}
	for {
		for len(open) > 0 {
			taken, err := r.issuePiece(ctx, open)
			if err != nil {
				return nil, err
			}
			open = open[taken:]
		}
		if len(r.later) == 0 {
			return r.results, nil
		}
		if err := r.await(ctx); err != nil {
			return nil, err
		}
		open, r.later = r.later, nil
	}
}

// batch is a Batch on its way.
type batch struct {
	*Issuer
	*Batch
	by      Caller
	results []RowResult
	// sealed are the rows that were signed, by their identities.
	sealed map[keyHash]int

	// later are rows that wait for something before they can be decided: for the ends of others
	// that have their claims, and for control, which is asked what vendors' ids stand for.
	later []int
	ends  []<-chan struct{}
	asked []int // whose plays these are
	plays []snapshot.VendorPlay
	// mapped is what control said.
	mapped map[int]snapshot.Mapped
}

// piece is what is issued together.
type piece struct {
	signer  *sealer.Signer
	issued  time.Time
	refuse  error // why nothing can be signed now
	release func()
	works   []*work
	of      []int // whose they are
	bytes   int   // of their records
	equal   []int // rows of the same identity as one that was sealed
}

// issuePiece issues the first of some rows, as many as make a piece.
func (r *batch) issuePiece(ctx context.Context, open []int) (taken int, err error) {
	open = open[:min(len(open), pieceRows)]
	if r.Admit != nil {
		granted, leave, err := r.Admit(ctx, len(open))
		if err != nil {
			return 0, err
		}
		defer leave()
		open = open[:granted]
	}
	if err := r.room.reserve(ctx); err != nil {
		return 0, err
	}
	defer r.room.giveBack()
	// The key that signs is held to the end, and whoever rotates or revokes it waits for that.
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()

	var p piece
	defer func() {
		for _, w := range p.works {
			w.claim.free()
			r.end(w)
		}
		if p.release != nil {
			p.release()
		}
	}()
	if taken, err = r.sealPiece(ctx, &p, open); err != nil {
		return 0, err
	}
	if err := r.appendPiece(ctx, &p); err != nil {
		return 0, err
	}
	r.compare(p.equal)
	return taken, nil
}

// sealPiece decides and signs what fits into a piece, while it has one of the turns to sign.
func (r *batch) sealPiece(ctx context.Context, p *piece, open []int) (taken int, err error) {
	if err := r.room.begin(ctx); err != nil {
		return 0, err
	}
	defer r.room.finish()
	r.cfg.Admit(ctx, len(open)) // of all batches, those whose turn it is queue before single deliveries
	p.signer, p.issued, p.release, p.refuse = r.acquire(ctx, r.by.Sandbox, time.Time{})
	if p.refuse == nil {
		p.refuse = r.entitled(ctx, r.by, p.issued)
	}
	for _, n := range open {
		if p.bytes > pieceBytes-mostRecord {
			break
		}
		if err := r.row(ctx, p, n); err != nil {
			return 0, err
		}
		taken++
	}
	return taken, nil
}

// row brings a row up to the append, or gives it its result, or leaves it for later. An error
// is the whole batch's.
func (r *batch) row(ctx context.Context, p *piece, n int) error {
	if r.Rows[n].Refused != nil {
		r.reject(n, r.Rows[n].Refused)
		return nil
	}
	if ctx.Err() != nil {
		return errBatchSlow
	}
	w := r.begin(r.by)
	p.works, p.of = append(p.works, w), append(p.of, n)
	sealed := false
	r.enter(w)
	defer func() {
		r.leave(w)
		if !sealed {
			p.works, p.of = p.works[:len(p.works)-1], p.of[:len(p.of)-1]
			w.claim.free()
			r.end(w)
		}
	}()
	if err := w.readRow(r.Rows[n].JSON, r.Vendor); err != nil {
		r.reject(n, err)
		return nil
	}
	h := w.identify()
	if _, known := r.sealed[h]; known {
		p.equal = append(p.equal, n)
		return nil
	}
	event, end, err := r.look(ctx, w, &h)
	switch {
	case end != nil:
		r.later, r.ends = append(r.later, n), append(r.ends, end)
		return nil
	case event != nil:
		r.results[n] = RowResult{Status: Duplicate, Event: event}
		return nil
	case err == api.ErrKeyReused:
		err = errRowReused
	case err == nil && p.refuse != nil:
		return p.refuse
	case err == nil:
		sealed, err = r.sealRow(ctx, p, w, n)
	}
	if err != nil {
		r.reject(n, err)
	}
	if sealed {
		r.sealed[h] = n
		p.bytes += len(w.record.Event) + len(w.record.Private)
	}
	return nil
}

// sealRow decides a row whose identity is claimed, and signs it if it may be.
func (r *batch) sealRow(ctx context.Context, p *piece, w *work, n int) (sealed bool, err error) {
	rendered := w.row.played
	switch {
	case rendered.After(p.issued.Add(mostAhead)):
		return false, errAhead
	case rendered.After(p.issued):
		rendered = p.issued
	case p.issued.Sub(rendered) > r.cfg.MaxRowAge:
		return false, r.tooOld
	}
	if w.row.vendorID != "" {
		if mapped, err := r.mapping(w, n, rendered); !mapped || err != nil {
			return false, err
		}
	}
	err = r.prepare(ctx, w, p.signer, rendered, p.issued)
	return err == nil, err
}

// mapping fills in what the vendor's id of a row stands for. If control has to be asked first
// the row is left for later, and if no mapping knows the id it is unmapped.
func (r *batch) mapping(w *work, n int, at time.Time) (mapped bool, err error) {
	play := snapshot.VendorPlay{Vendor: w.row.vendor, IDType: w.row.idType, VendorID: w.row.vendorID, At: at}
	window, known := r.cfg.Rights.KnownMapping(r.by.TenantID, play)
	if told, asked := r.mapped[n]; !known && asked {
		if told.Err != nil {
			return false, told.Err
		}
		window, known = told.Window, true
	}
	switch {
	case !known:
		play.Vendor, play.IDType, play.VendorID = strings.Clone(play.Vendor), strings.Clone(play.IDType), strings.Clone(play.VendorID)
		r.plays, r.asked, r.later = append(r.plays, play), append(r.asked, n), append(r.later, n)
		return false, nil
	case window == nil:
		r.results[n] = RowResult{Status: Unmapped, Held: r.held(w, n)}
		return false, nil
	}
	w.row.RightID, w.row.SpatialAnchorID = window.RightID, window.SpatialAnchorID
	if w.row.SpatialPlacementID == nil && window.SpatialPlacementID != "" {
		w.row.SpatialPlacementID = &window.SpatialPlacementID
	}
	return true, nil
}

// held is a row for control: it names its vendor itself.
func (r *batch) held(w *work, n int) *api.HeldRow {
	text := string(r.Rows[n].JSON)
	if w.row.defaulted {
		_, members, _ := strings.Cut(text, "{")
		vendor, _ := jsontext.AppendQuote(nil, w.row.vendor) // what is no UTF-8 becomes so
		text = `{"vendor":` + string(vendor) + "," + members
	}
	return &api.HeldRow{
		Identity: api.RowIdentity{Hash: strings.Clone(w.claim.text()), Day: string(w.day)},
		Vendor:   strings.Clone(w.row.vendor), IDType: strings.Clone(w.row.idType), VendorID: strings.Clone(w.row.vendorID),
		PlayedAt: w.row.played, Row: text,
	}
}

// appendPiece makes a piece durable.
func (r *batch) appendPiece(ctx context.Context, p *piece) error {
	if len(p.works) == 0 {
		return nil
	}
	records := make([]*sealer.Record, len(p.works))
	for k, w := range p.works {
		records[k] = &w.record
	}
	at, errs := r.cfg.Log.AppendAll(ctx, records)
	var lost error
	for k, w := range p.works {
		if r.settle(w, at[k], p.issued, errs[k]) != nil {
			lost = errBatchLost
			continue
		}
		r.results[p.of[k]] = RowResult{Status: Accepted, Event: slices.Clone(w.event)}
	}
	return lost
}

// compare gives rows their results that name the same play as another one of the batch, which
// is durable.
func (r *batch) compare(equal []int) {
	for _, n := range equal {
		hash, content := r.content(n)
		first := r.sealed[hash]
		if _, other := r.content(first); string(other) != string(content) {
			r.reject(n, errRowReused)
			continue
		}
		r.results[n] = RowResult{Status: Duplicate, Event: r.results[first].Event}
	}
}

// content is what a row says, which was read before.
func (r *batch) content(n int) (keyHash, []byte) {
	w := r.begin(r.by)
	defer r.end(w)
	r.enter(w)
	_ = w.readRow(r.Rows[n].JSON, r.Vendor) // it went well before
	return w.identify(), slices.Clone(w.body)
}

func (r *batch) reject(n int, err error) { r.results[n] = RowResult{Status: Rejected, Err: err} }

// await waits for what rows were left for. Nothing is held meanwhile that others could wait
// for.
func (r *batch) await(ctx context.Context) error {
	if len(r.plays) > 0 {
		if r.mapped == nil {
			r.mapped = map[int]snapshot.Mapped{}
		}
		for k, m := range r.cfg.Rights.Mappings(ctx, r.by.TenantID, r.plays) {
			r.mapped[r.asked[k]] = m
		}
		r.plays, r.asked = nil, nil
	}
	patience := time.NewTimer(r.cfg.IdempotencyWait)
	defer patience.Stop()
	for _, end := range r.ends {
		select {
		case <-end:
		case <-patience.C:
			return errRowsBusy
		case <-ctx.Done():
			return errRowsBusy
		}
	}
	r.ends = nil
	return nil
}
