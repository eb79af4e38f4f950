package sealer

// Code names what was checked and how it came out. The list is closed and part
// of the format: scripts match on it.
type Code string

// Codes of checks that passed.
const (
	// DirectoryOK: the key directory is signed by its directory key, to which the
	// root key has delegated.
	DirectoryOK Code = "directory.ok"
	// SignatureOK: every signature is by a key that was valid when it signed.
	SignatureOK Code = "signature.ok"
	// CheckpointOK: the signed checkpoint is by a valid key, and states the pack's
	// size and root.
	CheckpointOK Code = "checkpoint.ok"
	// ConsistencyOK: a tree extends the one that it has to.
	ConsistencyOK Code = "consistency.ok"
	// InclusionOK: every entry is the leaf that its place in the tree asks for.
	InclusionOK Code = "inclusion.ok"
	// WitnessOK: every receipt stands in the event that it was signed for.
	WitnessOK Code = "witness.ok"
	// MeteringOK: the rows are what the entries and the list of duplicates add up to.
	MeteringOK Code = "metering.ok"
	// SettlementOK: rules, lines and counts are what the rules make of the entries.
	SettlementOK Code = "settlement.ok"
)

// Codes of remarks. They are no failure, but say what a check rests on; KeySandbox is one
// where evidence of the sandbox is refused (Options.NoSandbox).
const (
	// AnchorKeys: keys were taken from a file on trust, not from a root key.
	AnchorKeys Code = "anchor.keys"
	// KeySandbox: a key of the sandbox has signed it. It is as sound as any other, but
	// anyone can make such evidence, with rights and organisations of any name.
	KeySandbox Code = "key.sandbox"
	// RightLate: a delivery was decided on a state of its right from before a stop, and issued
	// later than that by more than the bound. Clocks may be to blame.
	RightLate Code = "right.late"
	// RightUnproven: a delivery was decided behind a suspension, and no given file shows that
	// the right was resumed. The resumption may be in another file, or not be sealed yet.
	RightUnproven Code = "right.unproven"
	// ReceiptUncovered: the file states more than the receipt, which nothing at hand proves:
	// the signature covers the event, and that is not here.
	ReceiptUncovered Code = "receipt.uncovered"
	// DirectoryIgnored: the key of the directory in a pack or an export was revoked;
	// another directory, whose key was delegated to later, decides.
	DirectoryIgnored Code = "directory.ignored"
	// DuplicatesUnproven: the given packs don't hold all earlier leaves; which deliveries repeat
	// one of the others, if any, is the header's word.
	DuplicatesUnproven Code = "duplicates.unproven"
	// SettlementUnproven: the given packs don't hold all earlier leaves; which settlement rules
	// stand in the others, if any, is the header's word.
	SettlementUnproven Code = "settlement.unproven"
	// ChainVouched: the key of a pack or checkpoint was revoked later, and a later
	// one of the log, by another key, builds on it.
	ChainVouched Code = "chain.vouched"
	// ChainGap: packs between two given ones were not given, or not as they were signed.
	ChainGap Code = "chain.gap"
)

// Codes of failures.
const (
	// FormatInvalid: not the format, or not its one canonical spelling.
	FormatInvalid Code = "format.invalid"
	// DirectoryInvalid: the directory is not signed under the root key.
	DirectoryInvalid Code = "directory.invalid"
	// DirectoryRevoked: the directory's own key is listed as revoked by a directory
	// whose key was delegated to later.
	DirectoryRevoked Code = "directory.revoked"
	// SignatureInvalid: the signature is not that of the named key over this text.
	SignatureInvalid Code = "signature.invalid"
	// KeyUnknown: the directory does not list the signing key.
	KeyUnknown Code = "key.unknown"
	// KeyPurpose: the key is for something else.
	KeyPurpose Code = "key.purpose"
	// KeyOutsideWindow: signed before the key's notBefore, from its notAfter on, or from
	// the end of the directory's delegation on.
	KeyOutsideWindow Code = "key.outside_window"
	// KeyRevoked: the key is revoked, and nothing proves the signature older.
	KeyRevoked Code = "key.revoked"
	// KeyMismatch: the key beside a pack is not the one that signed it, or is not what
	// the keys at hand say of it.
	KeyMismatch Code = "key.mismatch"
	// EntryAltered: an entry contradicts itself or is no canonical event.
	EntryAltered Code = "entry.altered"
	// EntryRepeated: an event id stands twice in the log.
	EntryRepeated Code = "entry.repeated"
	// EntryAfterSeal: an entry is of a moment after its seal.
	EntryAfterSeal Code = "entry.after_seal"
	// WitnessMismatch: a receipt was moved under another event.
	WitnessMismatch Code = "witness.mismatch"
	// TenantMismatch: an entry is of another tenant than its pack.
	TenantMismatch Code = "tenant.mismatch"
	// CountMismatch: more or fewer entries than the header states.
	CountMismatch Code = "count.mismatch"
	// RightStopped: a delivery was decided on a revision at which its right, or one that it
	// derives from, was suspended or revoked.
	RightStopped Code = "right.stopped"
	// APIKeyRevoked: the API key that asked for a delivery had been revoked before, by more
	// than the bound.
	APIKeyRevoked Code = "apikey.revoked"
	// RootMismatch: the entries are not the leaves under the root.
	RootMismatch Code = "root.mismatch"
	// EventMissing: a proof is of an event that was not given.
	EventMissing Code = "event.missing"
	// InclusionMismatch: a proof does not lead from its event to its checkpoint, or
	// the file that holds a receipt is not sound itself.
	InclusionMismatch Code = "inclusion.mismatch"
	// CheckpointMismatch: the checkpoint states another log, size, root or time.
	CheckpointMismatch Code = "checkpoint.mismatch"
	// ConsistencyMismatch: a tree does not extend the one that it has to.
	ConsistencyMismatch Code = "consistency.mismatch"
	// ConsistencyUnproven: what was given does not tell the root that a checkpoint
	// held outside has to be compared with.
	ConsistencyUnproven Code = "consistency.unproven"
	// Rollback: the log is shorter than a checkpoint of it that was held outside.
	Rollback Code = "rollback"
	// ChainFork: two files hold different leaves, or roots, of one place in a log.
	ChainFork Code = "chain.fork"
	// MeteringMismatch: the rows are not what the entries add up to.
	MeteringMismatch Code = "metering.mismatch"
	// DuplicatesMismatch: the list of duplicates is not that of the entries.
	DuplicatesMismatch Code = "duplicates.mismatch"
	// SettlementMismatch: the settlement is not what the rules make of the entries.
	SettlementMismatch Code = "settlement.mismatch"
)

// InputUnreadable: a file can't be read from disk.
const InputUnreadable Code = "input.unreadable"

// Verdict is the outcome of one check.
type Verdict struct {
	Code Code `json:"code"`
	OK   bool `json:"ok"`
	// Index counts the entries of a pack or an export from 0; nil for what is no entry.
	Index   *int   `json:"index"`
	Message string `json:"message,omitempty"`
}
