package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"muniment.example/gateway/api"
)

// bucket keeps objects in a bucket of S3, or of another store with its API.
type bucket struct {
	client     *minio.Core
	name       string
	prefix     string             // of the keys in the bucket
	mediaType  string             // of the objects
	encryption encrypt.ServerSide // nil: as the bucket has it
}

var _ Place = (*bucket)(nil)

// partSize is how much of an object is sent at a time. Each write holds one part in memory, to send
// it again if necessary. S3 takes 10,000 parts, so an object may have 156 GiB.
const partSize = 16 << 20

// parameters are those of a bucket's URL:
//
//	region          default: AWS_REGION, AWS_DEFAULT_REGION, or else the bucket is asked
//	endpoint        https://HOST:PORT or http://HOST:PORT of a store that is not AWS's
//	use_path_style  true: the bucket is in the path of requests, false: in the host's name;
//	                default: true for stores that are not AWS's
//	prefix          what keys in the bucket begin with, such as exports/
//	ssetype         AES256 or aws:kms, how objects are encrypted; default: as the bucket has it
//	kmskeyid        the key for aws:kms; default: AWS's own
var parameters = []string{"region", "endpoint", "use_path_style", "prefix", "ssetype", "kmskeyid"}

// A store whose connection neither takes nor gives a byte for silence is away, also within a body. A request is sent
// retries times in all.
const (
	silence = 20 * time.Second
	retries = 3
)

// removeFor bounds how long a failed write tries to remove its own object.
const removeFor = 30 * time.Second

// openBucket opens the bucket of a URL. A transport that is nil is that of newTransport.
func openBucket(place, mediaType string, transport http.RoundTripper) (*bucket, error) {
	u, err := url.Parse(place)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Scheme != "s3":
		return nil, fmt.Errorf("a URL of %s:// is none of a bucket: want s3://NAME?region=REGION", u.Scheme)
	case u.User != nil || u.Path != "" && u.Path != "/" || u.Fragment != "":
		return nil, errors.New("the URL may have only the bucket's name and parameters: want s3://NAME?region=REGION")
	}
	if err := s3utils.CheckValidBucketName(u.Host); err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("invalid parameters: %w", err)
	}
	for name := range query {
		if !slices.Contains(parameters, name) {
			return nil, fmt.Errorf("unknown parameter %q of the URL: known are %s", name, strings.Join(parameters, ", "))
		}
	}
	b := &bucket{name: u.Host, prefix: query.Get("prefix"), mediaType: mediaType}
	if b.encryption, err = encryption(query.Get("ssetype"), query.Get("kmskeyid")); err != nil {
		return nil, err
	}
	options := &minio.Options{
		Creds: credentials.New(&chain{}), Secure: true, Transport: transport,
		MaxRetries: retries,
		Region:     cmp.Or(query.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
	}
	host := "s3.amazonaws.com" // the client adds the region
	if text := query.Get("endpoint"); text != "" {
		endpoint, err := url.Parse(strings.TrimSuffix(text, "/"))
		if err != nil || endpoint.Scheme != "https" && endpoint.Scheme != "http" || *endpoint != (url.URL{Scheme: endpoint.Scheme, Host: endpoint.Host}) {
			return nil, fmt.Errorf("invalid endpoint %q: want https://HOST:PORT or http://HOST:PORT", text)
		}
		host, options.Secure = endpoint.Host, endpoint.Scheme == "https"
	}
	if text := query.Get("use_path_style"); text != "" {
		inPath, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("invalid use_path_style %q: want true or false", text)
		}
		options.BucketLookup = minio.BucketLookupDNS
		if inPath {
			options.BucketLookup = minio.BucketLookupPath
		}
	}
	if transport == nil {
		if options.Transport, err = newTransport(options.Secure, silence); err != nil {
			return nil, err
		}
	}
	if b.client, err = minio.NewCore(host, options); err != nil {
		return nil, err
	}
	b.client.SetS3EnableDualstack(false) // as AWS's own clients do; networks may allow only these hosts
	return b, nil
}

// newTransport makes the client library's transport, which trusts the authorities of the system, with connections that
// fail after a silence. The library itself would wait for the rest of a body without an end.
func newTransport(secure bool, silence time.Duration) (http.RoundTripper, error) {
	t, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &storeConn{c, silence}, nil
	}
	return t, nil
}

// storeConn fails when neither a read nor a write has moved for a silence. Each extends the other: HTTP's client
// waits for the response all the while that it sends a long object.
type storeConn struct {
	net.Conn
	silence time.Duration
}

func (c *storeConn) Read(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *storeConn) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// encryption returns how a store encrypts objects.
func encryption(kind, keyID string) (encrypt.ServerSide, error) {
	switch {
	case strings.EqualFold(kind, "aws:kms"):
		return encrypt.NewSSEKMS(keyID, nil)
	case keyID != "":
		return nil, errors.New("kmskeyid needs ssetype=aws:kms")
	case strings.EqualFold(kind, "AES256"):
		return encrypt.NewSSE(), nil
	case kind != "":
		return nil, fmt.Errorf("unknown ssetype %q: want AES256 or aws:kms", kind)
	}
	return nil, nil
}

func (b *bucket) Write(ctx context.Context, key string, fill func(io.Writer) error) error {
	in, out := io.Pipe()
	defer out.CloseWithError(errors.New("panic")) // has no effect once it is closed
	sent := make(chan error, 1)
	go func() {
		_, err := b.client.Client.PutObject(ctx, b.name, b.prefix+key, in, -1, minio.PutObjectOptions{
			ContentType: b.mediaType, PartSize: partSize, SendContentMd5: true, ServerSideEncryption: b.encryption,
		})
		if err != nil {
			err = fmt.Errorf("cannot store %s: %w", key, err)
		}
		in.CloseWithError(err) // of the writes from now on
		sent <- err
	}()
	filled := fill(out)
	if filled != nil { // wrapped, since io.EOF and io.ErrUnexpectedEOF themselves would end the object
		out.CloseWithError(fmt.Errorf("the content is incomplete: %w", filled))
		<-sent
		return filled
	}
	out.Close()
	err := <-sent
	if err == nil {
		return nil
	}
	// The object may exist: perhaps only the last response was lost.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeFor)
	defer cancel()
	return errors.Join(err, b.Remove(ctx, key))
}

// Create puts the file in one request, on the condition that there is no object (If-None-Match). S3 takes up to
// 5 GiB so.
func (b *bucket) Create(ctx context.Context, key, file string) error {
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	info, err := content.Stat()
	if err == nil {
		err = b.put(ctx, key, content, info.Size())
	}
	if isThere(err) {
		var object io.ReadCloser
		if object, err = b.Open(ctx, key); err == nil {
			_, err = content.Seek(0, io.SeekStart)
			err = errors.Join(cmp.Or(err, same(object, content)), object.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", key, err)
	}
	return os.Remove(file)
}

// put creates an object. The error is one of isThere if there is one already.
func (b *bucket) put(ctx context.Context, key string, content io.Reader, size int64) error {
	options := minio.PutObjectOptions{ContentType: b.mediaType, DisableMultipart: true, SendContentMd5: true, ServerSideEncryption: b.encryption}
	options.SetMatchETagExcept("*")
	_, err := b.client.Client.PutObject(ctx, b.name, b.prefix+key, content, size, options)
	if refused, ok := errors.AsType[minio.ErrorResponse](err); ok && never(refused.StatusCode) {
		return errors.Join(b.unconditional("does not implement"), err)
	}
	return away(ctx, err)
}

// unconditional is the error of a store that lacks conditional writes.
func (b *bucket) unconditional(does string) error {
	return fmt.Errorf("the store of the bucket %s %s If-None-Match, and would let two processes overwrite each other's objects: use a store that knows conditional writes", b.name, does)
}

// never reports whether a status says that the store can't do what a request wants, now or later.
func never(status int) bool {
	return status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported
}

// isThere reports whether a put failed because there is an object. A retry of a put whose response was lost fails
// so, too.
func isThere(err error) bool {
	refused, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (refused.Code == minio.PreconditionFailed || refused.StatusCode == http.StatusPreconditionFailed)
}

// CheckCreate implements Place. A store that does not know the condition puts an object twice.
func (b *bucket) CheckCreate(ctx context.Context) error {
	const content = "This store creates an object once.\n"
	for range 2 { // there may be none yet
		err := b.put(ctx, checkKey, strings.NewReader(content), int64(len(content)))
		if isThere(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot store %s: %w", checkKey, err)
		}
	}
	return b.unconditional("ignores")
}

// Ready implements Place.
func (b *bucket) Ready(ctx context.Context) error {
	found, err := b.client.BucketExists(ctx, b.name)
	if err == nil && !found {
		err = fmt.Errorf("there is no bucket %s", b.name)
	}
	return away(ctx, err)
}

// away adds a 503 to an error that says that the store does not answer now: one of the connection, of the search
// for credentials, or a response that says so. Others need an operator, those of a file of this machine among them.
func away(ctx context.Context, err error) error {
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	if _, local := errors.AsType[*fs.PathError](err); local {
		return err
	}
	if refused, ok := errors.AsType[minio.ErrorResponse](err); ok && (refused.StatusCode < http.StatusInternalServerError || never(refused.StatusCode)) {
		switch refused.StatusCode {
		case http.StatusTooManyRequests, http.StatusConflict: // another process writes the same object
		default:
			return err
		}
	}
	return errors.Join(api.Unavailable(api.EngineUnavailable, "the bucket does not answer", time.Second), err)
}

func (b *bucket) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	content, _, _, err := b.client.GetObject(ctx, b.name, b.prefix+key, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, ErrNone
	}
	if err != nil {
		return nil, away(ctx, err)
	}
	return &download{content, ctx}, nil
}

// download is the content of an object.
type download struct {
	io.ReadCloser
	ctx context.Context
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = away(d.ctx, err)
	}
	return n, err
}

func (b *bucket) List(ctx context.Context, prefix string, each func(Object) error) error {
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return fmt.Errorf("cannot list the bucket: %w", away(ctx, o.Err))
		}
		if err := each(Object{strings.TrimPrefix(o.Key, b.prefix), o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err() // then the list ended early
}

func (b *bucket) Remove(ctx context.Context, key string) error {
	err := b.client.RemoveObject(ctx, b.name, b.prefix+key, minio.RemoveObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		return fmt.Errorf("cannot delete %s: %w", key, away(ctx, err))
	}
	return nil
}

// Discard implements Place. It does nothing: nobody can read the parts of an unfinished upload, and the bucket's lifecycle
// rules delete them.
func (b *bucket) Discard(context.Context, string, func(Object) (bool, error)) error { return nil }

// Free implements Place.
func (b *bucket) Free() (int64, error) { return math.MaxInt64, nil }

// chain finds credentials where AWS's own clients do. Unlike the library's chain, it fails if it
// finds none, where that would send requests without a signature.
type chain struct{ found credentials.Provider }

func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (v credentials.Value, err error) {
	for _, p := range []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}} {
		if v, err = p.RetrieveWithCredContext(cc); err == nil && v.AccessKeyID != "" && v.SecretAccessKey != "" {
			c.found = p
			return v, nil
		}
	}
	return credentials.Value{}, fmt.Errorf("no credentials in the environment (AWS_ACCESS_KEY_ID), in the shared credentials file (AWS_PROFILE), or of a role: %v", err)
}

func (c *chain) Retrieve() (credentials.Value, error) { return c.RetrieveWithCredContext(nil) }

func (c *chain) IsExpired() bool { return c.found == nil || c.found.IsExpired() }
