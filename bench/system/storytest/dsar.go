package storytest

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/sealer/verify"
)

// bundleOfAPerson: the data of a person is requested, exported, downloaded once by a link
// without a key, and verified offline. It says nothing of anybody else, nor does a log of the person.
func BundleOfAPerson(t *testing.T, s *systemtest.Service, log func() string) {
	for _, subject := range []string{"ann", "bob", "ann"} {
		s.Post("/v1/delivery", map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "screen-7", "dwellMs": 8000, "dataSubjectId": subject, "telemetry": map[string]any{"viewable": subject == "ann"}}, nil)
	}
	require.Equal(t, 3, s.Metered())
	id := s.Export(map[string]any{"scope": map[string]any{"kind": "DATA_SUBJECT", "dataSubjectId": "ann"}, "format": "CSV"})
	ready := s.Exported(id)
	require.Equal(t, "READY", ready.State)
	require.Equal(t, s.Client.API+"/v1/compliance/dsar/"+strings.ReplaceAll(id, "%3A", ":")+"/bundle", ready.Delivery.BundleURL)
	var link struct {
		BundleURL string
		Job       systemtest.Exported
	}
	s.Get("/v1/compliance/dsar/"+id+"/bundle", &link)
	require.Equal(t, link.BundleURL, link.Job.Delivery.BundleURL)
	require.True(t, strings.HasPrefix(link.BundleURL, s.Client.API+"/downloads/"))

	do := func(url string) *http.Response {
		resp, err := http.Get(url)
		require.NoError(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	for i := range link.BundleURL[len(s.Client.API+"/downloads/"):] { // a link that was changed is none
		at := len(s.Client.API+"/downloads/") + i
		if i%7 == 0 && link.BundleURL[at] != '.' {
			bad := link.BundleURL[:at] + string('A'+(link.BundleURL[at]+1)%26) + link.BundleURL[at+1:]
			if bad != link.BundleURL {
				require.Equal(t, 404, do(bad).StatusCode)
			}
		}
	}
	resp := do(link.BundleURL)
	require.Equal(t, 200, resp.StatusCode)
	for name, want := range map[string]string{
		"Content-Type": "application/zip", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
	} {
		require.Equal(t, want, resp.Header.Get(name), name)
	}
	require.True(t, strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment; "))
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	j := s.Await(id, func(j systemtest.Exported) bool { return j.Delivery.DownloadedBy != "" })
	require.EqualValues(t, len(text), j.Delivery.BundleSizeBytes)
	require.Equal(t, ready.Delivery.BundleURL, j.Delivery.BundleURL)
	require.Equal(t, 404, do(link.BundleURL).StatusCode, "it is used up")
	s.AwaitEvent("dsar.downloaded")

	file := filepath.Join(t.TempDir(), "bundle.zip")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	var out bytes.Buffer
	require.Equal(t, verify.ExitSound, verify.Files(context.Background(), verify.Options{Files: []string{file}, Root: filepath.Join(s.Data, "keys", "root.vkey")}, &out), out.String())
	r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	for _, f := range r.File {
		in, err := f.Open()
		require.NoError(t, err)
		section, err := io.ReadAll(in)
		require.NoError(t, err)
		require.NotContains(t, string(section), "bob", f.Name)
		if f.Name == "deliveries.csv" {
			require.Contains(t, string(section), `""viewable"":true`)
			require.NotContains(t, string(section), `""viewable"":false`)
			records, err := csv.NewReader(bytes.NewReader(section)).ReadAll()
			require.NoError(t, err)
			require.Len(t, records, 3)
		}
	}
	said := log()
	for _, secret := range []string{link.BundleURL[len(s.Client.API+"/downloads/"):], "ann"} {
		require.NotContains(t, said, `"`+secret+`"`)
		require.NotContains(t, said, "/downloads/"+secret)
	}
}

// workersKilled: whenever a process is killed while it exports, it hands over, and each job ends.
func WorkersKilled(t *testing.T, s *systemtest.Service, kills int, kill func(id string)) {
	for range 50 {
		s.Post("/v1/delivery", map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "screen-7", "dwellMs": 8000, "dataSubjectId": "ann"}, nil)
	}
	for range kills {
		id := s.Export(map[string]any{"scope": map[string]any{"kind": "TENANT_FULL"}, "format": "PARQUET"})
		kill(id)
		j := s.Exported(id)
		require.True(t, j.State == "READY" || j.Failure.Code != "", "%+v", j)
	}
}
