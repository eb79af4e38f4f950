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

// moreKeyColumns is how many columns of the list, its last, only a file has.
const moreKeyColumns = 2

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
	l, keys := p.signersList(d), newestSigners(d)
	shown := len(l.columns) - moreKeyColumns
	k.Table = table{Columns: l.columns[:shown], Rows: l.rows(p, keys[:min(len(keys), keysShown)]), File: Path + "/proof/keys.csv"}
	for i, row := range k.Table.Rows {
		k.Table.Rows[i] = row[:shown]
	}
	return &k, nil
}

// newestSigners are the keys of a directory, the newest first.
func newestSigners(d *keydir.Directory) []keydir.Key {
	return slices.SortedStableFunc(slices.Values(d.Keys), func(a, b keydir.Key) int { return b.NotBefore.Compare(a.NotBefore) })
}

// signersList is the list of a directory's keys. The id of a key is the beginning of the SHA-256 of its public half, so it is the
// fingerprint, too.
func (p *page) signersList(d *keydir.Directory) list[keydir.Key] {
	now := p.s.cfg.Now()
	return list[keydir.Key]{
		columns: []string{"Key (its fingerprint)", "Signs", "State", "Since", "Until", "Signed by", "Revoked", "Public key"},
		row: func(k keydir.Key) []cell {
			is, by := state("ACTIVE"), text("the list")
			var until, revoked time.Time
			if k.NotAfter != nil {
				until = *k.NotAfter
			}
			switch {
			case k.RevokedAt != nil:
				revoked, is = *k.RevokedAt, state("REVOKED")
				is.Note = p.zone().minute(revoked)
			case k.NotAfter != nil && !now.Before(until):
				is = state("ENDED")
			case now.Before(k.NotBefore):
				is = state("NOT_BEGUN")
			}
			if k.KeyID == d.SigningKeyID() {
				by = text("the root key")
			}
			return []cell{text(k.KeyID), text(cmp.Or(signs[k.Purpose], words(k.Purpose))), is, minute(k.NotBefore), minute(until), by, moment(revoked), text(k.PublicKey)}
		},
	}
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
	p.signersList(d).sheet(p, "public-keys", newestSigners(d), false)
	return nil
}
