package dsar

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/s3blob" // for s3://
	"gocloud.dev/gcerrors"

	"muniment/sealer/keyfile"
)

var _ = s3blob.Scheme

// Bundles stores bundles: in a folder, or in a bucket that all processes share.
type Bundles struct{ bucket *blob.Bucket }

// OpenBundles opens a folder, which it creates if it is missing, or the URL of a bucket, such as
// s3://name?region=eu-central-1.
func OpenBundles(ctx context.Context, place string) (*Bundles, error) {
	var b *blob.Bucket
	var err error
	if strings.Contains(place, "://") {
		b, err = blob.OpenBucket(ctx, place)
	} else if err = keyfile.MakeDir(place); err == nil {
		b, err = fileblob.OpenBucket(place, &fileblob.Options{NoTempDir: true, DirFileMode: 0o700, Metadata: fileblob.MetadataDontWrite})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the bundles in %s: %w", place, err)
	}
	return &Bundles{b}, nil
}

// Close closes the folder or bucket.
func (b *Bundles) Close() error { return b.bucket.Close() }

// write writes an object with the content that fill writes. When it returns nil, the object survives
// a crash of the machine; after an error there is no object.
func (b *Bundles) write(ctx context.Context, key string, fill func(io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // an object that is not closed yet is discarded
	var file *os.File
	w, err := b.bucket.NewWriter(ctx, key, &blob.WriterOptions{ContentType: bundleType, BeforeWrite: func(as func(any) bool) error {
		as(&file) // of a folder
		return nil
	}})
	if err != nil {
		return err
	}
	err = fill(w)
	if err == nil && file != nil {
		err = file.Sync()
	}
	if err != nil {
		cancel()
		w.Close()
		return err
	}
	if err = w.Close(); err == nil && file != nil {
		err = keyfile.Sync(filepath.Dir(file.Name()))
	}
	return err
}

const bundleType = "application/zip"

// remove deletes an object if it exists.
func (b *Bundles) remove(ctx context.Context, key string) error {
	if err := b.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("cannot delete the bundle %s: %w", key, err)
	}
	return nil
}
