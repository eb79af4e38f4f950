package systemtest

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"

	"muniment.example/bench/system"
)

// Metric is a process's, summed over its labels.
func Metric(p *system.Server, name string) (sum float64, err error) {
	resp, err := http.Get(p.Admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if bare, _, _ := strings.Cut(series, "{"); bare != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, lines.Err()
}

// Sum adds a metric up over the processes that answer.
func Sum(parts []*system.Server, name string) (all float64) {
	for _, p := range parts {
		if v, err := Metric(p, name); err == nil {
			all += v
		}
	}
	return all
}
