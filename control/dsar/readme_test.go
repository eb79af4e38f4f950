package dsar

import (
	"bytes"
	"encoding/csv"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/gate"
)

// TestReadme: a bundle has a README that says of each file what it is and how many rows it has, also of
// an empty one. A CSV file begins with a byte order mark if that was requested. verify accepts all.
func TestReadme(t *testing.T) {
	h := newFixture(t, nil)
	h.deliver(delivery{subject: "ann", right: "rgh_a", substrate: gate.CTV})
	for _, f := range []Format{JSON, CSV, NDJSON, Parquet} {
		for _, requested := range []Job{of("ann"), of("nobody"), full()} {
			for _, bom := range []bool{false, f == CSV} {
				requested.Format, requested.BOM = f, bom
				v := h.export(requested)
				require.Equal(t, bom, v.BOM)
				bundle := h.bundle(v)
				status, report := h.verified(bundle)
				require.Zero(t, status, report)
				all := sections(t, bundle)
				about := string(all["README"])
				require.Contains(t, about, v.ID)
				require.NotContains(t, about, "ann")
				for name, text := range all {
					if name == "README" || name == "manifest" {
						continue
					}
					require.NotEmpty(t, abouts[name], name)
					require.Contains(t, about, "\n"+name+f.extension()+": ")
					require.Contains(t, about, abouts[name])
					switch f {
					case NDJSON:
						require.Equal(t, len(text) == 0, strings.Contains(about, "\n"+name+".ndjson: no rows, so the file is empty."), name)
					case CSV:
						require.Equal(t, bom, bytes.HasPrefix(text, []byte(route.ByteOrderMark)), name)
						_, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
						require.NoError(t, err)
					}
				}
				require.Equal(t, f == CSV && bom, strings.Contains(about, "byte order mark"))
			}
		}
	}
}

// TestMarkOfOtherFormats: only CSV files may begin with a byte order mark.
func TestMarkOfOtherFormats(t *testing.T) {
	server := newFixture(t, nil).serve()
	for body, want := range map[string]int{
		`{"scope":{"kind":"TENANT_FULL"},"format":"CSV","bom":true}`: 200, `{"scope":{"kind":"TENANT_FULL"},"bom":true}`: 422, `{"scope":{"kind":"TENANT_FULL"},"format":"NDJSON","bom":true}`: 422,
	} {
		request := httptest.NewRequest("POST", "/v1/compliance/dsar", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, request)
		require.Equal(t, want, answer.Code, "%s: %s", body, answer.Body)
	}
}
