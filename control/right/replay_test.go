package right

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// replay replays the newest event of a right.
func (s *Service) replay(t *testing.T, id string) (changed bool) {
	t.Helper()
	logged := roomtest.Events(t, s.db)
	slices.Reverse(logged)
	newest := logged[slices.IndexFunc(logged, func(e sealer.Event) bool { return e.Subject.ID == id })]
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) (err error) {
		changed, err = Replay(t.Context(), tx, &newest)
		return err
	}))
	return changed
}

// TestReplay edits a right in the database, in each place.
func TestReplay(t *testing.T) {
	const live = `UPDATE feed SET snapshot = REPLACE(REPLACE(snapshot, 'SUSPENDED', 'ACTIVE'), 'REVOKED', 'ACTIVE') WHERE id = $1`
	for name, c := range map[string]struct {
		moves   []Action
		edits   []string // of the right with the id $1
		changed bool
		want    api.RightState // in the feed and, unless it is gone, in the record
	}{
		"nothing":                     {[]Action{Revoke}, nil, false, api.RightRevoked},
		"nothing of a resumed right":  {[]Action{Suspend, Resume, Suspend, Resume}, nil, false, api.RightActive},
		"nothing of a right in force": {nil, nil, false, api.RightActive},
		"the record": {[]Action{Revoke}, []string{
			`UPDATE rights SET state = 'ACTIVE' WHERE right_id = $1`}, true, api.RightRevoked},
		"the record, as if it were newer": {[]Action{Suspend}, []string{
			`UPDATE rights SET state = 'ACTIVE', revision = revision + 100 WHERE right_id = $1`}, true, api.RightSuspended},
		"a revocation to a suspension": {[]Action{Revoke}, []string{
			`UPDATE rights SET state = 'SUSPENDED' WHERE right_id = $1`}, true, api.RightRevoked},
		"the feed":                 {[]Action{Suspend}, []string{live}, true, api.RightSuspended},
		"the feed's first copy":    {[]Action{Suspend}, []string{`UPDATE feed SET stopped = 0 WHERE id = $1`}, true, api.RightSuspended},
		"the feed, by deleting it": {[]Action{Suspend}, []string{`DELETE FROM feed WHERE id = $1`}, true, api.RightSuspended},
		"all of it": {[]Action{Suspend, Revoke}, []string{
			live, `UPDATE feed SET stopped = 0 WHERE id = $1`, `UPDATE rights SET state = 'ACTIVE', state_reason = NULL WHERE right_id = $1`}, true, api.RightRevoked},
		"the record, by deleting it": {[]Action{Suspend}, []string{live, `DELETE FROM rights WHERE right_id = $1`}, true, api.RightSuspended},
		"the record's tenant": {[]Action{Suspend}, []string{
			live, `INSERT INTO tenants (tenant_id, org_id, created_at, updated_at, revision) SELECT 'tnt_b', right_id, 0, 0, 0 FROM rights WHERE right_id = $1`,
			`UPDATE rights SET tenant_id = 'tnt_b' WHERE right_id = $1`}, true, api.RightSuspended},
		"an older copy, of a right that was resumed": {[]Action{Suspend, Resume}, []string{
			`UPDATE rights SET state = 'SUSPENDED', revision = revision - 1 WHERE right_id = $1`}, true, api.RightSuspended},
		"an older copy, of a right that is as it was": {[]Action{Suspend, Resume}, []string{
			`UPDATE rights SET revision = revision - 2 WHERE right_id = $1`}, true, api.RightActive},
		"an older copy, of a right that was never moved": {nil, []string{
			`UPDATE rights SET revision = revision - 2 WHERE right_id = $1`}, false, api.RightActive},
		"a stop without an event": {[]Action{Suspend, Resume}, []string{
			`UPDATE rights SET state = 'REVOKED' WHERE right_id = $1`}, true, api.RightRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			service, basis := newService(t)
			r := service.mustIssue(t, basis, nil)
			for _, a := range c.moves {
				_, err := service.move(t.Context(), tenantID, r.ID, a, new("why"), store.ByKey("key_a"))
				require.NoError(t, err)
			}
			require.NoError(t, service.db.Change(t.Context(), func(tx *store.Tx) error {
				for _, edit := range c.edits {
					_, err := tx.ExecContext(t.Context(), edit, r.ID)
					require.NoError(t, err, edit)
				}
				return nil
			}))
			require.Equal(t, c.changed, service.replay(t, r.ID))
			require.False(t, service.replay(t, r.ID), "once more it is known")

			published, err := store.Newest(t.Context(), service.db, api.Rights, r.ID)
			require.NoError(t, err)
			require.Equal(t, c.want, published.State)
			first, err := service.db.Feed.Changes(t.Context(), api.FeedRequest{})
			require.NoError(t, err)
			require.Equal(t, len(c.moves) > 0, len(first.Changes) == 1, "what was ever stopped is in a node's first copy")
			now, err := rights.Find(t.Context(), service.db.Read(), tenantID, r.ID)
			if c.changed && !store.IsNone(err) {
				require.NoError(t, err)
				require.Equal(t, c.want, now.State)
				require.Equal(t, published.Revision, now.Revision)
			}
		})
	}
}

// TestReplayOfAnUnknownRight: nodes get the stop of a right that the database lacks only if the feed
// still has the right.
func TestReplayOfAnUnknownRight(t *testing.T) {
	service, basis := newService(t)
	r := service.mustIssue(t, basis, nil)
	_, err := service.move(t.Context(), tenantID, r.ID, Revoke, nil, store.ByKey("key_a"))
	require.NoError(t, err)
	edit := func(statement string, args ...any) {
		require.NoError(t, service.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement, args...)
			return err
		}))
	}
	edit(`DELETE FROM feed WHERE id = $1`, r.ID)
	edit(`DELETE FROM rights WHERE right_id = $1`, r.ID)
	require.False(t, service.replay(t, r.ID))

	other := service.mustIssue(t, basis, nil)
	edit(`UPDATE rights SET ancestors = $2 WHERE right_id = $1`, other.ID, "rgh_x "+r.ID)
	require.True(t, service.replay(t, r.ID), "another one is derived from it")
	published, err := store.Newest(t.Context(), service.db, api.Rights, r.ID)
	require.NoError(t, err)
	require.Equal(t, api.RightRevoked, published.State)
	require.Equal(t, tenantID, published.TenantID)
	require.False(t, service.replay(t, r.ID))
}
