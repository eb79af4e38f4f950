package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// pressure is a closed loop: each connection sends its next delivery as soon as
// the last one was answered. It does little but system calls, because it shares
// the machine with the server that it measures.
type pressure struct {
	addr        string
	senders     []sender // connections take turns in being one of them
	connections int
	// Answers count from warm after the start on, for the given time.
	warm, during time.Duration
	// begin and end are called at both ends of that time.
	begin, end func() error
}

// sender is a tenant, as it delivers.
type sender struct {
	key    string // API key
	bodies [][]byte
}

// pressed is what came of it.
type pressed struct {
	latencies []time.Duration // of each answer that counts
	total     int             // of all answers, the warm ones included
	samples   [][]byte        // the last answer on each connection
}

var errStopped = errors.New("stopped before its time")

// run presses and returns what was answered. Any answer but 200 is an error.
// callers numbers the connections, so that no server sees an idempotency key twice.
func (p *pressure) run(ctx context.Context, callers *atomic.Uint32) (pressed, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]*caller, p.connections)
	for i := range all {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			return pressed{}, err
		}
		defer conn.Close()
		all[i] = p.caller(conn, callers.Add(1))
	}
	from := time.Now().Add(p.warm)
	to := from.Add(p.during)
	var calling sync.WaitGroup
	for _, c := range all {
		calling.Go(func() {
			if err := c.call(from, to); err != nil {
				cancel(err)
			}
		})
	}
	err := errors.Join(at(ctx, from, p.begin), at(ctx, to, p.end))
	calling.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return pressed{}, cause
	}
	if err != nil {
		return pressed{}, err
	}
	var sum pressed
	for _, c := range all {
		sum.latencies = append(sum.latencies, c.latencies...)
		sum.total += c.total
		sum.samples = append(sum.samples, c.body)
	}
	return sum, nil
}

// at calls f at a moment, unless ctx ends before.
func at(ctx context.Context, when time.Time, f func() error) error {
	t := time.NewTimer(time.Until(when))
	defer t.Stop()
	select {
	case <-t.C:
		return f()
	case <-ctx.Done():
		return errStopped
	}
}

// caller is one connection.
type caller struct {
	conn    net.Conn
	request []byte // head and body; key and body are written over
	key     []byte // where the number in the idempotency key stands
	tail    []byte // where the body stands
	bodies  [][]byte
	next    int

	buf       []byte
	body      []byte // of the last answer; part of buf
	latencies []time.Duration
	total     int
}

const keyDigits = 8

func (p *pressure) caller(conn net.Conn, number uint32) *caller {
	s := p.senders[int(number)%len(p.senders)]
	head := fmt.Appendf(nil, "POST /v1/delivery HTTP/1.1\r\nHost: muniment\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nIdempotency-Key: %08x-", s.key, bodySize, number)
	at := len(head)
	head = append(head, "00000000\r\n\r\n"...)
	request := append(head, make([]byte, bodySize)...)
	return &caller{
		conn: conn, request: request, key: request[at : at+keyDigits], tail: request[len(head):],
		bodies: s.bodies, next: int(number), buf: make([]byte, 4096),
	}
}

// call sends deliveries until the end and times those that are answered between from and to.
func (c *caller) call(from, to time.Time) error {
	if err := c.conn.SetDeadline(to.Add(20 * time.Second)); err != nil {
		return err
	}
	for sent := time.Now(); sent.Before(to); {
		copy(c.tail, c.bodies[c.next%len(c.bodies)])
		c.next++
		c.number()
		if _, err := c.conn.Write(c.request); err != nil {
			return err
		}
		if err := c.answer(); err != nil {
			return err
		}
		answered := time.Now()
		c.total++
		if !answered.Before(from) && answered.Before(to) {
			c.latencies = append(c.latencies, answered.Sub(sent))
		}
		sent = answered
	}
	return nil
}

// number raises the idempotency key.
func (c *caller) number() {
	for i := keyDigits - 1; i >= 0; i-- {
		if c.key[i]++; c.key[i] <= '9' {
			return
		}
		c.key[i] = '0'
	}
}

var (
	statusOK      = []byte("HTTP/1.1 200 ")
	endOfHead     = []byte("\r\n\r\n")
	contentLength = []byte("Content-Length: ")
)

// answer reads one answer, which has to be a 200 with a Content-Length.
func (c *caller) answer() error {
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
