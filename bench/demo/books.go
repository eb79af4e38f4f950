package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/sealer"
)

// receipts are the receipts found in one place: how often each stands there, and
// its text.
type receipts map[string]*found

type found struct {
	times int
	text  string
}

// add counts the receipt of an event; events without one are passed over.
func (r receipts) add(event []byte) error {
	if !strings.Contains(string(event), `"type":"delivery.recorded"`) {
		return nil
	}
	parts, err := sealer.SplitDelivery(event)
	if err != nil {
		return err
	}
	return r.count(parts.Receipt)
}

func (r receipts) count(receipt []byte) error {
	var id struct{ ReceiptID string }
	if err := json.Unmarshal(receipt, &id); err != nil {
		return err
	}
	if r[id.ReceiptID] == nil {
		r[id.ReceiptID] = &found{text: string(receipt)}
	}
	r[id.ReceiptID].times++
	return nil
}

// join adds what stands in another place.
func (r receipts) join(more receipts) {
	for id, f := range more {
		if r[id] == nil {
			r[id] = &found{text: f.text}
		}
		r[id].times += f.times
	}
}

// differences counts receipts that were acknowledged and are missing here or say
// something else, those that stand here more than once, and those that no
// client has.
func (r receipts) differences(acknowledged receipts) (missing, altered, doubled, unknown int) {
	for id, want := range acknowledged {
		switch got := r[id]; {
		case got == nil:
			missing++
		case got.text != want.text:
			altered++
		}
	}
	for id, got := range r {
		if got.times > 1 {
			doubled++
		}
		if acknowledged[id] == nil {
			unknown++
		}
	}
	return missing, altered, doubled, unknown
}

type meterTotals struct {
	Receipts, Metered, Suppressed, Duplicates, QuantityMs int64
}

func (m meterTotals) plus(o meterTotals) meterTotals {
	return meterTotals{
		m.Receipts + o.Receipts, m.Metered + o.Metered, m.Suppressed + o.Suppressed, m.Duplicates + o.Duplicates, m.QuantityMs + o.QuantityMs,
	}
}

// tally is what the clients' answers add up to.
type tally struct {
	acknowledged        receipts
	metered, suppressed int64
	quantityMs          int64
	refusals            map[string]int // by code of violation
	refused             int
	others              map[int]int // unexpected statuses
	retried, replayed   int
	repeated            int // receipts of deliveries that another server had answered with one
}

func newTally() *tally {
	return &tally{acknowledged: receipts{}, refusals: map[string]int{}, others: map[int]int{}}
}

// add counts further answers.
func (t *tally) add(answers []load.Answer) error {
	for _, a := range answers {
		if err := t.addOne(a, false); err != nil {
			return err
		}
		if a.Again == nil {
			continue
		}
		if err := t.addOne(*a.Again, true); err != nil {
			return err
		}
	}
	return nil
}

// addOne counts an answer. Of two to the same delivery the metering counts one.
func (t *tally) addOne(a load.Answer, again bool) error {
	if a.Attempts > 1 {
		t.retried++
	}
	if a.Replayed {
		t.replayed++
	}
	var body struct {
		Data struct {
			Receipt  json.RawMessage
			Metering struct {
				Metered    bool
				QuantityMs int64
			}
		}
		Violations []struct{ Code string }
	}
	if err := json.Unmarshal(a.Body, &body); err != nil {
		return fmt.Errorf("cannot read an answer: %w", err)
	}
	switch a.Status {
	case 200:
		if err := t.acknowledged.count(body.Data.Receipt); err != nil {
			return err
		}
		if again {
			t.repeated++
			return nil
		}
		if body.Data.Metering.Metered {
			t.metered++
		} else {
			t.suppressed++
		}
		t.quantityMs += body.Data.Metering.QuantityMs
	case 412:
		t.refused++
		for _, v := range body.Violations {
			t.refusals[v.Code]++
		}
	default:
		t.others[a.Status]++
	}
	return nil
}

// books are what each keeper of receipts holds when the demo ends.
type books struct {
	clients               *tally
	log, warehouse, packs receipts
	metering              meterTotals
	copies                int // of receipts, in the log besides
	// scaled says that a retry may reach a gateway that does not know of the attempt
	// before: then both receipts stand, and the later one is metered zero.
	scaled  bool
	answers []load.Answer
	took    time.Duration
}

// entry is one line of the closing table. A fault makes the demo fail.
type entry struct {
	what   string
	number string
	sum    bool // it takes part in the equality
	fault  string
}

// balance holds every keeper against what the clients were acknowledged, receipt
// by receipt, and the metering against the sums of their answers.
func (b *books) balance() []entry {
	m := b.metering
	want, unanswered := len(b.clients.acknowledged), 0
	if b.scaled {
		unanswered = int(m.Duplicates) - b.clients.repeated
		want += unanswered
	}
	kept := func(what string, r receipts) entry {
		return entry{what, measure.Count(len(r)), true, faults(r, b.clients.acknowledged, unanswered)}
	}
	metered := entry{"  metered + suppressed + duplicates", measure.Count(m.Metered + m.Suppressed + m.Duplicates), true, unlike(m, b.clients)}
	if sum := m.Metered + m.Suppressed + m.Duplicates; metered.fault == "" && sum != int64(want) {
		metered.fault = "expected " + measure.Count(want)
	}
	lines := []entry{
		{what: "deliveries answered", number: measure.Count(len(b.answers))},
		{what: "  refused by the gate", number: measure.Count(b.clients.refused)},
	}
	for _, status := range slices.Sorted(maps.Keys(b.clients.others)) {
		lines = append(lines, entry{"  answered " + strconv.Itoa(status), measure.Count(b.clients.others[status]), true, "unexpected"})
	}
	lines = append(lines, entry{}, entry{"receipts acknowledged", measure.Count(len(b.clients.acknowledged)), !b.scaled, ""})
	if b.scaled {
		lines = append(lines, entry{"  recorded, killed before the answer", measure.Count(unanswered), false, ""}, entry{"together", measure.Count(want), true, ""})
	}
	return append(lines,
		kept("  in the log, each once", b.log),
		kept("  in the warehouse, each once", b.warehouse),
		kept("  in the verified packs, each once", b.packs),
		metered,
		entry{what: "    metered", number: measure.Count(m.Metered)},
		entry{what: "    suppressed", number: measure.Count(m.Suppressed)},
		entry{what: "    metered time, ms", number: measure.Count(m.QuantityMs)},
	)
}

// report prints the closing table and says whether everything balances.
func (d *Demo) report(b *books) bool {
	balanced := true
	for _, e := range b.balance() {
		mark := ""
		switch {
		case e.fault != "":
			balanced, mark = false, "≠  "+e.fault
		case e.sum:
			mark = "="
		}
		d.row(e.what, e.number, mark)
	}
	t := b.clients
	d.row("", "", "")
	d.row("refusals by code", "", "")
	for _, code := range slices.SortedFunc(maps.Keys(t.refusals), func(a, b string) int {
		return cmp.Or(t.refusals[b]-t.refusals[a], strings.Compare(a, b))
	}) {
		d.row("  "+code, measure.Count(t.refusals[code]), "")
	}
	d.row("", "", "")
	d.row("sent again after the kill", measure.Count(t.retried), "")
	d.row("  of these already recorded", measure.Count(t.replayed), "")
	if b.copies > 0 {
		d.row("copies in the log, which collapse", measure.Count(b.copies), "")
	}
	var latencies []time.Duration
	for _, a := range b.answers {
		if a.Status == 200 {
			latencies = append(latencies, a.Latency)
		}
	}
	slices.Sort(latencies)
	d.row("latency of a receipt, p50 ms", fmt.Sprintf("%.1f", measure.Quantile(latencies, 0.50)), "")
	d.row("latency of a receipt, p99 ms", fmt.Sprintf("%.1f", measure.Quantile(latencies, 0.99)), "")
	d.row("receipts per second", measure.Count(int(float64(len(t.acknowledged))/b.took.Seconds())), "")
	return balanced
}

func (d *Demo) row(what, number, mark string) {
	d.say("%s", strings.TrimRight(fmt.Sprintf("   %-36s %12s  %s", what, number, mark), " "))
}

// faults compares what one place holds with what the clients hold; beside that it must
// hold just as many receipts as the clients got no answer for.
func faults(r, acknowledged receipts, unanswered int) string {
	missing, altered, doubled, unknown := r.differences(acknowledged)
	if missing+altered+doubled == 0 && unknown == unanswered {
		return ""
	}
	return fmt.Sprintf("%d missing, %d altered, %d doubled, %d never acknowledged", missing, altered, doubled, unknown)
}

// unlike compares the server's metering with the sums of the clients' answers.
func unlike(m meterTotals, t *tally) string {
	if m.Metered == t.metered && m.Suppressed == t.suppressed && m.QuantityMs == t.quantityMs {
		return ""
	}
	return fmt.Sprintf("the answers add up to %s metered, %s suppressed, %s ms", measure.Count(t.metered), measure.Count(t.suppressed), measure.Count(t.quantityMs))
}

func (d *Demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

func (d *Demo) note(format string, args ...any) {
	if d.Live {
		fmt.Fprint(d.Out, "\r\x1b[K")
	}
	fmt.Fprintf(d.Out, "     "+format+"\n", args...)
}

// quote shows what another process said.
func (d *Demo) quote(out []byte) {
	for line := range strings.Lines(strings.TrimRight(string(out), "\n")) {
		d.note("│ %s", strings.TrimRight(line, "\n"))
	}
}

// progress draws a bar on a terminal, and a line for each quarter elsewhere.
func (d *Demo) progress(n, of int) {
	const width = 40
	if d.Live {
		full := n * width / of
		fmt.Fprintf(d.Out, "\r     %s%s %s", strings.Repeat("█", full), strings.Repeat("░", width-full), measure.Count(n))
		if n == of {
			fmt.Fprintln(d.Out)
		}
		return
	}
	if n%(of/4) == 0 {
		d.note("%s answered", measure.Count(n))
	}
}
