package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/auth"
	"muniment.example/gateway/client"
)

// sent is what a form sends of its fields as they are.
func sent(fields []field) url.Values {
	values := url.Values{}
	for _, f := range fields {
		switch f.Kind {
		case "choices":
			values[f.Name] = f.Chosen
		case "area", "json", "list":
			values.Set(f.Name, f.Value)
		default: // of one line
			values.Set(f.Name, strings.NewReplacer("\n", "", "\r", "").Replace(f.Value))
		}
	}
	return values
}

// body is that of the request which an act makes of a form.
func (s *Service) body(t *testing.T, a *act, address string, form url.Values) string {
	t.Helper()
	p, _ := s.page(address)
	p.r.PostForm = form
	members, err := a.read(p)
	require.NoError(t, err)
	body, err := a.body(p, members)
	require.NoError(t, err)
	text, err := json.Marshal(body)
	require.NoError(t, err)
	return string(text)
}

func actAt(t *testing.T, path string) *act {
	t.Helper()
	all := acts()
	i := slices.IndexFunc(all, func(a *act) bool { return a.path == path })
	require.GreaterOrEqual(t, i, 0, path)
	return all[i]
}

// fill sets every member of a record to something.
func fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 2, 7, 30, 15, 0, time.UTC).Add(time.Duration(len(path)) * time.Hour)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), path+"a")
		fill(v.Index(1), path+"bb")
	case reflect.Int64:
		v.SetInt(int64(len(path)))
	case reflect.String:
		v.SetString("text of " + path)
	}
}

// TestARuleLikeAnotherIsTheSame: the form that begins as a rule loses nothing of it, whatever a rule has.
func TestARuleLikeAnotherIsTheSame(t *testing.T) {
	var want client.NewSettlementRule
	fill(reflect.ValueOf(&want).Elem(), "")
	want.Price, want.Minimum, want.Cap, want.TiersMode, want.TimeZone = "8.5", "10", "500.25", "VOLUME", "Europe/Berlin"
	for i := range want.Tiers {
		want.Tiers[i].Price = "0.5"
	}
	want.Shares[0].CounterpartyID, want.Shares[1].CounterpartyID = "cp_1", "cp_2"
	rule, err := json.Marshal(want)
	require.NoError(t, err)
	s := served(t, func(w http.ResponseWriter, target string) {
		response := `{"data":{"rule":` + string(rule) + `}}`
		if strings.HasPrefix(target, "/v1/counterparties") {
			response = `{"data":{"counterparties":[{"id":"cp_1","name":"Song Rights Ltd"},{"id":"cp_2","name":"Twice"},{"id":"cp_3","name":"Twice"}]}}`
		}
		_, _ = w.Write([]byte(response))
	})
	a, address := actAt(t, "/money/rules/new"), Path+"/money/rules/new?like=rul_1"
	p, _ := s.page(address)
	p.Session.Zone, err = time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	fields, err := a.fields(p)
	require.NoError(t, err)
	i := slices.IndexFunc(fields, func(f field) bool { return f.Name == "shares" })
	require.Contains(t, fields[i].Value, "Song Rights Ltd 0.", "by a name that is one counterparty's")
	require.Contains(t, fields[i].Value, "cp_2 0.", "by the id where it is not")
	p.r.PostForm = sent(fields)
	members, err := a.read(p)
	require.NoError(t, err)
	body, err := a.body(p, members)
	require.NoError(t, err)
	text, err := json.Marshal(body)
	require.NoError(t, err)
	var got client.NewSettlementRule
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, want, got)

	tried := tryBody(t, s, address, body)
	require.Equal(t, "1970-01-01T00:00:00Z", tried["effectiveFrom"], "it is tried on the whole month, whenever it is to begin")
	require.NotContains(t, tried, "effectiveUntil")
}

// tryBody is the rule that the dry run of a body is of.
func tryBody(t *testing.T, s *Service, address string, body any) map[string]any {
	t.Helper()
	p, _ := s.page(address)
	_, err := tryRule(p, body)
	require.ErrorContains(t, err, "dry-run-settlement-rule", "no such operation is there: the body is ready")
	return body.(map[string]any)
}

// TestACounterOfferBeginsAsTheOffer: what the form sends, unchanged, is the offer that it answers, whatever its scope is.
func TestACounterOfferBeginsAsTheOffer(t *testing.T) {
	for _, scope := range []string{
		`{"regions":["DE","US-NY"],"campaigns":["spring"],"channels":["a,b"],"maxSpeedMph":7.5,"bvlos":false,"labels":{"venue":"central-station","floor":"1=a"},"description":"Berlin","x-contract":"7"}`,
		`{"regions":["US-CONUS","DE"],"campaigns":["two\nlines"],"channels":["a",""],"labels":{"a":"1 "},"description":"two\nlines"}`,
		`{"labels":{"a=b":"1"},"description":" Berlin"}`, `{"labels":{" a":"1"}}`, `{"labels":{"":"1"}}`, `{"labels":{"a":"1\n2"}}`,
	} {
		s := served(t, func(w http.ResponseWriter, _ string) {
			_, _ = w.Write([]byte(`{"data":{"offer":{"id":"ofr_1","termsRef":"t-1","effectiveFrom":"2026-12-01T00:00:00Z","effectiveUntil":"2027-01-01T00:00:01.5Z","expiresAt":"2026-11-30T00:00:00Z","scope":` + scope + `}}}`))
		})
		s.operations()["get-offer"] = operation{method: "GET", path: "/v1/offers/{offerId}"}
		a := actAt(t, "/offers/{offerId}/counter")
		p, _ := s.page(Path + "/offers/ofr_1/counter")
		fields, err := a.fields(p)
		require.NoError(t, err)
		require.JSONEq(t, `{"termsRef":"t-1","effectiveFrom":"2026-12-01T00:00:00.000Z","effectiveUntil":"2027-01-01T00:00:01.500Z","scope":`+scope+`}`, s.body(t, a, p.Path, sent(fields)))
	}
}

// TestAChangeOfAWebhookIsWhatWasChanged: the form begins as the webhook is, and sends what a person has changed in it; what
// the service has changed since stays. A field that is emptied is no field that stays as it is.
func TestAChangeOfAWebhookIsWhatWasChanged(t *testing.T) {
	state := "ACTIVE"
	s := served(t, func(w http.ResponseWriter, _ string) {
		_, _ = w.Write([]byte(`{"data":{"webhook":{"id":"whk_1","url":"https://a.example","description":"Books","state":"` + state + `","events":["*"]}}}`))
	})
	s.operations()["get-webhook"] = operation{method: "GET", path: "/v1/webhooks/{webhookId}"}
	a := actAt(t, "/webhooks/{webhookId}/change")
	p, w := s.page(Path + "/webhooks/whk_1/change")
	fields, err := a.fields(p)
	require.NoError(t, err)
	p.render("form", form{Fields: fields})
	require.Contains(t, w.Body.String(), `<input type="hidden" name="shown" value="{&#34;State&#34;:&#34;ACTIVE&#34;`)
	state = "PAUSED"
	require.JSONEq(t, `{}`, s.body(t, a, p.Path, sent(fields)))
	form := sent(fields)
	form.Set("state", "DISABLED")
	form.Set("description", "")
	require.JSONEq(t, `{"state":"DISABLED","description":""}`, s.body(t, a, p.Path, form))
	for _, name := range []string{"state", "url", "events"} {
		form := sent(fields)
		form.Del(name)
		p.r.PostForm = form
		members, err := a.read(p)
		if err == nil {
			_, err = a.body(p, members)
		}
		require.ErrorContains(t, err, name+": is missing")
	}
}

// TestRegionsAreCodes: a right keeps its scope for good, so the form takes no region that no play can have.
func TestRegionsAreCodes(t *testing.T) {
	for _, text := range []string{"DE", "us-ny", "GB-ENG"} {
		_, err := withScope(nil, map[string]any{"scope.regions": text})
		require.NoError(t, err, text)
	}
	for _, text := range []string{"US-CONUS", "Austria", "UK", "XX", "DE, Austria", "D", "DE-", "DE-TOOLONG"} {
		_, err := withScope(nil, map[string]any{"scope.regions": text})
		require.ErrorContains(t, err, "no code of ISO 3166", text)
		require.ErrorContains(t, err, "go into the last field", text)
	}
	_, err := withScope(nil, map[string]any{"scope": json.RawMessage(`{"regions":["FOOTPRINT 7"]}`)})
	require.NoError(t, err, "a code of one's own is for the last field")
}

// TestMonthsInForms: a month is none of a day, of which a statement would be otherwise.
func TestMonthsInForms(t *testing.T) {
	s := served(t, nil)
	a := &act{fields: fixed(field{Name: "period", Kind: "month"})}
	for text, taken := range map[string]bool{"2026-10": true, "2026-10-01": false, "2026-W40": false, "2026-13": false} {
		p, _ := s.page(Path)
		p.r.PostForm = url.Values{"period": {text}}
		_, err := a.read(p)
		require.Equal(t, taken, err == nil, "%s: %v", text, err)
	}
}

// TestNumbersInForms: a decimal comma is a decimal point, and what is no number is said in words.
func TestNumbersInForms(t *testing.T) {
	for text, want := range map[string]string{"4.28": "4.28", "4,28": "4.28", "-4,28": "-4.28", "7": "7", "0,005": "0.005", "1000,125": "1000.125", "1,0": "1.0"} {
		got, err := decimal("price", text, false)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"1.234,5", "4 EUR", "EUR", "=1", "4.", ".5"} {
		_, err := decimal("price", text, false)
		require.ErrorContains(t, err, "write it as 4.28", text)
	}
	for text, want := range map[string]string{"1,000": "1000, or 1.0", "-12,340": "-12340, or -12.34", "1,125": "1125, or 1.1250"} {
		for _, money := range []bool{false, true} {
			_, err := decimal("amount", text, money)
			require.ErrorContains(t, err, "write "+want, text)
		}
		text = strings.Replace(text, ",", ".", 1)
		_, err := decimal("amount", text, true)
		require.ErrorContains(t, err, "write "+want, text)
		got, err := decimal("price", text, false)
		require.NoError(t, err, "a price may have three digits behind the point")
		require.Equal(t, text, got)
		got, err = decimal("cap", sure(text), true)
		require.NoError(t, err)
		require.True(t, isZero(minus(got, text)), "%s is %s", got, text)
	}
	require.Equal(t, "8.96", plus("4.28", "4.68"))
	require.Equal(t, "-0.19", minus("0", "0.19"))
	require.Equal(t, "0.0", minus("4.2", "4.2"))
	require.True(t, isZero("-0.00"))
	require.False(t, isZero("0.01"))
	require.Equal(t, "176.8", seconds(176_800))
}

// TestARuleIsTriedInItsOwnMonths: tiers, minimum and cap are of months of the rule's zone, so the trial is of the last one there, and says
// of which month an amount is. What the trial refuses is said at its field.
func TestARuleIsTriedInItsOwnMonths(t *testing.T) {
	s := served(t, func(http.ResponseWriter, string) {})
	s.cfg.Now = func() time.Time { return time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC) } // in New York it is October
	s.operations()["dry-run-settlement-rule"] = operation{method: "POST", path: "/v1/settlement/rules/dry-run"}
	s.cfg.Call = func(_ context.Context, _ auth.Principal, _, _ string, body []byte) (int, []byte, error) {
		var asked struct{ Period, TimeZone string }
		if err := json.Unmarshal(body, &asked); err != nil {
			return 0, nil, err
		}
		switch asked {
		case struct{ Period, TimeZone string }{"2026-09", "America/New_York"}:
			return 200, []byte(`{"data":{"total":{"amount":"7","currency":"EUR"},"adjustments":[{"amount":"3","month":"2026-09","reason":"MINIMUM","timeZone":"America/New_York"}]}}`), nil
		case struct{ Period, TimeZone string }{Period: "2026-10"}:
			return 422, []byte(`{"code":"VALIDATION_FAILED","message":"m","validationErrors":[{"field":"rule.tiers[0].price","message":"f"},{"field":"rule.match.campaign","message":"c"}]}`), nil
		}
		return 500, body, nil
	}
	p, _ := s.page(Path)
	made, err := tryRule(p, map[string]any{"timeZone": "America/New_York"})
	require.NoError(t, err)
	require.Equal(t, "If it had been in force in all of September 2026 (America/New_York), it would have paid 7.00 EUR", made.Lead)
	require.Contains(t, made.Lines, "By its minimum of September 2026 (America/New_York): 3.00 EUR.")
	require.Contains(t, made.Lines, "All rules together would have paid the same without it.")
	_, err = tryRule(p, map[string]any{"timeZone": "Mars"})
	require.NotNil(t, wrong(err), "%v is said at its field", err)

	_, err = tryRule(p, map[string]any{})
	e := asProblem(err)
	require.Equal(t, 422, e.Status, "%v", err)
	price, tiers, campaign := field{Name: "price"}, field{Name: "tiers"}, field{Name: "campaign"}
	price.keep(nil, e)
	tiers.keep(nil, e)
	campaign.keep(nil, e)
	require.Equal(t, []string{"", "f", "c"}, []string{price.Fault, tiers.Fault, campaign.Fault})
	require.Empty(t, e.ValidationErrors)
	require.True(t, (&field{Name: "label"}).has("match.label.name"))
}

// TestAChangeOfARuleIsTold, also of what its sentence leaves out.
func TestAChangeOfARuleIsTold(t *testing.T) {
	s := served(t, func(w http.ResponseWriter, _ string) {
		event := func(rest string) string {
			return `{"event":{"type":"settlement_rule.updated","data":{"price":"1","currency":"EUR","unit":"EVENT","timeZone":"UTC","effectiveFrom":"2026-11-01T00:00:00Z"` + rest + `}}}`
		}
		_, _ = w.Write([]byte(`{"data":{"events":[` + event(`,"priority":7,"tiersMode":"VOLUME","effectiveUntil":"2026-12-01T00:00:00Z"`) + `,` + event(`,"priority":7`) + `,` + event("") + `],"nextCursor":"c"}}`))
	})
	s.operations()["list-events"] = operation{method: "GET", path: "/v1/events"}
	p, _ := s.page(Path)
	history, older, err := p.ruleHistory("rul_1", nil)
	require.NoError(t, err)
	require.True(t, older)
	var told []string
	for _, change := range history {
		told = append(told, change.Sentence)
	}
	require.Equal(t, []string{"1.00 EUR a play on everything: ; until the end of 30 Nov 2026; prices for more are for all units of the month", "1.00 EUR a play on everything: ; of priority 7", "1.00 EUR a play on everything: "}, told)
}

// TestFormsTakeWhatPeopleWrite: an address of several lines, as browsers send them, and per cent.
func TestFormsTakeWhatPeopleWrite(t *testing.T) {
	s, _ := recorded(t, nil)
	add := actAt(t, "/money/counterparties/new")
	form := url.Values{"name": {"Kiosk"}, "kind": {"PUBLISHER"}, "currency": {"EUR"}, "address": {"Rosenweg 2\r\n10119 Berlin\r\n"}}
	for written, bps := range map[string]int64{"19": 1900, "19 %": 1900, "7,7%": 770, "0": 0} {
		form.Set("taxBps", written)
		p, _ := s.page(Path + "/money/counterparties/new")
		p.r.PostForm = form
		members, err := add.read(p)
		require.NoError(t, err, written)
		require.Equal(t, bps, members["taxBps"], written)
		require.Equal(t, "Rosenweg 2\n10119 Berlin", members["address"])
	}
	form.Set("taxBps", "19.555")
	p, _ := s.page(Path + "/money/counterparties/new")
	p.r.PostForm = form
	_, err := add.read(p)
	require.ErrorContains(t, err, "per cent")

	shares, err := readShares("Kiosk 60 %\r\nStudio 40%", payees{"cp_1": "Kiosk", "cp_2": "Studio"})
	require.NoError(t, err)
	require.Equal(t, []client.SettlementShare{{CounterpartyID: "cp_1", BPS: 6000}, {CounterpartyID: "cp_2", BPS: 4000}}, shares)
}

// TestATrialSaysWhatItWouldHaveCost: of each currency in which it would have changed something, and by how much.
func TestATrialSaysWhatItWouldHaveCost(t *testing.T) {
	of := func(amount, currency string) client.SettlementTotal {
		return client.SettlementTotal{Amount: amount, Currency: currency}
	}
	lines := costs([]client.SettlementTotal{of("6.821921", "EUR"), of("300", "JPY"), of("2", "KWD")}, []client.SettlementTotal{of("8.191911", "EUR"), of("300", "JPY"), of("1.5", "KWD"), of("7", "CHF")})
	require.Equal(t, []string{
		"All rules together: 7.00 CHF with it, 0.00 CHF without it: 7.00 CHF more.",
		"All rules together: 8.191911 EUR with it, 6.821921 EUR without it: 1.36999 EUR more.",
		"All rules together: 1.500 KWD with it, 2.000 KWD without it: 0.500 KWD less.",
	}, lines[:3])
	require.Len(t, lines, 4, "nothing is said of the yen")
}
