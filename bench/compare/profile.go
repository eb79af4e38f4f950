package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
)

// Usage is the CPU that one kind of work took of a server.
type Usage struct {
	What string
	// Part of the whole, 0 to 1.
	Part float64
	// Micros a receipt, as the measurement of the same connections found.
	Micros float64
	// Less is Micros in the server that it is compared with.
	Less float64
}

// kinds of work, found by the functions on a stack. A stack belongs to the first
// kind that its innermost named function belongs to; frames of the runtime say
// little and are passed over, unless nothing else is there.
var kinds = []struct {
	what  string
	marks []string
}{
	{"Ed25519 signature", []string{"crypto/ed25519", "edwards25519", "crypto/internal/fips140/ed25519", "sha512"}},
	{"SHA-256 (witness, commitment, idempotency, log chain)", []string{"sha256"}},
	{"log append (encode, checksum, write, fdatasync)", []string{"muniment.example/pipeline/segment.", "sealer.AppendRecord", "hash/crc32"}},
	{"Kafka (queue, encoding, requests)", []string{"segmentio/kafka-go", "muniment.example/pipeline/kafka."}},
	{"JSON decode", []string{"jsontext", "jsonwire", "gate.(*Telemetry).Decode", "issue.(*Observation)", "issue.(*row)", "issue.TooDeep", "gateway.readJSON"}},
	{"gate, metering, projected telemetry", []string{"muniment.example/gate."}},
	{"sealing text (receipt, event, private part, answer, ids)", []string{"muniment.example/sealer.", "issue.appendAnswer", "gateway.appendDelivered", "gateway.(*Gateway).appendResults", "issue.(*work).name", "issue.(*work).commit", "api.AppendID", "base64"}},
	{"random bits", []string{"crypto/rand", "drbg", "sysrand"}},
	{"idempotency keys", []string{"issue.(*claim", "issue.(*kept", "issue.(*work).keyHash", "issue.(*work).identify"}},
	{"API key and right", []string{"gateway/auth.", "gateway/snapshot.", "ristretto"}},
	{"metrics", []string{"prometheus", "gateway.(*metrics", "issue.(*metrics"}},
	{"socket reads and writes", []string{"internal/poll.(*FD).Read", "internal/poll.(*FD).Write", "net.(*conn)", "net.(*TCPConn)", "gateway.(*conn)"}},
	{"deadlines and timers", []string{"issue.(*deadline", "SetWriteDeadline", "SetReadDeadline", "setDeadline", "time.(*Timer)", "time.resetTimer"}},
	{"HTTP", []string{"valyala/fasthttp", "bufio."}},
	{"the rest of the handler", []string{"muniment.example/"}},
}

const (
	collecting = "garbage collection"
	scheduling = "scheduling (goroutines, threads, network poller)"
	elsewhere  = "all else"
)

// kindOf says what a stack was doing; its innermost function comes first.
func kindOf(stack []string) string {
	for _, function := range stack {
		if strings.HasPrefix(function, "runtime.gcBgMarkWorker") || strings.HasPrefix(function, "runtime.gcAssist") || strings.HasPrefix(function, "runtime.bgsweep") {
			return collecting
		}
	}
	plain := true // nothing but the runtime so far
	for _, function := range stack {
		for _, k := range kinds {
			if slices.ContainsFunc(k.marks, func(mark string) bool { return strings.Contains(function, mark) }) {
				return k.what
			}
		}
		plain = plain && strings.HasPrefix(function, "runtime") || strings.HasPrefix(function, "internal/runtime")
	}
	if plain {
		return scheduling
	}
	return elsewhere
}

// where profiles a server, and one that does less, and holds one against the other.
func (c *Comparison) where(ctx context.Context, less, t *target, connections int) ([]Usage, error) {
	all, err := c.profile(ctx, t, connections)
	if err != nil {
		return nil, err
	}
	others, err := c.profile(ctx, less, connections)
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		i := slices.IndexFunc(all, func(s Usage) bool { return s.What == o.What })
		if i < 0 {
			i, all = len(all), append(all, Usage{What: o.What})
		}
		all[i].Less = o.Micros
	}
	return all, nil
}

// profile profiles a server under load and sums up by kind of work.
func (c *Comparison) profile(ctx context.Context, t *target, connections int) ([]Usage, error) {
	return c.profileOf(ctx, t, &load.Pressure{Addr: system.HostOf(t.server.API), Senders: t.senders, Connections: connections, Warm: c.Warm}, 1)
}

// profileOf is profile under some load, of which each answer is for so many receipts.
func (c *Comparison) profileOf(ctx context.Context, t *target, p *load.Pressure, receipts int) ([]Usage, error) {
	fmt.Fprintf(c.Out, "profiling (%s) for %v\n", t.variant, c.Profile)
	file := filepath.Join(c.Dir, "cpu.pprof")
	token := bareToken
	if !slices.Contains([]Variant{Signed, Logged, Topical}, t.variant) { // none of those that are Bare
		var err error
		if token, err = t.server.AdminToken(); err != nil {
			return nil, err
		}
	}
	var begin, end measure.Meters
	fetched := make(chan error, 1)
	p.During = c.Profile
	p.Begin = func() (err error) {
		go func() {
			admin := system.Client{API: t.server.Admin, Key: token}
			fetched <- admin.Download(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%.0f", max(1, c.Profile.Seconds())), file)
		}()
		begin, err = t.read()
		return err
	}
	p.End = func() (err error) { end, err = t.read(); return err }
	answered, err := p.Run(ctx, &t.callers)
	if err != nil {
		return nil, err
	}
	if err := <-fetched; err != nil {
		return nil, fmt.Errorf("cannot profile: %w", err)
	}
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit", "us", file).Output()
	if err != nil {
		return nil, fmt.Errorf("cannot read the profile: %w%s", err, system.Stderr(err))
	}
	return usageOf(string(out), newRound(t.variant, p.Connections, answered.Latencies, begin, end).CPUMicros/float64(receipts))
}

// usageOf sums up the output of pprof -traces: stacks, innermost function first,
// between ruled lines; the first line of each begins with its time. perReceipt is
// what the parts add up to.
func usageOf(traces string, perReceipt float64) ([]Usage, error) {
	sums, total := map[string]float64{}, 0.0
	for _, trace := range strings.Split(traces, "-----------+")[1:] {
		lines := slices.DeleteFunc(strings.Split(trace, "\n")[1:], isLabel)
		fields := strings.Fields(strings.Join(lines, "\n"))
		if len(fields) < 2 {
			continue
		}
		micros, err := strconv.ParseFloat(strings.TrimSuffix(fields[0], "us"), 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read the profile: %w", err)
		}
		sums[kindOf(fields[1:])] += micros
		total += micros
	}
	if total == 0 {
		return nil, errors.New("the profile is empty")
	}
	all := make([]Usage, 0, len(sums))
	for what, sum := range sums {
		all = append(all, Usage{What: what, Part: sum / total, Micros: sum / total * perReceipt})
	}
	slices.SortFunc(all, func(a, b Usage) int { return cmp.Compare(b.Part, a.Part) })
	return all, nil
}

// isLabel says that a line of a trace is a label and no function.
func isLabel(line string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	return strings.HasSuffix(name, ":")
}
