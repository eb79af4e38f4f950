package idempotency

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestKept holds the index against a plain list. Marks are few, so that keys crowd in
// the same slots, wrap around its end, and differ in nothing but the rest.
func TestKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := kept{limit: rapid.IntRange(1, 300).Draw(t, "limit")}
		marks := rapid.SampledFrom([]uint32{0, 1, 2, 3, 6, 7, 1<<32 - 2, 1<<32 - 1})
		var keys []claimKey // oldest first
		places := map[claimKey]Place{}
		for step := range rapid.IntRange(1, 500).Draw(t, "steps") {
			key := claimKey{byte(rapid.IntRange(0, 40).Draw(t, "rest"))}
			binary.LittleEndian.PutUint32(key[8:], marks.Draw(t, "mark"))
			if len(keys) > 0 && rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				k.drop()
				delete(places, keys[0])
				keys = keys[1:]
			}
			p := Place{offset: int64(step)}
			k.put(&key, p)
			if _, known := places[key]; !known {
				if keys = append(keys, key); len(keys) > k.limit {
					delete(places, keys[0])
					keys = keys[1:]
				}
			}
			places[key] = p

			require.Equal(t, len(keys), k.n)
			require.Equal(t, keys[0], k.oldest().key)
			wrong := 0
			for key, want := range places {
				if got, found := k.get(&key); !found || got != want {
					wrong++
				}
			}
			require.Zero(t, wrong)
			other := key
			other[1] = 1
			_, found := k.get(&other)
			require.False(t, found, "a mark is not a key")
		}
	})
	require.Nil(t, new(kept).oldest())
}
