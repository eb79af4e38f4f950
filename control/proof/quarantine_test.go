package proof

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/proof/prooftest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
)

// heldRecords are what an operator is shown.
func (h *fixture) heldRecords() []Quarantined {
	h.T.Helper()
	list, err := h.service.ListQuarantined(h.T.Context(), 100)
	require.NoError(h.T, err)
	require.EqualValues(h.T, len(list.Records), list.Total)
	return list.Records
}

func (h *fixture) release(s Quarantined) Released {
	h.T.Helper()
	at, err := sealer.ParsePosition(s.Position)
	require.NoError(h.T, err)
	done, err := h.service.Release(h.T.Context(), []sealer.Position{at}, "seen by the auditor", operator)
	require.NoError(h.T, err)
	require.Len(h.T, done, 1)
	return done[0]
}

// TestReleasedRecordIsNoLeaf releases a forged delivery, which was loaded, and a
// record that was never loaded: everything else is sealed, and that they were there.
func TestReleasedRecordIsNoLeaf(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := build(t, Config{Registerer: registry})
	h.Deliver(deliveries(2)...)
	h.seal()
	forged := h.Event(delivery{DwellMs: 5, Key: "once", Signer: prooftest.NewSigner(t)})
	moved := h.Event(delivery{DwellMs: 6})
	moved.EventID = api.NewID(api.PrefixEvent, h.Now())
	h.Append(forged)
	h.Append(moved)
	h.Deliver(deliveries(1)...)
	h.Deliver(delivery{DwellMs: 7, Key: "once"})
	require.Equal(t, api.Quarantined, h.sealErr().Reason) // the one that was not loaded
	first := h.heldRecords()
	require.Len(t, first, 1)
	require.Equal(t, tenant, h.release(first[0]).TenantID)
	require.Equal(t, api.Quarantined, h.sealErr().Reason) // the one that can't be verified
	second := h.heldRecords()
	require.Len(t, second, 1)
	require.Equal(t, forged.EventID, second[0].EventID)
	require.Contains(t, second[0].Reason, string(sealer.KeyUnknown))
	note, err := h.service.Holds(t.Context())
	require.NoError(t, err)
	require.Equal(t, "held for some tenants by quarantined records: 1 (muniment quarantine list)", note)
	gauge := func(n string) {
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(
			"# HELP muniment_proof_held_records Quarantined records that hold sealing until an operator releases them.\n"+
				"# TYPE muniment_proof_held_records gauge\nmuniment_proof_held_records "+n+"\n"), "muniment_proof_held_records"))
	}
	gauge("1")
	there, err := sealer.ParsePosition(second[0].Position)
	require.NoError(t, err)
	_, err = h.service.Release(t.Context(), []sealer.Position{there, there.Next()}, "all or none", operator)
	require.Equal(t, api.ResourceNotFound, api.From(err).Code)
	gauge("1")
	h.release(second[0])
	gauge("0")
	require.Empty(t, h.heldRecords())

	header := h.seal()[0]
	require.Empty(t, header.Duplicates, "it repeats nothing that counts")
	events := h.check()
	require.Len(t, deliveriesOf(events), 4)
	require.NotContains(t, string(bytes.Join(events, nil)), string(forged.Event))
	var emitted []string
	for _, text := range events {
		e, err := sealer.ParseEvent(text)
		require.NoError(t, err)
		if e.Type == "record.released" {
			require.Equal(t, operator, e.Actor)
			var data struct{ EventID, Position, Reason, SetAsideReason, SHA256 string }
			require.NoError(t, json.Unmarshal(e.Data, &data))
			require.Equal(t, sealer.Ref{Kind: "record", ID: data.Position}, e.Subject)
			require.Equal(t, "seen by the auditor", data.Reason)
			emitted = append(emitted, data.Position+" "+data.EventID+" "+data.SetAsideReason+" "+data.SHA256)
		}
	}
	var want []string
	for _, s := range append(first, second...) {
		want = append(want, s.Position+" "+s.EventID+" "+s.Reason+" "+s.SHA256)
	}
	require.Equal(t, want, emitted)
	_, err = h.Warehouse.Event(t.Context(), tenant, forged.EventID)
	require.ErrorIs(t, err, pipeline.ErrNoEvent)
	h.Sound(h.exported(0, uint64(len(events)-1)))

	// Neither is there anything left to release, nor does a restart bring it back.
	at, err := sealer.ParsePosition(second[0].Position)
	require.NoError(t, err)
	_, err = h.service.Release(t.Context(), []sealer.Position{at}, "again", operator)
	require.Equal(t, api.ResourceNotFound, api.From(err).Code)
	h.reopen(Config{})
	h.Deliver(deliveries(1)...)
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 5)
}

// TestReleaseOutlivesTheWarehouse loads the log into an empty warehouse.
func TestReleaseOutlivesTheWarehouse(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(2)...)
	h.Append(h.Event(delivery{DwellMs: 5, Signer: prooftest.NewSigner(t)}))
	h.Deliver(deliveries(2)...)
	h.sealErr()
	h.release(h.heldRecords()[0])
	another, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(h.Dir, "another.db")})
	require.NoError(t, err)
	defer func() { require.NoError(t, another.Close()) }()
	_, end, err := h.Log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	var rows []pipeline.Row
	require.NoError(t, h.Log.Scan(t.Context(), sealer.Position{Generation: end.Generation}, end, func(e sealer.Entry) error {
		e.Event, e.Private = bytes.Clone(e.Event), bytes.Clone(e.Private)
		row, err := pipeline.NewRow(e)
		rows = append(rows, row)
		return err
	}))
	require.NoError(t, another.Load(t.Context(), pipeline.Batch{From: rows[0].Position, Rows: rows, Next: end}))
	h.service.warehouse = another
	sealed, err := h.service.sealWhole(t.Context(), tenant, operator)
	require.NoError(t, err)
	require.Len(t, headers(t, sealed), 1)
	require.Equal(t, 5, headers(t, sealed)[0].Count, "four deliveries and the release")
	require.Len(t, deliveriesOf(h.check()), 4)
}

// TestReleaseOfNobodysRecord: a record that names no tenant holds all tenants of its partition, and
// its release is an event of tnt_system.
func TestReleaseOfNobodysRecord(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(2)...)
	noise := h.Event(delivery{DwellMs: 5})
	noise.TenantID = "\xff\xfe"
	h.Append(noise)
	h.sealErr()
	list := h.heldRecords()
	require.Len(t, list, 1)
	require.Empty(t, list[0].TenantID)
	require.Equal(t, api.SystemTenant, h.release(list[0]).TenantID)
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 2)
	rows, err := h.Warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: api.SystemTenant, Types: []string{pipeline.TypeReleased}, Limit: 9})
	require.NoError(t, err)
	require.Len(t, rows, 1)
}

// TestReleaseWaitsForTheWarehouse: as long as it is not loaded the hold is not gone.
func TestReleaseWaitsForTheWarehouse(t *testing.T) {
	h := build(t)
	h.Append(h.Event(delivery{DwellMs: 5, Signer: prooftest.NewSigner(t)}))
	waittest.Until(t, func() bool {
		_, err := h.service.sealWhole(t.Context(), tenant, operator)
		return err != nil && api.From(err).Reason == api.Quarantined
	})
	s := h.heldRecords()[0]
	h.Pause(0)
	at, err := sealer.ParsePosition(s.Position)
	require.NoError(t, err)
	h.service.cfg.WaitFor = time.Second
	_, err = h.service.Release(t.Context(), []sealer.Position{at}, "why not", operator)
	require.Contains(t, []api.Reason{api.WarehouseBehind, api.LogUnavailable}, api.From(err).Reason, "the relay may be slow")
	h.Loaders[0].Resume()
	waittest.Until(t, func() bool {
		list, err := h.service.ListQuarantined(t.Context(), 1)
		return err == nil && list.Total == 0
	})
}

// TestSealedRecordIsNotReleased: a release would delete the row of an event that a pack counts.
func TestSealedRecordIsNotReleased(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(3)...)
	h.seal()
	rows, err := h.Warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenant, Types: []string{sealer.TypeDelivery}, Limit: 10})
	require.NoError(t, err)
	sealed := rows[1]
	require.NoError(t, h.service.quarantineRows(t.Context(), []pipeline.Quarantined{quarantinedOf(&sealed, errInjected)}))
	_, err = h.service.Release(t.Context(), []sealer.Position{sealed.Position}, "by mistake", operator)
	require.Equal(t, api.StateConflict, api.From(err).Code)
	require.ErrorContains(t, err, "is entry 1 of the log")
	_, err = h.Warehouse.Event(t.Context(), tenant, sealed.EventID)
	require.NoError(t, err, "its row stays")
}
