package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"muniment.example/control/member"
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

// packs are those that an address asks for.
type packs struct {
	query     url.Values // of the operation
	shown     url.Values // of the address
	About     string     // which they are; empty for all
	Statement *client.Statement
	Through   []string // the statement, and those before it that it corrects; the newest first
}

// packsOf is which packs the address asks for: those that were sealed in a month of the page's zone or between two times, those
// that a statement rests on, or all.
func (p *page) packsOf() (of packs, err error) {
	of.shown = p.filters("month", "from", "to", "statementId")
	switch month := of.shown.Get("month"); {
	case of.shown.Get("statementId") != "":
		of.shown = p.filters("statementId")
		err = of.rest(p, of.shown.Get("statementId"))
	case month != "":
		of.shown = p.filters("month")
		var from, to time.Time
		if from, to, err = p.zone().monthOf(month); err == nil {
			of.query, of.About = url.Values{"from": {stamp(from)}, "to": {stamp(to)}}, p.zone().called(from, to)
		}
	case len(of.shown) > 0:
		of.query = p.filters("from", "to")
		if err = p.times(of.query); err == nil {
			from, _ := p.zone().read(of.shown.Get("from"))
			to, _ := p.zone().read(of.shown.Get("to"))
			of.About = p.zone().called(from, to)
		}
	}
	return of, err
}

// statesBefore bounds how many statements before one are followed.
const statesBefore = 100

// rest finds the packs that a statement rests on.
func (of *packs) rest(p *page, statementID string) error {
	record, document, err := p.readDocument(statementID)
	if err != nil {
		return err
	}
	since, before, err := readRest(document)
	if err != nil {
		return err
	}
	if since.IsZero() {
		since = record.From
	}
	of.Statement, of.About, of.Through = &record, p.zone().titled(record), []string{statementID}
	of.query = url.Values{"from": {stamp(since.Add(-clocksApart))}, "upTo": {record.PackID}}
	for before != "" && len(of.Through) < statesBefore {
		of.Through = append(of.Through, before)
		var data client.StatementDocument
		if err := p.do(call{op: "get-statement", params: []string{before}, quiet: true}, &data); err != nil {
			return err
		}
		if _, before, err = readRest(data.Document); err != nil {
			return err
		}
	}
	return nil
}

// readRest reads of a statement's text from when on it counts receipts, and the statement that it corrects; empty for none.
func readRest(document json.RawMessage) (since time.Time, corrects string, err error) {
	var said struct {
		Since      time.Time
		Correction *struct{ Previous struct{ StatementID string } }
	}
	if len(document) > 0 {
		err = json.Unmarshal(document, &said)
	}
	if said.Correction != nil {
		corrects = said.Correction.Previous.StatementID
	}
	return said.Since, corrects, err
}

// clocksApart is how much earlier than a play a pack may be sealed that has it, by clocks that differ.
const clocksApart = time.Hour

// proofs is what the page of the proof shows.
type proofs struct {
	listed
	packs
	Fields     []filter
	Stated     *client.Statement // of the month; nil if there is none
	Archive    string            // the address of all of them as one file; empty if the session may not download them
	Named      string            // what that is called
	Checkpoint string
	Sealed     int64     // entries of the log
	SealedAt   time.Time // of the newest pack; zero without any
	Events     int64     // of the tenant
	Known      bool
	Keys       *signers
}

// Waiting is how many events no pack has yet.
func (f proofs) Waiting() int64 { return f.Events - f.Sealed }

func showProof(p *page) error {
	p.show("Proof", "Proof")
	f := proofs{listed: listed{New: p.offer("seal-proof-packs", "Seal now", "/proof/seal"), Path: p.Path}}
	var err error
	if f.packs, err = p.packsOf(); err == nil {
		f.Table, err = packsList(f.query).table(p, f.shown)
	}
	if f.Problem = wrong(err); err != nil && f.Problem == nil {
		return err
	}
	if f.Problem != nil {
		p.answers(f.Problem)
	}
	f.Fields = []filter{{Name: "month", Label: "Sealed in the month", Kind: "month"}, {Name: "from", Label: "Or sealed from", Kind: "time"}, {Name: "to", Label: "Sealed before", Kind: "time"}}
	for i := range f.Fields {
		f.Fields[i].Value = f.shown.Get(f.Fields[i].Name)
	}
	if len(f.Table.Rows) > 0 && p.can("download-proof-pack", "get-key-directory") {
		f.Archive, f.Named = addressed(Path+"/proof/packs.zip", f.shown), p.packsNamed(f.shown)
	}
	if month := f.shown.Get("month"); month != "" && f.Problem == nil {
		if f.Stated, err = p.statedBy(month); err != nil {
			return err
		}
	}
	if f.Any = len(f.shown) > 0; f.Any {
		p.render("proof", f)
		return nil
	}
	if err := f.readAll(p); err != nil {
		return err
	}
	p.render("proof", f)
	return nil
}

// readAll reads what the page shows of all packs.
func (f *proofs) readAll(p *page) error {
	if len(f.Table.Rows) > 0 {
		var note struct{ Checkpoint string }
		if err := p.get(&note, "get-checkpoint", nil); err != nil && !absent(err) && wrong(err) == nil {
			return err
		}
		f.Checkpoint = note.Checkpoint
	}
	if p.can("get-key-directory") {
		var err error
		if f.Keys, err = p.readKeys(); err != nil && asProblem(err) == nil {
			return err
		}
	}
	if !p.can("get-tenant") {
		return nil
	}
	var snapshot client.TenantSnapshot
	if err := p.get(&snapshot, "get-tenant", nil); err != nil {
		return err
	}
	var newest struct{ Packs []client.ProofPack }
	if err := p.do(call{op: "list-proof-packs", query: url.Values{"limit": {"500"}}, quiet: true}, &newest); err != nil {
		return err
	}
	for _, k := range newest.Packs {
		if f.Sealed = max(f.Sealed, k.TreeSize); k.SealedAt.After(f.SealedAt) {
			f.SealedAt = k.SealedAt
		}
	}
	f.Known, f.Events = len(newest.Packs) < 500, snapshot.Tenant.Counts.Events
	return nil
}

// Sealing says what seals the next pack, as the service is set.
func (p *page) Sealing() string {
	every, at := p.s.cfg.SealEvery, int64(p.s.cfg.SealAt)
	switch {
	case every > 0 && at > 0:
		return fmt.Sprintf("A pack is sealed by itself as soon as an entry has waited for %s, or %s entries wait.", lasting(every), count(at))
	case every > 0:
		return fmt.Sprintf("A pack is sealed by itself as soon as an entry has waited for %s.", lasting(every))
	case at > 0:
		return fmt.Sprintf("A pack is sealed by itself only when %s entries wait, however long that takes.", count(at))
	}
	return "This service seals nothing by itself: a pack is sealed when somebody seals, or drafts a statement."
}

// lasting is a duration for people.
func lasting(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return counted(int64(d/time.Hour), "hour")
	case d%time.Minute == 0:
		return counted(int64(d/time.Minute), "minute")
	}
	return d.String()
}

// packsNamed is what a file of packs is called, without its extension.
func (p *page) packsNamed(shown url.Values) string {
	name := "packs"
	for _, of := range []string{"month", "statementId"} {
		if value := shown.Get(of); value != "" {
			name += "-" + value
		}
	}
	for _, of := range []string{"from", "to"} {
		if t, why := p.zone().read(shown.Get(of)); why == "" {
			name += "-" + of + "-" + p.zone().named(t)
		}
	}
	return name
}

func sendPacks(p *page) error {
	of, err := p.packsOf()
	if err != nil {
		return err
	}
	return packsList(of.query).csv(p, p.packsNamed(of.shown))
}

// sendPackFiles sends the packs that the address asks for as one file: each as it was sealed, by the entries of the log that it
// has; of a statement its signed files and the pack that was sealed next after its issue; and the newest list of keys.
func sendPackFiles(p *page) error { return packFiles(p, p.s.cfg.Members.Session) }

func packFiles(p *page, still func(*http.Request) (member.Session, error)) error {
	of, err := p.packsOf()
	if err == nil {
		err = p.missing("download-proof-pack", "get-key-directory")
	}
	if err != nil {
		return err
	}
	if p.r.Method == http.MethodHead {
		p.w.Header().Set("Content-Type", "application/zip")
		return nil
	}
	a := &archive{p: p, name: p.packsNamed(of.shown), still: still}
	return a.end(a.packs(of))
}

// packs adds what an auditor needs to judge some packs.
func (a *archive) packs(of packs) error {
	p, last := a.p, int64(-1)
	add := func(list []client.ProofPack) error {
		for _, k := range list {
			if k.FirstIndex <= last {
				continue
			}
			last = k.FirstIndex
			name := fmt.Sprintf("%010d-%010d-%s.ndjson", k.FirstIndex, k.TreeSize-1, k.ID)
			if err := a.add(name, k.SealedAt, k.Bytes, "download-proof-pack", nil, k.ID); err != nil {
				return err
			}
		}
		return nil
	}
	// Each download is an event of its own, which a pack may have before the last is sent.
	query := url.Values{"to": {stamp(p.s.cfg.Now())}}
	maps.Copy(query, of.query)
	for cursor, l := "", packsList(query); ; {
		list, next, err := l.records(p, cursor, "500", true)
		if err == nil {
			err = add(list)
		}
		if err != nil {
			return err
		}
		if cursor = next; next == "" {
			break
		}
	}
	if last < 0 {
		return errNoPacks
	}
	if s := of.Statement; s != nil && !s.IssuedAt.IsZero() {
		// The first may have been cut before its event reached the log.
		after, _, err := packsList(url.Values{"from": {stamp(s.IssuedAt)}}).records(p, "", "2", true)
		if err == nil {
			err = add(after)
		}
		if err != nil {
			return err
		}
		for _, id := range of.Through {
			if err := a.add("statement-"+id+".ndjson", s.IssuedAt, 0, "get-statement", url.Values{"format": {"signed"}}, id); err != nil {
				return err
			}
		}
	}
	return a.add("keys.json", p.s.cfg.Now(), 0, "get-key-directory", nil)
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
	consequences: func(p *page, _ []string) (consequences, error) {
		return consequences{Back: Path + "/proof", Lines: []string{"What was delivered until now gets into a pack, under a signature.", p.Sealing()}}, nil
	},
	fields: fixed(),
	after:  func(p *page, _ []string, _ json.RawMessage) error { p.done(Path+"/proof", "sealed"); return nil },
}}
