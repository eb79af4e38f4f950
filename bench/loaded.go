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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	found := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			found[name] = v
		}
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

// loaded is how far the target's loader has come; 0 for a server without one.
func (t *target) loaded(ctx context.Context) (float64, error) {
	if t.variant == Signed || t.variant == Logged {
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
