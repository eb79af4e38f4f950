package issue

import (
	"bufio"
	"crypto/rand"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/issue/issuetest"
)

// TestReceiptNamesAreUnique draws the ids and nonces of a million receipts of one
// millisecond, in the full form of ten millions. They are compared by a hash of 64 bits, which would call two
// different ones equal in one run of 200,000.
func TestReceiptNamesAreUnique(t *testing.T) {
	n := 200_000
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		n = 10_000_000
	}
	seed := maphash.MakeSeed()
	ids, nonces := make([]uint64, n), make([]uint64, n)
	d := &work{workspace: new(workspace)}
	d.receipt.IssuedAt = issuetest.Today
	random := bufio.NewReaderSize(rand.Reader, 1<<16)
	for i := range n {
		_, err := io.ReadFull(random, d.random[:])
		if err != nil {
			t.Fatal(err)
		}
		d.name()
		ids[i], nonces[i] = maphash.String(seed, d.receipt.ReceiptID), maphash.String(seed, d.receipt.Nonce)
	}
	for what, drawn := range map[string][]uint64{"ids": ids, "nonces": nonces} {
		slices.Sort(drawn)
		require.Equal(t, n, len(slices.Compact(drawn)), what)
	}
}
