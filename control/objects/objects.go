// Package objects keeps objects by their keys, in a folder or in a bucket of S3 or of another store with
// its API. Processes that are given the same place share its objects.
//
// A store that stays silent for 20 s, also in the middle of an object, does not answer: each request to it ends with
// an error, and a caller may try again.
//
// Credentials are found where AWS's own clients find them; see chain. Certificates are verified by the
// authorities of the system.
package objects

import (
	"bytes"
	"context"
	"crypto/sha256"
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

// Check says what is wrong with the URL of a bucket, before anything is opened. Any other place is a folder.
func Check(place string) error {
	if !IsBucket(place) {
		return nil
	}
	_, err := openBucket(place, "", nil)
	return err
}

// IsBucket reports whether a place is the URL of a bucket, rather than a folder.
func IsBucket(place string) bool { return strings.Contains(place, "://") }

// Place keeps objects by keys, which may contain slashes. Each key is written at most once. Safe
// for concurrent use.
type Place interface {
	// Write writes an object with the content that fill writes. When it returns nil, the object
	// survives a crash of the machine; after an error there is no object.
	Write(ctx context.Context, key string, fill func(io.Writer) error) error
	// Create makes a file of this machine the object with a key, and removes the file, which is complete
	// and on the disk of the folder if the place is one. Unlike Write it never replaces an object, whoever
	// else creates it at that moment: if there is one, Create returns nil if its bytes are the file's, and
	// otherwise an ErrOther. When it returns nil, the object survives a crash of the machine. After
	// another error a bucket may have the object: perhaps only the response was lost.
	Create(ctx context.Context, key, file string) error
	// CheckCreate fails if the place can't keep what Create promises: not every store or file system does.
	// It leaves an object with the key of checkKey in a bucket.
	CheckCreate(ctx context.Context) error
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
	// Ready reports whether the place answers.
	Ready(ctx context.Context) error
}

// Object is an object in a list, or an unfinished one.
type Object struct {
	Key      string
	Modified time.Time
}

// ErrNone means that there is no object with a key.
var ErrNone = errors.New("there is no such object")

// ErrOther means that there is another object with a key that is to be created.
var ErrOther = errors.New("there is an object of other bytes with that name")

// checkKey is the key of the object by which CheckCreate finds out whether a store creates objects once.
const checkKey = "muniment-creates-once"

// same returns an ErrOther unless an object has the bytes of a file.
func same(object, file io.Reader) error {
	var sums [2][]byte
	for i, content := range []io.Reader{object, file} {
		hash := sha256.New()
		if _, err := io.Copy(hash, content); err != nil {
			return err
		}
		sums[i] = hash.Sum(nil)
	}
	if !bytes.Equal(sums[0], sums[1]) {
		return ErrOther
	}
	return nil
}
