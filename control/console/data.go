package console

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

// gone says why the bundle of an export is not there any more, from its ExpiresAt on; empty if it is there, or never was.
func (p *page) gone(j client.DSARJob) (why string) {
	d := j.Delivery
	switch {
	case j.State != "READY" || d == nil:
		return ""
	case d.DeletedBecause == "ERASURE":
		return "a person was erased whose data it may have had"
	case d.BundleStoreKey == "" || !d.ExpiresAt.After(p.s.cfg.Now()):
		return "its time was over"
	}
	return ""
}

// jobState is the state of an export: one whose bundle was deleted is ready no more.
func (p *page) jobState(j client.DSARJob) cell {
	shown := state(j.State)
	if j.Failure != nil {
		shown.Note = words(j.Failure.Code)
	}
	if why := p.gone(j); why != "" {
		shown.Text, shown.State, shown.Note = "deleted", "DELETED", p.zone().when(j.Delivery.ExpiresAt)+", because "+why
	}
	return shown
}

func jobsList(p *page) list[client.DSARJob] {
	return list[client.DSARJob]{
		op: "list-dsar-jobs", plural: "jobs", columns: []string{"Export", "Of", "State", "Format", "Rows", "For", "Made"},
		row: func(j client.DSARJob) []cell {
			return []cell{id(j.ID, "/data"), text(words(j.Scope.Kind)), p.jobState(j), text(words(j.Format)), amount(j.Progress.RowsCollected), text(j.RequestedBy), moment(j.CreatedAt)}
		},
	}
}

func showData(p *page) error {
	p.show("Data", "Data")
	return showList(p, jobsList(p), listed{
		Lead: "Exports of what is stored about a person or of your tenant, and erasures of persons.", Empty: "No export was made yet.",
		New: slices.Concat(p.offer("create-dsar-job", "New export", "/data/new"), p.offer("list-erasures", "Erasures", "/erasures")),
	}, filter{Name: "state", Label: "State", Options: []string{"REQUESTED", "COLLECTING", "PACKAGING", "READY", "FAILED"}})
}

func sendJobs(p *page) error {
	l := jobsList(p)
	l.query = p.filters("state")
	return l.csv(p, "exports")
}

// exportPage is an export, with what became of its bundle.
type exportPage struct {
	client.DSARJob
	Shown cell
	Why   string // why its bundle is deleted; empty if it is not
}

func showJob(p *page) error {
	p.show("Data", "Export")
	var data struct{ Job client.DSARJob }
	if err := p.get(&data, "get-dsar-job", nil, p.r.PathValue("jobId")); err != nil {
		return err
	}
	p.render("export", exportPage{data.Job, p.jobState(data.Job), p.gone(data.Job)})
	return nil
}

func erasuresList() list[client.Erasure] {
	return list[client.Erasure]{
		op: "list-erasures", plural: "erasures", columns: []string{"Erasure", "State", "Hash of the person", "Requested by", "Requested", "Completed"},
		row: func(e client.Erasure) []cell {
			return []cell{id(e.ID, "/erasures"), state(e.State), text(short(e.SubjectHash)), actor(e.RequestedBy), moment(e.CreatedAt), moment(e.CompletedAt)}
		},
	}
}

func showErasures(p *page) error {
	p.show("Data", "Erasures")
	return showList(p, erasuresList(), listed{Lead: "What named a person and was deleted. The proof of what was delivered stays sound.", Empty: "Nobody was erased.", New: slices.Concat(p.offer("erase", "Erase a person", "/erasures/new"), p.offer("list-dsar-jobs", "Exports", "/data"))})
}

func sendErasures(p *page) error { return erasuresList().csv(p, "erasures") }

func showErasure(p *page) error {
	p.show("Data", "Erasure")
	var data struct{ Erasure client.Erasure }
	if err := p.get(&data, "get-erasure", nil, p.r.PathValue("erasureId")); err != nil {
		return err
	}
	p.render("erasure", struct {
		client.Erasure
		Found findings
	}{data.Erasure, p.findings(data.Erasure.Counts)})
	return nil
}

// sendCertificate sends the certificate of an erasure as the file that muniment verify judges.
func sendCertificate(p *page) error {
	var data struct{ Erasure client.Erasure }
	if err := p.get(&data, "get-erasure", nil, p.r.PathValue("erasureId")); err != nil {
		return err
	}
	if data.Erasure.Certificate == "" {
		return api.Conflict("the erasure is not completed: it has no certificate yet")
	}
	p.file(data.Erasure.ID+".txt", "text/plain; charset=utf-8", data.Erasure.Certificate)
	return nil
}

// erase is the page on which a person is erased: first it shows what would go, then it asks.
type erase struct {
	Subject string
	Token   string
	Found   findings
	Problem *problem
}

func showErase(p *page) error {
	p.show("Data", "Erase a person")
	if err := p.missing("erase"); err != nil {
		return err
	}
	if err := confirmed(p); err != nil {
		return p.again(err)
	}
	p.render("erase", erase{})
	return nil
}

func doErase(p *page) error {
	p.show("Data", "Erase a person")
	e := erase{Subject: p.value("dataSubjectId"), Token: p.value("token")}
	body := map[string]any{"dataSubjectId": e.Subject}
	if e.Token != "" {
		if err := confirmed(p); err != nil {
			return p.again(err)
		}
		body["confirmationToken"] = e.Token
	}
	var data struct{ Erasure client.Erasure }
	err := p.do(call{op: "erase", body: body}, &data)
	if err == nil {
		p.done(Path+"/erasures/"+url.PathEscape(data.Erasure.ID), "erased")
		return nil
	}
	p.Requests = nil // they name the person, and the token
	problem := asProblem(err)
	if problem == nil || problem.Status == http.StatusForbidden || problem.Status >= 500 {
		return err
	}
	e.Token = ""
	if problem.Status == http.StatusPreconditionFailed && problem.ConfirmationToken != "" {
		e.Token = problem.ConfirmationToken
		if e.Found, err = p.previewed(problem.Preview); err != nil {
			return err
		}
	} else {
		e.Problem = problem
		p.answers(problem)
	}
	p.render("erase", e)
	return nil
}

// finding is how much there is of something about a person.
type finding struct {
	What  string
	Count int64
}

// findings are what an erasure deletes, and what stays all the same.
type findings struct{ Deleted, Stays []finding }

// recordNames are what people call the kinds of records that may name a person.
var recordNames = map[string]string{
	"accessApplication": "Applications for access", "accessRequest": "Requests for access", "counterparty": "Counterparties, with their private details", "developer": "Developers, who hold keys",
	"dsarJob": "Exports that were requested", "dsarNote": "Notes in the history of exports", "heldRow": "Held plays", "issuer": "Who issues papers, with private details", "member": "Members",
	"payable": "Payables, with the private details of parties", "rejectedPlay": "Rejected plays", "webhookDelivery": "Attempts of webhooks, with what receivers answered",
}

// stayNames are what people call what names a person and is no event of a kind.
var stayNames = map[string]string{
	"delivery.recorded": "Plays that name the person by a correlation id, an anchor or a placement",
	"telemetry":         "Plays to others, or to nobody, whose telemetry names the person", "quarantined": "Records that could not be loaded, by a text of theirs",
	"heldRow": "Held plays whose vendor’s id names the person, until they are gone", "rejectedPlay": "Rejected plays whose vendor’s id names the person, until they are gone",
}

// findings says what counts are of, the most first. Kinds of events are said as their catalogue says them.
func (p *page) findings(c client.ErasureCounts) (d findings) {
	d.Deleted = append(d.Deleted, finding{"Private parts of plays and other events", c.PrivateParts})
	if c.SetAside > 0 {
		d.Deleted = append(d.Deleted, finding{"Records that could not be loaded", c.SetAside})
	}
	d.Deleted = append(append(d.Deleted, findingsOf(c.Records, func(kind string) string { return cmp.Or(recordNames[kind], kind) })...), finding{"Bundles of exports", c.Bundles})
	d.Stays = findingsOf(c.Permanent, func(kind string) string {
		said := stayNames[kind]
		if k := p.s.cfg.Kinds.Find(kind); said == "" && k != nil {
			means, _, _ := strings.Cut(k.Means, ". ")
			means, _, _ = strings.Cut(means, ": ")
			said = "Events of the kind “" + strings.TrimSuffix(means, ".") + "” (" + kind + ")"
		}
		return cmp.Or(said, kind)
	})
	if n := len(c.Statements); n > 0 {
		d.Stays = append(d.Stays, finding{"Issued statements with the name of a counterparty, as they are signed", int64(n)})
	}
	return d
}

// findingsOf are counts by kind, the most first.
func findingsOf(counts map[string]int64, called func(kind string) string) (all []finding) {
	for kind, n := range counts {
		all = append(all, finding{called(kind), n})
	}
	slices.SortFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.What, b.What))
	})
	return all
}

// previewed says what an erasure would delete.
func (p *page) previewed(preview any) (d findings, err error) {
	text, err := json.Marshal(preview)
	if err != nil {
		return d, err
	}
	var c client.ErasureCounts
	if err := json.Unmarshal(text, &c); err != nil {
		return d, err
	}
	return p.findings(c), nil
}

func jobIs(all ...string) func(*page, any) (string, bool) {
	return states("export", func(j client.DSARJob) string { return j.State }, all...)
}

// bundled says why an export has no bundle.
func bundled(p *page, j client.DSARJob) string {
	switch why := p.gone(j); {
	case why != "":
		return "Its bundle was deleted on " + p.zone().when(j.Delivery.ExpiresAt) + ", because " + why + ". Make another one."
	case j.State != "READY" || j.Delivery == nil:
		return "The export is " + words(j.State) + ": it has no bundle."
	}
	return ""
}

func aboutJob(lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/data/" + url.PathEscape(params[0]), Lines: lines}
		var data struct{ Job client.DSARJob }
		err := p.get(&data, "get-dsar-job", nil, params[0])
		c.Lead, c.record = "Export of "+words(data.Job.Scope.Kind)+", "+p.jobState(data.Job).Text, data.Job
		return c, err
	}
}

var dataActs = []*act{
	{
		path: "/data/new", op: "create-dsar-job", section: "Data", title: "New export", submit: "Prepare the export", consequences: saying("/data", "", "Nothing is read until you run it.", "An export of the tenant has what you may read: its README says what was left out. For one of all you need to have signed in within the last 10 minutes."),
		fields: fixed(
			field{Name: "kind", Label: "Of", Kind: "select", Options: []string{"DATA_SUBJECT", "TENANT_FULL", "TENANT_SLICE"}, Required: true},
			field{Name: "dataSubjectId", Label: "The person", Hint: "For one person’s data: as deliveries name them."},
			field{Name: "windowStart", Label: "From", Kind: "time", Hint: "For the tenant’s data of a time."}, field{Name: "windowEnd", Label: "To (exclusive)", Kind: "time", Hint: "For the tenant’s data of a time."}, field{Name: "campaignIds", Label: "Only campaigns", Kind: "list", Hint: "For the tenant’s data of a time: separated by blanks."},
			field{Name: "format", Label: "Format", Kind: "select", Options: []string{"JSON", "CSV", "NDJSON", "PARQUET"}, Value: "CSV", Required: true}, field{Name: "requestNotes", Label: "Why", Kind: "area"},
		),
		body: func(_ *page, members map[string]any) (any, error) {
			scope := map[string]any{}
			for _, name := range []string{"kind", "dataSubjectId", "windowStart", "windowEnd", "campaignIds"} {
				if value, given := members[name]; given {
					scope[name] = value
					delete(members, name)
				}
			}
			members["scope"] = scope
			if members["format"] == "CSV" {
				members["bom"] = true
			}
			return members, nil
		},
		after: goTo("/data", "job", "export-made"),
	},
	{path: "/data/{jobId}/run", op: "run-dsar-job", section: "Data", title: "Run the export", submit: "Run", button: "Run…", main: true, on: jobIs("REQUESTED"), consequences: aboutJob("What is stored is read and packed. Its page shows how far it is."), after: goBack("/data", "export-running")},
	{path: "/data/{jobId}/cancel", op: "cancel-dsar-job", section: "Data", title: "Cancel the export", submit: "Cancel it", button: "Cancel…", on: jobIs("REQUESTED"), consequences: aboutJob("It is over before it has begun."), fields: reason(permanent), after: goBack("/data", "export-cancelled")},
	{
		path: "/data/{jobId}/link", op: "get-dsar-bundle", section: "Data", title: "A link to the bundle", submit: "Make the link", button: "Download the bundle, or give a link…", main: true, on: where(bundled), consequences: aboutJob("Anyone who has the link can download the bundle, for 15 minutes and until it was downloaded whole."),
		after: func(p *page, params []string, response json.RawMessage) error {
			var made client.DSARBundleLink
			if err := json.Unmarshal(response, &made); err != nil {
				return err
			}
			return showSecret(p, secret{Title: "The link to the bundle", Lead: "It works until " + p.zone().when(made.ExpiresAt) + ". Give it only to whom the data may be shown. Anyone can verify the file that it leads to, as it is, at /verify.", Secret: made.BundleURL, Download: true, Back: Path + "/data/" + url.PathEscape(params[0])})
		},
	},
}
