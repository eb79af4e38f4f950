package statement

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"

	"muniment.example/control/paper"
	"muniment.example/control/route"
	"muniment.example/control/route/routetest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// served serves the service's routes to the tenant.
func (h *fixture) served() http.Handler {
	mux := http.NewServeMux()
	config := huma.DefaultConfig("test", "v1")
	config.CreateHooks = nil
	a := humago.New(mux, config)
	a.UseMiddleware(func(c huma.Context, next func(huma.Context)) {
		next(huma.WithContext(c, auth.WithPrincipal(c.Context(), auth.Principal{Key: &api.Key{ID: "key_a", TenantID: tenantID}})))
	})
	h.Routes(a)
	return routetest.Declared(a.OpenAPI()).Watch(h.t, mux)
}

// TestForms: the forms of a statement as get-statement sends them, whole and of one payee, and what it refuses.
func TestForms(t *testing.T) {
	h := newFixture(t, t.TempDir())
	disputed := h.play("rgh_b", on(1))
	h.play("rgh_a", on(1))
	first := h.mustIssue(statementFor(0, 3))
	h.play("rgh_a", on(2))
	h.dispute("dsp_1", "", 0, disputed)
	one := h.issued(h.mustCorrect(first.ID).ID)
	server := h.served()
	get := func(id, query string) *httptest.ResponseRecorder {
		t.Helper()
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/settlement/statements/"+id+query, nil))
		return w
	}
	file := func(id, query, kind, name string) string {
		t.Helper()
		w := get(id, query)
		require.Equal(t, 200, w.Code, w.Body)
		require.Equal(t, kind, w.Header().Get("Content-Type"))
		disposition := ""
		if name != "" {
			disposition = `attachment; filename="` + name + `"`
		}
		require.Equal(t, disposition, w.Header().Get("Content-Disposition"))
		return w.Body.String()
	}
	rows := func(text string) [][]string {
		t.Helper()
		all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		require.NoError(t, err)
		return all
	}
	const csvType, htmlType = "text/csv; charset=utf-8", "text/html; charset=utf-8"

	// Each table, with and without a byte order mark, of all and of one payee.
	for table, columns := range map[string]string{"": "lineAmount,amount", "&table=lines": "lineAmount,amount", "&table=shares": "bps,share", "&table=changes": "receipts,amount"} {
		name := one.ID + ".csv"
		if table != "" {
			name = one.ID + "-" + strings.TrimPrefix(table, "&table=") + ".csv"
		}
		text := file(one.ID, "?format=csv"+table, csvType, name)
		head, _, _ := strings.Cut(text, "\n")
		require.True(t, strings.HasSuffix(head, ","+columns), head)
		require.Len(t, rows(text), map[string]int{"": 2, "&table=lines": 2, "&table=shares": 3, "&table=changes": 3}[table], "the head and a row for each")
		require.Equal(t, route.ByteOrderMark+text, file(one.ID, "?format=csv&bom=true"+table, csvType, name))
		require.Equal(t, text, file(one.ID, "?format=csv&bom=false"+table, csvType, name))
		w := get(one.ID, "?format=csv&payee="+h.agency+table)
		require.Regexp(t, `^attachment; filename="2026-\d{6}`+regexp.QuoteMeta(strings.TrimPrefix(name, one.ID))+`"$`, w.Header().Get("Content-Disposition"), "a payee's part has its number for a name")
		part := w.Body.String()
		require.Contains(t, part, h.agency+",Agency South")
		require.NotContains(t, part, h.studio)
		require.NotEqual(t, text, part)
	}

	// What is printed is the hash of the file.
	signed := file(one.ID, "?format=signed", "application/x-ndjson", one.ID+".json")
	sum := sha256.Sum256([]byte(signed))
	page := file(one.ID, "?format=html", htmlType, "")
	require.Contains(t, page, "<code>"+hex.EncodeToString(sum[:])+"</code>")
	require.Contains(t, page, "Studio North")
	part := file(one.ID, "?format=html&payee="+h.agency, htmlType, "")
	require.Contains(t, part, hex.EncodeToString(sum[:]))
	require.NotContains(t, part, "Studio North")
	require.Equal(t, paper.PagePolicy, get(one.ID, "?format=html").Header().Get("Content-Security-Policy"))
	require.True(t, strings.HasPrefix(file(one.ID, "?format=pdf", "application/pdf", one.ID+".pdf"), "%PDF-"))
	numberOf := func(payee string) (number string) {
		require.NoError(t, h.db.Read().QueryRowContext(t.Context(), `SELECT number FROM payables WHERE statement_id = $1 AND counterparty_id = $2`, one.ID, payee).Scan(&number))
		return number
	}
	require.True(t, strings.HasPrefix(file(one.ID, "?format=pdf&payee="+h.agency, "application/pdf", numberOf(h.agency)+".pdf"), "%PDF-"))

	// The page in place of a PDF.
	h.change(`UPDATE payables SET recipient = '{"address":null,"email":null,"legalName":"株式会社","note":null,"taxId":null}' WHERE statement_id = $1 AND counterparty_id = $2`, one.ID, h.agency)
	for _, query := range []string{"?format=pdf", "?format=pdf&payee=" + h.agency} {
		require.Contains(t, file(one.ID, query, htmlType, ""), "This page is shown in place of a PDF, whose fonts lack: 株式会社")
		require.Equal(t, paper.PagePolicy, get(one.ID, query).Header().Get("Content-Security-Policy"))
	}
	file(one.ID, "?format=pdf&payee="+h.studio, "application/pdf", numberOf(h.studio)+".pdf")

	draft := h.mustDraft(statementFor(5, 6))
	h.change(`UPDATE statements SET document = '' WHERE statement_id = $1`, first.ID) // of a copy that is older
	type refusal struct {
		status int
		says   string
	}
	for query, want := range map[string]refusal{
		one.ID + "?format=html&bom=true":                       {422, `"field":"bom"`},
		one.ID + "?bom=true":                                   {422, `"field":"bom"`},
		one.ID + "?format=csv&bom=yes":                         {422, "bom"},
		one.ID + "?format=html&table=lines":                    {422, `"field":"table"`},
		one.ID + "?format=csv&table=receipts":                  {422, "table"},
		one.ID + "?payee=" + h.agency:                          {422, `"field":"payee"`},
		one.ID + "?format=signed&payee=" + h.agency:            {422, `"field":"payee"`},
		one.ID + "?format=csv&payee=cp_none":                   {422, `"field":"payee"`},
		one.ID + "?format=doc":                                 {422, "format"},
		one.ID + "?format=csv&table=changes&payee=" + h.agency: {409, "the table without payee has the changes of all together"},
		draft.ID + "?format=signed":                            {409, "statement is DRAFT"},
		"stm_none?format=csv":                                  {404, "RESOURCE_NOT_FOUND"},
		first.ID + "?format=html":                              {409, "STATE_CONFLICT"},
	} {
		id, rest, _ := strings.Cut(query, "?")
		w := get(id, "?"+rest)
		require.Equal(t, want.status, w.Code, "%s: %s", query, w.Body)
		require.Contains(t, w.Body.String(), want.says, query)
	}
	file(one.ID, "?format=csv&table=changes", csvType, one.ID+"-changes.csv")
}
