package dsar

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/objects"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// BundleType is the media type of a bundle.
const BundleType = "application/zip"

// linkLife is how long a link is valid.
const linkLife = 15 * time.Minute

// downloads serves the bundles by links.
type downloads struct {
	db      *store.DB
	bundles objects.Place
	scopes  Scopes
	logger  *slog.Logger

	mu    sync.Mutex
	begun map[string]*beginning // by link
}

// beginning is the first download by a link, whose event this process has written. Parts and attempts are without number,
// and who has only a link must not fill the log.
type beginning struct {
	until store.Instant // the end of the link

	mu      sync.Mutex
	written bool
}

// beginningOf is that of a link.
func (s *downloads) beginningOf(l link) *beginning {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.begun[l.token]
	if b == nil {
		now := s.db.Now()
		maps.DeleteFunc(s.begun, func(_ string, b *beginning) bool { return !now.Before(b.until.Time) })
		if b = (&beginning{until: l.until}); s.begun == nil {
			s.begun = map[string]*beginning{}
		}
		s.begun[l.token] = b
	}
	return b
}

func (s *downloads) routes(a route.API) {
	route.Add(a, route.Operation{ID: "get-dsar-bundle", Method: http.MethodGet, Path: "/v1/compliance/dsar/{jobId}/bundle", Tag: "Compliance", Access: route.Scope(api.AuditRead),
		Summary: "Get a link to the bundle of a DSAR job", Errors: []int{http.StatusConflict},
		Description: "The link works without an API key for 15 minutes, or until a download by any link to the bundle was sent to its end, and only while the key or member that made it may read the bundle. Requests for a part of it, by HEAD or with a Range, use up no link. The response is 409 unless the job is READY and its bundle still exists. " +
			"The bundle is a zip file for muniment verify: a file for each section, a README that says what they are, and a signed manifest."}, s.getBundle)
	route.AddFile(a, route.Operation{ID: "download-bundle", Method: http.MethodGet, Path: api.PathDownloads + "{token}", Tag: "Compliance",
		Access:  route.Own{Let: s.let, Tenant: func(ctx context.Context) string { return linked(ctx).TenantID }, Security: []map[string][]string{}},
		Summary: "Download a bundle by its link", Heavy: true, Parts: true, Content: route.Content{Type: BundleType, Note: "The bundle"}}, s.download)
}

// BundleLink is the response about a bundle.
type BundleLink struct {
	Job       View          `json:"job" doc:"The job, with the link in its delivery."`
	BundleURL string        `json:"bundleUrl" doc:"Anyone who has this link can download the bundle: keep it out of logs."`
	ExpiresAt store.Instant `json:"expiresAt" doc:"The end of the link."`
}

// SchemaName returns the schema name in the OpenAPI document.
func (BundleLink) SchemaName() string { return "DSARBundleLink" }

type bundleInput struct {
	route.Origin        // the link has the origin of the request for it
	JobID        string `path:"jobId"`
}

var errNoBundle = api.Conflict("no bundle available: the job is not READY, or its bundle was deleted")

func (s *downloads) getBundle(ctx context.Context, in *bundleInput) (l BundleLink, err error) {
	caller := auth.PrincipalFrom(ctx)
	var j *Job
	if j, l.Job, err = find(ctx, s.db.Read(), caller.TenantID, in.JobID); err != nil {
		return l, err
	}
	if err := j.readableBy(caller.Scopes); err != nil {
		return l, err
	}
	now := store.At(s.db.Now())
	if j.Bundle.StoreKey == nil || j.Bundle.Secret == nil || !now.Before(j.Bundle.ExpiresAt.Time) {
		return l, errNoBundle
	}
	l.ExpiresAt = store.At(now.Add(linkLife))
	if j.Bundle.ExpiresAt.Before(l.ExpiresAt.Time) {
		l.ExpiresAt = j.Bundle.ExpiresAt
	}
	t := token{job: strings.TrimPrefix(j.ID, string(prefix)), maker: caller.ID, until: l.ExpiresAt}
	l.BundleURL = in.Base() + api.PathDownloads + t.sign(*j.Bundle.Secret)
	l.Job.Delivery.BundleURL = &l.BundleURL
	return l, nil
}

// newSecret returns a secret for the links to a bundle.
func newSecret() *string { return new(rand.Text() + rand.Text()) }

// token is the content of a link: the job without its prefix, the key or member that made the link, and its expiry.
type token struct {
	job, maker string
	until      store.Instant
}

func (t *token) sign(secret string) string {
	text := t.job + "." + t.maker + "." + strconv.FormatInt(t.until.UnixMilli(), 36)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("muniment: download of a bundle\x00" + text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// readToken parses the output of sign. It does not verify the signature, which requires the job's
// secret.
func readToken(text string) (t token, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 || len(text) > 256 {
		return t, false
	}
	ms, err := strconv.ParseInt(parts[2], 36, 64)
	return token{parts[0], parts[1], store.Instant{Time: time.UnixMilli(ms).UTC()}}, err == nil
}

// link is a valid link, in the context of its request.
type link struct {
	*Job
	makerID string // a key or a member
	token   string // its text
	until   store.Instant
}

type linkKey struct{}

func linked(ctx context.Context) link { return ctx.Value(linkKey{}).(link) }

var errNoLink = &api.Error{Code: api.ResourceNotFound, Message: "this link is invalid or has expired: get a new one from /v1/compliance/dsar/{jobId}/bundle"}

// let authenticates a caller by a link.
func (s *downloads) let(c huma.Context) (context.Context, error) {
	text := c.Param("token")
	t, ok := readToken(text)
	if !ok || !store.Storable(text) {
		return nil, errNoLink
	}
	ctx := c.Context()
	j, err := store.One(ctx, s.db.Read(), "the job of a link", jobs.Scan, jobs.Select()+` WHERE job_id = $1`, string(prefix)+t.job)
	if err != nil {
		return nil, err
	}
	now := s.db.Now()
	if j == nil || j.Bundle.StoreKey == nil || j.Bundle.Secret == nil || !hmac.Equal([]byte(t.sign(*j.Bundle.Secret)), []byte(text)) || !now.Before(t.until.Time) || !now.Before(j.Bundle.ExpiresAt.Time) {
		return nil, errNoLink
	}
	if scopes, err := s.scopes(ctx, s.db.Read(), t.maker, now); err != nil {
		return nil, err
	} else if !scopes.Allows(api.AuditRead) || j.readableBy(scopes) != nil {
		return nil, errNoLink // its maker may no longer read the bundle
	}
	return context.WithValue(ctx, linkKey{}, link{j, t.maker, text, t.until}), nil
}

type downloadInput struct {
	Token string `path:"token" maxLength:"256"`
	Range string `header:"Range" maxLength:"256" doc:"A part of the bundle, as bytes=0-1023. A range of another form is ignored."`
}

func (s *downloads) download(ctx context.Context, in *downloadInput) (*route.File, error) {
	l := linked(ctx)
	f := &route.File{Name: "dsar-" + strings.TrimPrefix(l.ID, string(prefix)) + ".zip", Size: l.Bundle.Bytes, Header: map[string]string{"Accept-Ranges": "bytes"}}
	from, size, ok := rangeOf(in.Range, l.Bundle.Bytes)
	if ok {
		f.Part, f.Size = true, size
		f.Header["Content-Range"] = fmt.Sprintf("bytes %d-%d/%d", from, from+size-1, l.Bundle.Bytes)
	}
	f.Open = func(ctx context.Context) (func(io.Writer), error) {
		content, err := s.bundles.Open(ctx, *l.Bundle.StoreKey)
		if errors.Is(err, objects.ErrNone) { // for example after a restore: backups have no bundles
			return nil, errNoLink
		}
		if err != nil {
			return nil, fmt.Errorf("cannot open the bundle of %s: %w", l.ID, err)
		}
		if err := s.opened(ctx, l); err != nil {
			return nil, errors.Join(err, content.Close())
		}
		return func(to io.Writer) {
			defer content.Close()
			_, err := io.CopyN(io.Discard, content, from)
			if err == nil {
				err = s.send(ctx, l, to, content, f.Size)
			}
			if err == nil {
				err = flush(to)
			}
			if err != nil {
				s.logger.Info("a download was not completed", "tenantId", l.TenantID, "jobId", l.ID, "err", err)
			} else if f.Size == l.Bundle.Bytes { // of whatever Range
				s.ended(context.WithoutCancel(ctx), l)
			}
		}, nil
	}
	return f, nil
}

var rangePattern = regexp.MustCompile(`^bytes=(\d{0,18})-(\d{0,18})$`)

// rangeOf returns the part of a file that a Range names; ok is false if it names no single part of it.
func rangeOf(header string, size int64) (from, length int64, ok bool) {
	parts := rangePattern.FindStringSubmatch(header)
	if parts == nil || parts[1] == "" && parts[2] == "" {
		return 0, size, false
	}
	first, _ := strconv.ParseInt(parts[1], 10, 64)
	last, err := strconv.ParseInt(parts[2], 10, 64)
	switch {
	case parts[1] == "": // the last bytes
		first, last = max(0, size-last), size-1
	case err != nil:
		last = size - 1
	}
	last = min(last, size-1)
	if first > last {
		return 0, size, false
	}
	return first, last - first + 1, true
}

// chunk is how much of a bundle is sent at a time.
const chunk = 1 << 20

// send copies bytes of a bundle, as long as it is not void.
func (s *downloads) send(ctx context.Context, l link, to io.Writer, in io.Reader, left int64) error {
	for left > 0 {
		secret, err := store.One(ctx, s.db.Read(), "whether a bundle is void", store.Text, `SELECT download_secret FROM dsar_jobs WHERE job_id = $1 AND download_secret IS NOT NULL`, l.ID)
		if err != nil {
			return err
		}
		if secret == nil {
			return errors.New("the bundle was deleted meanwhile")
		}
		n, err := io.CopyN(to, in, min(left, chunk))
		if left -= n; err != nil {
			return err
		}
	}
	return nil
}

// flush sends what the server has of a response: until then a small bundle may be in its buffer as a whole.
func flush(to io.Writer) error {
	w, ok := to.(http.ResponseWriter)
	if !ok {
		return nil
	}
	if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// opened records that a download begins, unless this process has recorded one by the same link. It fails if the links have
// ended meanwhile.
func (s *downloads) opened(ctx context.Context, l link) error {
	b := s.beginningOf(l)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written {
		j, err := store.One(ctx, s.db.Read(), "the job of a link", jobs.Scan, jobs.Select()+` WHERE job_id = $1`, l.ID)
		if err == nil && (j == nil || j.State != Ready || j.Bundle.Secret == nil || *j.Bundle.Secret != *l.Bundle.Secret) {
			err = errNoLink
		}
		return err
	}
	err := s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := move(ctx, tx, l.TenantID, l.ID, Open, store.ByKey(l.makerID), "", func(next *Job) error {
			if next.Bundle.Secret == nil || *next.Bundle.Secret != *l.Bundle.Secret {
				return errNoLink
			}
			return nil
		})
		return err
	})
	b.written = err == nil
	return err
}

// The first and the longest pause between attempts to record that a download has ended.
const endRetry, endRetryMax = 50 * time.Millisecond, 5 * time.Second

// ended records that a bundle was sent to its end. It tries until that is recorded, or the job is gone.
func (s *downloads) ended(ctx context.Context, l link) {
	for wait := endRetry; ; wait = min(2*wait, endRetryMax) {
		err := s.downloaded(ctx, l)
		refused, final := errors.AsType[*api.Error](err)
		if err == nil || final && refused.Code.Status() < http.StatusInternalServerError {
			return
		}
		s.logger.Error("cannot record that a download has ended, retrying", "tenantId", l.TenantID, "jobId", l.ID, "err", err)
		time.Sleep(wait)
	}
}

// downloaded records that a bundle was sent to its last byte, which ends all links to it.
func (s *downloads) downloaded(ctx context.Context, l link) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := move(ctx, tx, l.TenantID, l.ID, Download, store.ByKey(l.makerID), "", func(next *Job) error {
			if secret := next.Bundle.Secret; secret != nil && *secret == *l.Bundle.Secret { // neither void nor of a newer link
				next.Bundle.Secret = newSecret()
			}
			next.Bundle.DownloadedAt, next.Bundle.DownloadedBy = next.UpdatedAt, &l.makerID
			return nil
		})
		return err
	})
}
