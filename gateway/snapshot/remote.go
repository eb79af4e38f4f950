package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"muniment.example/gateway/api"
)

// Remote is a Source in another process, over HTTP, and has control hold rows that wait
// and issue those of the sandbox's tenants.
// It keeps nothing and tries nothing twice: View sends requests again, and counts its lease from
// the request.
type Remote struct {
	control    *api.Client
	credential string
}

var _ Source = (*Remote)(nil)

// NewRemote makes a Source of the control processes behind URLs, as api.NewClient
// takes them. credential is the node's own.
func NewRemote(control []string, credential string, client *http.Client) (*Remote, error) {
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

// Suspended implements Source.
func (r *Remote) Suspended(ctx context.Context, moments []api.RightMoment) ([]bool, error) {
	var found api.Suspended
	err := r.control.Do(ctx, r.credential, http.MethodPost, api.PathSuspended, api.SuspendedRequest{Moments: moments}, &found)
	if err == nil && len(found.Suspended) != len(moments) {
		err = errOtherNumber
	}
	return found.Suspended, err
}

var (
	errHoldAway = api.Unavailable(api.ControlUnavailable, "the row has to wait for a mapping, or for the end of a suspension of its right, and control can't hold it now", time.Second)
	errKeepAway = api.Unavailable(api.ControlUnavailable, "some plays are rejected, and control can't keep them now", time.Second)
)

// Hold has control hold rows of one caller and keep rejected plays, any number of them, and returns a
// result for each row. All are durable then. After an error, which is a 503, or 429 if the tenant has too many
// rejected plays, some of them may be; to send them again changes nothing.
func (r *Remote) Hold(ctx context.Context, q api.HoldRequest) ([]api.HeldResult, error) {
	results := make([]api.HeldResult, 0, len(q.Rows))
	for left := q.Rows; len(left) > 0; {
		n, err := fitting(left, api.MostHeldRows)
		if err != nil {
			return nil, err
		}
		var held api.Held
		err = r.control.Do(ctx, r.credential, http.MethodPost, api.PathHold, api.HoldRequest{TenantID: q.TenantID, KeyID: q.KeyID, Rows: left[:n]}, &held)
		if err == nil && len(held.Results) != n {
			err = errOtherNumber
		}
		if err != nil {
			return nil, errors.Join(errHoldAway, err)
		}
		results, left = append(results, held.Results...), left[n:]
	}
	for left := q.Rejected; len(left) > 0; {
		n, err := fitting(left, api.MostHeldRows)
		if err != nil {
			return nil, err
		}
		err = r.control.Do(ctx, r.credential, http.MethodPost, api.PathHold, api.HoldRequest{TenantID: q.TenantID, KeyID: q.KeyID, Rejected: left[:n]}, new(api.Held))
		if refused, ok := errors.AsType[*api.Refused](err); ok && refused.Code == api.RateLimited {
			return nil, &api.Error{Code: refused.Code, Message: refused.Message, RetryAfter: time.Minute}
		} else if err != nil {
			return nil, errors.Join(errKeepAway, err)
		}
		left = left[n:]
	}
	return results, nil
}

var (
	errSandboxAway = api.Unavailable(api.ControlUnavailable, "rows of the sandbox's tenants are issued by control, which can't issue them now; send the batch again: a row that was delivered counts once", time.Second)
	errOtherNumber = errors.New("control answers for another number of rows or moments")
)

// SandboxRows has control issue rows of one batch of the sandbox, any number of them, and returns
// a result for each. Their receipts are durable then. After an error some of them may be; sent
// again, they count once. What the caller is refused is an *api.Error, and so is the 503 if
// control can't be asked.
func (r *Remote) SandboxRows(ctx context.Context, q api.SandboxRows) ([]api.SandboxRow, error) {
	results := make([]api.SandboxRow, 0, len(q.Rows))
	for left := q.Rows; len(left) > 0; {
		n, err := fitting(left, api.MostHeldRows)
		if err != nil {
			return nil, err
		}
		some := q
		some.Rows = left[:n]
		var issued api.SandboxRowsIssued
		err = r.control.Do(ctx, r.credential, http.MethodPost, api.PathSandbox, some, &issued)
		if err == nil && issued.Refused != nil {
			refused := issued.Refused.Err()
			refused.HTTPStatus, refused.RetryAfter = issued.Status, time.Duration(issued.RetryAfter)*time.Second
			return nil, refused
		}
		if err == nil && len(issued.Results) != n {
			err = errOtherNumber
		}
		if err != nil {
			return nil, errors.Join(errSandboxAway, err)
		}
		for i := range issued.Results {
			issued.Results[i].First += len(results)
		}
		results, left = append(results, issued.Results...), left[n:]
	}
	return results, nil
}

// fitting is how many of the first rows fit into one request: at least one, at most most.
func fitting[T any](rows []T, most int) (n int, err error) {
	for size := 0; n < len(rows) && n < most; n++ {
		text, err := json.Marshal(rows[n])
		if err != nil {
			return 0, err
		}
		if size += len(text) + 1; n > 0 && size > api.MostHeldBytes {
			break
		}
	}
	return n, nil
}
