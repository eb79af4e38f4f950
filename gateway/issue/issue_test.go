package issue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

// TestIssue: the answer is appended, names the receipt of the record, and what was seen can
// come as a value.
func TestIssue(t *testing.T) {
	f := newFixture(t, nil)
	ctx := f.Deadline(time.Now())
	answer, replayed, err := f.Issue(ctx, []byte("before "), f.tenant, &Delivery{Body: f.body(), Rendered: issuetest.Today})
	require.NoError(t, err)
	require.False(t, replayed)
	require.Equal(t, "before ", string(answer[:7]))
	var answered struct {
		Data api.Delivered
	}
	require.NoError(t, json.Unmarshal(answer[7:], &answered))
	require.Equal(t, f.read(0).Receipt.ReceiptID, answered.Data.Receipt.ReceiptID)
	require.Equal(t, sealer.Ref{Kind: "key", ID: f.tenant.KeyID}, f.read(0).Event.Actor)

	correlation, rendered := "c-1", issuetest.Today.Add(-time.Minute)
	seen := Observation{RightID: f.right, SpatialAnchorID: "a", CorrelationID: &correlation, DwellMs: 7}
	_, _, err = f.Issue(ctx, nil, f.tenant, &Delivery{Observation: &seen, Rendered: rendered})
	require.NoError(t, err)
	d := f.read(1)
	require.Equal(t, []any{"a", "c-1", 7.0, rendered, issuetest.Today},
		[]any{d.Receipt.SpatialAnchorID, *d.Receipt.CorrelationID, d.Receipt.DwellMs, d.Receipt.RenderedAt, d.Receipt.IssuedAt})
}

// TestRefusedIsNoRecord: with an error nothing of the answer is there, and nothing in the log.
func TestRefusedIsNoRecord(t *testing.T) {
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"no JSON":        {`{`, 400},
		"no fields":      {`{}`, 422},
		"unknown right":  {string(on(issuetest.RightID(99))), 404},
		"another's":      {string(on(issuetest.RightID(10))), 404},
		"suspended":      {string(on(issuetest.RightID(2))), 409},
		"too fast":       {fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":80}}`, issuetest.RightID(3)), 412},
		"a right of old": {string(f.body()), 409},
	} {
		rendered := issuetest.Today
		if name == "a right of old" {
			rendered = rendered.Add(-2 * time.Hour)
		}
		answer, _, err := f.Issue(f.Deadline(time.Now()), []byte("x"), f.tenant, &Delivery{Body: []byte(c.body), Rendered: rendered})
		require.Equal(t, c.status, status(err), name)
		require.Equal(t, "x", string(answer), name)
	}
	f.log.SetFail(errors.New("full"))
	_, _, err := f.issue(f.body())
	require.Equal(t, api.LogUnavailable, api.From(err).Reason)
	require.Empty(t, f.log.All())
}

// TestWhoseKeySigns: that of the sandbox for its tenants, and for no others, whatever a
// caller says of a tenant.
func TestWhoseKeySigns(t *testing.T) {
	f := newFixture(t, nil)
	issue := func(by Caller, right int) error {
		_, _, err := f.Issue(f.Deadline(time.Now()), nil, by, &Delivery{Body: on(issuetest.RightID(right)), Rendered: issuetest.Today})
		return err
	}
	require.NoError(t, issue(f.tenant, 1))
	require.Equal(t, f.signer.KeyID, f.read(0).KeyID)
	require.NoError(t, issue(f.visitor, 10))
	require.Equal(t, f.sample.KeyID, f.read(1).KeyID)
	for name, by := range map[string]Caller{
		"a tenant as a visitor": {TenantID: "tnt_a", KeyID: f.tenant.KeyID, Sandbox: true},
		"a visitor as a tenant": {TenantID: "tnt_s", KeyID: f.visitor.KeyID},
		"another's key":         {TenantID: "tnt_a", KeyID: f.visitor.KeyID},
		"an unknown key":        {TenantID: "tnt_a", KeyID: issuetest.KeyID(77)},
		"none":                  {TenantID: "tnt_a"},
	} {
		require.Equal(t, 401, status(issue(by, 1)), name)
	}
	require.Len(t, f.log.All(), 2)

	alone := newFixture(t, func(c *Config) { c.Signer = nil })
	_, _, err := alone.issue(alone.body())
	require.Equal(t, 409, status(err), "it has none for tenants")
}

// TestNoReceiptOnARevokedKey: nothing is signed once this node knows that the key was
// revoked, be it that the delivery was let in before.
func TestNoReceiptOnARevokedKey(t *testing.T) {
	var f *fixture
	revoke := func() {
		revision := f.control.EditKey(t, 1, func(k *api.Key) { k.RevokedAt = issuetest.Today })
		for f.view.Applied() < revision {
			runtime.Gosched()
		}
	}
	meanwhile := func() {}
	f = newFixture(t, func(c *Config) {
		acquire := c.Signer
		c.Signer = func(ctx context.Context, at time.Time) (*sealer.Signer, func(), error) {
			meanwhile()
			return acquire(ctx, at)
		}
	})
	_, _, err := f.issue(f.body())
	require.NoError(t, err)
	meanwhile = revoke
	for range 2 {
		_, _, err = f.issue(f.body())
		require.Equal(t, 401, status(err))
		meanwhile = func() {}
	}
	require.Len(t, f.log.All(), 1)
}

// TestIssuedIsDurable: no answer before the log has it.
func TestIssuedIsDurable(t *testing.T) {
	f := newFixture(t, nil)
	release := f.log.Halt()
	defer release()
	answered := make(chan error, 2)
	go func() {
		_, _, err := f.issue(f.body())
		answered <- err
	}()
	go func() {
		_, err := f.IssueRows(context.Background(), f.tenant, &Batch{Rows: []Row{rowOn(f.right, time.Minute, "")}})
		answered <- err
	}()
	waittest.Until(t, func() bool { return f.log.Appending() == 2 })
	require.Empty(t, answered)
	release()
	require.NoError(t, <-answered)
	require.NoError(t, <-answered)
	require.Len(t, f.log.All(), 2)
}

// TestNothingIsIssuedAfterRun, whose last act is to write what was refused.
func TestNothingIsIssuedAfterRun(t *testing.T) {
	f := newFixture(t, nil)
	_, _, err := f.issue(fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":80}}`, issuetest.RightID(3)))
	require.Equal(t, 412, status(err))
	_, _, err = f.issue(f.body())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, f.Run(ctx))
	require.Len(t, f.log.All(), 2, "what was refused is counted in the log")
	_, _, err = f.issue(f.body())
	require.Equal(t, api.Draining, api.From(err).Reason)
	_, err = f.IssueRows(t.Context(), f.tenant, &Batch{Rows: make([]Row, 2)})
	require.Equal(t, api.Draining, api.From(err).Reason)
}

func TestConfigNamesTheBadField(t *testing.T) {
	good := newFixture(t, nil).cfg
	for field, spoil := range map[string]func(*Config){
		"NodeID":             func(c *Config) { c.NodeID = "" },
		"Rights":             func(c *Config) { c.Rights = nil },
		"Log":                func(c *Config) { c.Log = nil },
		"Signer":             func(c *Config) { c.Signer, c.SandboxSigner = nil, nil },
		"IdempotencyEntries": func(c *Config) { c.IdempotencyEntries = -1 },
		"IdempotencyWait":    func(c *Config) { c.IdempotencyWait = -1 },
		"Timeout":            func(c *Config) { c.Timeout = -1 },
	} {
		cfg := good
		spoil(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, field)
	}
}
