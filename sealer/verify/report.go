package verify

import (
	"fmt"
	"slices"

	"muniment.example/sealer"
)

// Report is the result of verifying some files.
type Report struct {
	// OK says that every check passed: the verdict is VerdictSound.
	OK bool `json:"ok"`
	// Verdict is the worst of the files'.
	Verdict string `json:"verdict"`
	// Summary is what the files prove together, or what decides, in a sentence or a few for people.
	Summary string       `json:"summary"`
	Files   []FileReport `json:"files"`
	// Message states why no file could be judged.
	Message string `json:"message,omitempty"`
	// Next is what to do about that.
	Next string `json:"next,omitempty"`
}

// FileReport is the result of verifying one file.
type FileReport struct {
	File string `json:"file"`
	// Kind is "pack", "receipt", "directory", "proof" (of inclusion), "event",
	// "consistency", "checkpoint", "export", "erasure", "dsar_bundle", "statement", "release" or "unknown".
	Kind string `json:"kind"`
	// Verdict is that of the worst of Verdicts. It is set when all files are judged.
	Verdict string `json:"verdict"`
	// Summary is the same for this file.
	Summary  string    `json:"summary"`
	Verdicts []Verdict `json:"verdicts"`

	pack *packCheck // of a pack
	// conduct is of a pack, an export, a proof, or a receipt with its event beside it.
	conduct *conduct
	// recording is of a pack, an export or a proof; about says what other kinds of files prove.
	recording *recording
	about     string
}

// ok reports whether every check passed: what failed proves nothing about other files, nor does what can't be judged.
func (f *FileReport) ok() bool {
	return !slices.ContainsFunc(f.Verdicts, func(v Verdict) bool { return !v.OK })
}

func (f *FileReport) add(v ...Verdict) { f.Verdicts = append(f.Verdicts, v...) }

// say adds what a check has found.
func (f *FileReport) say(code sealer.Code, format string, args ...any) {
	f.add(found(code, fmt.Sprintf(format, args...)))
}

// noteSandbox remarks, once, that the file's proof depends on a key of the sandbox.
func (f *FileReport) noteSandbox(keyID string) {
	if !f.sandboxed() {
		f.add(sandboxKey(keyID))
	}
}

func (f *FileReport) sandboxed() bool { return f.has(KeySandbox) }

// has reports whether a check has found a code.
func (f *FileReport) has(code sealer.Code) bool {
	return slices.ContainsFunc(f.Verdicts, func(v Verdict) bool { return v.Code == code })
}

func sandboxKey(keyID string) Verdict {
	return found(KeySandbox, fmt.Sprintf("signed by key %s of the sandbox: anyone can make such evidence, under any names", keyID))
}

// unreadable notes that the disk, not the file's content, is at fault.
func (f *FileReport) unreadable(err error) { f.say(InputUnreadable, "%v", err) }

// noDirectory adds the verdict that there are no keys to verify the file with.
func (f *FileReport) noDirectory(t *trust) {
	if !t.foreign {
		f.say(sealer.KeyUnknown, "no key directory is at hand, neither in a file of its own nor in a pack")
		return
	}
	v := found(sealer.KeyUnknown, "the key directory at hand is not used, as it is of a service with another root key, and there is none of this one")
	v.Next = giveAnchor
	f.add(v)
}

// Codes of checks that passed.
const (
	// DirectoryOK: the key directory is signed by its directory key, to which the
	// root key has delegated.
	DirectoryOK sealer.Code = "directory.ok"
	// SignatureOK: every signature is by a key that was valid when it signed.
	SignatureOK sealer.Code = "signature.ok"
	// CheckpointOK: the signed checkpoint is by a valid key, and states the pack's
	// size and root.
	CheckpointOK sealer.Code = "checkpoint.ok"
	// ConsistencyOK: a tree extends the one that it has to.
	ConsistencyOK sealer.Code = "consistency.ok"
	// InclusionOK: every entry is a leaf of the tree, in its place.
	InclusionOK sealer.Code = "inclusion.ok"
	// WitnessOK: every receipt stands in the event that it was signed for.
	WitnessOK sealer.Code = "witness.ok"
	// MeteringOK: the rows are what the entries and the list of duplicates add up to.
	MeteringOK sealer.Code = "metering.ok"
	// FilesOK: each file of a bundle is what the signed manifest states.
	FilesOK sealer.Code = "files.ok"
	// StatementOK: a statement is what the packs and the rules in them make of the period.
	StatementOK sealer.Code = "statement.ok"
	// SettlementOK: rules, lines and counts are what the rules make of the entries.
	SettlementOK sealer.Code = "settlement.ok"
)

// Codes of remarks. They are not failures, but state what a check depends on. KeySandbox is a
// failure if evidence of the sandbox is refused (Options.NoSandbox).
const (
	// AnchorKeys: keys were taken from a file on trust, not from a root key.
	AnchorKeys sealer.Code = "anchor.keys"
	// KeySandbox: a key of the sandbox has signed it. It is as sound as any other, but
	// anyone can make such evidence, with rights and organisations of any name.
	KeySandbox sealer.Code = "key.sandbox"
	// RightLate: a delivery was decided on a state of its right from before a stop, and issued
	// later than that by more than the bound. Clocks may be to blame.
	RightLate sealer.Code = "right.late"
	// RightUnproven: a delivery was decided behind a suspension, and no given file shows that
	// the right was resumed. The resumption may be in another file, or not be sealed yet.
	RightUnproven sealer.Code = "right.unproven"
	// ReceiptUncovered: the file states more than the receipt, and no given file proves that:
	// the signature covers it by way of the event, which is missing.
	ReceiptUncovered sealer.Code = "receipt.uncovered"
	// ReceiptUnproven: packs or exports are given, and no given file holds the receipt.
	ReceiptUnproven sealer.Code = "receipt.unproven"
	// DirectoryIgnored: the key of the directory in a pack or an export was revoked;
	// another directory, whose key was delegated to later, decides.
	DirectoryIgnored sealer.Code = "directory.ignored"
	// DuplicatesUnproven: the given packs don't hold all earlier leaves; only the header vouches
	// for which deliveries repeat one of the others.
	DuplicatesUnproven sealer.Code = "duplicates.unproven"
	// SettlementUnproven: the given packs don't hold all earlier leaves, or the events of all rights; only
	// the header vouches for the settlement rules in the others, or for campaigns and labels of these rights.
	SettlementUnproven sealer.Code = "settlement.unproven"
	// IssueUnproven: no given file holds the event of a statement's issue.
	IssueUnproven sealer.Code = "issue.unproven"
	// ErasureUnproven: no given file holds the tombstone of a certificate of erasure.
	ErasureUnproven sealer.Code = "erasure.unproven"
	// StatementVoided: a statement was voided since it was issued.
	StatementVoided sealer.Code = "statement.voided"
	// ChainVouched: the key of a pack or checkpoint was revoked later, and a later
	// one of the log, by another key, builds on it.
	ChainVouched sealer.Code = "chain.vouched"
	// ChainGap: packs between two given ones were not given, or not as they were signed.
	ChainGap sealer.Code = "chain.gap"
)

// Codes of what can't be judged, because something is missing. Others are sealer's.
const (
	// InputUnreadable: a file can't be read from disk.
	InputUnreadable sealer.Code = "input.unreadable"
	// FormatUnknown: nothing that Muniment hands out, or not in the form in which it does.
	FormatUnknown sealer.Code = "format.unknown"
	// FormatRelease: the list of a release's checksums, which is judged alone, beside the files of the release.
	FormatRelease sealer.Code = "format.release"
	// DirectoryForeign: the root key has not delegated to the directory, nor does that say so.
	DirectoryForeign sealer.Code = "directory.foreign"
	// DirectoryExpired: the key may have signed, but the delegation of the directory at hand had ended then.
	DirectoryExpired sealer.Code = "directory.expired"
	// DirectoryRevoked: the directory's own key is listed as revoked by a directory
	// whose key was delegated to later.
	DirectoryRevoked sealer.Code = "directory.revoked"
	// EventMissing: a proof is of an event that was not given.
	EventMissing sealer.Code = "event.missing"
	// InclusionUnproven: no given file proves an event.
	InclusionUnproven sealer.Code = "inclusion.unproven"
	// ConsistencyUnproven: what was given does not prove a root of the size of the
	// checkpoint that was held outside.
	ConsistencyUnproven sealer.Code = "consistency.unproven"
	// StatementUnproven: something that a statement depends on is in none of the given files.
	StatementUnproven sealer.Code = "statement.unproven"
)

// Codes of failures. Those of keys and of single entries are sealer's.
const (
	// FormatInvalid: not the format, or not its canonical form.
	FormatInvalid sealer.Code = "format.invalid"
	// DirectoryInvalid: the directory is not signed under the root key as it says, or contradicts itself.
	DirectoryInvalid sealer.Code = "directory.invalid"
	// EntryAfterRevocation: a pack or an export holds a receipt of a key that was revoked when it was sealed.
	EntryAfterRevocation sealer.Code = "entry.after_revocation"
	// KeyMismatch: the key that comes with a file is not the one that signed it, or is not what
	// the trusted keys say of it.
	KeyMismatch sealer.Code = "key.mismatch"
	// CountMismatch: more or fewer entries than the header states.
	CountMismatch sealer.Code = "count.mismatch"
	// RightStopped: a delivery was decided on a revision at which its right, or one that it
	// derives from, was suspended or revoked.
	RightStopped sealer.Code = "right.stopped"
	// APIKeyRevoked: the API key that requested a delivery had been revoked before, by more
	// than the bound.
	APIKeyRevoked sealer.Code = "apikey.revoked"
	// RootMismatch: the entries are not the leaves under the root.
	RootMismatch sealer.Code = "root.mismatch"
	// InclusionMismatch: a proof does not lead from its event to its checkpoint, or
	// the file that holds a receipt is not sound itself.
	InclusionMismatch sealer.Code = "inclusion.mismatch"
	// CheckpointMismatch: the checkpoint states another log, size, root or time.
	CheckpointMismatch sealer.Code = "checkpoint.mismatch"
	// ConsistencyMismatch: a tree does not extend the one that it has to.
	ConsistencyMismatch sealer.Code = "consistency.mismatch"
	// Rollback: the log is shorter than a checkpoint of it that was held outside, and was sealed later.
	Rollback sealer.Code = "rollback"
	// ChainFork: two files hold different leaves, or roots, of one place in a log.
	ChainFork sealer.Code = "chain.fork"
	// MeteringMismatch: the rows are not what the entries add up to.
	MeteringMismatch sealer.Code = "metering.mismatch"
	// DuplicatesMismatch: the list of duplicates is not that of the entries.
	DuplicatesMismatch sealer.Code = "duplicates.mismatch"
	// FileMismatch: a file of a bundle is not what the manifest states.
	FileMismatch sealer.Code = "file.mismatch"
	// StatementLog: the pack up to which a statement states is not as the statement names it.
	StatementLog sealer.Code = "statement.log"
	// StatementReceipts: a statement counts other receipts than the packs hold.
	StatementReceipts sealer.Code = "statement.receipts"
	// StatementRule: a statement has a price, a unit, a minimum or a cap that is not the rule's, or a campaign or a
	// label that is not the right's.
	StatementRule sealer.Code = "statement.rule"
	// StatementAmount: the amount of a line is not what its rule makes.
	StatementAmount sealer.Code = "statement.amount"
	// StatementShares: the shares of a line are not what its rule makes.
	StatementShares sealer.Code = "statement.share"
	// StatementTotal: what payees get, or what is held, is not what the lines add up to.
	StatementTotal sealer.Code = "statement.total"
	// StatementExcluded: a statement excludes other receipts for disputes than the log shows.
	StatementExcluded sealer.Code = "statement.excluded"
	// StatementOverlap: a statement that was issued before bills receipts of the same time, or is not
	// listed.
	StatementOverlap sealer.Code = "statement.overlap"
	// StatementCorrected: what a correction states about the statement before it, or the changes, is
	// wrong.
	StatementCorrected sealer.Code = "statement.correction"
	// SettlementMismatch: the settlement is not what the rules make of the entries.
	SettlementMismatch sealer.Code = "settlement.mismatch"
)

// Verdict is the outcome of one check.
type Verdict struct {
	Code sealer.Code `json:"code"`
	OK   bool        `json:"ok"`
	// Index counts the entries of a pack or an export from 0; nil for what is no entry.
	Index *int `json:"index"`
	// Message is what was found, or, of a code that can't be judged, what is missing.
	Message string `json:"message,omitempty"`
	// Next is what to do about a code that can't be judged; empty for others.
	Next string `json:"next,omitempty"`
}
