// Package load makes tenants and sends their deliveries over real sockets: the traffic of ten
// substrates (Profiles), clients that keep every answer (Load), a closed loop that costs
// little CPU (Pressure), and requests at fixed times (Steady).
//
// Load is bounded by the number of deliveries, or by time.
package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Load posts deliveries from concurrent clients and keeps every answer. A
// delivery that gets no answer, a 429 or a 503 is sent again, byte for byte and
// with the same idempotency key, until it is answered or ctx ends.
type Load struct {
	// Addrs are the hosts and ports of the servers: a client stays with one of them,
	// which alone remembers what it has answered.
	Addrs []string
	// TLS is spoken with them; nil is plain HTTP.
	TLS *tls.Config
	// Key is the API key.
	Key     string
	Clients int
	// Name makes the idempotency keys: "<Name>-<index>".
	Name       string
	Deliveries []Delivery
	// Pause is how long a client waits between two deliveries.
	Pause time.Duration
	// Every, if set, is how far apart the deliveries of a client are due, however long it
	// waited for their answers: one that is late is sent at once. Clients alternate.
	Every time.Duration
	// Again, if set, has one delivery in so many sent once more after a 200, byte for byte and
	// with the same idempotency key, to the next of Addrs: as a client does that lost the
	// answer. That server knows nothing of the first, and makes a receipt of its own.
	Again int
	// Stop, if set, ends the load early when it is closed: no further delivery is begun.
	Stop <-chan struct{}
	// Refused, if set, is called with each answer after which a delivery is sent again,
	// from many goroutines. retryAfter is that header, "" if it was missing.
	Refused func(status int, retryAfter string)
	// Answered, if set, is called after each answer with the number of answers so
	// far, from many goroutines.
	Answered func(n int)
}

// Answer is what a delivery was answered at last.
type Answer struct {
	Status int
	Body   []byte
	// Client is the number of the one who sent it, from 0. It was answered before the
	// client's next delivery was begun.
	Client int
	// Latency of the attempt that was answered.
	Latency time.Duration
	// Attempts counts the requests that were sent, the answered one included.
	Attempts int
	// Replayed says that an earlier attempt had been recorded and its answer was
	// given again.
	Replayed bool
	// Again is what another server answered to the same delivery; nil if it was sent to one server.
	Again *Answer
}

// retryPause is how long a client waits before it sends an unanswered delivery again.
const retryPause = 10 * time.Millisecond

// Run posts every delivery and returns the answers in the order of the
// deliveries, those that were begun if it was stopped. It fails only if ctx ends
// first; the answers so far are returned with the error, an unanswered delivery
// having status 0.
func (l *Load) Run(ctx context.Context) ([]Answer, error) {
	answers := make([]Answer, len(l.Deliveries))
	var next, done atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for number := range l.Clients {
		clients.Go(func() {
			client, other := l.client(number), l.client(number+1)
			defer client.CloseIdleConnections()
			defer other.CloseIdleConnections()
			due := began.Add(l.Every * time.Duration(number) / time.Duration(l.Clients))
			for l.await(ctx, due) {
				i := int(next.Add(1)) - 1
				if i >= len(l.Deliveries) {
					return
				}
				answers[i] = l.post(ctx, client, i)
				if answers[i].Client = number; answers[i].Status == 0 {
					return
				}
				if l.Again > 0 && i%l.Again == 0 && answers[i].Status == fasthttp.StatusOK {
					again := l.post(ctx, other, i)
					if again.Status == 0 {
						return
					}
					answers[i].Again = &again
				}
				due = due.Add(l.Every)
				if n := done.Add(1); l.Answered != nil {
					l.Answered(int(n))
				}
				if l.Pause > 0 {
					due = time.Now().Add(l.Pause)
				}
			}
		})
	}
	clients.Wait()
	want := len(answers)
	answers = answers[:min(int(next.Load()), want)]
	if l.stopped() {
		want = len(answers)
	}
	if int(done.Load()) < want {
		return answers, fmt.Errorf("only %d of %d deliveries were answered: %w", done.Load(), want, context.Cause(ctx))
	}
	return answers, nil
}

// client is the connection of a client to a server.
func (l *Load) client(number int) *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr: l.Addrs[number%len(l.Addrs)], IsTLS: l.TLS != nil, TLSConfig: l.TLS, MaxConns: 1, RetryIfErr: neverRetry,
		ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
		NoDefaultUserAgentHeader: true, DisablePathNormalizing: true,
	}
}

// await waits until a delivery is due; false when none is to be begun any more.
func (l *Load) await(ctx context.Context, due time.Time) bool {
	if left := time.Until(due); left > 0 {
		select {
		case <-time.After(left):
		case <-l.Stop:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil && !l.stopped()
}

func (l *Load) stopped() bool {
	select {
	case <-l.Stop: // never, if it is nil
		return true
	default:
		return false
	}
}

// neverRetry keeps the client from sending a delivery again by itself: attempts
// are counted here.
func neverRetry(*fasthttp.Request, int, error) (resetTimeout, retry bool) { return false, false }

func (l *Load) post(ctx context.Context, client *fasthttp.HostClient, i int) Answer {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(fasthttp.MethodPost)
	scheme := "http://"
	if client.IsTLS {
		scheme = "https://"
	}
	req.SetRequestURI(scheme + client.Addr + "/v1/delivery")
	req.Header.Set("Authorization", "Bearer "+l.Key)
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", l.Name, i))
	req.Header.SetContentType("application/json")
	req.SetBodyRaw(l.Deliveries[i].Body)
	for attempt := 1; ; attempt++ {
		start := time.Now()
		err := client.Do(req, resp)
		if err == nil && resp.StatusCode() != fasthttp.StatusServiceUnavailable && resp.StatusCode() != fasthttp.StatusTooManyRequests {
			return Answer{
				Status: resp.StatusCode(), Body: slices.Clone(resp.Body()), Latency: time.Since(start), Attempts: attempt,
				Replayed: len(resp.Header.Peek("Idempotent-Replayed")) > 0,
			}
		}
		if err == nil && l.Refused != nil {
			l.Refused(resp.StatusCode(), string(resp.Header.Peek("Retry-After")))
		}
		select {
		case <-ctx.Done():
			return Answer{Attempts: attempt}
		case <-time.After(retryPause):
		}
	}
}
