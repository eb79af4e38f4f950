package snapshot

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"muniment/gateway/api"
)

// Remote is a Source in another process, over HTTP. It keeps nothing and tries
// nothing twice: View asks again, and counts its lease from the question.
type Remote struct {
	control    *api.Client
	credential string
}

var _ Source = (*Remote)(nil)

// NewRemote makes a Source of the control processes behind a URL, as api.NewClient
// takes it. credential is the node's own.
func NewRemote(control, credential string, client *http.Client) (*Remote, error) {
	c, err := api.NewClient(control, client)
	if err != nil {
		return nil, err
	}
	if credential == "" {
		return nil, errors.New("the node has no credential: enrol it first")
	}
	return &Remote{c, credential}, nil
}

// Feed implements Source.
func (r *Remote) Feed(ctx context.Context, q api.FeedRequest) (f api.Feed, err error) {
	return f, r.control.Ask(ctx, r.credential, http.MethodPost, api.PathFeed, q, &f)
}

// Snapshot implements Source.
func (r *Remote) Snapshot(ctx context.Context, kind, id string) (s api.Snapshot, err error) {
	return s, r.control.Ask(ctx, r.credential, http.MethodGet, api.PathSnapshots+"/"+kind+"/"+url.PathEscape(id), nil, &s)
}

// Snapshots implements Source.
func (r *Remote) Snapshots(ctx context.Context, kind string, ids []string) (s api.Snapshots, err error) {
	return s, r.control.Ask(ctx, r.credential, http.MethodPost, api.PathSnapshots+"/"+kind, api.SnapshotsRequest{IDs: ids}, &s)
}
