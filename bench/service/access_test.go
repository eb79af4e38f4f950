package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
)

// TestAccessOfAService is the whole story: a stranger applies, an operator approves, the mail comes,
// and its link leads to a key by which a delivery is receipted, under a key of the sandbox.
func TestAccessOfAService(t *testing.T) {
	t.Parallel()
	box, address := systemtest.OpenMailbox(t)
	s := systemtest.NewService(t, "--mail-smtp", address, "--mail-from", "Muniment <keys@muniment.example>", "--mail-tls", "none", "--public-url", "https://muniment.example/", "--seal-every", "100ms")
	client, rights := storytest.Access(t, systemtest.Applicant{T: t, URL: s.Client.API, Data: s.Data}, box)
	storytest.Batches(t, client, rights["DOOH"], true)
	delivers := func(body string) systemtest.Response {
		return systemtest.Call(t, client.API, client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: body}, "Idempotency-Key", "play-1")
	}
	first, again := delivers(systemtest.Delivery(rights["DOOH"])), delivers(systemtest.Delivery(rights["DOOH"]))
	require.Equal(t, 200, first.Status, first.Body)
	require.Equal(t, first.Body, again.Body)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Equal(t, 409, delivers(systemtest.Delivery(rights["CTV"])).Status, "another body")
	require.Equal(t, 422, systemtest.Call(t, client.API, client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: `{}`}).Status)
	receipt := systemtest.Parse[struct{ Data api.Delivered }](t, first.Body).Data.Receipt.ReceiptID
	waittest.Until(t, func() bool {
		return systemtest.Call(t, client.API, client.Key, systemtest.Operation{Method: "GET", Path: "/v1/receipts/" + receipt + "/proof"}).Status == 200
	}, "it is sealed without a request")
	log := s.Log()
	require.NotContains(t, log, "ada@example.org")
	require.NotContains(t, log, "Example Ltd")
}
