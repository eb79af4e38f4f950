package issue

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/idempotency"
	"muniment.example/gateway/snapshot"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
)

// MostRows is how many rows a batch has at most.
const MostRows = 1000

const (
	// pieceRows is how many rows of a batch are admitted, signed and appended at a time, and
	// pieceBytes how many bytes of their records: what is appended together delays the next
	// delivery. With 128 rows one in a hundred single deliveries took half as long again; with
	// 32 a row cost a tenth more.
	pieceRows  = 64
	pieceBytes = 256 << 10
	// mostRecord is more than the record of a row can have: a piece ends where the next one
	// might not fit. Its texts are within their bounds, each byte of them six at most.
	mostRecord = 48 << 10
	// batchTimeouts is how many of Config.Timeout a batch may take.
	batchTimeouts = 2
)

// Batch is the rows of one request. The issuer keeps none of it once IssueRows returns.
type Batch struct {
	// Vendor is that of rows which name none.
	Vendor string
	// Rows are at most MostRows.
	Rows []Row
	// Admit, if it is set, is called before rows are issued. Of so many it grants some, at least
	// one; leave is called when these are durable or given up.
	Admit func(rows int) (granted int, leave func())
	// IdempotencyKey is looked at if HasKey is true: two batches of a tenant with one key are
	// issued one after the other. The rows' identities, and not the key, make a retry repeat the
	// first answers.
	IdempotencyKey []byte
	HasKey         bool
	// Span is the request's; nil: it is not traced.
	Span *trace.Span
}

// Row is one row.
type Row struct {
	// JSON is its text.
	JSON []byte
	// Refused, if set, is why there is no JSON: it is the row's result.
	Refused *api.Error
	// Identity, if set, is the row's identity, whatever its fields are: of a row that was held. An erasure
	// may have removed what the identity was made of.
	Identity *api.RowIdentity
}

// Unreadable is why a row is rejected whatever it says, if it is: for those who send rows on.
func (r *Row) Unreadable() *api.Error {
	if r.Refused == nil && len(r.JSON) > maxRow {
		return errRowTooLong
	}
	return r.Refused
}

// RowStatus is the outcome of a row.
type RowStatus uint8

const (
	// Accepted: its receipt is durable.
	Accepted RowStatus = iota
	// Duplicate: the play was delivered before, and Event is the first one's; or an equal row of
	// the batch is Unmapped or Held.
	Duplicate
	// Rejected: no receipt was signed.
	Rejected
	// Unmapped: the vendor's id has no mapping at the time of the play.
	Unmapped
	// Held: the right was in force at the time of the play, and is suspended now.
	Held
	// RowStatuses is how many there are.
	RowStatuses
)

// String is the status in answers.
func (s RowStatus) String() string {
	return [RowStatuses]string{"accepted", "duplicate", "rejected", "unmapped", "held"}[s]
}

// ParseRowStatus reads a status as String writes it.
func ParseRowStatus(text string) (RowStatus, error) {
	for s := range RowStatuses {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%q is no status of a row", text)
}

// RowResult is the result of a row.
type RowResult struct {
	Status RowStatus
	// Event is the text of its event, in which the receipt stands (sealer.SplitDelivery), if it
	// is Accepted or a Duplicate. It is durable, and the caller's. A Duplicate of an Unmapped or Held
	// row has none.
	Event []byte
	// First is the number of that row, which says what becomes of both.
	First int
	// Err is why it was Rejected: an error as Issue returns it, but of this row alone, a 503
	// included.
	Err error
	// Held is what control is to hold, if it is Unmapped or Held.
	Held *api.HeldRow
}

var (
	errBatchSlow = api.Unavailable(api.Overloaded, "the batch took too long: some of its rows may be delivered; send it again, and they are duplicates", time.Second)
	errRowsBusy  = api.Unavailable(api.Overloaded, "rows of the batch are being delivered by another request; send it again", time.Second)
	errBatchLost = api.Unavailable(api.LogUnavailable, "some rows could not be made durable; send the batch again: those that were are duplicates", time.Second)
	errLater     = errors.New("the row waits for something") // never returned to a caller
	errAhead     = api.InvalidField(fieldPlayed, "is more than 5 minutes ahead of this node's clock")
	errEndsAhead = api.InvalidField(fieldDwell, "ends the play more than 5 minutes ahead of this node's clock")
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
	r := &batch{Issuer: i, Batch: b, by: by, results: make([]RowResult, len(b.Rows)), sealed: make(map[idempotency.Hash]int, len(b.Rows)), rights: snapshot.RightsRead{}, moments: snapshot.Moments{}, waiting: map[idempotency.Hash]bool{}, unmapped: map[idempotency.Hash]int{}}
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
		clear(r.waiting)
	}
}

// batch is a Batch while it is issued.
type batch struct {
	*Issuer
	*Batch
	by      Caller
	results []RowResult
	// sealed are the rows that were signed, by their identities.
	sealed map[idempotency.Hash]int
	// unmapped are those that are to be held.
	unmapped map[idempotency.Hash]int

	// later are rows that wait before they can be decided: for the end of a request that claims
	// their identity, or for mappings, rights or their histories from control. The batch holds no claim, key or
	// reservation while it waits.
	later   []int
	waiting map[idempotency.Hash]bool // their identities
	ends    []<-chan struct{}
	played  []int // the rows of plays
	plays   []snapshot.VendorPlay
	// mapped is control's answers, by row.
	mapped map[int]snapshot.Mapped
	unread []string // rights
	rights snapshot.RightsRead
	// unknown are moments in the histories of rights.
	unknown []api.RightMoment
	moments snapshot.Moments
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
		granted, leave := r.Admit(len(open))
		defer leave()
		open = open[:granted]
	}
	if err := r.batchLimits.reserve(ctx); err != nil {
		return 0, err
	}
	defer r.batchLimits.release()
	// The signing key is held to the end; a rotation or revocation of it waits for that.
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()

	var p piece
	defer func() {
		for _, w := range p.works {
			w.claim.Free()
			r.end(w)
		}
		if p.release != nil {
			p.release()
		}
	}()
	err = r.batchLimits.sign(ctx, func() (err error) {
		taken, err = r.sealPiece(ctx, &p, open)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := r.appendPiece(ctx, &p); err != nil {
		return 0, err
	}
	r.compare(p.equal)
	return taken, nil
}

// sealPiece decides and signs what fits into a piece.
func (r *batch) sealPiece(ctx context.Context, p *piece, open []int) (taken int, err error) {
	r.cfg.Admit(ctx, len(open)) // here, so that only batches that have a signer queue before single deliveries
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

// row prepares a row for the append, or sets its result, or leaves it for later. An error fails
// the whole batch.
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
			w.claim.Free()
			r.end(w)
		}
	}()
	if err := w.readRow(r.Rows[n].JSON, r.Vendor); err != nil {
		r.reject(n, err)
		return nil
	}
	h, err := w.identify(&r.Rows[n])
	if err != nil {
		r.reject(n, err)
		return nil
	}
	if _, known := r.sealed[h]; known {
		p.equal = append(p.equal, n)
		return nil
	}
	if r.waiting[h] { // rows of one identity are decided in their order
		r.later = append(r.later, n)
		return nil
	}
	if first, isHeld := r.unmapped[h]; isHeld {
		if _, content := r.content(first); string(content) == string(w.content) {
			r.results[n] = RowResult{Status: Duplicate, First: first}
			return nil
		}
	}
	event, end, err := r.earlier(ctx, w, &h)
	switch {
	case end != nil:
		r.ends = append(r.ends, end)
		err = errLater
	case event != nil:
		r.results[n] = RowResult{Status: Duplicate, Event: event}
		return nil
	case err == api.ErrKeyReused:
		err = errRowReused
	case err == nil && p.refuse != nil:
		return p.refuse
	case err == nil:
		sealed, err = r.sealRow(p, w, n)
	}
	switch {
	case err == errLater:
		r.later, r.waiting[h] = append(r.later, n), true
	case err != nil:
		r.reject(n, err)
	case r.results[n].Held != nil:
		r.unmapped[h] = n
	}
	if sealed {
		r.sealed[h] = n
		p.bytes += len(w.record.Event) + len(w.record.Private)
	}
	return nil
}

// sealRow decides a row whose identity is claimed, and signs it if it may be.
func (r *batch) sealRow(p *piece, w *work, n int) (sealed bool, err error) {
	rendered := w.row.played
	latest := p.issued.Add(api.MostAhead)
	switch {
	case rendered.After(latest):
		return false, errAhead
	case w.row.DwellMs > float64(latest.Sub(rendered))/float64(time.Millisecond):
		return false, errEndsAhead
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
	right, known, err := r.cfg.Rights.KnownRight(r.by.TenantID, w.row.RightID, r.rights)
	switch {
	case err != nil:
		return false, err
	case !known:
		r.unread = append(r.unread, strings.Clone(w.row.RightID))
		return false, errLater
	}
	w.right = right
	issued := p.issued
	if w.row.played.After(issued) { // by a device whose clock is ahead, or this node's is behind
		if rendered, err = r.cfg.Rights.NotBefore(right, issued); err != nil {
			return false, err
		}
		if rendered.After(w.row.played) {
			rendered = w.row.played
		}
		issued = rendered
	}
	switch suspended, unknown, err := r.cfg.Rights.Permits(right, rendered, r.moments); {
	case err != nil:
		return false, err
	case len(unknown) > 0:
		r.unknown = append(r.unknown, unknown...)
		return false, errLater
	case suspended:
		r.results[n] = RowResult{Status: Held, Held: r.held(w, n, api.HeldRightSuspended)}
		return false, nil
	}
	err = r.prepare(w, p.signer, rendered, issued)
	return err == nil, err
}

// mapping fills in what the vendor's id of a row stands for. If the mapping must be requested
// from control the row is left for later, and if there is none the row is unmapped.
func (r *batch) mapping(w *work, n int, at time.Time) (mapped bool, err error) {
	play := snapshot.VendorPlay{Vendor: w.row.vendor, IDType: w.row.idType, VendorID: w.row.vendorID, At: at}
	window, known := r.cfg.Rights.KnownMapping(r.by.TenantID, play)
	if m, received := r.mapped[n]; !known && received {
		if m.Err != nil {
			return false, m.Err
		}
		window, known = m.Window, true
	}
	switch {
	case !known:
		play.Vendor, play.IDType, play.VendorID = strings.Clone(play.Vendor), strings.Clone(play.IDType), strings.Clone(play.VendorID)
		r.plays, r.played = append(r.plays, play), append(r.played, n)
		return false, errLater
	case window == nil:
		r.results[n] = RowResult{Status: Unmapped, Held: r.held(w, n, api.HeldUnmapped)}
		return false, nil
	}
	w.row.RightID, w.row.SpatialAnchorID = window.RightID, window.SpatialAnchorID
	if w.row.SpatialPlacementID == nil && window.SpatialPlacementID != "" {
		w.row.SpatialPlacementID = &window.SpatialPlacementID
	}
	return true, nil
}

// held is a row for control.
func (r *batch) held(w *work, n int, reason api.HeldReason) *api.HeldRow {
	content := sha256.Sum256(w.body)
	h := &api.HeldRow{
		Identity: api.RowIdentity{Hash: strings.Clone(w.claim.Text()), Day: string(w.day)}, Reason: reason,
		Vendor: strings.Clone(w.row.vendor), IDType: strings.Clone(w.row.idType), VendorID: strings.Clone(w.row.vendorID),
		PlayedAt: w.row.played, Content: base64.RawURLEncoding.EncodeToString(content[:]), Row: string(r.Rows[n].JSON),
	}
	if reason == api.HeldRightSuspended {
		h.RightID = strings.Clone(w.row.RightID)
	}
	return h
}

// appendPiece makes a piece durable.
func (r *batch) appendPiece(ctx context.Context, p *piece) error {
	if len(p.works) == 0 {
		return nil
	}
	records := make([]*sealer.Record, len(p.works))
	for k, w := range p.works {
		records[k], w.record.Traceparent = &w.record, ""
	}
	// One record carries the trace of a piece to the loader: a thousand spans of a batch would say the same.
	appended := r.Span.Child(trace.Producer, appendSpan)
	records[0].Traceparent = appended.Traceparent()
	at, errs := r.cfg.Log.AppendAll(ctx, records)
	var lost error
	for k, w := range p.works {
		if r.settle(w, at[k], p.issued, errs[k]) != nil {
			lost = errBatchLost
			continue
		}
		r.results[p.of[k]] = RowResult{Status: Accepted, Event: slices.Clone(w.event)}
	}
	if appended != nil && lost == nil {
		appended.Set("muniment.event.id", records[0].EventID)
		appended.SetInt("muniment.batch.records", int64(len(records)))
		appended.End()
	}
	return lost
}

// compare sets the results of rows that are the same play as another row of the batch, which is
// durable.
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

// content returns the identity and content of a row that was read before.
func (r *batch) content(n int) (idempotency.Hash, []byte) {
	w := r.begin(r.by)
	defer r.end(w)
	r.enter(w)
	_ = w.readRow(r.Rows[n].JSON, r.Vendor) // it went well before
	hash, _ := w.identify(&r.Rows[n])
	return hash, slices.Clone(w.body)
}

func (r *batch) reject(n int, err error) { r.results[n] = RowResult{Status: Rejected, Err: err} }

// await waits for what rows were left for. The batch holds nothing then that others could wait
// for.
func (r *batch) await(ctx context.Context) error {
	if len(r.plays) > 0 {
		if r.mapped == nil {
			r.mapped = map[int]snapshot.Mapped{}
		}
		for k, m := range r.cfg.Rights.Mappings(ctx, r.by.TenantID, r.plays) {
			r.mapped[r.played[k]] = m
		}
		r.plays, r.played = nil, nil
	}
	if len(r.unread) > 0 {
		r.cfg.Rights.ReadRights(ctx, r.unread, r.rights)
		r.unread = nil
	}
	if len(r.unknown) > 0 {
		r.cfg.Rights.ReadMoments(ctx, r.unknown, r.moments)
		r.unknown = nil
	}
	timeout := time.NewTimer(r.cfg.IdempotencyWait)
	defer timeout.Stop()
	for _, end := range r.ends {
		select {
		case <-end:
		case <-timeout.C:
			return errRowsBusy
		case <-ctx.Done():
			return errRowsBusy
		}
	}
	r.ends = nil
	return nil
}
