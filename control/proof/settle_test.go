package proof

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gate"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

// price makes a rule of the tenant that everything fits.
func (h *fixture) price(price string, change ...func(*settle.Rule)) settle.Rule {
	h.T.Helper()
	ctx := h.T.Context()
	r := settle.Rule{TenantID: h.Tenant, Unit: rate.MS, Price: price, Currency: "EUR"}
	for _, c := range change {
		c(&r)
	}
	require.NoError(h.T, h.DB.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO tenants (tenant_id, org_id, created_at, updated_at, revision) VALUES ($1, 'org_a', 0, 0, 0)
			ON CONFLICT DO NOTHING`, h.Tenant)
		if err != nil {
			return err
		}
		for i := range 3 {
			payee, err := settle.CreateCounterparty(ctx, tx, settle.Counterparty{TenantID: h.Tenant, Name: "Studio", Kind: settle.Publisher, Currency: "EUR"}, operator)
			if err != nil {
				return err
			}
			r.Shares = append(r.Shares, settle.Share{CounterpartyID: payee.ID, Bps: []int64{3333, 3333, 3334}[i]})
		}
		r, err = settle.CreateRule(ctx, tx, r, operator)
		return err
	}))
	return r
}

// forgetRules takes the rules out of the database, as an older copy of it would.
func (h *fixture) forgetRules() {
	h.T.Helper()
	require.NoError(h.T, h.DB.Change(h.T.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(h.T.Context(), `DELETE FROM settlement_rules`)
		return err
	}))
}

func TestSettlement(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(2)...)
	first := h.seal()[0]
	require.Nil(t, first.Settlement)
	require.Contains(t, string(h.packs()[0].Header), `"settlement":[],`)

	h.Deliver(deliveries(2)...) // of 1,000 and 1,001 ms
	all := h.price("0.000001")
	second := h.seal()[0].Settlement
	require.Len(t, second.Rules, 1)
	require.Equal(t, []settlement.Line{{
		RuleID: all.ID, RightID: "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV", MeteringBasis: "gross", Receipts: 2, QuantityMs: 2001, Impressions: 2 * sealer.Impression,
		Amount: "0.002001", Shares: []string{"0.000667", "0.000667", "0.000667"},
	}}, second.Lines)

	h.Advance(time.Minute)
	h.price("0.5", func(r *settle.Rule) { r.Unit, r.Match.Substrate, r.Priority = rate.Event, new("CTV"), 1 })
	h.Deliver(deliveries(3)...)
	h.Deliver(delivery{Substrate: gate.CTV, DwellMs: 5, Key: "a"}, delivery{Substrate: gate.CTV, DwellMs: 5, Key: "a"})
	third := h.seal()[0].Settlement
	require.Len(t, third.Rules, 2)
	require.Equal(t, second.Rules, third.Rules[:1])
	var amounts []string
	for _, l := range third.Lines {
		amounts = append(amounts, l.Amount)
	}
	require.ElementsMatch(t, []string{"0.003003", "0.5"}, amounts, "a repetition is not paid for")

	h.forgetRules()
	h.Deliver(deliveries(1)...)
	require.Equal(t, third.Rules, h.seal()[0].Settlement.Rules, "rules come from the log, not the database")
	h.check()
}

func TestSummaryCountsWhatIsRated(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(2)...)
	h.seal()
	h.price("1", func(r *settle.Rule) { r.Match.Substrate = new("CTV") })
	h.Deliver(deliveries(3)...)
	h.Deliver(delivery{Substrate: gate.CTV, DwellMs: 5, Key: "a"}, delivery{Substrate: gate.CTV, DwellMs: 5, Key: "a"})
	h.seal()
	server := h.serve()
	counted := func(about string) {
		t.Helper()
		_, data := get(t, server, "/v1/proof-packs")
		var listed []struct{ Duplicates, Rated, Unrated int64 }
		require.NoError(t, json.Unmarshal(data["packs"], &listed))
		require.Equal(t, []struct{ Duplicates, Rated, Unrated int64 }{{0, 0, 0}, {1, 1, 3}}, listed, about)
	}
	counted("as sealed")
	h.check()
	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE proof_packs SET header = 'a long one'`)
		return err
	}))
	counted("without the headers")
	listed, err := listSummaries(t.Context(), h.DB.Read(), h.Tenant, selection{}, 2)
	require.NoError(t, err)
	require.Empty(t, listed[1].Header, "it may be long, and a page has many")
}

// TestSettlementAfterACrash kills the process before each step of a seal, and has another
// rule by the time that it is repeated.
func TestSettlementAfterACrash(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			h := build(t)
			h.price("0.001")
			h.Deliver(deliveries(3)...)
			h.service.step = func(name string) error {
				if name == step {
					panic(errInjected)
				}
				return nil
			}
			require.PanicsWithError(t, errInjected.Error(), func() { h.seal() })
			h.reopen(Config{})
			h.forgetRules()
			h.Advance(time.Second)
			h.price("0.002", func(r *settle.Rule) { r.Priority = 1 }) // of later than the receipts
			h.seal()

			rated := map[string]int64{}
			for _, p := range h.packs() {
				header, err := pack.ParseHeader(p.Header)
				require.NoError(t, err)
				for _, l := range header.Settlement.Lines {
					rated[l.Amount] += l.Receipts
				}
			}
			require.Equal(t, map[string]int64{"3.003": 3}, rated)
			h.check()
		})
	}
}

// TestTwoProcessesSettleAlike has both build their pack before the first of them commits.
func TestTwoProcessesSettleAlike(t *testing.T) {
	stacktest.Both(t)
	h := build(t)
	other := h.another()
	h.price("0.001")
	h.Deliver(deliveries(20)...)
	var built, compared sync.WaitGroup
	built.Add(2)
	compared.Add(2)
	drafts := make(chan pack.Header, 4)
	var group sync.WaitGroup
	for _, service := range []*Service{h.service, other} {
		once := sync.OnceFunc(func() {
			built.Done()
			built.Wait()
			for _, name := range h.files() {
				header, err := headerIn(filepath.Join(h.Dir, "packs", tenant, name))
				if err != nil {
					t.Error(err)
				}
				drafts <- header
			}
			compared.Done()
			compared.Wait()
		})
		service.step = func(name string) error {
			if name == "commit" {
				once()
			}
			return nil
		}
		group.Go(func() {
			if _, err := service.sealWhole(context.WithoutCancel(t.Context()), tenant, operator); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Len(t, drafts, 4)
	one := <-drafts
	require.NotEmpty(t, one.Settlement.Lines)
	ids := map[string]bool{one.PackID: true}
	for range 3 {
		draft := <-drafts
		require.Equal(t, one.Settlement, draft.Settlement)
		ids[draft.PackID] = true
	}
	require.Len(t, ids, 2, "two packs were built")
	h.check()
}

func headerIn(file string) (pack.Header, error) {
	f, err := os.Open(file)
	if err != nil {
		return pack.Header{}, err
	}
	defer f.Close()
	p, err := pack.Read(f)
	if err != nil {
		return pack.Header{}, err
	}
	return *p.Header(), nil
}
