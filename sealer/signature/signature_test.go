package signature

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"filippo.io/edwards25519"
	"github.com/stretchr/testify/require"
)

// returning is a checker that has a table of each key from its first signature on.
func returning(all []Signed) *Checker {
	c := &Checker{keys: map[[ed25519.PublicKeySize]byte]*key{}}
	for _, s := range all {
		if len(s.Key) == ed25519.PublicKeySize {
			c.keys[[ed25519.PublicKeySize]byte(s.Key)] = &key{seen: enough - 1}
		}
	}
	return c
}

// requireSame holds the verdicts about groups of every size against those of crypto/ed25519.
func requireSame(t *testing.T, all []Signed) (sound int) {
	t.Helper()
	for rest := all; len(rest) > 0; {
		group := rest[:min(len(rest), 1+len(rest)%64, mostTables)]
		rest = rest[len(group):]
		returning(group).Check(group)
	}
	for _, s := range all {
		want := ed25519.Verify(s.Key, s.Text, s.Signature)
		require.Equal(t, want, s.Sound, "key %x, text %x, signature %x", s.Key, s.Text, s.Signature)
		if want {
			sound++
		}
	}
	return sound
}

func TestVerdictsOfAlteredSignatures(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []Signed
	for i := range 400 {
		seed := make([]byte, ed25519.SeedSize)
		for n := range seed {
			seed[n] = byte(random.Uint32())
		}
		private := ed25519.NewKeyFromSeed(seed)
		text := seed[:i%len(seed)]
		good := Signed{Key: private.Public().(ed25519.PublicKey), Text: text, Signature: ed25519.Sign(private, text)}
		all = append(all, good)
		for range 4 {
			s := Signed{Key: append([]byte{}, good.Key...), Text: append([]byte{}, text...), Signature: append([]byte{}, good.Signature...)}
			switch part := random.IntN(4); {
			case part == 0:
				s.Key[random.IntN(len(s.Key))] ^= 1 << random.IntN(8)
			case part == 1 && len(text) > 0:
				s.Text[random.IntN(len(text))] ^= 1 << random.IntN(8)
			case part == 2:
				s.Signature = s.Signature[:random.IntN(len(s.Signature))]
			default:
				s.Signature[random.IntN(len(s.Signature))] ^= 1 << random.IntN(8)
			}
			all = append(all, s)
		}
	}
	require.Equal(t, 400, requireSame(t, all))
}

// minusOne is the order of the group of the base point, less one.
var minusOne = edwards25519.NewScalar().Negate(one)

var one, _ = edwards25519.NewScalar().SetCanonicalBytes(append([]byte{1}, make([]byte, 31)...))

// smallOrder are the eight points of small order, the multiples of one of them.
func smallOrder(t *testing.T) (all []*edwards25519.Point) {
	t.Helper()
	for y := byte(2); ; y++ {
		p, err := new(edwards25519.Point).SetBytes(append([]byte{y}, make([]byte, 31)...))
		if err != nil {
			continue
		}
		// The order of the base point's group times a point leaves the point's part of small order.
		part := new(edwards25519.Point).ScalarMult(minusOne, p)
		part.Add(part, p)
		four := new(edwards25519.Point).Add(part, part)
		if four.Add(four, four); four.Equal(edwards25519.NewIdentityPoint()) == 1 {
			continue
		}
		for sum := edwards25519.NewIdentityPoint(); len(all) < 8; sum = new(edwards25519.Point).Add(sum, part) {
			all = append(all, sum)
		}
		return all
	}
}

// encodings are those that decode to a point: its own, that with y + p where it fits, and that with the other sign where x
// is 0.
func encodings(point *edwards25519.Point) (all [][]byte) {
	own := point.Bytes()
	try := func(text []byte) {
		if p, err := new(edwards25519.Point).SetBytes(text); err == nil && p.Equal(point) == 1 {
			all = append(all, text)
		}
	}
	for _, sign := range []byte{0, 0x80} {
		text := append([]byte{}, own...)
		text[31] = text[31]&0x7f | sign
		try(text)
		if y := text[0]; y < 19 && [31]byte(append(text[1:31:31], text[31]&0x7f)) == [31]byte{} {
			over := make([]byte, 32)
			for i := range over {
				over[i] = 0xff
			}
			over[0], over[31] = 0xed+y, 0x7f|sign
			try(over)
		}
	}
	return all
}

func scalar(random *rand.Rand) *edwards25519.Scalar {
	var wide [64]byte
	for i := range wide {
		wide[i] = byte(random.Uint32())
	}
	s, _ := edwards25519.NewScalar().SetUniformBytes(wide[:])
	return s
}

// TestVerdictsBesideTheGroup: keys and R with parts of small order, R that is not in its canonical bytes, and S that is
// not below the order of the group. What is sound of it follows from the equation without a cofactor.
func TestVerdictsBesideTheGroup(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	small := smallOrder(t)
	zero := edwards25519.NewScalar()
	var all []Signed
	add := func(key, r []byte, secret, nonce *edwards25519.Scalar, text []byte) {
		h := sha512.New()
		h.Write(r)
		h.Write(key)
		h.Write(text)
		k, err := edwards25519.NewScalar().SetUniformBytes(h.Sum(nil))
		require.NoError(t, err)
		s := edwards25519.NewScalar().MultiplyAdd(k, secret, nonce).Bytes()
		all = append(all, Signed{Key: key, Text: text, Signature: append(append([]byte{}, r...), s...)})
		over := append([]byte{}, s...) // S + L, which fits into 253 bits
		carry := 0
		l := minusOne.Bytes()
		l[0]++
		for i := range over {
			carry += int(over[i]) + int(l[i])
			over[i], carry = byte(carry), carry>>8
		}
		all = append(all, Signed{Key: key, Text: text, Signature: append(append([]byte{}, r...), over...)})
	}
	for i, part := range small {
		for _, secret := range []*edwards25519.Scalar{zero, scalar(random)} {
			public := new(edwards25519.Point).ScalarBaseMult(secret)
			for _, key := range encodings(public.Add(public, part)) {
				for _, other := range small {
					for n := range 4 {
						nonce := []*edwards25519.Scalar{zero, scalar(random)}[n%2]
						r := new(edwards25519.Point).ScalarBaseMult(nonce)
						for _, text := range encodings(r.Add(r, other)) {
							add(key, text, secret, nonce, []byte{byte(i), byte(n)})
						}
					}
				}
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	sound := requireSame(t, all)
	require.Greater(t, sound, 50)
	require.Less(t, sound, len(all)/2)
}

// TestKeysThatReturn: a key gets its table when it has signed enough; one too many, and the others lose theirs.
func TestKeysThatReturn(t *testing.T) {
	var c Checker
	for i := range mostTables + 1 {
		private := ed25519.NewKeyFromSeed(append([]byte{byte(i)}, make([]byte, ed25519.SeedSize-1)...))
		good := Signed{Key: private.Public().(ed25519.PublicKey), Text: []byte("text"), Signature: ed25519.Sign(private, []byte("text"))}
		bad := Signed{Key: good.Key, Text: []byte("another"), Signature: good.Signature}
		for n := 2; n < enough; n += 2 {
			group := []Signed{bad, good}
			c.Check(group)
			require.Equal(t, []bool{false, true}, []bool{group[0].Sound, group[1].Sound})
			require.Nil(t, c.keys[[ed25519.PublicKeySize]byte(good.Key)].table)
		}
		group := []Signed{good, bad, good}
		c.Check(group)
		require.Equal(t, []bool{true, false, true}, []bool{group[0].Sound, group[1].Sound, group[2].Sound})
		require.NotNil(t, c.keys[[ed25519.PublicKeySize]byte(good.Key)].table)
		require.Equal(t, i%mostTables+1, c.tables)
	}
	require.Len(t, c.keys, 1)
}

// TestWycheproof fetches the vectors as Go fetches a module, in their version, and holds them against what they say.
func TestWycheproof(t *testing.T) {
	if os.Getenv("MUNIMENT_TEST_FULL") == "" {
		t.Skip("fetches vectors: set MUNIMENT_TEST_FULL=1")
	}
	const vectors, sum = "github.com/C2SP/wycheproof@v0.0.0-20250901140545-b51abcfb8daf", "h1:5BKKVVVj676FUWirLcouEEL6GCYR9X0opkMlEUck8FY="
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", vectors).Output()
	require.NoError(t, err, "%s", out)
	var module struct{ Dir, Sum string }
	require.NoError(t, json.Unmarshal(out, &module))
	require.Equal(t, sum, module.Sum)
	text, err := os.ReadFile(filepath.Join(module.Dir, "testvectors_v1", "ed25519_test.json"))
	require.NoError(t, err)
	var file struct {
		TestGroups []struct {
			PublicKey struct{ Pk string }
			Tests     []struct {
				TcID             int
				Msg, Sig, Result string
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	unhex := func(text string) []byte {
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		return b
	}
	var all []Signed
	want := map[string]bool{}
	for _, g := range file.TestGroups {
		for _, one := range g.Tests {
			s := Signed{Key: unhex(g.PublicKey.Pk), Text: unhex(one.Msg), Signature: unhex(one.Sig)}
			all = append(all, s)
			want[fmt.Sprint(s)] = one.Result == "valid"
		}
	}
	require.Greater(t, requireSame(t, all), 50)
	for _, s := range all {
		sound := s.Sound
		s.Sound = false
		require.Equal(t, want[fmt.Sprint(s)], sound)
	}
}

// BenchmarkCheck compares the two ways, per signature: 64 receipts' texts of one key in a group. With one wrong
// signature in the group it is the same.
func BenchmarkCheck(b *testing.B) {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	var group []Signed
	for i := range 64 {
		text := make([]byte, 600)
		text[0] = byte(i)
		group = append(group, Signed{Key: private.Public().(ed25519.PublicKey), Text: text, Signature: ed25519.Sign(private, text)})
	}
	for _, wrong := range []int{0, 1} {
		for range wrong {
			group[7].Text = []byte("another")
		}
		for name, c := range map[string]*Checker{"one by one": nil, "grouped": returning(group)} {
			b.Run(fmt.Sprintf("%s/%d wrong", name, wrong), func(b *testing.B) {
				for n := 0; n < b.N; n += len(group) {
					c.Check(group)
				}
				require.Equal(b, wrong == 0, group[7].Sound)
			})
		}
	}
}
