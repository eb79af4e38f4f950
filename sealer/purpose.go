package sealer

// Purposes of keys. A key signs for one purpose only, so that a signature made
// for one place is worth nothing in another.
const (
	PurposeReceipt   = "receipt_signing"
	PurposePack      = "proof_pack_signing"
	PurposeDirectory = "directory_signing"
	PurposeWebhook   = "webhook_signing"
	PurposeBeacon    = "beacon_signing"
	// PurposeSandbox signs receipts and packs of sandbox tenants.
	PurposeSandbox = "sandbox_proof_signing"
)

// Purpose is what keys of a purpose sign.
type Purpose struct {
	Name string
	// Receipts, Packs with their checkpoints, and Directories are what evidence rests on.
	Receipts, Packs, Directories bool
	// Sandbox: of tenants of the sandbox, and of no others. It proves itself only.
	Sandbox bool
}

// purposes is the table. Receipts and packs each have one row of the sandbox, and one of all
// others. A verifier has no use for keys that sign no evidence. A purpose with which control signs
// needs a row in package control/signing as well.
var purposes = [...]Purpose{
	{Name: PurposeReceipt, Receipts: true},
	{Name: PurposePack, Packs: true},
	{Name: PurposeDirectory, Directories: true},
	{Name: PurposeWebhook},
	{Name: PurposeBeacon},
	{Name: PurposeSandbox, Receipts: true, Packs: true, Sandbox: true},
}

// PurposeOf is the row of a purpose, without a name if there is none.
func PurposeOf(name string) Purpose {
	return purposeThat(func(p *Purpose) bool { return p.Name == name })
}

// PackPurpose is that of the keys that sign packs and checkpoints.
func PackPurpose(sandbox bool) string {
	return purposeThat(func(p *Purpose) bool { return p.Packs && p.Sandbox == sandbox }).Name
}

// ReceiptPurpose is that of the keys that sign receipts.
func ReceiptPurpose(sandbox bool) string {
	return purposeThat(func(p *Purpose) bool { return p.Receipts && p.Sandbox == sandbox }).Name
}

func purposeThat(is func(*Purpose) bool) Purpose {
	for i := range purposes {
		if is(&purposes[i]) {
			return purposes[i]
		}
	}
	return Purpose{}
}

// OfSandbox says whether a key signs for the sandbox, as far as d knows.
func (d *Directory) OfSandbox(keyID string) bool {
	k := d.Key(keyID)
	return k != nil && PurposeOf(k.Purpose).Sandbox
}
