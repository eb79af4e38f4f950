package storytest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/sealer"
)

// Webhooks runs the scenario on a number of processes that send, of which one is killed and started
// again.
func Webhooks(t *testing.T, s *systemtest.Service, processes int, kill, start func()) {
	r := systemtest.NewHookReceiver(t)
	var made struct {
		Secret  string
		Webhook struct{ ID string }
	}
	s.Post("/v1/webhooks", map[string]any{"url": r.URL, "events": []string{"right.suspended", "right.resumed", "dsar.*", "delivery.recorded"}}, &made)
	path := "/v1/webhooks/" + made.Webhook.ID
	keys := func() []byte {
		return []byte(systemtest.Call(t, s.Client.API, "", systemtest.Operation{Method: "GET", Path: "/.well-known/muniment/keys.json"}).Body)
	}

	// A process has one attempt at hand of a receiver that has answered nothing yet.
	released := make(chan struct{})
	r.Answers(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-released:
		case <-req.Context().Done():
		}
	})
	actions := []string{"suspend", "resume"}
	for n := range processes {
		s.Move("CTV", actions[n%2])
	}
	waittest.Until(t, func() bool { return len(r.Messages()) == processes }, "each process sends")
	kill()
	r.Answers(nil)
	close(released)
	start()
	next := systemtest.Operation{Method: "POST", Path: "/v1/rights/" + s.Rights["CTV"] + "/" + actions[processes%2], Body: "{}"}
	waittest.Until(t, func() bool {
		return systemtest.Call(t, s.Client.API, s.Client.Key, next, "Idempotency-Key", "moved").Status == http.StatusOK
	}, "the service is back")
	events := func() map[string][]systemtest.Hooked { // by id
		got := map[string][]systemtest.Hooked{}
		for _, m := range r.Messages() {
			got[m.Id] = append(got[m.Id], m)
		}
		return got
	}
	waittest.Until(t, func() bool { return len(events()) == processes+1 && len(r.Messages()) > processes+1 }, "what was being sent is sent again")
	for id, all := range events() {
		for _, m := range all {
			require.Equal(t, all[0].Body, m.Body, id)
			require.Equal(t, []string{s.Tenant.TenantID, made.Webhook.ID}, []string{m.TenantID, m.WebhookID})
			e, err := sealer.ParseEvent(m.Data.Event)
			require.NoError(t, err)
			require.Equal(t, m.Type, e.Type)
			m.Verify(t, keys(), made.Secret)
		}
	}

	// A rotation has both secrets sign. What names a person, and telemetry, is in no message.
	var rotated struct{ Secret string }
	s.Post(path+"/rotate-secret", nil, &rotated)
	private := systemtest.Secrets{}
	for range 3 {
		s.Post("/v1/delivery", map[string]any{
			"rightId": s.Rights["DOOH"], "spatialAnchorId": "screen-7", "dwellMs": 8000, "dataSubjectId": private.Plant("person"),
			"telemetry": map[string]any{"beamId": private.Plant("telemetry")},
		}, nil)
	}
	var job struct{ Job systemtest.Exported }
	s.Post("/v1/compliance/dsar", map[string]any{
		"scope": map[string]any{"kind": "DATA_SUBJECT", "dataSubjectId": private.Plant("subject")}, "requestedBy": private.Plant("who asks"), "requestNotes": private.Plant("notes"),
	}, &job)
	s.Post("/v1/compliance/dsar/"+job.Job.ID+"/cancel", map[string]any{"reason": private.Plant("reason")}, nil)
	count := func() (receipts, exports int) {
		for _, all := range events() {
			receipts += len(all[0].Data.Events)
			if strings.HasPrefix(all[0].Type, "dsar.") {
				exports++
			}
		}
		return receipts, exports
	}
	waittest.Until(t, func() bool { receipts, exports := count(); return receipts == 3 && exports == 2 }, "receipts and exports are sent")
	for _, m := range r.Messages() {
		private.Search(t, m.Body)
		if len(m.Data.Events) > 0 || strings.HasPrefix(m.Type, "dsar.") {
			m.Verify(t, keys(), made.Secret, rotated.Secret)
		}
	}
}
