// Package alerttest is what tests of the alerts share: the rules, a real Prometheus that has them, and
// the commands of the runbooks. Tests alone use it.
package alerttest

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Rule is one of a file of rules.
type Rule struct {
	Record, Alert, Expr string
	For                 time.Duration
	Labels              map[string]string
	Annotations         map[string]string
}

// Rules reads a file of rules.
func Rules(t *testing.T, file string) (all []Rule) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var groups struct {
		Groups []struct {
			Name  string
			Rules []Rule
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&groups), file)
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

var (
	// window is a range of an expression, or how long one has to hold.
	window = regexp.MustCompile(`(\[|\n +for: )([0-9]+)([smhd])\b`)
	// seconds compares a metric in seconds with a number of them.
	seconds = regexp.MustCompile(`(_seconds\)? [<>] )([0-9]+(?: \* [0-9]+)*)\b`)
)

// Shortened divides every duration of a text of rules by factor: ranges, "for", and the seconds that a
// metric in seconds is compared with. So a fault raises an alert of a quarter of an hour in 15 seconds at
// a factor of 60. Rates, shares and counts stay as they are.
func Shortened(text string, factor int) string {
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	text = window.ReplaceAllStringFunc(text, func(found string) string {
		m := window.FindStringSubmatch(found)
		n, _ := strconv.Atoi(m[2]) // the expression has digits alone
		return m[1] + strconv.FormatInt((time.Duration(n)*unit[m[3]]/time.Duration(factor)).Milliseconds(), 10) + "ms"
	})
	return seconds.ReplaceAllString(text, fmt.Sprintf("${1}($2) / %d", factor))
}

// Section is the text of an alert's runbook on a page.
func Section(t *testing.T, page, alert string) string {
	t.Helper()
	_, text, found := strings.Cut(page, "\n## "+alert+"\n")
	require.True(t, found, alert)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}
