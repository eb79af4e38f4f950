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
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// linkLife is how long a link is valid.
const linkLife = 15 * time.Minute

const pathDownloads = "/downloads/"

// downloads serves the bundles by links.
type downloads struct {
	db      *store.DB
	bundles *Bundles
	logger  *slog.Logger
}

func (s *downloads) routes(a route.API) {
	route.Add(a, route.Operation{ID: "get-dsar-bundle", Method: http.MethodGet, Path: "/v1/compliance/dsar/{jobId}/bundle", Tag: "Compliance", Access: route.Scope(api.AuditRead),
		Summary: "Get a link to the bundle of a DSAR job", Errors: []int{http.StatusConflict},
		Description: "The link works without an API key for 15 minutes, or until a download by any link to the bundle begins. If that breaks off, the links work again. The response is 409 unless the job is READY and its bundle still exists. " +
			"The bundle is a zip file for muniment verify: a file for each section, and a signed manifest of them."}, s.getBundle)
	route.AddFile(a, route.Operation{ID: "download-bundle", Method: http.MethodGet, Path: pathDownloads + "{token}", Tag: "Compliance",
		Access:  route.Own{Let: s.let, Tenant: func(ctx context.Context) string { return linked(ctx).TenantID }, Security: []map[string][]string{}},
		Summary: "Download a bundle by its link", Heavy: true, Content: route.Content{Type: bundleType, Note: "The bundle"}}, s.download)
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
	now := store.At(s.db.Now())
	if j.Bundle.StoreKey == nil || j.Bundle.Secret == nil || !now.Before(j.Bundle.ExpiresAt.Time) {
		return l, errNoBundle
	}
	l.ExpiresAt = store.At(now.Add(linkLife))
	if j.Bundle.ExpiresAt.Before(l.ExpiresAt.Time) {
		l.ExpiresAt = j.Bundle.ExpiresAt
	}
	t := token{job: strings.TrimPrefix(j.ID, string(prefix)), key: strings.TrimPrefix(caller.ID, string(api.PrefixKey)), until: l.ExpiresAt}
	l.BundleURL = in.Base() + pathDownloads + t.sign(*j.Bundle.Secret)
	l.Job.Delivery.BundleURL = &l.BundleURL
	return l, nil
}

// newSecret returns a secret for the links to a bundle.
func newSecret() *string { return new(rand.Text() + rand.Text()) }

// token is the content of a link: job and key without their prefixes, and its expiry.
type token struct {
	job, key string
	until    store.Instant
}

func (t *token) sign(secret string) string {
	text := t.job + "." + t.key + "." + strconv.FormatInt(t.until.UnixMilli(), 36)
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
	keyID string
	next  string // the secret of later links, once a download by this one has begun
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
	return context.WithValue(ctx, linkKey{}, link{j, string(api.PrefixKey) + t.key, *newSecret()}), nil
}

func (s *downloads) download(ctx context.Context, _ *struct {
	Token string `path:"token" maxLength:"256"`
}) (*route.File, error) {
	l := linked(ctx)
	name := "dsar-" + strings.TrimPrefix(l.ID, string(prefix)) + ".zip"
	return &route.File{Name: name, Size: l.Bundle.Bytes, Open: func(ctx context.Context) (func(io.Writer), error) {
		in, err := s.bundles.open(ctx, *l.Bundle.StoreKey)
		if errors.Is(err, errNoObject) { // for example after a restore: backups have no bundles
			return nil, errNoLink
		}
		if err != nil {
			return nil, fmt.Errorf("cannot open the bundle of %s: %w", l.ID, err)
		}
		if err := s.opened(ctx, l); err != nil {
			return nil, errors.Join(err, in.Close())
		}
		return func(to io.Writer) {
			defer in.Close()
			err := s.send(ctx, l, to, in)
			if err != nil {
				s.logger.Info("a download was not completed", "tenantId", l.TenantID, "jobId", l.ID, "err", err)
			}
			s.ended(context.WithoutCancel(ctx), l, err == nil)
		}, nil
	}}, nil
}

// chunk is how much of a bundle is sent at a time.
const chunk = 1 << 20

// send copies a bundle, as long as it is not void.
func (s *downloads) send(ctx context.Context, l link, to io.Writer, in io.Reader) error {
	for left := l.Bundle.Bytes; left > 0; {
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

// opened records that a download begins, which ends all links to the bundle; it fails if they have
// ended already. If the process ends before ended has recorded how the download went, they stay ended.
func (s *downloads) opened(ctx context.Context, l link) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := move(ctx, tx, l.TenantID, l.ID, Open, store.ByKey(l.keyID), "", func(next *Job) error {
			if next.Bundle.Secret == nil || *next.Bundle.Secret != *l.Bundle.Secret {
				return errNoLink
			}
			next.Bundle.Secret = &l.next
			return nil
		})
		return err
	})
}

// The first and the longest pause between attempts to record how a download ended.
const endRetry, endRetryMax = 50 * time.Millisecond, 5 * time.Second

// ended records how a download ended. It tries until that is recorded, or the job is gone.
func (s *downloads) ended(ctx context.Context, l link, whole bool) {
	record := s.brokeOff
	if whole {
		record = s.downloaded
	}
	for wait := endRetry; ; wait = min(2*wait, endRetryMax) {
		err := record(ctx, l)
		refused, final := errors.AsType[*api.Error](err)
		if err == nil || final && refused.Code.Status() < http.StatusInternalServerError {
			return
		}
		s.logger.Error("cannot record how a download ended, retrying", "tenantId", l.TenantID, "jobId", l.ID, "err", err)
		time.Sleep(wait)
	}
}

// brokeOff gives the links back that a download used up, unless there are others by now.
func (s *downloads) brokeOff(ctx context.Context, l link) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE dsar_jobs SET download_secret = $3 WHERE job_id = $1 AND download_secret = $2`, l.ID, l.next, *l.Bundle.Secret)
		return err
	})
}

// downloaded records that a bundle was sent to its last byte.
func (s *downloads) downloaded(ctx context.Context, l link) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := move(ctx, tx, l.TenantID, l.ID, Download, store.ByKey(l.keyID), "", func(next *Job) error {
			next.Bundle.DownloadedAt, next.Bundle.DownloadedBy = next.UpdatedAt, &l.keyID
			return nil
		})
		return err
	})
}
