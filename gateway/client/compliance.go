package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
)

// DSAR are exports of what is stored about a person, or of a tenant.
type DSAR struct{ c *Client }

// DSAR are exports of what is stored about a person, or of a tenant.
func (c *Client) DSAR() DSAR { return DSAR{c} }

// Create makes a job. Nothing happens until Run. A tenant has at most five active ones: ErrRateLimited.
func (d DSAR) Create(ctx context.Context, job NewDSARJob) (*CreatedDSARJob, error) {
	return post[CreatedDSARJob](ctx, d.c, "/v1/compliance/dsar", job)
}

// List iterates over the jobs in a state, or over all if that is empty, newest first.
func (d DSAR) List(ctx context.Context, state string) iter.Seq2[DSARJob, error] {
	return list[DSARJob](ctx, d.c, "/v1/compliance/dsar", "jobs", inState(state))
}

func inState(state string) url.Values {
	return values(struct {
		State string `json:"state"`
	}{state})
}

// Get returns a job.
func (d DSAR) Get(ctx context.Context, jobID string) (*DSARJob, error) {
	return record[DSARJob](ctx, d.c, http.MethodGet, at("/v1/compliance/dsar", jobID), "job", nil)
}

// Run queues a job. It is READY or FAILED some time later.
func (d DSAR) Run(ctx context.Context, jobID string) (*DSARJob, error) {
	return record[DSARJob](ctx, d.c, http.MethodPost, at("/v1/compliance/dsar", jobID, "run"), "job", nil)
}

// Cancel ends a job that no worker has begun; later it is ErrConflict. reason may be empty.
func (d DSAR) Cancel(ctx context.Context, jobID, reason string) (*DSARJob, error) {
	return record[DSARJob](ctx, d.c, http.MethodPost, at("/v1/compliance/dsar", jobID, "cancel"), "job", because{reason})
}

// Link returns a link to the bundle of a job that is READY. It works without a key, for 15 minutes
// and until the bundle was downloaded whole.
func (d DSAR) Link(ctx context.Context, jobID string) (*DSARBundleLink, error) {
	return get[DSARBundleLink](ctx, d.c, at("/v1/compliance/dsar", jobID, "bundle"), nil)
}

// Bundle streams the bundle of a job that is READY, a zip file for muniment verify. The caller
// closes it. Unless it ends with io.EOF it is not whole.
func (d DSAR) Bundle(ctx context.Context, jobID string) (io.ReadCloser, error) {
	link, err := d.Link(ctx, jobID)
	if err != nil {
		return nil, err
	}
	// The key goes to no other host than that of Config.URL, whatever host the link has.
	_, token, ok := strings.Cut(link.BundleURL, "/downloads/")
	if !ok {
		return nil, &Error{Operation: "GET " + at("/v1/compliance/dsar", jobID, "bundle"), Status: http.StatusOK, Message: "its link leads to no download", kind: ErrForeign}
	}
	return d.c.stream(ctx, at("/downloads", token), nil)
}

// Erasures iterates over the erasures of persons, newest first.
func (c *Client) Erasures(ctx context.Context) iter.Seq2[Erasure, error] {
	return list[Erasure](ctx, c, "/v1/compliance/erasures", "erasures", nil)
}

// Erasure returns an erasure, with its certificate once it is COMPLETED.
func (c *Client) Erasure(ctx context.Context, erasureID string) (*Erasure, error) {
	return record[Erasure](ctx, c, http.MethodGet, at("/v1/compliance/erasures", erasureID), "erasure", nil)
}
