package canonical

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestObjectEnds: a brace or a quotation mark inside a string ends nothing.
func TestObjectEnds(t *testing.T) {
	for text, object := range map[string]string{
		`{"a":"}"}rest`:          `{"a":"}"}`,
		`{"a":"\"}","b":[{}]}}`:  `{"a":"\"}","b":[{}]}`,
		`{"a":"\\"}"`:            `{"a":"\\"}`,
		`{"a":"\\\"\\"},"b":"x"`: `{"a":"\\\"\\"}`,
		`{"":{"b":""}},`:         `{"":{"b":""}}`,
		`{"a":"`:                 "",
		`{"a":"\`:                "",
		`{"a":"\"`:               "",
		`{"a":"\"}`:              "",
		`{"a":"b"`:               "",
		`["a"]`:                  "",
	} {
		s := Scanner{Text: text}
		require.Equal(t, object, s.Object(), text)
		require.Equal(t, object == "", s.Fault != nil, text)
	}
}
