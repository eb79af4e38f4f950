package clickhouse

import (
	"testing"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
)

// filters are what a filter of keys may be like. None may change what is a duplicate.
var filters = map[string]func(*Config){
	"as it is":     func(*Config) {},
	"always maybe": func(c *Config) { c.maybeAlways = true },
	"too small":    func(c *Config) { c.FilterBytes = 1 },
	"too many":     func(c *Config) { c.fillTimeout = 1 },
}

// Whatever happens to loaders and warehouse, and whatever the filter says.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	for name, change := range filters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !full && name != "as it is" {
				t.Skip("TestFiltersDecideNothing is the short form")
			}
			server := stacktest.ClickHouse(t)
			conform.ExactlyOnce(t, func(tb testing.TB) conform.WarehouseEngine {
				cfg := fresh(tb, server)
				change(&cfg)
				open := func() pipeline.Warehouse { return mustOpen(tb, cfg) }
				return conform.WarehouseEngine{Warehouse: open(), Reopen: open, Other: open}
			})
		})
	}
}
