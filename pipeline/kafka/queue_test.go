package kafka

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

// BenchmarkQueue is what a record costs until it is in a batch of 64.
func BenchmarkQueue(b *testing.B) {
	l := &Log{cfg: Config{RequestBytes: defaultRequestBytes}, topic: &topic{}}
	l.topic.messageBytes.Store(4 << 20)
	q := newQueue(l, 0)
	r := &sealer.Record{
		TenantID: "tnt_01KAJ000000000000000000001", EventID: "evt_01KAJ000000000000000000001", Node: "nod_01KAJ000000000000000000001",
		Event: bytes.Repeat([]byte("e"), 1500), Private: bytes.Repeat([]byte("p"), 500),
	}
	size := wireSize(r)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, _, err := q.add(r, size, nil); err != nil {
			b.Fatal(err)
		}
		if i%64 == 63 {
			q.take().finish()
		}
	}
}

// TestSharedTimeout: records that begin together share a timer, and none waits for longer than
// it may.
func TestSharedTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 1600 * time.Millisecond
		var p sharedTimeout
		began := time.Now()
		first := p.after(time.Now(), d)
		time.Sleep(d / 16)
		second := p.after(time.Now(), d)
		require.Equal(t, first, second)
		time.Sleep(time.Millisecond)
		third := p.after(time.Now(), d)
		require.NotEqual(t, first, third)
		<-second
		require.Equal(t, d, time.Since(began))
		<-third
		require.Equal(t, d+d/16+time.Millisecond, time.Since(began))
	})
}
