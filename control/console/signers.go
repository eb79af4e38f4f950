package console

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"muniment.example/sealer/keydir"
)

// signers is the list of public keys, as the service publishes it now.
type signers struct {
	Table                     table
	All, Revoked              int
	Root                      string // how the root key begins that it names
	By                        string // the key that signed it
	IssuedAt, DelegatedBefore time.Time
}

// keysShown is how many keys the page of the proof shows; a file has all.
const keysShown = 25

// signs says what keys of a purpose sign.
var signs = map[string]string{
	keydir.PurposeReceipt: "receipts", keydir.PurposePack: "packs, statements", keydir.PurposeDirectory: "this list", keydir.PurposeWebhook: "webhooks",
	keydir.PurposeBeacon: "beacons", keydir.PurposeSandbox: "evidence of the sandbox",
}

// keyColumns are those of the page; a file has moreKeyColumns, too.
var (
	keyColumns     = []string{"Key (its fingerprint)", "Signs", "State", "Since", "Until", "Signed by"}
	moreKeyColumns = []string{"Revoked", "Public key"}
)

// readDirectory reads the list of public keys from its operation.
func (p *page) readDirectory() (*keydir.Directory, error) {
	op := p.s.operations()["get-key-directory"]
	p.note(request{Method: http.MethodGet, Target: op.target(nil, nil)})
	var got response
	if err := p.s.cfg.Serve(&got, p.r.Context(), p.Session.Caller, http.MethodGet, op.target(nil, nil)); err != nil {
		return nil, err
	}
	if got.status >= http.StatusBadRequest {
		return nil, decode(got.status, got.body.Bytes(), nil)
	}
	return keydir.Read(got.body.Bytes())
}

// readKeys reads the list for the page of the proof.
func (p *page) readKeys() (*signers, error) {
	d, err := p.readDirectory()
	if err != nil {
		return nil, err
	}
	k := signers{Root: d.NamedRoot(), By: d.SigningKeyID(), IssuedAt: d.IssuedAt, DelegatedBefore: d.Delegated().NotAfter, All: len(d.Keys)}
	for _, one := range d.Keys {
		if one.RevokedAt != nil {
			k.Revoked++
		}
	}
	k.Table = table{Columns: keyColumns, Rows: p.keyRows(d), File: Path + "/proof/keys.csv"}
	k.Table.Rows = k.Table.Rows[:min(len(k.Table.Rows), keysShown)]
	return &k, nil
}

// keyRows are the keys of a list, the newest first. The id of a key is the beginning of the SHA-256 of its public half, so it is the
// fingerprint, too.
func (p *page) keyRows(d *keydir.Directory) (rows [][]cell) {
	now := p.s.cfg.Now()
	listed := slices.SortedStableFunc(slices.Values(d.Keys), func(a, b keydir.Key) int { return cmp.Compare(b.NotBefore.UnixNano(), a.NotBefore.UnixNano()) })
	at := func(t *time.Time) cell {
		if t == nil {
			return cell{Text: "–", value: " "}
		}
		return minute(*t)
	}
	for _, k := range listed {
		is, by := state("ACTIVE"), text("the list")
		switch {
		case k.RevokedAt != nil:
			is = state("REVOKED")
		case k.NotAfter != nil && !now.Before(*k.NotAfter):
			is = state("ENDED")
		case now.Before(k.NotBefore):
			is = state("NOT_BEGUN")
		}
		if k.KeyID == d.SigningKeyID() {
			by = text("the root key")
		}
		if k.RevokedAt != nil {
			is.Note = p.zone().minute(*k.RevokedAt)
		}
		cells := []cell{text(k.KeyID), text(cmp.Or(signs[k.Purpose], words(k.Purpose))), is, at(&k.NotBefore), at(k.NotAfter), by}
		for i := range cells {
			cells[i] = p.shown(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// sendSigners sends all keys of the list, with their public halves.
func sendSigners(p *page) error {
	if err := p.missing("get-key-directory"); err != nil {
		return err
	}
	d, err := p.readDirectory()
	if err != nil {
		return err
	}
	rows := p.keyRows(d)
	for i, row := range rows {
		k := d.Key(row[0].Text)
		revoked := text("")
		if k.RevokedAt != nil {
			revoked = moment(*k.RevokedAt)
		}
		rows[i] = append(row, revoked, text(k.PublicKey))
	}
	p.sheet("public-keys", slices.Concat(keyColumns, moreKeyColumns), rows)
	return nil
}
