package idempotency

import (
	"encoding/base64"
	"strings"
	"unsafe"

	"muniment.example/sealer"
)

var (
	toIdempotency = []byte(`,"idempotency":"`)
	toIdentity    = []byte(`,"identity":{`)
	toRowHash     = []byte(`"hash":"`)
)

// HashOf finds in a delivery's event the hash that it is claimed by: that of its
// Idempotency-Key, or of its identity as a row. A member's name can't stand inside a JSON
// string: there each quotation mark has a backslash before it.
func HashOf(event []byte) (h Hash, ok bool) {
	if !strings.HasSuffix(view(event), `,"type":"`+sealer.TypeDelivery+`","v":1}`) {
		return h, false
	}
	_, rest, found := strings.Cut(view(event), view(toIdempotency))
	if !found {
		if _, rest, found = strings.Cut(view(event), view(toIdentity)); found {
			_, rest, found = strings.Cut(rest, view(toRowHash))
		}
	}
	text, _, closed := strings.Cut(rest, `"`)
	if !found || !closed || len(text) != base64.RawURLEncoding.EncodedLen(len(h)) {
		return h, false
	}
	_, err := base64.RawURLEncoding.Decode(h[:], []byte(text))
	return h, err == nil
}

// view is b as a string, without a copy: it changes with b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
