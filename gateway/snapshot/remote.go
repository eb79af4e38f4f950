package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"muniment/gateway/api"
)

// Remote is a Source in another process, over HTTP, and has control hold rows without a mapping.
// It keeps nothing and tries nothing twice: View sends requests again, and counts its lease from
// the request.
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
	return f, r.control.Do(ctx, r.credential, http.MethodPost, api.PathFeed, q, &f)
}

// Snapshot implements Source.
func (r *Remote) Snapshot(ctx context.Context, kind, id string) (s api.Snapshot, err error) {
	return s, r.control.Do(ctx, r.credential, http.MethodGet, api.PathSnapshots+"/"+kind+"/"+url.PathEscape(id), nil, &s)
}

// Snapshots implements Source.
func (r *Remote) Snapshots(ctx context.Context, kind string, ids []string) (s api.Snapshots, err error) {
	return s, r.control.Do(ctx, r.credential, http.MethodPost, api.PathSnapshots+"/"+kind, api.SnapshotsRequest{IDs: ids}, &s)
}

// holdTimeout bounds how long rows may take to be held.
const holdTimeout = 5 * time.Second

var errHoldAway = api.Unavailable(api.ControlUnavailable, "the vendor's id has no mapping, and control can't hold the row now", time.Second)

// Hold has control hold rows of one caller, any number of them, and returns a result for each.
// They are durable then. After an error, which is a 503, some of them may be held; to hold them
// again changes nothing.
func (r *Remote) Hold(ctx context.Context, q api.HoldRequest) ([]api.HeldResult, error) {
	ctx, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	results := make([]api.HeldResult, 0, len(q.Rows))
	for left := q.Rows; len(left) > 0; {
		n, size := 0, 0
		for n < len(left) && n < api.MostHeldRows {
			text, err := json.Marshal(&left[n])
			if err != nil {
				return nil, err
			}
			if size += len(text) + 1; n > 0 && size > api.MostHeldBytes {
				break
			}
			n++
		}
		var held api.Held
		err := r.control.Do(ctx, r.credential, http.MethodPost, api.PathHold, api.HoldRequest{TenantID: q.TenantID, KeyID: q.KeyID, Rows: left[:n]}, &held)
		if err == nil && len(held.Results) != n {
			err = errors.New("control answers for another number of rows")
		}
		if err != nil {
			return nil, errors.Join(errHoldAway, err)
		}
		results, left = append(results, held.Results...), left[n:]
	}
	return results, nil
}
