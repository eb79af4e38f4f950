package load

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"muniment.example/pipeline"
)

// The good traffic beside which abuse is measured: fine enough that a window has a p99, and far from what
// the machine can do, so that its latency is the server's and not its own queue.
const (
	GoodConnections = 8
	GoodPerSecond   = 400
)

// Requests are whole HTTP requests that deliver bodies.
func Requests(key string, bodies [][]byte) [][]byte {
	all := make([][]byte, len(bodies))
	for i, body := range bodies {
		all[i] = fmt.Appendf(nil, "POST /v1/delivery HTTP/1.1\r\nHost: muniment\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
	}
	return all
}

// Steady sends requests at fixed times, whether or not the last were answered in
// time, and returns how long each answer took from the time at which its request
// was due. Any answer but 200 is an error.
func Steady(ctx context.Context, addr string, requests [][]byte, connections, perSecond int, during time.Duration) ([]time.Duration, error) {
	period := time.Second * time.Duration(connections) / time.Duration(perSecond)
	begin := time.Now().Add(50 * time.Millisecond)
	end := begin.Add(during)
	var mu sync.Mutex
	var all []time.Duration
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clients := make([]*Exchange, connections)
	for i := range clients {
		x, err := Dial(addr, end.Add(unanswered))
		if err != nil {
			return nil, err
		}
		defer x.Conn.Close()
		clients[i] = x
	}
	var sending sync.WaitGroup
	for i, x := range clients {
		sending.Go(func() {
			var own []time.Duration
			answered := begin
			due := begin.Add(period * time.Duration(i) / time.Duration(connections))
			for n := i; due.Before(end); n, due = n+1, due.Add(period) {
				from := due
				if answered.Before(due) {
					if pipeline.Pause(ctx, time.Until(due)) != nil {
						return
					}
					from = time.Now() // that this client wakes late is not the server's fault
				}
				status, err := x.Send(requests[n%len(requests)])
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("answered %d", status)
				}
				if err != nil {
					cancel(err)
					return
				}
				answered = time.Now()
				own = append(own, answered.Sub(from))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	sending.Wait()
	return all, context.Cause(ctx)
}
