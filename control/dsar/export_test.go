package dsar

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/verify"
)

func rowsOf(t require.TestingT, section []byte) (rows []row) {
	require.NoError(t, json.Unmarshal(section, &rows))
	return rows
}

// TestSubjects: the export of a person has all deliveries and events that name that person,
// and nothing of anybody else, of another tenant, or of the configuration.
func TestSubjects(t *testing.T) {
	h := newFixture(t, nil)
	subjects, each := 20, 3
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		subjects = 1_000
	}
	name := func(i int) string { return fmt.Sprintf("person %d", i) } // each is a part of others
	var all []delivery
	for i := range subjects * each {
		var others []string
		for range rand.IntN(9) {
			others = append(others, name(rand.IntN(subjects)))
		}
		all = append(all,
			delivery{subject: name(i % subjects), others: others, correlation: fmt.Sprint(i), right: "rgh_a", substrate: gate.CTV, telemetry: `{"dataSubject":"person 1"}`},
			delivery{tenant: "tnt_b", subject: name(i % subjects), right: "rgh_b", substrate: gate.CTV},
			delivery{right: "rgh_a", substrate: gate.CTV, telemetry: fmt.Sprintf(`{"x":"\"dataSubject\":\"%s\""}`, name(i%subjects))})
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	ids := h.deliver(all...)
	roomtest.Fill(t, h.db, subjects, "held_rows", `held_id, tenant_id, key_id, identity_hash, identity_day, content_hash, vendor_key, vendor, id_type, vendor_id, played_at, row_text, data_subjects, telemetry, bytes, state, receipt_id, error, expires_at, created_at, updated_at`,
		`'hld_' || CAST(i AS TEXT), 'tnt_a', 'key_a', CAST(i AS TEXT), '', '', 'vid_a', 'acme', 'player', 'x', i, '{}', '["person ' || CAST(i - 1 AS TEXT) || '"]', '{"muted":true}', 1, 'HELD', '', '', i, 0, 0`)
	for i := range subjects {
		got := sections(t, h.bundle(h.export(of(name(i)))))
		require.Len(t, got, 8, "no configuration")
		var want, found []string
		for n, d := range all {
			if d.tenant == "" && (d.subject == name(i) || slices.Contains(d.others, name(i))) {
				want = append(want, ids[n])
			}
		}
		deliveries, events, held := rowsOf(t, got["deliveries"]), rowsOf(t, got["events"]), rowsOf(t, got["heldRows"])
		for _, r := range deliveries {
			found = append(found, r.EventID)
		}
		require.ElementsMatch(t, want, found)
		for n := range deliveries { // the fixture does not drop those who are named twice
			deliveries[n].DataSubjectIDs = slices.Compact(deliveries[n].DataSubjectIDs)
		}
		requireOf(t, deliveries, name(i))
		require.Len(t, events, 3, "it was requested, queued and begun")
		requireOf(t, events, name(i))
		require.Len(t, held, 1)
		requireOf(t, held, name(i))
		var mentions []store.Mention
		require.NoError(t, json.Unmarshal(got["mentions"], &mentions))
		require.Len(t, mentions, 3)
		require.Equal(t, store.Mention{Kind: "dsarJob", ID: mentions[0].ID, Field: "dataSubjectId", Text: name(i)}, mentions[0])
		id := fmt.Sprintf("hld_%d", i+1)
		require.Equal(t, []store.Mention{
			{Kind: "heldRow", ID: id, Field: "dataSubjects", Text: name(i)}, {Kind: "heldRow", ID: id, Field: "telemetry", Text: `{"muted":true}`},
		}, mentions[1:])
		require.Len(t, rowsOf(t, got["dsarJobs"]), 1)
		require.Equal(t, 1, strings.Count(string(got["dsarJobs"]), `"dataSubjectId":"`+name(i)+`"`))
		require.NotContains(t, string(got["dsarJobs"])+string(got["events"]), "tnt_b")
	}
}

// TestNotesOfOthers: of an event whose notes name the person, others' notes are left out, and the commitment
// stays that of what is shown.
func TestNotesOfOthers(t *testing.T) {
	h := newFixture(t, nil)
	requested := full()
	requested.RequestedBy, requested.RequestNotes = "jane@example.org", new("for bob, Hauptstrasse 3")
	h.mustCreate(t, requested)
	type noted struct {
		DataSubjectIDs []string
		Event, Private json.RawMessage
	}
	var rows []noted
	require.NoError(t, json.Unmarshal(sections(t, h.bundle(h.export(of("jane@example.org"))))["events"], &rows))
	i := slices.IndexFunc(rows, func(r noted) bool { return len(r.DataSubjectIDs) == 0 })
	require.GreaterOrEqual(t, i, 0)
	require.Contains(t, string(rows[i].Private), "jane@example.org")
	require.NotContains(t, string(rows[i].Private), "bob")
	e, err := sealer.ParseEvent(rows[i].Event)
	require.NoError(t, err)
	require.NoError(t, sealer.CheckPrivate(rows[i].Private, e.PrivateCommitment))
}

// TestQuarantinedRecords: a record that could not be loaded is in the export of the person whom it names,
// without others, and in that of its tenant. One without a readable tenant may be of any, and is in none.
func TestQuarantinedRecords(t *testing.T) {
	h := newFixture(t, nil)
	h.deliver(delivery{subject: "eve", right: "rgh_a", substrate: gate.CTV})
	h.export(of("eve")) // it is loaded
	private := sealer.AppendPrivate(nil, &sealer.Private{AttentionMs: -1, DataSubjects: sealer.About("ann", "bob")})
	record := func(event string, private []byte) []byte {
		return sealer.AppendRecord(nil, &sealer.Record{TenantID: tenantID, EventID: "evt_1", Node: "nod_1", Event: []byte(event), Private: private})
	}
	next, _, err := h.warehouse.Resume(t.Context(), 0)
	require.NoError(t, err)
	var list []pipeline.Quarantined
	for i, r := range [][]byte{
		record(`{"n":1}`, private), record(`{"dataSubject":"ann"}`, []byte(`{"dataSubject":"bob"}`)), record(`{"dataSubject":"bob","n":2}`, nil), []byte(`no record {"dataSubject": "ann"}`), record(`{"dataSubject":"ann"}`, nil),
	} {
		q := pipeline.Quarantined{Position: next, TenantID: tenantID, EventID: fmt.Sprint("evt_", i), Reason: "forged", Record: r}
		q.Position.Offset += int64(i)
		list = append(list, q)
	}
	list[4].TenantID = ""
	require.NoError(t, h.warehouse.Load(t.Context(), pipeline.Batch{Partition: 0, From: next, Quarantined: list, Next: next}))
	in := func(v View) (rows []quarantinedRow) {
		require.NoError(t, json.Unmarshal(sections(t, h.bundle(v))["quarantined"], &rows))
		return rows
	}
	left, err := sealer.LeaveOut(private, func(reference string) bool { return reference == "bob" })
	require.NoError(t, err)
	ann, position := []string{"ann"}, func(i int) string { return list[i].Position.String() }
	require.Equal(t, []quarantinedRow{
		{position(0), "evt_0", "forged", ann, new(`{"n":1}`), new(string(left))},
		{position(1), "evt_1", "forged", ann, new(`{"dataSubject":"ann"}`), nil},
		{position(3), "evt_3", "forged", ann, nil, nil},
	}, in(h.export(of("ann"))))
	requested := full()
	requested.Scope.Kind = TenantFull
	require.Equal(t, []quarantinedRow{
		{position(0), "evt_0", "forged", []string{"ann", "bob"}, new(`{"n":1}`), new(string(private))},
		{position(1), "evt_1", "forged", []string{"ann", "bob"}, new(`{"dataSubject":"ann"}`), new(`{"dataSubject":"bob"}`)},
		{position(2), "evt_2", "forged", []string{"bob"}, new(`{"dataSubject":"bob","n":2}`), nil},
		{position(3), "evt_3", "forged", ann, nil, nil},
	}, in(h.export(requested)))
	require.Empty(t, in(h.export(of("eve"))))
}

// TestNotesAboutOthers: an export of somebody else, whose notes name the person, is in the person's
// events without whom it is about.
func TestNotesAboutOthers(t *testing.T) {
	h := newFixture(t, nil)
	bobs := of("bob@example.org")
	bobs.RequestNotes = new("ann asked, too")
	v := h.mustCreate(t, bobs)
	events := sections(t, h.bundle(h.export(of("ann"))))["events"]
	require.Contains(t, string(events), v.ID)
	require.Contains(t, string(events), "ann asked, too")
	require.NotContains(t, string(events), "bob@")
}

// TestHeldAsSent: a held row is exported whatever its unchecked telemetry contains: values without a
// canonical JSON form are exported as text.
func TestHeldAsSent(t *testing.T) {
	h := newFixture(t, nil)
	sent := []string{`{"x":1e400}`, `{"x":1,"x":2}`, `"\ud800"`, `{"muted":true}`}
	for i, telemetry := range sent {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO held_rows (held_id, tenant_id, key_id, identity_hash, identity_day, content_hash, vendor_key, vendor, id_type, vendor_id, played_at, row_text, data_subjects, telemetry, bytes, state, receipt_id, error, expires_at, created_at, updated_at)
				VALUES ($1, 'tnt_a', 'key_a', $1, '', '', 'vid_a', 'acme', 'player', 'x', 0, $2, '["ann"]', $2, 1, 'HELD', '', '', 0, 0, 0)`, fmt.Sprint("hld_", i), telemetry)
			return err
		}))
	}
	for _, f := range []Format{JSON, CSV} {
		requested := of("ann")
		requested.Format = f
		section := sections(t, h.bundle(h.export(requested)))["heldRows"]
		var found []string
		if f == CSV {
			records, err := csv.NewReader(bytes.NewReader(section)).ReadAll()
			require.NoError(t, err)
			for _, cells := range records[1:] {
				found = append(found, cells[slices.Index(records[0], "telemetry")], cells[slices.Index(records[0], "row")])
			}
		} else {
			var rows []struct{ Telemetry, Row json.RawMessage }
			require.NoError(t, json.Unmarshal(section, &rows))
			for _, r := range rows {
				found = append(found, string(r.Telemetry), string(r.Row))
			}
		}
		require.Len(t, found, 2*len(sent))
		for i, text := range found {
			var quoted string
			if i/2 < 3 {
				require.NoError(t, json.Unmarshal([]byte(text), &quoted))
				text = quoted
			}
			require.Equal(t, sent[i/2], text)
		}
	}
}

// TestWhole: the export of a whole tenant includes its webhooks, without secrets, and its erasures.
func TestWhole(t *testing.T) {
	h := newFixture(t, nil)
	roomtest.Fill(t, h.db, 1, "webhooks", "webhook_id, tenant_id, url, events, description, key_id, state, secret, replaced_secrets, backlog, created_at, updated_at, revision",
		`'wbh_a', 'tnt_a', 'https://hooks.example', '["right.revoked"]', '', 'key_a', 'ACTIVE', 'whsec_new', '[{"secret":"whsec_old"}]', 0, 0, 0, 1`)
	roomtest.Fill(t, h.db, 1, "erasures", "erasure_id, tenant_id, subject_hash, until, event_id, requested_by, state, counts, certificate, created_at, updated_at, revision",
		`'era_a', 'tnt_a', 'hash', 0, 'evt_a', 'key_a', 'COMPLETED', '{}', 'a signed note', 0, 0, 1`)
	for _, f := range []Format{JSON, CSV} {
		requested := full()
		requested.Format = f
		got := sections(t, h.bundle(h.export(requested)))
		require.Contains(t, string(got["webhooks"]), "https://hooks.example")
		require.NotContains(t, string(got["webhooks"]), "whsec")
		require.Contains(t, string(got["erasures"]), "a signed note")
	}
}

// TestSlices: a slice is of its window, its campaigns and its substrates.
func TestSlices(t *testing.T) {
	h := newFixture(t, nil)
	for id, campaigns := range map[string]string{"rgh_spring": `["spring","a b"]`, "rgh_fall": `["fall"]`, "rgh_none": `[]`} {
		roomtest.Right(t, h.db, id, `{"campaigns":`+campaigns+`}`)
	}
	var all []delivery
	for _, right := range []string{"rgh_spring", "rgh_fall", "rgh_none"} {
		for _, on := range []gate.Substrate{gate.CTV, gate.DOOH} {
			for _, ago := range []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour} {
				all = append(all, delivery{right: right, substrate: on, ago: ago, correlation: fmt.Sprint(right, on, ago)})
			}
		}
	}
	h.deliver(all...)
	now := h.clock.Now()
	for _, c := range []struct {
		from, to              time.Duration // ago
		campaigns, substrates texts
		keeps                 func(d delivery) bool
	}{
		{5 * time.Hour, 0, nil, nil, func(delivery) bool { return true }},
		{3 * time.Hour, 90 * time.Minute, nil, nil, func(d delivery) bool { return d.ago == 2*time.Hour }},
		{5 * time.Hour, 0, texts{"a b"}, nil, func(d delivery) bool { return d.right == "rgh_spring" }},
		{5 * time.Hour, 0, texts{"fall", "spring"}, texts{"DOOH"}, func(d delivery) bool { return d.right != "rgh_none" && d.substrate == gate.DOOH }},
		{5 * time.Hour, 0, nil, texts{"CTV"}, func(d delivery) bool { return d.substrate == gate.CTV }},
		{5 * time.Hour, 0, nil, texts{"CTV", "ANY"}, func(delivery) bool { return true }},
		{5 * time.Hour, 0, texts{"winter"}, nil, func(delivery) bool { return false }},
	} {
		requested := full()
		requested.Scope = Scope{Kind: TenantSlice, WindowStart: store.At(now.Add(-c.from)), WindowEnd: store.At(now.Add(-c.to).Add(time.Minute)), CampaignIDs: append(texts{}, c.campaigns...), Substrates: append(texts{}, c.substrates...)}
		got := sections(t, h.bundle(h.export(requested)))
		var want, found []string
		for _, d := range all {
			// The rights of this test are on CTV: deliveries on another are not of them.
			if c.keeps(d) && (len(c.substrates) == 0 || slices.Contains(c.substrates, "ANY") || slices.Contains(c.substrates, "CTV")) {
				want = append(want, d.correlation)
			}
		}
		for _, r := range rowsOf(t, got["deliveries"]) {
			found = append(found, r.CorrelationID)
		}
		require.ElementsMatch(t, want, found, "%+v", requested.Scope)
	}
}

// TestFormats: each format has the same rows, CSV no formulas, and verify accepts each bundle
// and finds every flip.
func TestFormats(t *testing.T) {
	h := newFixture(t, nil)
	var all []delivery
	for i := range pageRows + 100 {
		all = append(all, delivery{right: "rgh_a", substrate: gate.CTV, subject: fmt.Sprintf("@SUM(%d)", i), correlation: "line 1\nline, \"2\"", telemetry: `{"muted":false}`})
	}
	ids := h.deliver(all...)
	requested := full()
	requested.Scope.Kind = TenantFull
	var first []row
	for _, f := range []Format{JSON, NDJSON, CSV, Parquet} {
		requested.Format = f
		v := h.export(requested)
		name := h.bundle(v)
		status, report := h.verified(name)
		require.Equal(t, verify.ExitSound, status, report)
		require.Contains(t, report, `"files.ok"`)
		got := sections(t, name)["deliveries"]
		rows := readRows(t, f, got)
		require.Len(t, rows, len(ids), "%s", f)
		for i := range rows {
			require.Equal(t, ids[i], rows[i].EventID)
			require.Equal(t, []string{all[i].subject}, rows[i].DataSubjectIDs)
			require.Equal(t, all[i].correlation, rows[i].CorrelationID)
		}
		if first == nil {
			first = rows
		}
		require.Equal(t, first, rows, "%s", f)
		if f == CSV {
			records, err := csv.NewReader(bytes.NewReader(got)).ReadAll()
			require.NoError(t, err)
			for _, cells := range records {
				for _, c := range cells {
					require.False(t, c != "" && strings.ContainsRune("=+-@\t\r\n", rune(c[0])), "%q", c)
				}
			}
		}
		h.flips(name)
		h.forgeries(name)
		require.Positive(t, v.Progress.RowsCollected)
		require.Equal(t, v.Progress.RowsExpected, v.Progress.RowsCollected)
	}
}

// flips requires that verify finds a flipped bit anywhere.
func (h *fixture) flips(name string) {
	text, err := os.ReadFile(name)
	require.NoError(h.t, err)
	altered := filepath.Join(h.t.TempDir(), "altered.zip")
	n := 6
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		n = 2_000
	}
	for i := range n {
		at := rand.IntN(len(text))
		if i < n/2 { // where the container, not a section, is
			at = len(text) - 1 - rand.IntN(min(len(text), 3000))
		}
		bad := slices.Clone(text)
		bad[at] ^= 1 << rand.IntN(8)
		require.NoError(h.t, os.WriteFile(altered, bad, 0o600))
		status, report := h.verified(altered)
		require.NotEqual(h.t, verify.ExitSound, status, "byte %d of %d: %s", at, len(text), report)
	}
}

// forgeries requires that verify finds a replaced section in a valid zip file.
func (h *fixture) forgeries(name string) {
	r, err := zip.OpenReader(name)
	require.NoError(h.t, err)
	defer r.Close()
	forged := filepath.Join(h.t.TempDir(), "forged.zip")
	for victim := range r.File[:len(r.File)-1] {
		var text bytes.Buffer
		w := zip.NewWriter(&text)
		for i, f := range r.File {
			in, err := f.Open()
			require.NoError(h.t, err)
			section, err := io.ReadAll(in)
			require.NoError(h.t, err)
			if i == victim {
				section = append(section, "\n"...)
			}
			out, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: f.Method})
			require.NoError(h.t, err)
			_, err = out.Write(section)
			require.NoError(h.t, err)
		}
		require.NoError(h.t, w.Close())
		require.NoError(h.t, os.WriteFile(forged, text.Bytes(), 0o600))
		status, report := h.verified(forged)
		require.Equal(h.t, verify.ExitUnsound, status, report)
		require.Contains(h.t, report, `"file.mismatch"`)
	}
}

func readRows(t *testing.T, f Format, section []byte) (rows []row) {
	switch f {
	case JSON:
		return rowsOf(t, section)
	case NDJSON:
		for line := range bytes.Lines(section) {
			var r row
			require.NoError(t, json.Unmarshal(line, &r))
			rows = append(rows, r)
		}
	case CSV:
		records, err := csv.NewReader(bytes.NewReader(section)).ReadAll()
		require.NoError(t, err)
		for _, cells := range records[1:] {
			values := map[string]string{}
			for i, name := range records[0] {
				values[name] = strings.TrimPrefix(cells[i], "'")
			}
			rows = append(rows, rowFrom(values))
		}
	case Parquet:
		file, err := parquet.OpenFile(bytes.NewReader(section), int64(len(section)))
		require.NoError(t, err)
		columns := file.Schema().Columns()
		for _, group := range file.RowGroups() {
			in := group.Rows()
			buffer := make([]parquet.Row, 64)
			for {
				n, err := in.ReadRows(buffer)
				for _, cells := range buffer[:n] {
					values := map[string]string{}
					for _, v := range cells {
						if !v.IsNull() && v.Kind() == parquet.ByteArray {
							values[columns[v.Column()][0]] = string(v.ByteArray())
						}
					}
					rows = append(rows, rowFrom(values))
				}
				if err != nil {
					break
				}
			}
			require.NoError(t, in.Close())
		}
	}
	return rows
}

func rowFrom(values map[string]string) row {
	r := row{EventID: values["eventId"], RightID: values["rightId"], Substrate: values["substrate"], CorrelationID: values["correlationId"]}
	_ = json.Unmarshal([]byte(values["dataSubjectIds"]), &r.DataSubjectIDs) // a text that is none equals nothing
	return r
}
