package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReadBearer: what is cut is no token, rather than one with a short secret.
func TestReadBearer(t *testing.T) {
	token, hash := NewBearer(NewID(PrefixNode, time.Now()))
	id, secret, _ := strings.Cut(token, ".")
	require.True(t, IsHash(hash))
	read, again, ok := ReadBearer(PrefixNode, token)
	require.True(t, ok)
	require.Equal(t, id, read)
	require.Equal(t, hash, again)
	for _, bad := range []string{
		"", ".", id, id + ".", "." + secret, token[:len(token)-1], token + "A", token + "\n", token + ".", strings.ToLower(id) + "." + secret,
		id + "." + strings.Repeat("+", len(secret)), "key_" + id[4:] + "." + secret,
	} {
		_, hash, ok := ReadBearer(PrefixNode, bad)
		require.False(t, ok, bad)
		require.Empty(t, hash, bad)
	}
}
