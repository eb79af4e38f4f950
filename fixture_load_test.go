package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muniment/bench/load"
	"muniment/bench/system"
)

// stream is load without an end.
type stream struct {
	t        *testing.T
	enough   atomic.Bool
	answered atomic.Int64
	running  sync.WaitGroup
	answers  []load.Answer // once it has run
}

// startLoad has 16 clients deliver: each at once again in the long form of a test, after a
// pause in the short one.
func startLoad(t *testing.T, client system.Client, rights map[string]string) *stream {
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{t: t}
	t.Cleanup(func() { cancel(); s.running.Wait() })
	s.running.Go(func() {
		for round := 0; !s.enough.Load(); round++ {
			deliveries, err := load.Deliveries(times(100, 500), uint64(round), load.Profiles(), rights)
			if err != nil {
				t.Error(err)
				return
			}
			posting := &load.Load{
				Addrs: []string{hostPort(client.API)}, Key: client.Key, Clients: 16, Name: fmt.Sprintf("round-%d", round), Deliveries: deliveries,
				Pause: time.Duration(times(10, 0)) * time.Millisecond, Answered: func(int) { s.answered.Add(1) },
			}
			answers, err := posting.Run(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			s.answers = append(s.answers, answers...)
		}
	})
	return s
}

// await waits for n more answers.
func (s *stream) await(n int) {
	s.t.Helper()
	target := s.answered.Load() + int64(n)
	until(s.t, func() bool { return s.answered.Load() >= target })
}

func (s *stream) end() []load.Answer {
	s.enough.Store(true)
	s.running.Wait()
	return s.answers
}

// callers deliver, each on a connection that it keeps, and remember the responses.
type callers struct {
	t       *testing.T
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	answers []answer
}

type answer struct {
	sent    time.Time
	kind    string // status and reason, or why there is none
	receipt string // id of one that was acknowledged
}

// startCallers has n callers deliver on a right through an address, until they are ended.
func startCallers(t *testing.T, n int, url, key, rightID string) *callers {
	ctx, cancel := context.WithCancel(t.Context())
	c := &callers{t: t, cancel: cancel}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: time.Minute}
	t.Cleanup(func() { c.end(); client.CloseIdleConnections() })
	body := delivery(rightID)
	for range n {
		c.running.Go(func() {
			for ctx.Err() == nil {
				a := answer{sent: time.Now()}
				req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, url+"/v1/delivery", strings.NewReader(body))
				req.Header.Set("Authorization", "Bearer "+key)
				resp, err := client.Do(req)
				if err == nil {
					var said struct {
						Reason string
						Data   struct{ Receipt struct{ ReceiptID string } }
					}
					err = json.NewDecoder(resp.Body).Decode(&said)
					resp.Body.Close()
					a.kind, a.receipt = strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", said.Reason)), said.Data.Receipt.ReceiptID
				}
				if err != nil {
					a.kind = "no answer: " + err.Error()
				}
				c.mu.Lock()
				c.answers = append(c.answers, a)
				c.mu.Unlock()
			}
		})
	}
	return c
}

// since counts the answers to requests sent after a moment, by their kind.
func (c *callers) since(at time.Time) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := map[string]int{}
	for _, a := range c.answers {
		if a.sent.After(at) {
			n[a.kind]++
		}
	}
	return n
}

// await waits until a request that is sent from now on is answered so, and returns how long
// that took.
func (c *callers) await(kind string, limit time.Duration) time.Duration {
	c.t.Helper()
	began := time.Now()
	untilAtMost(c.t, limit, func() bool { return c.since(began)[kind] > 0 }, "no answer %s", kind)
	return time.Since(began)
}

// more waits until so many further answers have come.
func (c *callers) more(n int) {
	c.t.Helper()
	have := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.answers) }
	target := have() + n
	untilAtMost(c.t, 2*time.Minute, func() bool { return have() >= target })
}

func (c *callers) end() {
	c.cancel()
	c.running.Wait()
}
