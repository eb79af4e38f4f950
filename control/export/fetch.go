package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"muniment.example/control/analyst"
	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/remote"
	"muniment.example/sealer"
)

const (
	// silence is how long the service may send nothing.
	silence = 5 * time.Minute
	// rowsACommit is how many receipts become durable at once; eventsAPage how many events are.
	rowsACommit = 5000
	eventsAPage = 500
	// maxLine is the longest row that is read, maxRefusal the longest error.
	maxLine    = 1 << 20
	maxRefusal = 1 << 16
)

// broken is a transfer that has ended too early, or did not begin.
type broken struct{ err error }

func (b *broken) Error() string { return "the transfer broke: " + b.err.Error() }
func (b *broken) Unwrap() error { return b.err }

// errNotLoaded is temporary: each tenant has the event of its creation.
var errNotLoaded = errors.New("the service has loaded nothing of the tenant yet")

// again does something until it succeeds, fails for good, or has failed for RetryFor without progress.
func (r *run) again(ctx context.Context, do func() (progress bool, err error)) error {
	var began time.Time
	for attempt := 0; ; attempt++ {
		progress, err := do()
		if err == nil {
			return nil
		}
		var refused *remote.Refusal
		var cut *broken
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused) && refused.Passing() || errors.As(err, &cut) || errors.Is(err, errNotLoaded):
		default:
			return err
		}
		if progress || began.IsZero() {
			began, attempt = time.Now(), 0
		}
		left := r.cfg.RetryFor - time.Since(began)
		if left <= 0 {
			return fmt.Errorf("given up after %s, run the same command again to continue: %w", r.cfg.RetryFor, err)
		}
		p := r.progress
		p.Trouble = err.Error()
		r.report(p, true)
		if !remote.Wait(ctx, attempt, refused, left) {
			return fmt.Errorf("the service asks to wait for %s, which is longer than is left of %s; run the same command again then: %w", refused.After, r.cfg.RetryFor, err)
		}
	}
}

// answer is the body of an answer. A read of it fails once the service was silent too long.
type answer struct {
	io.ReadCloser
	timer *time.Timer
	end   context.CancelFunc
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.timer.Reset(silence)
	if err != nil && err != io.EOF {
		err = &broken{err}
	}
	return n, err
}

func (a *answer) Close() error {
	a.timer.Stop()
	a.end()
	return a.ReadCloser.Close()
}

// get calls an operation of the service.
func (r *run) get(ctx context.Context, path string, query url.Values) (*answer, http.Header, error) {
	ctx, end := context.WithCancel(ctx)
	timer := time.AfterFunc(silence, end)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path+"?"+query.Encode(), nil)
	if err != nil {
		end()
		return nil, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+r.cfg.Key)
	response, err := r.http.Do(request)
	if err != nil {
		timer.Stop()
		end()
		return nil, nil, &broken{err}
	}
	body := &answer{response.Body, timer, end}
	if response.StatusCode == http.StatusOK {
		return body, response.Header, nil
	}
	defer body.Close()
	text, _ := io.ReadAll(io.LimitReader(body, maxRefusal))
	return nil, nil, remote.ReadRefusal(response, text)
}

// ofTenant learns whose the key is, by the first event of its tenant.
func (r *run) ofTenant(ctx context.Context) error {
	list, err := r.list(ctx, url.Values{"order": {"asc"}, "limit": {"1"}})
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return errNotLoaded
	}
	e, err := sealer.ParseEvent(list[0].Event)
	if err != nil {
		return fmt.Errorf("the service sends an event that can't be read: %w", err)
	}
	r.tenant = e.TenantID
	return nil
}

// window are the parameters of the period.
func (r *run) window(query url.Values) url.Values {
	if r.cfg.From != "" {
		query.Set("from", r.cfg.From)
	}
	if r.cfg.To != "" {
		query.Set("to", r.cfg.To)
	}
	return query
}

// receipts reads the receipts, newest first, from where an earlier run ended.
func (r *run) receipts(ctx context.Context) (err error) {
	r.progress.Step = "reading"
	if r.progress.Receipts, err = r.work.count(ctx, analyst.Receipts.Name); err != nil {
		return err
	}
	if r.progress.Events, err = r.work.count(ctx, analyst.Events.Name); err != nil {
		return err
	}
	for r.work.state["receipts"] != done {
		err := r.again(ctx, func() (bool, error) { return r.stream(ctx) })
		if err != nil {
			return err
		}
	}
	return nil
}

// stream reads as many receipts as come. It returns without an error once there are no more.
func (r *run) stream(ctx context.Context) (progress bool, err error) {
	query := r.window(url.Values{"format": {"ndjson"}})
	if next := r.work.state["next"]; next != "" {
		query.Set("asOf", next)
	}
	body, header, err := r.get(ctx, "/v1/receipts", query)
	if err != nil {
		return false, err
	}
	defer body.Close()
	if r.work.state["asOf"] == "" {
		asOf := header.Get(route.HeaderAsOf)
		if _, err := sealer.ParsePosition(asOf); err != nil {
			return false, errors.New("the answer is not that of this operation: is the URL that of the service, and is it as new as this program?")
		}
		if err := r.work.commit(ctx, nil, map[string]string{"asOf": asOf, "next": asOf}); err != nil {
			return false, err
		}
	}
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	last, err := sealer.ParsePosition(r.work.state["next"])
	if err != nil {
		return false, err
	}
	var rows []receipt
	flush := func(and map[string]string) error {
		if len(rows) > 0 {
			if err := r.room(); err != nil {
				return err
			}
			and["next"] = last.String()
		}
		err := r.work.commit(ctx, rows, and)
		if n := len(rows); err == nil && n > 0 {
			progress = true
			r.report(Progress{Receipts: r.progress.Receipts + int64(n), Oldest: rows[n-1].RenderedAt}, false)
		}
		rows = rows[:0]
		return err
	}
	for lines.Scan() {
		var row receipt
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			if lines.Scan(); lines.Err() != nil { // the line was cut off
				if err := flush(map[string]string{}); err != nil {
					return progress, err
				}
				return progress, lines.Err()
			}
			return progress, fmt.Errorf("a row of the service can't be read: %w", err)
		}
		if err := row.check(&last, r.work.state["tenant"]); err != nil {
			return progress, err
		}
		if rows = append(rows, row); len(rows) == rowsACommit {
			if err := flush(map[string]string{}); err != nil {
				return progress, err
			}
		}
	}
	if lines.Err() != nil {
		if err := flush(map[string]string{}); err != nil {
			return progress, err
		}
		return progress, lines.Err()
	}
	return true, flush(map[string]string{"receipts": done})
}

// receipt is a row of the table of receipts, as the service sends it.
type receipt struct {
	TenantID           string `json:"tenant_id"`
	ReceiptID          string `json:"receipt_id"`
	EventID            string `json:"event_id"`
	RightID            string `json:"right_id"`
	RightRevision      int64  `json:"right_revision"`
	BasisID            string `json:"basis_id"`
	Substrate          string `json:"substrate"`
	RenderedAt         string `json:"rendered_at"`
	IssuedAt           string `json:"issued_at"`
	SigningKeyID       string `json:"signing_key_id"`
	Duplicate          bool   `json:"duplicate"`
	Metered            bool   `json:"metered"`
	Reason             string `json:"reason"`
	MeteringBasis      string `json:"metering_basis"`
	QuantityMs         int64  `json:"quantity_ms"`
	Impressions        string `json:"impressions"`
	Completion         string `json:"completion"`
	Generation         uint32 `json:"generation"`
	LogPartition       int32  `json:"log_partition"`
	Position           int64  `json:"position"`
	RecordedBasis      string `json:"recorded_basis"`
	RecordedReason     string `json:"recorded_reason"`
	Node               string `json:"node"`
	SpatialAnchorID    string `json:"spatial_anchor_id"`
	SpatialPlacementID string `json:"spatial_placement_id"`

	impressions int64
}

// check refuses a row that does not follow the one at last, which it moves, or is another tenant's. It
// brings times into the form of the working file.
func (c *receipt) check(last *sealer.Position, tenant string) (err error) {
	at := sealer.Position{Generation: c.Generation, Partition: c.LogPartition, Offset: c.Position}
	switch {
	case at.Partition != last.Partition || at.Compare(*last) >= 0:
		return fmt.Errorf("the service sends the receipt at %s behind that at %s", at, *last)
	case tenant != c.TenantID:
		return fmt.Errorf("the service sends the receipt at %s, of another tenant", at)
	}
	*last = at
	for _, t := range []*string{&c.RenderedAt, &c.IssuedAt} {
		if *t, err = stored(*t); err != nil {
			return err
		}
	}
	c.impressions, err = sealer.ParseImpressions(c.Impressions)
	return err
}

// stored is a time of the API as the working file has it: as SQLite's functions do, in UTC.
func stored(text string) (string, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return "", fmt.Errorf("the service sends %q for a time", text)
	}
	return t.UTC().Format(momentLayout), nil
}

// logged is an event of a list.
type logged struct {
	Position string          `json:"position"`
	Event    json.RawMessage `json:"event"`
}

// events reads the events of rights and rules, and the counts of refusals, oldest first.
func (r *run) events(ctx context.Context) error {
	for _, part := range []struct {
		name  string
		query url.Values
	}{
		{"events", url.Values{"type": {strings.Join(analyst.EventTypes, ",")}}},
		{"refusals", r.window(url.Values{"type": {sealer.TypeRefusals}})},
	} {
		for r.work.state[part.name] != done {
			err := r.again(ctx, func() (bool, error) { return r.page(ctx, part.name, part.query) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// list calls the operation that lists events.
func (r *run) list(ctx context.Context, query url.Values) ([]logged, error) {
	body, _, err := r.get(ctx, "/v1/events", query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var page api.Body[struct{ Events []logged }]
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, fmt.Errorf("a page of events can't be read (is the URL that of the service?): %w", err)
	}
	return page.Data.Events, nil
}

// page reads one page of events.
func (r *run) page(ctx context.Context, name string, query url.Values) (progress bool, err error) {
	query.Set("order", "asc")
	query.Set("asOf", r.work.state["asOf"])
	query.Set("limit", strconv.Itoa(eventsAPage))
	if after := r.work.state[name]; after != "" {
		query.Set("after", after)
	}
	list, err := r.list(ctx, query)
	if err != nil {
		return false, err
	}
	if err := r.room(); err != nil {
		return false, err
	}
	and := map[string]string{}
	if len(list) < eventsAPage {
		and[name] = done
	} else {
		and[name] = list[len(list)-1].Position
	}
	if err := r.work.commitEvents(ctx, list, and); err != nil {
		return false, err
	}
	if name == "events" {
		r.report(Progress{Events: r.progress.Events + int64(len(list)), Oldest: r.progress.Oldest}, false)
	}
	return true, nil
}
