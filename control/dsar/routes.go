package dsar

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const read = route.Scope(api.AuditRead)
	route.Add(a, route.Operation{ID: "create-dsar-job", Method: http.MethodPost, Path: "/v1/compliance/dsar", Tag: "Compliance", Access: read,
		Summary: "Request an export of a person's data, or of the tenant's",
		Description: "`DATA_SUBJECT` exports the data about one person, without configuration. `TENANT_FULL` exports all data of the tenant that the key may read: " +
			"what needs a scope that it lacks is left out, and the bundle's README says so. " +
			"`TENANT_SLICE` exports deliveries and events in a window, optionally of some campaigns and substrates only. " +
			fmt.Sprintf("The job is REQUESTED until it is run. A tenant may have %d active jobs; one more is refused with 429.", ActiveLimit)}, s.post)
	route.Add(a, route.Operation{ID: "list-dsar-jobs", Method: http.MethodGet, Path: "/v1/compliance/dsar", Tag: "Compliance", Access: read,
		Summary: "List the DSAR jobs, newest first"}, s.getAll)
	route.Add(a, route.Operation{ID: "get-dsar-job", Method: http.MethodGet, Path: "/v1/compliance/dsar/{jobId}", Tag: "Compliance", Access: read,
		Summary: "Get a DSAR job"}, s.get)
	route.Add(a, route.Operation{ID: "cancel-dsar-job", Method: http.MethodPost, Path: "/v1/compliance/dsar/{jobId}/cancel", Tag: "Compliance", Access: read,
		Summary: "Cancel a DSAR job that no worker has begun", Description: "The job becomes FAILED with the code `MANUAL_CANCEL`. The response is 409 if it is no longer REQUESTED."}, s.postCancel)
	route.Add(a, route.Operation{ID: "run-dsar-job", Method: http.MethodPost, Path: "/v1/compliance/dsar/{jobId}/run", Tag: "Compliance", Access: read,
		Summary: "Run a DSAR job", Description: "Queues the job. It stays REQUESTED, and may be cancelled, until a worker begins it. The response is 409 if it is no longer REQUESTED."}, s.postRun)
	(&downloads{db: s.db, bundles: s.cfg.Bundles, scopes: s.cfg.Scopes, logger: s.cfg.Logger}).routes(a)
}

// The responses about DSAR jobs.
type (
	// JobData is the response about one job.
	JobData struct {
		Job View `json:"job"`
	}
	// CreatedJob is the response to a new job.
	CreatedJob struct {
		Job         View `json:"job" doc:"The new job."`
		ActiveLimit int  `json:"activeLimit" doc:"How many jobs of the tenant may be active."`
	}
	// JobList is one page of jobs.
	JobList struct {
		Jobs       []View  `json:"jobs" doc:"The jobs of this page."`
		NextCursor *string `json:"nextCursor"`
	}
)

// SchemaName returns the schema name in the OpenAPI document; so do the methods below.
func (JobData) SchemaName() string    { return "DSARJobData" }
func (CreatedJob) SchemaName() string { return "CreatedDSARJob" }
func (JobList) SchemaName() string    { return "DSARJobList" }

// NewJob is a request for a job.
type NewJob struct {
	Scope        NewScope `json:"scope" doc:"What is exported."`
	Format       *string  `json:"format,omitempty" nullable:"true" maxLength:"65536" doc:"JSON, CSV, NDJSON or PARQUET; anything else is JSON." example:"CSV"`
	BOM          bool     `json:"bom,omitempty" doc:"Requires format CSV: each file begins with a byte order mark, as spreadsheets need it to read UTF-8."`
	RequestedBy  *string  `json:"requestedBy,omitempty" nullable:"true" maxLength:"256" doc:"The requester; the key's developer when absent. In the private part of events only."`
	RequestNotes *string  `json:"requestNotes,omitempty" nullable:"true" maxLength:"2048" doc:"Why, for the audit trail. In the private part of events only."`
}

// NewScope is the requested scope. Fields that its kind ignores are refused.
type NewScope struct {
	Kind          Kind        `json:"kind" enum:"DATA_SUBJECT,TENANT_FULL,TENANT_SLICE" doc:"The kind of export."`
	DataSubjectID *string     `json:"dataSubjectId,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"Required for DATA_SUBJECT: the person, as deliveries name them." example:"subject-0815"`
	WindowStart   *route.Time `json:"windowStart,omitempty" nullable:"true" doc:"Required for TENANT_SLICE: start of the window. It selects deliveries by the time of their rendering, everything else by the time of its event."`
	WindowEnd     *route.Time `json:"windowEnd,omitempty" nullable:"true" doc:"Required for TENANT_SLICE: end of the window, exclusive."`
	CampaignIDs   []string    `json:"campaignIds,omitempty" minItems:"1" maxItems:"100" maxLength:"256" doc:"For TENANT_SLICE: only data about rights whose scope lists one of these campaigns."`
	Substrates    []string    `json:"substrates,omitempty" minItems:"1" maxItems:"24" maxLength:"32" doc:"For TENANT_SLICE: only data about these substrates. ANY selects all."`
}

// SchemaName returns the schema name in the OpenAPI document; so do the methods below.
func (NewJob) SchemaName() string   { return "NewDSARJob" }
func (NewScope) SchemaName() string { return "NewDSARScope" }

// job returns the job that a caller requests.
func (n *NewJob) job(caller auth.Principal) (j Job, err error) {
	s := n.Scope
	j = Job{TenantID: caller.TenantID, OrgID: caller.OrgID, Scopes: caller.Scopes.Names(), Format: JSON, RequestedBy: caller.DeveloperID, RequestNotes: n.RequestNotes,
		Scope: Scope{Kind: s.Kind, DataSubjectID: s.DataSubjectID, CampaignIDs: append(texts{}, s.CampaignIDs...), Substrates: append(texts{}, s.Substrates...)}}
	if n.Format != nil {
		j.Format = formatOf(*n.Format)
	}
	if j.BOM = n.BOM; n.BOM && j.Format != CSV {
		return j, api.InvalidField("bom", "requires format CSV")
	}
	if n.RequestedBy != nil {
		j.RequestedBy = cmp.Or(*n.RequestedBy, caller.DeveloperID)
	}
	if j.Scope.WindowStart, err = route.Given("scope.windowStart", s.WindowStart); err != nil {
		return j, err
	}
	if j.Scope.WindowEnd, err = route.Given("scope.windowEnd", s.WindowEnd); err != nil {
		return j, err
	}
	for i, name := range s.Substrates {
		if _, known := gate.ParseSubstrate(name); !known {
			return j, api.InvalidField(fmt.Sprintf("scope.substrates[%d]", i), "is not a substrate")
		}
	}
	return j, nil
}

type createInput struct{ Body NewJob }

func (s *Service) post(ctx context.Context, in *createInput) (CreatedJob, error) {
	caller := auth.PrincipalFrom(ctx)
	requested, err := in.Body.job(caller)
	if err == nil && requested.Scope.Kind == TenantFull && caller.Unconfirmed {
		err = auth.ErrUnconfirmed
	}
	if err != nil {
		return CreatedJob{}, err
	}
	made, err := s.create(ctx, requested, store.ByKey(caller.ID))
	return CreatedJob{made, ActiveLimit}, err
}

type listInput struct {
	route.Page
	route.Origin
	State string `query:"state" enum:"REQUESTED,COLLECTING,PACKAGING,READY,FAILED" doc:"Only jobs in this state."`
}

func (s *Service) getAll(ctx context.Context, in *listInput) (JobList, error) {
	slice, err := in.Slice()
	if err != nil {
		return JobList{}, err
	}
	list, next, err := s.list(ctx, auth.PrincipalFrom(ctx).TenantID, in.State, slice)
	for i := range list {
		list[i].locate(in.Base())
	}
	return JobList{list, in.Next(next)}, err
}

func (s *Service) list(ctx context.Context, tenantID, state string, slice store.Slice) (list []View, next string, err error) {
	var w store.Where
	w.Is("state", state)
	err = s.db.View(ctx, func(q store.Querier) error {
		var page []Job
		if page, next, err = jobs.Page(ctx, q, tenantID, w, slice); err == nil {
			list, err = views(ctx, q, page)
		}
		return err
	})
	return list, next, err
}

// named is the input of operations on one job. Clients may write the colon of its id as %3A.
type named struct {
	JobID string `path:"jobId"`
}

type getInput struct {
	route.Origin
	JobID string `path:"jobId"`
}

func (s *Service) get(ctx context.Context, in *getInput) (data JobData, err error) {
	err = s.db.View(ctx, func(q store.Querier) error {
		_, data.Job, err = find(ctx, q, auth.PrincipalFrom(ctx).TenantID, in.JobID)
		return err
	})
	data.Job.locate(in.Base())
	return data, err
}

// DSARCancellation is the body of a request to cancel a job.
type DSARCancellation struct {
	Reason *string `json:"reason,omitempty" nullable:"true" maxLength:"1024" doc:"Recorded in the timeline, and in the private part of the event."`
}

type cancelInput struct {
	JobID string `path:"jobId"`
	Body  *DSARCancellation
}

func (s *Service) postCancel(ctx context.Context, in *cancelInput) (JobData, error) {
	caller, reason := auth.PrincipalFrom(ctx), ""
	if in.Body != nil && in.Body.Reason != nil {
		reason = *in.Body.Reason
	}
	v, err := s.cancel(ctx, caller.TenantID, in.JobID, reason, store.ByKey(caller.ID))
	return JobData{v}, err
}

func (s *Service) postRun(ctx context.Context, in *named) (JobData, error) {
	caller := auth.PrincipalFrom(ctx)
	v, err := s.run(ctx, caller.TenantID, in.JobID, store.ByKey(caller.ID))
	return JobData{v}, err
}
