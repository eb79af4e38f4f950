package console

import (
	"encoding/json"
	"net/url"

	"muniment.example/gateway/client"
)

func packsList() list[client.ProofPack] {
	return list[client.ProofPack]{
		op: "list-proof-packs", plural: "packs", columns: []string{"Pack", "Sealed", "Entries", "First entry", "Entries of the log", "Repeats", "Size in bytes", "Signed by"},
		row: func(k client.ProofPack) []cell {
			return []cell{id(k.ID, "/proof"), moment(k.SealedAt), amount(k.Count), amount(k.FirstIndex), amount(k.TreeSize), amount(k.Duplicates), amount(k.Bytes), {Text: short(k.SigningKeyID), value: k.SigningKeyID}}
		},
	}
}

// unsealed is what no pack has yet.
type unsealed struct {
	listed
	Checkpoint string
	Sealed     int64 // entries of the log
	Events     int64 // of the tenant
	Known      bool
}

func showProof(p *page) error {
	p.show("Proof", "Proof")
	u := unsealed{listed: listed{New: p.offer("seal-proof-packs", "Seal now", "/proof/seal"), Path: p.Path}}
	t, err := packsList().table(p, nil)
	if err != nil {
		return err
	}
	u.Table = t
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
			last = max(last, k.TreeSize)
		}
		u.Known, u.Events, u.Sealed = len(newest.Packs) < 500, snapshot.Tenant.Counts.Events, last
	}
	p.render("proof", u)
	return nil
}

func sendPacks(p *page) error { return packsList().csv(p, "packs") }

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
