package stack

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/kafka"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// sealedDelivery is the n-th delivery of a tenant, of n+1 ms. Every third one has the key of
// the one before it.
func sealedDelivery(t *testing.T, tenant string, n int) sealer.Record {
	t.Helper()
	seed := sha256.Sum256([]byte("node"))
	key := ed25519.NewKeyFromSeed(seed[:])
	signer := sealer.Signer{KeyID: keydir.KeyID(key.Public().(ed25519.PublicKey)), Node: "nod_1", Key: key}
	issued := time.Now().UTC().Truncate(time.Millisecond)
	var salt [16]byte
	copy(salt[:], tenant)
	binary.BigEndian.PutUint64(salt[8:], uint64(n))
	var id ulid.ULID
	require.NoError(t, id.SetTime(uint64(issued.UnixMilli())))
	require.NoError(t, id.SetEntropy(salt[6:]))
	hash := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", tenant, n-n%3/2))
	private := sealer.AppendPrivate(nil, &sealer.Private{Salt: salt, Telemetry: []byte(`{"viewable":true}`), AttentionMs: -1})
	event, err := signer.SealDelivery(nil, &sealer.Delivery{
		TenantID: tenant, Actor: sealer.Ref{Kind: "key", ID: "key_1"}, RightID: "rgh_1", RightRevision: 3, BasisID: "bas_1",
		Substrate:         gate.CTV,
		Metering:          gate.Metering{Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisViewable, QuantityMs: int64(n + 1), AttentionMs: -1},
		Idempotency:       base64.RawURLEncoding.EncodeToString(hash[:]),
		PrivateCommitment: sealer.Commit(salt, private),
	}, &sealer.Receipt{
		ReceiptID: "rcp_" + id.String(), SpatialAnchorID: "screen 1", IssuedAt: issued, RenderedAt: issued,
		DwellMs: float64(n + 1), Nonce: "AAAAAAAAAAAAAAAAAAAAAA",
	})
	require.NoError(t, err)
	return sealer.Record{TenantID: tenant, EventID: "evt_" + id.String(), Node: "nod_1", Epoch: 1, Seq: uint64(n + 1), Event: event, Private: private}
}

// assigned is how many partitions loaders have, as each says.
func assigned(loaders []*systemtest.Launched) (n int) {
	for _, p := range loaders {
		_, text := p.Ready()
		if m := partitionsOf.FindStringSubmatch(text); m != nil {
			n += len(strings.Fields(m[1]))
		}
	}
	return n
}

var partitionsOf = regexp.MustCompile(`partitions \[([0-9 ]+)\]`)

// TestLoadersComeAndGoOnTheStack: four loaders under load, every two seconds another one is signalled
// to stop, killed, or held still until its partitions are others' and then let go on.
// Each record that was acknowledged is in the warehouse, once, and is a duplicate if it has
// the key of another.
func TestLoadersComeAndGoOnTheStack(t *testing.T) {
	t.Parallel()
	cfg := systemtest.EventTopic(t)
	wh := clickhouse.Config{URL: warehouseAt(t, cfg.Topic)}
	_, err := clickhouse.Migrate(t.Context(), wh, false)
	require.NoError(t, err)
	warehouse, err := clickhouse.Open(t.Context(), wh)
	require.NoError(t, err)
	defer warehouse.Close()
	log, err := kafka.Open(cfg)
	require.NoError(t, err)
	defer log.Close()

	start := func() *systemtest.Launched {
		return systemtest.StartLoader(t, "--kafka", strings.Join(cfg.Brokers, ","), "--topic", cfg.Topic, "--group", cfg.Topic,
			"--clickhouse", wh.URL, "--session-timeout", "6s")
	}
	loaders := make([]*systemtest.Launched, 4)
	for i := range loaders {
		loaders[i] = start()
	}

	const tenants, partitions = 24, 8 // as EventTopic has them
	acknowledged := make([]int, tenants)
	writing, stopWriting := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for i := range tenants {
		writers.Go(func() {
			for n := 0; writing.Err() == nil; n++ {
				r := sealedDelivery(t, fmt.Sprintf("tnt_load%02d", i), n)
				_, err := log.Append(t.Context(), &r)
				require.NoError(t, err)
				acknowledged[i]++
				select {
				case <-writing.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	defer writers.Wait()
	defer stopWriting()

	for _, p := range loaders {
		p.AwaitReady(t, http.StatusOK)
	}
	var zombie *systemtest.Launched
	begun := time.Now()
	for round := range systemtest.Times(4, 9) {
		<-time.After(time.Until(begun.Add(time.Duration(round+1) * 2 * time.Second)))
		i := round % len(loaders)
		switch round {
		case 1, 6:
			require.NoError(t, loaders[i].Cmd.Process.Kill())
		case 2:
			zombie = loaders[i]
			require.NoError(t, zombie.Cmd.Process.Signal(syscall.SIGSTOP))
		default:
			loaders[i].Stop(t)
		}
		loaders[i] = start()
	}
	waittest.Until(t, func() bool { return assigned(loaders) == partitions }, "the partitions of the loader that is held still are others'")
	require.NoError(t, zombie.Cmd.Process.Signal(syscall.SIGCONT))
	zombie.AwaitReady(t, http.StatusOK)
	stopWriting()
	writers.Wait()

	for p := range int32(partitions) {
		_, end, err := log.Bounds(t.Context(), p)
		require.NoError(t, err)
		waittest.Until(t, func() bool {
			next, ok, err := warehouse.Resume(t.Context(), p)
			return err == nil && (ok && next == end || end.Offset == 0)
		}, "partition %d is not loaded up to %s", p, end)
	}
	all, repeated := 0, 0
	for i, n := range acknowledged {
		all += n
		totals, err := warehouse.MeterTotals(t.Context(), pipeline.MeterQuery{TenantID: fmt.Sprintf("tnt_load%02d", i)})
		require.NoError(t, err)
		require.EqualValues(t, n, totals.Receipts, "0 missing, 0 twice")
		counted := n * (n + 1) / 2
		for repeat := 3; repeat <= n; repeat += 3 {
			counted -= repeat
		}
		require.EqualValues(t, n/3, totals.Duplicates)
		require.EqualValues(t, counted, totals.QuantityMs)
		repeated += n / 3
	}
	systemtest.RequireNoDrift(t, log, warehouse)
	for _, p := range append(loaders, zombie) {
		p.Stop(t)
		require.NotContains(t, p.Log(), "no longer loaded")
	}
	require.Positive(t, repeated)
	t.Logf("%d records, %d of them duplicates, over some changes of loaders, killed and held still for %v: 0 missing, 0 twice, no drift",
		all, repeated, time.Since(begun))
}
