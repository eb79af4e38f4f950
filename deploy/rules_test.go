package deploy

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Record, Alert, Expr string
	For                 time.Duration
	Labels              map[string]string
	Annotations         map[string]string
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	require.NoError(t, d.Decode(into), file)
}

// rules reads the rule file, and adds what it records to what is shown.
func rules(t *testing.T, all shown) (list []rule) {
	t.Helper()
	var file ruleFile
	readYAML(t, "prometheus/rules.yml", &file)
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if r.Record != "" {
				all[r.Record] = []string{"job", "instance"}
			}
			list = append(list, r)
		}
	}
	return list
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
