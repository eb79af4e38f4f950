package auth

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// FuzzParseToken: what is accepted is exactly prefix, secret and checksum, and the
// token can be put together from them again. With mend the checksum is made right
// first, so that what lies behind it is reached as well.
func FuzzParseToken(f *testing.F) {
	id := fmt.Sprintf("key_01KAJ%021d", 1)
	for _, env := range []string{EnvTest, EnvLive} {
		token, _, _, err := NewKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)), env, id)
		require.NoError(f, err)
		for _, mend := range []bool{false, true} {
			f.Add(token, mend)
			f.Add(strings.ToUpper(token), mend)
			f.Add(token[1:], mend)
			f.Add(token+"0", mend)
			f.Add("", mend)
		}
	}
	f.Fuzz(func(t *testing.T, text string, mend bool) {
		if mend && len(text) > crcLen {
			body := text[:len(text)-crcLen-1]
			text = fmt.Sprintf("%s_%08x", body, crc32.ChecksumIEEE([]byte(body)))
		}
		parsed, ok := ParseToken(text)
		if !ok {
			require.Zero(t, parsed)
			return
		}
		require.True(t, api.IsID(api.PrefixKey, parsed.KeyID))
		secret, found := strings.CutPrefix(text, parsed.Prefix+"_")
		require.True(t, found)
		secret, sum := secret[:secretLen], secret[secretLen:]
		require.Equal(t, parsed.SecretHash, sha256.Sum256([]byte(secret)))
		require.Equal(t, fmt.Sprintf("_%08x", crc32.ChecksumIEEE([]byte(parsed.Prefix+"_"+secret))), sum)
		env := strings.TrimSuffix(strings.TrimPrefix(parsed.Prefix, "mun_"), "_"+strings.TrimPrefix(parsed.KeyID, string(api.PrefixKey)))
		require.Contains(t, []string{EnvTest, EnvLive}, env)
	})
}
