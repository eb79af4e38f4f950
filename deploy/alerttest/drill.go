package alerttest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

// Drill is a fault that raises alerts, of which each has a row in the table of runbooks.md.
type Drill struct {
	// How the fault is made, as the rows have it.
	How    string
	Alerts []string
	// Factor is that of Shortened.
	Factor int
	// Besides are pages that may fire as well; one cause is one page.
	Besides []string
}

// Stage is the running service of a drill.
type Stage struct {
	Jobs []Scraped
	// Terminal is where an operator types the commands of an alert's runbook.
	Terminal func(alert string) Terminal
	// Fault makes the fault, and Mend ends it, as the runbooks say.
	Fault, Mend func()
	// Look is called while the alerts fire; nil: there is nothing else to see.
	Look func()
}

// Run makes the fault, waits until a Prometheus with the rules in deploy/ raises the alerts, types the
// commands of their runbooks, mends the fault, and waits until the alerts have ended. It appends a row of
// the table for each alert to the file that MUNIMENT_TEST_DRILLS names.
func (d Drill) Run(t *testing.T, deploy string, s Stage) {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join(deploy, "prometheus", "rules.yml"))
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(deploy, "runbooks.md"))
	require.NoError(t, err)
	shortened := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(shortened, []byte(Shortened(string(rules), d.Factor)), 0o600))
	prom := StartPrometheus(t, shortened, pace, s.Jobs...)
	targets := 0
	for _, job := range s.Jobs {
		targets += len(job.Targets)
	}
	prom.Require(t, d.How, fmt.Sprintf("sum(up) == %d", targets), "", true)
	end := time.Now().Add(most)
	waittest.Until(t, func() bool {
		firing := prom.Firing(t)
		require.True(t, time.Now().Before(end), "%v fire before the fault", firing)
		return len(firing) == 0
	}, "nothing fires before the fault")

	mended := false
	defer func() {
		if !mended {
			s.Mend() // for the drills to come
		}
	}()
	s.Fault()
	faulty := time.Now()
	fired := d.await(t, prom, true)
	for alert, severity := range prom.Firing(t) {
		if severity == "page" && !slices.Contains(d.Alerts, alert) {
			require.Contains(t, d.Besides, alert, "a page of the same cause")
		}
	}
	commands := map[string]int{}
	for _, alert := range d.Alerts {
		commands[alert] = s.Terminal(alert).Type(t, Section(t, string(page), alert), true)
	}
	if s.Look != nil {
		s.Look()
	}
	mended = true
	s.Mend()
	healthy := time.Now()
	ended := d.await(t, prom, false)
	for _, alert := range d.Alerts {
		s.Terminal(alert).Type(t, Section(t, string(page), alert), false)
		d.report(t, alert, fired[alert].Sub(faulty), ended[alert].Sub(healthy), commands[alert])
	}
}

// pace is how often Prometheus scrapes and evaluates: the shortest window that is left of a rule has some
// samples.
const pace = 250 * time.Millisecond

// most is how long an alert may take to fire or to end: several times the longest window that a drill has
// to wait for, so that what goes wrong is named, and the other drills are run.
const most = 3 * time.Minute

// await waits until each alert fires, or none does, and returns when each did.
func (d Drill) await(t *testing.T, prom Prometheus, fires bool) (at map[string]time.Time) {
	t.Helper()
	at = map[string]time.Time{}
	end := time.Now().Add(most)
	waittest.Until(t, func() bool {
		require.True(t, time.Now().Before(end), "%v of %v, to fire: %v", at, d.Alerts, fires)
		firing := prom.Firing(t)
		for _, alert := range d.Alerts {
			if _, seen := at[alert]; !seen && (firing[alert] != "") == fires {
				at[alert] = time.Now()
				t.Logf("%s: %v", alert, map[bool]string{true: "fires", false: "has ended"}[fires])
			} else if !fires && firing[alert] != "" {
				delete(at, alert) // not for good
			}
		}
		return len(at) == len(d.Alerts)
	}, "%v: %v", d.Alerts, fires)
	return at
}

// report appends a row of the table.
func (d Drill) report(t *testing.T, alert string, fired, ended time.Duration, commands int) {
	t.Helper()
	whole := func(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
	row := fmt.Sprintf("| %s | %s | fired after %d s, ended after %d s; %s |\n", Link(alert), d.How, whole(fired), whole(ended), number(commands))
	t.Log(row)
	name := os.Getenv("MUNIMENT_TEST_DRILLS")
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer file.Close()
	_, err = file.WriteString(row)
	require.NoError(t, err)
}

func number(commands int) string {
	switch commands {
	case 0:
		return "no commands"
	case 1:
		return "1 command typed"
	}
	return fmt.Sprintf("%d commands typed", commands)
}

// Link is how the table names an alert.
func Link(alert string) string {
	return fmt.Sprintf("[%s](#%s)", strings.TrimPrefix(alert, "Muniment"), strings.ToLower(alert))
}

// Row is one of the table in runbooks.md.
type Row struct{ Alert, How, Outcome string }

var tableRow = regexp.MustCompile(`(?m)^\| \[(\w+)\]\(#(\w+)\) \| ([^|]+) \| ([^|]+) \|$`)

// Table reads the rows of a page.
func Table(t *testing.T, page string) (rows []Row) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, m := range tableRow.FindAllStringSubmatch(string(text), -1) {
		require.Equal(t, m[2], strings.ToLower("Muniment"+m[1]))
		rows = append(rows, Row{"Muniment" + m[1], m[3], m[4]})
	}
	return rows
}
