package gateway

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// keyOf is the id of the key that a token is of.
func keyOf(token string) string {
	return string(api.PrefixKey) + strings.Split(token, "_")[2]
}

// TestControlIsToldOfRefusedRequests by key and code, and when keys were used. What a stranger sends is in none of it, also
// if it names a key.
func TestControlIsToldOfRefusedRequests(t *testing.T) {
	w := newWorld(t, nil)
	w.warm()
	w.raw(request(w.readToken, w.body()))                                            // 403; the key is known from now on
	w.raw(request(w.token, w.body(), "Transfer-Encoding: chunked"))                  // 400, framing that is refused unread
	w.post(`{"rightId":"` + rightID(99) + `","spatialAnchorId":"ada","dwellMs":1}`)  // 404
	w.post(`{"rightId":"` + w.suspended + `","spatialAnchorId":"ada","dwellMs":1}`)  // 409
	w.post(`{"rightId":"` + w.right + `","spatialAnchorId":"ada"}`)                  // 422
	w.post(`{"rightId":"` + w.right + `","spatialAnchorId":"ada","Dwell_Ms":"ada"}`) // 422
	w.post(strings.Repeat(" ", maxDeliveryBody+1))                                   // 413, before the key is looked at
	guessed, _, _, err := auth.NewKey(rand.Reader, strings.Split(w.token, "_")[1], keyOf(w.token))
	require.NoError(t, err)
	require.Equal(t, 401, w.raw(request(guessed, w.body())).status)
	w.raw(request("", w.body()))

	key, reader := keyOf(w.token), keyOf(w.readToken)
	want := map[api.Refusals]int64{}
	for _, r := range []api.Refusals{
		{KeyID: reader, Status: 403, Code: api.ScopeMissing, Cause: "delivery:write"},
		{KeyID: key, Status: 400, Code: api.BadRequest},
		{KeyID: key, Status: 404, Code: api.ResourceNotFound},
		{KeyID: key, Status: 409, Code: api.StateConflict},
		{KeyID: key, Status: 413, Code: api.BadRequest},
		{KeyID: key, Status: 422, Code: api.ValidationFailed, Cause: "dwellMs"},
		{KeyID: key, Status: 422, Code: api.ValidationFailed},
	} {
		r.TenantID, r.Operation, r.RequestID = "tnt_a", api.OperationDelivery, "req-1"
		r.First, r.Last = today.Unix()/60, today.Unix()/60
		want[r] = 1
	}
	var got map[api.Refusals]int64
	waittest.Until(t, func() bool {
		got = map[api.Refusals]int64{}
		total := int64(0)
		for _, r := range w.control.KeyUses().Refused {
			n := r.Count
			r.Count, total = 0, total+n
			got[r] += n
		}
		return total >= int64(len(want))
	})
	require.Equal(t, want, got)
	require.ElementsMatch(t, []api.KeyUse{{KeyID: key, TenantID: "tnt_a", Minute: today.Unix() / 60}, {KeyID: reader, TenantID: "tnt_a", Minute: today.Unix() / 60}}, w.control.KeyUses().Used)
}

// TestRefusalsWaitForControl: while it is away they are counted on.
func TestRefusalsWaitForControl(t *testing.T) {
	w := newWorld(t, nil)
	w.warm()
	w.control.Fail(errors.New("away"))
	for range 3 {
		w.post(`{"rightId":"` + w.suspended + `","spatialAnchorId":"a","dwellMs":1}`)
		before := w.metric("muniment_rights_feed_errors_total", "")
		waittest.Until(t, func() bool { return w.metric("muniment_rights_feed_errors_total", "") > before+1 })
	}
	require.Empty(t, w.control.KeyUses().Refused)
	w.control.Fail(nil)
	waittest.Until(t, func() bool {
		n := int64(0)
		for _, r := range w.control.KeyUses().Refused {
			n += r.Count
		}
		return n == 3
	})
}
