package console

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/assets"
	"muniment.example/control/assets/assetstest"
	"muniment.example/control/member"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/gateway/client"
)

func files(t *testing.T) *assets.Page {
	t.Helper()
	p, err := assets.Open(embedded, assets.Policy)
	require.NoError(t, err)
	return p
}

func TestPolicyHolds(t *testing.T) {
	assetstest.PolicyHolds(t, files(t), Path)
}

// TestEveryFileIsReached from the layout, and every file that a page names is there. Files that pages share and these
// do not need are served, too.
func TestEveryFileIsReached(t *testing.T) {
	page := files(t)
	layout, err := views.ReadFile("view/layout.html")
	require.NoError(t, err)
	reached := []string{"charts.js"}
	next := []string{}
	for _, m := range regexp.MustCompile(`/files/([\w.-]+)`).FindAllStringSubmatch(string(layout), -1) {
		next = append(next, m[1])
	}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if slices.Contains(reached, name) {
			continue
		}
		reached = append(reached, name)
		require.Contains(t, page.Names(), name)
		if path.Ext(name) == ".js" {
			for _, m := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(string(page.Text(name)), -1) {
				next = append(next, m[1])
			}
		}
	}
	require.ElementsMatch(t, page.Names(), reached)
}

func TestConfigIsComplete(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "is missing")
}

// TestDeeds: each act leads to a page that can say what was done, and each address is that of one act.
func TestDeeds(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range acts() {
		require.False(t, seen[a.path], a.path)
		seen[a.path] = true
		require.NotEmpty(t, a.title, a.path)
		require.NotEmpty(t, a.submit, a.path)
		require.NotNil(t, a.after, a.path)
		require.NotNil(t, a.consequences, "%s says what will happen", a.path)
	}
}

func TestRuleSentence(t *testing.T) {
	names := payees{"cp_1": "Song Rights Ltd", "cp_2": "Venue Media"}
	shares := []client.SettlementShare{{CounterpartyID: "cp_1", BPS: 6000}, {CounterpartyID: "cp_2", BPS: 3950}, {CounterpartyID: "cp_3", BPS: 50}}
	for want, rule := range map[string]client.SettlementRule{
		"0.005 EUR a second on everything: 60 % to Song Rights Ltd, 39.5 % to Venue Media, 0.5 % to cp_3":                                                                                  {Unit: "SECOND", Price: "0.005", Currency: "EUR"},
		"4.00 EUR a thousand impressions on DOOH, the campaign “w”: 60 % to Song Rights Ltd, 39.5 % to Venue Media, 0.5 % to cp_3; at least 10.00 EUR a month; at most 500.00 EUR a month": {Unit: "CPM", Price: "4", Currency: "EUR", Minimum: "10", Cap: "500", Match: client.SettlementMatch{Substrate: "DOOH", Campaign: "w"}},
		"1.00 EUR a play on everything: 60 % to Song Rights Ltd, 39.5 % to Venue Media, 0.5 % to cp_3; above 1 000 in a month 0.50 EUR":                                                    {Unit: "EVENT", Price: "1", Currency: "EUR", Tiers: []client.Tier{{Above: 1000, Price: "0.5"}}, Match: client.SettlementMatch{Substrate: "ANY"}},
	} {
		rule.Shares = shares
		require.Equal(t, want, ruleSentence(rule, names))
	}
}

func TestBasisPoints(t *testing.T) {
	for text, want := range map[string]int64{"60": 6000, "39.5": 3950, "0.05": 5, "100": 10000} {
		got, ok := basisPoints(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", ".5", "-1", "1.234", "x", "1e3", "99999"} {
		_, ok := basisPoints(text)
		require.False(t, ok, text)
	}
}

// TestAmountsReadAsInTheirCurrency: the digits of the minor unit at least, and no digit of an exact amount is lost.
func TestAmountsReadAsInTheirCurrency(t *testing.T) {
	for _, c := range []struct{ decimal, currency, want string }{
		{"8.5", "EUR", "8.50"}, {"0", "EUR", "0.00"}, {"-1234567.5", "EUR", "-1 234 567.50"}, {"4.8195", "EUR", "4.8195"},
		{"10925", "JPY", "10 925"}, {"12.5", "JPY", "12.5"}, {"300.00", "JPY", "300"}, {"1.369990", "EUR", "1.36999"}, {"0.1", "KWD", "0.100"}, {"1000", "KWD", "1 000.000"}, {"", "EUR", ""},
	} {
		require.Equal(t, c.want, money(c.decimal, c.currency), "%s %s", c.decimal, c.currency)
	}
	shown := priced("1234.5", "EUR")
	require.Equal(t, "1 234.50", shown.Text)
	require.Equal(t, "1234.5", shown.Value(), "a file has the decimal of the API")
	draft := priced("", "EUR")
	require.Empty(t, draft.Value())
}

func TestNumbersForPeople(t *testing.T) {
	require.Equal(t, "0", count(0))
	require.Equal(t, "999", count(999))
	require.Equal(t, "-999", count(-999))
	require.Equal(t, "10 000 000", count(10_000_000))
	require.Equal(t, "4.2 s", long(4200))
	require.Equal(t, "7 min 12 s", long(432_000))
	require.Equal(t, "30 h 05 min", long(108_300_000))
	require.Equal(t, "–", zone{time.UTC}.when(time.Time{}))
	for n, want := range map[int64]int64{0: 1, 1: 1, 3: 5, 6: 10, 11: 20, 4999: 5000, 5001: 10000} {
		require.Equal(t, want, roundUp(n), n)
	}
}

// served is the console over a service that answers reads like Config.Serve, for a session that may read all of them.
func served(t testing.TB, serve func(w http.ResponseWriter, target string)) *Service {
	t.Helper()
	s := &Service{operations: sync.OnceValue(func() map[string]operation {
		return map[string]operation{
			"get-metering": {method: "GET", path: "/v1/metering"}, "get-refusals": {method: "GET", path: "/v1/refusals"}, "get-settlement": {method: "GET", path: "/v1/settlement"},
			"list-disputes": {method: "GET", path: "/v1/disputes"}, "get-settlement-rule": {method: "GET", path: "/v1/settlement-rules/{ruleId}"},
			"list-counterparties": {method: "GET", path: "/v1/counterparties"}, "list-payables": {method: "GET", path: "/v1/payables"}, "list-statements": {method: "GET", path: "/v1/statements"},
		}
	}), cfg: Config{PublicURL: "https://muniment.example", Now: time.Now, Serve: func(w http.ResponseWriter, _ context.Context, _ auth.Principal, _, target string) error {
		serve(w, target)
		return nil
	}}}
	var err error
	s.views, err = readViews()
	require.NoError(t, err)
	return s
}

// page is a page at an address of somebody who may do everything.
func (s *Service) page(address string) (*page, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", address, nil)
	return &page{s: s, w: w, r: r, Path: r.URL.Path, Session: &member.Session{Caller: auth.Principal{Key: &api.Key{Scopes: api.Scopes(api.Wildcard)}}}}, w
}

// rendered is a page with a list of n plays, as long as a page of it may be.
func rendered(t testing.TB, n int) (render func() string) {
	s := served(t, nil)
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"receipt":{"receiptId":"rcp_%d","renderedAt":"2026-11-02T00:00:00Z","spatialAnchorId":"a screen","dwellMs":4200},"event":{"data":{"rightId":"rgh_1","substrate":"DOOH","metering":{"metered":true}}}}`, i)
	}
	var records []play
	require.NoError(t, json.Unmarshal([]byte("["+strings.Join(rows, ",")+"]"), &records))
	return func() string {
		p, w := s.page(Path + "/plays")
		l := playsOf(nil, works{"rgh_1": "a right"})
		p.render("plays", search{Table: table{Columns: l.columns, Rows: l.rows(p, records)}, Fields: []filter{{Name: "from", Label: "From", Kind: "time"}}})
		return w.Body.String()
	}
}

func BenchmarkPage(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint(n, " rows"), func(b *testing.B) {
			render := rendered(b, n)
			b.ReportAllocs()
			for b.Loop() {
				render()
			}
		})
	}
}

// TestTemplatesAreReadOnce: a page costs what it shows, and nothing for its template, which is parsed and escaped before. Pages of
// tenants in other zones are made at the same moment, each with its own times.
func TestTemplatesAreReadOnce(t *testing.T) {
	render := rendered(t, 1)
	render()
	require.Less(t, testing.AllocsPerRun(20, func() { render() }), 1500.0)

	s := served(t, nil)
	var all sync.WaitGroup
	for name, shown := range map[string]string{"Asia/Tokyo": "2 Nov 2026, 09:00:00", "America/New_York": "1 Nov 2026, 19:00:00"} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		for range 4 {
			all.Go(func() {
				for range 20 {
					p, w := s.page(Path)
					p.Session.Zone = zone
					p.render("pack", client.ProofPack{SealedAt: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)})
					if !strings.Contains(w.Body.String(), "Pack of "+shown) {
						t.Errorf("%s: %s", name, w.Body)
					}
				}
			})
		}
	}
	all.Wait()
}

// busy responds like control to a tenant with too many requests in flight.
func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write([]byte(`{"error":"RATE_LIMITED","message":"too many"}`))
}

// TestOverviewsAtOnce: a few people of a tenant open the overview at the same moment, and each gets all of it, although
// fewer requests may be in flight than they make.
func TestOverviewsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := make(chan struct{}, 8)
		var refused atomic.Int64
		s := served(t, func(w http.ResponseWriter, _ string) {
			select {
			case places <- struct{}{}:
			default:
				refused.Add(1)
				busy(w)
				return
			}
			<-time.After(10 * time.Millisecond)
			_, _ = w.Write([]byte(`{"data":{"disputes":[],"statements":[]}}`))
			<-places
		})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				p, w := s.page(Path)
				if err := showOverview(p); err != nil {
					t.Error(err)
				}
				if strings.Contains(w.Body.String(), "shown later") {
					t.Error(w.Body)
				}
			})
		}
		all.Wait()
		require.NotZero(t, refused.Load())
	})
}

// TestBusyOverview: while the tenant has too many requests in flight for longer than a page waits, the page is there, and
// each panel says so with a link. A browser that is gone ends the wait.
func TestBusyOverview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t, func(w http.ResponseWriter, _ string) { busy(w) })
		began := time.Now()
		p, w := s.page(Path + "?wait=yes")
		require.NoError(t, showOverview(p))
		require.Equal(t, readPatience, time.Since(began))
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, 5, strings.Count(w.Body.String(), `shown later. <a href="/console">`), "tasks, plays, reasons, refusals and money")

		p, _ = s.page(Path)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		p.r, began = p.r.WithContext(ctx), time.Now()
		require.ErrorIs(t, showOverview(p), context.DeadlineExceeded)
		require.Equal(t, 1500*time.Millisecond, time.Since(began))
	})
}

// TestEveryPayeeLinkCanBeRevoked: however many links were made after one, pages lead to it, and it can be revoked.
func TestEveryPayeeLinkCanBeRevoked(t *testing.T) {
	s := served(t, func(w http.ResponseWriter, target string) {
		at, err := url.Parse(target)
		if err != nil {
			t.Error(err)
			return
		}
		response := `{"data":{"statement":{"id":"stm_1","state":"ISSUED"},"counterparties":[]}}`
		switch query := at.Query(); {
		case at.Path == "/v1/payee-links" && query.Get("statementId") != "stm_1":
			t.Error(target)
		case at.Path == "/v1/payee-links" && query.Get("cursor") == "older":
			response = `{"data":{"links":[{"id":"pln_old","state":"ACTIVE","expiresAt":"2999-01-01T00:00:00Z"},{"id":"pln_ended","state":"REVOKED"}],"nextCursor":null}}`
		case at.Path == "/v1/payee-links":
			response = `{"data":{"links":[{"id":"pln_new","state":"REVOKED"}],"nextCursor":"older"}}`
		}
		_, _ = w.Write([]byte(response))
	})
	maps.Copy(s.operations(), map[string]operation{
		"get-statement": {method: "GET", path: "/v1/statements/{statementId}"}, "list-payee-links": {method: "GET", path: "/v1/payee-links"}, "revoke-payee-link": {method: "DELETE", path: "/v1/payee-links/{payeeLinkId}"},
	})
	show := func(address string) string {
		p, w := s.page(address)
		p.r.SetPathValue("statementId", "stm_1")
		require.NoError(t, showStatement(p))
		return w.Body.String()
	}
	const path = Path + "/money/statements/stm_1"
	require.Contains(t, show(path), `href="`+path+`?cursor=older">Older links</a>`)
	older := show(path + "?cursor=older")
	require.Contains(t, older, path+"/links/pln_old/revoke")
	require.Contains(t, older, `href="`+path+`">Newest links</a>`)
	require.NotContains(t, older, "Older links")

	p, _ := s.page(path)
	c, err := aboutEnd(p, []string{"stm_1", "pln_old"})
	require.NoError(t, err)
	require.Empty(t, c.Stop)
	c, err = aboutEnd(p, []string{"stm_1", "pln_ended"})
	require.NoError(t, err)
	require.NotEmpty(t, c.Stop)
	_, err = aboutEnd(p, []string{"stm_1", "pln_none"})
	require.Equal(t, api.ResourceNotFound, api.From(err).Code)
}

// TestPayeeLinksSayWhatFollowsFromThem: whoever makes a link is told that a payee can compute the rest of a line.
func TestPayeeLinksSayWhatFollowsFromThem(t *testing.T) {
	s := served(t, func(w http.ResponseWriter, _ string) {
		_, _ = w.Write([]byte(`{"data":{"statement":{"id":"stm_1","state":"ISSUED"},"counterparty":{"name":"Song Rights"}}}`))
	})
	maps.Copy(s.operations(), map[string]operation{
		"get-statement": {method: "GET", path: "/v1/statements/{statementId}"}, "get-counterparty": {method: "GET", path: "/v1/counterparties/{counterpartyId}"},
	})
	p, _ := s.page(Path + "/money/statements/stm_1/payees/cp_1/link")
	c, err := aboutPayeeLink(p, []string{"stm_1", "cp_1"})
	require.NoError(t, err)
	require.Contains(t, strings.Join(c.Lines, " "), "with two payees, what the other gets")
}

// TestAddressesFillInLittle: an address that somebody was sent fills in what an act is about, and nothing else, neither
// where events and money go nor what somebody may do.
func TestAddressesFillInLittle(t *testing.T) {
	harmless := []string{"basisId", "parentRightId", "substrate", "rightId", "receiptId", "period"}
	s := served(t, func(w http.ResponseWriter, _ string) {
		_, _ = w.Write([]byte(`{"data":{"rule":{"id":"rul_1","price":"0.005","currency":"EUR","unit":"EVENT","shares":[{"counterpartyId":"cp_1","bps":10000}]},"counterparties":[]}}`))
	})
	maps.Copy(s.operations(), map[string]operation{"get-counterparty": {method: "GET", path: "/v1/counterparties/{counterpartyId}"}, "get-issuer": {method: "GET", path: "/v1/issuer"}})
	filled := 0
	for _, a := range acts() {
		if a.fields == nil {
			continue
		}
		at, _ := s.page(Path)
		plain, err := a.fields(at)
		require.NoError(t, err)
		query := url.Values{}
		for _, f := range plain {
			query.Set(f.Name, "evil")
		}
		p, _ := s.page(Path + a.path + "?" + query.Encode())
		all := s.operations()
		all[a.op] = operation{}
		f, err := (&act{path: a.path, op: a.op, fields: a.fields, filled: a.filled}).form(p)
		require.NoError(t, err, a.path)
		for i := range f.Fields {
			if f.Fields[i].Value == "evil" {
				require.Contains(t, harmless, f.Fields[i].Name, a.path)
				filled++
				f.Fields[i].Value = plain[i].Value
			}
		}
		require.Equal(t, plain, f.Fields, a.path)
		require.Empty(t, p.r.PostForm)
	}
	require.Equal(t, 6, filled)

	p, _ := s.page(Path + "/money/rules/new?like=rul_1&shares=cp_evil+100&price=9")
	fields, err := ruleFields(p)
	require.NoError(t, err)
	require.Equal(t, []string{"0.005", "EUR", "EVENT", "cp_1 100\n"}, []string{fields[0].Value, fields[1].Value, fields[2].Value, fields[3].Value})
}

// TestProblemsSayWhenToComeAgain: a page that is refused for now says when to come again, at least as late as the error does.
func TestProblemsSayWhenToComeAgain(t *testing.T) {
	s := served(t, nil)
	for wait, e := range map[int]*api.Error{
		10: {Code: api.RateLimited, Message: "m", RetryAfter: 10 * time.Second}, 60: {Code: api.RateLimited, Message: "m"}, 2: api.Unavailable(api.DatabaseUnavailable, "m", 2*time.Second),
	} {
		p, w := s.page(Path)
		p.fail(e)
		require.Equal(t, e.GetStatus(), w.Code)
		after, err := strconv.Atoi(w.Header().Get("Retry-After"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, after, wait)
	}
}
