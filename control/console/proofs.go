package console

import (
	"encoding/json"
	"net/url"
	"time"

	"muniment.example/gateway/client"
)

func packsList(query url.Values) list[client.ProofPack] {
	return list[client.ProofPack]{
		op: "list-proof-packs", query: query, plural: "packs", columns: []string{"Pack", "Sealed", "Entries", "First entry", "Entries of the log", "Repeats", "Size in bytes", "Signed by"},
		row: func(k client.ProofPack) []cell {
			return []cell{id(k.ID, "/proof"), moment(k.SealedAt), amount(k.Count), amount(k.FirstIndex), amount(k.TreeSize), amount(k.Duplicates), amount(k.Bytes), {Text: short(k.SigningKeyID), value: k.SigningKeyID}}
		},
	}
}

// packsOf is which packs the address asks for: those that were sealed in a month of the page's zone, those that a statement
// rests on, or all. About says which.
func (p *page) packsOf() (query, shown url.Values, about string, err error) {
	shown = p.filters("month", "statementId")
	switch statementID, month := shown.Get("statementId"), shown.Get("month"); {
	case statementID != "":
		shown.Del("month")
		record, document, err := p.readDocument(statementID)
		if err != nil {
			return nil, shown, "", err
		}
		since := record.From
		var said struct{ Since time.Time }
		if len(document) > 0 {
			if err := json.Unmarshal(document, &said); err != nil {
				return nil, shown, "", err
			}
		}
		if !said.Since.IsZero() {
			since = said.Since
		}
		return url.Values{"from": {stamp(since.Add(-clocksApart))}, "upTo": {record.PackID}}, shown, p.zone().titled(record), nil
	case month != "":
		from, to, err := p.zone().monthOf(month)
		if err != nil {
			return nil, shown, "", err
		}
		return url.Values{"from": {stamp(from)}, "to": {stamp(to)}}, shown, p.zone().called(from, to), nil
	}
	return nil, shown, "", nil
}

// clocksApart is how much earlier than a play a pack may be sealed that has it, by clocks that differ.
const clocksApart = time.Hour

// unsealed is what no pack has yet.
type unsealed struct {
	listed
	Month       filter
	About       string            // the month, or the statement, whose packs these are; empty for all
	StatementID string            // of that statement
	Stated      *client.Statement // of the month; nil if there is none
	Checkpoint  string
	Sealed      int64     // entries of the log
	SealedAt    time.Time // of the newest pack; zero without any
	Events      int64     // of the tenant
	Known       bool
}

// Waiting is how many events no pack has yet.
func (u unsealed) Waiting() int64 { return u.Events - u.Sealed }

func showProof(p *page) error {
	p.show("Proof", "Proof")
	u := unsealed{listed: listed{New: p.offer("seal-proof-packs", "Seal now", "/proof/seal"), Path: p.Path}}
	query, shown, about, err := p.packsOf()
	if err == nil {
		u.Table, err = packsList(query).table(p, shown)
	}
	if u.Problem = wrong(err); err != nil && u.Problem == nil {
		return err
	}
	if u.Problem != nil {
		p.answers(u.Problem)
	}
	u.About, u.StatementID, u.Month = about, shown.Get("statementId"), filter{Name: "month", Label: "Sealed in the month", Kind: "month", Value: shown.Get("month")}
	if month := u.Month.Value; month != "" && u.Problem == nil {
		if u.Stated, err = p.statedBy(month); err != nil {
			return err
		}
	}
	if u.Any = len(shown) > 0; u.Any {
		p.render("proof", u)
		return nil
	}
	t := u.Table
	if len(t.Rows) > 0 {
		var note struct{ Checkpoint string }
		if err := p.get(&note, "get-checkpoint", nil); err != nil && !absent(err) && wrong(err) == nil {
			return err
		}
		u.Checkpoint = note.Checkpoint
	}
	if p.can("get-tenant") {
		var snapshot client.TenantSnapshot
		if err := p.get(&snapshot, "get-tenant", nil); err != nil {
			return err
		}
		var last int64
		var newest struct{ Packs []client.ProofPack }
		if err := p.do(call{op: "list-proof-packs", query: url.Values{"limit": {"500"}}, quiet: true}, &newest); err != nil {
			return err
		}
		for _, k := range newest.Packs {
			if last = max(last, k.TreeSize); k.SealedAt.After(u.SealedAt) {
				u.SealedAt = k.SealedAt
			}
		}
		u.Known, u.Events, u.Sealed = len(newest.Packs) < 500, snapshot.Tenant.Counts.Events, last
	}
	p.render("proof", u)
	return nil
}

func sendPacks(p *page) error {
	query, shown, _, err := p.packsOf()
	if err != nil {
		return err
	}
	name := "packs"
	for _, of := range []string{"month", "statementId"} {
		if value := shown.Get(of); value != "" {
			name += "-" + value
		}
	}
	return packsList(query).csv(p, name)
}

func showPack(p *page) error {
	p.show("Proof", "Pack")
	var data client.ProofPackData
	if err := p.get(&data, "get-proof-pack", nil, p.r.PathValue("packId")); err != nil {
		return err
	}
	p.render("pack", data.Summary)
	return nil
}

func sendPack(p *page) error { return p.serve("download-proof-pack", nil, p.r.PathValue("packId")) }

// sendEvents sends the sealed events with their proof.
func sendEvents(p *page) error { return p.serve("export-events", p.filters("after", "upTo")) }

var proofActs = []*act{{
	path: "/proof/seal", op: "seal-proof-packs", section: "Proof", title: "Seal now", submit: "Seal",
	consequences: saying("/proof", "", "What was delivered until now gets into a pack, under a signature. It happens by itself, too, so this is only needed for a proof at once."),
	fields:       fixed(),
	after:        func(p *page, _ []string, _ json.RawMessage) error { p.done(Path+"/proof", "sealed"); return nil },
}}
