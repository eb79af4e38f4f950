package systemtest

import (
	"strings"

	"muniment.example/bench/waittest"
)

// Exported is a DSAR job as tests read it.
type Exported struct {
	ID, State string
	Delivery  *struct {
		BundleSHA256, BundleURL, DownloadedAt, DownloadedBy string
		BundleSizeBytes                                     int64
	}
	Failure  *struct{ Code string }
	Progress struct{ WorkerID string }
}

// Export makes a job and runs it.
func (s *Service) Export(body map[string]any) string {
	s.T.Helper()
	var made struct{ Job Exported }
	s.Post("/v1/compliance/dsar", body, &made)
	s.Post("/v1/compliance/dsar/"+made.Job.ID+"/run", nil, nil)
	return strings.Replace(made.Job.ID, ":", "%3A", 1) // as some clients write it
}

// Await waits until a job is as it should be, repeating requests as needed.
func (s *Service) Await(id string, holds func(j Exported) bool) (j Exported) {
	s.T.Helper()
	waittest.Until(s.T, func() bool {
		var got struct{ Job Exported }
		err := s.Client.Do(s.T.Context(), "GET", "/v1/compliance/dsar/"+id, nil, &got)
		j = got.Job
		return err == nil && holds(j)
	}, "the export %s: %+v", id, &j)
	return j
}

// Exported waits for the end of a job.
func (s *Service) Exported(id string) Exported {
	s.T.Helper()
	return s.Await(id, func(j Exported) bool { return j.State == "READY" || j.State == "FAILED" })
}
