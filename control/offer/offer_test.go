package offer

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

var now = store.At(time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC))

// later is a moment behind now.
func later(d time.Duration) store.Instant { return store.At(now.Add(d)) }

// TestTransitions reads like the contract's table.
func TestTransitions(t *testing.T) {
	all := []State{Proposed, Countered, Withdrawn, Rejected, Accepted, Expired}
	want := map[string]struct {
		to    State
		actor string
	}{
		"counter PROPOSED":  {Countered, "org_to"},
		"withdraw PROPOSED": {Withdrawn, "org_from"},
		"reject PROPOSED":   {Rejected, "org_to"},
		"accept PROPOSED":   {Accepted, "org_to"},
	}
	for _, from := range all {
		for _, a := range []Action{Counter, Withdraw, Reject, Accept, Expire, "dispute"} {
			name := fmt.Sprintf("%s %s", a, from)
			if name == "expire EXPIRED" {
				continue // TestItsTimeHasCome
			}
			t.Run(name, func(t *testing.T) {
				was := Offer{ID: "ofr_a", FromOrgID: "org_from", ToOrgID: "org_to", State: from, StateReason: new("before"), ExpiresAt: later(time.Hour), UpdatedAt: now}
				next, changed, err := offers.After(was, a, later(time.Hour-time.Millisecond))
				if want[name].to == "" {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					if from != Proposed {
						require.ErrorContains(t, err, "offer is already "+string(from))
					}
					require.Equal(t, was, next)
					return
				}
				require.NoError(t, err)
				require.Equal(t, want[name].to, next.State)
				require.True(t, changed)
				require.Equal(t, later(time.Hour-time.Millisecond), next.UpdatedAt)
				require.Equal(t, want[name].actor, *next.actor(a))
				require.Equal(t, Proposed, was.State, "the record before stays as it was")
			})
		}
	}
}

// TestItsTimeHasCome is the column of the table for offers that are due: nothing but
// Expire moves them, and only once.
func TestItsTimeHasCome(t *testing.T) {
	o := Offer{State: Proposed, ExpiresAt: later(time.Hour)}
	require.Equal(t, Proposed, o.stateAt(later(time.Hour-time.Millisecond)))
	require.Equal(t, Expired, o.stateAt(later(time.Hour)), "at the moment itself")
	for _, a := range []Action{Counter, Withdraw, Reject, Accept} {
		_, _, err := offers.After(o, a, later(time.Hour))
		require.Equal(t, api.StateConflict, api.From(err).Code)
		require.ErrorContains(t, err, "offer is already EXPIRED")
	}
	next, changed, err := offers.After(o, Expire, later(2*time.Hour))
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, Expired, next.State)
	require.Equal(t, later(2*time.Hour), next.UpdatedAt)
	require.Nil(t, next.actor(Expire), "no organisation acts")
	same, changed, err := offers.After(next, Expire, later(3*time.Hour))
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, next, same)
	_, _, err = offers.After(o, Expire, later(time.Hour-time.Millisecond))
	require.ErrorContains(t, err, "offer is PROPOSED, not EXPIRED")
	accepted := Offer{State: Accepted, ExpiresAt: later(time.Hour)}
	require.Equal(t, Accepted, accepted.stateAt(later(time.Hour)), "what was closed in time stays so")
}

func TestPropose(t *testing.T) {
	const holder = "org_holder"
	for _, c := range []struct {
		name      string
		requested Offer
		field     string // at fault; empty: none is
	}{
		{"by the holder", Offer{FromOrgID: holder, ToOrgID: "org_b"}, ""},
		{"by the holder, unsaid", Offer{ToOrgID: "org_b"}, ""},
		{"to the holder", Offer{FromOrgID: "org_b", ToOrgID: holder}, ""},
		{"to itself", Offer{FromOrgID: holder, ToOrgID: holder}, "toOrgId"},
		{"to itself, unsaid", Offer{ToOrgID: holder}, "toOrgId"},
		{"among strangers", Offer{FromOrgID: "org_b", ToOrgID: "org_c"}, "toOrgId"},
		{"to itself, a stranger", Offer{FromOrgID: "org_b", ToOrgID: "org_b"}, "toOrgId"},
		{"just ahead", Offer{ToOrgID: "org_b", ExpiresAt: later(time.Millisecond)}, ""},
		{"until now", Offer{ToOrgID: "org_b", ExpiresAt: now}, "expiresAt"},
		{"until yesterday", Offer{ToOrgID: "org_b", ExpiresAt: later(-24 * time.Hour)}, "expiresAt"},
		{"with terms", Offer{ToOrgID: "org_b", TermsRef: new("contract 7")}, ""},
		{"as if it were a counter-offer", Offer{ToOrgID: "org_b", TermsRef: new("counter_of:ofr_x")}, "termsRef"},
	} {
		t.Run(c.name, func(t *testing.T) {
			made, err := propose(c.requested, holder, now)
			if c.field != "" {
				require.Equal(t, api.ValidationFailed, api.From(err).Code, "%v", err)
				require.Equal(t, c.field, api.From(err).Field)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Proposed, made.State)
			require.Equal(t, now, made.CreatedAt)
			require.Equal(t, now, made.UpdatedAt)
			require.Equal(t, c.requested.TermsRef, made.TermsRef)
			require.Equal(t, "org_b", made.beneficiary(holder), "the side that does not hold the right gets it")
			if c.requested.ExpiresAt.IsZero() {
				require.Equal(t, "2026-11-28T04:00:00.000Z", made.ExpiresAt.String(), "7 days")
			}
		})
	}
	_, err := propose(Offer{ToOrgID: holder, ExpiresAt: now}, holder, now)
	require.Len(t, api.From(err).ValidationErrors, 2, "all that is wrong")
}

func TestCounterGoesTheOtherWay(t *testing.T) {
	o := Offer{
		ID: "ofr_a", TenantID: "tnt_a", RightID: "rgh_a", FromOrgID: "org_from", ToOrgID: "org_to",
		TermsRef: new("contract 7"), ExpiresAt: later(time.Hour), State: Proposed,
	}
	made, err := o.counter(Offer{Scope: json.RawMessage(`{}`), TermsRef: new("contract 8"), ExpiresAt: later(time.Minute)}, now)
	require.NoError(t, err)
	require.Equal(t, Offer{
		TenantID: "tnt_a", RightID: "rgh_a", FromOrgID: "org_to", ToOrgID: "org_from", Scope: json.RawMessage(`{}`), TermsRef: new("counter_of:ofr_a"),
		CounterTermsRef: new("contract 8"), ExpiresAt: later(time.Minute), State: Proposed, CreatedAt: now, UpdatedAt: now,
	}, made)
	require.Equal(t, o.beneficiary("org_from"), made.beneficiary("org_from"), "the right is for the same side")

	plain, err := o.counter(Offer{}, now)
	require.NoError(t, err)
	require.Nil(t, plain.CounterTermsRef)
	require.Equal(t, later(7*24*time.Hour), plain.ExpiresAt)
	_, err = o.counter(Offer{ExpiresAt: now}, now)
	require.Equal(t, "expiresAt", api.From(err).Field)
}

// TestContentHash is a vector: the hash can be computed from the response.
func TestContentHash(t *testing.T) {
	o := Offer{
		ID: "ofr_a", TenantID: "tnt_a", RightID: "rgh_a", FromOrgID: "org_from", ToOrgID: "org_to", Scope: json.RawMessage(`{"regions":["US"]}`),
		EffectiveFrom: now, ExpiresAt: later(time.Hour), DerivedRightID: new("rgh_b"), State: Accepted, CreatedAt: now, UpdatedAt: later(time.Minute), Revision: 9,
	}
	// printf '%s' '{"counterTermsRef":null,"counteredBy":null,"createdAt":"2026-11-21T04:00:00.000Z","derivedRightId":"rgh_b",…}' |
	// openssl dgst -sha256 -binary | basenc --base64url
	hash, err := o.contentHash()
	require.NoError(t, err)
	require.Equal(t, "OsxExTyvVEtm7zdTpVMbQEc9Nuq9IT1CbCylrGp-0fY", hash)
}
