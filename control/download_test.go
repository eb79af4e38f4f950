package control_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// bundleSize is the size of the bundles of these tests, many times what is sent at a time.
const bundleSize = 8 << 20

// bundle gives a tenant a job with a bundle in the fixture's folder. It returns the job's id.
func (h *fixture) bundle(key, dir string) string {
	h.t.Helper()
	job := get[string](h.t, h.call(key, "POST", "/v1/compliance/dsar", `{"scope":{"kind":"TENANT_FULL"},"format":"JSON"}`).ok(), "job", "id")
	name := filepath.Join(dir, "bundles", strings.TrimPrefix(job, "dsar:"))
	require.NoError(h.t, os.WriteFile(name, make([]byte, bundleSize), 0o600))
	h.sql(`UPDATE dsar_jobs SET state = 'READY', bundle_store_key = $1, bundle_size_bytes = $2, bundle_sha256 = '', bundle_expires_at = $3, download_secret = 'secret' WHERE job_id = $4`,
		filepath.Base(name), bundleSize, store.At(time.Now().Add(time.Hour)), job)
	return job
}

// link returns the path of a new link to a job's bundle.
func (h *fixture) link(key, job string) string {
	h.t.Helper()
	_, path, ok := strings.Cut(get[string](h.t, h.call(key, "GET", "/v1/compliance/dsar/"+job+"/bundle", "").ok(), "bundleUrl"), "/downloads/")
	require.True(h.t, ok)
	return "/downloads/" + path
}

func (h *fixture) sql(statement string, args ...any) {
	h.t.Helper()
	require.NoError(h.t, h.db.Change(h.t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(h.t.Context(), statement, args...)
		return err
	}))
}

// reader is a client that stops at the first bytes until the test lets it go on.
type reader struct {
	*httptest.ResponseRecorder
	begun chan int // how many bytes it was sent first
	goOn  chan struct{}
	once  sync.Once
}

func (r *reader) Write(b []byte) (int, error) {
	r.once.Do(func() {
		r.begun <- len(b)
		<-r.goOn
	})
	return r.ResponseRecorder.Write(b)
}

// TestDownloadsAreStreamed: a bundle is sent in pieces and its download is recorded behind the last one, and
// downloads by links have places of their own: they take none of the tenant's.
func TestDownloadsAreStreamed(t *testing.T) {
	dir := t.TempDir()
	h := newFixtureOn(t, dir, node.Config{})
	heavy := &slow{make(chan struct{}, 1), make(chan struct{})}
	close(heavy.answer)
	h.services = append(h.services, heavy)
	_, key := h.tenant()
	job := h.bundle(key, dir)
	path := h.link(key, job)
	downloaded := func() bool {
		at, err := store.One(t.Context(), h.db.Read(), "a download", store.Text, `SELECT job_id FROM dsar_jobs WHERE downloaded_at IS NOT NULL AND job_id = $1`, job)
		require.NoError(t, err)
		return at != nil
	}
	goOn := make(chan struct{})
	var reading sync.WaitGroup
	for range 8 {
		r := &reader{ResponseRecorder: httptest.NewRecorder(), begun: make(chan int, 1), goOn: goOn}
		reading.Go(func() {
			h.control().Handler().ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
			if r.Body.Len() != bundleSize {
				t.Error("it is not whole: ", r.Code, r.Body.Len())
			}
		})
		require.LessOrEqual(t, <-r.begun, 1<<20)
		require.False(t, downloaded())
	}
	h.call("", "GET", path, "").refused(429, api.RateLimited)
	require.Equal(t, 204, h.call(key, "GET", "/v1/slow-and-heavy", "").status)
	close(goOn)
	reading.Wait()
	require.True(t, downloaded())
	h.call("", "GET", path, "").refused(404, api.ResourceNotFound)
}

// TestDownloadsTakeTurns: the changes of a download wait among those of its tenant; of a tenant of the sandbox, among
// the sandbox's.
func TestDownloadsTakeTurns(t *testing.T) {
	for _, c := range []struct {
		name, busy     string // busy has changes waiting
		sandbox, ahead int    // how many of them are ahead of the download's
	}{
		{"a tenant", "", 0, 1},
		{"a tenant of the sandbox", store.SandboxOwner, 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			h := newFixtureOn(t, dir, node.Config{})
			tenantID, key := h.tenant()
			path := h.link(key, h.bundle(key, dir))
			h.sql(`UPDATE tenants SET sandbox = $1 WHERE tenant_id = $2`, c.sandbox, tenantID)

			var ran, ahead int // owned by the change that runs
			begun, end := make(chan struct{}), make(chan struct{})
			var ended sync.WaitGroup
			ended.Go(func() {
				_ = h.db.Change(t.Context(), func(*store.Tx) error { close(begun); <-end; return nil })
			})
			<-begun
			ctx := store.QueueAs(t.Context(), c.busy, false)
			for n := range 3 {
				ended.Go(func() {
					if err := h.db.Change(ctx, func(tx *store.Tx) error {
						opened, err := store.One(ctx, tx, "the event", store.Text, `SELECT event_id FROM outbox WHERE event LIKE '%dsar.download_started%'`)
						if ran++; opened == nil {
							ahead = ran
						}
						return err
					}); err != nil {
						t.Error(err)
					}
				})
				waittest.Until(t, func() bool { return h.db.WaitingChanges() == n+1 })
			}
			ended.Go(func() {
				h.control().Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
			})
			waittest.Until(t, func() bool { return h.db.WaitingChanges() == 4 })
			close(end)
			ended.Wait()
			require.Equal(t, c.ahead, ahead)
		})
	}
}
