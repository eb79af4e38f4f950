package dsar

import (
	"context"
	"encoding/json"
	"errors"
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
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

const tenantID = "tnt_a"

var byKey = store.ByKey("key_a")

// newService is a service whose events no relay takes.
func newService(t *testing.T) *Service {
	t.Helper()
	db := roomtest.Open(t, t.TempDir(), nil)
	return &Service{db: db, reserved: db.Reserved, cfg: Config{MaxBytes: 1}}
}

// full is a request for all data of the tenant.
func full() Job {
	return Job{TenantID: tenantID, OrgID: "org_a", Scopes: texts{"*"}, Format: JSON, RequestedBy: "dev_a", Scope: Scope{Kind: TenantFull, CampaignIDs: texts{}, Substrates: texts{}}}
}

// of is a request for the data of a person.
func of(subject string) Job {
	j := full()
	j.Scope.Kind, j.Scope.DataSubjectID = DataSubject, &subject
	return j
}

func (s *Service) mustCreate(t require.TestingT, requested Job) View {
	v, err := s.create(context.Background(), requested, byKey)
	require.NoError(t, err)
	return v
}

func refused(t require.TestingT, err error, code api.Code) {
	require.Error(t, err)
	require.Equal(t, code, api.From(err).Code, "%v", err)
}

func TestScopes(t *testing.T) {
	ann, long := "ann", strings.Repeat("ä", 129)
	noon := store.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	later := store.At(noon.Add(time.Hour))
	for _, c := range []struct {
		scope  Scope
		faults string // fields at fault
	}{
		{Scope{Kind: TenantFull}, ""},
		{Scope{Kind: DataSubject, DataSubjectID: &ann}, ""},
		{Scope{Kind: TenantSlice, WindowStart: noon, WindowEnd: later}, ""},
		{Scope{Kind: TenantSlice, WindowStart: noon, WindowEnd: later, CampaignIDs: texts{"a b"}, Substrates: texts{"CTV"}}, ""},
		{Scope{Kind: DataSubject}, "scope.dataSubjectId"},
		{Scope{Kind: DataSubject, DataSubjectID: &long}, "scope.dataSubjectId"},
		{Scope{Kind: TenantSlice}, "scope.windowStart scope.windowEnd"},
		{Scope{Kind: TenantSlice, WindowEnd: later}, "scope.windowStart"},
		{Scope{Kind: TenantSlice, WindowStart: later, WindowEnd: later}, "scope.windowEnd"},
		{Scope{Kind: TenantSlice, WindowStart: noon, WindowEnd: later, DataSubjectID: &ann}, "scope.dataSubjectId"},
		{Scope{Kind: TenantFull, WindowStart: noon, CampaignIDs: texts{"a"}}, "scope.windowStart scope.campaignIds"},
		{Scope{Kind: DataSubject, DataSubjectID: &ann, WindowEnd: noon, Substrates: texts{"CTV"}}, "scope.windowEnd scope.substrates"},
	} {
		err := c.scope.check()
		var fields []string
		if refused, ok := errors.AsType[*api.Error](err); ok {
			for _, f := range refused.ValidationErrors {
				fields = append(fields, f.Field)
			}
		}
		require.Equal(t, c.faults, strings.Join(fields, " "), "%+v", c.scope)
	}
	for given, want := range map[string]Format{"JSON": JSON, "CSV": CSV, "NDJSON": NDJSON, "PARQUET": Parquet, "csv": JSON, "XML": JSON, "": JSON} {
		require.Equal(t, want, formatOf(given), given)
	}
}

// TestSequences: requests in any order move a job along the table, and its timeline has each change of
// its state.
func TestSequences(t *testing.T) {
	all := []Action{Queue, Cancel, Collect, Recover, Package, Finish, Fail, Open, Download, Expire}
	// Where each action leads from a state; what is not here is refused.
	leads := map[State]map[Action]State{
		Requested:  {Queue: Requested, Cancel: FailedJob, Collect: Collecting, Fail: FailedJob},
		Collecting: {Recover: Collecting, Package: Packaging, Fail: FailedJob},
		Packaging:  {Collect: Collecting, Finish: Ready, Fail: FailedJob},
		Ready:      {Open: Ready, Download: Ready, Expire: Ready},
	}
	r := newService(t)
	rapidtest.Check(t, 40, 1_000, func(t *rapid.T) {
		v := r.mustCreate(t, full())
		state, emitted := Requested, []State{Requested}
		for range rapid.IntRange(1, 8).Draw(t, "moves") {
			a := rapid.SampledFrom(all).Draw(t, "action")
			to, may := leads[state][a]
			var next Job
			err := r.db.Change(context.Background(), func(tx *store.Tx) (err error) {
				next, err = move(context.Background(), tx, tenantID, v.ID, a, byKey, "why", nil)
				return err
			})
			if !may {
				refused(t, err, api.StateConflict)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, to, next.State)
			if to != state || a == Recover {
				emitted = append(emitted, to)
			}
			state = to
		}
		_, v, err := find(context.Background(), r.db.Read(), tenantID, v.ID)
		require.NoError(t, err)
		var line []State
		for i, e := range v.Timeline {
			line = append(line, e.ToState)
			if i > 0 {
				require.Equal(t, emitted[i-1], *e.FromState)
			}
		}
		require.Equal(t, emitted, line)
		if state != FailedJob && state != Ready { // frees space for the next
			require.NoError(t, r.db.Change(context.Background(), func(tx *store.Tx) error {
				_, err := move(context.Background(), tx, tenantID, v.ID, Fail, byKey, "", nil)
				return err
			}))
		}
	})
}

// TestActiveLimit: of any number of concurrent requests, exactly five get a job; each job that ends
// makes space for one.
func TestActiveLimit(t *testing.T) {
	r := newService(t)
	var mu sync.Mutex
	var made []View
	var wait sync.WaitGroup
	for range 64 {
		wait.Go(func() {
			v, err := r.create(context.Background(), full(), byKey)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made = append(made, v)
				return
			}
			e := api.From(err)
			require.Equal(t, api.RateLimited, e.Code)
			require.Equal(t, 60, e.RetryAfterSeconds())
		})
	}
	wait.Wait()
	require.Len(t, made, ActiveLimit)
	_, err := r.cancel(t.Context(), tenantID, made[0].ID, "", byKey)
	require.NoError(t, err)
	r.mustCreate(t, full())
	_, err = r.create(t.Context(), full(), byKey)
	refused(t, err, api.RateLimited)
}

// TestCancelAndRun: a job is queued once, and is cancelled as long as no worker has it.
func TestCancelAndRun(t *testing.T) {
	r := newService(t)
	v := r.mustCreate(t, full())
	for range 2 {
		ran, err := r.run(t.Context(), tenantID, v.ID, byKey)
		require.NoError(t, err)
		require.Equal(t, Requested, ran.State)
	}
	queued, err := store.ListJobs(t.Context(), r.db.Read(), ExportJob, tenantID)
	require.NoError(t, err)
	require.Len(t, queued, 1)

	cancelled, err := r.cancel(t.Context(), tenantID, v.ID, "asked twice", byKey)
	require.NoError(t, err)
	require.Equal(t, FailedJob, cancelled.State)
	require.Equal(t, ManualCancel, cancelled.Failure.Code)
	require.Nil(t, cancelled.Failure.WorkerID)
	require.Equal(t, []string{"", "asked twice"}, notesOf(cancelled))
	require.Equal(t, "key_a", cancelled.Timeline[1].Actor)
	_, err = r.cancel(t.Context(), tenantID, v.ID, "", byKey)
	refused(t, err, api.StateConflict)
	_, err = r.run(t.Context(), tenantID, v.ID, byKey)
	refused(t, err, api.StateConflict)
	for _, id := range []string{"", "dsar:", "dsar:x", api.NewID(prefix, time.Now()), strings.ToLower(v.ID)} {
		_, err = r.cancel(t.Context(), tenantID, id, "", byKey)
		refused(t, err, api.ResourceNotFound)
	}
	_, err = r.cancel(t.Context(), "tnt_b", v.ID, "", byKey)
	refused(t, err, api.ResourceNotFound)
}

func notesOf(v View) (notes []string) {
	for _, e := range v.Timeline {
		text := ""
		if e.Notes != nil {
			text = *e.Notes
		}
		notes = append(notes, text)
	}
	return notes
}

// TestEventsNameNobody: the person, the requester and the notes are in the private parts of events
// only, and erasure leaves nothing of them in the tables.
func TestEventsNameNobody(t *testing.T) {
	r := newService(t)
	requested := of("ann@example.org")
	requested.RequestedBy, requested.RequestNotes = "office of ann@example.org", new("ann@example.org phoned")
	v := r.mustCreate(t, requested)
	other := full()
	other.RequestNotes = new("because of ann@example.org again")
	kept := r.mustCreate(t, other)
	_, err := r.run(t.Context(), tenantID, v.ID, byKey)
	require.NoError(t, err)
	_, err = r.cancel(t.Context(), tenantID, v.ID, "ann@example.org withdrew", byKey)
	require.NoError(t, err)

	var types []string
	for _, e := range roomtest.Events(t, r.db) {
		types = append(types, e.Type)
		require.NotContains(t, string(e.Data), "ann")
		require.NotContains(t, string(e.Data), "office")
		require.NotEmpty(t, e.PrivateCommitment)
		require.Equal(t, "dsar_job", e.Subject.Kind)
	}
	require.Equal(t, []string{"dsar.requested", "dsar.requested", "dsar.queued", "dsar.cancelled"}, types)
	hidden, err := store.List(t.Context(), r.db.Read(), "private parts", store.Text, `SELECT private FROM outbox ORDER BY seq`)
	require.NoError(t, err)
	p, err := sealer.ParsePrivate([]byte(hidden[3]))
	require.NoError(t, err)
	require.Equal(t, "ann@example.org", p.DataSubjects[0].Reference)
	said := map[string]string{}
	for _, n := range p.Notes {
		said[n.Name] = n.Text
	}
	require.Equal(t, map[string]string{"notes": `"ann@example.org withdrew"`, "requestedBy": `"office of ann@example.org"`, "requestNotes": `"ann@example.org phoned"`}, said)

	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, tenantID, sealer.NewPerson("ann@example.org"), "hash", nil, nil)
		return err
	}))
	for _, id := range []string{v.ID, kept.ID} {
		_, v, err := find(t.Context(), r.db.Read(), tenantID, id)
		require.NoError(t, err)
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NotContains(t, string(text), "ann@example.org")
		require.NotContains(t, string(text), "withdrew")
	}
	_, left, err := find(t.Context(), r.db.Read(), tenantID, kept.ID)
	require.NoError(t, err)
	require.Equal(t, "hash", *left.RequestNotes)
}

// TestLists: newest first, by state, and by an index.
func TestLists(t *testing.T) {
	r := newService(t)
	var ids []string
	gone := ""
	for i := range 4 {
		v := r.mustCreate(t, full())
		ids = append(ids, v.ID)
		if i == 1 {
			gone = v.ID
			_, err := r.cancel(t.Context(), tenantID, v.ID, "", byKey)
			require.NoError(t, err)
		}
	}
	list, next, err := r.list(t.Context(), tenantID, "", store.Slice{Limit: 3})
	require.NoError(t, err)
	rest, end, err := r.list(t.Context(), tenantID, "", store.Slice{Limit: 3, Behind: next})
	require.NoError(t, err)
	require.Empty(t, end)
	var got []string
	for _, v := range append(list, rest...) {
		got = append(got, v.ID)
		require.NotEmpty(t, v.Timeline)
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) // some may be of one millisecond
	require.Equal(t, ids, got)
	cancelled, _, err := r.list(t.Context(), tenantID, string(FailedJob), store.Slice{Limit: 3})
	require.NoError(t, err)
	require.Len(t, cancelled, 1)
	require.Equal(t, gone, cancelled[0].ID)
	foreign, _, err := r.list(t.Context(), "tnt_b", "", store.Slice{Limit: 3})
	require.NoError(t, err)
	require.Empty(t, foreign)

	roomtest.Fill(t, r.db, 2_000, "dsar_jobs", `job_id, tenant_id, org_id, state, kind, campaign_ids, substrates, format, requested_by, collection, rows_collected, rows_expected, bytes_packaged, bundle_size_bytes, created_at, updated_at, revision`,
		`'dsar:' || CAST(i AS TEXT), 'tnt_a', 'org_a', CASE WHEN i % 500 = 7 THEN 'READY' ELSE 'FAILED' END, 'TENANT_FULL', '[]', '[]', 'JSON', 'dev_a', 0, 0, 0, 0, 0, 0, 0, 0`)
	roomtest.Fill(t, r.db, 20_000, "dsar_timeline", "job_id, entry, tenant_id, at, actor, to_state", `'dsar:' || CAST(i % 2000 + 1 AS TEXT), i, 'tnt_a', 0, 'key_a', 'REQUESTED'`)
	for state, index := range map[string]string{"": "dsar_jobs_by_tenant", "READY": "dsar_jobs_by_state"} {
		require.Contains(t, roomtest.Plans(t, r.db, func(q store.Querier) error {
			var w store.Where
			w.Is("state", state)
			page, _, err := jobs.Page(t.Context(), q, tenantID, w, store.Slice{Limit: 50})
			if err == nil {
				_, err = views(t.Context(), q, page)
			}
			return err
		}), index)
	}
}
