package control_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/node"
	"muniment.example/control/rapidtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// TestRightsOffersAndChallengesAgainstAModel plays random operations on rights, offers
// and challenges over HTTP. The model foresees each answer's status, every record as it
// is in the end, and all that the audit log holds, in order.
func TestRightsOffersAndChallengesAgainstAModel(t *testing.T) {
	stacktest.Both(t)
	var clock atomic.Int64 // milliseconds
	clock.Store(time.Now().UnixMilli())
	h := newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return time.UnixMilli(clock.Load()) })
	_, key := h.tenant()
	basisID := h.basis(key)
	done := map[string]int{}
	rapidtest.Check(t, 50, 1_000, func(t *rapid.T) {
		m := &model{T: t, h: h, key: key, basisID: basisID, clock: &clock, done: done}
		m.start = m.number()
		operations := map[string]func(){
			"issue": m.issue, "derive": m.derive, "suspend": m.move("suspend"), "resume": m.move("resume"), "revoke": m.move("revoke"),
			"propose": m.propose, "counter": m.counter, "accept": m.accept,
			"withdraw": m.refuse("withdraw", "WITHDRAWN"), "reject": m.refuse("reject", "REJECTED"),
			"challenge": m.challenge, "uphold": m.resolve("uphold"), "overturn": m.resolve("overturn"), "back down": m.resolve("back down"),
			"wait": func() { m.wait(rapid.IntRange(1, 3).Draw(t, "hours")) }, "expire": m.expire,
		}
		// Some are requested more often, so that there is something for the others.
		names := append(slices.Sorted(maps.Keys(operations)), "issue", "propose", "propose", "propose", "counter", "accept", "accept", "challenge")
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 8, 30).Draw(t, "operations") {
			operations[name]()
		}
		m.check()
		m.wait(8 * 24) // no offer is left to the next sequence
		m.expire()
		m.check()
	})
	t.Logf("%v", done)
}

// The records of the model.
type (
	modelRight struct {
		id, state, holder string
		parent            *modelRight
		scope             modelScope
	}
	modelOffer struct {
		id, state, from, to  string
		of                   *modelRight
		scope                modelScope
		end                  int64 // milliseconds
		counteredBy, derived string
	}
	modelChallenge struct {
		id, state string
		of        *modelRight
	}
)

// modelScope is all that a scope names here.
type modelScope struct{ regions, description string }

// text is the scope as it is answered.
func (s modelScope) text() string {
	if s.description == "" {
		return fmt.Sprintf(`{"regions":%s}`, s.regions)
	}
	return fmt.Sprintf(`{"description":%q,"regions":%s}`, s.description, s.regions)
}

// anyScope draws a scope as a member of a body, maybe none, and foresees what it comes to
// under a parent.
func (m *model) anyScope(parent modelScope) (member string, granted modelScope, valid bool) {
	switch granted = parent; rapid.SampledFrom([]string{"regions", "regions", "regions", "regions", "absent", "null", "empty", "text", "wider", "misspelt"}).Draw(m.T, "scope") {
	case "absent":
		return ``, granted, true
	case "null":
		return `,"scope":null`, granted, true
	case "empty":
		return `,"scope":{}`, granted, true
	case "text":
		granted.description = "sublet"
		return `,"scope":"sublet"`, granted, true
	case "wider":
		return `,"scope":{"regions":["US","MX"]}`, granted, false
	case "misspelt":
		return `,"scope":{"region":["US"]}`, granted, false
	}
	granted.regions = `["US"]`
	return `,"scope":{"regions":["US"]}`, granted, true
}

type model struct {
	*rapid.T
	h            *fixture
	key, basisID string
	clock        *atomic.Int64
	rights       []*modelRight
	offers       []*modelOffer
	challenges   []*modelChallenge
	start        int64          // the number of the newest event before
	emitted      []string       // what the log is to hold
	done         map[string]int // answers, by operation and status
}

// send sends a request, and requires the status of the response. The data are nil unless it is 200.
func (m *model) send(operation string, status int, path, body string) map[string]any {
	a := m.h.call(m.key, "POST", path, body)
	require.Equal(m, status, a.status, "%s: %s", operation, a.text)
	m.done[fmt.Sprint(operation, " ", status)]++
	if status != 200 {
		return nil
	}
	return a.ok()
}

func (m *model) emit(event, id string) { m.emitted = append(m.emitted, event+" "+id) }

// allowed is the status of what is possible or is not.
func allowed(ok bool) int { return map[bool]int{true: 200, false: 409}[ok] }

// worst is what stops a right: its state, and the nearest of the line that is in it.
func (r *modelRight) worst() (state string, at *modelRight) {
	state, at = "ACTIVE", r
	for ; r != nil; r = r.parent {
		if r.state == "REVOKED" && state != "REVOKED" || r.state == "SUSPENDED" && state == "ACTIVE" {
			state, at = r.state, r
		}
	}
	return state, at
}

func (r *modelRight) free() bool {
	state, _ := r.worst()
	return state == "ACTIVE"
}

func (m *model) right() *modelRight {
	if len(m.rights) == 0 {
		m.issue()
	}
	return rapid.SampledFrom(m.rights).Draw(m.T, "right")
}

func (m *model) issue() {
	data := m.send("issue", 200, "/v1/rights", fmt.Sprintf(
		`{"basisId":%q,"substrate":"CTV","scope":{"regions":["US","CA"]},"effectiveFrom":"2026-01-01T00:00:00Z"}`, m.basisID))
	m.add(data["right"].(map[string]any), "org_acme", nil, modelScope{regions: `["US","CA"]`})
}

func (m *model) add(record map[string]any, holder string, parent *modelRight, scope modelScope) {
	r := &modelRight{record["id"].(string), "ACTIVE", holder, parent, scope}
	m.rights = append(m.rights, r)
	m.emit("right.issued", r.id)
}

func (m *model) derive() {
	p := m.right()
	scope, granted, valid := m.anyScope(p.scope)
	status := allowed(p.free())
	if !valid || scope == `,"scope":null` {
		status = 422
	}
	data := m.send("derive", status, "/v1/rights", fmt.Sprintf(
		`{"basisId":%q,"substrate":"CTV","effectiveFrom":%q,"parentRightId":%q%s}`, m.basisID, m.in(0), p.id, scope))
	if data != nil {
		m.add(data["right"].(map[string]any), "org_acme", p, granted)
	}
}

func (m *model) move(verb string) func() {
	return func() {
		r := m.right()
		to, ok := map[string]string{
			"suspend ACTIVE": "SUSPENDED", "resume SUSPENDED": "ACTIVE", "revoke ACTIVE": "REVOKED", "revoke SUSPENDED": "REVOKED", "revoke REVOKED": "REVOKED",
		}[verb+" "+r.state]
		m.send(verb, allowed(ok), "/v1/rights/"+r.id+"/"+verb, "")
		if ok && to != r.state {
			r.state = to
			m.emit(map[string]string{"suspend": "right.suspended", "resume": "right.resumed", "revoke": "right.revoked"}[verb], r.id)
		}
	}
}

// in is the moment after some hours.
func (m *model) in(hours int) string {
	return canonical.FormatTime(time.UnixMilli(m.clock.Load() + int64(hours)*time.Hour.Milliseconds()))
}

// terms draws a scope and an end for an offer about a right, of which either may be wrong.
func (m *model) terms(of *modelRight) (members string, granted modelScope, end int64, valid bool) {
	members, granted, valid = m.anyScope(of.scope)
	hours := rapid.SampledFrom([]int{1, 2, 4, 5, 6, 7 * 24, 0}).Draw(m.T, "hours")
	if hours != 7*24 { // else unsaid
		members += fmt.Sprintf(`,"expiresAt":%q`, m.in(hours))
	}
	return members, granted, m.clock.Load() + int64(hours)*time.Hour.Milliseconds(), valid && hours > 0
}

func (m *model) propose() {
	r := m.right()
	sides := rapid.SampledFrom([][2]string{
		{r.holder, "org_b"}, {"org_b", r.holder}, {r.holder, "org_c"}, {"org_c", r.holder}, {"org_acme", "org_b"}, {r.holder, r.holder},
	}).Draw(m.T, "sides")
	o := &modelOffer{state: "PROPOSED", from: sides[0], to: sides[1], of: r}
	members, granted, end, valid := m.terms(r)
	o.end, o.scope = end, granted
	status := allowed(r.free())
	if !valid || o.from == o.to || o.from != r.holder && o.to != r.holder {
		status = 422
	}
	data := m.send("propose", status, "/v1/offers", fmt.Sprintf(`{"rightId":%q,"fromOrgId":%q,"toOrgId":%q%s}`, r.id, o.from, o.to, members))
	if data != nil {
		m.offered(o, data)
	}
}

func (m *model) offered(o *modelOffer, data map[string]any) {
	o.id = data["offer"].(map[string]any)["id"].(string)
	m.offers = append(m.offers, o)
	m.emit("offer.proposed", o.id)
}

func (m *model) offer() *modelOffer {
	if len(m.offers) == 0 {
		return nil
	}
	return rapid.SampledFrom(m.offers).Draw(m.T, "offer")
}

// stands says whether an offer can be moved; seen is its state as it is answered.
func (m *model) stands(o *modelOffer) bool { return m.seen(o) == "PROPOSED" }

func (m *model) seen(o *modelOffer) string {
	if o.state == "PROPOSED" && m.clock.Load() >= o.end {
		return "EXPIRED"
	}
	return o.state
}

func (m *model) counter() {
	o := m.offer()
	if o == nil {
		return
	}
	members, granted, end, valid := m.terms(o.of)
	status := allowed(m.stands(o) && o.of.free())
	if m.stands(o) && !valid {
		status = 422
	}
	data := m.send("counter", status, "/v1/offers/"+o.id+"/counter", `{"termsRef":null`+members+`}`)
	if data != nil {
		o.state = "COUNTERED"
		m.emit("offer.countered", o.id)
		made := &modelOffer{state: "PROPOSED", from: o.to, to: o.from, of: o.of, scope: granted, end: end}
		m.offered(made, data)
		o.counteredBy = made.id
	}
}

func (m *model) accept() {
	o := m.offer()
	if o == nil {
		return
	}
	data := m.send("accept", allowed(m.stands(o) && o.of.free()), "/v1/offers/"+o.id+"/accept", "")
	if data == nil {
		return
	}
	o.state = "ACCEPTED"
	m.emit("offer.accepted", o.id)
	holder := o.from
	if o.from == o.of.holder {
		holder = o.to
	}
	m.add(data["right"].(map[string]any), holder, o.of, o.scope)
	o.derived = m.rights[len(m.rights)-1].id

	text, err := json.Marshal(data["offer"])
	require.NoError(m, err)
	text, err = jcs.Transform(text)
	require.NoError(m, err)
	sum := sha256.Sum256(text)
	require.Equal(m, base64.RawURLEncoding.EncodeToString(sum[:]), data["right"].(map[string]any)["contentHash"])
}

func (m *model) refuse(verb, to string) func() {
	return func() {
		o := m.offer()
		if o == nil {
			return
		}
		if m.send(verb, allowed(m.stands(o)), "/v1/offers/"+o.id+"/"+verb, "") != nil {
			o.state = to
			m.emit(map[string]string{"withdraw": "offer.withdrawn", "reject": "offer.rejected"}[verb], o.id)
		}
	}
}

func (m *model) challenge() {
	r := m.right()
	data := m.send("challenge", allowed(r.state == "ACTIVE"), "/v1/challenges", fmt.Sprintf(`{"rightId":%q,"challengerOrgId":"org_c","reason":"ours"}`, r.id))
	if data != nil {
		c := &modelChallenge{data["challenge"].(map[string]any)["id"].(string), "OPEN", r}
		m.challenges = append(m.challenges, c)
		m.emit("challenge.opened", c.id)
	}
}

func (m *model) resolve(how string) func() {
	verb, body, to, event := "resolve", `{"upheld":true}`, "UPHELD", "challenge.upheld"
	switch how {
	case "overturn":
		body, to, event = `{"upheld":false}`, "OVERTURNED", "challenge.overturned"
	case "back down":
		verb, body, to, event = "withdraw", ``, "WITHDRAWN", "challenge.withdrawn"
	}
	return func() {
		if len(m.challenges) == 0 {
			return
		}
		c := rapid.SampledFrom(m.challenges).Draw(m.T, "challenge")
		if m.send(how, allowed(c.state == "OPEN"), "/v1/challenges/"+c.id+"/"+verb, body) == nil {
			return
		}
		c.state = to
		m.emit(event, c.id)
		if how == "uphold" && c.of.state != "REVOKED" {
			c.of.state = "REVOKED"
			m.emit("right.revoked", c.of.id)
		}
	}
}

func (m *model) wait(hours int) { m.clock.Add(int64(hours) * time.Hour.Milliseconds()) }

// expire has the job done.
func (m *model) expire() {
	var due []*modelOffer
	for _, o := range m.offers {
		if o.state == "PROPOSED" && m.seen(o) == "EXPIRED" {
			due = append(due, o)
		}
	}
	slices.SortFunc(due, func(a, b *modelOffer) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.id, b.id)) })
	for _, o := range due {
		o.state = "EXPIRED"
		m.emit("offer.expired", o.id)
		m.done["expire"]++
	}
	require.NoError(m, m.h.offers.Expire(m.h.t.Context()))
}

// number is that of the newest event.
func (m *model) number() (n int64) {
	require.NoError(m, m.h.db.Read().QueryRow(`SELECT value FROM counters WHERE name = 'outbox'`).Scan(&n))
	return n
}

// check compares all records, and their events, with the model.
func (m *model) check() {
	get := func(kind, id string) map[string]any {
		a := m.h.call(m.key, "GET", "/v1/"+kind+"s/"+id, "")
		require.Equal(m, 200, a.status, a.text)
		return a.ok()[kind].(map[string]any)
	}
	scope := func(want modelScope, got map[string]any) {
		text, err := json.Marshal(got["scope"])
		require.NoError(m, err)
		require.JSONEq(m, want.text(), string(text))
	}
	orNil := func(id string) any {
		if id == "" {
			return nil
		}
		return id
	}
	for _, r := range m.rights {
		got := get("right", r.id)
		state, at := r.worst()
		var blockedBy, parent any
		if at != r {
			blockedBy = at.id
		}
		if r.parent != nil {
			parent = r.parent.id
		}
		require.Equal(m, []any{r.state, state, blockedBy, parent, r.holder},
			[]any{got["state"], got["effectiveState"], got["blockedBy"], got["parentRightId"], got["holderOrgId"]})
		scope(r.scope, got)
	}
	for _, o := range m.offers {
		got := get("offer", o.id)
		require.Equal(m, []any{m.seen(o), o.of.id, o.from, o.to, orNil(o.counteredBy), orNil(o.derived)},
			[]any{got["state"], got["rightId"], got["fromOrgId"], got["toOrgId"], got["counteredBy"], got["derivedRightId"]})
		scope(o.scope, got)
	}
	for _, c := range m.challenges {
		got := get("challenge", c.id)
		require.Equal(m, []any{c.state, c.of.id}, []any{got["state"], got["rightId"]})
	}

	events, err := store.List(context.Background(), m.h.db.Read(), "the outbox", store.Text, `SELECT event FROM outbox WHERE seq > $1 ORDER BY epoch, seq`, m.start)
	require.NoError(m, err)
	var emitted []string
	last := int64(0)
	for _, text := range events {
		e, err := sealer.ParseEvent([]byte(text))
		require.NoError(m, err)
		emitted = append(emitted, e.Type+" "+e.Subject.ID)
		var record struct{ Revision int64 }
		require.NoError(m, json.Unmarshal(e.Data, &record))
		require.GreaterOrEqual(m, record.Revision, last, "revisions rise in the order of the events")
		last = record.Revision
	}
	require.Equal(m, m.emitted, emitted, "each change has one event, and there is no other")
}
