package console

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"muniment.example/gateway/client"
)

func disputesList(names works) list[client.DisputeSummary] {
	return list[client.DisputeSummary]{
		op: "list-disputes", plural: "disputes", columns: []string{"Reason", "By", "State", "About", "Opened", "Dispute"},
		row: func(d client.DisputeSummary) []cell {
			about := text(counted(int64(len(d.ReceiptIDs)), "play"))
			if d.RightID != "" {
				about = link("plays on "+cmp.Or(names[d.RightID], short(d.RightID)), d.RightID, "/rights")
			} else if len(d.ReceiptIDs) == 1 {
				about = id(d.ReceiptIDs[0], "/plays")
			}
			shown := state(d.State)
			if d.Outcome != "" {
				shown.Note = words(d.Outcome)
			}
			return []cell{{Text: d.Reason, Href: Path + "/disputes/" + url.PathEscape(d.ID)}, text(d.RaisedByOrgID), shown, about, moment(d.CreatedAt), id(d.ID, "/disputes")}
		},
	}
}

var disputeFilters = []filter{{Name: "state", Label: "State", Options: []string{"OPEN", "INVESTIGATING", "RESPONDED", "RESOLVED"}}, {Name: "rightId", Label: "Right", Of: anyRight, Example: "rgh_…"}, {Name: "receiptId", Label: "Receipt", Example: "rcp_…"}}

func showDisputes(p *page) error {
	p.show("Disputes", "Disputes")
	names, err := p.readWorks()
	if err != nil {
		return err
	}
	return showList(p, disputesList(names), listed{
		Lead: "Plays that somebody says were not as they were recorded. They are held out of settlement until the dispute is resolved.", Empty: "Nobody disputes a play. A dispute is opened here, or from the page of a play.", New: p.offer("open-dispute", "New dispute", "/disputes/new"),
	}, slices.Clone(disputeFilters)...)
}

func sendDisputes(p *page) error {
	l := disputesList(nil)
	l.query = p.filters("state", "rightId", "receiptId")
	return l.csv(p, "disputes")
}

// disputePage is a dispute with its plays.
type disputePage struct {
	Dispute client.PricedDispute
	Works   works
	Plays   table // the first shownPlays of them
	All     int64
	Lost    int64  // receipts that the warehouse lacks
	Within  string // the address of the plays of a right in a window; empty for a dispute about receipts
}

// shownPlays is how many plays of a dispute its page has; the file has all.
const shownPlays = 200

// readDispute reads a dispute; if the session may read plays, with what is known of each.
func readDispute(p *page) (d client.PricedDispute, err error) {
	query := url.Values{}
	if p.can("list-receipts") {
		query.Set("plays", "true")
	}
	var data struct{ Dispute client.PricedDispute }
	err = p.get(&data, "get-dispute", query, p.r.PathValue("disputeId"))
	return data.Dispute, err
}

// disputedPlays are the plays of a dispute, and how they are listed; by their ids alone, if the session may read no more. Those that
// the warehouse lacks come last, with their ids alone.
func (p *page) disputedPlays(d client.PricedDispute, names works) (list[client.DisputedPlay], []client.DisputedPlay) {
	loaded := make(map[string]bool, len(d.Plays))
	for _, of := range d.Plays {
		loaded[of.ReceiptID] = true
	}
	all := slices.Clone(d.Plays)
	for _, receiptID := range d.ReceiptIDs {
		if !loaded[receiptID] {
			all = append(all, client.DisputedPlay{ReceiptID: receiptID})
		}
	}
	if !p.can("list-receipts") {
		return list[client.DisputedPlay]{columns: []string{"Receipt"}, row: func(of client.DisputedPlay) []cell { return []cell{link(of.ReceiptID, of.ReceiptID, "/plays")} }}, all
	}
	return list[client.DisputedPlay]{
		columns: []string{"Played", "Where", "Worth", "Shown for", "Right", "Receipt"}, files: map[string]string{"Shown for": "Shown for (ms)"},
		row: func(of client.DisputedPlay) []cell {
			if !loaded[of.ReceiptID] {
				return []cell{text("not loaded now"), {}, {}, {}, {}, id(of.ReceiptID, "/plays")}
			}
			at := moment(of.RenderedAt)
			at.Href = Path + "/plays/" + url.PathEscape(of.ReceiptID)
			var worth []string
			for _, a := range of.Worth {
				worth = append(worth, money(a.Amount, a.Currency)+" "+a.Currency)
			}
			price := number(strings.Join(worth, ", "))
			switch {
			case len(worth) > 0:
			case !of.Metered:
				price.Text = "not billed"
			case !p.can("list-settlement-rules"):
				price.Text = "needs settlement:read"
			case of.Worth == nil:
				price.Text = "not known now"
			default:
				price.Text = "nothing"
			}
			return []cell{at, text(of.SpatialAnchorID), price, milliseconds(int64(of.DwellMs)), names.cell(of.RightID), id(of.ReceiptID, "/plays")}
		},
	}, all
}

func showDispute(p *page) error {
	p.show("Disputes", "Dispute")
	dispute, err := readDispute(p)
	if err != nil {
		return err
	}
	names, err := p.readWorks()
	if err != nil {
		return err
	}
	l, plays := p.disputedPlays(dispute, names)
	d := disputePage{Dispute: dispute, Works: names, All: int64(len(plays)), Plays: table{Columns: l.columns, Rows: l.rows(p, plays[:min(len(plays), shownPlays)]), File: Path + "/disputes/" + url.PathEscape(dispute.ID) + "/plays.csv"}}
	if p.can("list-receipts") {
		d.Lost = int64(len(dispute.ReceiptIDs) - len(dispute.Plays))
	}
	if w := dispute.Window; w != nil && p.can("list-receipts") {
		d.Within = addressed(Path+"/plays", url.Values{"rightId": {dispute.RightID}, "from": {stamp(w.From)}, "to": {stamp(w.To)}})
	}
	p.render("dispute", d)
	return nil
}

// sendDisputedPlays sends the plays of a dispute about receipts.
func sendDisputedPlays(p *page) error {
	dispute, err := readDispute(p)
	if err != nil {
		return err
	}
	l, plays := p.disputedPlays(dispute, nil)
	l.sheet(p, "plays-of-"+dispute.ID, plays, false)
	return nil
}

func disputeIs(all ...string) func(*page, any) (string, bool) {
	return states("dispute", func(d client.PricedDispute) string { return d.State }, all...)
}

func aboutDispute(lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/disputes/" + url.PathEscape(params[0]), Lines: lines}
		if !p.can("get-dispute") {
			return c, nil
		}
		var data struct{ Dispute client.PricedDispute }
		if err := p.get(&data, "get-dispute", nil, params[0]); err != nil {
			return c, err
		}
		c.Lead = data.Dispute.RaisedByOrgID + ": " + data.Dispute.Reason
		c.record = data.Dispute
		return c, nil
	}
}

// readEvidence makes evidence of a text and lines of references.
func readEvidence(members map[string]any) []map[string]any {
	written, given := members["evidence"]
	references := members["references"]
	delete(members, "evidence")
	delete(members, "references")
	if !given {
		return nil
	}
	one := map[string]any{"text": written}
	if references != nil {
		one["references"] = references
	}
	return []map[string]any{one}
}

var evidenceFields = []field{{Name: "evidence", Label: "Evidence", Kind: "area", Hint: permanent}, {Name: "references", Label: "Where to find more", Kind: "list", Hint: "URLs or names of documents, separated by blanks. " + permanent}}

var disputeActs = []*act{
	{
		path: "/disputes/new", op: "open-dispute", section: "Disputes", title: "New dispute", submit: "Open the dispute", filled: []string{"receiptId"},
		consequences: saying("/disputes", "", "The plays are held out of settlement until it is resolved, and the held amount is shown."),
		fields: fixed(slices.Concat([]field{
			{Name: "receiptId", Label: "Plays, by their receipts", Example: "rcp_…", Hint: "One or several, separated by blanks. Or a right and a window."},
			{Name: "rightId", Label: "Or all plays on the right", Of: anyRight, Example: "rgh_…"}, {Name: "from", Label: "Rendered from", Kind: "time"}, {Name: "to", Label: "Rendered before", Kind: "time"},
			{Name: "raisedByOrgId", Label: "Raised by", Of: organisation, Example: "org_…", Hint: "Your organisation, unless you name another."}, {Name: "reason", Label: "Reason", Kind: "area", Required: true, Hint: permanent},
		}, evidenceFields)...),
		body: func(_ *page, members map[string]any) (any, error) {
			if written, given := members["receiptId"].(string); given {
				members["receiptIds"] = strings.Fields(written)
				delete(members, "receiptId")
			}
			window := map[string]any{}
			for _, name := range []string{"from", "to"} {
				if value, given := members[name]; given {
					window[name] = value
					delete(members, name)
				}
			}
			if len(window) > 0 {
				members["window"] = window
			}
			if evidence := readEvidence(members); evidence != nil {
				members["evidence"] = evidence
			}
			return members, nil
		},
		after: goTo("/disputes", "dispute", "dispute-opened"),
	},
	{path: "/disputes/{disputeId}/investigate", op: "investigate-dispute", section: "Disputes", title: "Investigate the dispute", submit: "Note that we look into it", button: "Investigate…", on: disputeIs("OPEN"), consequences: aboutDispute("The other side sees that somebody looks into it."), after: goBack("/disputes", "dispute-investigated")},
	{
		path: "/disputes/{disputeId}/respond", op: "respond-to-dispute", section: "Disputes", title: "Respond to the dispute", submit: "Respond", button: "Respond…", on: disputeIs("INVESTIGATING"), consequences: aboutDispute("The evidence stands beside that of the other side."),
		fields: fixed(slices.Concat([]field{{Name: "byOrgId", Label: "By", Of: organisation, Example: "org_…", Hint: "Your organisation, unless you name another."}}, evidenceFields)...),
		body: func(_ *page, members map[string]any) (any, error) {
			members["evidence"] = readEvidence(members)
			if members["evidence"].([]map[string]any) == nil {
				return nil, invalid("evidence", "is missing")
			}
			return members, nil
		},
		after: goBack("/disputes", "dispute-responded"),
	},
	{
		path: "/disputes/{disputeId}/resolve", op: "resolve-dispute", section: "Disputes", title: "Resolve the dispute", submit: "Resolve", danger: true, button: "Resolve…", main: true, on: disputeIs("OPEN", "INVESTIGATING", "RESPONDED"),
		consequences: aboutDispute("Upheld: the plays are out of settlement for good.", "Rejected: they are settled like all others.", "It is about all of its plays alike. To agree in part, open a dispute about the plays that you agree to, uphold that one, and reject this one.", "Statements that were issued do not change; a correction can state the difference."),
		fields:       fixed(field{Name: "outcome", Label: "Outcome", Kind: "select", Options: []string{"UPHELD", "REJECTED"}, Required: true}, field{Name: "resolution", Label: "Why", Kind: "area", Hint: permanent}),
		after:        goBack("/disputes", "dispute-resolved"),
	},
}

// heldList lists reported plays that wait.
func heldList(names works) list[client.HeldRow] {
	return list[client.HeldRow]{
		op: "list-held-rows", plural: "held", columns: []string{"Row", "State", "Waits for", "Vendor", "Their id", "Right", "Played", "Given up", "Receipt"},
		row: func(h client.HeldRow) []cell {
			return []cell{text(h.ID), state(h.State), text(words(h.Reason)), text(h.Vendor), text(h.IDType + " " + h.VendorID), names.cell(h.RightID), moment(h.PlayedAt), moment(h.ExpiresAt), id(h.ReceiptID, "/plays")}
		},
	}
}

func showHeld(p *page) error {
	p.show("Plays", "Held plays")
	names, err := p.readWorks()
	if err != nil {
		return err
	}
	return showList(p, heldList(names), listed{
		Lead:  "Plays that were reported and can't be decided yet: their vendor's id has no mapping, or their right is suspended. They are delivered by themselves once that changes.",
		Empty: "No reported play waits.", New: p.offer("list-rejected-plays", "Rejected plays", "/rejected"),
	}, filter{Name: "state", Label: "State", Options: []string{"HELD", "REPLAYED", "EXPIRED"}}, filter{Name: "reason", Label: "Waits for", Options: []string{"UNMAPPED", "RIGHT_SUSPENDED"}}, filter{Name: "vendorId", Label: "Vendor's id"}, filter{Name: "rightId", Label: "Right", Of: anyRight, Example: "rgh_…"})
}

func sendHeld(p *page) error {
	l := heldList(nil)
	l.query = p.filters("state", "reason", "vendorId", "rightId")
	return l.csv(p, "held")
}

func rejectedList() list[client.RejectedPlay] {
	return list[client.RejectedPlay]{
		op: "list-rejected-plays", plural: "rejected", columns: []string{"Play", "Came", "Format", "Code", "Why", "By the key", "As it was sent"},
		row: func(r client.RejectedPlay) []cell {
			sent := r.Row
			if string(sent) == "null" || len(sent) == 0 {
				sent = r.Play
			}
			return []cell{text(r.ID), moment(r.CreatedAt), text(r.Format), state(string(r.Error.Code)), text(r.Error.Message), actor(r.KeyID), text(string(sent))}
		},
	}
}

func showRejected(p *page) error {
	p.show("Plays", "Rejected plays")
	return showList(p, rejectedList(), listed{
		Lead: "Plays that players posted by themselves, and that were rejected for good. Repair what is named, send them again, and dismiss them.", Empty: "No play that a player posted by itself was rejected. What the gate refuses is counted on the overview.",
		New: slices.Concat(p.offer("list-held-rows", "Held plays", "/held"), p.offer("dismiss-rejected-plays", "Dismiss", "/rejected/dismiss")),
	})
}

func sendRejected(p *page) error { return rejectedList().csv(p, "rejected") }

// rejectedFields are the newest rejected plays to choose from, and a field for the ids of others where there are more.
func rejectedFields(p *page) ([]field, error) {
	ids := field{Name: "ids", Label: "Ids of the plays", Kind: "list", Required: true, Hint: "As in the first column, separated by blanks."}
	if !p.can("list-rejected-plays") {
		return []field{ids}, nil
	}
	newest, next, err := rejectedList().records(p, "", pageRows, true)
	if err != nil {
		return nil, err
	}
	if len(newest) == 0 {
		return []field{ids}, nil
	}
	ids.Label, ids.Kind, ids.Hint, ids.Required, ids.Names = "Which plays", "choices", "", false, map[string]string{}
	for _, r := range newest {
		ids.Options = append(ids.Options, r.ID)
		ids.Names[r.ID] = p.zone().when(r.CreatedAt) + ", " + string(r.Error.Code) + ": " + r.Error.Message + " · " + short(r.ID)
	}
	fields := []field{ids}
	if next != "" {
		fields = append(fields, field{Name: "otherIds", Label: "Others, by their ids", Kind: "list", Hint: "These are the newest; the list has all, with their ids in the first column. Blanks between them."})
	}
	return fields, nil
}

var playActs = []*act{{
	path: "/rejected/dismiss", op: "dismiss-rejected-plays", section: "Plays", title: "Dismiss rejected plays", submit: "Dismiss",
	consequences: saying("/rejected", "", "They are deleted here. What was wrong with them is then nowhere any more."),
	fields:       rejectedFields,
	body: func(_ *page, members map[string]any) (any, error) {
		chosen, _ := members["ids"].([]string)
		others, _ := members["otherIds"].([]string)
		if chosen = append(chosen, others...); len(chosen) == 0 {
			return nil, invalid("ids", "are missing: choose at least one")
		}
		return map[string]any{"rejectedIds": chosen}, nil
	},
	after: func(p *page, _ []string, _ json.RawMessage) error { p.done(Path+"/rejected", "dismissed"); return nil },
}}
