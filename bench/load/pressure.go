package load

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"muniment.example/pipeline"
)

// Pressure is a closed loop: each connection sends its next delivery as soon as
// the last one was answered. It does little but system calls, because it shares
// the machine with the server that it measures.
type Pressure struct {
	Addr        string
	Senders     []Sender // connections use them round robin
	Connections int
	Rows        int // of each batch; 0: single deliveries
	// Answers count from warm after the start on, for the given time, or until one of each
	// connection has counted.
	Warm, During time.Duration
	// Begin and End, if set, are called at both ends of that time.
	Begin, End func() error
}

// Sender is a tenant, as it delivers.
type Sender struct {
	Key    string // API key
	Bodies [][]byte
}

// Pressed is what came of it.
type Pressed struct {
	Latencies []time.Duration // of each answer that counts
	Total     int             // of all answers, the warm ones included
	Samples   [][]byte        // the last answer on each connection
}

// unanswered is how long a server may take that answers at last.
const unanswered = 10 * time.Minute

// Run presses and returns what was answered. Any answer but 200 is an error, save that a batch
// which is refused as too many are in hand is sent again.
// callers numbers the connections, so that no server sees an idempotency key twice.
func (p *Pressure) Run(ctx context.Context, callers *atomic.Uint32) (Pressed, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]*Caller, p.Connections)
	for i := range all {
		conn, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return Pressed{}, err
		}
		defer conn.Close()
		if number := callers.Add(1); p.Rows > 0 {
			all[i] = p.batchCaller(conn, number)
		} else {
			all[i] = p.NewCaller(conn, number)
		}
	}
	w := newSpan(len(all))
	end := time.Now().Add(p.Warm + p.During + unanswered)
	var calling sync.WaitGroup
	for _, c := range all {
		calling.Go(func() {
			if err := c.call(w, end); err != nil {
				cancel(err)
			}
		})
	}
	err := w.open(ctx, p)
	w.phase.Store(over)
	calling.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return Pressed{}, cause
	}
	if err != nil {
		return Pressed{}, err
	}
	var sum Pressed
	for _, c := range all {
		sum.Latencies = append(sum.Latencies, c.latencies...)
		sum.Total += c.total
		sum.Samples = append(sum.Samples, c.body)
	}
	return sum, nil
}

// span is the time in which answers count.
type span struct {
	phase   atomic.Int32
	missing atomic.Int64  // connections on which no answer has counted yet
	all     chan struct{} // closed when there is none any more
}

// The phases of a span, after that in which no answer counts yet.
const (
	counting int32 = iota + 1
	over
)

func newSpan(connections int) *span {
	w := &span{all: make(chan struct{})}
	w.missing.Store(int64(connections))
	return w
}

// open has answers count for as long as p says, from the moment on at which begin has
// returned, and until one has counted on each connection: on a machine that stalls it measures
// for longer, and not nothing.
func (w *span) open(ctx context.Context, p *Pressure) error {
	if err := pipeline.Pause(ctx, p.Warm); err != nil {
		return err
	}
	if p.Begin != nil {
		if err := p.Begin(); err != nil {
			return err
		}
	}
	w.phase.Store(counting)
	if err := pipeline.Pause(ctx, p.During); err != nil {
		return err
	}
	select {
	case <-w.all:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.phase.Store(over)
	if p.End != nil {
		return p.End()
	}
	return nil
}

// Caller is one connection.
type Caller struct {
	conn    net.Conn
	request []byte // head and body; key and body are written over
	key     []byte // where the number in the idempotency key stands
	tail    []byte // where the body stands
	bodies  [][]byte
	next    int
	rows    int      // of a batch
	ids     [][]byte // where the numbers of its rows stand

	buf       []byte
	body      []byte // of the last answer; part of buf
	latencies []time.Duration
	total     int
}

const keyDigits = 8

// NewCaller sends single deliveries over a connection. Number decides the sender, the first body
// and the idempotency keys.
func (p *Pressure) NewCaller(conn net.Conn, number uint32) *Caller {
	s := p.Senders[int(number)%len(p.Senders)]
	head := fmt.Appendf(nil, "POST /v1/delivery HTTP/1.1\r\nHost: muniment\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nIdempotency-Key: %08x-", s.Key, bodySize, number)
	at := len(head)
	head = append(head, "00000000\r\n\r\n"...)
	request := append(head, make([]byte, bodySize)...)
	return &Caller{
		conn: conn, request: request, key: request[at : at+keyDigits], tail: request[len(head):],
		bodies: s.Bodies, next: int(number), buf: make([]byte, 4096),
	}
}

// call sends deliveries until the span is over and times those that are answered in it.
// It gives up at the end.
func (c *Caller) call(w *span, end time.Time) error {
	if err := c.conn.SetDeadline(end); err != nil {
		return err
	}
	for sent := time.Now(); w.phase.Load() != over; {
		if c.rows > 0 {
			c.renumber()
		} else {
			copy(c.tail, c.bodies[c.next%len(c.bodies)])
			c.next++
			c.number()
		}
		if _, err := c.conn.Write(c.request); err != nil {
			return err
		}
		switch err := c.answer(); {
		case c.rows > 0 && waits(c.buf): // batches sent before are still in hand
			time.Sleep(time.Second)
			continue
		case err != nil:
			return err
		}
		if err := c.allAccepted(); c.rows > 0 && err != nil {
			return err
		}
		answered := time.Now()
		c.total++
		if w.phase.Load() == counting {
			c.latencies = append(c.latencies, answered.Sub(sent))
			if len(c.latencies) == 1 && w.missing.Add(-1) == 0 {
				close(w.all)
			}
		}
		sent = answered
	}
	return nil
}

// number raises the idempotency key.
func (c *Caller) number() {
	for i := keyDigits - 1; i >= 0; i-- {
		if c.key[i]++; c.key[i] <= '9' {
			return
		}
		c.key[i] = '0'
	}
}

var (
	statusOK      = []byte("HTTP/1.1 200 ")
	statusTooMany = []byte("HTTP/1.1 429 ") // of the tenant's
	statusFull    = []byte("HTTP/1.1 503 ") // of the node's
	endOfHead     = []byte("\r\n\r\n")
	contentLength = []byte("Content-Length: ")
)

// waits reports an answer after which the request is sent again later.
func waits(answer []byte) bool {
	return bytes.HasPrefix(answer, statusTooMany) || bytes.HasPrefix(answer, statusFull)
}

// answer reads one answer, which has to be a 200 with a Content-Length.
func (c *Caller) answer() error {
	n, body, whole := 0, 0, 0
	for whole == 0 || n < whole {
		if n == len(c.buf) {
			c.buf = append(c.buf, make([]byte, n)...)
		}
		m, err := c.conn.Read(c.buf[n:])
		if err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		n += m
		if head := bytes.Index(c.buf[:n], endOfHead); whole == 0 && head >= 0 {
			_, rest, _ := bytes.Cut(c.buf[:head+1], contentLength)
			digits, _, _ := bytes.Cut(rest, endOfHead[:1])
			size, err := strconv.Atoi(string(digits))
			if err != nil {
				return fmt.Errorf("answered %q", c.buf[:n])
			}
			body = head + len(endOfHead)
			whole = body + size
		}
	}
	c.body = c.buf[body:whole]
	if !bytes.HasPrefix(c.buf, statusOK) {
		return fmt.Errorf("answered %s", c.buf[:whole])
	}
	return nil
}

// Deliver sends the next delivery and reads its answer.
func (c *Caller) Deliver(end time.Time) error {
	if err := c.conn.SetDeadline(end.Add(unanswered)); err != nil {
		return err
	}
	copy(c.tail, c.bodies[c.next%len(c.bodies)])
	c.next++
	c.number()
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	return c.answer()
}
