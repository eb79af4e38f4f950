package verify

import (
	"slices"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
)

// class is what a code means for the file that has it.
type class int

const (
	// passed: the check was made, and holds.
	passed class = iota + 1
	// remark: nothing is wrong and nothing is missing for the verdict; it says what the files leave open.
	remark
	// unjudged: the check could not be made, because something is missing.
	unjudged
	// unsound: the check was made, and does not hold. No further file can change that.
	unsound
)

// The verdict on a file, or on all of them, as JSON has it. The worst code decides, and the worst file:
// VerdictUnsound before VerdictUnjudged before VerdictSound.
const (
	// VerdictSound: every check passed.
	VerdictSound = "sound"
	// VerdictUnsound: something is forged, altered, contradicted by another file, or was signed when it must not have been.
	VerdictUnsound = "unsound"
	// VerdictUnjudged: nothing is known to be wrong, and something is missing to say that nothing is.
	VerdictUnjudged = "unjudged"
)

// classification is the class of a code.
type classification struct {
	class class
	// next is what to do about a code of the class unjudged.
	next string
}

// What to do about codes that can't be judged.
const (
	giveDirectory   = "add the service's newest keys.json, which it publishes at /.well-known/muniment/keys.json, to the files; if it does not list the key either, the evidence is not this service's"
	giveAnchor      = "verify it with the root key of the service that made it"
	giveEarlierPack = "give a pack or a proof that was sealed before the revocation"
	givePacks       = "give the packs in between, or a consistency proof from the checkpoint on"
	giveRest        = "give the packs that the statement rests on, and the statement that it corrects"
	giveUnpacked    = "unpack it, and give the files in it, all at once"
)

// classes has each code once.
var classes = map[sealer.Code]classification{
	DirectoryOK: {class: passed}, SignatureOK: {class: passed}, CheckpointOK: {class: passed}, ConsistencyOK: {class: passed},
	InclusionOK: {class: passed}, WitnessOK: {class: passed}, MeteringOK: {class: passed}, SettlementOK: {class: passed},
	StatementOK: {class: passed}, FilesOK: {class: passed},

	AnchorKeys: {class: remark}, KeySandbox: {class: remark}, ReceiptUncovered: {class: remark}, ReceiptUnproven: {class: remark}, DuplicatesUnproven: {class: remark},
	SettlementUnproven: {class: remark}, IssueUnproven: {class: remark}, StatementVoided: {class: remark}, ErasureUnproven: {class: remark},
	ChainGap: {class: remark}, ChainVouched: {class: remark}, DirectoryIgnored: {class: remark}, RightLate: {class: remark}, RightUnproven: {class: remark},

	InputUnreadable:     {unjudged, "check the name of the file, and that it can be read"},
	FormatUnknown:       {unjudged, "give a file as the service returns it, unchanged"},
	FormatRelease:       {unjudged, "run muniment-verify --root RELEASE_KEY " + SignedReleaseSums + " in the folder of the release, with the key of whoever made it"},
	DirectoryForeign:    {unjudged, giveAnchor},
	DirectoryExpired:    {unjudged, "add the service's newest keys.json, which it publishes at /.well-known/muniment/keys.json, to the files"},
	DirectoryRevoked:    {unjudged, "leave it out: the newer directory decides"},
	sealer.KeyUnknown:   {unjudged, giveDirectory},
	sealer.KeyRevoked:   {unjudged, giveEarlierPack},
	EventMissing:        {unjudged, "give the event that the proof is about"},
	InclusionUnproven:   {unjudged, "give the proof, the pack or the export that holds the event"},
	ConsistencyUnproven: {unjudged, givePacks},
	StatementUnproven:   {unjudged, giveRest},

	FormatInvalid: {class: unsound}, sealer.SignatureInvalid: {class: unsound}, sealer.KeyPurpose: {class: unsound}, KeyMismatch: {class: unsound},
	sealer.KeyOutsideWindow: {class: unsound}, DirectoryInvalid: {class: unsound}, sealer.EntryAltered: {class: unsound}, sealer.EntryRepeated: {class: unsound},
	sealer.EntryAfterSeal: {class: unsound}, EntryAfterRevocation: {class: unsound}, sealer.WitnessMismatch: {class: unsound}, sealer.TenantMismatch: {class: unsound},
	CountMismatch: {class: unsound}, RootMismatch: {class: unsound}, CheckpointMismatch: {class: unsound}, InclusionMismatch: {class: unsound},
	ConsistencyMismatch: {class: unsound}, ChainFork: {class: unsound}, Rollback: {class: unsound}, MeteringMismatch: {class: unsound},
	DuplicatesMismatch: {class: unsound}, SettlementMismatch: {class: unsound}, RightStopped: {class: unsound}, APIKeyRevoked: {class: unsound},
	FileMismatch: {class: unsound}, StatementLog: {class: unsound}, StatementReceipts: {class: unsound}, StatementExcluded: {class: unsound},
	StatementOverlap: {class: unsound}, StatementRule: {class: unsound}, StatementAmount: {class: unsound}, StatementShares: {class: unsound},
	StatementTotal: {class: unsound}, StatementCorrected: {class: unsound},
}

// found is the outcome of a check by its code.
func found(code sealer.Code, message string) Verdict {
	c := classes[code]
	return Verdict{Code: code, OK: c.class == passed || c.class == remark, Message: message, Next: c.next}
}

// class is that of the code, but for what was refused on demand.
func (v *Verdict) class() class {
	if c := classes[v.Code].class; v.OK || c == unjudged {
		return c
	}
	return unsound
}

// VerdictOf is the verdict that codes make, none VerdictSound.
func VerdictOf(codes ...sealer.Code) string {
	var verdicts []Verdict
	for _, code := range codes {
		verdicts = append(verdicts, found(code, ""))
	}
	return worst(verdicts)
}

// worst is the verdict that some verdicts make.
func worst(verdicts []Verdict) string {
	verdict := VerdictSound
	for i := range verdicts {
		switch verdicts[i].class() {
		case unsound:
			return VerdictUnsound
		case unjudged:
			verdict = VerdictUnjudged
		}
	}
	return verdict
}

// KeyFault corrects a code that a directory gives about a key at a moment. By its own word the signature
// of a revoked key may be later than the revocation: then nothing can prove it older. And a key may be
// in its window, and only the directory at hand not reach that far.
func KeyFault(d *keydir.Directory, keyID string, at time.Time, code sealer.Code) sealer.Code {
	k := d.Key(keyID)
	revoked := k != nil && k.RevokedAt != nil && !at.Before(*k.RevokedAt)
	switch {
	case code == sealer.KeyRevoked && revoked:
		return sealer.KeyOutsideWindow
	case code == sealer.KeyOutsideWindow && !revoked && !at.Before(k.NotBefore) && (k.NotAfter == nil || at.Before(*k.NotAfter)):
		return DirectoryExpired
	}
	return code
}

// entryFault is KeyFault for an entry.
func entryFault(d *keydir.Directory, f *pack.Finding) sealer.Code {
	if f.Delivery == nil {
		return f.Code
	}
	return KeyFault(d, f.Delivery.KeyID, f.Delivery.Receipt.IssuedAt, f.Code)
}

// vouched are the codes of faults of entries in a file that vouches for them, as it is signed: a pack
// or an export. It took them when their key was revoked; and its directory, which the root has
// delegated to, or a newer one, had to list their key.
func (t *trust) vouched(faults []pack.Fault) []pack.Fault {
	faults = slices.Clone(faults)
	for i := range faults {
		switch f := &faults[i]; {
		case f.Code == sealer.KeyRevoked:
			f.Code = EntryAfterRevocation
		case f.Code == sealer.KeyUnknown && t.root != "":
			f.Code = KeyMismatch
		}
	}
	return faults
}
