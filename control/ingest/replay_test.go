package ingest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// TestReplayMappings: players that were remapped after an older database was copied deliver on their new
// right, and nodes get that, whatever the order in which the events are replayed.
func TestReplayMappings(t *testing.T) {
	for name, reversed := range map[string]bool{"in order": false, "in reverse": true} {
		t.Run(name, func(t *testing.T) {
			clock := roomtest.NewClock(noon)
			s := newService(t, t.TempDir(), clock, nil)
			old := s.mustCreate(t, mappingFor("p1", rightA, -10, 0))
			never := s.mustCreate(t, mappingFor("p2", rightA, 5, 0))
			still := s.mustCreate(t, mappingFor("p3", rightA, 0, 0))
			want := map[string]Mapping{still.ID: still}
			for _, id := range []string{old.ID, never.ID} {
				retired, _, err := s.retire(t.Context(), tenantID, id, byKey)
				require.NoError(t, err)
				want[id] = retired
			}
			require.Equal(t, never.EffectiveFrom, want[never.ID].EffectiveUntil)
			for _, requested := range []Mapping{mappingFor("p1", rightB, 0, 0), mappingFor("p2", rightB, 5, 0)} {
				made := s.mustCreate(t, requested)
				want[made.ID] = made
			}
			published := s.published(t)
			require.Equal(t, rightB, published[old.VendorKey].Windows[1].RightID)
			var order []string
			newest := map[string]sealer.Event{}
			for _, e := range roomtest.Events(t, s.db) {
				if _, known := newest[e.Subject.ID]; !known {
					order = append(order, e.Subject.ID)
				}
				newest[e.Subject.ID] = e
			}
			replay := func() (changed int) {
				t.Helper()
				for i := range order {
					e := newest[order[i]]
					if reversed {
						e = newest[order[len(order)-1-i]]
					}
					require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
						did, err := ReplayMapping(t.Context(), tx, &e)
						if did {
							changed++
						}
						return err
					}))
				}
				return changed
			}
			edit := func(statement string, args ...any) {
				t.Helper()
				require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
					_, err := tx.ExecContext(t.Context(), statement, args...)
					return err
				}))
			}
			shows := func() {
				t.Helper()
				for id, m := range want {
					found, err := mappings.Find(t.Context(), s.db.Read(), tenantID, id)
					require.NoError(t, err)
					require.Equal(t, m, *found)
				}
				for state, n := range map[State]int64{Active: 3, Retired: 2} {
					counted, err := total(t.Context(), s.db.Read(), tenantID, filter{state: string(state)})
					require.NoError(t, err)
					require.Equal(t, n, counted, state)
				}
				for key, m := range s.published(t) {
					require.Equal(t, published[key].Windows, m.Windows)
				}
			}
			require.Zero(t, replay(), "the database shows it all")

			// The copy is from before both were retired and remapped.
			edit(`DELETE FROM mappings WHERE right_id = $1`, rightB)
			edit(`UPDATE mappings SET state = 'ACTIVE', effective_until = NULL, revision = $1 WHERE mapping_id = $2`, old.Revision, old.ID)
			edit(`UPDATE mappings SET state = 'ACTIVE', effective_until = NULL, revision = $1 WHERE mapping_id = $2`, never.Revision, never.ID)
			edit(`DELETE FROM mapping_totals`)
			edit(`INSERT INTO mapping_totals (tenant_id, vendor, id_type, right_id, state, row_count) VALUES ('` + tenantID + `', 'acme', 'player', '` + rightA + `', 'ACTIVE', 3)`)
			edit(`DELETE FROM feed`)
			require.Equal(t, 4, replay())
			require.Zero(t, replay())
			shows()

			// It has none of them, and not the right of two.
			edit(`DELETE FROM mappings`)
			edit(`DELETE FROM mapping_totals`)
			require.Equal(t, 5, replay())
			shows()
			edit(`DELETE FROM mappings`)
			for id, e := range newest {
				e.Data = []byte(strings.ReplaceAll(string(e.Data), rightB, "rgh_lost"))
				newest[id] = e
			}
			require.Equal(t, 3, replay(), "what names a right that is lost can't be written")
			foreign := newest[still.ID]
			foreign.TenantID = "tnt_unknown"
			newest = map[string]sealer.Event{still.ID: foreign}
			order = []string{still.ID}
			require.Zero(t, replay(), "the database knows no such tenant")
		})
	}
}

// TestReplayedMappingDeliversHeldRows: rows that were held before the copy are delivered by a mapping of
// the log.
func TestReplayedMappingDeliversHeldRows(t *testing.T) {
	clock := roomtest.NewClock(noon)
	s := newService(t, t.TempDir(), clock, nil)
	made := s.mustCreate(t, mappingFor("p1", rightA, -10, -10))
	events := roomtest.Events(t, s.db)
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM mappings`)
		return err
	}))
	s.mustHold(t, held("p1"))
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
		changed, err := ReplayMapping(t.Context(), tx, &events[0])
		require.True(t, changed)
		return err
	}))
	keys, err := store.List(t.Context(), s.db.Read(), "marks", store.Text, `SELECT vendor_key FROM held_mapped`)
	require.NoError(t, err)
	require.Equal(t, []string{made.VendorKey}, keys)
	jobs, err := store.Count(t.Context(), s.db.Read(), "jobs", `SELECT COUNT(*) FROM jobs WHERE tenant_id = $1`, tenantID)
	require.NoError(t, err)
	require.EqualValues(t, 1, jobs)
}

// published is what nodes get of each vendor's id.
func (s *Service) published(t *testing.T) map[string]*api.Mapping {
	t.Helper()
	snapshots, err := store.List(t.Context(), s.db.Read(), "the feed", store.Text, `SELECT snapshot FROM feed WHERE kind = $1`, api.Mappings.Name)
	require.NoError(t, err)
	all := map[string]*api.Mapping{}
	for _, text := range snapshots {
		m := new(api.Mapping)
		require.NoError(t, json.Unmarshal([]byte(text), m))
		all[m.ID] = m
	}
	return all
}
