package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

func jobsList() list[client.DSARJob] {
	return list[client.DSARJob]{
		op: "list-dsar-jobs", plural: "jobs", columns: []string{"Export", "Of", "State", "Format", "Rows", "For", "Made"},
		row: func(j client.DSARJob) []cell {
			shown := state(j.State)
			if j.Failure != nil {
				shown.Note = words(j.Failure.Code)
			}
			return []cell{id(j.ID, "/data"), text(words(j.Scope.Kind)), shown, text(j.Format), amount(j.Progress.RowsCollected), text(j.RequestedBy), moment(j.CreatedAt)}
		},
	}
}

func showData(p *page) error {
	p.show("Data", "Data")
	return showList(p, jobsList(), listed{
		Lead: "Exports of what is stored about a person or of your tenant, and erasures of persons.", Empty: "No export was made yet.",
		New: slices.Concat(p.offer("create-dsar-job", "New export", "/data/new"), p.offer("list-erasures", "Erasures", "/erasures")),
	}, filter{Name: "state", Label: "State", Options: []string{"REQUESTED", "COLLECTING", "PACKAGING", "READY", "FAILED"}})
}

func sendJobs(p *page) error {
	l := jobsList()
	l.query = p.filters("state")
	return l.csv(p, "exports")
}

func showJob(p *page) error {
	p.show("Data", "Export")
	var data struct{ Job client.DSARJob }
	if err := p.get(&data, "get-dsar-job", nil, p.r.PathValue("jobId")); err != nil {
		return err
	}
	p.render("export", data.Job)
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
	p.render("erasure", data.Erasure)
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
	Lines   []string
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
		if e.Lines, err = previewed(problem.Preview); err != nil {
			return err
		}
	} else {
		e.Problem = problem
		p.answers(problem)
	}
	p.render("erase", e)
	return nil
}

// previewed says what an erasure would delete.
func previewed(preview any) ([]string, error) {
	text, err := json.Marshal(preview)
	if err != nil {
		return nil, err
	}
	var c client.ErasureCounts
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("Private parts of events that name the person: %d.", c.PrivateParts), fmt.Sprintf("Bundles of exports: %d.", c.Bundles)}
	for _, of := range []struct {
		what  string
		count map[string]int64
	}{{"Records", c.Records}, {"Events that stay, and will still name the person, as events are permanent", c.Permanent}} {
		var parts []string
		for kind, n := range of.count {
			parts = append(parts, fmt.Sprintf("%s %d", kind, n))
		}
		slices.Sort(parts)
		if len(parts) == 0 {
			parts = []string{"none"}
		}
		lines = append(lines, of.what+": "+strings.Join(parts, ", ")+".")
	}
	return lines, nil
}

func jobIs(all ...string) func(*page, any) (string, bool) {
	return states("export", func(j client.DSARJob) string { return j.State }, all...)
}

// bundled says why an export has no bundle.
func bundled(p *page, j client.DSARJob) string {
	if j.State == "READY" && j.Delivery != nil && j.Delivery.ExpiresAt.After(p.s.cfg.Now()) {
		return ""
	}
	return "The export has no bundle: it is not ready, or its bundle was deleted. Make another one."
}

func aboutJob(lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/data/" + url.PathEscape(params[0]), Lines: lines}
		var data struct{ Job client.DSARJob }
		err := p.get(&data, "get-dsar-job", nil, params[0])
		c.Lead, c.record = "Export of "+words(data.Job.Scope.Kind)+", "+words(data.Job.State), data.Job
		return c, err
	}
}

var dataActs = []*act{
	{
		path: "/data/new", op: "create-dsar-job", section: "Data", title: "New export", submit: "Prepare the export", consequences: saying("/data", "", "Nothing is read until you run it.", "An export of the tenant has what you may read: its README says what was left out. For one of all you need to have signed in within the last 10 minutes."),
		fields: fixed(
			field{Name: "kind", Label: "Of", Kind: "select", Options: []string{"DATA_SUBJECT", "TENANT_FULL", "TENANT_SLICE"}, Names: map[string]string{"DATA_SUBJECT": "one person", "TENANT_FULL": "all of your tenant", "TENANT_SLICE": "a time of your tenant, or campaigns"}, Required: true},
			field{Name: "dataSubjectId", Label: "The person", Hint: "Of an export of one person: as deliveries name them."},
			field{Name: "windowStart", Label: "From", Kind: "time", Hint: "Of an export of a time."}, field{Name: "windowEnd", Label: "To (exclusive)", Kind: "time", Hint: "Of an export of a time."}, field{Name: "campaignIds", Label: "Only campaigns", Kind: "list", Hint: "Of an export of a time: separated by blanks."},
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
