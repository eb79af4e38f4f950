// Package abuse has the clients that a server must withstand, and those that upload batches
// beside others. They run in a process of their own (Run), which Launch starts.
package abuse

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

	"muniment.example/bench/load"
	"muniment.example/bench/system"
	"muniment.example/pipeline"
)

// Abuse is what a process does to a server until its standard input ends.
type Abuse struct {
	Kind Kind
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

// Kind is one of those below.
type Kind string

// The kinds of abuse.
const (
	// Drips send a byte a second, of headers or of a body, and come back when they are
	// closed. Their beginnings should be spread over the server's read timeout, so that
	// later some are closed all the time.
	Drips Kind = "drips"
	// Bombs have headers too large or too many, each on a connection of its own.
	Bombs Kind = "bombs"
	// Crowd is one tenant on many connections, each of which sends its next delivery as
	// soon as the last one was answered, whatever the answer.
	Crowd Kind = "crowd"
	// Readers are strangers who ask for the longest document many times over a connection, read 40 bytes
	// of it a second, and come back when they are closed.
	Readers Kind = "readers"
	// Batches are none: each connection sends its next batch when the last one was accepted.
	Batches Kind = "batches"
)

// Counts counts what came of it.
type Counts struct {
	// OK, Refused and Other are answers: 200, those that the abuse deserves, all else.
	OK, Refused, Other int
	// Closed is how many drips or readers the server closed, and Longest the life of one,
	// closed or not.
	Closed  int
	Longest time.Duration
}

// Add sums counts up; of the lives of drips the longest stays.
func (a *Counts) Add(o Counts) {
	a.OK += o.OK
	a.Refused += o.Refused
	a.Other += o.Other
	a.Closed += o.Closed
	a.Longest = max(a.Longest, o.Longest)
}

// Run is that process: it reads an Abuse, says "ready" when that is under way, and
// writes what came of it when in ends.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
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

// Process is an abuse that is under way in a process of its own, in the class of idle work: abusers
// have machines of their own, and here their work must not take the server's CPU away.
type Process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// Launch starts the abuse in a process, the command abuse of the binary exe, and returns when it
// is under way. Stop ends it.
func (a *Abuse) Launch(ctx context.Context, exe string) (*Process, error) {
	cmd := exec.CommandContext(ctx, "chrt", "--idle", "0", exe, "abuse")
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
	p := &Process{cmd, in, bufio.NewReader(out)}
	if err := json.NewEncoder(in).Encode(a); err != nil {
		return nil, errors.Join(err, p.cmd.Wait())
	}
	if line, err := p.out.ReadString('\n'); line != "ready\n" {
		return nil, fmt.Errorf("the abuser said %q: %w: %s", line, errors.Join(err, cmd.Wait()), cmd.Stderr)
	}
	return p, nil
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the abuse and returns what came of it.
func (p *Process) Stop() (got Counts, err error) {
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
	got Counts
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
	case Readers:
		return w, w.readers(ctx)
	case Batches:
		return w, w.batches(ctx)
	}
	return nil, fmt.Errorf("%q is no kind of abuse", a.Kind)
}

func (w *abusers) count(got Counts, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got.Add(got)
	if err != nil && w.err == nil {
		w.err = err
	}
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
			if pipeline.Pause(ctx, w.During*time.Duration(i)/time.Duration(w.Connections)) != nil {
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
	opening, cancel := context.WithTimeout(ctx, w.During+unanswered)
	defer cancel()
	if err := system.Until(opening, func() (bool, error) { return w.open.Load() >= enough, nil }); err != nil && ctx.Err() == nil {
		return fmt.Errorf("only %d of %d drips are open: %w", w.open.Load(), w.Connections, err)
	}
	return nil
}

// drip is one connection's life, which ends when the server closes it or ctx ends.
func (w *abusers) drip(ctx context.Context, start string) (got Counts, err error) {
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

// BombFill is the text of the large headers.
var BombFill = strings.Repeat("x", 16<<10)

func (w *abusers) bombs(ctx context.Context) {
	texts := [][]byte{
		[]byte(bombHead + "X: " + BombFill + "\r\n\r\n"),
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

func (w *abusers) bomb(text []byte) Counts {
	x, err := load.Dial(w.Addr, time.Now().Add(unanswered))
	if err != nil {
		return Counts{Other: 1}
	}
	defer x.Conn.Close()
	status, err := x.Send(text)
	if err == nil && (status == http.StatusRequestHeaderFieldsTooLarge || status == http.StatusBadRequest) {
		return Counts{Refused: 1}
	}
	return Counts{Other: 1}
}

func (w *abusers) crowd(ctx context.Context) error {
	for i := range w.Connections {
		x, err := load.Dial(w.Addr, time.Now().Add(time.Hour))
		if err != nil {
			return err
		}
		w.clients.Go(func() {
			defer x.Conn.Close()
			var got Counts
			var err error
			for n := i; ctx.Err() == nil && err == nil; n++ {
				var status int
				switch status, err = x.Send(w.Requests[n%len(w.Requests)]); {
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

// ReadTimeout is the server's, for a whole request.
const ReadTimeout = 10 * time.Second

// unanswered is how long a server may take that does at last what it should.
const unanswered = 10 * time.Minute
