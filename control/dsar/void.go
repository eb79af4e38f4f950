package dsar

import (
	"context"
	"fmt"
	"slices"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// Subjects lists the references to persons that the tenant's bundles, finished or not, are about.
func (s *Service) Subjects(ctx context.Context, q store.Querier, tenantID string) ([]string, error) {
	return store.List(ctx, q, "the persons in bundles of "+tenantID, store.Text,
		`SELECT DISTINCT data_subject_id FROM dsar_jobs WHERE tenant_id = $1 AND data_subject_id IS NOT NULL AND `+withBundle, tenantID)
}

// withBundle is the condition of jobs with a bundle, finished or not.
const withBundle = `(bundle_store_key IS NOT NULL OR state IN ('COLLECTING', 'PACKAGING'))`

// naming lists the tenant's jobs whose bundle, finished or not, may hold data of a person: those
// about that person, those about no single person, and those that contain a job of records, whose
// texts name the person: an export of somebody has all jobs about them. records are sorted.
func naming(ctx context.Context, q store.Querier, tenantID string, is func(dataSubjectID string) bool, records []string) (list []Job, err error) {
	all, err := store.List(ctx, q, "the DSAR jobs with bundles of "+tenantID, jobs.Scan, jobs.Select()+`
		WHERE tenant_id = $1 AND `+withBundle+` ORDER BY job_id`, tenantID)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	about := map[string]bool{}
	err = store.Each(ctx, q, "whom the DSAR jobs of "+tenantID+" are about", func(row store.Row) (of [2]string, err error) {
		err = row.Scan(&of[0], &of[1])
		return of, err
	}, func(of [2]string) error {
		if _, named := slices.BinarySearch(records, of[0]); named {
			about[sealer.NewPerson(of[1]).String()] = true
		}
		return nil
	}, `SELECT job_id, data_subject_id FROM dsar_jobs WHERE tenant_id = $1 AND data_subject_id IS NOT NULL`, tenantID)
	for _, j := range all {
		if s := j.Scope.DataSubjectID; s == nil || is(*s) || about[j.Scope.person().String()] {
			list = append(list, j)
		}
	}
	return list, err
}

// Count counts the tenant's bundles, finished or not, that may hold data of a person; is reports
// whether bundles about a reference hold such, and records are jobs whose texts name the person.
func (s *Service) Count(ctx context.Context, q store.Querier, tenantID string, is func(dataSubjectID string) bool, records []string) (int64, error) {
	list, err := naming(ctx, q, tenantID, is, records)
	return int64(len(list)), err
}

// Close ends the links to those bundles, and restarts those that are being collected.
func (s *Service) Close(ctx context.Context, tx *store.Tx, tenantID string, is func(dataSubjectID string) bool, records []string) error {
	list, err := naming(ctx, tx, tenantID, is, records)
	if err != nil {
		return err
	}
	for i := range list {
		// This ends the links; Void deletes the file.
		_, err := tx.ExecContext(ctx, `UPDATE dsar_jobs SET collection = collection + 1, download_secret = NULL, bundle_expires_at = CASE WHEN bundle_store_key IS NULL OR bundle_expires_at <= $2 THEN bundle_expires_at ELSE $2 END,
			bundle_ended = CASE WHEN bundle_store_key IS NULL OR bundle_expires_at <= $2 THEN bundle_ended ELSE $3 END
			WHERE job_id = $1`, list[i].ID, store.At(tx.Now()), Erased)
		if err != nil {
			return fmt.Errorf("cannot make the DSAR job %s void: %w", list[i].ID, err)
		}
	}
	return nil
}

// Void closes and deletes those bundles. When it returns nil, none of the tenant's bundles so far holds
// data of the person, and those that were closed before are deleted. It may be called again.
func (s *Service) Void(ctx context.Context, tenantID string, is func(dataSubjectID string) bool, records []string) error {
	var list []Job
	err := s.db.Change(ctx, func(tx *store.Tx) (err error) {
		if err := s.Close(ctx, tx, tenantID, is, records); err != nil {
			return err
		}
		list, err = store.List(ctx, tx, "the closed bundles of "+tenantID, jobs.Scan, jobs.Select()+`
			WHERE tenant_id = $1 AND bundle_store_key IS NOT NULL AND download_secret IS NULL ORDER BY job_id`, tenantID)
		return err
	})
	for i := range list {
		if err == nil {
			err = s.expire(ctx, &list[i])
		}
	}
	if err == nil {
		err = s.sweep(ctx, tenantID+"/") // files that are being written, or were left behind
	}
	return err
}
