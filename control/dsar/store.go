package dsar

import (
	"context"
	"fmt"
	"strings"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Tables lists this package's tables. Erasing a person clears the notes of the jobs about them. What
// control itself notes in a timeline names nobody.
var Tables = store.Tables{
	{Name: "dsar_timeline", Personal: &store.Personal{
		Kind: "dsarNote", Key: []string{"job_id", "entry"}, Text: []string{"notes"}, Record: "job_id", Noun: jobs.Noun, Where: "actor <> 'control'",
		About: "(SELECT data_subject_id FROM dsar_jobs AS j WHERE j.job_id = dsar_timeline.job_id)", Related: []string{"notes"},
	}},
	{Name: "dsar_jobs", Personal: &store.Personal{
		Kind: "dsarJob", Key: []string{"job_id"}, Person: []string{"data_subject_id"}, Text: []string{"requested_by", "request_notes"}, Record: "job_id", Noun: jobs.Noun,
		About: "data_subject_id", Related: []string{"request_notes"},
	}, Public: []string{"campaign_ids"}, Names: map[string][]string{"scope": {"kind", "dataSubjectId", "windowStart", "windowEnd", "campaignIds", "substrates"}}},
}

var jobs = store.Machine[Job, Action, State]{
	Records: store.Records[Job]{Noun: "dsar_job", Table: "dsar_jobs", Hide: hide}, Steps: transitions,
}

// countActive counts the jobs of a tenant that are not final.
func countActive(ctx context.Context, q store.Querier, tenantID string) (int64, error) {
	return store.Count(ctx, q, "active DSAR jobs", `SELECT COUNT(*) FROM dsar_jobs WHERE tenant_id = $1 AND state IN ('REQUESTED', 'COLLECTING', 'PACKAGING')`, tenantID)
}

// keptBytes is how many bytes the bundles of a tenant have.
func keptBytes(ctx context.Context, q store.Querier, tenantID string) (int64, error) {
	return store.Count(ctx, q, "bytes of bundles", `SELECT CAST(COALESCE(SUM(bundle_size_bytes), 0) AS BIGINT) FROM dsar_jobs WHERE tenant_id = $1 AND bundle_store_key IS NOT NULL`, tenantID)
}

// annotate adds an entry to a job's timeline.
func annotate(ctx context.Context, tx *store.Tx, j *Job, from *State, by sealer.Ref, notes string) error {
	var text *string
	if notes != "" {
		text = &notes
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO dsar_timeline (job_id, entry, tenant_id, at, actor, from_state, to_state, notes)
		VALUES ($1, (SELECT COUNT(*) FROM dsar_timeline WHERE job_id = $1), $2, $3, $4, $5, $6, $7)`,
		j.ID, j.TenantID, j.UpdatedAt, by.ID, from, j.State, text)
	if err != nil {
		return fmt.Errorf("cannot write the timeline of the DSAR job %s: %w", j.ID, err)
	}
	return nil
}

// timelines returns the timelines of jobs, by job id.
func timelines(ctx context.Context, q store.Querier, some []Job) (map[string][]Entry, error) {
	all := map[string][]Entry{}
	if len(some) == 0 {
		return all, nil
	}
	marks, args := make([]string, len(some)), make([]any, len(some))
	for i := range some {
		marks[i], args[i], all[some[i].ID] = fmt.Sprintf("$%d", i+1), some[i].ID, []Entry{}
	}
	_, err := store.List(ctx, q, "the timelines of DSAR jobs", func(row store.Row) (e Entry, err error) {
		var jobID string
		if err = row.Scan(&jobID, &e.At, &e.Actor, &e.FromState, &e.ToState, &e.Notes); err == nil {
			all[jobID] = append(all[jobID], e)
		}
		return e, err
	}, `SELECT job_id, at, actor, from_state, to_state, notes FROM dsar_timeline WHERE job_id IN (`+strings.Join(marks, ", ")+`) ORDER BY job_id, entry`, args...)
	return all, err
}

// views returns jobs in the form of responses.
func views(ctx context.Context, q store.Querier, some []Job) ([]View, error) {
	lines, err := timelines(ctx, q, some)
	if err != nil {
		return nil, err
	}
	list := make([]View, len(some))
	for i := range some {
		list[i] = some[i].view(lines[some[i].ID])
	}
	return list, nil
}

// find returns a job, and its form in responses.
func find(ctx context.Context, q store.Querier, tenantID, jobID string) (*Job, View, error) {
	j, err := jobs.Find(ctx, q, tenantID, jobID)
	if err != nil {
		return nil, View{}, err
	}
	list, err := views(ctx, q, []Job{*j})
	if err != nil {
		return nil, View{}, err
	}
	return j, list[0], nil
}

// move moves a job, and adds an entry to its timeline if the state changes or a is Recover. An error
// of edit prevents the move.
func move(ctx context.Context, tx *store.Tx, tenantID, jobID string, a Action, by sealer.Ref, notes string, edit func(*Job) error) (next Job, err error) {
	was, err := jobs.Find(ctx, tx, tenantID, jobID)
	if err != nil {
		return next, err
	}
	next, err = jobs.Move(ctx, tx, store.Move[Job, Action]{TenantID: tenantID, ID: jobID, Action: a, By: by, Edit: func(next *Job) error {
		next.notes = notes
		if edit == nil {
			return nil
		}
		return edit(next)
	}})
	if err == nil && (next.State != was.State || a == Recover) {
		err = annotate(ctx, tx, &next, &was.State, by, notes)
	}
	return next, err
}

const prefix api.Prefix = "dsar:"
