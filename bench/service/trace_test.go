package service

import (
	"flag"
	"fmt"
	"html"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
	"muniment.example/pipeline/trace/tracetest"
)

var update = flag.Bool("update", false, "draw deploy/trace.svg anew")

// TestTrace follows a delivery into the warehouse of a service in one process. With -update it draws the picture of
// the page Operating, and otherwise holds the picture against the spans.
func TestTrace(t *testing.T) {
	collector := tracetest.New(t)
	s := systemtest.NewService(t, "--traces-endpoint", collector.URL, "--traces-sample", "0")
	for range 20 { // the first deliveries of a process are slow
		require.Equal(t, 200, systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: systemtest.Delivery(s.Rights["DOOH"])}).Status)
	}
	spans := storytest.Trace(t, s, collector, "muniment", "muniment", "muniment")

	const picture = "deploy/trace.svg"
	if *update {
		require.NoError(t, os.WriteFile(picture, []byte(drawn(spans)), 0o644))
	}
	text := string(systemtest.ReadFile(t, picture))
	for _, span := range spans {
		require.Contains(t, text, ">"+span.Service+"<")
		require.Contains(t, text, ">"+span.Name+"<")
	}
}

// drawn is a trace as SVG, the earliest span first: a row each, with a bar from its beginning to its end.
func drawn(spans []tracetest.Span) string {
	const width, left, right, row, top = 800, 200, 730, 34, 58
	colours := map[string]string{}
	began, ended := spans[0].Began, spans[0].Ended
	for _, s := range spans {
		ended = slices.MaxFunc([]time.Time{ended, s.Ended}, time.Time.Compare)
		if colours[s.Service] == "" {
			colours[s.Service] = []string{"#5b6b7b", "#1f6feb", "#b35900", "#2d7d46"}[len(colours)%4]
		}
	}
	at := func(moment time.Time) float64 {
		return left + float64(moment.Sub(began))/float64(ended.Sub(began))*(right-left)
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }
	var b strings.Builder
	height := top + row*len(spans) + 14
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<title>A delivery from its caller into the warehouse</title>`+"\n"+`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	for i := range 5 {
		x := left + i*(right-left)/4
		fmt.Fprintf(&b, `<line x1="%d" y1="36" x2="%d" y2="%d" stroke="#d8dee4"/><text x="%d" y="26" fill="#57606a" text-anchor="middle">%s</text>`+"\n", x, x, height-10, x, ms(ended.Sub(began)*time.Duration(i)/4))
	}
	for i, s := range spans {
		y, from, to := top+row*i, at(s.Began), at(s.Ended)
		fmt.Fprintf(&b, `<text x="12" y="%d" fill="#57606a" font-size="11">%s</text><text x="12" y="%d" fill="#1f2328">%s</text>`+"\n", y, html.EscapeString(s.Service), y+15, html.EscapeString(s.Name))
		fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="16" rx="2" fill="%s"/>`, from, y-4, max(to-from, 2), colours[s.Service])
		if x := to + 6; x < right {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#1f2328">%s</text>`+"\n", x, y+9, ms(s.Ended.Sub(s.Began)))
		} else if to-from > 70 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#ffffff" text-anchor="end">%s</text>`+"\n", to-6, y+9, ms(s.Ended.Sub(s.Began)))
		} else {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#1f2328" text-anchor="end">%s</text>`+"\n", from-6, y+9, ms(s.Ended.Sub(s.Began)))
		}
	}
	return b.String() + "</svg>\n"
}
