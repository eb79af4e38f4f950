package webhook

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// TestNoNameAfterAnErasure: an attempt that runs during an erasure doesn't write a response that
// names the person, though the kept ones name nobody. Its delivery is sent again.
func TestNoNameAfterAnErasure(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { strangersOnly(t, cfg) })
	r := newReceiver(t)
	s.queueing()
	w := s.hookAt(r, "a.example.com", tenantID, 0)
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.awaitDelivery(w, func(*Delivery) bool { return true })
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "unknown: ann@example.org")
	})
	var begun []finishedAttempt
	require.NoError(t, s.begin(t.Context(), func(w *Webhook, held api.Scopes, d Delivery) {
		begun = append(begun, finishedAttempt{webhook: w, was: d, outcome: s.attempt(t.Context(), w, held, &d)})
	}))
	require.Len(t, begun, 1)
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, tenantID, sealer.NewPerson("ann@example.org"), "hash", nil, nil)
		return err
	}))
	s.write(t.Context(), begun)
	s.workers.end(&begun[0])
	require.Empty(t, s.delivery(w).Attempts)
	r.answers(nil)
	s.clock.Advance(time.Minute)
	require.Equal(t, 1, s.due())
	require.Equal(t, Delivered, s.delivery(w).State)
}

// TestPersonsAreErased: erasing removes a name from receivers' responses, however it is escaped, and
// changes nothing else. A running attempt does not write the old responses back.
func TestPersonsAreErased(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { strangersOnly(t, cfg) })
	r := newReceiver(t)
	s.queueing()
	w := s.hookAt(r, "a.example.com", tenantID, 0)
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.awaitDelivery(w, func(*Delivery) bool { return true })
	erase := func(tenant, person string) {
		require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := Tables.Erase(t.Context(), tx, tenant, sealer.NewPerson(person), "hash", nil, nil)
			return err
		}))
	}
	answered := func(with string) {
		r.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, with)
		})
		_, err := s.resend(t.Context(), tenantID, w.ID, s.delivery(w).ID, byKey)
		require.NoError(t, err)
		require.Equal(t, 1, s.due())
	}
	const quoted = `Ann "A\n" <ann@example.org> & Söhne`
	for _, c := range []struct{ person, answer string }{
		{"ann@example.org", "whom? ann@example.org"},
		{"5", "5"}, {`"`, `a " b`}, {"5", `{"n":5}`}, {"[", "["}, {"%", "100 %"}, {`\`, `\`},
		{quoted, "whom? " + quoted},
		{quoted, `{"person":"Ann \"A\\n\" <ann@example.org> & S\u00f6hne"}`},
		{quoted, `{"person":"Ann \"A\\n\" \u003cann@example.org\u003e \u0026 Söhne"}`},
		{"😀", `{"person":"\ud83d\ude00"}`},
	} {
		answered("100% [\"a\"] \\ 5 of before")
		answered(c.answer)
		answered("later")
		was := s.delivery(w)
		last := len(was.Attempts) - 2
		erase("tnt_b", c.person)
		erase(tenantID, "a stranger")
		untouched := s.delivery(w)
		untouched.claim = was.claim // an attempt that runs could name any person
		require.Equal(t, was, untouched, c.answer)

		s.clock.Advance(time.Hour)
		var begun []finishedAttempt
		require.NoError(t, s.begin(t.Context(), func(w *Webhook, held api.Scopes, d Delivery) {
			begun = append(begun, finishedAttempt{webhook: w, was: d, outcome: s.attempt(t.Context(), w, held, &d)})
		}))
		require.Len(t, begun, 1)
		erase(tenantID, c.person)
		s.write(t.Context(), begun)
		s.workers.end(&begun[0])
		now := s.delivery(w)
		require.Len(t, now.Attempts, last+2)
		require.Equal(t, "hash", *now.Attempts[last].BodyExcerpt, c.answer)
		now.Attempts[last].BodyExcerpt = was.Attempts[last].BodyExcerpt
		require.Equal(t, was.Attempts[last:], now.Attempts[last:], c.answer)
	}
}
