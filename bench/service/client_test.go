package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/client"
)

// must is the result of a call that has to succeed.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// TestClientOfAService lives through a tenant's days by the Go client, and verifies what it gets.
func TestClientOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t, "--webhook-allow", "127.0.0.1")
	c, ctx := s.GoClient(), t.Context()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	root := string(systemtest.ReadFile(t, filepath.Join(s.Data, "keys", "root.vkey")))
	trust := must[*client.Trust](t)(client.NewTrust(root, must[[]byte](t)(c.KeyDirectory(ctx))))
	require.Equal(t, s.Tenant.TenantID, must[*client.TenantSnapshot](t)(c.Tenant(ctx)).Tenant.TenantID)

	basis := must[*client.Basis](t)(c.Bases().Create(ctx, client.NewBasis{Kind: "LICENSE", Title: "Spring", EffectiveFrom: from}))
	right := must[*client.Right](t)(c.WithIdempotencyKey("issue-1").Rights().Issue(ctx, client.NewRight{
		BasisID: basis.ID, Substrate: "AUTOMOTIVE", EffectiveFrom: from, Scope: map[string]any{"campaigns": []string{"spring"}},
	}))
	again := must[*client.Right](t)(c.WithIdempotencyKey("issue-1").Rights().Issue(ctx, client.NewRight{
		BasisID: basis.ID, Substrate: "AUTOMOTIVE", EffectiveFrom: from, Scope: map[string]any{"campaigns": []string{"spring"}},
	}))
	require.Equal(t, right, again)

	play := client.Delivery{RightID: right.ID, SpatialAnchorID: "dash-1", DwellMs: 8200.5, Telemetry: client.Telemetry{SpeedMph: new(0.0)}, IdempotencyKey: "play-1"}
	first := must[*client.Delivered](t)(c.Deliver(ctx, play))
	second := must[*client.Delivered](t)(c.Deliver(ctx, play))
	require.Equal(t, first.Receipt, second.Receipt)
	require.False(t, first.Replayed)
	require.True(t, second.Replayed)
	file := client.ReceiptFile(&first.Receipt, &first.Signature)
	require.Equal(t, first.Receipt.ReceiptID, must[*client.VerifiedReceipt](t)(client.VerifyReceipt(file, trust)).Receipt.ReceiptID)

	play.DwellMs = 1
	_, err := c.Deliver(ctx, play)
	require.ErrorIs(t, err, client.ErrConflict, "the key is another play's")
	play.IdempotencyKey, play.Telemetry = "", client.Telemetry{SpeedMph: new(65.0)}
	_, err = c.Deliver(ctx, play)
	require.ErrorIs(t, err, client.ErrPrecondition)
	e, _ := errors.AsType[*client.Error](err)
	require.Equal(t, "65", string(e.Violations[0].Observed))
	_, err = c.Rights().Get(ctx, basis.ID)
	require.ErrorIs(t, err, client.ErrNotFound)

	moved := must[*client.MovedRight](t)(c.Rights().Suspend(ctx, right.ID, "a look"))
	require.Equal(t, "SUSPENDED", moved.Right.State)
	applied := func() bool {
		return must[*client.RightPropagation](t)(c.Rights().Propagation(ctx, right.ID)).Propagation.Applied
	}
	waittest.Until(t, applied, "the stop is applied")
	play.Telemetry = nil
	_, err = c.Deliver(ctx, play)
	require.ErrorIs(t, err, client.ErrConflict)
	must[*client.MovedRight](t)(c.Rights().Resume(ctx, right.ID, ""))
	waittest.Until(t, applied, "the resumption is applied")

	rows := []client.Row{{RowID: "r-1", PlayedAt: time.Now().UTC().Format(time.RFC3339), DwellMs: 1000, RightID: s.Rights["DOOH"], SpatialAnchorID: "a"}}
	rows = append(rows, rows[0], client.Row{RowID: "r-2", PlayedAt: rows[0].PlayedAt, DwellMs: 5, RightID: "rgh_none", SpatialAnchorID: "a"})
	results := must[[]client.RowResult](t)(c.DeliverBatch(ctx, rows))
	require.Equal(t, []string{client.Accepted, client.Duplicate, client.Rejected}, []string{results[0].Status, results[1].Status, results[2].Status})
	require.ErrorIs(t, client.OfRow(&results[2]), client.ErrNotFound)

	dir := t.TempDir()
	save := func(name string, text []byte) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		return filepath.Join(dir, name)
	}
	sealed := must[*client.SealedPacks](t)(c.ProofPacks().Seal(ctx))
	bundle := must[io.ReadCloser](t)(c.ProofPacks().Bundle(ctx, sealed.Pack.PackID))
	pack := save("pack", must[[]byte](t)(io.ReadAll(bundle)))
	require.NoError(t, bundle.Close())
	proof := must[*client.InclusionProof](t)(c.Receipts().Proof(ctx, first.Receipt.ReceiptID, client.OfPack))
	systemtest.Command(t, "verify", "--root", root, pack, save("receipt", file), save("proof", proof.File()))
	logged := must[*client.LoggedReceipt](t)(c.Receipts().Get(ctx, first.Receipt.ReceiptID))
	require.Equal(t, sealed.Pack.PackID, logged.Sealed.PackID)
	events := 0
	for event, err := range c.Events().List(ctx, client.EventFilter{Type: []string{"delivery.recorded"}, Limit: 1}) {
		require.NoError(t, err)
		require.NotEmpty(t, event.Event)
		events++
	}
	require.Equal(t, 2, events)
	metering := must[*client.Metering](t)(c.Metering().Get(ctx, client.MeteringQuery{RightID: right.ID}))
	require.Equal(t, int64(1), metering.Totals.Receipts)

	clientAdministers(t, s, c, trust, first.Receipt.ReceiptID)
}

// clientAdministers settles, disputes, and makes a webhook, an export and a key.
func clientAdministers(t *testing.T, s *systemtest.Service, c *client.Client, trust *client.Trust, receiptID string) {
	t.Helper()
	ctx, from := t.Context(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	payee := must[*client.Counterparty](t)(c.Counterparties().Create(ctx, client.NewCounterparty{Name: "Acme", Kind: "PUBLISHER", Currency: "EUR"}))
	rule := client.NewSettlementRule{Unit: "EVENT", Price: "0.25", Currency: "EUR", EffectiveFrom: from, Shares: []client.SettlementShare{{CounterpartyID: payee.ID, BPS: 10_000}}}
	tried := must[*client.DryRunResult](t)(c.SettlementRules().DryRun(ctx, client.DryRun{Rule: rule, From: from, To: from.AddDate(1, 0, 0)}))
	require.NotEmpty(t, tried.Total.Amount)
	must[*client.SettlementRule](t)(c.SettlementRules().Create(ctx, rule))
	dispute := must[*client.Dispute](t)(c.Disputes().Open(ctx, client.NewDispute{Reason: "not shown", ReceiptIDs: []string{receiptID}}))
	require.Equal(t, "OPEN", must[*client.PricedDispute](t)(c.Disputes().Get(ctx, dispute.ID)).State)

	receiver := systemtest.NewHookReceiver(t)
	hook := must[*client.CreatedWebhook](t)(c.Webhooks().Create(ctx, client.NewWebhook{URL: receiver.URL, Events: []string{"webhook.tested"}}))
	must[*client.WebhookDelivery](t)(c.Webhooks().Test(ctx, hook.Webhook.ID))
	waittest.Until(t, func() bool { return len(receiver.Messages()) > 0 }, "no message")
	m := receiver.Messages()[0]
	header := http.Header{}
	header.Set("webhook-id", m.Id)
	header.Set("webhook-timestamp", m.At)
	header.Set("webhook-signature", m.Signature)
	for _, keys := range []client.WebhookKeys{{Secrets: []string{hook.Secret}}, {Trust: trust}} {
		got := must[*client.WebhookMessage](t)(client.VerifyWebhook(keys, header, []byte(m.Body), time.Now()))
		require.Equal(t, hook.Webhook.ID, got.WebhookID)
		require.Len(t, got.Events, 1)
	}

	job := must[*client.CreatedDSARJob](t)(c.DSAR().Create(ctx, client.NewDSARJob{Format: "JSON", Scope: client.DSARScope{
		Kind: "TENANT_SLICE", WindowStart: from, WindowEnd: from.AddDate(1, 0, 0),
	}})).Job
	must[*client.DSARJob](t)(c.DSAR().Run(ctx, job.ID))
	waittest.Until(t, func() bool { return must[*client.DSARJob](t)(c.DSAR().Get(ctx, job.ID)).State == "READY" }, "the export is not READY")
	export := must[io.ReadCloser](t)(c.DSAR().Bundle(ctx, job.ID))
	require.Equal(t, "PK", string(must[[]byte](t)(io.ReadAll(export))[:2]))
	require.NoError(t, export.Close())

	key := must[*client.CreatedAPIKey](t)(c.APIKeys().Create(ctx, client.NewAPIKey{Label: "device", Scopes: []string{"delivery:write"}}))
	device := s.GoClient(func(cfg *client.Config) { cfg.Key = key.APIKey })
	_, err := device.Tenant(ctx)
	require.ErrorIs(t, err, client.ErrAuth)
	e, _ := errors.AsType[*client.Error](err)
	require.Equal(t, []string{"rights:read"}, e.RequiredScopes)
}

// TestDeviceIsOffline has a device play on while it is cut off for ten minutes, in which some of
// what it sends arrives and no answer does, and it is killed twice. The service meters each of
// its plays once.
func TestDeviceIsOffline(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	const plays = 150
	began := time.Now().Add(-15 * time.Minute)
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	lost := 0
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		wire := &http.Transport{DisableKeepAlives: true}
		link := systemtest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			offline := time.Since(start) < 10*time.Minute
			if offline && lost%2 == 0 {
				lost++
				return nil, errors.New("no route to host")
			}
			resp, err := wire.RoundTrip(r)
			if offline && err == nil {
				lost++
				_ = resp.Body.Close()
				return nil, io.ErrUnexpectedEOF
			}
			return resp, err
		})
		device := func(dir string) (*client.Buffer, func()) {
			c := s.GoClient(func(cfg *client.Config) { cfg.HTTP = &http.Client{Transport: link} })
			b, err := client.OpenBuffer(dir, client.BufferConfig{
				Client: c, Now: func() time.Time { return began.Add(time.Since(start)) },
				Refused: func(r client.Row, why *client.Error) { t.Error("a play is refused", r, why) },
			})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- b.Run(ctx) }()
			return b, func() {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
				require.NoError(t, b.Close())
			}
		}
		b, end := device(folders[0])
		killed := 0
		for n := range plays {
			require.NoError(t, b.Add(t.Context(), client.Delivery{RightID: s.Rights["DOOH"], SpatialAnchorID: fmt.Sprint("screen-", n%3), DwellMs: 4200}))
			if n == 40 || n == 100 {
				// What a kill leaves is the folder as it is at this moment.
				killed++
				require.NoError(t, os.CopyFS(folders[killed], os.DirFS(folders[killed-1])))
				end()
				b, end = device(folders[killed])
			}
			time.Sleep(5 * time.Second)
		}
		for b.Stats().Waiting > 0 {
			time.Sleep(time.Second)
		}
		end()
	})
	require.Greater(t, lost, 10)
	c := s.GoClient()
	var totals client.MeteringTotals
	waittest.Until(t, func() bool {
		got, err := c.Metering().Get(t.Context(), client.MeteringQuery{})
		require.NoError(t, err)
		totals = got.Totals
		return totals.Receipts >= plays
	}, "some plays are missing")
	require.Equal(t, int64(plays), totals.Receipts)
	require.Equal(t, int64(plays), totals.Metered)
	require.Zero(t, totals.Duplicates)
}
