package conform

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// eraseKey is the key of the suite's hashes.
var eraseKey = pipeline.SubjectKey{1, 2, 3}

// Place is a position in the partition of Shown's rows.
func Place(offset int64) sealer.Position { return at(offset) }

// Shown makes the row of a delivery to a person, for what an engine's package tests of erasing.
// The time rises with the offset. telemetry is a canonical object.
func Shown(tenant string, offset int64, subject, telemetry string) pipeline.Row {
	return personal(tenant, at(offset), noon.Add(time.Duration(offset)*time.Millisecond), "",
		sealer.Private{AttentionMs: -1, DataSubjects: sealer.About(subject), Telemetry: []byte(telemetry)})
}

// tombstone is that of a person.
func tombstone(tenant, subject string, until time.Time) pipeline.Tombstone {
	return pipeline.Tombstone{TenantID: tenant, SubjectHash: eraseKey.Hash(tenant, subject), Until: until}
}

// bare is a row without its private part.
func bare(r pipeline.Row) pipeline.Row {
	r.Private = nil
	return r
}

func requireCount(tb require.TestingT, ctx context.Context, w pipeline.Warehouse, tenant, subject string, parts, quarantined int64) {
	n, err := w.CountSubject(ctx, tenant, eraseKey.Hash(tenant, subject))
	require.NoError(tb, err)
	require.Equal(tb, pipeline.SubjectCount{PrivateParts: parts, Quarantined: quarantined}, n, "%s of %s", subject, tenant)
}

func checkErase(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	require.NoError(tb, w.Erase(ctx, eraseKey, nil))
	require.ErrorIs(tb, w.Erase(ctx, pipeline.SubjectKey{9}, nil), pipeline.ErrOtherKey)
	rows := []pipeline.Row{
		shown("tnt_a", at(0), noon, "ada"),
		shown("tnt_a", at(1), noon.Add(time.Second), "ada"),
		shown("tnt_a", at(2), noon, "adam"),
		shown("tnt_b", at(3), noon, "ada"),
		delivery("tnt_a", at(4), noon, "key"),
		audit("tnt_a", at(5)),
		shown("tnt_a", at(6), noon.Add(time.Second+time.Millisecond), "ada"),
		shown("tnt_a", at(700), noon, "ada"), // far from the others
	}
	load(tb, ctx, w, rows...)
	q := pipeline.MeterQuery{TenantID: "tnt_a"}
	before, err := w.MeterTotals(ctx, q)
	require.NoError(tb, err)
	requireCount(tb, ctx, w, "tnt_a", "ada", 4, 0)

	require.NoError(tb, w.Erase(ctx, eraseKey, []pipeline.Tombstone{tombstone("tnt_a", "ada", noon.Add(time.Second)), tombstone("tnt_a", "nobody", noon)}))
	want := slices.Clone(rows)
	for _, i := range []int{0, 1, 7} {
		want[i] = bare(want[i])
	}
	check := func(w pipeline.Warehouse, left int64) {
		for _, tenant := range []string{"tnt_a", "tnt_b"} {
			mine := slices.DeleteFunc(slices.Clone(want), func(r pipeline.Row) bool { return r.TenantID != tenant })
			requireRows(tb, mine, everything(tb, ctx, w, tenant))
		}
		one, err := w.Event(ctx, "tnt_a", rows[1].EventID)
		require.NoError(tb, err)
		require.Empty(tb, one.Private)
		requireCount(tb, ctx, w, "tnt_a", "ada", left, 0)
		requireCount(tb, ctx, w, "tnt_b", "ada", 1, 0)
		after, err := w.MeterTotals(ctx, q)
		require.NoError(tb, err)
		require.Equal(tb, before, after)
	}
	check(w, 1)
	check(w.Reopen(), 1)
	// A person who came again is erased again, by a tombstone that covers more.
	require.NoError(tb, w.Erase(ctx, eraseKey, []pipeline.Tombstone{tombstone("tnt_a", "ada", noon), tombstone("tnt_a", "ada", noon.Add(time.Hour))}))
	want[6] = bare(want[6])
	check(w, 0)
}

// checkErasedAgain loads what was erased once more: as it was, what was late, copies at lower
// positions, and all of it into a warehouse that knew the tombstones before.
func checkErasedAgain(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	early := shown("tnt_a", at(9), noon, "ada")
	rows := []pipeline.Row{
		shown("tnt_a", at(10), noon, "ada"),
		shown("tnt_a", at(11), noon, "bob"),
		again(early, at(12)),
	}
	require.NoError(tb, w.Erase(ctx, eraseKey, nil))
	load(tb, ctx, w, rows...)
	stones := []pipeline.Tombstone{tombstone("tnt_a", "ada", noon)}
	require.NoError(tb, w.Erase(ctx, eraseKey, stones))
	late := []pipeline.Row{shown("tnt_a", at(13), noon.Add(-time.Hour), "ada"), shown("tnt_a", at(14), noon.Add(time.Millisecond), "ada")}
	want := []pipeline.Row{bare(rows[0]), rows[1], bare(rows[2]), bare(late[0]), late[1]}
	other := w.Reopen()
	if w.Other != nil {
		other = w.Other()
	}
	for _, w := range []pipeline.Warehouse{w, other} {
		load(tb, ctx, w, rows...)
		load(tb, ctx, w, late...)
		requireRows(tb, want, everything(tb, ctx, w, "tnt_a"))
	}
	require.NoError(tb, w.Load(ctx, pipeline.Batch{Partition: 3, From: at(9), Rows: []pipeline.Row{early}, Next: at(10)}))
	want = slices.Concat([]pipeline.Row{bare(early)}, want[:2], want[3:])
	for _, w := range []pipeline.Warehouse{w, other, w.Reopen()} {
		requireRows(tb, want, everything(tb, ctx, w, "tnt_a"))
		requireCount(tb, ctx, w, "tnt_a", "ada", 1, 0)
		require.NoError(tb, w.Erase(ctx, eraseKey, stones), "again")
	}
}

// loadTries is how often a batch is loaded whose outcome is unknown, as a loader does.
const loadTries = 10

// checkEraseBesideLoads erases persons while loaders bring their events, which are all older.
func checkEraseBesideLoads(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	const n, persons = 240, 6
	var rows []pipeline.Row
	for i := range int64(n) {
		rows = append(rows, shown("tnt_a", at(i), noon.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("person ", i%(persons+1)), []string{"", "somebody"}[i%2]))
	}
	require.NoError(tb, w.Erase(ctx, eraseKey, nil))
	var wg sync.WaitGroup
	errs := make([]error, 3)
	loaders := []pipeline.Warehouse{w, w}
	if w.Other != nil {
		loaders[1] = w.Other()
	}
	for l, loader := range loaders {
		wg.Go(func() {
			for from := 0; from < n && errs[l] == nil; from += 20 {
				b := pipeline.Batch{Partition: 3, From: at(int64(from)), Rows: rows[from : from+20], Next: at(int64(from + 20))}
				for range loadTries { // a server that erases may not respond in time
					if errs[l] = loader.Load(ctx, b); errs[l] == nil {
						break
					}
				}
			}
		})
	}
	wg.Go(func() {
		for i := 0; i < persons && errs[2] == nil; i++ {
			errs[2] = w.Erase(ctx, eraseKey, []pipeline.Tombstone{tombstone("tnt_a", fmt.Sprint("person ", i), noon.Add(time.Hour))})
		}
	})
	wg.Wait()
	require.NoError(tb, errors.Join(errs...))
	want := slices.Clone(rows)
	for i := range want {
		if i%(persons+1) != persons {
			var err error
			want[i].Private, err = sealer.Forget(want[i].Private, func(subject string) bool { return subject != "somebody" })
			require.NoError(tb, err)
		}
	}
	requireRows(tb, want, everything(tb, ctx, w, "tnt_a"))
	requireCount(tb, ctx, w, "tnt_a", "somebody", n/2, 0)
	for i := range persons {
		requireCount(tb, ctx, w, "tnt_a", fmt.Sprint("person ", i), 0, 0)
	}
}

// checkErasedUnknown fills a new warehouse: no erased person is loaded into it.
func checkErasedUnknown(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	plain, person := delivery("tnt_a", at(0), noon, ""), shown("tnt_a", at(1), noon, "ada")
	load(tb, ctx, w, plain)
	b := pipeline.Batch{Partition: 3, From: at(1), Rows: []pipeline.Row{person}, Next: at(2)}
	require.ErrorIs(tb, w.Load(ctx, b), pipeline.ErrErasedUnknown)
	requireRows(tb, []pipeline.Row{plain}, everything(tb, ctx, w, "tnt_a"))
	requireCount(tb, ctx, w, "tnt_a", "ada", 0, 0)
	next, _, err := w.Resume(ctx, 3)
	require.NoError(tb, err)
	require.Equal(tb, at(1), next)
	require.NoError(tb, w.Erase(ctx, eraseKey, []pipeline.Tombstone{tombstone("tnt_a", "ada", noon)}))
	require.NoError(tb, w.Load(ctx, b))
	requireRows(tb, []pipeline.Row{plain, bare(person)}, everything(tb, ctx, w, "tnt_a"))
}

// checkEraseNotes erases the notes about subjects of a kind that name a person, of another person's events,
// too: they don't come back. Other notes and persons stay, and those of other kinds.
func checkEraseNotes(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	noted := func(offset int64, tenant, kind, subject, notes string, when time.Time) pipeline.Row {
		return annotated(tenant, at(offset), kind, subject, `{"by":"eve","notes":"`+notes+`"}`, when)
	}
	rows := []pipeline.Row{
		noted(0, "tnt_a", "dsar_job", "", "asked by ada", noon),
		noted(1, "tnt_a", "dsar_job", "bob", "ada.", noon),
		noted(2, "tnt_a", "basis", "bob", "asked by ada", noon),
		noted(3, "tnt_b", "dsar_job", "", "asked by ada", noon),
		noted(4, "tnt_a", "dsar_job", "", "asked by ada", noon.Add(time.Hour)),
		shown("tnt_a", at(5), noon, "bob"),
		noted(6, "tnt_a", "dsar_job", "bob", "asked by adam", noon),
		noted(7, "tnt_a", "dsar_job", "cid", "asked by bob", noon),
		annotated("tnt_a", at(8), "dsar_job", "", `{"notes":"ada"}`, noon),
		annotated("tnt_a", at(9), "dsar_job", "", `{"notes":{"by":["of ada"],"for":"eve"}}`, noon),
		annotated("tnt_a", at(10), "dsar_job", "bob", `{"notes":"ad"}`, noon), // as long as its hash
		noted(700, "tnt_a", "dsar_job", "bob", "asked by ada", noon),          // far from the others
	}
	n := len(rows) - 1
	require.NoError(tb, w.Erase(ctx, eraseKey, nil))
	load(tb, ctx, w, rows[:n]...)
	stones := []pipeline.Tombstone{
		{TenantID: "tnt_a", SubjectHash: pipeline.NotesHash("dsar_job", eraseKey.Hash("tnt_a", "ada")), Until: noon},
		{TenantID: "tnt_a", SubjectHash: pipeline.NotesHash("dsar_job", eraseKey.Hash("tnt_a", "ad")), Until: noon},
	}
	require.NoError(tb, w.Erase(ctx, eraseKey, stones))
	load(tb, ctx, w, rows[n])
	want := slices.Clone(rows)
	for _, i := range []int{0, 1, 8, 9, 10, n} {
		var err error
		want[i].Private, err = sealer.ForgetNotes(want[i].Private, func(text string) bool { return sealer.NewPerson("ada").In(text) || text == "ad" })
		require.NoError(tb, err)
		require.Equal(tb, i == 8 || i == 9, len(want[i].Private) == 0)
		if len(want[i].Private) > 0 {
			_, _, err = sealer.CheckRecord(&want[i].Record)
			require.NoError(tb, err, "the commitment is still that of the rest")
		}
	}
	bob := func() (n int64) {
		for _, r := range want {
			if r.TenantID == "tnt_a" && r.IsAbout(sealer.NewPerson("bob")) {
				n++
			}
		}
		return n
	}
	for _, w := range []pipeline.Warehouse{w, w.Reopen()} {
		load(tb, ctx, w, rows[:n]...)
		for _, tenant := range []string{"tnt_a", "tnt_b"} {
			mine := slices.DeleteFunc(slices.Clone(want), func(r pipeline.Row) bool { return r.TenantID != tenant })
			requireRows(tb, mine, everything(tb, ctx, w, tenant))
		}
		requireCount(tb, ctx, w, "tnt_a", "bob", bob(), 0)
		require.NoError(tb, w.Erase(ctx, eraseKey, stones), "again")
	}
	// A person is erased whom a note names beside.
	require.NoError(tb, w.Erase(ctx, eraseKey, []pipeline.Tombstone{tombstone("tnt_a", "bob", noon)}))
	for i := range want {
		if want[i].TenantID == "tnt_a" {
			var err error
			want[i].Private, err = sealer.Forget(want[i].Private, sealer.NewPerson("bob").Is)
			require.NoError(tb, err)
		}
	}
	requireRows(tb, slices.DeleteFunc(slices.Clone(want), func(r pipeline.Row) bool { return r.TenantID != "tnt_a" }), everything(tb, ctx, w, "tnt_a"))
	requireCount(tb, ctx, w, "tnt_a", "bob", bob(), 0)
}

func checkEraseQuarantined(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	private := []byte(`{"dataSubject":"ad\u0061","salt":"AAAAAAAAAAAAAAAAAAAAAA"}`)
	record := func(event string, private []byte) []byte {
		return sealer.AppendRecord(nil, &sealer.Record{TenantID: "tnt_a", EventID: "evt_1", Node: "nod_1", Event: []byte(event), Private: private})
	}
	one := func(offset int64, tenant string, record []byte) pipeline.Quarantined {
		return pipeline.Quarantined{Position: at(offset), TenantID: tenant, EventID: "evt_1", Reason: "header and event disagree", Record: record}
	}
	list := []pipeline.Quarantined{
		one(1, "tnt_a", record(`{"n":1}`, private)),
		one(2, "tnt_a", record(`{"n":1,"dataSubject":"ada"}`, nil)),
		one(3, "", record(`{"n":1}`, private)),
		one(4, "tnt_a", []byte(`no record {"dataSubject": "ada"}`)),
		one(5, "tnt_a", record(`{"n":1}`, []byte(`{"dataSubject":"bob"}`))),
		one(6, "tnt_b", record(`{"n":1}`, private)),
		one(7, "tnt_a", record(`{"dataSubject":7}`, nil)),
	}
	want := slices.Clone(list)
	for i, r := range [][]byte{record(`{"n":1}`, nil), record("", nil), record(`{"n":1}`, nil), {}} {
		want[i].Record = r
	}
	require.NoError(tb, w.Erase(ctx, eraseKey, nil))
	quarantine(tb, ctx, w, list[:5]...)
	requireCount(tb, ctx, w, "tnt_a", "ada", 0, 4)
	of := func(tenant, person string) []pipeline.Quarantined {
		listed, err := w.QuarantinedOf(ctx, tenant, sealer.NewPerson(person))
		require.NoError(tb, err)
		return listed
	}
	require.Equal(tb, []pipeline.Quarantined{list[0], list[1], list[3]}, of("tnt_a", "ada"))
	require.Equal(tb, []pipeline.Quarantined{list[0], list[1], list[3], list[4]}, of("tnt_a", ""))
	require.Empty(tb, of("tnt_b", ""))
	require.NoError(tb, w.Erase(ctx, eraseKey, []pipeline.Tombstone{tombstone("tnt_a", "ada", noon)}))
	quarantine(tb, ctx, w, list...) // again, and what comes later
	held, n, err := w.Held(ctx, pipeline.HeldQuery{Limit: 9})
	require.NoError(tb, err)
	require.EqualValues(tb, len(list), n)
	for i := range held {
		held[i].Record = append([]byte{}, held[i].Record...)
	}
	require.Equal(tb, want, held)
	requireCount(tb, ctx, w, "tnt_a", "ada", 0, 0)
}

func checkDataSubjects(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	require.NoError(tb, w.Erase(ctx, eraseKey, nil))
	require.Empty(tb, pages(tb, ctx, w, pipeline.EventQuery{TenantID: "tnt_a", DataSubject: "ada", Limit: 3}))
	subjects := []string{"ada", `a"d\a`, "ädä@example.org", "a", `","salt":"`, "a\u0308da\u0308@Example.org", "31", "tnt"}
	var rows []pipeline.Row
	for i := range int64(60) {
		p := at(i * 37)
		switch {
		case i%7 == 6:
			rows = append(rows, delivery("tnt_a", p, noon, ""))
		case i%11 == 10:
			rows = append(rows, audit("tnt_a", p))
		default:
			rows = append(rows, shown([]string{"tnt_a", "tnt_a", "tnt_b"}[i%3], p, noon.Add(time.Duration(i)*time.Second), subjects[int(i)%len(subjects)]))
		}
	}
	// A dataSubject in the telemetry is no reference to a person.
	rows = append(rows, personal("tnt_a", at(3000), noon, "", sealer.Private{AttentionMs: -1, Telemetry: []byte(`{"dataSubject":"ada"}`)}))
	load(tb, ctx, w, rows...)
	for _, subject := range append(subjects, "nobody", "ÄDÄ@example.org") {
		for _, q := range []pipeline.EventQuery{
			{}, {Newest: true}, {From: noon.Add(20 * time.Second)}, {RightID: "rgh_1"}, {Types: []string{"right.issued"}},
		} {
			q.TenantID, q.DataSubject, q.Limit = "tnt_a", subject, len(rows)
			want := events(rows, q)
			require.Equal(tb, subject == "nobody" || len(q.Types) > 0, len(want) == 0)
			q.Limit = 3
			requireRows(tb, want, pages(tb, ctx, w, q))
		}
	}
}

// checkLabelled counts deliveries by the texts of their receipts that name a person: each event once,
// and none that only has a part of the reference.
func checkLabelled(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	labelled := func(tenant string, offset int64, anchor, placement, correlation string) pipeline.Row {
		return delivery(tenant, at(offset), noon, "", func(_ *sealer.Delivery, r *sealer.Receipt) {
			r.SpatialAnchorID = anchor
			if placement != "" {
				r.SpatialPlacementID = &placement
			}
			if correlation != "" {
				r.CorrelationID = &correlation
			}
		})
	}
	rows := []pipeline.Row{
		labelled("tnt_a", 0, "screen 1", "", "order/A@Example.org"),
		labelled("tnt_a", 1, "a@example.org", "a@example.org", "a@example.org"),
		labelled("tnt_a", 2, "screen 1", "at a@example.org.", ""),
		labelled("tnt_a", 3, "screen 1", "", "b+a@example.org"),
		labelled("tnt_a", 4, "screen 1", "x.a@example.org", "a@example.orgs"),
		labelled("tnt_a", 5, "screen-1", "", `{"who":"\u0061@example.org"}`),
		labelled("tnt_b", 6, "screen 1", "", "a@example.org"),
		labelled("tnt_a", 7, "scr\u00e9en 🙂", "", "Jos\u00e9"),
		labelled("tnt_a", 8, "screen 1", "", "a.* (b"),
	}
	load(tb, ctx, w, rows...)
	load(tb, ctx, w, again(rows[0], at(9)))
	for person, want := range map[string]int64{
		"a@example.org": 4, "A@EXAMPLE.ORG": 4, "example.org": 0, "1": 5, "screen 1": 5, "screen": 5, "Jose\u0301": 1, "Jose": 0, "🙂": 1, ".*": 0, "a.*": 1, "(": 0, "nobody": 0, "": 0, "K": 0, `\`: 0,
	} {
		n, err := w.CountLabelled(ctx, "tnt_a", sealer.NewPerson(person))
		require.NoError(tb, err)
		require.Equal(tb, want, n, "%q", person)
	}
}

// checkTelemetry counts deliveries by telemetry that names a person whom they are not about: each event
// once, whatever else the private part has, and after an erasure as before.
func checkTelemetry(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	require.NoError(tb, w.Erase(ctx, eraseKey, nil))
	seen := func(tenant string, offset int64, telemetry string, about ...string) pipeline.Row {
		p := sealer.Private{AttentionMs: -1, DataSubjects: sealer.About(about...), RequestHash: "a@example.org"}
		if telemetry != "" {
			p.Telemetry = []byte(telemetry)
		}
		return personal(tenant, at(offset), noon, "", p)
	}
	rows := []pipeline.Row{
		seen("tnt_a", 0, `{"beamId":"of A@Example.org"}`),
		seen("tnt_a", 1, `{"beamId":["x",{"y":"a@example.org."}]}`, "bob"),
		seen("tnt_a", 2, `{"beamId":"a@example.org"}`, "bob", "a@example.org"),
		seen("tnt_a", 3, `{"a@example.org":"b+a@example.org","n":1}`),
		seen("tnt_a", 4, `{"beamId":"\\u0061@example.org"}`),
		seen("tnt_b", 5, `{"beamId":"a@example.org"}`),
		seen("tnt_a", 6, "", "bob"),
		seen("tnt_a", 7, `{"beamId":"José \"31\""}`),
		annotated("tnt_a", at(8), "dsar_job", "", `{"notes":"a@example.org"}`, noon),
	}
	load(tb, ctx, w, rows...)
	load(tb, ctx, w, again(rows[0], at(9)))
	check := func() {
		for person, want := range map[string]int64{
			"a@example.org": 3, "A@EXAMPLE.ORG": 3, "example.org": 0, "Jose\u0301": 1, "Jose": 0, "31": 1, `"31"`: 1, "bob": 0, "nobody": 0, "": 0, "1": 0,
		} {
			n, err := w.CountTelemetry(ctx, "tnt_a", sealer.NewPerson(person))
			require.NoError(tb, err)
			require.Equal(tb, want, n, "%q", person)
		}
	}
	check()
	require.NoError(tb, w.Erase(ctx, eraseKey, []pipeline.Tombstone{tombstone("tnt_a", "a@example.org", noon)}))
	check()
}

// checkSeveral loads deliveries to several persons, drawn at random, and erases persons one by one: exactly
// theirs are gone, the others stay, and each finds hers.
func checkSeveral(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	require.NoError(tb, w.Erase(ctx, eraseKey, nil))
	random := rand.New(rand.NewPCG(1, 2))
	persons := []string{"ada", "bob", "cid@example.org", `d"e`, "31"}
	var rows []pipeline.Row
	for i := range int64(60) {
		var named []string
		for _, n := range random.Perm(len(persons))[:random.IntN(len(persons)+1)] {
			named = append(named, persons[n])
		}
		rows = append(rows, shown("tnt_a", at(i*37), noon.Add(time.Duration(i)*time.Second), named...))
	}
	load(tb, ctx, w, rows[:40]...)
	want := slices.Clone(rows)
	var stones []pipeline.Tombstone
	check := func(w pipeline.Warehouse, among []pipeline.Row) {
		requireRows(tb, among, everything(tb, ctx, w, "tnt_a"))
		for _, person := range persons {
			q := pipeline.EventQuery{TenantID: "tnt_a", DataSubject: person, Limit: len(rows)}
			mine := events(among, q)
			q.Limit = 7
			requireRows(tb, mine, pages(tb, ctx, w, q))
			requireCount(tb, ctx, w, "tnt_a", person, int64(len(mine)), 0)
		}
	}
	check(w, want[:40])
	for n, person := range []string{"CID@example.org", "31", "ada"} {
		until := noon.Add(time.Duration(50-n) * time.Second)
		stones = append(stones, tombstone("tnt_a", person, until))
		require.NoError(tb, w.Erase(ctx, eraseKey, stones[n:]))
		for i := range want {
			if want[i].At.After(until) {
				continue
			}
			var err error
			want[i].Private, err = sealer.Forget(want[i].Private, sealer.NewPerson(person).Is)
			require.NoError(tb, err)
			if len(want[i].Private) > 0 {
				_, _, err = sealer.CheckRecord(&want[i].Record)
				require.NoError(tb, err, "the commitment is still that of the rest")
			}
		}
		check(w, want[:40])
		load(tb, ctx, w, rows[:40]...)
		check(w.Reopen(), want[:40])
	}
	load(tb, ctx, w, rows...)
	for _, w := range []pipeline.Warehouse{w, w.Reopen()} {
		require.NoError(tb, w.Erase(ctx, eraseKey, stones), "again")
		check(w, want)
	}
}
