package hostile

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestBodiesOfStrangersOnEveryPath: on each path of the document and of the pages beside it, a body without a key, or with one that
// isn't valid, is refused before it is read: too large by its length or by a chunk's; and half-sent while strangers of the
// address have as many as they may, with a time to come again. A caller with a key is served all the while.
func TestBodiesOfStrangersOnEveryPath(t *testing.T) {
	server := systemtest.NewService(t).Server
	tenant := systemtest.SettleIn(t, server)
	known := systemtest.Document(t, server)
	var targets []string
	for _, id := range slices.Sorted(maps.Keys(known)) {
		o := known[id].Operation
		targets = append(targets, o.Method+" "+systemtest.Resource.ReplaceAllString(o.Path, "x"))
	}
	for _, path := range []string{"/", "/console", "/console/sign-in", "/console/rights/new", "/payee/x", "/v1/nowhere", "/adapters/broadsign"} { // mounted beside the document
		targets = append(targets, "POST "+path)
	}
	const most = 1 << 20
	half := strings.Repeat("x", 64<<10)
	send := func(target, key, framing, body string) net.Conn {
		c, err := net.Dial("tcp", systemtest.HostPort(server.API))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		if key != "" {
			key = "Authorization: Bearer " + key + "\r\n"
		}
		_, _ = io.WriteString(c, fmt.Sprintf("%s HTTP/1.1\r\nHost: m\r\n%s%s\r\n\r\n%s", target, key, framing, body)) // it may be refused before
		return c
	}
	answerOf := func(c net.Conn) (status int, again string) {
		defer c.Close()
		assert.NoError(t, c.SetReadDeadline(time.Now().Add(15*time.Second)))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil { // the caller reports which
			return 0, ""
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	lengths := []string{fmt.Sprint("Content-Length: ", most), "Transfer-Encoding: chunked"}
	begins := []string{"", fmt.Sprintf("%x\r\n", most)}
	var filling sync.Mutex
	var held []net.Conn
	hold := func() { // an address's share, until the server has waited long enough for the rest
		filling.Lock()
		defer filling.Unlock()
		for range 8 {
			held = append(held, send("POST /v1/rights", "", lengths[0], strings.Repeat("x", most-1)))
		}
	}
	empty := func() {
		for _, c := range held {
			c.Close()
		}
		held = nil
	}
	strange := "mun_test_" + strings.Repeat("a", 40)
	probe := func(targets []string) {
		hold()
		defer empty()
		var all sync.WaitGroup
		defer all.Wait()
		for _, target := range targets {
			_, path, _ := strings.Cut(target, " ")
			limit := map[string]int{"/v1/delivery": 64 << 10, "/v1/delivery/ingest-batch": 8 << 20, "/adapters/broadsign": 8 << 20}[path]
			for _, key := range []string{"", strange} {
				for n, framing := range lengths {
					all.Go(func() {
						about := target + " " + framing
						larger := []string{fmt.Sprint("Content-Length: ", max(limit, most)+1), framing}[n]
						status, _ := answerOf(send(target, key, larger, []string{"", fmt.Sprintf("%x\r\n", max(limit, most)+1)}[n]))
						if path == "/v1/delivery/ingest-batch" && n == 1 {
							assert.Contains(t, []int{401, 413}, status, about)
						} else {
							assert.Equal(t, 413, status, about)
						}
						if limit > 0 {
							return // read within a bound of its own, or not without a key
						}
						again := ""
						for range 5 { // the share may not be full yet, or free again
							if status, again = answerOf(send(target, key, framing, begins[n]+half)); status == 429 {
								break
							}
							hold()
						}
						assert.Equal(t, 429, status, about)
						assert.NotEmpty(t, again, about)
					})
				}
			}
		}
	}
	for part := range slices.Chunk(targets, 16) { // fewer than the node takes at once
		probe(part)
	}
	t.Log(len(targets), "paths")
	require.Greater(t, len(targets), 120)
	require.NoError(t, tenant.Client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "LICENSE", "title": strings.Repeat("x", 200)}, nil))
}
