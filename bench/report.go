package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment/sealer"
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

// differences counts receipts that were acknowledged and are missing here or say
// something else, those that stand here more than once, and those that nobody
// was told of.
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

// tally is what the clients were told.
type tally struct {
	acknowledged        receipts
	metered, suppressed int64
	quantityMs          int64
	refusals            map[string]int // by code of violation
	refused             int
	others              map[int]int // unexpected statuses
	retried, replayed   int
}

func tallyAnswers(answers []Answer) (*tally, error) {
	t := &tally{acknowledged: receipts{}, refusals: map[string]int{}, others: map[int]int{}}
	for _, a := range answers {
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
			return nil, fmt.Errorf("cannot read an answer: %w", err)
		}
		switch a.Status {
		case 200:
			if err := t.acknowledged.count(body.Data.Receipt); err != nil {
				return nil, err
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
	}
	return t, nil
}

// report prints the closing table and says whether every equality holds.
func (d *Demo) report(t *tally, logged, packed receipts, m meterTotals, answers []Answer, took time.Duration) bool {
	acknowledged := len(t.acknowledged)
	ok := true
	line := func(what string, n int64, faults ...string) {
		faults = slices.DeleteFunc(faults, func(s string) bool { return s == "" })
		if n != int64(acknowledged) {
			faults = append([]string{"expected " + count(acknowledged)}, faults...)
		}
		mark := "="
		if len(faults) > 0 {
			ok, mark = false, "≠  "+strings.Join(faults, ", ")
		}
		d.say("   %-34s %10s  %s", what, count(n), mark)
	}
	d.say("   %-34s %10s", "deliveries answered", count(len(answers)))
	d.say("   %-34s %10s", "  refused by the gate", count(t.refused))
	for status, n := range t.others {
		ok = false
		d.say("   %-34s %10s  ≠  unexpected", "  answered "+strconv.Itoa(status), count(n))
	}
	d.say("")
	line("receipts acknowledged", int64(acknowledged))
	line("  in the log, each once", int64(len(logged)), faults(logged, t.acknowledged))
	line("  in the warehouse", m.Receipts)
	line("  in the verified packs, each once", int64(len(packed)), faults(packed, t.acknowledged))
	line("  metered + suppressed + duplicates", m.Metered+m.Suppressed+m.Duplicates, told(m, t))
	d.say("   %-34s %10s", "    metered", count(m.Metered))
	d.say("   %-34s %10s", "    suppressed", count(m.Suppressed))
	d.say("   %-34s %10s ms", "    metered time", count(m.QuantityMs))
	d.say("")
	d.say("   refusals by code")
	for _, code := range slices.SortedFunc(maps.Keys(t.refusals), func(a, b string) int { return t.refusals[b] - t.refusals[a] }) {
		d.say("   %-34s %10s", "  "+code, count(t.refusals[code]))
	}
	d.say("")
	d.say("   %-34s %10s", "sent again after the kill", count(t.retried))
	d.say("   %-34s %10s", "  of these already recorded", count(t.replayed))
	d.say("   %-34s %7.1f ms", "latency of a receipt, p50", ms(Quantile(answers, 200, 0.50)))
	d.say("   %-34s %7.1f ms", "latency of a receipt, p99", ms(Quantile(answers, 200, 0.99)))
	d.say("   %-34s %10s", "receipts per second", count(int(float64(acknowledged)/took.Seconds())))
	return ok
}

func faults(r, acknowledged receipts) string {
	missing, altered, doubled, unknown := r.differences(acknowledged)
	if missing+altered+doubled+unknown == 0 {
		return ""
	}
	return fmt.Sprintf("%d missing, %d altered, %d doubled, %d never acknowledged", missing, altered, doubled, unknown)
}

// told compares the server's metering with what the clients were told.
func told(m meterTotals, t *tally) string {
	if m.Metered == t.metered && m.Suppressed == t.suppressed && m.QuantityMs == t.quantityMs {
		return ""
	}
	return fmt.Sprintf("the clients were told %d metered, %d suppressed, %d ms", t.metered, t.suppressed, t.quantityMs)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// count writes a number with thousands separators.
func count[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
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
		fmt.Fprintf(d.Out, "\r     %s%s %s", strings.Repeat("█", full), strings.Repeat("░", width-full), count(n))
		if n == of {
			fmt.Fprintln(d.Out)
		}
		return
	}
	if n%(of/4) == 0 {
		d.note("%s answered", count(n))
	}
}
