package issuetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// Log is an issue.Log that checks every record as the loader would before it takes it.
type Log struct {
	T    testing.TB
	Keys []ed25519.PublicKey // of whose receipts there may be

	mu      sync.Mutex
	entries []sealer.Entry
	fail    error
	refuse  func(*sealer.Record) error
	lossy   bool          // Append returns the zero position
	gone    int64         // the first position still held
	bad     []int64       // those that can't be read
	hold    chan struct{} // while not nil, Append waits for it to be closed or for its ctx
	waiting int
	steps   int
}

// Append implements issue.Log.
func (l *Log) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	l.mu.Lock()
	hold := l.hold
	l.waiting++
	l.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return sealer.Position{}, ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	if l.fail != nil {
		return sealer.Position{}, l.fail
	}
	if l.refuse != nil {
		if err := l.refuse(r); err != nil {
			return sealer.Position{}, err
		}
	}
	_, delivery, err := sealer.CheckRecord(r)
	if err != nil {
		l.T.Errorf("record %s is not sound: %v", r.EventID, err)
	}
	if delivery != nil && !slices.ContainsFunc(l.Keys, func(k ed25519.PublicKey) bool {
		return delivery.KeyID == keydir.KeyID(k) && ed25519.Verify(k, delivery.ReceiptText, delivery.Signature)
	}) {
		l.T.Errorf("signature of %s is wrong", r.EventID)
	}
	at := sealer.Position{Generation: 1, Offset: int64(len(l.entries))}
	l.entries = append(l.entries, sealer.Entry{Position: at, Record: sealer.Record{
		TenantID: strings.Clone(r.TenantID), EventID: strings.Clone(r.EventID), Node: strings.Clone(r.Node), Epoch: r.Epoch, Seq: r.Seq,
		Event: bytes.Clone(r.Event), Private: bytes.Clone(r.Private), Traceparent: r.Traceparent,
	}})
	if l.lossy {
		return sealer.Position{}, nil
	}
	return at, nil
}

// AppendAll implements issue.Log.
func (l *Log) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	l.mu.Lock()
	l.steps++
	l.mu.Unlock()
	at, errs = make([]sealer.Position, len(rs)), make([]error, len(rs))
	for i, r := range rs {
		at[i], errs[i] = l.Append(ctx, r)
	}
	return at, errs
}

// Writable implements issue.Log.
func (l *Log) Writable(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fail
}

// Read implements issue.Log.
func (l *Log) Read(_ context.Context, at sealer.Position) (sealer.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return sealer.Entry{}, l.fail
	}
	if at.Offset < l.gone || slices.Contains(l.bad, at.Offset) {
		return sealer.Entry{}, fmt.Errorf("%s is gone: %w", at, fs.ErrNotExist)
	}
	if at.Generation != 1 || at.Partition != 0 || at.Offset < 0 || at.Offset >= int64(len(l.entries)) {
		return sealer.Entry{}, fmt.Errorf("nothing at %s", at)
	}
	return l.entries[at.Offset], nil
}

// Scan implements issue.Log.
func (l *Log) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	for _, e := range l.All()[from.Offset:to.Offset] {
		if _, err := l.Read(ctx, e.Position); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// Bounds implements issue.Log.
func (l *Log) Bounds(context.Context, int32) (first, end sealer.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = sealer.Position{Generation: 1, Offset: l.gone}
	end = sealer.Position{Generation: 1, Offset: int64(len(l.entries))}
	return first, end, l.fail
}

// All is what the log holds.
func (l *Log) All() []sealer.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Edit changes what the log holds.
func (l *Log) Edit(how func([]sealer.Entry) []sealer.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = how(l.entries)
}

// Steps is how often many were appended in one step.
func (l *Log) Steps() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.steps
}

// Refuse has the log refuse records; nil ends that.
func (l *Log) Refuse(refuse func(*sealer.Record) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
}

// SetFail has everything fail from now on; nil ends that.
func (l *Log) SetFail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// Lose drops what stands before an offset, and new records too if lossy.
func (l *Log) Lose(before int64, lossy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone, l.lossy = before, lossy
}

// Spoil makes the records at some offsets unreadable, and no others.
func (l *Log) Spoil(offsets ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad = offsets
}

// Halt makes Append wait until the returned function is called.
func (l *Log) Halt() (release func()) {
	hold := make(chan struct{})
	l.mu.Lock()
	l.hold = hold
	l.mu.Unlock()
	return sync.OnceFunc(func() {
		l.mu.Lock()
		l.hold = nil
		l.mu.Unlock()
		close(hold)
	})
}

// Appending is how many appends wait.
func (l *Log) Appending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// SignerOf is a node's signer with a key.
func SignerOf(key ed25519.PrivateKey) *sealer.Signer {
	return &sealer.Signer{KeyID: keydir.KeyID(key.Public().(ed25519.PublicKey)), Node: "nod_1", Key: key}
}

// Always hands out one signer, whatever the moment.
func Always(s *sealer.Signer) func(context.Context, time.Time) (*sealer.Signer, func(), error) {
	return func(context.Context, time.Time) (*sealer.Signer, func(), error) { return s, func() {}, nil }
}

// Zeros makes random bits that a golden text can hold.
type Zeros struct{}

// Read implements io.Reader.
func (Zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
