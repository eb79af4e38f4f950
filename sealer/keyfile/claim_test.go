package keyfile

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClaim(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		held, err := Claim(dir)
		require.NoError(t, err)
		_, err = Claim(dir)
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, dir+", by process "+strconv.Itoa(os.Getpid()))
		require.NoError(t, held.Close())
	}
	_, err := Claim(dir + "/none")
	require.ErrorIs(t, err, os.ErrNotExist)
}
