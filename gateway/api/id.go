package api

import (
	"crypto/rand"
	"regexp"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Prefix is the part of an id that says what it names.
type Prefix string

// Prefixes of the contract and of the design.
const (
	PrefixTenant          Prefix = "tnt_"
	PrefixOrg             Prefix = "org_"
	PrefixDeveloper       Prefix = "dev_"
	PrefixKey             Prefix = "key_"
	PrefixBasis           Prefix = "bas_"
	PrefixRight           Prefix = "rgh_"
	PrefixReceipt         Prefix = "rcp_"
	PrefixEvent           Prefix = "evt_"
	PrefixPack            Prefix = "ppk_"
	PrefixNode            Prefix = "nod_"
	PrefixMapping         Prefix = "map_"
	PrefixHeld            Prefix = "hld_"
	PrefixRejected        Prefix = "rej_"
	PrefixWebhook         Prefix = "whk_"
	PrefixWebhookDelivery Prefix = "dlv_"
	PrefixMember          Prefix = "mbr_"
	// PrefixVendorKey is that of what VendorKey makes, which is no ULID.
	PrefixVendorKey Prefix = "vid_"

	PrefixCounterparty Prefix = "cp_"
	PrefixRule         Prefix = "rule_"
)

// nouns say what an id names, by its prefix.
var nouns = map[string]string{
	"tnt": "tenant", "org": "organisation", "dev": "developer", "key": "key", "bas": "basis", "rgh": "right", "rcp": "receipt", "evt": "event",
	"ppk": "proof pack", "nod": "node", "map": "mapping", "hld": "held row", "rej": "rejected play", "whk": "webhook", "dlv": "webhook delivery", "cp": "counterparty",
	"rule": "settlement rule", "ofr": "offer", "chg": "challenge", "dsp": "dispute", "stm": "statement", "era": "erasure", "dsar": "dsar job", "mbr": "member",
}

// NounOf is what an id names, by its prefix; empty if no id begins so.
func NounOf(id string) string {
	end := strings.IndexAny(id, "_:")
	if end < 0 {
		return ""
	}
	return nouns[id[:end]]
}

// SystemTenant owns the events of nodes and operators.
const SystemTenant = "tnt_system"

// ulidLen is the length of a ULID's text form.
const ulidLen = ulid.EncodedSize

// NewID makes an id: the prefix and a ULID (github.com/ulid/spec) of at, in
// milliseconds, and 80 bits from crypto/rand.
func NewID(p Prefix, at time.Time) string {
	var entropy [10]byte
	rand.Read(entropy[:]) // never fails: crypto/rand crashes the process instead
	b := make([]byte, 0, len(p)+ulidLen)
	return string(AppendID(b, p, at, entropy))
}

// AppendID is NewID with given random bits, for callers that draw them in one go.
func AppendID(dst []byte, p Prefix, at time.Time, entropy [10]byte) []byte {
	var id ulid.ULID
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	copy(id[6:], entropy[:])
	dst = append(dst, p...)
	n := len(dst)
	dst = append(dst, make([]byte, ulidLen)...)
	_ = id.MarshalTextTo(dst[n:]) // the length is right, the one way it can fail
	return dst
}

// EventOf is the id of the event that holds a receipt: both have the same ULID.
func EventOf(receiptID string) string {
	return string(PrefixEvent) + strings.TrimPrefix(receiptID, string(PrefixReceipt))
}

// IsID says whether s is the prefix followed by a ULID in its canonical upper
// case form.
func IsID[T string | []byte](p Prefix, s T) bool {
	if len(s) != len(p)+ulidLen || string(s[:len(p)]) != string(p) {
		return false
	}
	var id ulid.ULID
	var canonical [ulidLen]byte
	text := []byte(s[len(p):])
	return id.UnmarshalText(text) == nil && id.MarshalTextTo(canonical[:]) == nil && string(canonical[:]) == string(text)
}

// MostIDEndSpan is the most time in which records are searched by the end of their ids, as all of that time are looked through:
// a week, in which clocks may be set back.
const MostIDEndSpan = IDEndSpan + time.Hour

// IDEndSpan is that time as people have it.
const IDEndSpan = 7 * 24 * time.Hour

// IDEnd is the end of an id as a person reads it from a paper: small letters count as large, I and L as 1, O as 0. ok is false
// if no id ends so.
func IDEnd(text string) (end string, ok bool) {
	end = strings.NewReplacer("I", "1", "L", "1", "O", "0").Replace(strings.ToUpper(text))
	return end, end != "" && len(end) <= ulidLen && strings.Trim(end, ulid.Encoding) == ""
}

// OrgIDPattern is the form of an organisation's id, as a regular expression. It is no ULID:
// an operator names a tenant's organisation, and callers name their counterparties.
const OrgIDPattern = `^org_[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`

var orgID = regexp.MustCompile(OrgIDPattern)

// IsOrgID says whether s is the id of an organisation.
func IsOrgID(s string) bool { return orgID.MatchString(s) }
