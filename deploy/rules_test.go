package deploy

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/deploy/alerttest"
)

// rules reads the rule file, and adds what it records to what is shown.
func rules(t *testing.T, all shown) (list []alerttest.Rule) {
	t.Helper()
	list = alerttest.Rules(t, "prometheus/rules.yml")
	for _, r := range list {
		if r.Record != "" {
			all[r.Record] = []string{"job", "instance"}
		}
	}
	return list
}

// TestRunbooks: each alert names its section of runbooks.md, each section has an alert, and the
// metrics that the operators' pages name are there.
func TestRunbooks(t *testing.T) {
	all := registered(t)
	page, err := os.ReadFile("runbooks.md")
	require.NoError(t, err)
	var alerts, sections []string
	for _, r := range rules(t, all) {
		if r.Alert != "" {
			alerts = append(alerts, r.Alert)
			require.Equal(t, "deploy/runbooks.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"], r.Alert)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## (.*)\n\n\*\*What it means\.\*\* (?s:.+?)\n\n\*\*What to do\.\*\*[ \n]`).FindAllSubmatch(page, -1) {
		sections = append(sections, string(m[1]))
	}
	require.Equal(t, alerts, sections, "the alerts in their order, and the runbook's sections")

	elsewhere := []string{"muniment_proof_unsealed_age_seconds", "muniment_build_info"} // of jobs and of main, which are not run here
	for _, file := range []string{"runbooks.md", "operating.md", "procedures.md", "README.md", "../bench/capacity.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`(muniment[_:][a-z0-9_:]+)").FindAllSubmatch(text, -1) {
			_, here := all[string(m[1])]
			require.True(t, here || slices.Contains(elsewhere, string(m[1])), "%s: there is no metric %s", file, m[1])
		}
	}
}

// TestNumbersWithoutRules: the table for other monitoring has each alert that pages, and by each row's
// metrics one of its alerts goes.
func TestNumbersWithoutRules(t *testing.T) {
	page, err := os.ReadFile("runbooks.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n## Without these rules\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	expressions, recorded := map[string]string{}, []string{}
	for _, r := range alerttest.Rules(t, "prometheus/rules.yml") {
		if r.Record != "" {
			recorded = append(recorded, r.Record, r.Expr)
			continue
		}
		expressions[strings.ToLower(r.Alert)] = strings.NewReplacer(recorded...).Replace(r.Expr)
		if r.Labels["severity"] == "page" {
			require.Contains(t, table, "](#"+strings.ToLower(r.Alert)+")")
		}
	}
	for row := range strings.Lines(table) {
		goesBy := ""
		for _, m := range regexp.MustCompile(`\]\(#(muniment[a-z]+)\)`).FindAllStringSubmatch(row, -1) {
			goesBy += expressions[m[1]]
		}
		for _, m := range regexp.MustCompile("`(muniment_[a-z_]+)`").FindAllStringSubmatch(row, -1) {
			require.Contains(t, goesBy, m[1], row)
		}
	}
}

// TestRules holds what promtool can't know: that the metrics exist. What the
// expressions mean is tested in prometheus/rules_test.yml.
func TestRules(t *testing.T) {
	all := registered(t)
	list := rules(t, all)
	require.NotEmpty(t, list)
	cases, err := os.ReadFile("prometheus/rules_test.yml")
	require.NoError(t, err)
	for _, r := range list {
		all.requireShown(t, r.Record+r.Alert, r.Expr)
		if r.Alert == "" {
			continue
		}
		require.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["action"], r.Alert)
		require.True(t, bytes.Contains(cases, []byte(`alertname="`+r.Alert+`"`)), "no test raises %s", r.Alert)
	}
}
