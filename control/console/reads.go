package console

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"muniment.example/gateway/api"
)

// readPatience is how long a page waits, all its reads together, while a tenant has too many requests in flight.
const readPatience = 5 * time.Second

// read reads from an operation like do, patiently: within readPatience and the time of ctx.
func (p *page) read(ctx context.Context, target string, out any) error {
	return patiently(ctx, p.patientUntil, func() (http.Header, error) {
		var got response
		if err := p.s.cfg.Serve(&got, ctx, p.Session.Caller, http.MethodGet, target); err != nil {
			return nil, err
		}
		return got.Header(), decode(max(got.status, http.StatusOK), got.body.Bytes(), out)
	})
}

// patiently makes a request, and makes it again after the Retry-After of its response's header while it is refused as RATE_LIMITED,
// unless that would be after until. It ends with ctx.
func patiently(ctx context.Context, until func() time.Time, request func() (http.Header, error)) error {
	for {
		header, err := request()
		if !isBusy(err) {
			return err
		}
		seconds, malformed := strconv.Atoi(header.Get("Retry-After"))
		wait := time.Duration(max(1, seconds)) * time.Second
		if malformed != nil || time.Now().Add(wait).After(until()) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// patientUntil is when the page's patience ends, which begins with the first call.
func (p *page) patientUntil() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.patience.IsZero() {
		p.patience = time.Now().Add(readPatience)
	}
	return p.patience
}

// moneyWait is how long a page waits for money.
const moneyWait = 2 * time.Second

// waited reads what takes longer the more plays there are. The page waits for it moneyWait at most, unless its address says to
// wait; later says that it takes longer.
func (p *page) waited(read func(context.Context) error) (later bool, err error) {
	ctx := p.r.Context()
	if p.r.URL.Query().Get("wait") == "" {
		limited, cancel := context.WithTimeout(ctx, moneyWait)
		defer cancel()
		ctx = limited
	}
	err = read(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && p.r.Context().Err() == nil {
		return true, nil
	}
	return false, err
}

// Waiting is the address of the page that waits.
func (p *page) Waiting() string {
	query := p.r.URL.Query()
	query.Set("wait", "yes")
	return addressed(p.Path, query)
}

// panel is a read for one panel of a page. If a tenant has too many requests in flight even after the page's patience,
// later is set, so that the panel says so, and the page is there without it.
func (p *page) panel(later *bool, read func() error) func() error {
	return func() error {
		err := read()
		if !isBusy(err) {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		*later = true
		return nil
	}
}

// isBusy reports whether an error is that of too many requests.
func isBusy(err error) bool {
	e := asProblem(err)
	return e != nil && e.Code == api.RateLimited
}

// response is a response of an operation in memory.
type response struct {
	header http.Header
	status int // 0: not written yet
	body   bytes.Buffer
}

func (r *response) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *response) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *response) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}
