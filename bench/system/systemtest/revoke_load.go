package systemtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muniment.example/bench/waittest"
)

// RevokedRight is a right that is revoked in the middle of the deliveries on it.
type RevokedRight struct {
	Id           string
	Acknowledged time.Time     // by our clock, once done is closed
	Done         chan struct{} // closed when the revocation was answered

	// Under the attempts' mutex.
	Receipts int // answered
	Late     int // answers to what was begun after the acknowledgement
}

// Attempt is a delivery that was sent, answered or not.
type Attempt struct {
	On     *RevokedRight
	Begun  time.Time
	Status int // 0 without an answer
	Answer []byte
}

// Attempts are all of them; a delivery's correlationId is its number here.
type Attempts struct {
	mu  sync.Mutex
	All []Attempt
}

func (a *Attempts) begin(on *RevokedRight) (number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.All = append(a.All, Attempt{On: on, Begun: time.Now()})
	return len(a.All) - 1
}

func (a *Attempts) end(number, status int, answer []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := &a.All[number]
	x.Status, x.Answer = status, answer
	if status == http.StatusOK {
		x.On.Receipts++
	}
	select {
	case <-x.On.Done:
		if x.Begun.After(x.On.Acknowledged) {
			x.On.Late++
		}
	default:
	}
}

// Until waits until enough was answered on a right.
func (a *Attempts) Until(t *testing.T, what string, enough int, of *int) {
	t.Helper()
	waittest.Until(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return *of >= enough
	}, "too few %s", what)
}

// Pace delivers on the right of the moment, every so often from a first moment on, and
// once more as soon as the right is revoked, until ctx is done.
func (s *Service) Pace(ctx context.Context, client *http.Client, first, every time.Duration, now *atomic.Pointer[RevokedRight], tried *Attempts) {
	next := time.Now().Add(first)
	due := time.NewTimer(first)
	defer due.Stop()
	var rushed *RevokedRight // that was delivered on since its revocation
	for {
		on := now.Load()
		revoked := on.Done
		if rushed == on {
			revoked = nil
		}
		select {
		case <-due.C:
			next = next.Add(every)
			due.Reset(time.Until(next))
		case <-revoked:
			rushed = on
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // also where a tick was due at the same time
			return
		}
		number := tried.begin(on)
		body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200,"correlationId":"%d"}`, on.Id, number)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.Client.API+"/v1/delivery", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+s.Client.Key)
		resp, err := client.Do(req)
		if err != nil {
			continue
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil {
			tried.end(number, resp.StatusCode, answer)
		}
	}
}
