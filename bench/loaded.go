package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The metrics of muniment up that are read here.
const (
	metricLoaded = "muniment_loader_position"
	metricEnd    = "muniment_log_end_offset"
	metricKeys   = "muniment_gateway_idempotency_entries"
	metricBytes  = "muniment_gateway_idempotency_bytes"
)

// gauges reads metrics from a server's admin listener. Only such that have one
// value can be asked for.
func gauges(ctx context.Context, server *Server, names ...string) ([]float64, error) {
	found := map[string]float64{}
	err := readMetrics(ctx, server, func(name, _ string, value float64) { found[name] = value })
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(names))
	for i, name := range names {
		v, ok := found[name]
		if !ok {
			return nil, fmt.Errorf("the server has no metric %s", name)
		}
		values[i] = v
	}
	return values, nil
}

// readMetrics calls each with what the admin listener of a server shows.
func readMetrics(ctx context.Context, server *Server, each func(name, labels string, value float64)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Admin+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, labels, _ := strings.Cut(name, "{")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			each(name, labels, v)
		}
	}
	return lines.Err()
}

// loaded is how far the target's loader has come; 0 for a server without one.
func (t *target) loaded(ctx context.Context) (float64, error) {
	if t.variant != Full && t.variant != Loaded {
		return 0, nil
	}
	v, err := gauges(ctx, t.server, metricLoaded)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// awaitLoaded returns once everything in the log is in the warehouse.
func (t *target) awaitLoaded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxBacklog)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := gauges(ctx, t.server, metricLoaded, metricEnd)
		if err != nil {
			return fmt.Errorf("cannot wait for the loader: %w", err)
		}
		if v[0] >= v[1] {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the loader is still %.0f records behind: %w", v[1]-v[0], ctx.Err())
		}
	}
}
