package ingest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

const (
	tenantID = "tnt_a"
	rightA   = "rgh_a"
	rightB   = "rgh_b"
)

var (
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	byKey = store.ByKey("key_a")
)

// newService is a service on the database of a folder, with one tenant and two rights, whose events
// are relayed. Made again on the same folder it is another process's.
func newService(t *testing.T, dir string, c *roomtest.Clock, change func(*Config)) *Service {
	t.Helper()
	db := roomtest.Open(t, dir, c.Now)
	roomtest.Right(t, db, rightA, `{}`)
	roomtest.Right(t, db, rightB, `{}`)
	cfg := Config{DB: db, Nodes: roomtest.Alone{}, Deliver: func(context.Context, string, string, []Delivery) ([]Delivered, error) {
		return nil, errors.New("no delivery expected")
	}}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg)
	require.NoError(t, err)
	return r
}

// log takes every event, or none.
type log struct {
	mu      sync.Mutex
	events  []sealer.Record
	away    error
	refused func() // called for each event that it does not take
}

func (l *log) Append(_ context.Context, r *sealer.Record) (sealer.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away == nil {
		l.events = append(l.events, *r)
	} else {
		l.refused()
	}
	return sealer.Position{}, l.away
}

func (l *log) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

// fail has the log refuse events with err, and call refused for each; it takes them again if err is nil.
func (l *log) fail(err error, refused func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away, l.refused = err, refused
}

// relay has a log take the service's events until the test ends.
func (s *Service) relay(t *testing.T) *log {
	l := &log{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.db.Outbox.Relay(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l
}

// at is a time some hours from noon.
func at(hours float64) store.Instant {
	return store.At(noon.Add(time.Duration(hours * float64(time.Hour))))
}

// mappingFor is a requested mapping of a player, from one hour to another; until ≤ from is open.
func mappingFor(player, right string, from, until float64) Mapping {
	m := Mapping{TenantID: tenantID, Vendor: "acme", IDType: "player", VendorID: player, Target: Target{RightID: right, SpatialAnchorID: "wall"}, EffectiveFrom: at(from)}
	if until > from {
		m.EffectiveUntil = at(until)
	}
	return m
}

func (s *Service) mustCreate(t require.TestingT, requested Mapping) Mapping {
	made, err := s.create(context.Background(), requested, byKey)
	require.NoError(t, err)
	return made
}

// resolve is the right of which nodes get a play at an hour as a delivery; "" for none.
func (s *Service) resolve(t require.TestingT, player string, hour float64) string {
	m, err := store.Newest(context.Background(), s.db, api.Mappings, api.VendorKey(tenantID, "acme", "player", player))
	require.NoError(t, err)
	if m == nil {
		return ""
	}
	require.True(t, slices.IsSortedFunc(m.Windows, func(a, b api.MappingWindow) int { return a.From.Compare(b.From) }))
	if w := m.At(at(hour).Time); w != nil {
		return w.RightID
	}
	return ""
}

func conflict(t require.TestingT, err error, named string) {
	require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
	require.Contains(t, err.Error(), named)
}

// TestOverlaps is the table of two mappings of one vendor id: what the second may not be.
func TestOverlaps(t *testing.T) {
	const open = -1000
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	for i, c := range []struct {
		first, second [2]float64
		overlap       bool
	}{
		{[2]float64{0, 2}, [2]float64{2, 4}, false},
		{[2]float64{0, 2}, [2]float64{-2, 0}, false},
		{[2]float64{0, 2}, [2]float64{3, 4}, false},
		{[2]float64{0, 2}, [2]float64{2, open}, false},
		{[2]float64{0, open}, [2]float64{-2, 0}, false},
		{[2]float64{0, 2}, [2]float64{0, 2}, true},
		{[2]float64{0, 2}, [2]float64{1, 3}, true},
		{[2]float64{0, 2}, [2]float64{-1, 1}, true},
		{[2]float64{0, 2}, [2]float64{0.5, 1}, true},
		{[2]float64{0, 2}, [2]float64{-1, 3}, true},
		{[2]float64{0, 2}, [2]float64{-1, open}, true},
		{[2]float64{0, open}, [2]float64{1000, 1001}, true},
		{[2]float64{0, open}, [2]float64{-1, open}, true},
		{[2]float64{0, open}, [2]float64{1000, open}, true},
	} {
		about, player := fmt.Sprint(c.first, c.second), fmt.Sprint(i)
		first := r.mustCreate(t, mappingFor(player, rightA, c.first[0], c.first[1]))
		before := roomtest.Events(t, r.db)
		_, err := r.create(t.Context(), mappingFor(player, rightB, c.second[0], c.second[1]), byKey)
		if !c.overlap {
			require.NoError(t, err, about)
			require.Equal(t, rightB, r.resolve(t, player, c.second[0]), about)
			require.Equal(t, rightA, r.resolve(t, player, c.first[0]), about)
			continue
		}
		conflict(t, err, first.ID)
		require.Equal(t, rightA, r.resolve(t, player, c.first[0]), about)
		require.Equal(t, before, roomtest.Events(t, r.db), "nothing is left of what was refused: %s", about)
	}
}

// TestRefusals: the faults of requested mappings.
func TestRefusals(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	long := strings.Repeat("é", 300)
	for name, c := range map[string]struct {
		edit  func(*Mapping)
		field string
	}{
		"no vendor":           {func(m *Mapping) { m.Vendor = "" }, "vendor"},
		"a long vendor":       {func(m *Mapping) { m.Vendor = long }, "vendor"},
		"a long type":         {func(m *Mapping) { m.IDType = long }, "idType"},
		"no type":             {func(m *Mapping) { m.IDType = "" }, "idType"},
		"no id":               {func(m *Mapping) { m.VendorID = "" }, "vendorId"},
		"a long id":           {func(m *Mapping) { m.VendorID = long }, "vendorId"},
		"U+0000":              {func(m *Mapping) { m.VendorID = "a\x00" }, "vendorId"},
		"a control character": {func(m *Mapping) { m.VendorID, m.Target.SpatialAnchorID = "a\x1b", "a\x1b[2J" }, "target.spatialAnchorId"},
		"no right":            {func(m *Mapping) { m.Target.RightID = "" }, "target.rightId"},
		"no anchor":           {func(m *Mapping) { m.Target.SpatialAnchorID = "" }, "target.spatialAnchorId"},
		"a long anchor":       {func(m *Mapping) { m.Target.SpatialAnchorID = long }, "target.spatialAnchorId"},
		"a long placement":    {func(m *Mapping) { m.Target.SpatialPlacementID = &long }, "target.spatialPlacementId"},
		"no beginning":        {func(m *Mapping) { m.EffectiveFrom = store.Instant{} }, "effectiveFrom"},
		"ends as it begins":   {func(m *Mapping) { m.EffectiveUntil = m.EffectiveFrom }, "effectiveUntil"},
		"ends before it":      {func(m *Mapping) { m.EffectiveUntil = at(-1) }, "effectiveUntil"},
		"an unknown right":    {func(m *Mapping) { m.Target.RightID = "rgh_none" }, "rightId"},
		"a right of another":  {func(m *Mapping) { m.TenantID = "tnt_b" }, "rightId"},
	} {
		requested := mappingFor("1", rightA, 0, 0)
		c.edit(&requested)
		_, err := r.create(t.Context(), requested, byKey)
		require.Equal(t, c.field, api.From(err).Field, "%s: %v", name, err)
		want := api.ValidationFailed
		if c.field == "rightId" {
			want = api.ResourceNotFound
		}
		require.Equal(t, want, api.From(err).Code, name)
	}
	require.Empty(t, roomtest.Events(t, r.db))
}

// TestEveryRowsIDCanBeMapped: what names an id in a row, as long as it may be there, does so in a
// mapping, and in the row that waits for it.
func TestEveryRowsIDCanBeMapped(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	longest := func() string { // nothing that an index could hold shorter
		text := make([]byte, 256)
		_, err := rand.Read(text)
		require.NoError(t, err)
		return hex.EncodeToString(text)
	}
	requested := mappingFor("1", rightA, 0, 0)
	requested.Vendor, requested.IDType, requested.VendorID = "https://"+longest()[8:], longest(), longest()
	row := api.Row{PlayedAt: noon.Format(time.RFC3339), Vendor: requested.Vendor, IDType: requested.IDType, VendorID: requested.VendorID}
	held, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: []api.HeldRow{{
		Reason:   api.HeldUnmapped,
		Identity: api.RowIdentity{Hash: "h"}, Vendor: row.Vendor, IDType: row.IDType, VendorID: row.VendorID, PlayedAt: noon, Row: string(row.AppendJSON(nil)),
	}}})
	require.NoError(t, err)
	require.Nil(t, held[0].Error)
	made, err := r.create(t.Context(), requested, byKey)
	require.NoError(t, err)
	require.Equal(t, requested.Vendor, made.Vendor)
}

// TestRetire: earlier plays still resolve, later ones don't, and one that never was in force
// gives its time back.
func TestRetire(t *testing.T) {
	clock := roomtest.NewClock(noon)
	r := newService(t, t.TempDir(), clock, nil)
	for name, c := range map[string]struct {
		from, until, retired float64
		end                  float64
	}{
		"in force":          {-2, 5, 1, 1},
		"open":              {-2, -3, 1, 1},
		"over already":      {-2, -1, 1, -1},
		"before it began":   {3, 5, 1, 3},
		"open, to come":     {3, 2, 1, 3},
		"as it begins":      {1, 5, 1, 1},
		"as it would end":   {-2, 1, 1, 1},
		"just before it is": {1.001, 5, 1, 1.001},
	} {
		clock.Set(noon)
		before := len(roomtest.Events(t, r.db))
		m := r.mustCreate(t, mappingFor(name, rightA, c.from, c.until))
		clock.Set(at(c.retired).Time)
		retired, p, err := r.retire(t.Context(), tenantID, m.ID, byKey)
		require.NoError(t, err, name)
		require.True(t, p.Applied, name)
		require.Equal(t, Retired, retired.State, name)
		require.Equal(t, at(c.end), retired.EffectiveUntil, name)
		for hour := -4.; hour < 8; hour += 0.25 {
			want := ""
			if hour >= c.from && hour < c.end {
				want = rightA
			}
			require.Equal(t, want, r.resolve(t, name, hour), "%s: %v", name, hour)
		}
		again, _, err := r.retire(t.Context(), tenantID, m.ID, byKey)
		require.NoError(t, err, name)
		require.Equal(t, retired, again, name)
		var types []string
		for _, e := range roomtest.Events(t, r.db)[before:] {
			types = append(types, e.Type)
			require.Equal(t, byKey, e.Actor)
			require.Equal(t, sealer.Ref{Kind: "mapping", ID: m.ID}, e.Subject)
		}
		require.Equal(t, []string{"mapping.created", "mapping.retired"}, types, name)
		r.mustCreate(t, mappingFor(name, rightB, c.end, c.end+1)) // its time is free
		require.Equal(t, rightB, r.resolve(t, name, c.end), name)
	}
	m := r.mustCreate(t, mappingFor("1", rightA, 0, 0))
	for _, of := range [][2]string{{"tnt_b", m.ID}, {tenantID, "map_none"}} {
		_, _, err := r.retire(t.Context(), of[0], of[1], byKey)
		require.Equal(t, api.ResourceNotFound, api.From(err).Code)
	}
}

// TestMappingsAgainstAModel makes random moves on a running clock. The model is a list of windows,
// which it compares one by one.
func TestMappingsAgainstAModel(t *testing.T) {
	stacktest.Both(t)
	clock := roomtest.NewClock(noon)
	r := newService(t, t.TempDir(), clock, nil)
	n := 0
	rapidtest.Check(t, 20, 1000, func(t *rapid.T) {
		n++
		players := []string{fmt.Sprint("a", n), fmt.Sprint("b", n)}
		clock.Set(noon)
		now := 0.
		var model []Mapping
		for range rapid.IntRange(1, 25).Draw(t, "moves") {
			now += float64(rapid.IntRange(0, 4).Draw(t, "later")) / 2
			clock.Set(at(now).Time)
			if len(model) > 0 && rapid.IntRange(0, 3).Draw(t, "retire?") == 0 {
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				m := &model[i]
				if m.State == Active {
					end := max(now, m.EffectiveFrom.Sub(noon).Hours())
					if m.EffectiveUntil.IsZero() || end < m.EffectiveUntil.Sub(noon).Hours() {
						m.EffectiveUntil = at(end)
					}
					m.State = Retired
				}
				got, _, err := r.retire(context.Background(), tenantID, m.ID, byKey)
				require.NoError(t, err)
				require.Equal(t, m.EffectiveUntil, got.EffectiveUntil)
				continue
			}
			hour := func(name string) float64 { return float64(rapid.IntRange(-6, 20).Draw(t, name)) / 2 }
			requested := mappingFor(rapid.SampledFrom(players).Draw(t, "player"), rapid.SampledFrom([]string{rightA, rightB}).Draw(t, "right"), hour("from"), hour("until"))
			var other []string
			for _, m := range model {
				ends := func(m Mapping) time.Time {
					if m.EffectiveUntil.IsZero() {
						return noon.AddDate(1000, 0, 0)
					}
					return m.EffectiveUntil.Time
				}
				if m.VendorID == requested.VendorID && m.EffectiveFrom.Before(ends(m)) && m.EffectiveFrom.Before(ends(requested)) && requested.EffectiveFrom.Before(ends(m)) {
					other = append(other, m.ID)
				}
			}
			made, err := r.create(context.Background(), requested, byKey)
			if len(other) > 0 {
				require.Equal(t, api.StateConflict, api.From(err).Code)
				require.True(t, slices.ContainsFunc(other, func(id string) bool { return strings.Contains(err.Error(), id) }), "%v names none of %v", err, other)
				continue
			}
			require.NoError(t, err)
			model = append(model, made)
		}

		for _, player := range players {
			for hour := -4.; hour < 40; hour += 0.5 {
				want := ""
				for _, m := range model {
					if m.VendorID == player && !m.EffectiveFrom.After(at(hour).Time) && (m.EffectiveUntil.IsZero() || at(hour).Before(m.EffectiveUntil.Time)) {
						require.Empty(t, want, "two mappings at one moment")
						want = m.Target.RightID
					}
				}
				require.Equal(t, want, r.resolve(t, player, hour), "%s at %v", player, hour)
			}
			for _, f := range []filter{{vendorID: player}, {vendorID: player, state: "RETIRED"}, {vendorID: player, rightID: rightA, state: "ACTIVE"}} {
				page, _, err := list(context.Background(), r.db.Read(), tenantID, f, store.Slice{Limit: 500})
				require.NoError(t, err)
				counted, err := total(context.Background(), r.db.Read(), tenantID, f)
				require.NoError(t, err)
				require.Len(t, page, int(counted))
			}
		}
	})
	for _, f := range []filter{{}, {vendor: "acme"}, {idType: "player"}, {vendor: "other"}, {rightID: rightA}, {state: "RETIRED"}, {rightID: rightB, state: "ACTIVE", vendor: "acme"}} {
		counted, err := total(t.Context(), r.db.Read(), tenantID, f)
		require.NoError(t, err)
		var w store.Where
		w.Is("tenant_id", tenantID)
		f.where(&w)
		want, err := w.Count(t.Context(), r.db.Read(), "all", `SELECT COUNT(*) FROM mappings`)
		require.NoError(t, err)
		require.Equal(t, want, counted, "%+v", f)
	}
}

// TestOneOfManyOverlapsWins, for concurrent requests to two processes.
func TestOneOfManyOverlapsWins(t *testing.T) {
	stacktest.Both(t)
	dir, clock := t.TempDir(), roomtest.NewClock(noon)
	services := []*Service{newService(t, dir, clock, nil), newService(t, dir, clock, nil)}
	errs := make([]error, 16)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, errs[i] = services[i%2].create(context.Background(), mappingFor("1", rightA, float64(i), 20), byKey)
		})
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
	}
	require.Equal(t, 1, won)
}

// TestWindowsAreBounded: what nodes get of one vendor id stays small, and what ended long ago
// frees space; its plays were too late long before.
func TestWindowsAreBounded(t *testing.T) {
	clock := roomtest.NewClock(noon)
	r := newService(t, t.TempDir(), clock, nil)
	n := 0
	for ; n < 1000; n++ {
		requested := mappingFor("1", rightA, float64(n), float64(n+1))
		requested.Target.SpatialAnchorID = strings.Repeat("x", maxText)
		_, err := r.create(t.Context(), requested, byKey)
		if err != nil {
			conflict(t, err, fmt.Sprintf("this vendor id has %d mappings", n))
			break
		}
	}
	require.Greater(t, n, 40, "with the longest names")
	require.Less(t, n, 1000)
	key := api.VendorKey(tenantID, "acme", "player", "1")
	s, err := r.db.Feed.Snapshot(t.Context(), "mapping", key)
	require.NoError(t, err)
	require.LessOrEqual(t, len(s.Change.Snapshot), maxSnapshot)
	require.Equal(t, rightA, r.resolve(t, "1", float64(n-1)), "what was there stays")
	require.Equal(t, "", r.resolve(t, "1", float64(n)))
	r.mustCreate(t, mappingFor("2", rightA, 0, 0))

	clock.Set(at(10).Add(keepWindows))
	r.mustCreate(t, mappingFor("1", rightB, float64(n), 0))
	m, err := store.Newest(t.Context(), r.db, api.Mappings, key)
	require.NoError(t, err)
	require.Len(t, m.Windows, n-10+1)
	require.Equal(t, at(10).Time, m.Windows[0].From)
	_, err = r.create(t.Context(), mappingFor("1", rightB, 3, 4), byKey)
	conflict(t, err, "overlaps") // it has ended, but it was in force
}

// TestEventIsTheRecord: the event's data is the record in the response.
func TestEventIsTheRecord(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	m := r.mustCreate(t, mappingFor("1", rightA, 0, 0))
	events := roomtest.Events(t, r.db)
	require.Len(t, events, 1)
	answered, err := json.Marshal(m)
	require.NoError(t, err)
	require.JSONEq(t, string(answered), string(events[0].Data))
	require.JSONEq(t, fmt.Sprintf(`{"id":%q,"vendor":"acme","idType":"player","vendorId":"1","target":{"rightId":"rgh_a","spatialAnchorId":"wall","spatialPlacementId":null},
		"effectiveFrom":"2026-11-20T12:00:00.000Z","effectiveUntil":null,"state":"ACTIVE","createdAt":"2026-11-20T12:00:00.000Z","updatedAt":"2026-11-20T12:00:00.000Z","revision":%d}`,
		m.ID, m.Revision), string(answered))
	found, err := mappings.Find(t.Context(), r.db.Read(), tenantID, m.ID)
	require.NoError(t, err)
	require.Equal(t, &m, found)
}
