package merkle

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
)

// tlogTree is the log of x/mod/sumdb/tlog, another implementation of RFC 6962.
type tlogTree []tlog.Hash

func (s *tlogTree) add(t *testing.T, n int, event []byte) {
	t.Helper()
	hashes, err := tlog.StoredHashes(int64(n), event, s)
	require.NoError(t, err)
	*s = append(*s, hashes...)
}

func (s *tlogTree) ReadHashes(at []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(at))
	for i, n := range at {
		list[i] = (*s)[n]
	}
	return list, nil
}

func TestTreeAgreesWithTlog(t *testing.T) {
	const most = 600
	var theirs tlogTree
	var leaves []Hash
	trees := []*Tree{NewTree()}
	for n := range most {
		event := fmt.Appendf(nil, "event %d", n)
		theirs.add(t, n, event)
		leaves = append(leaves, LeafHash(event))
		next := trees[n].Clone()
		next.Append(leaves[n])
		trees = append(trees, next)

		root, err := tlog.TreeHash(int64(n+1), &theirs)
		require.NoError(t, err)
		require.Equal(t, Hash(root), next.Root(), "size %d", n+1)
		require.Equal(t, Hash(tlog.RecordHash(event)), leaves[n])
	}

	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		n := 2 + r.IntN(most-1)
		m := 1 + r.IntN(n-1)
		restored, err := RestoreTree(uint64(m), trees[m].State())
		require.NoError(t, err)
		proof, err := restored.Consistency(leaves[m:n])
		require.NoError(t, err)
		require.Equal(t, trees[m].Root(), restored.Root(), "the tree stays as it is")

		want, err := tlog.ProveTree(int64(n), int64(m), &theirs)
		require.NoError(t, err)
		require.Len(t, proof, len(want))
		for i := range want {
			require.Equal(t, Hash(want[i]), proof[i], "%d to %d, node %d", m, n, i)
		}
		rootM, rootN := trees[m].Root(), trees[n].Root()
		require.NoError(t, VerifyConsistency(uint64(m), uint64(n), rootM, rootN, proof))

		// The verifier gets the old tree back out of the proof.
		before, err := TreeBefore(uint64(m), uint64(n), rootM, proof)
		require.NoError(t, err)
		require.Equal(t, trees[m].State(), before.State())
		if m&(m-1) != 0 {
			_, err = TreeBefore(uint64(m), uint64(n), rootN, proof)
			require.Error(t, err, "another root")
		}

		spoilt := append([]Hash(nil), proof...)
		switch k := r.IntN(4); {
		case k == 0:
			rootM[r.IntN(32)] ^= 1
		case k == 1:
			rootN[r.IntN(32)] ^= 1
		case k == 2 && len(spoilt) > 0:
			spoilt[r.IntN(len(spoilt))][0] ^= 1
		default:
			spoilt = append(spoilt, Hash{})
		}
		require.Error(t, VerifyConsistency(uint64(m), uint64(n), rootM, rootN, spoilt))
	}
}

func TestEmptyTree(t *testing.T) {
	require.Equal(t, Hash(sha256.Sum256(nil)), NewTree().Root())
	empty, err := RestoreTree(0, nil)
	require.NoError(t, err)
	require.Equal(t, NewTree().Root(), empty.Root())
	proof, err := empty.Consistency([]Hash{LeafHash(nil)})
	require.NoError(t, err)
	require.Empty(t, proof)
}

func TestRestoreTreeRefuses(t *testing.T) {
	_, err := RestoreTree(3, []Hash{{}})
	require.Error(t, err)
}

// TestStateAsText: heads that are stored read the same for ever.
func TestStateAsText(t *testing.T) {
	tree := NewTree()
	for range 3 {
		tree.Append(LeafHash(nil))
	}
	text, err := json.Marshal(tree.State())
	require.NoError(t, err)
	require.Equal(t, `["_kPWavpKmlxPnJ2on0_7UmNcjzQuf_tzHWjjbFmCByo","bjQLnP-zepicpUTmu3gKLHiQHT-zNzh2hRGjBhevoB0"]`, string(text))
	var state []Hash
	require.NoError(t, json.Unmarshal(text, &state))
	require.Equal(t, tree.State(), state)
	for _, bad := range []string{`["AA"]`, `[""]`, `["bjQLnP-zepicpUTmu3gKLHiQHT-zNzh2hRGjBhevoB1"]`, `["bjQLnP-zepicpUTmu3gKLHiQHT-zNzh2hRGjBhevoB0="]`} {
		require.Error(t, json.Unmarshal([]byte(bad), &state), bad)
	}
}

func TestTreeBeforeRefusesShortProofs(t *testing.T) {
	tree := NewTree()
	var leaves []Hash
	for i := range 7 {
		leaves = append(leaves, LeafHash([]byte{byte(i)}))
		tree.Append(leaves[i])
	}
	more := []Hash{LeafHash([]byte("x")), LeafHash([]byte("y"))}
	proof, err := tree.Consistency(more)
	require.NoError(t, err)
	for n := range proof {
		_, err := TreeBefore(7, 9, tree.Root(), proof[:n])
		require.Error(t, err)
	}
}

func TestHashText(t *testing.T) {
	h := Hash(sha256.Sum256([]byte("x")))
	back, err := ParseHash(h.String())
	require.NoError(t, err)
	require.Equal(t, h, back)
	_, err = ParseHash(h.String() + "=")
	require.Error(t, err)
}
