package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestErasureIsKilled: a process that is killed while it erases some persons hands over to the next
// start. Each erasure is completed once, by a certificate that holds, and nothing of them is left.
func TestErasureIsKilled(t *testing.T) {
	t.Parallel()
	const together = 3
	s := &systemtest.Erasing{Service: systemtest.NewService(t)}
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--scope", "*")
	s.Client.Key = s.Tenant.APIKey
	s.Rights = systemtest.IssueRights(t, s.Client)
	var names, certificates []string
	for midway := 0; midway < systemtest.Times(1, 20); { // each costs the term of a lease
		some := make([]string, together)
		for i := range some {
			some[i] = fmt.Sprintf("person-%d@example.org", len(names)+i)
			for range 5 {
				s.Shown(some[i], "cell-of-"+some[i])
			}
			s.Exported(s.Export(map[string]any{"scope": map[string]any{"kind": "DATA_SUBJECT", "dataSubjectId": some[i]}}))
		}
		names = append(names, some...)
		waittest.Until(t, func() bool { return s.Metered() == 5*len(names) }, "all is loaded")
		bodies, begun := make([]string, together), make([]systemtest.ErasureOf, together)
		for i, name := range some {
			bodies[i] = systemtest.Confirmed(t, s.Client.API, s.Client.Key, name)
		}
		var requests sync.WaitGroup
		for i, body := range bodies {
			requests.Go(func() {
				var answer struct{ Erasure systemtest.ErasureOf }
				s.Post("/v1/compliance/erase", json.RawMessage(body), &answer)
				begun[i] = answer.Erasure
			})
		}
		requests.Wait()
		s.Server.Kill()
		s.StartAgain()
		for i, name := range some {
			var answer struct{ Erasure systemtest.ErasureOf }
			completed := func() bool {
				s.Get("/v1/compliance/erasures/"+begun[i].ID, &answer)
				return answer.Erasure.State == "COMPLETED"
			}
			if !completed() {
				midway++
			}
			waittest.Until(t, completed, "%s is erased", begun[i].ID)
			require.Empty(t, systemtest.Holding(t, s.Data, name, "log"))
			file := filepath.Join(t.TempDir(), begun[i].ID)
			require.NoError(t, os.WriteFile(file, []byte(answer.Erasure.Certificate), 0o600))
			certificates = append(certificates, file)
		}
	}
	systemtest.VerifyPacks(t, s.Data, append(certificates, systemtest.SealAndExport(t, s.Client)...))
	var list struct{ Events []json.RawMessage }
	s.Get("/v1/events?type=erasure.completed&limit=500", &list)
	require.Len(t, list.Events, len(names))
}
