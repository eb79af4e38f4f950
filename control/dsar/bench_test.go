package dsar

import (
	"crypto"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/pipeline"
)

// BenchmarkExport exports all of a tenant of 50,000 deliveries, 5 million with
// MUNIMENT_TEST_FULL, in each format. x-scan is how many times as long that takes as to read the
// same rows from the warehouse; MiB is what the process's memory grows by meanwhile.
func BenchmarkExport(b *testing.B) {
	n := 50_000
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		n = 5_000_000
	}
	h := newFixture(b, func(cfg *Config) { cfg.WaitFor = time.Hour })
	h.keys.receipt.Key = noise{}
	for from := 0; from < n; from += 5_000 {
		part := make([]delivery, min(5_000, n-from))
		for i := range part {
			part[i] = delivery{
				right: "rgh_01J9ZQ4T9V5X6Y7Z8A9B0C1D2E", substrate: gate.DOOH, correlation: fmt.Sprintf("order-%d", from+i), ago: time.Second,
				telemetry: fmt.Sprintf(`{"appState":"foreground","coverageCellId":"310-410-%04d","viewable":true}`, i%10_000),
			}
		}
		h.deliver(part...)
	}
	asOf, err := h.catchUp(b.Context(), tenantID, silent)
	require.NoError(b, err)
	var scanned time.Duration
	b.Run("SCAN", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, h.scan(b.Context(), pipeline.EventQuery{TenantID: tenantID}, asOf, false, silent, func(*pipeline.Row) error { return nil }))
		}
		scanned = b.Elapsed() / time.Duration(b.N)
		b.ReportMetric(float64(n)/scanned.Seconds(), "rows/s")
	})
	for _, f := range []Format{NDJSON, JSON, CSV, Parquet} {
		b.Run(string(f), func(b *testing.B) {
			requested := full()
			requested.Format = f
			debug.FreeOSMemory()
			above := memoryAbove(b)
			for b.Loop() {
				require.GreaterOrEqual(b, h.export(requested).Progress.RowsCollected, int64(n))
			}
			took := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(float64(n)/took.Seconds(), "rows/s")
			b.ReportMetric(took.Seconds()/scanned.Seconds(), "x-scan")
			b.ReportMetric(above(), "MiB")
		})
	}
}

// memoryAbove returns how to end measuring, which is by how many MiB the process had grown at most: not by
// what is mapped of files, which the kernel takes back as it likes.
func memoryAbove(t require.TestingT) (end func() float64) {
	own := func() float64 {
		text, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(text), "RssAnon:")
		kib, err := strconv.Atoi(strings.Fields(rest)[0])
		require.NoError(t, err)
		return float64(kib) / 1024
	}
	idle, stop, peak := own(), make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for most := idle; ; most = max(most, own()) {
			select {
			case <-tick.C:
			case <-stop:
				peak <- most - idle
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-peak
	}
}

// noise looks like a signature, which an export does not check.
type noise struct{}

func (noise) Public() crypto.PublicKey { return nil }

func (noise) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	signature := make([]byte, 64)
	_, err := rand.Read(signature)
	return signature, err
}
