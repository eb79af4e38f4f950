package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

var noon = time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)

// window maps to a right that is named by a letter, for some hours around noon; no end: open.
func window(right string, from, until int) api.MappingWindow {
	w := api.MappingWindow{MappingID: "map_" + right, RightID: "rgh_" + right, SpatialAnchorID: "wall", From: noon.Add(time.Duration(from) * time.Hour)}
	if until > from {
		w.Until = noon.Add(time.Duration(until) * time.Hour)
	}
	return w
}

// putMapping publishes what a player of tnt_a stands for.
func (s *source) putMapping(player string, windows ...api.MappingWindow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	publish(s, api.Mappings, &api.Mapping{ID: api.VendorKey("tnt_a", "acme", "player", player), TenantID: "tnt_a", Revision: s.revision, Windows: windows})
}

func played(player string, hour int) VendorPlay {
	return VendorPlay{"acme", "player", player, noon.Add(time.Duration(hour) * time.Hour)}
}

// right is which right a play is a delivery of; "" for none.
func (m Mapped) right(t require.TestingT) string {
	require.NoError(t, m.Err)
	if m.Window == nil {
		return ""
	}
	return strings.TrimPrefix(m.Window.RightID, "rgh_")
}

// mappingOf is what a play of tnt_a is.
func mappingOf(t *testing.T, v *View, play VendorPlay) Mapped {
	return v.Mappings(t.Context(), "tnt_a", []VendorPlay{play})[0]
}

func rightsOf(t *testing.T, all []Mapped) (rights []string) {
	for _, m := range all {
		rights = append(rights, m.right(t))
	}
	return rights
}

// TestMappings reads what several ids stand for, in one question, and then in none.
func TestMappings(t *testing.T) {
	s := newSource()
	s.putMapping("1", window("a", 0, 2), window("b", 2, 0))
	s.putMapping("2", window("c", 0, 1), window("d", 5, 6))
	v := newView(t, s, nil)
	follow(t, v)
	plays := []VendorPlay{
		played("1", -1), played("1", 0), played("1", 1), played("1", 2), played("1", 1000),
		played("2", 0), played("2", 1), played("2", 5), played("2", 6), played("3", 0),
		{"acme", "screen", "1", noon}, {"other", "player", "1", noon}, {"acmeplayer", "", "1", noon},
	}
	want := []string{"", "a", "a", "b", "b", "c", "", "d", "", "", "", "", ""}
	require.Equal(t, want, rightsOf(t, v.Mappings(t.Context(), "tnt_a", plays)))
	require.Equal(t, 1, s.loads, "all unknown ids are in one request")
	v.mappings.kept.Wait()
	require.Equal(t, noon.Add(2*time.Hour), mappingOf(t, v, played("1", 1)).Window.Until)
	s.set(func() { s.away = errors.New("away") })
	require.Equal(t, want, rightsOf(t, v.Mappings(t.Context(), "tnt_a", plays)), "also of what there is not")
	require.Equal(t, 1, s.loads)

	// What is known of one tenant's ids is nothing to another.
	all := v.Mappings(t.Context(), "tnt_b", []VendorPlay{played("1", 0)})
	require.Equal(t, errMappingAway, all[0].Err)
	s.set(func() { s.away = nil })
	require.Equal(t, []string{""}, rightsOf(t, v.Mappings(t.Context(), "tnt_b", []VendorPlay{played("1", 0)})))
}

// TestMappingsWithoutControl: what is known is answered, and the rest is a 503 that says why.
func TestMappingsWithoutControl(t *testing.T) {
	s := newSource()
	s.putMapping("1", window("a", 0, 0))
	v := newView(t, s, nil)
	follow(t, v)
	require.Equal(t, "a", mappingOf(t, v, played("1", 1)).right(t))
	v.mappings.kept.Wait()
	s.set(func() { s.away = errors.New("away") })
	all := v.Mappings(t.Context(), "tnt_a", []VendorPlay{played("2", 1), played("1", 1), played("2", 2)})
	require.Equal(t, "a", all[1].right(t))
	for _, i := range []int{0, 2} {
		require.Nil(t, all[i].Window)
		require.Equal(t, api.ControlUnavailable, api.From(all[i].Err).Reason)
		require.Equal(t, 503, api.From(all[i].Err).GetStatus())
	}
	require.Equal(t, 1., testutil.ToFloat64(v.metrics.loadErrors))
}

// TestNewMappingIsUsed: that an id has none is remembered until the feed has one.
func TestNewMappingIsUsed(t *testing.T) {
	s := newSource()
	v := newView(t, s, nil)
	follow(t, v)
	for range 3 {
		require.Equal(t, "", mappingOf(t, v, played("1", 1)).right(t))
		v.mappings.kept.Wait()
	}
	require.Equal(t, 1, s.loads)
	s.putMapping("1", window("a", 0, 0))
	follow(t, v)
	require.Equal(t, "a", mappingOf(t, v, played("1", 1)).right(t))
	require.Equal(t, 2, s.loads)
}

// TestSlowReadMeetsARemapping holds a read of the old windows while there are new ones.
func TestSlowReadMeetsARemapping(t *testing.T) {
	s := newSource()
	s.putMapping("1", window("a", 0, 0))
	v := newView(t, s, nil)
	follow(t, v)
	s.set(func() {
		s.loading = sync.OnceFunc(func() {
			s.putMapping("1", window("b", 0, 0))
			follow(t, v)
		})
	})
	require.Equal(t, "b", mappingOf(t, v, played("1", 1)).right(t))
	require.Equal(t, 2, s.loads)
}

// TestOldMappingComesBack does what ristretto may do at any time.
func TestOldMappingComesBack(t *testing.T) {
	s := newSource()
	s.putMapping("1", window("a", 0, 0))
	v := newView(t, s, nil)
	follow(t, v)
	lookup := func() string { return mappingOf(t, v, played("1", 1)).right(t) }
	id := api.VendorKey("tnt_a", "acme", "player", "1")
	require.Equal(t, "a", lookup())
	v.mappings.kept.Wait()
	old, ok := v.mappings.kept.Get(id)
	require.True(t, ok)
	putBack := func() {
		v.mappings.kept.Clear()
		v.mappings.kept.Set(id, old, 1)
		v.mappings.kept.Wait()
	}
	s.putMapping("1", window("b", 0, 0)) // a response has it before the feed does
	v.mappings.kept.Clear()
	require.Equal(t, "b", lookup())
	putBack()
	require.Equal(t, "b", lookup())

	s.putMapping("1", window("c", 0, 0))
	follow(t, v)
	putBack()
	require.Equal(t, "c", lookup())
}

// TestMappingCacheThatForgets looks up many players and compares with a model, with a cache of a few
// entries that stands still half of the time, and into which old values come back.
// MUNIMENT_TEST_FULL looks up more.
func TestMappingCacheThatForgets(t *testing.T) {
	const players, readers = 200, 4
	rounds := 300
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		rounds = 20_000
	}
	s := newSource()
	v := newView(t, s, func(c *Config) { c.Capacity = 10 })
	v.mappings.kept.Close()
	var still sync.Mutex
	var err error
	v.mappings.kept, err = ristretto.NewCache(&ristretto.Config[string, cached[api.Mapping]]{
		NumCounters: 100, MaxCost: 10, BufferItems: 64, IgnoreInternalCost: true, Metrics: true,
		OnReject: func(*ristretto.Item[cached[api.Mapping]]) {
			still.Lock()
			defer still.Unlock()
		},
	})
	require.NoError(t, err)
	follow(t, v)
	model := make([]string, players) // the right of each, "" without a mapping
	var stale []cached[api.Mapping]
	for round := range rounds {
		switch round % 200 {
		case 0:
			still.Lock()
		case 100:
			still.Unlock()
		}
		n := rand.IntN(players)
		id := api.VendorKey("tnt_a", "acme", "player", fmt.Sprint(n))
		if old, ok := v.mappings.kept.Get(id); ok && old.value != nil {
			stale = append(stale[max(0, len(stale)-20):], old)
		}
		model[n] = fmt.Sprint(round)
		s.putMapping(fmt.Sprint(n), window(model[n], 0, 0))
		follow(t, v)
		var all sync.WaitGroup
		wrong := make(chan string, readers)
		for range readers {
			all.Go(func() {
				var plays []VendorPlay
				var want []string
				for range 20 {
					p := rand.IntN(players)
					plays, want = append(plays, played(fmt.Sprint(p), 1)), append(want, model[p])
				}
				for i, m := range v.Mappings(context.Background(), "tnt_a", plays) {
					got := ""
					if m.Window != nil {
						got = strings.TrimPrefix(m.Window.RightID, "rgh_")
					}
					if m.Err != nil || got != want[i] {
						wrong <- fmt.Sprintf("round %d: %v is %q, not %q: %v", round, plays[i], got, want[i], m.Err)
						return
					}
				}
			})
		}
		for _, old := range stale {
			v.mappings.kept.Set(old.value.ID, old, 1)
		}
		all.Wait()
		select {
		case w := <-wrong:
			if round%200 < 100 {
				still.Unlock()
			}
			require.Fail(t, w)
		default:
		}
	}
	if (rounds-1)%200 < 100 {
		still.Unlock()
	}
	require.Greater(t, testutil.ToFloat64(v.metrics.misses), 1000., "the cache must have lost much")
	require.Greater(t, testutil.ToFloat64(v.metrics.hits), 100., "and must have been used")
}

// TestMappingMemoryIsBounded: an id with very many windows takes the place of many.
func TestMappingMemoryIsBounded(t *testing.T) {
	many := &api.Mapping{Windows: slices.Repeat([]api.MappingWindow{window("a", 0, 1)}, 160)}
	require.Equal(t, int64(1), mappingCost(nil))
	require.Equal(t, int64(1), mappingCost(&api.Mapping{Windows: many.Windows[:1]}))
	require.Greater(t, mappingCost(many), int64(100))
}

// TestMappingAnswerAboutAnother: control's response must be about the requested ids.
func TestMappingAnswerAboutAnother(t *testing.T) {
	for name, m := range map[string]api.Mapping{
		"another id":     {ID: api.VendorKey("tnt_a", "acme", "player", "2"), TenantID: "tnt_a"},
		"another tenant": {ID: api.VendorKey("tnt_a", "acme", "player", "1"), TenantID: "tnt_b"},
		"no id":          {TenantID: "tnt_a"},
	} {
		c, err := api.Mappings.Change(&m)
		require.NoError(t, err)
		v := newView(t, confusedMany{change: c}, nil)
		require.Equal(t, errMappingAway, mappingOf(t, v, played("1", 1)).Err, name)
	}
}

// confusedMany answers every question about several with one change.
type confusedMany struct {
	answers
	change api.Change
}

func (c confusedMany) Snapshots(context.Context, string, []string) (api.Snapshots, error) {
	return api.Snapshots{Changes: []api.Change{c.change}, AsOf: 5}, nil
}

// TestVendorKeys: two vendors' ids have two keys, wherever one of their parts ends.
func TestVendorKeys(t *testing.T) {
	seen := map[string]string{}
	parts := []string{"", "a", "b", "ab", "a\x01b", "\x01a", strings.Repeat("a", 200)}
	for _, vendor := range parts {
		for _, idType := range parts {
			for _, id := range parts {
				about := fmt.Sprintf("%q %q %q", vendor, idType, id)
				key := api.VendorKey("tnt_a", vendor, idType, id)
				require.Empty(t, seen[key], about)
				require.Len(t, key, 47)
				seen[key] = about
			}
		}
	}
	require.NotContains(t, seen, api.VendorKey("tnt_b", "a", "a", "a"))
}
