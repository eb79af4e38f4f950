package system

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
	MetricLoaded = "muniment_loader_position"
	MetricEnd    = "muniment_log_end_offset"
	MetricKeys   = "muniment_gateway_idempotency_entries"
	MetricBytes  = "muniment_gateway_idempotency_bytes"
)

// Gauges reads metrics that have one value each from the admin listener.
func (s *Server) Gauges(ctx context.Context, names ...string) ([]float64, error) {
	found := map[string]float64{}
	err := s.ReadMetrics(ctx, func(name, _ string, value float64) { found[name] = value })
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

// ReadMetrics calls each with what the admin listener shows.
func (s *Server) ReadMetrics(ctx context.Context, each func(name, labels string, value float64)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Admin+"/metrics", nil)
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

// AwaitLoaded returns once everything in the log is in the warehouse.
func (s *Server) AwaitLoaded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, MaxBacklog)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := s.Gauges(ctx, MetricLoaded, MetricEnd)
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

// MaxBacklog is how long a backlog may take to be loaded.
const MaxBacklog = 15 * time.Minute
