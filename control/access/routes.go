package access

import (
	"context"
	"net/http"
	"strings"

	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
)

// Base begins the path of every route for strangers.
const Base = "/api/access"

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	sandbox.Add(a, s.callers, route.Operation{ID: "access-apply", Method: http.MethodPost, Path: Base + "/apply", Tag: "Sandbox",
		Summary: "Apply for a key of the sandbox",
		Description: "Answers alike whatever is known of the address. A mail brings a link to confirm it within 24 hours, whose fragment holds a token for `POST /api/access/confirm`; a service without a mail server needs none. Once an operator has approved, a mail brings a link to the playground, whose fragment holds a token for `POST /api/access/activate`. " +
			"An address has one open application at a time, and three within 30 days: more are dropped. Applications are erased 30 days after they were made. " +
			"Each IP address may make 10 requests per 10 seconds and 30 per hour, confirmations and activations included."}, s.postApply)
	sandbox.Add(a, s.callers, route.Operation{ID: "access-confirm", Method: http.MethodPost, Path: Base + "/confirm", Tag: "Sandbox",
		Summary: "Confirm an application by the token of its mail", Errors: []int{http.StatusNotFound},
		Description: "From then on the application waits for an operator. A token is good once. 404 is the answer to every other one, be it used, expired or unknown."}, s.postConfirm)
	sandbox.Add(a, s.callers, route.Operation{ID: "access-activate", Method: http.MethodPost, Path: Base + "/activate", Tag: "Sandbox",
		Summary: "Exchange the token of an activation mail for a key", Errors: []int{http.StatusNotFound},
		Description: "Makes a tenant of the sandbox with a key, env `test`, that holds every scope but `*`; the key is shown this once. The tenant is not dropped for being idle. " +
			"A token is good once, within 24 hours of its mail. 404 is the answer to every other one, be it used, expired or unknown."}, s.postActivate)
}

type applyInput struct{ Body Form }

// SchemaName is for the document, as are those below.
func (Form) SchemaName() string { return "AccessForm" }

// Receipt is the answer to every application.
type Receipt struct {
	Status string `json:"status" enum:"RECEIVED" doc:"The same whatever becomes of it."`
}

// SchemaName: see Form.
func (Receipt) SchemaName() string { return "AccessReceipt" }

func (s *Service) postApply(ctx context.Context, in *applyInput) (Receipt, error) {
	return Receipt{"RECEIVED"}, s.apply(ctx, in.Body)
}

// Confirmation is a request to confirm an application.
type Confirmation struct {
	Token string `json:"token" minLength:"1" maxLength:"128" doc:"Of the link in the mail, behind #confirm=."`
}

// SchemaName: see Form.
func (Confirmation) SchemaName() string { return "AccessConfirmation" }

// Confirmed is the answer to a confirmation.
type Confirmed struct {
	Status string `json:"status" enum:"CONFIRMED" doc:"The application waits for an operator."`
}

// SchemaName: see Form.
func (Confirmed) SchemaName() string { return "AccessConfirmed" }

type confirmInput struct{ Body Confirmation }

func (s *Service) postConfirm(ctx context.Context, in *confirmInput) (Confirmed, error) {
	return Confirmed{"CONFIRMED"}, s.confirm(ctx, in.Body.Token)
}

// Activation is a request for a key.
type Activation struct {
	Token string `json:"token" minLength:"1" maxLength:"128" doc:"Of the link in the mail, behind #activate=."`
}

// SchemaName: see Form.
func (Activation) SchemaName() string { return "AccessActivation" }

type activateInput struct{ Body Activation }

// Key is the answer to an activation; APIKey is the only copy of the key.
type Key struct {
	TenantID string `json:"tenantId"`
	OrgID    string `json:"orgId" doc:"The organisation that the tenant acts for."`
	KeyID    string `json:"keyId"`
	APIKey   string `json:"apiKey" doc:"The key itself; it can't be shown again."`
}

// SchemaName: see Form.
func (Key) SchemaName() string { return "ActivatedKey" }

func (s *Service) postActivate(ctx context.Context, in *activateInput) (Key, error) {
	made, err := s.activate(ctx, in.Body.Token)
	if err != nil {
		return Key{}, err
	}
	return keyOf(made), nil
}

func keyOf(made tenant.Created) Key {
	return Key{TenantID: made.TenantID, OrgID: made.OrgID, KeyID: made.KeyID, APIKey: made.APIKey}
}

// OperatorRoutes adds what an operator may do to the API of the admin listener.
func (s *Service) OperatorRoutes(a route.API) {
	const path = "/admin/access/applications"
	route.Add(a, route.Operation{ID: "list-applications", Method: http.MethodGet, Path: path, Tag: "Operator", Access: route.Operator{},
		Summary: "List the applications for a key of the sandbox, newest first"}, s.Applications)
	route.Add(a, route.Operation{ID: "approve-application", Method: http.MethodPost, Path: path + "/{applicationId}/approve", Tag: "Operator", Access: route.Operator{},
		Summary: "Approve an application and send its mail, or send another mail"}, func(ctx context.Context, in *OneInput) (One, error) {
		return s.Approve(ctx, in.ApplicationID, "")
	})
	route.Add(a, route.Operation{ID: "refuse-application", Method: http.MethodPost, Path: path + "/{applicationId}/refuse", Tag: "Operator", Access: route.Operator{},
		Summary: "Refuse an application; the links of one that was approved end"}, func(ctx context.Context, in *OneInput) (One, error) {
		return s.Refuse(ctx, in.ApplicationID, "")
	})
	route.Add(a, route.Operation{ID: "refuse-applications", Method: http.MethodPost, Path: path + "/refuse", Tag: "Operator", Access: route.Operator{},
		Summary: "Refuse all applications of an address or host, or that are older than a time, and not approved yet"}, s.postRefuseAll)
}

// Refusal selects the applications that are refused together. Those that are approved stay.
type Refusal struct {
	AllFrom   *string     `json:"allFrom,omitempty" nullable:"true" maxLength:"254" doc:"Of this address, or of all addresses of this host: ada@example.org, or example.org."`
	OlderThan *route.Time `json:"olderThan,omitempty" nullable:"true" doc:"Made before this time."`
}

// SchemaName: see Form.
func (Refusal) SchemaName() string { return "ApplicationRefusal" }

// RefusedCount is how many applications were refused together.
type RefusedCount struct {
	Refused int `json:"refused"`
}

func (s *Service) postRefuseAll(ctx context.Context, in *struct{ Body Refusal }) (RefusedCount, error) {
	return s.RefuseAll(ctx, in.Body)
}

// RefuseAll refuses the applications that are selected, for an operator, and returns how many. After an error
// those that were refused stay so, and a second call refuses the others.
func (s *Service) RefuseAll(ctx context.Context, which Refusal) (RefusedCount, error) {
	before, err := route.Given("olderThan", which.OlderThan)
	if err != nil {
		return RefusedCount{}, err
	}
	from := ""
	if which.AllFrom != nil {
		from = strings.ToLower(*which.AllFrom)
	}
	if from == "" && before.IsZero() {
		return RefusedCount{}, api.InvalidField("allFrom", "say allFrom or olderThan, or both")
	}
	n, err := s.refuseAll(ctx, from, before)
	return RefusedCount{n}, err
}

// Listed is an application as operators see it.
type Listed struct {
	Application
	Email        string        `json:"email"`
	Organisation string        `json:"organisation"`
	Use          string        `json:"use"`
	Mail         Mail          `json:"mail" doc:"The mail of the newest approval, or before that the one to confirm."`
	ExpiresAt    store.Instant `json:"expiresAt" doc:"When it is erased."`
}

// SchemaName: see Form.
func (Listed) SchemaName() string { return "ListedApplication" }

func (s *Service) listed(a Application) Listed {
	a.State = a.stateAt(store.At(s.db.Now()))
	return Listed{a, a.Email, a.Organisation, a.Use, a.Mail, a.endsAt()}
}

// ListInput selects applications.
type ListInput struct {
	State string `query:"state" enum:"UNCONFIRMED,RECEIVED,APPROVED,ACTIVATED,REFUSED,EXPIRED"`
	route.Page
}

// List is one page of applications.
type List struct {
	Applications []Listed `json:"applications"`
	NextCursor   *string  `json:"nextCursor"`
}

// SchemaName: see Form.
func (List) SchemaName() string { return "ApplicationList" }

// Applications lists applications for operators, newest first.
func (s *Service) Applications(ctx context.Context, in *ListInput) (List, error) {
	slice, err := in.Slice()
	if err != nil {
		return List{}, err
	}
	page, next, err := list(ctx, s.db.Read(), in.State, slice)
	answer := List{[]Listed{}, in.Next(next)}
	for _, a := range page {
		answer.Applications = append(answer.Applications, s.listed(a))
	}
	return answer, err
}

// Counts are how many applications need an operator.
type Counts struct {
	Waiting     int `json:"waiting" doc:"Applications that wait for a decision."`
	FailedMails int `json:"failedMails" doc:"Approved applications whose mail has failed, of the newest 1000 that are approved."`
}

// Counts counts the applications that need an operator.
func (s *Service) Counts(ctx context.Context) (Counts, error) {
	return countDue(ctx, s.db.Read(), s.db.Now())
}

// OneInput names an application.
type OneInput struct {
	ApplicationID string `path:"applicationId" maxLength:"64"`
}

// One is the answer about one application.
type One struct {
	Application Listed `json:"application"`
}

// SchemaName: see Form.
func (One) SchemaName() string { return "ApplicationData" }

// Approve approves an application for an operator and sends its mail, or sends another mail. seen is
// the state in which the operator saw it: STATE_CONFLICT if it is in another one by now. Empty: in
// whatever state it is.
func (s *Service) Approve(ctx context.Context, id string, seen State) (One, error) {
	return s.decided(s.approve(ctx, id, seen))
}

// Refuse refuses an application for an operator; the links of one that was approved end. seen is as
// in Approve.
func (s *Service) Refuse(ctx context.Context, id string, seen State) (One, error) {
	return s.decided(s.refuse(ctx, id, seen))
}

func (s *Service) decided(a Application, err error) (One, error) {
	if err != nil {
		return One{}, err
	}
	return One{s.listed(a)}, nil
}
