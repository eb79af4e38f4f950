package checkpoint

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
)

var epoch = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// testKey makes a key out of a name.
func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func pub(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// Names of two logs.
var oneLog, otherLog = Origin("tnt_01ARZ3NDEKTSV4RRFFQ69G5FAV"), Origin("tnt_system")

// TestCheckpointAgreesWithLibraries reads our checkpoints with x/mod and
// transparency-dev, and theirs with ours.
func TestCheckpointAgreesWithLibraries(t *testing.T) {
	key := testKey("pack")
	c := Checkpoint{Origin: oneLog, Size: 1234, Root: merkle.LeafHash([]byte("x")), SealedAt: epoch}
	text, err := Sign(c, key)
	require.NoError(t, err)

	vkey, err := note.NewEd25519VerifierKey(oneLog, pub(key))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	parsed, rest, n, err := log.ParseCheckpoint([]byte(text), oneLog, v)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, uint64(1234), parsed.Size)
	require.Equal(t, c.Root[:], parsed.Hash)
	require.Equal(t, oneLog+"\n"+strings.SplitN(string(tlog.FormatTree(tlog.Tree{N: 1234, Hash: tlog.Hash(c.Root)})), "\n", 2)[1], n.Text)

	raw := testKey("pack")
	skey := "PRIVATE+KEY+" + strings.Join(strings.Split(vkey, "+")[:2], "+") + "+" + base64.StdEncoding.EncodeToString(append([]byte{1}, raw.Seed()...))
	signer, err := note.NewSigner(skey)
	require.NoError(t, err)
	theirs, err := note.Sign(&note.Note{Text: string(log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal())}, signer)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, string(theirs)), text)
	require.Equal(t, 1, strings.Count(text[len(theirs):], "\n"), "and says when")

	back, err := Open(text, c.Origin, pub(key))
	require.NoError(t, err)
	require.Equal(t, c, back)

	// A witness may add its signature.
	skey, _, err = note.GenerateKey(rand.Reader, "witness.example")
	require.NoError(t, err)
	witness, err := note.NewSigner(skey)
	require.NoError(t, err)
	whole, err := sealer.OpenNote(text, v, newSealVerifier(pub(key)))
	require.NoError(t, err)
	cosigned, err := note.Sign(whole, witness)
	require.NoError(t, err)
	_, err = Open(string(cosigned), c.Origin, pub(key))
	require.NoError(t, err)
}

func TestOpenFindsEveryFlip(t *testing.T) {
	key := testKey("pack")
	text, err := Sign(Checkpoint{oneLog, 1234, merkle.LeafHash(nil), epoch}, key)
	require.NoError(t, err)
	for i := range len(text) {
		for bit := range 8 {
			b := []byte(text)
			b[i] ^= 1 << bit
			_, err := Open(string(b), oneLog, pub(key))
			require.Error(t, err, "byte %d, bit %d", i, bit)
		}
	}
	_, err = Open(text, otherLog, pub(key))
	require.Error(t, err)
	_, err = Open(text, oneLog, pub(testKey("other")))
	require.Error(t, err)
}

func TestOpenIsStrict(t *testing.T) {
	key := testKey("pack")
	signer, err := sealer.NewNoteSigner(oneLog, key)
	require.NoError(t, err)
	seal, err := newSealSigner(key, epoch)
	require.NoError(t, err)
	root := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, body := range []string{
		oneLog + "\n007\n" + root + "\n",
		oneLog + "\n+7\n" + root + "\n",
		oneLog + "\n7\n" + root + "\nextension\n",
		oneLog + "\n7\nAA==\n",
		otherLog + "\n7\n" + root + "\n",
		oneLog + "\n7\n",
	} {
		text, err := note.Sign(&note.Note{Text: body}, signer, seal)
		require.NoError(t, err)
		_, err = Open(string(text), oneLog, pub(key))
		require.Error(t, err, body)
	}
	good, err := Sign(Checkpoint{oneLog, 7, merkle.Hash{}, epoch}, key)
	require.NoError(t, err)
	_, err = Open(good, oneLog, pub(key))
	require.NoError(t, err)
	body, lines, _ := strings.Cut(good, "\n\n")
	log, when, _ := strings.Cut(lines, "\n")
	other := newOtherSeal(t, key, body+"\n")
	witness := func(signature byte) string {
		return "— witness.example " + base64.StdEncoding.EncodeToString(append([]byte("hash"), bytes.Repeat([]byte{signature}, 64)...)) + "\n"
	}
	many := ""
	for i := range 99 {
		many = strings.Replace(witness(1), "witness", fmt.Sprint("witness", i), 1) + many
	}
	_, err = Open(body+"\n\n"+lines+many[strings.IndexByte(many, '\n')+1:], oneLog, pub(key))
	require.NoError(t, err)
	for about, lines := range map[string]string{
		"both signatures, twice": lines + lines,
		"the other way round":    when + log + "\n",
		"it does not say when":   log + "\n",
		"nothing but when":       when,
		"two moments":            lines + other,
		"a witness, twice":       lines + witness(1) + witness(1),
		"a witness, once more":   lines + witness(1) + witness(2),
		"a signature of nothing": lines + "— witness.example aGFzaA==\n",
		"99 witnesses":           lines + many,
	} {
		_, err = Open(body+"\n\n"+lines, oneLog, pub(key))
		require.Error(t, err, about)
	}
	_, err = Sign(Checkpoint{Origin: "with space", Size: 1, SealedAt: epoch}, key)
	require.Error(t, err)
	_, err = Sign(Checkpoint{Origin: oneLog, Size: 1}, key)
	require.Error(t, err, "the year 1 is no moment of POSIX")
	_, err = Sign(Checkpoint{Origin: oneLog, Size: 1, SealedAt: time.Unix(lastSecond, 0)}, key)
	require.Error(t, err, "the year 10000 has no spelling")
	late := sealSigner{sealVerifier{pub(key)}, key, lastSecond}
	far, err := note.Sign(&note.Note{Text: body + "\n"}, signer, late)
	require.NoError(t, err)
	_, err = Open(string(far), oneLog, pub(key))
	require.Error(t, err)
}

// newOtherSeal is a signature line that says the checkpoint was sealed later.
func newOtherSeal(t *testing.T, key ed25519.PrivateKey, body string) string {
	t.Helper()
	seal, err := newSealSigner(key, epoch.Add(time.Hour))
	require.NoError(t, err)
	text, err := note.Sign(&note.Note{Text: body}, seal)
	require.NoError(t, err)
	return strings.TrimPrefix(string(text), body+"\n")
}

// TestCosignatureFollowsTheStandard writes the signed bytes and the key's id anew,
// as C2SP tlog-cosignature has them.
func TestCosignatureFollowsTheStandard(t *testing.T) {
	key := testKey("pack")
	text, err := Sign(Checkpoint{oneLog, 7, merkle.Hash{}, epoch.Add(999 * time.Millisecond)}, key)
	require.NoError(t, err)
	body, lines, _ := strings.Cut(text, "\n\n")
	line := strings.TrimSpace(strings.Split(lines, "\n")[1])
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(line, "— muniment/sealed "))
	require.NoError(t, err)
	id := sha256.Sum256(append([]byte("muniment/sealed\n\x04"), pub(key)...))
	require.Equal(t, id[:4], raw[:4])
	require.EqualValues(t, epoch.Unix(), binary.BigEndian.Uint64(raw[4:12]))
	require.True(t, ed25519.Verify(pub(key), []byte("cosignature/v1\ntime 1777636800\n"+body+"\n"), raw[12:]))
}
