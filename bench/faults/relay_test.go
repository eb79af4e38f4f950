package faults

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"muniment.example/bench/system/systemtest"
)

// batchTap is in front of ClickHouse, and holds a batch in the middle on request.
type batchTap struct {
	*systemtest.Relay
	next atomic.Pointer[heldBatch]
}

// heldBatch is an insert of which the server has a part. Close goOn to have the rest
// pass, or cut to end the connection instead.
type heldBatch struct{ caught, goOn, cut chan struct{} }

// batchPart is so much that only an insert can have sent it without an answer.
const batchPart = 8 << 10

func tapBatches(t *testing.T, clickhouse string) *batchTap {
	tap := new(batchTap)
	tap.Relay = systemtest.StartRelay(t, clickhouse, func(client, server net.Conn) {
		var unanswered atomic.Int64
		systemtest.BothWays(client, server, func() { tap.up(client, server, &unanswered) }, func() {
			buf := make([]byte, 32<<10)
			for {
				n, err := server.Read(buf)
				if _, writeErr := client.Write(buf[:n]); err != nil || writeErr != nil {
					return
				}
				unanswered.Store(0)
			}
		})
	})
	return tap
}

func (tap *batchTap) up(client, server net.Conn, unanswered *atomic.Int64) {
	buf := make([]byte, 2<<10)
	for {
		n, err := client.Read(buf)
		if _, writeErr := server.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
		if unanswered.Add(int64(n)) < batchPart {
			continue
		}
		if held := tap.next.Swap(nil); held != nil {
			close(held.caught)
			select {
			case <-held.goOn:
			case <-held.cut:
				return
			}
		}
	}
}

// hold returns when a batch is half way to the server.
func (tap *batchTap) hold(t *testing.T) *heldBatch {
	t.Helper()
	held := &heldBatch{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	tap.next.Store(held)
	<-held.caught // a batch came
	return held
}

// swallowProduced is for a relay in front of a broker that takes records and whose
// answer never arrives: one of so many answers to a produce request, and the connection
// with it.
func swallowProduced(oneOf int64, answers, swallowed *atomic.Int64) func(client, server net.Conn) {
	return func(client, server net.Conn) {
		var mu sync.Mutex
		produced := map[uint32]bool{} // requests by their correlation id
		systemtest.BothWays(client, server, func() {
			systemtest.Frames(client, server, func(request []byte) bool {
				if binary.BigEndian.Uint16(request) == 0 { // Produce
					mu.Lock()
					produced[binary.BigEndian.Uint32(request[4:])] = true
					mu.Unlock()
				}
				return true
			})
		}, func() {
			systemtest.Frames(server, client, func(response []byte) bool {
				id := binary.BigEndian.Uint32(response)
				mu.Lock()
				ours := produced[id]
				delete(produced, id)
				mu.Unlock()
				if ours && answers.Add(1)%oneOf == 0 {
					swallowed.Add(1)
					return false
				}
				return true
			})
		})
	}
}
