package console

import (
	"path"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/assets"
	"muniment.example/control/assets/assetstest"
	"muniment.example/control/playground"
	"muniment.example/gateway/client"
)

func files(t *testing.T) *assets.Page {
	t.Helper()
	p, err := assets.Open(embedded, assets.Policy, playground.Verifier)
	require.NoError(t, err)
	return p
}

func TestPolicyHolds(t *testing.T) {
	assetstest.PolicyHolds(t, files(t), Path, "noble-ed25519.js", "noble-ed25519.LICENSE.txt")
}

// TestEveryFileIsReached from the layout, and every file that a page names is there. Files that pages share and these
// do not need are served, too.
func TestEveryFileIsReached(t *testing.T) {
	page := files(t)
	layout, err := views.ReadFile("view/layout.html")
	require.NoError(t, err)
	reached := []string{"noble-ed25519.LICENSE.txt", "dom.js", "charts.js"}
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
		"0.005 EUR a second on everything: 60 % to Song Rights Ltd, 39.5 % to Venue Media, 0.5 % to cp_3":                                                                         {Unit: "SECOND", Price: "0.005", Currency: "EUR"},
		"4 EUR a thousand impressions on dooh, the campaign “w”: 60 % to Song Rights Ltd, 39.5 % to Venue Media, 0.5 % to cp_3; at least 10 EUR a month; at most 500 EUR a month": {Unit: "CPM", Price: "4", Currency: "EUR", Minimum: "10", Cap: "500", Match: client.SettlementMatch{Substrate: "DOOH", Campaign: "w"}},
		"1 EUR a play on everything: 60 % to Song Rights Ltd, 39.5 % to Venue Media, 0.5 % to cp_3; above 1 000 in a month 0.5 EUR":                                               {Unit: "EVENT", Price: "1", Currency: "EUR", Tiers: []client.SettlementTier{{Above: 1000, Price: "0.5"}}, Match: client.SettlementMatch{Substrate: "ANY"}},
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

func TestNumbersForPeople(t *testing.T) {
	require.Equal(t, "0", count(0))
	require.Equal(t, "999", count(999))
	require.Equal(t, "10 000 000", count(10_000_000))
	require.Equal(t, "4.2 s", long(4200))
	require.Equal(t, "7 min 12 s", long(432_000))
	require.Equal(t, "30 h 05 min", long(108_300_000))
	require.Equal(t, "–", when(time.Time{}))
	for n, want := range map[int64]int64{0: 1, 1: 1, 3: 5, 6: 10, 11: 20, 4999: 5000, 5001: 10000} {
		require.Equal(t, want, roundUp(n), n)
	}
}
