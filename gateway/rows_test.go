package gateway

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
)

// TestHostileEnvelopes: what stands beside the rows of a body is bounded, and costs no more than
// the body itself.
func TestHostileEnvelopes(t *testing.T) {
	different := new(strings.Builder)
	for i := 0; different.Len() < maxBatchBody-64; i++ {
		fmt.Fprintf(different, `"%x":0,`, i)
	}
	members := strings.TrimSuffix(different.String(), ",")
	for name, c := range map[string]struct{ body, field string }{
		"one name, again and again": {`{` + strings.Repeat(`"":0,`, maxBatchBody/5-16) + `"rows":[]}`, "body"},
		"many names":                {`{` + members + `,"rows":[]}`, "body"},
		"an object of many names":   {`{"x":{` + members + `},"rows":[]}`, "x"},
		"a long name":               {`{"` + strings.Repeat("x", maxBatchBody-64) + `":{"a":0,"a":0},"rows":[]}`, strings.Repeat("x", 256) + "…"},
		"a long vendor":             {`{"vendor":"` + strings.Repeat("x", maxBatchBody-64) + `","rows":[]}`, "vendor"},
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(c.body), maxBatchBody)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := readJSON([]byte(c.body), new(issue.Batch))
			runtime.ReadMemStats(&after)
			e := api.From(err)
			require.Equal(t, api.ValidationFailed, e.Code)
			require.Equal(t, c.field, e.Field)
			if !raced {
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*maxBatchBody))
			}
		})
	}
	var b issue.Batch
	require.NoError(t, readJSON([]byte(`{"x":"`+strings.Repeat("x", maxMember-2)+`","rows":[{}],"vendor":"acme"}`), &b))
	require.Equal(t, issue.Batch{Vendor: "acme", Rows: []issue.Row{{JSON: []byte("{}")}}}, b)
}
