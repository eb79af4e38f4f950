package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Abuse is what a process of Soak does to a server until its standard input ends.
type Abuse struct {
	Kind AbuseKind
	Addr string
	// Connections is how many there are at a time; of header bombs, how many in all.
	Connections int
	// During is the time over which header bombs, or the beginnings of drips, are
	// spread; the bombs that are left when the order to stop comes are sent at once.
	During time.Duration
	// Requests are what a crowd sends; of batches, the deliveries that their rows are made of.
	Requests [][]byte
	// Key, Rows and From are of batches: the API key, the rows of each, and a number that no
	// connection had before.
	Key  string `json:",omitempty"`
	Rows int    `json:",omitempty"`
	From uint32 `json:",omitempty"`
}

// AbuseKind is one of those below.
type AbuseKind string

// The kinds of abuse.
const (
	// Drips send a byte a second, of headers or of a body, and come back when they are
	// closed. Their beginnings should be spread over the server's read timeout, so that
	// later some are closed all the time.
	Drips AbuseKind = "drips"
	// Bombs have headers too large or too many, each on a connection of its own.
	Bombs AbuseKind = "bombs"
	// Crowd is one tenant on many connections, each of which sends its next delivery as
	// soon as the last one was answered, whatever the answer.
	Crowd AbuseKind = "crowd"
	// Batches are none: each connection sends its next batch when the last one was accepted.
	Batches AbuseKind = "batches"
)

// Abused counts what came of it.
type Abused struct {
	// OK, Refused and Other are answers: 200, those that the abuse deserves, all else.
	OK, Refused, Other int
	// Closed is how many drips the server closed, and Longest the life of one, closed
	// or not.
	Closed  int
	Longest time.Duration
}

func (a *Abused) add(o Abused) {
	a.OK += o.OK
	a.Refused += o.Refused
	a.Other += o.Other
	a.Closed += o.Closed
	a.Longest = max(a.Longest, o.Longest)
}

// RunAbuse is that process: it reads an Abuse, says "ready" when that is under way, and
// writes what came of it when in ends.
func RunAbuse(ctx context.Context, in io.Reader, out io.Writer) error {
	var a Abuse
	orders := json.NewDecoder(in)
	if err := orders.Decode(&a); err != nil {
		return fmt.Errorf("cannot read what to do: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // its end is the order to stop
	}()
	w, err := a.start(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, "ready\n"); err != nil {
		return err
	}
	w.clients.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return json.NewEncoder(out).Encode(w.got)
}

// abusing is an abuse that is under way in a process of its own, with the lowest
// priority: abusers have machines of their own, and here their work must not take
// the server's CPU away.
type abusing struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func (a *Abuse) launch(ctx context.Context, exe string) (*abusing, error) {
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", exe, "abuse")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = new(bytes.Buffer)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &abusing{cmd, in, bufio.NewReader(out)}
	if err := json.NewEncoder(in).Encode(a); err != nil {
		return nil, errors.Join(err, p.cmd.Wait())
	}
	if line, err := p.out.ReadString('\n'); line != "ready\n" {
		return nil, fmt.Errorf("the abuser said %q: %w: %s", line, errors.Join(err, cmd.Wait()), cmd.Stderr)
	}
	return p, nil
}

// stop ends the abuse and returns what came of it.
func (p *abusing) stop() (got Abused, err error) {
	err = p.in.Close()
	if read := json.NewDecoder(p.out).Decode(&got); read != nil {
		err = errors.Join(err, read)
	}
	if ended := p.cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("the abuser failed: %w: %s", ended, p.cmd.Stderr))
	}
	return got, err
}

// abusers are the clients of one abuse.
type abusers struct {
	Abuse
	clients sync.WaitGroup
	open    atomic.Int64

	mu  sync.Mutex
	got Abused
	err error
}

func (a Abuse) start(ctx context.Context) (*abusers, error) {
	w := &abusers{Abuse: a}
	switch a.Kind {
	case Drips:
		return w, w.drips(ctx)
	case Bombs:
		w.bombs(ctx)
		return w, nil
	case Crowd:
		return w, w.crowd(ctx)
	case Batches:
		return w, w.batches(ctx)
	}
	return nil, fmt.Errorf("%q is no kind of abuse", a.Kind)
}

func (w *abusers) count(got Abused, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got.add(got)
	if err != nil && w.err == nil {
		w.err = err
	}
}

// exchange is a connection that sends one request at a time.
type exchange struct {
	conn net.Conn
	in   *bufio.Reader
}

func open(addr string, end time.Time) (*exchange, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(end); err != nil {
		conn.Close()
		return nil, err
	}
	return &exchange{conn, bufio.NewReader(conn)}, nil
}

// ask returns the status of the answer.
func (x *exchange) ask(request []byte) (int, error) {
	if _, err := x.conn.Write(request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(x.in, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// What drips begin with, in turn.
var dripStarts = []string{
	"G",
	"POST /v1/delivery HTTP/1.1\r\nHost: m\r\nX-Drip: ",
	"POST /v1/delivery HTTP/1.1\r\nHost: m\r\nContent-Length: 65536\r\n\r\n{",
	"POST /v1/rights HTTP/1.1\r\nHost: m\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat(" ", 9000),
}

// drips returns once nearly all are open: some are always between two lives. An
// abuse that is none, because they can't be kept open, fails.
func (w *abusers) drips(ctx context.Context) error {
	for i := range w.Connections {
		w.clients.Go(func() {
			if pause(ctx, w.During*time.Duration(i)/time.Duration(w.Connections)) != nil {
				return
			}
			for ctx.Err() == nil {
				got, err := w.drip(ctx, dripStarts[i%len(dripStarts)])
				if w.count(got, err); err != nil {
					return
				}
			}
		})
	}
	enough := int64(w.Connections * 95 / 100)
	opening, cancel := context.WithTimeout(ctx, w.During+2*readTimeout)
	defer cancel()
	if err := until(opening, func() (bool, error) { return w.open.Load() >= enough, nil }); err != nil && ctx.Err() == nil {
		return fmt.Errorf("only %d of %d drips are open: %w", w.open.Load(), w.Connections, err)
	}
	return nil
}

// drip is one connection's life, which ends when the server closes it or ctx ends.
func (w *abusers) drip(ctx context.Context, start string) (got Abused, err error) {
	conn, err := net.Dial("tcp", w.Addr)
	if err != nil {
		return got, err
	}
	defer conn.Close()
	began := time.Now()
	defer func() { got.Longest = time.Since(began) }()
	w.open.Add(1)
	defer w.open.Add(-1)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, err = io.WriteString(conn, start)
	for buf := make([]byte, 512); err == nil; {
		if err = conn.SetReadDeadline(time.Now().Add(time.Second)); err == nil {
			_, err = conn.Read(buf)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_, err = conn.Write([]byte{'x'})
		}
	}
	if ctx.Err() == nil {
		got.Closed = 1
	}
	return got, nil
}

const (
	bombLine = "X-Bomb: 1\r\n"
	bombHead = "GET /v1 HTTP/1.1\r\nHost: m\r\n"
)

var bombFill = strings.Repeat("x", 16<<10)

func (w *abusers) bombs(ctx context.Context) {
	texts := [][]byte{
		[]byte(bombHead + "X: " + bombFill + "\r\n\r\n"),
		[]byte(bombHead + strings.Repeat(bombLine, 500) + "\r\n"),
	}
	w.clients.Go(func() {
		every := time.NewTicker(w.During / time.Duration(w.Connections))
		defer every.Stop()
		for n := range w.Connections {
			select {
			case <-every.C:
			case <-ctx.Done():
			}
			w.count(w.bomb(texts[n%len(texts)]), nil)
		}
	})
}

func (w *abusers) bomb(text []byte) Abused {
	x, err := open(w.Addr, time.Now().Add(20*time.Second))
	if err != nil {
		return Abused{Other: 1}
	}
	defer x.conn.Close()
	status, err := x.ask(text)
	if err == nil && (status == http.StatusRequestHeaderFieldsTooLarge || status == http.StatusBadRequest) {
		return Abused{Refused: 1}
	}
	return Abused{Other: 1}
}

func (w *abusers) crowd(ctx context.Context) error {
	for i := range w.Connections {
		x, err := open(w.Addr, time.Now().Add(time.Hour))
		if err != nil {
			return err
		}
		w.clients.Go(func() {
			defer x.conn.Close()
			var got Abused
			var err error
			for n := i; ctx.Err() == nil && err == nil; n++ {
				var status int
				switch status, err = x.ask(w.Requests[n%len(w.Requests)]); {
				case err != nil:
				case status == http.StatusOK:
					got.OK++
				case status == http.StatusTooManyRequests:
					got.Refused++
				default:
					got.Other++
				}
			}
			w.count(got, err)
		})
	}
	return nil
}
