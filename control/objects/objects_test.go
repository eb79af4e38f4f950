package objects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

// newBucket opens a bucket of a server that is not ours.
func newBucket(t *testing.T, parameters string) (b *bucket, backend *s3mem.Backend) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend = s3mem.New()
	require.NoError(t, backend.CreateBucket("bundles"))
	server := httptest.NewTLSServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	b, err := openBucket("s3://bundles?region=eu-central-1&endpoint="+server.URL+parameters, "application/zip", server.Client().Transport)
	require.NoError(t, err)
	return b, backend
}

// TestPlaces: a folder and a bucket keep objects in the same way.
func TestPlaces(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) Place{
		"folder": func(t *testing.T) Place {
			f, err := openFolder(filepath.Join(t.TempDir(), "bundles"))
			require.NoError(t, err)
			return f
		},
		"bucket":                func(t *testing.T) Place { b, _ := newBucket(t, ""); return b },
		"bucket below a prefix": func(t *testing.T) Place { b, _ := newBucket(t, "&prefix=exports/"); return b },
	} {
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
