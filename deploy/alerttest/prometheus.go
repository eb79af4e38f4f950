package alerttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

// Prometheus is the base URL of one.
type Prometheus string

// Scraped is what a Prometheus scrapes in one job.
type Scraped struct {
	Job     string
	Targets []string // base URLs
}

// StartPrometheus runs the prometheus of the PATH with a file of rules. It scrapes and evaluates at each
// pace, and ends with the test.
func StartPrometheus(t *testing.T, rules string, pace time.Duration, jobs ...Scraped) Prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(rules)
	require.NoError(t, err)
	config := fmt.Sprintf("global: { scrape_interval: %dms, scrape_timeout: %dms, evaluation_interval: %dms }\nrule_files: [%q]\nscrape_configs:\n",
		pace.Milliseconds(), pace.Milliseconds(), pace.Milliseconds(), rules)
	for _, job := range jobs {
		config += fmt.Sprintf("  - job_name: %s\n    static_configs: [{ targets: [", job.Job)
		for _, target := range job.Targets {
			config += fmt.Sprintf("%q, ", strings.TrimPrefix(target, "http://"))
		}
		config += "] }]\n"
	}
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())
	var log bytes.Buffer
	cmd := exec.Command("prometheus", "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", addr)
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return Prometheus("http://" + addr)
}

type series struct {
	Metric map[string]string
	Value  [2]any
}

var inLegend = regexp.MustCompile(`\{\{(\w+)\}\}`)

// Require waits until a query is answered, with data if wanted. The data has the labels of a legend.
func (p Prometheus) Require(t *testing.T, where, expr, legend string, data bool) {
	t.Helper()
	waittest.Until(t, func() bool {
		found, err := p.query(expr)
		if err != nil || data && len(found) == 0 {
			return false
		}
		for _, s := range found {
			for _, label := range inLegend.FindAllStringSubmatch(legend, -1) {
				if s.Metric[label[1]] == "" {
					return false
				}
			}
		}
		return true
	}, "%s: %s %s", where, expr, legend)
}

// Firing is the severities of the alerts that fire now, by their names.
func (p Prometheus) Firing(t *testing.T) (alerts map[string]string) {
	t.Helper()
	alerts = map[string]string{}
	waittest.Until(t, func() bool {
		found, err := p.query(`ALERTS{alertstate="firing"}`)
		for _, s := range found {
			alerts[s.Metric["alertname"]] = s.Metric["severity"]
		}
		return err == nil
	}, "Prometheus answers")
	return alerts
}

func (p Prometheus) query(expr string) ([]series, error) {
	var answer struct {
		Status, Error string
		Data          struct{ Result []series }
	}
	text, err := p.fetch("/api/v1/query", url.Values{"query": {expr}})
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err == nil && answer.Status != "success" {
		err = fmt.Errorf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result, err
}

// Get decodes the data of an answer of its API.
func (p Prometheus) Get(t *testing.T, path string, query url.Values, into any) {
	t.Helper()
	text, err := p.fetch(path, query)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &struct{ Data any }{into}))
}

func (p Prometheus) fetch(path string, query url.Values) ([]byte, error) {
	resp, err := http.Get(string(p) + path + "?" + query.Encode())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
