package dsar

import (
	"slices"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Job is the record of a DSAR job. View is its form in responses.
type Job struct {
	ID           string        `db:"job_id"`
	TenantID     string        `db:"tenant_id"`
	OrgID        string        `db:"org_id"`
	Scopes       texts         `db:"scopes"` // the requester's
	State        State         `db:"state,moves"`
	Scope        Scope         `db:"*"`
	Format       Format        `db:"format"`
	BOM          bool          `db:"bom"`
	RequestedBy  string        `db:"requested_by"`
	RequestNotes *string       `db:"request_notes"`
	QueuedAt     store.Instant `db:"queued_at,moves"`
	// Collection counts how often collecting has begun.
	Collection int64    `db:"collection,moves"`
	Progress   Progress `db:"*"`
	Bundle     Bundle   `db:"*"`
	// FailureCode is why the job is FAILED.
	FailureCode *string       `db:"failure_code,moves"`
	CreatedAt   store.Instant `db:"created_at"`
	UpdatedAt   store.Instant `db:"updated_at,moves"`
	Revision    int64         `db:"revision,moves"`
	notes       string        // the notes of the current move
}

// Scope is what a job exports.
type Scope struct {
	Kind          Kind          `json:"kind" db:"kind" enum:"DATA_SUBJECT,TENANT_FULL,TENANT_SLICE" doc:"The kind of export."`
	DataSubjectID *string       `json:"dataSubjectId" db:"data_subject_id" doc:"For DATA_SUBJECT: the person whose data is exported."`
	WindowStart   store.Instant `json:"windowStart" db:"window_start" nullable:"true" doc:"For TENANT_SLICE: start of the window."`
	WindowEnd     store.Instant `json:"windowEnd" db:"window_end" nullable:"true" doc:"For TENANT_SLICE: end of the window, exclusive."`
	CampaignIDs   texts         `json:"campaignIds" db:"campaign_ids" doc:"Only data about rights whose scope lists one of these campaigns; empty: all."`
	Substrates    texts         `json:"substrates" db:"substrates" doc:"Only these substrates; empty, or with ANY: all."`
}

// texts is a list of texts that a column holds as JSON.
type texts []string

// Kind is the kind of an export.
type Kind string

// The kinds.
const (
	DataSubject Kind = "DATA_SUBJECT"
	TenantFull  Kind = "TENANT_FULL"
	TenantSlice Kind = "TENANT_SLICE"
)

// Format is the format of a bundle's sections.
type Format string

// The formats.
const (
	JSON    Format = "JSON"
	CSV     Format = "CSV"
	NDJSON  Format = "NDJSON"
	Parquet Format = "PARQUET"
)

// formatOf returns the format with a name, or JSON for an unknown name.
func formatOf(name string) Format {
	if f := Format(name); slices.Contains([]Format{CSV, NDJSON, Parquet}, f) {
		return f
	}
	return JSON
}

// State is the state of a job.
type State string

// The states. READY and FAILED are final.
const (
	Requested  State = "REQUESTED"
	Collecting State = "COLLECTING"
	Packaging  State = "PACKAGING"
	Ready      State = "READY"
	FailedJob  State = "FAILED"
)

// Codes of failures.
const (
	ManualCancel     = "MANUAL_CANCEL"
	SourceReadFailed = "SOURCE_READ_FAILED"
	PackagingFailed  = "PACKAGING_FAILED"
	WorkerLost       = store.JobWorkerLost
)

// messages explains the failure codes.
var messages = map[string]string{
	ManualCancel:     "the job was cancelled before a worker began it",
	SourceReadFailed: "the data to be exported could not be read",
	PackagingFailed:  "the bundle could not be written, or would be longer than what is left of the space for the tenant's bundles",
	WorkerLost:       "every process that began the job was lost",
}

// Action moves a job.
type Action string

// The actions. Collecting restarts, also from PACKAGING, if a worker was lost.
const (
	Queue    Action = "queue"
	Cancel   Action = "cancel"
	Collect  Action = "collect"
	Recover  Action = "recover"
	Package  Action = "package"
	Finish   Action = "finish"
	Fail     Action = "fail"
	Open     Action = "open"
	Download Action = "download"
	Expire   Action = "expire"
)

// transitions is the contract's table, plus the moves that the contract leaves open.
var transitions = store.Steps[Action, State]{
	Queue:    {From: store.From(Requested), Event: eventQueued},
	Cancel:   {From: store.From(Requested), To: FailedJob, Event: eventCancelled},
	Collect:  {From: store.From(Requested, Packaging), To: Collecting, Event: eventCollecting},
	Recover:  {From: store.From(Collecting), Event: eventCollecting},
	Package:  {From: store.From(Collecting), To: Packaging, Event: eventPackaging},
	Finish:   {From: store.From(Packaging), To: Ready, Event: eventReady},
	Fail:     {From: store.From(Requested, Collecting, Packaging), To: FailedJob, Event: eventFailed},
	Open:     {From: store.From(Ready), Event: eventOpened},
	Download: {From: store.From(Ready), Event: eventDownloaded},
	Expire:   {From: store.From(Ready), Event: eventExpired},
}

// Progress is the progress of a worker.
type Progress struct {
	RowsCollected   int64         `json:"rowsCollected" db:"rows_collected,moves" doc:"How many rows are in the bundle so far."`
	RowsExpected    int64         `json:"rowsExpected" db:"rows_expected,moves" doc:"How many rows are expected, as far as known: rows that can't be counted beforehand are added as they are read."`
	BytesPackaged   int64         `json:"bytesPackaged" db:"bytes_packaged,moves" doc:"How many bytes of the bundle are written."`
	LastHeartbeatAt store.Instant `json:"lastHeartbeatAt" db:"last_heartbeat_at,moves" nullable:"true" doc:"When the worker last reported its progress."`
	WorkerID        *string       `json:"workerId" db:"worker_id,moves" doc:"The process that works on the job, or last did."`
}

// Bundle is the result of a READY job.
type Bundle struct {
	StoreKey     *string       `db:"bundle_store_key,moves"` // nil: the bundle is deleted
	Bytes        int64         `db:"bundle_size_bytes,moves"`
	SHA256       *string       `db:"bundle_sha256,moves"`
	ExpiresAt    store.Instant `db:"bundle_expires_at,moves"`
	Ended        *Ended        `db:"bundle_ended,moves"` // why the bundle is deleted, or about to be; nil: it is kept
	DownloadedAt store.Instant `db:"downloaded_at,moves"`
	DownloadedBy *string       `db:"downloaded_by,moves"`
	// Secret signs the links to the bundle; nil: the bundle is void, which ended its links.
	Secret *string `db:"download_secret,moves"`
}

// Ended is why a bundle is deleted.
type Ended string

// The reasons.
const (
	Expired Ended = "EXPIRED"
	Erased  Ended = "ERASURE"
)

// View is a DSAR job in a response.
type View struct {
	ID           string        `json:"id" doc:"Begins with dsar:, which may be written as dsar%3A in paths."`
	OrgID        string        `json:"orgId"`
	State        State         `json:"state" enum:"REQUESTED,COLLECTING,PACKAGING,READY,FAILED" doc:"READY and FAILED are final."`
	Scope        Scope         `json:"scope" doc:"What is exported."`
	Format       Format        `json:"format" enum:"JSON,CSV,NDJSON,PARQUET" doc:"The format of the bundle's sections."`
	BOM          bool          `json:"bom" doc:"Whether each CSV file begins with a byte order mark."`
	RequestedBy  string        `json:"requestedBy" doc:"The requester as stated in the request; by default the key's developer."`
	RequestNotes *string       `json:"requestNotes" doc:"The reason of the request."`
	Progress     Progress      `json:"progress" doc:"The worker's progress."`
	Delivery     *Delivery     `json:"delivery,omitempty" doc:"The bundle, once the job is READY."`
	Failure      *Failure      `json:"failure,omitempty" doc:"Why the job failed, once it is FAILED."`
	Timeline     []Entry       `json:"timeline" doc:"The job's moves, oldest first."`
	CreatedAt    store.Instant `json:"createdAt"`
	UpdatedAt    store.Instant `json:"updatedAt"`
	Revision     int64         `json:"revision"`
}

// SchemaName returns the schema name in the OpenAPI document.
func (View) SchemaName() string     { return "DSARJob" }
func (Scope) SchemaName() string    { return "DSARScope" }
func (Progress) SchemaName() string { return "DSARProgress" }
func (Delivery) SchemaName() string { return "DSARDelivery" }
func (Failure) SchemaName() string  { return "DSARFailure" }
func (Entry) SchemaName() string    { return "DSARTimelineEntry" }

// Delivery is the bundle of a job.
type Delivery struct {
	BundleStoreKey  *string       `json:"bundleStoreKey" doc:"Null once the bundle is deleted."`
	BundleSizeBytes int64         `json:"bundleSizeBytes" doc:"The size of the bundle."`
	BundleSHA256    string        `json:"bundleSha256" doc:"Base64url."`
	BundleURL       *string       `json:"bundleUrl" doc:"The operation that gives a link to download the bundle; in its own response, that link. Null once the bundle is deleted, and in events."`
	ExpiresAt       store.Instant `json:"expiresAt" doc:"When the bundle is deleted; once an erasure has ended it, when that was."`
	DeletedBecause  *Ended        `json:"deletedBecause,omitempty" enum:"EXPIRED,ERASURE" doc:"Why the bundle is deleted: its time was over, or it may have had data of a person who was erased. Absent while it is kept."`
	DownloadedAt    store.Instant `json:"downloadedAt" nullable:"true" doc:"When it was last downloaded completely."`
	DownloadedBy    *string       `json:"downloadedBy" doc:"The API key or member that requested the link."`
}

// Failure is why a job failed.
type Failure struct {
	Code     string        `json:"code" enum:"MANUAL_CANCEL,SOURCE_READ_FAILED,PACKAGING_FAILED,WORKER_LOST" doc:"The failure code."`
	Message  string        `json:"message" doc:"Explanation of the code; the text may change."`
	FailedAt store.Instant `json:"failedAt" doc:"When it failed."`
	WorkerID *string       `json:"workerId" doc:"The process whose work failed; null if none began."`
}

// Entry is an entry of a timeline.
type Entry struct {
	At        store.Instant `json:"at" doc:"When."`
	Actor     string        `json:"actor" doc:"An API key, or control."`
	FromState *State        `json:"fromState" doc:"The previous state; null when the job was created."`
	ToState   State         `json:"toState" doc:"The new state."`
	Notes     *string       `json:"notes" doc:"Notes, for example the reason of a cancellation."`
}

// view returns a job, with its timeline, in the form of responses.
func (j *Job) view(timeline []Entry) View {
	v := View{
		ID: j.ID, OrgID: j.OrgID, State: j.State, Scope: j.Scope, Format: j.Format, BOM: j.BOM, RequestedBy: j.RequestedBy, RequestNotes: j.RequestNotes,
		Progress: j.Progress, Timeline: timeline, CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt, Revision: j.Revision,
	}
	if b := j.Bundle; b.SHA256 != nil {
		v.Delivery = &Delivery{
			BundleStoreKey: b.StoreKey, BundleSizeBytes: b.Bytes, BundleSHA256: *b.SHA256, ExpiresAt: b.ExpiresAt, DeletedBecause: b.Ended, DownloadedAt: b.DownloadedAt, DownloadedBy: b.DownloadedBy,
		}
	}
	if code := j.FailureCode; code != nil {
		v.Failure = &Failure{Code: *code, Message: messages[*code], FailedAt: j.UpdatedAt, WorkerID: j.Progress.WorkerID}
	}
	return v
}

// locate sets where the bundle is, for a caller who has reached the service at base.
func (v *View) locate(base string) {
	if v.Delivery != nil && v.Delivery.BundleStoreKey != nil {
		v.Delivery.BundleURL = new(base + "/v1/compliance/dsar/" + v.ID + "/bundle")
	}
}

// shown is a job in the form of events, without anything that may name a person.
type shown struct {
	View
	Scope        shownScope `json:"scope"`
	RequestedBy  *string    `json:"requestedBy,omitempty" hidden:"true"`
	RequestNotes *string    `json:"requestNotes,omitempty" hidden:"true"`
	Timeline     []Entry    `json:"timeline,omitempty" hidden:"true"`
}

type shownScope struct {
	Scope
	DataSubjectID *string `json:"dataSubjectId,omitempty" hidden:"true"`
}

// hide implements store.Records.Hide: it puts the person, the requester and the notes into the
// event's private part.
func hide(j *Job) (any, sealer.Private, error) {
	p := sealer.Private{AttentionMs: -1}
	if j.Scope.DataSubjectID != nil {
		p.DataSubjects = sealer.About(*j.Scope.DataSubjectID)
	}
	var err error
	p.Notes, err = sealer.NotesOf(struct {
		Notes        string  `json:"notes,omitempty"`
		RequestedBy  string  `json:"requestedBy"`
		RequestNotes *string `json:"requestNotes,omitempty"`
	}{j.notes, j.RequestedBy, j.RequestNotes})
	return &shown{View: j.view(nil), Scope: shownScope{Scope: j.Scope}}, p, err
}

// complete completes and checks a new job. The caller has set the requested fields.
func complete(j Job, now store.Instant) (Job, error) {
	if err := j.Scope.check(); err != nil {
		return j, err
	}
	j.State, j.CreatedAt, j.UpdatedAt = Requested, now, now
	return j, nil
}

// check requires the fields that a kind needs, and refuses those that it would ignore: a caller that
// names a window must not get data outside of it.
func (s *Scope) check() error {
	var faults []api.ValidationError
	fault := func(bad bool, field, message string) {
		if bad {
			faults = append(faults, api.ValidationError{Field: "scope." + field, Message: message})
		}
	}
	missing := func(bad bool, field string) {
		if bad {
			faults = append(faults, api.MissingField("scope."+field))
		}
	}
	subject, slice := s.Kind == DataSubject, s.Kind == TenantSlice
	other := "is not for a job of kind " + string(s.Kind)
	missing(subject && s.DataSubjectID == nil, "dataSubjectId")
	fault(!subject && s.DataSubjectID != nil, "dataSubjectId", other)
	fault(s.DataSubjectID != nil && len(*s.DataSubjectID) > maxSubject, "dataSubjectId", "must be at most 256 bytes")
	missing(slice && s.WindowStart.IsZero(), "windowStart")
	missing(slice && s.WindowEnd.IsZero(), "windowEnd")
	fault(!slice && !s.WindowStart.IsZero(), "windowStart", other)
	fault(!slice && !s.WindowEnd.IsZero(), "windowEnd", other)
	fault(slice && !s.WindowStart.IsZero() && !s.WindowEnd.IsZero() && !s.WindowStart.Before(s.WindowEnd.Time), "windowEnd", "must be after windowStart")
	fault(!slice && len(s.CampaignIDs) > 0, "campaignIds", other)
	fault(!slice && len(s.Substrates) > 0, "substrates", other)
	if len(faults) > 0 {
		return api.Invalid(faults...)
	}
	return nil
}

// maxSubject is the longest reference to a person, in bytes, as in deliveries.
const maxSubject = 256
