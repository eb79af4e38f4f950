// Package objects keeps objects by their keys, in a folder or in a bucket of S3 or of another store with
// its API. Processes that are given the same place share its objects.
//
// Credentials are found where AWS's own clients find them; see chain. Certificates are verified by the
// authorities of the system.
package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Open opens a folder, which it creates if it is missing, or the URL of a bucket, such as
// s3://name?region=eu-central-1. It makes no request to the bucket. mediaType is that of the objects.
func Open(place, mediaType string) (Place, error) {
	if IsBucket(place) {
		b, err := openBucket(place, mediaType, nil)
		if err != nil {
			return nil, fmt.Errorf("cannot open the bucket: %w", err)
		}
		return b, nil
	}
	f, err := openFolder(place)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder: %w", err)
	}
	return f, nil
}

// IsBucket reports whether a place is the URL of a bucket, rather than a folder.
func IsBucket(place string) bool { return strings.Contains(place, "://") }

// Place keeps objects by keys, which may contain slashes. Each key is written at most once. Safe
// for concurrent use.
type Place interface {
	// Write writes an object with the content that fill writes. When it returns nil, the object
	// survives a crash of the machine; after an error there is no object.
	Write(ctx context.Context, key string, fill func(io.Writer) error) error
	// Open returns the content of an object, which the caller closes. If there is no object, the error
	// is ErrNone.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
	// List calls each for the objects whose keys begin with prefix, in any order, until it fails. each
	// may remove its object.
	List(ctx context.Context, prefix string, each func(Object) error) error
	// Remove deletes an object if it exists.
	Remove(ctx context.Context, key string) error
	// Discard deletes the data of unfinished writes, running or killed, whose names begin with prefix,
	// unless keep wants it: a name is the key with .<hex digits>.tmp behind it. A running write then
	// fails. A store that deletes such data by itself need not.
	Discard(ctx context.Context, prefix string, keep func(Object) (bool, error)) error
	// Free is how many bytes the disk of a folder has free. A bucket has no end.
	Free() (int64, error)
}

// Object is an object in a list, or an unfinished one.
type Object struct {
	Key      string
	Modified time.Time
}

// ErrNone means that there is no object with a key.
var ErrNone = errors.New("there is no such object")
