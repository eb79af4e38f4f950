package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/statement"
)

// recording is what a pack, an export or a proof holds of a log.
type recording struct {
	tenantID   string
	first, end uint64 // leaves
	plays      int    // without repetitions
	dwellMs    float64
	by         time.Time // when all of it was there
	stated     string    // of the event of a payable alone: what was stated as due
}

// note counts a delivery that repeats none.
func (r *recording) note(d *sealer.RecordedDelivery) {
	r.plays++
	r.dwellMs += d.Receipt.DwellMs
}

// summarise sets the sentences for people, once the verdicts are decided.
func (r *Report) summarise() {
	for i := range r.Files {
		f := &r.Files[i]
		f.Summary = f.sentence()
	}
	switch r.Verdict {
	case VerdictUnsound:
		r.Summary = r.worstFile().failure("This must not be relied on")
	case VerdictUnjudged:
		r.Summary = r.worstFile().failure("This can't be judged yet")
	default:
		r.Summary = r.sentences()
	}
}

// worstFile is the first with the verdict of all.
func (r *Report) worstFile() *FileReport {
	return &r.Files[slices.IndexFunc(r.Files, func(f FileReport) bool { return f.Verdict == r.Verdict })]
}

// failure is what decides about a file, and what to do.
func (f *FileReport) failure(means string) string {
	i := slices.IndexFunc(f.Verdicts, func(v Verdict) bool { return worst([]Verdict{v}) == f.Verdict })
	v := f.Verdicts[i]
	text := fmt.Sprintf("%s: %s, %s (%s).", means, f.File, v.Message, v.Code)
	if v.Next != "" {
		text += fmt.Sprintf(" Next: %s.", v.Next)
	}
	return text
}

// sentences say what sound files prove together: what is in several of them is counted once.
func (r *Report) sentences() string {
	var parts []string
	if s := recorded(r.recordings()); s != "" {
		parts = append(parts, s+r.sandboxed(func(f *FileReport) bool { return f.recording != nil }))
	}
	for i := range r.Files {
		switch f := &r.Files[i]; f.Kind {
		case kindStatement, kindErasure, kindBundle:
			parts = append(parts, f.Summary)
		case kindCheckpoint:
			if f.has(ConsistencyOK) { // the one that was kept elsewhere
				parts = append(parts, f.Summary)
			}
		case kindReceipt:
			if !f.has(InclusionOK) {
				parts = append(parts, f.Summary)
			}
		}
	}
	if len(parts) == 0 {
		for i := range r.Files {
			parts = append(parts, r.Files[i].Summary)
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// sandboxed says that some files are of a sandbox.
func (r *Report) sandboxed(which func(*FileReport) bool) string {
	for i := range r.Files {
		if f := &r.Files[i]; which(f) && f.sandboxed() {
			return ofSandbox
		}
	}
	return ""
}

const ofSandbox = " This is evidence of a sandbox, which anyone can make."

// recordings are those of all files, without those whose leaves are in others.
func (r *Report) recordings() (list []*recording) {
	for i := range r.Files {
		if rec := r.Files[i].recording; rec != nil {
			list = append(list, rec)
		}
	}
	slices.SortStableFunc(list, func(a, b *recording) int {
		return cmp.Or(strings.Compare(a.tenantID, b.tenantID), cmp.Compare(a.first, b.first), cmp.Compare(b.end, a.end))
	})
	var last *recording
	return slices.DeleteFunc(list, func(rec *recording) bool {
		if last != nil && last.tenantID == rec.tenantID && rec.end <= last.end {
			return true
		}
		last = rec
		return false
	})
}

// recorded is the sentence about recordings in the order of their leaves; empty without any.
func recorded(list []*recording) string {
	var all recording
	events, overlap := uint64(0), false
	for i, r := range list {
		all.plays, all.dwellMs, events = all.plays+r.plays, all.dwellMs+r.dwellMs, events+r.end-r.first
		if r.by.After(all.by) {
			all.by = r.by
		}
		overlap = overlap || i > 0 && list[i-1].tenantID == r.tenantID && r.first < list[i-1].end
	}
	before := moment(all.by.Add(time.Second - 1)) // so that it is not earlier
	switch {
	case len(list) == 0:
		return ""
	case overlap: // what is in two files can't be told apart
		return fmt.Sprintf("The events in these files were recorded before %s and were not changed since.", before)
	case all.plays == 0 && events == 1 && list[0].stated != "": // once: it may be void, corrected or paid
		return fmt.Sprintf("The entry that %s was recorded before %s and was not changed since. Later voids, corrections and payments are not in this proof.", list[0].stated, before)
	case all.plays == 0 && events == 1:
		return fmt.Sprintf("This event, which is no play, was recorded before %s and was not changed since.", before)
	case all.plays == 0:
		return fmt.Sprintf("These %s, of which none is a play, were recorded before %s and were not changed since.", count(int(events), "event"), before)
	case all.plays == 1:
		return fmt.Sprintf("This play, %s, was recorded before %s and was not changed since.", duration(all.dwellMs), before)
	}
	return fmt.Sprintf("These %s, %s, were recorded before %s and were not changed since.", count(all.plays, "play"), duration(all.dwellMs), before)
}

// sentence says what a sound file proves, or else what decides about it.
func (f *FileReport) sentence() string {
	switch f.Verdict {
	case VerdictUnsound:
		return f.failure("It must not be relied on")
	case VerdictUnjudged:
		return f.failure("It can't be judged yet")
	}
	text := f.about
	if f.recording != nil {
		text = recorded([]*recording{f.recording})
	}
	if text != "" && f.sandboxed() {
		text += ofSandbox
	}
	return text
}

// payableIssued is what the event of a payable says of it.
type payableIssued struct{ Number, CounterpartyID, Gross, Currency, StatementID, DueOn string }

// statedDue says what a tenant stated as due to whom, by an event; empty for others.
func statedDue(e *sealer.Event) string {
	var p payableIssued
	if e.Type != "payable.issued" || json.Unmarshal(e.Data, &p) != nil || p.Number == "" {
		return ""
	}
	as, amount := "due to", p.Gross
	if credit, found := strings.CutPrefix(amount, "-"); found {
		as, amount = "credited against", credit
	}
	return fmt.Sprintf("%s stated %s %s as %s %s by %s, with the number %s, of the statement %s,", e.TenantID, money(amount), p.Currency, as, p.CounterpartyID, p.DueOn, p.Number, p.StatementID)
}

// aboutReceipt is the sentence about a receipt.
func aboutReceipt(r *sealer.Receipt, included bool) string {
	text := fmt.Sprintf("The receipt for a play of %s was signed by the service on %s.", duration(r.DwellMs), moment(r.IssuedAt))
	if included {
		return text + " It is in the log."
	}
	return text + " Nothing here shows that it is in the log."
}

// aboutStatement is the sentence about a statement that follows from the packs.
func aboutStatement(s *statement.Statement, voided bool) string {
	period := fmt.Sprintf("from %s to %s (%s)", date(s.LocalFrom), date(s.LocalTo), s.TimeZone)
	if s.Correction != nil && s.Correction.VoidReason != nil {
		return fmt.Sprintf("This voids the statement %s, %s: nothing of it is due.", s.Correction.Previous.StatementID, period)
	}
	text := fmt.Sprintf("The statement %s follows from the receipts and the rules: %s %s for %s.", period, money(s.Total), s.Currency, count(len(s.Payees), "payee"))
	if c := s.Correction; c != nil {
		text += fmt.Sprintf(" It corrects %s by %s %s.", c.Previous.StatementID, money(c.Difference), s.Currency)
	}
	if voided {
		text += " It was voided since: nothing of it is due."
	}
	return text
}

// moment writes a time for people, cut to the second.
func moment(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 UTC") }

// date writes the local moment of a statement: its day, and the time unless that is midnight.
func date(local string) string {
	t, err := time.Parse(time.RFC3339Nano, local)
	switch {
	case err != nil:
		return local
	case t.Hour()+t.Minute()+t.Second()+t.Nanosecond() == 0:
		return t.Format("2 January 2006")
	}
	return t.Format("2 January 2006, 15:04:05")
}

// duration writes milliseconds for people: 8.2 s, 7 min 12 s, 1,203 h 5 min.
func duration(ms float64) string {
	switch seconds := int64(math.Round(ms / 1000)); {
	case ms < 59_950:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", ms/1000), ".0") + " s"
	case seconds < 3600:
		return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
	default:
		return fmt.Sprintf("%s h %d min", grouped(seconds/3600), seconds/60%60)
	}
}

// money writes an amount with a comma at each thousand.
func money(amount string) string {
	sign, digits := "", amount
	if strings.HasPrefix(amount, "-") {
		sign, digits = "-", amount[1:]
	}
	whole, rest, fraction := strings.Cut(digits, ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction {
		whole += "." + rest
	}
	return sign + whole
}
