package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
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

// DSARJob is an export of what is stored.
type DSARJob struct {
	Record
	// Whether each CSV file begins with a byte order mark.
	BOM bool `json:"bom"`
	// Once it is READY.
	Delivery *DSARDelivery `json:"delivery,omitempty"`
	// Once it is FAILED.
	Failure *DSARFailure `json:"failure,omitempty"`
	// Of the sections of its bundle. One of JSON, CSV, NDJSON, PARQUET.
	Format string `json:"format"`
	// The organisation's id.
	OrgID string `json:"orgId"`
	// How far the worker is.
	Progress DSARProgress `json:"progress"`
	// Why it was asked for.
	RequestNotes string `json:"requestNotes"`
	// Who asked for it, as was said; the key's developer by default.
	RequestedBy string `json:"requestedBy"`
	// What is exported.
	Scope DSARScope `json:"scope"`
	// READY and FAILED are final. One of REQUESTED, COLLECTING, PACKAGING, READY, FAILED.
	State string `json:"state"`
	// Oldest first.
	Timeline []DSARTimelineEntry `json:"timeline"`
}

// DSARScope says what is exported.
type DSARScope struct {
	// Of TENANT_SLICE: only what is about rights whose scope lists one of these campaigns.
	CampaignIDs []string `json:"campaignIds,omitempty"`
	// Of DATA_SUBJECT, which requires it: the person, as deliveries name them.
	DataSubjectID string `json:"dataSubjectId,omitempty"`
	// What sort of export it is. One of DATA_SUBJECT, TENANT_FULL, TENANT_SLICE.
	Kind string `json:"kind"`
	// Of TENANT_SLICE: only what is about these substrates. ANY is all of them.
	Substrates []string `json:"substrates,omitempty"`
	// Of TENANT_SLICE, which requires it. Exclusive.
	WindowEnd time.Time `json:"windowEnd,omitzero"`
	// Of TENANT_SLICE, which requires it: the first moment. Deliveries are judged by when they were
	// rendered, all else by when it happened.
	WindowStart time.Time `json:"windowStart,omitzero"`
}

// NewDSARJob asks for an export.
type NewDSARJob struct {
	// Requires format CSV: each file begins with a byte order mark, for spreadsheets.
	BOM bool `json:"bom,omitempty"`
	// JSON, CSV, NDJSON or PARQUET; anything else is JSON.
	Format string `json:"format,omitempty"`
	// Why, for the audit trail. In the private part of events only.
	RequestNotes string `json:"requestNotes,omitempty"`
	// The requester; the key's developer when absent. In the private part of events only.
	RequestedBy string `json:"requestedBy,omitempty"`
	// What is exported.
	Scope DSARScope `json:"scope"`
}

// DSARProgress is how far a job is.
type DSARProgress struct {
	// How much of the bundle is written.
	BytesPackaged int64 `json:"bytesPackaged"`
	// When the worker last said how far it is.
	LastHeartbeatAt time.Time `json:"lastHeartbeatAt"`
	// How many rows are in the bundle by now.
	RowsCollected int64 `json:"rowsCollected"`
	// As far as is known: what has no count beforehand is added when it was read.
	RowsExpected int64 `json:"rowsExpected"`
	// The process that is at work, or was.
	WorkerID string `json:"workerId"`
}

// DSARDelivery is the bundle of a job that is READY.
type DSARDelivery struct {
	// Base64url.
	BundleSHA256 string `json:"bundleSha256"`
	// How long it is.
	BundleSizeBytes int64 `json:"bundleSizeBytes"`
	// Null once the bundle is deleted.
	BundleStoreKey string `json:"bundleStoreKey"`
	// In the answer of GET /v1/compliance/dsar/{jobId}/bundle.
	BundleURL string `json:"bundleUrl"`
	// The last time it was downloaded whole.
	DownloadedAt time.Time `json:"downloadedAt"`
	// The API key that the link was made for.
	DownloadedBy string `json:"downloadedBy"`
	// When the bundle is deleted.
	ExpiresAt time.Time `json:"expiresAt"`
}

// DSARFailure is why a job is FAILED.
type DSARFailure struct {
	// What went wrong. One of MANUAL_CANCEL, SOURCE_READ_FAILED, PACKAGING_FAILED, WORKER_LOST.
	Code string `json:"code"`
	// When it failed.
	FailedAt time.Time `json:"failedAt"`
	// For people; it may change.
	Message string `json:"message"`
	// The process whose work failed; null if none had begun.
	WorkerID string `json:"workerId"`
}

// DSARTimelineEntry is a step of a job.
type DSARTimelineEntry struct {
	// An API key, or control.
	Actor string `json:"actor"`
	// When.
	At time.Time `json:"at"`
	// Null where the job was created.
	FromState string `json:"fromState"`
	// What was noted, as the reason of a cancellation.
	Notes string `json:"notes"`
	// The state from then on.
	ToState string `json:"toState"`
}

// CreatedDSARJob is a new job, and how many may be active.
type CreatedDSARJob struct {
	// How many jobs of the tenant may be active.
	ActiveLimit int64 `json:"activeLimit"`
	// The new job.
	Job DSARJob `json:"job"`
}

// DSARBundleLink is where a bundle can be downloaded.
type DSARBundleLink struct {
	// Anyone who has it can download the bundle: keep it out of logs.
	BundleURL string `json:"bundleUrl"`
	// The end of the link.
	ExpiresAt time.Time `json:"expiresAt"`
	// With the link in its delivery.
	Job DSARJob `json:"job"`
}

// Erasure is the erasure of a person.
type Erasure struct {
	Record
	// A signed note for muniment verify, which names no person; null until it is COMPLETED.
	Certificate string `json:"certificate"`
	// When it was COMPLETED; null until then.
	CompletedAt time.Time `json:"completedAt"`
	// What was found when it was confirmed.
	Counts ErasureCounts `json:"counts"`
	// The event that is the tombstone: subject.erased.
	EventID string `json:"eventId"`
	// The API key that confirmed it.
	RequestedBy string `json:"requestedBy"`
	// COMPLETED once nothing is left and the certificate is there. One of REQUESTED, COMPLETED.
	State string `json:"state"`
	// Stands for the person in events and records: a keyed hash, that of the same person in every
	// erasure.
	SubjectHash string `json:"subjectHash"`
	// The tenant's id.
	TenantID string `json:"tenantId"`
	// What names the person in events of up to this time is deleted, whenever they arrive: a minute
	// after the request, as clocks of nodes may be ahead by that.
	Until time.Time `json:"until"`
}

// ErasureCounts are how much was erased, by where it was kept.
type ErasureCounts struct {
	// Bundles of exports that may hold data of the person.
	Bundles int64 `json:"bundles"`
	// Events that will still name the person, by type, as events are permanent: by a text that
	// everybody may see, such as a dispute's reason or a label; delivery.recorded by a correlation id,
	// an anchor or a placement.
	Permanent map[string]int64 `json:"permanent"`
	// Events in the warehouse with a private part that names the person.
	PrivateParts int64 `json:"privateParts"`
	// Rows of the database that name the person, by kind, such as counterparty or heldRow. An export of
	// the person shows them.
	Records map[string]int64 `json:"records"`
	// Issued statements that keep the public name of a counterparty which names the person: the newest 1,000.
	Statements []string `json:"statements"`
	// Quarantined records that name the person.
	SetAside int64 `json:"setAside"`
}
