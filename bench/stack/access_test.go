package stack

import (
	"testing"

	"muniment/bench/system/storytest"
	"muniment/bench/system/systemtest"
)

// TestAccessOnTheStack tells it of two gateways and two control processes, which share the limits.
func TestAccessOnTheStack(t *testing.T) {
	box, address := systemtest.OpenMailbox(t)
	for name, value := range map[string]string{"SMTP": address, "FROM": "keys@muniment.example", "TLS": "none"} {
		t.Setenv("MUNIMENT_MAIL_"+name, value)
	}
	t.Setenv("MUNIMENT_PUBLIC_URL", "https://muniment.example")
	s, _ := scaledOut(t)
	client, rights := storytest.Access(t, systemtest.Applicant{T: t, URL: s.Client.API, Data: s.Data}, box)
	storytest.Batches(t, client, rights["DOOH"], false)
}
