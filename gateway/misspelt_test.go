package gateway

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
)

// delivered returns the status and field of a delivery's response; the handler is called without a
// socket.
func (w *world) delivered(ctx *fasthttp.RequestCtx, body string) (status int, field string) {
	ctx.Request.SetBodyString(body)
	ctx.Response.Reset()
	w.gateway.handle(ctx)
	var answer api.ErrorBody
	require.NoError(w.t, json.Unmarshal(ctx.Response.Body(), &answer))
	return ctx.Response.StatusCode(), answer.Field
}

// member is a member of an object, of any name.
func member(name string) string {
	text, err := json.Marshal(name)
	if err != nil {
		panic(err) // cannot happen: a text always has a form in JSON
	}
	return string(text) + ":null"
}

// TestMisspeltNamesAreRefused: beside all that is right, a name that stands for a known one is
// refused, in every body; nothing is signed.
func TestMisspeltNamesAreRefused(t *testing.T) {
	random := 10_000
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		random = 300_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	misspelt := func(names []string, draw int) (all []string) {
		for _, name := range names {
			all = slices.AppendSeq(all, issuetest.Misspellings(name))
		}
		for range draw {
			all = append(all, issuetest.Misspell(r, names[r.IntN(len(names))]))
		}
		slices.Sort(all)
		all = slices.Compact(all)
		return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(names, name) })
	}
	w := newWorld(t, nil)
	ctx := benchRequest(w.token)
	status, _ := w.delivered(ctx, w.body())
	require.Equal(t, 200, status)
	before := len(w.log.All())

	body := strings.TrimSuffix(w.body(), "}")
	for _, name := range misspelt(api.ObservationNames.All(), random) {
		if status, field := w.delivered(ctx, body+","+member(name)+"}"); status != 422 || field != name {
			t.Fatalf("a delivery with %q: %d %s", name, status, ctx.Response.Body())
		}
	}
	var rows []string
	names := misspelt(api.RowNames.All(), random)
	for n, name := range names {
		rows = append(rows, w.row(fmt.Sprint(n), ","+member(name)))
	}
	for from := 0; from < len(rows); from += 1000 {
		to := min(from+1000, len(rows))
		for n, result := range w.ingested(w.send("application/json", inJSON(rows[from:to]...))).Results {
			if result.Status != "rejected" || result.Error.Code != api.ValidationFailed || result.Error.Field != names[from+n] {
				t.Fatalf("a row with %q: %+v", names[from+n], result)
			}
		}
	}
	for n, name := range misspelt(api.IngestBatchNames.All(), 0) {
		got := w.send("application/json", `{"rows":[`+w.row(fmt.Sprint(n), "")+`],`+member(name)+`}`)
		require.Equal(t, []any{422, name}, []any{got.status, field(t, got)}, got.body)
	}
	require.Len(t, w.log.All(), before)

	// The others of a batch are delivered.
	got := w.ingested(w.send("application/json", inJSON(w.row("a", ""), w.row("b", `,"multipler":2`), w.row("c", `,"impressions":2`))))
	require.Equal(t, []string{"accepted", "rejected", "accepted"}, statuses(got))
	require.Equal(t, "is unknown: did you mean multiplier?", got.Results[1].Error.ValidationErrors[0].Message)
	require.Len(t, w.log.All(), before+2)
}
