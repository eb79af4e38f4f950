package sealer

// Code names a check and its result. The list is closed and part of the format: scripts
// match on it.
type Code string

// Codes of faults of a key or an entry. Package verify has all others.
const (
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
	// EntryAltered: an entry contradicts itself or is not a canonical event.
	EntryAltered Code = "entry.altered"
	// EntryRepeated: an event id is twice in the log.
	EntryRepeated Code = "entry.repeated"
	// EntryAfterSeal: an entry is later than its seal.
	EntryAfterSeal Code = "entry.after_seal"
	// WitnessMismatch: a receipt was moved to another event.
	WitnessMismatch Code = "witness.mismatch"
	// TenantMismatch: an entry is of another tenant than its pack.
	TenantMismatch Code = "tenant.mismatch"
)
