package stack

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

const publicURL = "MUNIMENT_PUBLIC_URL=https://muniment.example"

// TestAccessOnTheStack tells it of two gateways and two control processes, which share the limits.
func TestAccessOnTheStack(t *testing.T) {
	t.Parallel()
	box, address := systemtest.OpenMailbox(t)
	s, _ := scaledOut(t, "MUNIMENT_MAIL_SMTP="+address, "MUNIMENT_MAIL_FROM=keys@muniment.example", "MUNIMENT_MAIL_TLS=none", publicURL)
	client, rights := storytest.Access(t, systemtest.Applicant{T: t, URL: s.Client.API, Data: s.Data}, box)
	storytest.Batches(t, client, rights["DOOH"], false)
}
