package right

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestSequences applies random operations to a growing tree of rights in memory, and compares it with
// a model: a state and a parent, a set of regions, and an end in hours.
func TestSequences(t *testing.T) {
	type entry struct {
		state   string
		parent  int // -1: none
		regions string
		end     int // 0: none
	}
	const regions = "ABC"
	scope := func(of string) json.RawMessage {
		if of == "" {
			return nil // inherit all
		}
		text, _ := json.Marshal(map[string]any{"regions": strings.Split(of, "")})
		return text
	}
	hour := func(n int) store.Instant { return store.At(now.Add(time.Duration(n) * time.Hour)) }
	subset := rapid.StringMatching("A?B?C?")

	rapidtest.Check(t, 2_000, 100_000, func(t *rapid.T) {
		var model []entry
		var issued []Right
		clock := 0
		worst := func(i int) (state string, at int) {
			for state, at = "ACTIVE", -1; i >= 0; i = model[i].parent {
				if s := model[i].state; s == "REVOKED" && state != "REVOKED" || s == "SUSPENDED" && state == "ACTIVE" {
					state, at = s, i
				}
			}
			return state, at
		}
		above := func(i int) (all []standing) {
			for i = model[i].parent; i >= 0; i = model[i].parent {
				all = append(all, issued[i].standing())
			}
			basis := openBasis()
			return append(all, standing{basis.ID, api.RightActive, basis.EffectiveFrom, basis.EffectiveUntil})
		}
		pick := func() int { return rapid.IntRange(0, len(model)-1).Draw(t, "right") }

		for range rapid.IntRange(1, 16).Draw(t, "operations") {
			operation := rapid.SampledFrom([]string{"issue", "derive", "derive", "suspend", "resume", "revoke", "wait"}).Draw(t, "operation")
			switch {
			case operation == "wait":
				clock += rapid.IntRange(1, 4).Draw(t, "hours")
			case operation == "issue" || len(model) == 0:
				e := entry{"ACTIVE", -1, regions, rapid.SampledFrom([]int{0, clock + 1, clock + 5}).Draw(t, "end")}
				requested := Right{BasisID: "bas_a", Substrate: "CTV", Scope: scope(regions), EffectiveFrom: hour(clock)}
				if e.end > 0 {
					requested.EffectiveUntil = hour(e.end)
				}
				r, err := issue(requested, lineage{basis: openBasis()}, hour(clock))
				require.NoError(t, err)
				r.ID = fmt.Sprint("rgh_", len(model))
				model, issued = append(model, e), append(issued, r)
			case operation == "derive":
				parent, of := pick(), subset.Draw(t, "regions")
				p := model[parent]
				from := lineage{basis: openBasis(), parent: &issued[parent], blocker: blocker(issued[parent].standing(), above(parent))}
				r, err := derive(Derivation{ID: fmt.Sprint("rgh_", len(model)), Scope: scope(of), HolderOrgID: "org_b"}, from, hour(clock))
				state, at := worst(parent)
				wider := strings.ContainsFunc(of, func(r rune) bool { return !strings.ContainsRune(p.regions, r) })
				switch {
				case p.end > 0 && clock >= p.end:
					require.Equal(t, api.StateConflict, api.From(err).Code)
				case wider:
					require.Equal(t, "scope.regions", api.From(err).Field)
				case state != "ACTIVE":
					require.Equal(t, api.StateConflict, api.From(err).Code)
					require.Contains(t, err.Error(), issued[at].ID, "the right that stops it")
				default:
					require.NoError(t, err)
					require.Equal(t, issued[parent].EffectiveUntil, r.EffectiveUntil)
					require.Equal(t, hour(clock), r.EffectiveFrom)
					if of == "" {
						of = p.regions
					}
					require.JSONEq(t, string(scope(of)), string(r.Scope))
					require.Equal(t, append([]string{issued[parent].ID}, issued[parent].Ancestors...), r.Ancestors)
					model, issued = append(model, entry{"ACTIVE", parent, of, p.end}), append(issued, r)
				}
			default:
				i := pick()
				to, ok := map[string]string{
					"suspend ACTIVE": "SUSPENDED", "resume SUSPENDED": "ACTIVE",
					"revoke ACTIVE": "REVOKED", "revoke SUSPENDED": "REVOKED", "revoke REVOKED": "REVOKED",
				}[operation+" "+model[i].state]
				next, changed, err := rights.After(issued[i], Action(operation), hour(clock))
				if !ok {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					require.Equal(t, issued[i], next)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, to != model[i].state, changed)
				want := issued[i]
				if changed {
					want.State, want.UpdatedAt = api.RightState(to), hour(clock)
				}
				require.Equal(t, want, next, "nothing else is changed")
				issued[i], model[i].state = next, to
			}
		}
		for i := range model {
			state, at := worst(i)
			if end := model[i].end; end > 0 && clock >= end && state != "REVOKED" {
				state, at = "EXPIRED", i
				for p := model[i].parent; p >= 0; p = model[p].parent {
					at = p // what derives from it has its end
				}
			}
			got, blockedBy := effective(issued[i].standing(), above(i), hour(clock).Time)
			require.Equal(t, state, string(got))
			require.Equal(t, at >= 0 && at != i, blockedBy != nil)
			if blockedBy != nil {
				require.Equal(t, issued[at].ID, *blockedBy)
			}
			require.Equal(t, model[i].state, string(issued[i].State))
		}
	})
}
