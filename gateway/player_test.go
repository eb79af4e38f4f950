package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
)

// playersRoom is a gateway with a mapping for the display unit 1, and a key that a player may have.
type playersRoom struct {
	*world
	player string // the key
	holds  []api.HoldRequest
	answer func(api.HoldRequest) ([]api.HeldResult, error)
}

func newPlayersRoom(t *testing.T, change func(*settings)) *playersRoom {
	r := &playersRoom{world: newStill(t)}
	r.player = r.control.PutKey(t, 9, "tnt_a", api.Scopes(api.DeliveryWrite), false)
	r.answer = func(req api.HoldRequest) (results []api.HeldResult, err error) {
		for n := range req.Rows {
			results = append(results, api.HeldResult{HeldID: fmt.Sprint("hld_", n)})
		}
		return results, nil
	}
	r.control.SetMapping(api.Mapping{ID: api.VendorKey("tnt_a", "broadsign", "display_unit_id", "1"), TenantID: "tnt_a", Windows: []api.MappingWindow{{
		RightID: r.right, SpatialAnchorID: "wall", From: today.Add(-24 * time.Hour),
	}}}, "broadsign", "display_unit_id", "1")
	r.start(func(c *settings) {
		c.Hold = func(_ context.Context, req api.HoldRequest) ([]api.HeldResult, error) {
			r.holds = append(r.holds, req)
			return r.answer(req)
		}
		if change != nil {
			change(c)
		}
	})
	return r
}

// pop is a play of a display unit in the short form, which ended so many tenths of a second before halfPast.
func pop(unit string, ago int) string {
	return fmt.Sprintf(`[%s, 7, 1, 50, 51, 52, 1, 0, %q, 5000, "", "", ""]`, unit, halfPast.Add(-time.Duration(ago)*time.Second/10).UTC().Format("2006-01-02T15:04:05.000"))
}

func document(key string, plays ...string) string {
	return fmt.Sprintf(`{"api_key": %q, "player_id": 3, "pop": [%s]}`, key, strings.Join(plays, ","))
}

// plays posts a document as a player does.
func (r *playersRoom) plays(body string, headers ...string) reply {
	r.t.Helper()
	return r.at("/adapters/broadsign?tz=UTC", body, headers...)
}

func (r *playersRoom) at(target, body string, headers ...string) reply {
	r.t.Helper()
	return r.raw(targeted(target, "", "application/json", body, headers...))
}

func countsOf(t *testing.T, got reply) (counts api.RowCounts) {
	t.Helper()
	require.Equal(t, 200, got.status, got.body)
	var body struct {
		Data struct{ Counts api.RowCounts }
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &body))
	return body.Data.Counts
}

// TestPlayers: a player may forget its plays once each is delivered, held, or kept as rejected.
func TestPlayers(t *testing.T) {
	r := newPlayersRoom(t, nil)
	ahead := pop("1", -72000)
	broken := `[1, 7, 1, 50, 51, 52, 1, 0, "yesterday", 5000, "secret", "", ""]`
	body := document(r.player, pop("1", 10), pop("2", 20), ahead, broken)
	require.Equal(t, api.RowCounts{Accepted: 1, Unmapped: 1, Rejected: 2}, countsOf(t, r.plays(body)))
	require.Len(t, r.holds, 2)
	require.Equal(t, []string{"2", "broadsign"}, []string{r.holds[0].Rows[0].VendorID, r.holds[0].Rows[0].Format})
	kept := r.holds[1]
	require.Equal(t, []string{"tnt_a", issuetest.KeyID(9)}, []string{kept.TenantID, kept.KeyID})
	require.Contains(t, kept.Rejected[0].Error, `"field":"pop[2].end_time"`)
	require.Contains(t, kept.Rejected[1].Error, `"field":"pop[3].end_time"`)
	for _, p := range kept.Rejected {
		require.Equal(t, "broadsign", p.Format)
		require.Empty(t, p.Row)
		require.Contains(t, p.Play, `"display_unit_id":1`)
		require.Contains(t, p.Play, `"player_id":"3"`)
		require.True(t, json.Valid([]byte(p.Play)))
		require.NotContains(t, p.Play, "secret")
		require.NotContains(t, p.Play, "yesterday", "what is no number and no time may be anybody's")
	}
	require.Equal(t, api.RowCounts{Duplicate: 1, Unmapped: 1, Rejected: 2}, countsOf(t, r.plays(body)), "sent again")

	r.holds = nil
	r.control.PutRight(1, "tnt_a", 0, "", api.RightRevoked)
	waittest.Until(t, func() bool { return countsOf(t, r.plays(document(r.player, pop("1", 60)))).Rejected == 1 })
	row := r.holds[len(r.holds)-1].Rejected[0]
	require.Contains(t, row.Row, `"vendorId":"1"`, "it is a row, which can be sent again")
	require.Empty(t, row.Play)
	require.Contains(t, row.Error, `"message":`)
}

// TestPlayersSendAgain: what may do better later is not answered 200, and holds up no other play.
func TestPlayersSendAgain(t *testing.T) {
	r := newPlayersRoom(t, nil)
	away := api.Unavailable(api.ControlUnavailable, "away", time.Second)
	usual := r.answer
	var plays []string
	for n := range 2500 {
		plays = append(plays, pop("1", n))
	}
	plays[3] = pop("2", 3)
	body := document(r.player, plays...)
	r.answer = func(req api.HoldRequest) ([]api.HeldResult, error) { return nil, away }
	require.Equal(t, 503, r.plays(body).status, "a row can't be held")
	r.answer = func(api.HoldRequest) ([]api.HeldResult, error) {
		return []api.HeldResult{{Error: &api.RowError{Code: api.RateLimited, Message: "too many"}}}, nil
	}
	require.Equal(t, 429, r.plays(body).status, "the tenant holds too many")
	r.answer = usual
	require.Equal(t, api.RowCounts{Duplicate: 2499, Unmapped: 1}, countsOf(t, r.plays(body)), "the others were delivered meanwhile")

	broken := []string{}
	for n := range 70 {
		broken = append(broken, fmt.Sprintf(`{"display_unit_id": %d}`, n), `7`)
	}
	body = document(r.player, append(broken, pop("1", 9000))...)
	r.answer = func(req api.HoldRequest) ([]api.HeldResult, error) { return nil, away }
	require.Equal(t, 503, r.plays(body).status, "rejected plays can't be kept")
	r.answer, r.holds = usual, nil
	require.Equal(t, api.RowCounts{Duplicate: 1, Rejected: 140}, countsOf(t, r.plays(body)))
	kept := map[string]bool{}
	for _, h := range r.holds {
		require.LessOrEqual(t, len(h.Rejected), rejectedAtOnce)
		for _, p := range h.Rejected {
			require.False(t, kept[p.Hash], "each once")
			kept[p.Hash] = true
		}
	}
	require.Len(t, kept, 71)

	r.log.SetFail(fmt.Errorf("no"))
	require.Equal(t, 503, r.plays(document(r.player, pop("1", 9001))).status)
	r.log.SetFail(nil)
	require.Equal(t, 1, countsOf(t, r.plays(document(r.player, pop("1", 9001)))).Accepted)
}

// TestPlayersAreRefused: an error of the configuration is an error, and no play is rejected for it.
func TestPlayersAreRefused(t *testing.T) {
	r := newPlayersRoom(t, nil)
	good := document(r.player, pop("1", 1))
	every := r.control.PutKey(t, 10, "tnt_a", api.Scopes(api.DeliveryWrite|api.AuditRead), false)
	wildcard := r.control.PutKey(t, 11, "tnt_a", api.Scopes(api.Wildcard), false)
	for name, c := range map[string]struct {
		target, body, header string
		status               int
		says                 string
	}{
		"no key":                {body: `{"pop": []}`, status: 401, says: "AUTH_REQUIRED"},
		"a key of another kind": {body: `{"api_key": 7, "pop": []}`, status: 401, says: "AUTH_REQUIRED"},
		"a wrong key":           {body: document("secret of the network"), status: 401, says: "AUTH_INVALID"},
		"a key that may more":   {body: document(every), status: 403, says: "delivery:write, and no other"},
		"a key that may all":    {body: document(wildcard), status: 403, says: "delivery:write, and no other"},
		"a key that may less":   {body: document(r.readToken), status: 403, says: "delivery:write"},
		"the key in a header":   {body: `{"pop": []}`, header: "Authorization: Bearer " + r.player, status: 401, says: "api_key"},
		"not JSON":              {body: "pop=1", status: 401, says: "AUTH_REQUIRED"},
		"cut off":               {body: good[:len(good)-2], status: 400, says: "invalid JSON"},
		"two documents":         {body: good + good, status: 400, says: "one JSON object"},
		"no play but ahead":     {target: pathPlayer + "?tz=-08:00", body: document(r.player, pop("1", 1), pop("1", 2)), status: 422, says: `"field":"tz"`},
		"a long player":         {body: fmt.Sprintf(`{"api_key": %q, "player_id": %q, "pop": []}`, r.player, strings.Repeat("3", 513)), status: 400, says: "player_id"},
		"no zone":               {target: pathPlayer, body: good, status: 422, says: `"field":"tz"`},
		"another format":        {target: pathPlayer + "?format=vistar", body: good, status: 422, says: "format"},
		"an unknown parameter":  {target: pathPlayer + "?tz=UTC&player=1", body: good, status: 400, says: "unknown parameter"},
		"coded":                 {body: good, header: "Content-Encoding: gzip", status: 415, says: "Content-Encoding"},
	} {
		target, headers := c.target, []string{}
		if target == "" {
			target = pathPlayer + "?tz=UTC"
		}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		got := r.at(target, c.body, headers...)
		require.Equal(t, c.status, got.status, "%s: %s", name, got.body)
		require.Contains(t, got.body, c.says, name)
	}
	require.Empty(t, r.holds)
	require.Equal(t, 405, r.raw("GET /adapters/broadsign HTTP/1.1\r\nHost: m\r\n\r\n").status)
	require.Equal(t, 1, countsOf(t, r.plays(good, "Authorization: Bearer "+r.readToken)).Accepted, "other keys mean nothing here")
	require.Equal(t, 1, countsOf(t, r.plays("\ufeff"+good)).Duplicate)
}

// TestPlayersBodies: of a body whose key has not come, at most 1 MiB is read.
func TestPlayersBodies(t *testing.T) {
	r := newPlayersRoom(t, nil)
	n := 0
	late := func(before int) string {
		n++
		return fmt.Sprintf(`{"pop": [%s], "x": %q, "api_key": %q}`, pop("1", n), strings.Repeat("x", before), r.player)
	}
	for _, before := range []int{0, 5 << 10, 100 << 10, 900 << 10} {
		require.Equal(t, 1, countsOf(t, r.plays(late(before))).Accepted, before)
		body := late(before)
		require.Equal(t, 1, countsOf(t, r.raw("POST /adapters/broadsign?tz=UTC HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\n"+
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body))).Accepted, "in chunks")
	}
	require.Equal(t, 1, countsOf(t, r.plays(fmt.Sprintf(`{"api_key": %q, "x": %q, "pop": [%s]}`, r.player, strings.Repeat("x", 7<<20), pop("1", 99)))).Accepted, "8 MiB are read with a key")
	require.Equal(t, 413, r.raw(fmt.Sprintf("POST /adapters/broadsign?tz=UTC HTTP/1.1\r\nHost: m\r\nContent-Length: %d\r\n\r\n", 8<<20+1)).status)

	c := r.dial()
	defer c.Close()
	_, err := fmt.Fprintf(c, "POST /adapters/broadsign?tz=UTC HTTP/1.1\r\nHost: m\r\nContent-Length: %d\r\n\r\n%s", 7<<20, `{"x": "`+strings.Repeat("x", maxUnopened+8<<10))
	require.NoError(t, err)
	require.Equal(t, 401, readReply(t, bufio.NewReader(c)).status, "and the rest of the body is not waited for")
	require.Zero(t, r.gateway.batches.bytes.Load())
	require.Empty(t, r.gateway.unopened.held)
}

// TestStrangersAsPlayers: an address has a limit of bodies that don't begin with a key, and of wrong keys; and
// players with a right one behind the same address are served.
func TestStrangersAsPlayers(t *testing.T) {
	r := newPlayersRoom(t, nil)
	good := func(n int) string { return document(r.player, pop("1", n)) }
	var slow []io.Closer
	for range mostUnopened / 16 {
		c := r.dial()
		slow = append(slow, c)
		_, err := fmt.Fprintf(c, "POST /adapters/broadsign?tz=UTC HTTP/1.1\r\nHost: m\r\nContent-Length: %d\r\n\r\n%s", 1<<20, `{"x": "`+strings.Repeat("x", 32<<10))
		require.NoError(t, err)
	}
	waiting := func() int {
		r.gateway.unopened.mu.Lock()
		defer r.gateway.unopened.mu.Unlock()
		return r.gateway.unopened.all
	}
	waittest.Until(t, func() bool { return waiting() == len(slow) })
	require.Equal(t, 429, r.plays(`{"x": "`+strings.Repeat("x", 64<<10)).status)
	require.Equal(t, 1, countsOf(t, r.plays(good(1)+strings.Repeat(" ", 1<<20))).Accepted)
	for _, c := range slow {
		c.Close()
	}
	waittest.Until(t, func() bool { return waiting() == 0 })
	require.Equal(t, 401, r.plays(`{"x": "`+strings.Repeat("x", 64<<10)).status)

	statuses := map[int]int{}
	c := r.dial()
	defer c.Close()
	answers := bufio.NewReader(c)
	for range mostWrongKeys + 5 {
		_, err := io.WriteString(c, targeted(pathPlayer, "", "", document("no key"), "Connection: keep-alive"))
		require.NoError(t, err)
		got := readReply(t, answers)
		statuses[got.status]++
		if got.closes {
			c.Close()
			c = r.dial()
			answers = bufio.NewReader(c)
		}
	}
	require.Equal(t, map[int]int{401: mostWrongKeys - 1, 429: 6}, statuses, "one came before")
	require.Equal(t, 1, countsOf(t, r.plays(good(2))).Accepted)
}

// TestPlayersKeysAreNotLogged: at no level.
func TestPlayersKeysAreNotLogged(t *testing.T) {
	var out syncBuffer
	r := newPlayersRoom(t, func(c *settings) {
		c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	body := document(r.player, pop("1", 1), "7")
	r.plays(body)
	r.plays(body[:len(body)-2])
	r.at("/adapters/broadsign?api_key="+r.player, body)
	r.answer = func(api.HoldRequest) ([]api.HeldResult, error) { return nil, fmt.Errorf("a fault") }
	r.plays(body)
	require.Contains(t, out.String(), "route=player")
	require.NotContains(t, out.String(), r.player[20:40])
}
