package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/historytest"
	"muniment.example/gateway/api"
)

// onRecord is what gateways answered on rights, while those are stopped and resumed.
type onRecord struct {
	*testing.T
	client  system.Client // the rights' operator
	history historytest.History

	mu       sync.Mutex
	receipts map[onGateway]int
	stale    map[string]int // by gateway: refusals for want of a lease
	ids      []string       // of all receipts
}

type onGateway struct{ addr, right string }

// deliver sends a delivery to a gateway, and records by which state of the right it was decided.
func (o *onRecord) deliver(addr, right string) (status int) {
	sent := time.Now()
	body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200}`, right)
	req, _ := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/delivery", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+o.client.Key)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var response struct {
		Reason, Message string
		Data            struct {
			Receipt struct {
				ReceiptID string
				IssuedAt  time.Time
			}
		}
	}
	if json.NewDecoder(resp.Body).Decode(&response) != nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch receipt := response.Data.Receipt; resp.StatusCode {
	case http.StatusOK:
		o.history.Decided(right, api.RightActive, receipt.IssuedAt, time.Now())
		o.receipts[onGateway{addr, right}]++
		o.ids = append(o.ids, receipt.ReceiptID)
	case http.StatusConflict:
		for _, state := range []api.RightState{api.RightSuspended, api.RightRevoked} {
			if strings.HasSuffix(response.Message, string(state)) {
				o.history.Decided(right, state, sent, time.Now())
			}
		}
	case http.StatusServiceUnavailable:
		if response.Reason == string(api.RightsStale) {
			o.stale[addr]++
		}
	}
	return resp.StatusCode
}

// change is the operator's.
func (o *onRecord) change(right, verb string, to api.RightState) (applied bool) {
	o.Helper()
	var response struct{ Propagation struct{ Applied bool } }
	called := time.Now()
	require.NoError(o, o.client.Do(o.Context(), "POST", "/v1/rights/"+right+"/"+verb, map[string]any{}, &response))
	// Of a right that goes on nothing is promised to be known everywhere.
	applied = response.Propagation.Applied && to != api.RightActive
	o.history.Changed(right, to, called, time.Now(), applied)
	return applied
}

func (o *onRecord) until(what string, holds func() bool) {
	o.Helper()
	waittest.Until(o, holds, "in vain: until %s", what)
}

// given counts a gateway's receipts on a right.
func (o *onRecord) given(addr, right string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.receipts[onGateway{addr, right}]
}

// refused counts how often a gateway had no lease.
func (o *onRecord) refused(addr string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stale[addr]
}

// more waits until a gateway has given so many further receipts on a right.
func (o *onRecord) more(n int, addr, right string) {
	o.Helper()
	target := o.given(addr, right) + n
	o.until(fmt.Sprintf("%s gives receipts on %s", addr, right), func() bool { return o.given(addr, right) >= target })
}

// TestNoReceiptBehindARevocationOnTheStack stops rights under load on three gateways: one is cut
// off from control, one from Kafka, one is stopped with SIGSTOP for longer than the
// bound and continued. No receipt is later than the acknowledgement and the bound, and
// what was decided on each right is linearizable.
func TestNoReceiptBehindARevocationOnTheStack(t *testing.T) {
	t.Parallel()
	const bound = 6 * time.Second
	const noControl, frozen, noKafka = 0, 1, 2
	c := &system.Cluster{Exe: "muniment", Dir: t.TempDir(), Engines: systemtest.Engines(t), GatewayFlags: []string{"--bound", bound.String()}}
	t.Cleanup(c.End)
	require.NoError(t, c.Raise(t.Context(), system.Size{Gateways: 2, Controls: 2, Partitions: 3}))
	broker, _, _ := strings.Cut(c.Engines.Kafka, ",")
	way, err := system.NewBalancer()
	require.NoError(t, err)
	t.Cleanup(func() { _ = way.Close() })
	renamed := systemtest.StartRelay(t, broker, renameBroker(broker, way.Addr())).Addr()
	way.Set(renamed)
	c.Engines.Kafka = way.Addr()
	require.NoError(t, c.AddGateway(t.Context()))

	o := &onRecord{T: t, receipts: map[onGateway]int{}, stale: map[string]int{}}
	o.client, _ = systemtest.RegisterOn(t, c)
	var addrs, all []string
	for _, url := range c.APIs() {
		addrs = append(addrs, systemtest.HostPort(url))
	}
	for range 4 {
		all = append(all, systemtest.IssueRights(t, o.client)["DOOH"])
	}
	revoked, suspended, kept, toggled := all[0], all[1], all[2], all[3]
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for _, addr := range addrs {
		for i := range 4 {
			load.Go(func() {
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for ; ctx.Err() == nil; <-tick.C {
					i++
					o.deliver(addr, all[i%len(all)])
				}
			})
		}
	}
	everywhere := func(rights ...string) {
		t.Helper()
		for _, addr := range addrs {
			for _, right := range rights {
				o.more(10, addr, right)
			}
		}
	}
	everywhere(all...)
	for !o.change(toggled, "suspend", api.RightSuspended) { // until all have applied it in time
		o.change(toggled, "resume", api.RightActive)
		everywhere(toggled)
	}

	way.Set() // nobody
	spooled := func() float64 { return systemtest.Sum(c.Gateways[noKafka:], "muniment_spool_pending_records") }
	o.until("something is spooled", func() bool { return spooled() > 0 })
	o.more(10, addrs[noKafka], revoked)
	cut := time.Now()
	require.NoError(t, syscall.Kill(c.Gateways[frozen].PID(), syscall.SIGSTOP))
	c.Doors[noControl].Set()
	before := o.refused(addrs[noControl])
	given := o.given(addrs[noControl], revoked)
	o.until("the one without control goes on, or has gone on for its lease", func() bool {
		return o.given(addrs[noControl], revoked) >= given+3 || o.refused(addrs[noControl]) > before
	})
	const counted = 30 * time.Second // how long control, by its own bound, takes a silent node for one that signs
	for _, change := range []func() bool{
		func() bool { return o.change(revoked, "revoke", api.RightRevoked) },
		func() bool { return o.change(suspended, "suspend", api.RightSuspended) },
	} {
		applied, since := change(), time.Since(cut)
		require.False(t, applied && since < counted*2/3, "applied by those who can't know, %v after they could", since)
	}
	acknowledged := time.Now()
	o.until("the bound is long over", func() bool { return time.Since(acknowledged) > 2*bound })
	o.more(10, addrs[noKafka], kept)
	o.until("its lease has ended", func() bool { return o.refused(addrs[noControl]) > 0 })

	refuses := func(i int) func() bool {
		return func() bool { return o.deliver(addrs[i], revoked) == http.StatusConflict }
	}
	o.until("the one without Kafka knows", refuses(noKafka))
	require.NoError(t, syscall.Kill(c.Gateways[frozen].PID(), syscall.SIGCONT))
	o.until("the one that was stopped knows", refuses(frozen))
	c.Doors[noControl].Set(c.ControlDoors()...)
	o.until("the one without control knows", refuses(noControl))
	way.Set(renamed)
	o.until("the spool is drained", func() bool { return spooled() == 0 })
	o.change(suspended, "resume", api.RightActive)
	everywhere(suspended, kept)
	for _, right := range all[1:] {
		o.change(right, "revoke", api.RightRevoked)
	}
	for _, addr := range addrs {
		for _, right := range all {
			o.until("all are revoked", func() bool { return o.deliver(addr, right) == http.StatusConflict })
		}
	}
	stop()
	load.Wait()

	operations, behind, err := o.history.Check(bound)
	require.NoError(t, err)
	t.Logf("%d receipts, %d of them within the bound after a stop was acknowledged, 0 later; %d operations linearizable", len(o.ids), behind, operations)
	stand := systemtest.InTopic(t, c)
	for _, id := range o.ids {
		_, ok := stand[id]
		require.True(t, ok, "%s was acknowledged and is not in the log", id)
	}
}
