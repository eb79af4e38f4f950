//go:build independent

package independent_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// epoch is when the keys of a service begin to be valid.
var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// service is one that seals evidence: its keys, and the chance that decides what
// is in the evidence. The same seed makes the same bytes.
type service struct {
	testing.TB
	*rand.Rand
	chance *rand.ChaCha8

	root     note.Signer
	vkey     string
	officer  ed25519.PrivateKey // signs directories
	since    time.Time          // when the delegation to it begins
	until    time.Time          // and ends
	sealing  ed25519.PrivateKey
	sandbox  ed25519.PrivateKey
	nodes    []*sealer.Signer
	keys     []keydir.Key
	counts   map[string]int
	answered [][]byte // deliveries as their callers hold them
}

func newService(tb testing.TB, seed string) *service {
	chance := rand.NewChaCha8(sha256.Sum256([]byte(seed)))
	s := &service{TB: tb, Rand: rand.New(chance), chance: chance, counts: make(map[string]int)}
	s.root, s.vkey = s.rootKey("root.independent")
	s.officer, s.since, s.until = s.key(keydir.PurposeDirectory), epoch, epoch.AddDate(2, 0, 0)
	s.sealing = s.key(keydir.PurposePack)
	s.sandbox = s.key(keydir.PurposeSandbox)
	for i := range 3 {
		key := s.key(keydir.PurposeReceipt)
		s.nodes = append(s.nodes, &sealer.Signer{KeyID: keyID(key), Node: fmt.Sprintf("nod:%d", i), Key: key})
	}
	return s
}

func keyID(key ed25519.PrivateKey) string { return keydir.KeyID(key.Public().(ed25519.PublicKey)) }

// key makes a key and lists it.
func (s *service) key(purpose string) ed25519.PrivateKey {
	key := s.newKey()
	s.keys = append(s.keys, keydir.NewKey(key.Public().(ed25519.PublicKey), purpose, epoch))
	return key
}

func (s *service) newKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(s.bytes(ed25519.SeedSize))
}

func (s *service) bytes(n int) []byte {
	b := make([]byte, n)
	_, err := s.chance.Read(b)
	require.NoError(s, err)
	return b
}

func (s *service) rootKey(name string) (note.Signer, string) {
	key := s.newKey()
	vkey, err := note.NewEd25519VerifierKey(name, key.Public().(ed25519.PublicKey))
	require.NoError(s, err)
	verifier, err := note.NewVerifier(vkey)
	require.NoError(s, err)
	signer, err := note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, verifier.KeyHash(),
		base64.StdEncoding.EncodeToString(append([]byte{1}, key.Seed()...))))
	require.NoError(s, err)
	return signer, vkey
}

// entry is a key's entry in the directory, to be changed.
func (s *service) entry(key ed25519.PrivateKey) *keydir.Key {
	for i := range s.keys {
		if s.keys[i].KeyID == keyID(key) {
			return &s.keys[i]
		}
	}
	require.Fail(s, "no such key")
	return nil
}

// revoke has all later directories say that a key is revoked.
func (s *service) revoke(key ed25519.PrivateKey, at time.Time) { s.entry(key).RevokedAt = &at }

// directory is the signed key directory as of a moment.
func (s *service) directory(at time.Time) []byte {
	delegation, err := keydir.Delegate(s.root, s.officer.Public().(ed25519.PublicKey), s.since, s.until)
	require.NoError(s, err)
	text, err := keydir.Sign(&keydir.Directory{
		Keys: s.keys, IssuedAt: at, SnapshotID: s.text(), Delegation: delegation,
	}, s.officer)
	require.NoError(s, err)
	return text
}

// succeed has the root delegate to another directory key from a moment on. What it
// returns is the service in the hands of a thief of the key before: it has the
// successor, and revokes it.
func (s *service) succeed(at time.Time) (thief *service) {
	stolen := *s
	s.officer, s.since, s.until = s.key(keydir.PurposeDirectory), at, at.AddDate(2, 0, 0)
	s.entry(s.officer).NotBefore = at
	stolen.keys = slices.Clone(s.keys)
	stolen.revoke(s.officer, at)
	return &stolen
}

// id makes an id of a moment.
func (s *service) id(prefix string, at time.Time) string {
	id, err := ulid.New(uint64(at.UnixMilli()), s.chance)
	require.NoError(s, err)
	return prefix + id.String()
}

// text makes a string of characters that JSON writers like to disagree about.
func (s *service) text() string {
	alphabet := []rune("ab/<&\"\\\b\t\n\f\r\x00\x1f\x7fé\u2028\ue000\ufb33\ufffd😀")
	runes := make([]rune, 1+s.IntN(8))
	for i := range runes {
		runes[i] = alphabet[s.IntN(len(alphabet))]
	}
	return string(runes)
}

// value makes a JSON value, of any shape up to a depth.
func (s *service) value(depth int) any {
	switch s.IntN(8) {
	case 0:
		return nil
	case 1:
		return s.IntN(2) == 0
	case 2:
		return s.text()
	case 3: // any double there is
		if f := math.Float64frombits(s.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
		return 0
	case 4: // those around the places where the spelling of numbers changes
		return float64(s.IntN(2000)-1000) * math.Pow10(s.IntN(60)-30)
	case 5:
		return s.IntN(1 << 53)
	}
	if depth == 0 {
		return ""
	}
	if s.IntN(2) == 0 {
		list := make([]any, s.IntN(4))
		for i := range list {
			list[i] = s.value(depth - 1)
		}
		return list
	}
	return s.object(depth - 1)
}

func (s *service) object(depth int) map[string]any {
	members := make(map[string]any)
	for range s.IntN(6) {
		members[s.text()] = s.value(depth)
	}
	return members
}

// answer is what the caller of a delivery holds.
func (s *service) answer(event []byte) []byte {
	parts, err := sealer.SplitDelivery(event)
	require.NoError(s, err)
	return fmt.Appendf(nil, `{"ok":true,"data":{"receipt":%s,"substrate":%s,"signature":%s,"metering":%s},"contractVersion":"v1.0"}`,
		parts.Receipt, parts.Substrate, parts.Signature, parts.Metering)
}
