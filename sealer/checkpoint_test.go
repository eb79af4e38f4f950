package sealer

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// TestCheckpointAgreesWithLibraries reads our checkpoints with x/mod and
// transparency-dev, and theirs with ours.
func TestCheckpointAgreesWithLibraries(t *testing.T) {
	key := testKey("pack")
	c := Checkpoint{Origin: Origin("tnt_1"), Size: 1234, Root: LeafHash([]byte("x"))}
	text, err := SignCheckpoint(c, key)
	require.NoError(t, err)

	vkey, err := note.NewEd25519VerifierKey("muniment/tnt_1", pub(key))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	parsed, rest, n, err := log.ParseCheckpoint([]byte(text), "muniment/tnt_1", v)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, uint64(1234), parsed.Size)
	require.Equal(t, c.Root[:], parsed.Hash)
	require.Equal(t, "muniment/tnt_1\n"+strings.SplitN(string(tlog.FormatTree(tlog.Tree{N: 1234, Hash: tlog.Hash(c.Root)})), "\n", 2)[1], n.Text)

	raw := testKey("pack")
	skey := "PRIVATE+KEY+" + strings.Join(strings.Split(vkey, "+")[:2], "+") + "+" + base64.StdEncoding.EncodeToString(append([]byte{1}, raw.Seed()...))
	signer, err := note.NewSigner(skey)
	require.NoError(t, err)
	theirs, err := note.Sign(&note.Note{Text: string(log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal())}, signer)
	require.NoError(t, err)
	require.Equal(t, string(theirs), text)

	back, err := OpenCheckpoint(text, c.Origin, pub(key))
	require.NoError(t, err)
	require.Equal(t, c, back)

	// A witness may add its signature.
	witness, _ := rootKey(t, "witness.example")
	cosigned, err := note.Sign(&note.Note{Text: n.Text, Sigs: n.Sigs}, witness)
	require.NoError(t, err)
	_, err = OpenCheckpoint(string(cosigned), c.Origin, pub(key))
	require.NoError(t, err)
}

func TestOpenCheckpointFindsEveryFlip(t *testing.T) {
	key := testKey("pack")
	text, err := SignCheckpoint(Checkpoint{Origin("tnt_1"), 1234, LeafHash(nil)}, key)
	require.NoError(t, err)
	for i := range len(text) {
		for bit := range 8 {
			b := []byte(text)
			b[i] ^= 1 << bit
			_, err := OpenCheckpoint(string(b), Origin("tnt_1"), pub(key))
			require.Error(t, err, "byte %d, bit %d", i, bit)
		}
	}
	_, err = OpenCheckpoint(text, Origin("tnt_2"), pub(key))
	require.Error(t, err)
	_, err = OpenCheckpoint(text, Origin("tnt_1"), pub(testKey("other")))
	require.Error(t, err)
}

func TestOpenCheckpointIsStrict(t *testing.T) {
	key := testKey("pack")
	signer, err := newNoteSigner("muniment/tnt_1", key)
	require.NoError(t, err)
	root := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, body := range []string{
		"muniment/tnt_1\n007\n" + root + "\n",
		"muniment/tnt_1\n+7\n" + root + "\n",
		"muniment/tnt_1\n7\n" + root + "\nextension\n",
		"muniment/tnt_1\n7\nAA==\n",
		"muniment/tnt_2\n7\n" + root + "\n",
		"muniment/tnt_1\n7\n",
	} {
		text, err := note.Sign(&note.Note{Text: body}, signer)
		require.NoError(t, err)
		_, err = OpenCheckpoint(string(text), "muniment/tnt_1", pub(key))
		require.Error(t, err, body)
	}
	good, err := SignCheckpoint(Checkpoint{"muniment/tnt_1", 7, Hash{}}, key)
	require.NoError(t, err)
	line := good[strings.Index(good, "\n\n")+2:]
	_, err = OpenCheckpoint(good+line, "muniment/tnt_1", pub(key))
	require.ErrorIs(t, err, ErrNotCanonical, "one signature, twice")
	_, err = SignCheckpoint(Checkpoint{Origin: "with space", Size: 1}, key)
	require.Error(t, err)
}
