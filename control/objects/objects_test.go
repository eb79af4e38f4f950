package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// newBucket opens a bucket of a server that is not ours.
func newBucket(t *testing.T, parameters string) (b *bucket, backend *s3mem.Backend) {
	backend = s3mem.New()
	require.NoError(t, backend.CreateBucket("bundles"))
	return openAt(t, gofakes3.New(backend).Server(), parameters), backend
}

// bucketOf opens a bucket of a server that behaves in another way.
func bucketOf(t *testing.T, other func(http.Handler) http.Handler) *bucket {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("bundles"))
	return openAt(t, other(gofakes3.New(backend).Server()), "")
}

func openAt(t *testing.T, store http.Handler, parameters string) *bucket {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	server := httptest.NewTLSServer(store)
	t.Cleanup(server.Close)
	b, err := openBucket("s3://bundles?region=eu-central-1&endpoint="+server.URL+parameters, "application/zip", server.Client().Transport)
	require.NoError(t, err)
	return b
}

// TestPlaces: a folder and a bucket keep objects in the same way.
func TestPlaces(t *testing.T) {
	for name, open := range places(t) {
		t.Run(name, func(t *testing.T) { testPlace(t, open(t)) })
	}
}

func testPlace(t *testing.T, s Place) {
	write := func(key string, content []byte) {
		require.NoError(t, s.Write(t.Context(), key, func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(content)) // in pieces
			return err
		}))
	}
	read := func(key string) ([]byte, error) {
		in, err := s.Open(t.Context(), key)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		return io.ReadAll(in)
	}
	keys := func(prefix string) (list []string) {
		require.NoError(t, s.List(t.Context(), prefix, func(o Object) error {
			require.WithinRange(t, o.Modified, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
			list = append(list, o.Key)
			return nil
		}))
		return list
	}
	require.Empty(t, keys(""))
	_, err := read("tnt_a/1-1.zip")
	require.ErrorIs(t, err, ErrNone)
	require.NoError(t, s.Remove(t.Context(), "tnt_a/1-1.zip"), "what is not there")

	large := bytes.Repeat([]byte("more than a part\n"), partSize/16) // sent in two
	sum := sha256.Sum256(large)
	write("tnt_a/1-1.zip", large)
	write("tnt_a/2-1.zip", []byte("x"))
	write("tnt_b/1-1.zip", []byte("small"))
	got, err := read("tnt_a/1-1.zip")
	require.NoError(t, err)
	require.Equal(t, sum, sha256.Sum256(got))
	got, err = read("tnt_a/2-1.zip")
	require.NoError(t, err)
	require.Equal(t, "x", string(got))
	require.ElementsMatch(t, []string{"tnt_a/1-1.zip", "tnt_a/2-1.zip", "tnt_b/1-1.zip"}, keys(""))
	require.ElementsMatch(t, []string{"tnt_a/1-1.zip", "tnt_a/2-1.zip"}, keys("tnt_a/"))
	require.Empty(t, keys("tnt_c/"))
	failed := errors.New("the caller")
	require.ErrorIs(t, s.List(t.Context(), "", func(Object) error { return failed }), failed)

	// Neither a failure nor the end of the caller's patience leaves an object.
	for _, size := range []int{10, 2*partSize + 1} {
		for _, fault := range []error{failed, io.EOF, io.ErrUnexpectedEOF} {
			require.ErrorIs(t, s.Write(t.Context(), "tnt_a/3-1.zip", func(w io.Writer) error {
				_, err := w.Write(make([]byte, size))
				require.NoError(t, err)
				return fault
			}), fault)
		}
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, s.Write(ctx, "tnt_a/3-1.zip", func(w io.Writer) error {
			_, err := w.Write(make([]byte, size))
			cancel()
			return err
		}), context.Canceled)
	}
	require.NotContains(t, keys(""), "tnt_a/3-1.zip")

	require.NoError(t, s.Remove(t.Context(), "tnt_a/1-1.zip"))
	_, err = read("tnt_a/1-1.zip")
	require.ErrorIs(t, err, ErrNone)
	require.NoError(t, s.List(t.Context(), "tnt_", func(o Object) error { return s.Remove(t.Context(), o.Key) }), "while they are listed")
	require.Empty(t, keys(""))
}

// TestUnfinishedFiles: what a killed process has written is no object, and is discarded unless it is
// wanted.
func TestUnfinishedFiles(t *testing.T) {
	f, err := openFolder(filepath.Join(t.TempDir(), "bundles"))
	require.NoError(t, err)
	kept, gone := "tnt_a/1-1.zip.12ab.tmp", "tnt_a/2-1.zip.34.tmp"
	require.NoError(t, os.MkdirAll(filepath.Join(f.dir, "tnt_a"), 0o700))
	for _, name := range []string{kept, gone} {
		require.NoError(t, os.WriteFile(filepath.Join(f.dir, name), []byte("half of"), 0o600))
	}
	require.NoError(t, f.List(t.Context(), "", func(o Object) error {
		require.Fail(t, "it is no object", o.Key)
		return nil
	}))
	require.NoError(t, f.Discard(t.Context(), "tnt_a/", func(o Object) (bool, error) { return o.Key == kept, nil }))
	require.FileExists(t, filepath.Join(f.dir, kept))
	require.NoFileExists(t, filepath.Join(f.dir, gone))
}

// TestURLsOfBuckets refuses what would not be done as it is written.
func TestURLsOfBuckets(t *testing.T) {
	for place, why := range map[string]string{
		"gs://bundles":                                  "a URL of gs:// is none of a bucket",
		"s3://bundles/exports":                          "only the bucket's name and parameters",
		"s3://id:secret@bundles":                        "only the bucket's name and parameters",
		"s3://b":                                        "Bucket name",
		"s3://bundles?regoin=eu":                        `unknown parameter "regoin"`,
		"s3://bundles?endpoint=minio:9000":              "invalid endpoint",
		"s3://bundles?endpoint=https://a/b":             "invalid endpoint",
		"s3://bundles?use_path_style=perhaps":           "invalid use_path_style",
		"s3://bundles?ssetype=rot13":                    "unknown ssetype",
		"s3://bundles?kmskeyid=alias/ours":              "kmskeyid needs ssetype",
		"s3://bundles?ssetype=AES256&kmskeyid=alias/us": "kmskeyid needs ssetype",
	} {
		_, err := Open(place, "application/zip")
		require.ErrorContains(t, err, why, place)
	}
	_, err := Open("s3://bundles?region=eu-central-1&ssetype=aws:kms&kmskeyid=alias/ours&use_path_style=true", "application/zip")
	require.NoError(t, err, "no request is made")
}

// TestBucketWithoutCredentials: a request without a signature would be refused without a reason.
func TestBucketWithoutCredentials(t *testing.T) {
	b, _ := newBucket(t, "")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/none")
	_, err := b.Open(t.Context(), "tnt_a/1-1.zip")
	require.ErrorContains(t, err, "no credentials")
}

// places are a folder, and buckets of servers that are not ours: one in this process, and one that the environment
// names.
func places(t *testing.T) map[string]func(t *testing.T) Place {
	all := map[string]func(t *testing.T) Place{
		"folder": func(t *testing.T) Place {
			f, err := openFolder(filepath.Join(t.TempDir(), "packs"))
			require.NoError(t, err)
			return f
		},
		"bucket":                func(t *testing.T) Place { b, _ := newBucket(t, ""); return b },
		"bucket below a prefix": func(t *testing.T) Place { b, _ := newBucket(t, "&prefix=exports/"); return b },
	}
	if url := os.Getenv("MUNIMENT_TEST_BUCKET"); url != "" {
		all["real bucket"] = func(t *testing.T) Place {
			b, err := openBucket(url+"&prefix="+rand.Text()+"/", "application/zstd", nil)
			require.NoError(t, err)
			return b
		}
	}
	return all
}

// draft makes a file for Create, on the disk of the place if that is a folder.
func draft(t *testing.T, p Place, content string) string {
	dir := t.TempDir()
	if f, ok := p.(folder); ok {
		dir = f.dir
	}
	file := filepath.Join(dir, rand.Text()+".draft")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// TestCreatedOnce: of many writers of one key one creates it, and who has other bytes never replaces them.
func TestCreatedOnce(t *testing.T) {
	for name, open := range places(t) {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			for range 2 {
				require.NoError(t, p.CheckCreate(t.Context()))
				require.NoError(t, p.Ready(t.Context()))
			}
			read := func(key string) string {
				in, err := p.Open(t.Context(), key)
				require.NoError(t, err)
				defer in.Close()
				content, err := io.ReadAll(in)
				require.NoError(t, err)
				return string(content)
			}
			for range 2 { // again with the same bytes, as another process, or as one that was killed before it could go on
				file := draft(t, p, "of one pack")
				require.NoError(t, p.Create(t.Context(), "tnt_a/ppk_1", file))
				require.NoFileExists(t, file)
			}
			for _, other := range []string{"of one pacK", "of one pack, and more", "of", ""} {
				err := p.Create(t.Context(), "tnt_a/ppk_1", draft(t, p, other))
				require.ErrorIs(t, err, ErrOther)
				require.ErrorContains(t, err, "tnt_a/ppk_1")
				require.Equal(t, "of one pack", read("tnt_a/ppk_1"))
			}
			var writers sync.WaitGroup
			results := make([]error, 8)
			for i := range results {
				file := draft(t, p, fmt.Sprint("by ", i))
				writers.Go(func() { results[i] = p.Create(t.Context(), "tnt_a/ppk_2", file) })
			}
			writers.Wait()
			created := 0
			for i, err := range results {
				if err == nil {
					created++
					require.Equal(t, fmt.Sprint("by ", i), read("tnt_a/ppk_2"))
				} else {
					require.ErrorIs(t, err, ErrOther)
				}
			}
			require.Equal(t, 1, created)

			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, p.Create(ctx, "tnt_a/ppk_3", draft(t, p, "x")), context.Canceled)
			_, err := p.Open(t.Context(), "tnt_a/ppk_3")
			require.ErrorIs(t, err, ErrNone)
			large := strings.Repeat("more than a part\n", 2*partSize/16)
			require.NoError(t, p.Create(t.Context(), "tnt_a/ppk_4", draft(t, p, large)))
			require.Equal(t, sha256.Sum256([]byte(large)), sha256.Sum256([]byte(read("tnt_a/ppk_4"))))
		})
	}
}

// TestFileSystemWithoutLinks is refused, and so is one whose links replace files. The check leaves nothing behind.
func TestFileSystemWithoutLinks(t *testing.T) {
	for _, c := range []struct {
		link func(file, name string) error
		want string
	}{
		{os.Link, ""},
		{func(file, name string) error {
			return &os.LinkError{Op: "link", Old: file, New: name, Err: syscall.EPERM}
		}, "can't link a file"},
		{func(file, name string) error { _ = os.Remove(name); return os.Link(file, name) }, "replaces a file by a link"},
	} {
		f, err := openFolder(t.TempDir())
		require.NoError(t, err)
		f.link = c.link
		if err = f.CheckCreate(t.Context()); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, f.dir+" "+c.want)
			require.ErrorContains(t, err, "use another file system, or a bucket")
			require.Empty(t, api.From(err).Reason, "a start does not wait")
		}
		left, err := os.ReadDir(f.dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// TestStoreWithoutConditions is refused: it would let two processes overwrite each other's objects.
func TestStoreWithoutConditions(t *testing.T) {
	b := bucketOf(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("If-None-Match")
			h.ServeHTTP(w, r)
		})
	})
	for range 2 { // also if another process has left the object
		require.ErrorContains(t, b.CheckCreate(t.Context()), "ignores If-None-Match")
	}
}

// TestStoreThatRefusesConditions: a store that answers that it has none is refused, and not waited for.
func TestStoreThatRefusesConditions(t *testing.T) {
	for _, status := range []int{http.StatusNotImplemented, http.StatusHTTPVersionNotSupported} {
		b := bucketOf(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("If-None-Match") != "" {
					w.WriteHeader(status)
					return
				}
				h.ServeHTTP(w, r)
			})
		})
		err := b.CheckCreate(t.Context())
		require.ErrorContains(t, err, "use a store that knows conditional writes")
		require.Empty(t, api.From(err).Reason)
	}
}

// TestLocalFailure: a file of this machine that can't be read is no outage of the bucket.
func TestLocalFailure(t *testing.T) {
	b, _ := newBucket(t, "")
	err := b.Create(t.Context(), "tnt_a/ppk_1", t.TempDir()) // which can be opened, but not read
	require.ErrorIs(t, err, syscall.EISDIR)
	require.Empty(t, api.From(err).Reason)
}

// TestStoreAway: while the store does not answer, callers get a 503; what an operator has to repair is another
// error.
func TestStoreAway(t *testing.T) {
	var status atomic.Int32
	b := bucketOf(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch s := int(status.Load()); {
			case s == 1:
				panic(http.ErrAbortHandler)
			case s != 0:
				w.WriteHeader(s)
			default:
				h.ServeHTTP(w, r)
			}
		})
	})
	require.NoError(t, b.Create(t.Context(), "tnt_a/ppk_1", draft(t, b, "x")))
	for s, reason := range map[int32]api.Reason{1: api.EngineUnavailable, 500: api.EngineUnavailable, 503: api.EngineUnavailable, 429: api.EngineUnavailable, 403: ""} {
		status.Store(s)
		file := draft(t, b, "y")
		errs := map[string]error{}
		var mu sync.Mutex
		var callers sync.WaitGroup // each tries for a while
		for what, do := range map[string]func() error{
			"create": func() error { return b.Create(t.Context(), "tnt_a/ppk_2", file) },
			"open":   func() error { _, err := b.Open(t.Context(), "tnt_a/ppk_1"); return err },
			"list":   func() error { return b.List(t.Context(), "", func(Object) error { return nil }) },
			"remove": func() error { return b.Remove(t.Context(), "tnt_a/ppk_1") },
			"check":  func() error { return b.CheckCreate(t.Context()) },
			"ready":  func() error { return b.Ready(t.Context()) },
		} {
			callers.Go(func() {
				err := do()
				mu.Lock()
				defer mu.Unlock()
				errs[what] = err
			})
		}
		callers.Wait()
		require.Len(t, errs, 6)
		for what, err := range errs {
			require.Error(t, err, "%d: %s", s, what)
			require.Equal(t, reason, api.From(err).Reason, "%d: %s: %v", s, what, err)
		}
		require.FileExists(t, file)
	}
}

// TestStoreStalls: a store that stops in the middle of a response, or of a request, is away, and no caller waits for it
// without an end.
func TestStoreStalls(t *testing.T) {
	stalls := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
		}
		<-stalls
	}))
	defer server.Close()
	defer close(stalls)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	transport, err := newTransport(false, 200*time.Millisecond)
	require.NoError(t, err)
	b, err := openBucket("s3://bundles?region=eu-central-1&endpoint="+server.URL, "application/zip", transport)
	require.NoError(t, err)
	for what, do := range map[string]func() error{
		"read": func() error {
			content, err := b.Open(t.Context(), "tnt_a/ppk_1")
			if err != nil {
				return err
			}
			defer content.Close()
			_, err = io.ReadAll(content)
			return err
		},
		"list":   func() error { return b.List(t.Context(), "", func(Object) error { return nil }) },
		"create": func() error { return b.Create(t.Context(), "tnt_a/ppk_1", draft(t, b, strings.Repeat("x", 8<<20))) },
	} {
		t.Run(what, func(t *testing.T) {
			require.Equal(t, api.EngineUnavailable, api.From(do()).Reason)
		})
	}
}

// TestLongUpload: a store that takes an object piece by piece is not away, however long that takes.
func TestLongUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, store := net.Pipe()
		defer store.Close()
		c := &storeConn{client, silence}
		answered := make(chan error, 1)
		go func() { // as HTTP's client waits for the response
			_, err := io.ReadFull(c, make([]byte, 1))
			answered <- err
		}()
		for range 10 {
			time.Sleep(silence / 2)
			go func() { _, _ = io.ReadFull(store, make([]byte, 1)) }()
			_, err := c.Write([]byte("x"))
			require.NoError(t, err)
		}
		_, err := store.Write([]byte("y"))
		require.NoError(t, err)
		require.NoError(t, <-answered)
	})
}
