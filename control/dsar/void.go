package dsar

import (
	"context"
	"fmt"

	"muniment/control/store"
)

// naming lists the tenant's jobs whose bundle, finished or not, may hold data of a person: those
// about that person, those about no single person, and those that contain a job of records, whose
// texts name the person: an export of somebody has all jobs about them.
func naming(ctx context.Context, q store.Querier, tenantID string, is func(dataSubjectID string) bool, records []string) (list []Job, err error) {
	about := map[string]bool{}
	for _, id := range records {
		j, err := jobs.Find(ctx, q, tenantID, id)
		if store.IsNone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if s := j.Scope.DataSubjectID; s != nil {
			about[*s] = true
		}
	}
	all, err := store.List(ctx, q, "the DSAR jobs with bundles of "+tenantID, jobs.Scan, jobs.Select()+`
		WHERE tenant_id = $1 AND (bundle_store_key IS NOT NULL OR state IN ('COLLECTING', 'PACKAGING')) ORDER BY job_id`, tenantID)
	for _, j := range all {
		if s := j.Scope.DataSubjectID; s == nil || is(*s) || about[*s] {
			list = append(list, j)
		}
	}
	return list, err
}

// Count counts the tenant's bundles, finished or not, that may hold data of a person; is reports
// whether a reference is the person's, and records are jobs whose texts name the person.
func (s *Service) Count(ctx context.Context, tenantID string, is func(dataSubjectID string) bool, records []string) (int64, error) {
	list, err := naming(ctx, s.db.Read(), tenantID, is, records)
	return int64(len(list)), err
}

// Void deletes those bundles, and restarts those that are being collected. When it returns nil,
// none of the tenant's bundles so far holds data of the person. It may be called again.
func (s *Service) Void(ctx context.Context, tenantID string, is func(dataSubjectID string) bool, records []string) error {
	var list []Job
	err := s.db.Change(ctx, func(tx *store.Tx) (err error) {
		if list, err = naming(ctx, tx, tenantID, is, records); err != nil {
			return err
		}
		for i := range list {
			// This ends the links; sweep deletes the file below.
			_, err := tx.ExecContext(ctx, `UPDATE dsar_jobs SET collection = collection + 1, download_secret = NULL, bundle_expires_at = CASE WHEN bundle_store_key IS NULL THEN bundle_expires_at ELSE $2 END
				WHERE job_id = $1`, list[i].ID, store.At(tx.Now()))
			if err != nil {
				return fmt.Errorf("cannot make the DSAR job %s void: %w", list[i].ID, err)
			}
		}
		return nil
	})
	for i := range list {
		if err == nil && list[i].Bundle.StoreKey != nil {
			err = s.expire(ctx, &list[i])
		}
	}
	if err == nil {
		err = s.sweep(ctx, tenantID+"/") // files that are being written, or were left behind
	}
	return err
}
