package issue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/gateway/snapshot"
)

func requireNoAllocations(t *testing.T, what string, f func()) {
	t.Helper()
	f() // the first run grows the buffers
	// The least of some runs: what other goroutines allocate meanwhile is counted too.
	least := testing.AllocsPerRun(200, f)
	for n := 0; n < 10 && least > 0; n++ {
		least = min(least, testing.AllocsPerRun(200, f))
	}
	require.Zero(t, least, what)
}

// TestHotPathAllocatesNothing fixes the number for each part that a delivery runs
// through in this package.
func TestHotPathAllocatesNothing(t *testing.T) {
	body := []byte(issuetest.Typical)
	w := &work{workspace: new(workspace)}
	requireNoAllocations(t, "decode", func() {
		if err := w.read(&Delivery{Body: body}); err != nil {
			t.Fatal(err)
		}
	})
	var counts refusals
	odd := &work{workspace: new(workspace)}
	misspelt := []byte(`{"rightId":"rgh_1","spatialAnchorId":"a","dwellMs":1,"telemetry":{"speed_mph":70,"vendor":{"build":[1,2,3]}}}`)
	require.NoError(t, odd.read(&Delivery{Body: misspelt}))
	requireNoAllocations(t, "counting a misspelt name", func() {
		odd.seen.unrecognised(func(name []byte, meant string) { counts.misspelt("tnt_a", name, meant) })
	})
	require.NotEmpty(t, counts.unrecognised["tnt_a"])
	right := &snapshot.Right{Right: api.Right{ID: issuetest.RightID(1)}, Gate: gate.Right{Substrate: gate.DOOH}}
	requireNoAllocations(t, "gate and metering", func() {
		v := gate.Evaluate(&right.Gate, &w.seen.Telemetry, w.seen.DwellMs)
		w.sealed.Metering, w.sealed.Substrate = v.Meter(&w.seen.Telemetry, w.seen.DwellMs), v.Substrate
	})
	w.receipt.IssuedAt, w.by.TenantID = issuetest.Today, "tnt_a"
	requireNoAllocations(t, "ids, and the hashes of key and body", func() {
		w.name()
		_, _ = w.keyHash([]byte("some-key"))
		_ = w.requestHash(&w.private, body)
	})
	event := sampleEvent(t)
	var answer []byte
	requireNoAllocations(t, "envelope", func() {
		var err error
		if answer, err = appendAnswer(answer[:0], event); err != nil {
			t.Fatal(err)
		}
	})
	limits := deadlines{after: time.Hour}
	requireNoAllocations(t, "deadline", func() { limits.begin(time.Now()) })
}

func sampleEvent(t *testing.T) []byte {
	f := newFixture(t, nil)
	_, _, err := f.issue(f.body())
	require.NoError(t, err)
	return f.log.All()[0].Event
}

func BenchmarkDecode(b *testing.B) {
	var o Observation
	body := []byte(issuetest.Typical)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := o.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
