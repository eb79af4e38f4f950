package dsar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Bundles stores bundles: in a folder, or in a bucket that all processes share.
type Bundles struct{ storage }

// OpenBundles opens a folder, which it creates if it is missing, or the URL of a bucket, such as
// s3://name?region=eu-central-1. It makes no request to the bucket.
func OpenBundles(place string) (*Bundles, error) {
	if strings.Contains(place, "://") {
		b, err := openBucket(place, nil)
		if err != nil {
			return nil, fmt.Errorf("cannot open the bucket for bundles: %w", err)
		}
		return &Bundles{b}, nil
	}
	f, err := openFolder(place)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder for bundles: %w", err)
	}
	return &Bundles{f}, nil
}

// storage keeps objects by keys, which may contain slashes. Each key is written at most once. Safe
// for concurrent use.
type storage interface {
	// write writes an object with the content that fill writes. When it returns nil, the object
	// survives a crash of the machine; after an error there is no object.
	write(ctx context.Context, key string, fill func(io.Writer) error) error
	// open returns the content of an object, which the caller closes. If there is no object, the error
	// is errNoObject.
	open(ctx context.Context, key string) (io.ReadCloser, error)
	// list calls each for the objects whose keys begin with prefix, in any order, until it fails. each
	// may remove its object.
	list(ctx context.Context, prefix string, each func(object) error) error
	// remove deletes an object if it exists.
	remove(ctx context.Context, key string) error
	// discard deletes the data of unfinished writes, running or killed, whose names begin with prefix,
	// unless keep wants it: a name is the key with .<hex digits>.tmp behind it. A running write then
	// fails. A store that deletes such data by itself need not.
	discard(ctx context.Context, prefix string, keep func(object) (bool, error)) error
}

// object is an object in a list, or an unfinished one.
type object struct {
	key      string
	modified time.Time
}

var errNoObject = errors.New("there is no such object")

const bundleType = "application/zip"
