package console

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"muniment.example/gate"
	"muniment.example/gateway/client"
)

const (
	// hoursShown is how many hours the overview shows, the current one included.
	hoursShown = 24
	// soon is when an API key that expires needs somebody.
	soon = soonDays * 24 * time.Hour
	// sumPages bounds the pages of sums that the overview adds up.
	sumPages = 10
)

// overview is what the first page shows. A part that the session may not read is nil.
type overview struct {
	Tenant     *client.TenantSnapshot
	Empty      bool // nothing was played in either week
	Hours      []hour
	Chart      chart
	Sum        hour // of all hours
	Reasons    []sum
	Rules      []sum
	Names      []sum
	Partial    bool // there are more sums than were added up
	Month      time.Time
	Money      []client.SettlementTotal
	MoneyLater bool // it takes longer than the page waits
	// Panels that can't be shown while the tenant has too many requests in flight.
	PlaysBusy, RefusedBusy, MoneyBusy, TasksBusy bool
	Tasks                                        []task
	Tasked                                       bool // the session may read what could need somebody
	First                                        []task
	CanMeter                                     bool
	CanMoney                                     bool
	CSV, RefusalsCSV                             string
	From, Till                                   time.Time
}

// sum is how much there is of something.
type sum struct {
	Name   string
	Count  int64
	Share  int // of all, in per cent
	Detail string
}

// task is something that needs a person.
type task struct {
	Text, Href, Do string
	One            string // Text of a single one
	Count          int
	More           bool // there are at least so many
	Bad            bool
}

func showOverview(p *page) error {
	p.show("Overview", "Overview")
	now := p.s.cfg.Now().In(p.zone().Location)
	o := &overview{Month: p.zone().month(now), CanMeter: p.can("get-metering"), CanMoney: p.can("get-settlement")}
	var reads []func() error
	if o.CanMeter {
		o.From = now.Truncate(time.Hour).Add(-(hoursShown - 1) * time.Hour)
		o.Till = o.From.Add(hoursShown * time.Hour)
		o.CSV = addressed(Path+"/metering.csv", url.Values{"from": {stamp(o.From)}, "to": {stamp(o.Till)}, "bucket": {"hour"}})
		o.RefusalsCSV = addressed(Path+"/refusals.csv", url.Values{"from": {stamp(o.Till.AddDate(0, 0, -7))}, "to": {stamp(o.Till)}})
		o.Hours = make([]hour, hoursShown)
		p.note(request{Method: "GET", Target: addressed("/v1/metering", url.Values{"from": {stamp(o.From)}, "to": {stamp(o.Till)}, "bucket": {"hour"}})})
		for i := range o.Hours {
			reads = append(reads, p.panel(&o.PlaysBusy, func() error { return o.readHour(p, i) }))
		}
		reads = append(reads, p.panel(&o.PlaysBusy, func() error { return o.readReasons(p) }), p.panel(&o.RefusedBusy, func() error { return o.readRules(p) }))
	}
	if o.CanMoney {
		reads = append(reads, p.panel(&o.MoneyBusy, func() error { return o.readMoney(p) }))
	}
	if p.can("get-tenant") {
		reads = append(reads, p.panel(&o.PlaysBusy, func() error { return p.get(&o.Tenant, "get-tenant", nil) })) // for the first steps
	}
	tasks := make([]*task, len(taskReaders))
	for i, reader := range taskReaders {
		if p.can(reader.op) {
			o.Tasked = true
			reads = append(reads, p.panel(&o.TasksBusy, func() (err error) {
				tasks[i], err = reader.read(p, now)
				return err
			}))
		}
	}
	if err := calling(p.r.Context(), reads...); err != nil {
		return err
	}
	for _, t := range tasks {
		if t != nil && (t.Count > 0 || t.More) {
			o.Tasks = append(o.Tasks, *t)
		}
	}
	o.finish(p)
	p.render("overview", o)
	return nil
}

// finish adds up what was read.
func (o *overview) finish(p *page) {
	o.Empty = true
	for _, h := range o.Hours {
		o.Sum.Plays += h.Plays
		o.Sum.PlaysBefore += h.PlaysBefore
		o.Sum.Metered += h.Metered
		o.Sum.Suppressed += h.Suppressed
		o.Sum.Duplicates += h.Duplicates
		o.Empty = o.Empty && h.Plays == 0 && h.PlaysBefore == 0
	}
	o.Chart = playsChart(o.Hours)
	if o.CanMeter && o.Empty {
		o.First = firstSteps(p, o.Tenant)
	}
}

// firstSteps are what to do before anything is shown, as far as the session may do it.
func firstSteps(p *page, t *client.TenantSnapshot) []task {
	var steps []task
	if p.can("create-basis") && (t == nil || t.Tenant.Counts.Bases == 0) {
		steps = append(steps, task{Text: "Register the legal basis of your rights", Href: Path + "/bases/new", Do: "New basis"})
	}
	if p.can("issue-right") && (t == nil || t.Tenant.Counts.Rights == 0) {
		steps = append(steps, task{Text: "Issue a right on it: it says what may be delivered where", Href: Path + "/rights/new", Do: "New right"})
	}
	if p.can("create-api-key") {
		steps = append(steps, task{Text: "Make a key for your player", Href: Path + "/keys/new", Do: "New key"})
	}
	return append(steps, task{Text: "Send a delivery: POST /v1/delivery", Href: "/docs#observe-delivery", Do: "How to deliver"})
}

// readHour reads the totals of an hour, and of that of the week before. They are over all rights,
// however many there are.
func (o *overview) readHour(p *page, i int) error {
	start := o.From.Add(time.Duration(i) * time.Hour)
	h := &o.Hours[i]
	h.Start = start
	read := func(from time.Time) (t client.MeteringTotals, err error) {
		var m client.Metering
		err = p.do(call{op: "get-metering", quiet: true, query: url.Values{"from": {stamp(from)}, "to": {stamp(from.Add(time.Hour))}, "limit": {"1"}}}, &m)
		return m.Totals, err
	}
	t, err := read(start)
	if err != nil {
		return err
	}
	h.Plays, h.Impressions, h.Metered, h.Suppressed, h.Duplicates = t.Receipts, t.Impressions, t.Metered, t.Suppressed, t.Duplicates
	if t, err = read(start.Add(-7 * 24 * time.Hour)); err != nil {
		return err
	}
	h.PlaysBefore, h.ImpressionsBefore = t.Receipts, t.Impressions
	return nil
}

// readReasons adds up why plays were metered or not.
func (o *overview) readReasons(p *page) error {
	all := map[string]int64{}
	query := url.Values{"from": {stamp(o.From)}, "to": {stamp(o.Till)}, "limit": {"500"}}
	for i := range sumPages {
		var m client.Metering
		if err := p.do(call{op: "get-metering", query: query, quiet: i > 0}, &m); err != nil {
			return err
		}
		o.Sum.Impressions = m.Totals.Impressions
		for _, row := range m.Rows {
			all[row.Reason] += row.Receipts
		}
		if m.NextCursor == "" {
			break
		}
		query.Set("cursor", m.NextCursor)
		o.Partial = o.Partial || i == sumPages-1
	}
	o.Reasons = sums(all)
	return nil
}

// readRules adds up the gate's refusals, and the names that it did not know.
func (o *overview) readRules(p *page) error {
	rules, names := map[string]int64{}, map[string]int64{}
	query := url.Values{"from": {stamp(o.From)}, "to": {stamp(o.Till)}, "bucket": {"day"}, "limit": {"500"}}
	for i := range sumPages {
		var r client.Refusals
		if err := p.do(call{op: "get-refusals", query: query, quiet: i > 0}, &r); err != nil {
			return err
		}
		for _, row := range r.Rows {
			rules[row.Rule] += row.Refusals
		}
		for _, n := range r.Unrecognised {
			names[n.Name+" → "+n.Meant] += n.Deliveries
		}
		if r.NextCursor == "" {
			break
		}
		query.Set("cursor", r.NextCursor)
	}
	o.Rules, o.Names = sums(rules), sums(names)
	for i := range o.Rules {
		o.Rules[i].Detail = ruleAnchor(o.Rules[i].Name)
	}
	return nil
}

// ruleAnchor is where the gate's page explains a rule.
func ruleAnchor(name string) string {
	for _, r := range gate.NewCatalogue().Refusals {
		if r.Rule == name {
			return r.Code
		}
	}
	return ""
}

// sums are the largest first.
func sums(all map[string]int64) []sum {
	var list []sum
	var total int64
	for name, n := range all {
		list = append(list, sum{Name: name, Count: n})
		total += n
	}
	for i := range list {
		list[i].Share = int(100 * list[i].Count / max(1, total))
	}
	slices.SortFunc(list, func(a, b sum) int {
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// readMoney sums this month's money.
func (o *overview) readMoney(p *page) (err error) {
	var s client.Settlement
	o.MoneyLater, err = p.waited(func(ctx context.Context) error {
		return p.do(call{op: "get-settlement", query: url.Values{"from": {stamp(o.Month)}, "limit": {"1"}}, ctx: ctx}, &s)
	})
	o.Money = s.Totals
	return err
}

// refusalsOf are the gate's refusals by day, rule and right.
func refusalsOf(p *page) list[client.RefusalRow] {
	query := p.filters("from", "to")
	query.Set("bucket", "day")
	query.Set("timeZone", p.zone().String())
	return list[client.RefusalRow]{
		op: "get-refusals", query: query, plural: "rows", columns: []string{"Day", "Rule", "Right", "Refused"},
		row: func(r client.RefusalRow) []cell {
			return []cell{moment(r.Bucket), text(r.Rule), reference(r.RightID), amount(r.Refusals)}
		},
	}
}

func sendRefusals(p *page) error { return refusalsOf(p).csv(p, "refusals") }

func sendMetering(p *page) error {
	query := p.filters("from", "to", "bucket", "timeZone", "rightId", "by")
	query.Set("format", "csv")
	query.Set("bom", "true")
	return p.serve("get-metering", query)
}
