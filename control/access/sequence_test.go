package access

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

var begin = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestSequences plays random operations on an application that no database holds, and foresees each
// by a model: what is stored, and whether its time is over.
func TestSequences(t *testing.T) {
	to := map[Action]State{Confirm: Received, Drop: Expired, Approve: Approved, Refuse: Refused, Activate: Activated, Expire: Expired, Resend: Approved}
	from := map[Action][]State{Confirm: {Unconfirmed}, Drop: {Unconfirmed}, Approve: {Received}, Resend: {Approved}, Refuse: {Unconfirmed, Received, Approved}, Activate: {Approved}}
	rapidtest.Check(t, 2_000, 100_000, func(t *rapid.T) {
		a := Application{ID: "app_1", State: Unconfirmed, CreatedAt: store.At(begin), UpdatedAt: store.At(begin)}
		model, clock := Unconfirmed, time.Duration(0)
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			if rapid.Bool().Draw(t, "wait") {
				clock += rapid.SampledFrom([]time.Duration{time.Millisecond, time.Hour, confirmWithin, keep - time.Millisecond, keep}).Draw(t, "for")
			}
			over := clock >= keep && (model == Received || model == Approved) || clock >= confirmWithin && model == Unconfirmed
			now := store.At(begin.Add(clock))
			seen := model
			if over {
				seen = Expired
			}
			require.Equal(t, seen, a.stateAt(now))
			action := rapid.SampledFrom([]Action{Confirm, Drop, Approve, Resend, Refuse, Activate, Expire}).Draw(t, "action")
			next, changed, err := applications.After(a, action, now)
			allowed := action == Expire && over
			for _, state := range from[action] {
				allowed = allowed || state == model && !over
			}
			if !allowed {
				require.False(t, changed)
				require.Equal(t, a, next)
				if action != Expire || model != Expired {
					require.Equal(t, api.StateConflict, api.From(err).Code, "%s of %s", action, model)
				}
				continue
			}
			require.NoError(t, err)
			require.True(t, changed)
			want := a
			want.State, want.UpdatedAt = to[action], now
			require.Equal(t, want, next, "nothing else is changed")
			a, model = next, to[action]
		}
	})
}

// TestTransitions is the table of states, by what each action makes of each.
func TestTransitions(t *testing.T) {
	for state, becomes := range map[State]map[Action]State{
		Unconfirmed: {Confirm: Received, Refuse: Refused, Drop: Expired},
		Received:    {Approve: Approved, Refuse: Refused},
		Approved:    {Resend: Approved, Refuse: Refused, Activate: Activated},
		Activated:   {}, Refused: {}, Expired: {Expire: Expired},
	} {
		for _, action := range []Action{Confirm, Drop, Approve, Resend, Refuse, Activate, Expire} {
			next, _, err := applications.After(Application{State: state, CreatedAt: store.At(begin)}, action, store.At(begin))
			if to, ok := becomes[action]; ok {
				require.NoError(t, err, "%s of %s", action, state)
				require.Equal(t, to, next.State)
			} else {
				require.Equal(t, api.StateConflict, api.From(err).Code, "%s of %s", action, state)
			}
		}
	}
}

// TestForm: what may be applied with, and what a hostile caller may not put into mails, headers and
// operators' terminals.
func TestForm(t *testing.T) {
	for _, c := range []struct{ email, organisation, use, field string }{
		{"ada@example.org", "Example", "Trying it\nout, with\ttabs", ""},
		{"ADA@Example.ORG", " Example ", "x", ""},
		{"ada+tag@mail.example.org", "Ünïcode ΟΡΓ", "x", ""},
		{"аda@example.org", "Exаmple", "x", ""}, // homographs
		{"ada@localhost", "x", "x", ""},
		{"ada", "x", "x", "email"},
		{"@example.org", "x", "x", "email"},
		{"ada@", "x", "x", "email"},
		{"ada@b@example.org", "x", "x", "email"},
		{"ada@example.org, eve@example.org", "x", "x", "email"},
		{"ada@example.org\r\nBcc: eve@example.org", "x", "x", "email"},
		{"ada@example.org\nBcc:eve@example.org", "x", "x", "email"},
		{"ada@example.org ", "x", "x", "email"},
		{" ada@example.org", "x", "x", "email"},
		{"Ada <ada@example.org>", "x", "x", "email"},
		{"<ada@example.org>", "x", "x", "email"},
		{`"ada lovelace"@example.org`, "x", "x", "email"},
		{`"ada\r\nBcc:x"@example.org`, "x", "x", "email"},
		{"ada@[127.0.0.1]", "x", "x", "email"},
		{"ada@exa\x00mple.org", "x", "x", "email"},
		{"ada@exa\u202emple.org", "x", "x", "email"},
		{"ada..x@example.org", "x", "x", "email"},
		{"ada@example..org", "x", "x", "email"},
		{"a\xff@example.org", "x", "x", "email"},
		{strings.Repeat("a", 65) + "@example.org", "x", "x", "email"},
		{"a@" + strings.Repeat("b.", 126) + "c", "x", "x", "email"},
		{"ada@example.org", "x\r\nBcc: eve@example.org", "x", "organisation"},
		{"ada@example.org", "x\x1b[2J", "x", "organisation"},
		{"ada@example.org", "x\u2028y", "x", "organisation"},
		{"ada@example.org", "x\u202ey", "x", "organisation"},
		{"ada@example.org", "x\x00", "x", "organisation"},
		{"ada@example.org", "  ", "x", "organisation"},
		{"ada@example.org", strings.Repeat("ü", 101), "x", "organisation"},
		{"ada@example.org", "x", "x\x1b]0;x\a", "use"},
		{"ada@example.org", "x", strings.Repeat("ü", 1001), "use"},
		{"ada@example.org", "x", "\t\n", "use"},
	} {
		f, err := Form{c.email, c.organisation, c.use}.normal()
		if c.field != "" {
			require.Equal(t, c.field, api.From(err).Field, "%q %q %.20q", c.email, c.organisation, c.use)
			continue
		}
		require.NoError(t, err, c.email)
		again, err := f.normal()
		require.NoError(t, err)
		require.Equal(t, f, again)
	}
	f, err := Form{"ADA@Example.ORG", " Example ", "x"}.normal()
	require.NoError(t, err)
	require.Equal(t, Form{"ada@example.org", "Example", "x"}, f)
}
