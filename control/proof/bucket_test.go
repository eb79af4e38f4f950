package proof

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/objects"
	"muniment.example/control/objects/s3test"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
)

// inBucket configures packs in a bucket of their own.
func inBucket(t *testing.T, between func(http.Handler) http.Handler) Config {
	t.Helper()
	place, err := objects.Open(s3test.Bucket(t, between), PackType)
	require.NoError(t, err)
	return Config{Packs: place}
}

// TestCrashAtEveryStepWithABucket is TestCrashAtEveryStep with packs in a bucket.
func TestCrashAtEveryStepWithABucket(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) { build(t, inBucket(t, nil)).crashAt(step, 3) })
	}
}

// TestProcessesWithoutASharedFolder seal at once into one bucket, and each serves what the other has sealed.
func TestProcessesWithoutASharedFolder(t *testing.T) {
	h := build(t, inBucket(t, nil))
	cfg := h.service.cfg
	cfg.Dir = t.TempDir()
	other, err := New(t.Context(), cfg)
	require.NoError(t, err)
	for range 3 {
		h.Deliver(deliveries(20)...)
		h.sealAtOnce(t, other)
		require.NoError(t, h.DB.Outbox.Drain(t.Context(), tenant))
	}
	require.Len(t, h.packs(), 3)
	require.Len(t, h.files(), 3, "who loses takes its pack away")
	ids := receipts(h.check())
	require.Len(t, ids, 60)
	for _, service := range []*Service{h.service, other} {
		h.service = service
		h.Sound(h.proven(ids[7], false))
		exported := h.exported(3, 40)
		require.Equal(t, 38, bytes.Count(exported, []byte("\n"))-1)
		for _, p := range h.packs() {
			file, err := service.folder.open(t.Context(), p)
			require.NoError(t, err)
			text, err := io.ReadAll(file)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			require.Equal(t, h.read(p.ID), text)
		}
	}
	local, err := filepath.Glob(filepath.Join(cfg.Dir, "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, local)
	for _, name := range local {
		require.True(t, strings.HasSuffix(name, nodesSuffix), "%s: a process keeps only hashes", name)
	}
}

// TestPackOfOtherBytes: an object that someone else has changed is refused, and one of a pack's name is never
// overwritten.
func TestPackOfOtherBytes(t *testing.T) {
	h := build(t, inBucket(t, nil))
	h.Deliver(deliveries(3)...)
	h.service.step = func(name string) error {
		if name == "create pack" {
			drafts, err := filepath.Glob(filepath.Join(h.Dir, "packs", tenant, "*"+draftSuffix))
			require.NoError(t, err)
			require.Len(t, drafts, 1)
			other := filepath.Join(h.Dir, "other")
			require.NoError(t, os.WriteFile(other, []byte("not ours"), 0o600))
			return h.place.Create(t.Context(), key(tenant, strings.TrimSuffix(filepath.Base(drafts[0]), draftSuffix)), other)
		}
		return nil
	}
	_, err := h.service.sealWhole(t.Context(), tenant, operator)
	require.ErrorIs(t, err, objects.ErrOther)
	require.ErrorContains(t, err, tenant+"/ppk_")
	require.Empty(t, h.packs())
	require.Len(t, h.files(), 1)
	require.Equal(t, "not ours", string(h.read(strings.TrimSuffix(h.files()[0], packSuffix))))

	h.service.step = func(string) error { return nil }
	h.seal()
	p := h.packs()[0]
	text := h.read(p.ID)
	text[len(text)/2] ^= 1
	require.NoError(t, h.place.Remove(t.Context(), key(tenant, p.ID)))
	changed := filepath.Join(h.Dir, "changed")
	require.NoError(t, os.WriteFile(changed, text, 0o600))
	require.NoError(t, h.place.Create(t.Context(), key(tenant, p.ID), changed))
	_, err = h.service.folder.open(t.Context(), p)
	require.ErrorContains(t, err, "its file is damaged")

	// One that someone has made long is not copied to the disk of the process.
	require.NoError(t, h.place.Remove(t.Context(), key(tenant, p.ID)))
	require.NoError(t, os.WriteFile(changed, make([]byte, 50<<20), 0o600))
	require.NoError(t, h.place.Create(t.Context(), key(tenant, p.ID), changed))
	counted := &countedPlace{Place: h.place}
	h.service.folder.packs = counted
	_, err = h.service.folder.open(t.Context(), p)
	require.ErrorContains(t, err, "its file is damaged")
	require.LessOrEqual(t, counted.read, p.File.Bytes+1)
}

// countedPlace counts the bytes that are read of its objects.
type countedPlace struct {
	objects.Place
	read int64
}

func (c *countedPlace) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	content, err := c.Place.Open(ctx, key)
	return &countedContent{content, c}, err
}

type countedContent struct {
	io.ReadCloser
	of *countedPlace
}

func (c *countedContent) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.of.read += int64(n)
	return n, err
}

// TestBucketAway: while the bucket does not answer, nothing is sealed, and packs are refused with a 503. Afterwards
// all of it works, and no object is left over.
func TestBucketAway(t *testing.T) {
	var away atomic.Bool
	var requests atomic.Int32
	h := build(t, inBucket(t, func(store http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if away.Load() {
				requests.Add(1)
				panic(http.ErrAbortHandler)
			}
			store.ServeHTTP(w, r)
		})
	}))
	h.Deliver(deliveries(3)...)
	h.seal()
	p := h.packs()[0]
	h.Deliver(deliveries(2)...)
	away.Store(true)
	refused := h.sealErr()
	require.Equal(t, api.EngineUnavailable, refused.Reason)
	require.Equal(t, 503, refused.HTTPStatus)
	requests.Store(0)
	_, err := h.service.folder.open(t.Context(), p)
	require.Equal(t, api.EngineUnavailable, api.From(err).Reason)
	tries := requests.Swap(0)
	require.NoError(t, os.Remove(h.service.folder.name(tenant, p.ID+nodesSuffix)))
	_, _, err = h.service.Inclusion(t.Context(), h.row(t), false)
	require.Equal(t, api.EngineUnavailable, api.From(err).Reason)
	require.Equal(t, tries, requests.Load(), "the proof waits for the bucket once")
	require.Len(t, h.packs(), 1)
	_, err = New(t.Context(), h.service.cfg)
	require.NoError(t, err, "the next start sweeps")
	away.Store(false)
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 5)
	require.Len(t, h.files(), 2)
	h.onlyOneRootOfASize()
}

// TestNoSpaceForACopy: readers of packs in a bucket get a 503 before their copies fill the disk of the process, and if
// it is full all the same.
func TestNoSpaceForACopy(t *testing.T) {
	h := build(t, inBucket(t, nil))
	h.Deliver(deliveries(3)...)
	h.seal()
	p := h.packs()[0]
	open := func() *api.Error {
		file, err := h.service.folder.open(t.Context(), p)
		if err != nil {
			return api.From(err)
		}
		require.NoError(t, file.Close())
		return nil
	}
	counted := &countedPlace{Place: h.place}
	h.service.folder.packs = counted
	free := leastFree + p.File.Bytes - 1
	h.service.folder.free = func() (int64, error) { return free, nil }
	refused := open()
	require.Equal(t, api.StorageFull, refused.Reason)
	require.Equal(t, 503, refused.HTTPStatus)
	require.Zero(t, counted.read)
	free++
	require.Nil(t, open())

	copies := 0
	h.service.step = func(name string) error {
		if name == "read pack" {
			copies++
			return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
		}
		return nil
	}
	require.Equal(t, api.StorageFull, open().Reason)
	require.NoError(t, os.Remove(h.service.folder.name(tenant, p.ID+nodesSuffix)))
	copies = 0
	_, _, err := h.service.Inclusion(t.Context(), h.row(t), false)
	require.Equal(t, api.StorageFull, api.From(err).Reason)
	require.Equal(t, 1, copies, "the proof is not tried again")
}

// row is the first of the tenant's.
func (h *fixture) row(t *testing.T) pipeline.Row {
	rows, err := h.Warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenant, Limit: 1})
	require.NoError(t, err)
	return rows[0]
}

// TestPutWhoseResponseIsLost: the library sends it again, and the store refuses that; the pack is sealed.
func TestPutWhoseResponseIsLost(t *testing.T) {
	var lost atomic.Int32
	h := build(t, inBucket(t, func(store http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && lost.Add(1) == 1 {
				store.ServeHTTP(discarded{http.Header{}}, r)
				panic(http.ErrAbortHandler)
			}
			store.ServeHTTP(w, r)
		})
	}))
	h.Deliver(deliveries(3)...)
	h.seal()
	require.EqualValues(t, 2, lost.Load())
	require.Len(t, h.files(), 1)
	h.check()
}

// TestFailedPutLeavesNoPack: a pack whose put has failed is taken away, as its id is never used again.
func TestFailedPutLeavesNoPack(t *testing.T) {
	var lost atomic.Bool
	h := build(t, inBucket(t, func(store http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && lost.Load() {
				store.ServeHTTP(discarded{http.Header{}}, r)
				panic(http.ErrAbortHandler)
			}
			store.ServeHTTP(w, r)
		})
	}))
	h.Deliver(deliveries(3)...)
	lost.Store(true)
	require.Equal(t, api.EngineUnavailable, h.sealErr().Reason)
	require.Empty(t, h.files())
	lost.Store(false)
	h.seal()
	require.Len(t, h.files(), 1)
	h.check()
}

// discarded is a response that nobody gets.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header       { return d.header }
func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) WriteHeader(int)             {}

// TestEventsOfABucket: a database that was restored reads what packs have that it does not know, wherever they are.
func TestEventsOfABucket(t *testing.T) {
	h := build(t, inBucket(t, nil))
	for range 2 {
		h.Deliver(deliveries(3)...)
		h.seal()
	}
	require.NoError(t, h.place.CheckCreate(t.Context())) // an object that is no pack
	var events [][]byte
	take := func(event []byte) error {
		events = append(events, bytes.Clone(event))
		return nil
	}
	known, err := Files(t.Context(), h.DB.Read())
	require.NoError(t, err)
	require.Len(t, known, 2)
	for _, some := range [][]File{nil, known[:1], known} {
		events = nil
		require.NoError(t, PackEvents(t.Context(), h.place, some, take))
		require.ElementsMatch(t, h.check(), events)
	}

	// A pack that the database does not know may be swept between the list and the read.
	require.NoError(t, PackEvents(t.Context(), sweptPlace{h.place, known[1].Name}, known[:1], take))
	// One that it knows must be there, as it was sealed.
	require.ErrorIs(t, PackEvents(t.Context(), sweptPlace{h.place, known[1].Name}, known[1:], take), objects.ErrNone)
	name := key(tenant, h.packs()[1].ID)
	require.NoError(t, h.place.Remove(t.Context(), name))
	err = PackEvents(t.Context(), h.place, known, take)
	require.ErrorIs(t, err, objects.ErrNone)
	require.ErrorContains(t, err, name)
	visitors := slices.Clone(known)
	for i := range visitors {
		visitors[i].Sandbox = true
	}
	require.NoError(t, PackEvents(t.Context(), h.place, visitors, take))
	changed := filepath.Join(h.Dir, "changed")
	require.NoError(t, os.WriteFile(changed, h.read(h.packs()[0].ID), 0o600))
	require.NoError(t, h.place.Create(t.Context(), name, changed))
	require.ErrorIs(t, PackEvents(t.Context(), h.place, known, take), errDamaged)
}

// sweptPlace has lost an object since it was listed.
type sweptPlace struct {
	objects.Place
	gone string
}

func (p sweptPlace) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == p.gone {
		return nil, objects.ErrNone
	}
	return p.Place.Open(ctx, name)
}
