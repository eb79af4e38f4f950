package compare

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"muniment.example/bench/measure"
)

// Part is what one step on the way to a receipt takes, alone and with its memory at
// hand.
type Part struct {
	What      string
	Micros    float64
	Allocs    string `json:",omitempty"`
	Benchmark string
}

const rowsPerSecond = "rows/s"

// parts are the benchmarks that are reported. Of several of one name, such as
// those of each substrate, the slowest counts.
var parts = []struct{ what, pkg, name, unit string }{
	{"Ed25519 signature", "gateway", "Sign", "ns/op"},
	{"decode of the body, telemetry included", "gateway/issue", "Decode", "ns/op"},
	{"gate, slowest substrate", "gate", "Evaluate", "ns/op"},
	{"consent-projected telemetry", "gate", "AppendProjection", "ns/op"},
	{"canonical bytes of the receipt", "sealer", "AppendReceipt", "ns/op"},
	{"event, witness and signature together", "sealer", "SealDelivery", "ns/op"},
	{"success envelope", "sealer", "SplitDelivery", "ns/op"},
	{"the whole handler, log left out", "gateway", "Handler", "ns/op"},
	{"log append, 256 writers, CPU", "pipeline/segment", "Append/256", "cpu-ns/op"},
	{"load of a row into SQLite", "pipeline/sqlite", "Load", rowsPerSecond},
}

// ReadParts reads what go test -bench printed.
func ReadParts(file string) ([]Part, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := make([]Part, len(parts))
	for i, p := range parts {
		all[i] = Part{What: p.what, Benchmark: "`" + p.pkg + "` Benchmark" + p.name}
	}
	pkg := ""
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == "pkg:" {
			pkg = strings.TrimPrefix(f[1], "muniment.example/")
		}
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if cut := strings.LastIndexByte(name, '-'); cut > 0 { // GOMAXPROCS
			name = name[:cut]
		}
		for i, p := range parts {
			if p.pkg != pkg || name != p.name && !strings.HasPrefix(name, p.name+"/") {
				continue
			}
			ns, err := strconv.ParseFloat(valueOf(f, p.unit), 64)
			if err != nil {
				return nil, fmt.Errorf("cannot read %q: %w", strings.TrimSpace(line), err)
			}
			if p.unit == rowsPerSecond {
				ns = 1e9 / ns
			}
			if ns > 1000*all[i].Micros {
				all[i].Micros, all[i].Allocs = ns/1000, valueOf(f, "allocs/op")
			}
		}
	}
	for _, p := range all {
		if p.Micros == 0 {
			return nil, errors.New(file + " holds nothing of " + p.Benchmark)
		}
	}
	return all, nil
}

// valueOf is the number before a unit.
func valueOf(fields []string, unit string) string {
	for i := 1; i < len(fields); i++ {
		if fields[i] == unit {
			return fields[i-1]
		}
	}
	return ""
}

func writeParts(b *strings.Builder, all []Part) {
	rows := [][]string{{"part of a receipt, alone on one core", "time", "allocations", "benchmark"}}
	for _, p := range all {
		format := "%.1f µs"
		if p.Micros < 1 {
			format = "%.2f µs"
		}
		rows = append(rows, []string{p.What, fmt.Sprintf(format, p.Micros), p.Allocs, p.Benchmark})
	}
	measure.Table(b, rows)
}
