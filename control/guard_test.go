package control_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// parts is a service of one file that is written in two parts, with something between them.
type parts struct{ between func() }

func (s *parts) Routes(a route.API) {
	route.AddFile(a, route.Operation{ID: "get-parts", Method: http.MethodGet, Path: "/v1/parts", Tag: "Events", Access: route.Scope(api.AuditRead), Summary: "Get parts", Content: route.Content{Type: "text/plain", Note: "Parts"}},
		func(context.Context, *struct{}) (*route.File, error) {
			return &route.File{Size: route.UnknownSize, Open: func(context.Context) (func(io.Writer), error) {
				return func(to io.Writer) {
					_, _ = io.WriteString(to, "first")
					s.between()
					_, _ = io.WriteString(to, " second")
				}, nil
			}}, nil
		})
}

// TestResponsesEndWithTheirCaller: what is still written when a key is revoked or a member removed breaks off within seconds,
// also that of a request of the console; that of others goes on.
func TestResponsesEndWithTheirCaller(t *testing.T) {
	for name, ends := range map[string]bool{"nothing": false, "another": false, "the key": true, "the member": true} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			var ahead atomic.Int64
			slow := &parts{}
			h.services = append(h.services, slow)
			tenantID, _ := h.tenant()
			all := h.admin("POST", "/admin/api-keys", fmt.Sprintf(`{"tenantId":%q,"label":"all","scopes":["*"]}`, tenantID)).ok()
			key := get[string](t, all, "apiKey")
			id := func(label string) string {
				return get[string](t, h.call(key, "POST", "/v1/api-keys", fmt.Sprintf(`{"label":%q}`, label)).ok(), "key", "keyId")
			}
			reading, another := h.call(key, "POST", "/v1/api-keys", `{"label":"reading"}`).ok(), id("another")
			first := get[string](t, h.call(key, "POST", "/v1/members", `{"email":"owner@example.org","role":"owner"}`).ok(), "member", "id")
			h.signedIn("owner@example.org")
			viewer := get[string](t, h.call(key, "POST", "/v1/members", `{"email":"viewer@example.org","role":"viewer"}`).ok(), "member", "id")
			session := h.session(h.signedIn("viewer@example.org"))
			require.NotEqual(t, first, viewer)
			slow.between = func() {
				switch name {
				case "another":
					h.call(key, "DELETE", "/v1/api-keys/"+another, "").ok()
				case "the key":
					h.call(key, "DELETE", "/v1/api-keys/"+get[string](t, reading, "key", "keyId"), "").ok()
				case "the member":
					h.call(key, "DELETE", "/v1/members/"+viewer, "").ok()
				}
				ahead.Add(int64(10 * time.Second))
			}
			cfg := h.config()
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			c, err := control.New(cfg)
			require.NoError(t, err)
			w := httptest.NewRecorder()
			read := func() {
				if name == "the member" {
					require.NoError(t, c.Serve(w, t.Context(), auth.Principal{Key: session.Caller.Key}, "GET", "/v1/parts"))
					return
				}
				r := httptest.NewRequest("GET", "/v1/parts", nil)
				r.Header.Set("Authorization", "Bearer "+get[string](t, reading, "apiKey"))
				c.Handler().ServeHTTP(w, r)
			}
			if ends {
				require.PanicsWithError(t, http.ErrAbortHandler.Error(), read)
				require.Equal(t, "first", w.Body.String())
				return
			}
			read()
			require.Equal(t, "first second", w.Body.String())
		})
	}
}
