package systemtest

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

	"muniment.example/bench/load"
	"muniment.example/bench/system"
	"muniment.example/bench/waittest"
)

// Stream is load without an end.
type Stream struct {
	t        *testing.T
	enough   atomic.Bool
	answered atomic.Int64
	running  sync.WaitGroup
	answers  []load.Answer // once it has run
}

// StartLoad has 16 clients deliver: each at once again in the long form of a test, after a
// pause in the short one.
func StartLoad(t *testing.T, client system.Client, rights map[string]string) *Stream {
	ctx, cancel := context.WithCancel(t.Context())
	s := &Stream{t: t}
	t.Cleanup(func() { cancel(); s.running.Wait() })
	s.running.Go(func() {
		for round := 0; !s.enough.Load(); round++ {
			deliveries, err := load.Deliveries(Times(100, 500), uint64(round), load.Profiles(), rights)
			if err != nil {
				t.Error(err)
				return
			}
			posting := &load.Load{
				Addrs: []string{HostPort(client.API)}, Key: client.Key, Clients: 16, Name: fmt.Sprintf("round-%d", round), Deliveries: deliveries,
				Pause: time.Duration(Times(10, 0)) * time.Millisecond, Answered: func(int) { s.answered.Add(1) },
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

// Await waits for n more answers.
func (s *Stream) Await(n int) {
	s.t.Helper()
	target := s.answered.Load() + int64(n)
	waittest.Until(s.t, func() bool { return s.answered.Load() >= target })
}

func (s *Stream) End() []load.Answer {
	s.enough.Store(true)
	s.running.Wait()
	return s.answers
}

// Callers deliver, each on a connection that it keeps, and remember the responses.
type Callers struct {
	t       *testing.T
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	Answers []Answer
}

type Answer struct {
	sent    time.Time
	kind    string // status and reason, or why there is none
	Receipt string // id of one that was acknowledged
}

// StartCallers has n callers deliver on a right through an address, until they are ended.
func StartCallers(t *testing.T, n int, url, key, rightID string) *Callers {
	ctx, cancel := context.WithCancel(t.Context())
	c := &Callers{t: t, cancel: cancel}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: time.Minute}
	t.Cleanup(func() { c.End(); client.CloseIdleConnections() })
	body := Delivery(rightID)
	for range n {
		c.running.Go(func() {
			for ctx.Err() == nil {
				a := Answer{sent: time.Now()}
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
					a.kind, a.Receipt = strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", said.Reason)), said.Data.Receipt.ReceiptID
				}
				if err != nil {
					a.kind = "no answer: " + err.Error()
				}
				c.mu.Lock()
				c.Answers = append(c.Answers, a)
				c.mu.Unlock()
			}
		})
	}
	return c
}

// Since counts the answers to requests sent after a moment, by their kind.
func (c *Callers) Since(at time.Time) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := map[string]int{}
	for _, a := range c.Answers {
		if a.sent.After(at) {
			n[a.kind]++
		}
	}
	return n
}

// Await waits until a request that is sent from now on is answered so, and returns how long
// that took.
func (c *Callers) Await(kind string) time.Duration {
	c.t.Helper()
	began := time.Now()
	waittest.Until(c.t, func() bool { return c.Since(began)[kind] > 0 }, "no answer %s", kind)
	return time.Since(began)
}

// More waits until so many further answers have come.
func (c *Callers) More(n int) {
	c.t.Helper()
	have := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.Answers) }
	target := have() + n
	waittest.Until(c.t, func() bool { return have() >= target })
}

func (c *Callers) End() {
	c.cancel()
	c.running.Wait()
}
