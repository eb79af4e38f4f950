// Package access leads from a stranger to a key of the sandbox: the stranger applies and confirms the
// address, an operator approves, a mail leads to the playground, and its token is exchanged for a key.
//
// # Applying
//
// POST /api/access/apply answers every well-formed application alike, whatever is known of the
// address. The request is stored and a job queued, in one transaction that never looks at other
// applications; what becomes of it is decided later (AdmitJob). An address has one open
// application at a time, and at most three within 30 days, counted exactly: further ones are dropped
// without a word, so an address gets no more than three mails of strangers' making. Addresses are compared, and kept, in lower case. Callers are limited by their own
// address as those of the sandbox are, with windows of their own (sandbox.Callers). While 10,000
// applications wait for an operator, all callers are answered 503.
//
// # Confirming
//
// An application is UNCONFIRMED until its applicant confirms the address, so nobody approves an address
// whose mail the applicant does not read; operators may refuse it. A mail has a link whose fragment is a token. The page
// behind it shows a button, and only POST /api/access/confirm confirms: a mail scanner that opens the
// link does not. An application that is not confirmed within 24 hours is EXPIRED. At most 10,000 are
// unconfirmed or wait for an operator: for one more, the oldest unconfirmed one is deleted, so
// strangers who confirm nothing keep nobody from applying. Without a mail server
// applications need no confirming, as no mail would reach the applicant.
//
// # Deciding
//
// An operator approves or refuses (muniment access). Approving queues a mail in the same change.
// Approving an application that is approved sends another mail, and ends the links of the mails
// before. Refusing one that is approved ends its links too. An applicant is not informed of a
// refusal.
//
// # The mail
//
// There is a mail to confirm, and one to activate. MailJob sends it, after the change is committed, by SMTP, or writes it to a file of the outbox
// where no mail server is configured. Each attempt makes a token of its own, of which only the SHA-256 is
// stored, before it sends: an attempt whose process is killed may have reached the applicant, so its
// token stays good beside those of later attempts. A token is good for 24 hours, and one of an
// application is good once. What a mail server refuses for good, or for about four hours, is
// FAILED; the list of applications shows how far each mail is, with the server's codes and never its text. Nothing
// that the applicant wrote is in the mail, so nobody can have us send texts of theirs to others.
//
// # Activating
//
// POST /api/access/activate makes a tenant with a key, in one change with the end of the token: of
// any number of callers one gets the key. All others, and tokens that are unknown, used, replaced or
// expired, get one and the same 404. An answer that is lost can't be shown again: an operator
// makes another key (muniment key create).
//
// The tenant is of the sandbox: only the sandbox's keys sign for it. Its own key is given out, so it
// is not a visitor's: it is never dropped for being idle, takes none of the sandbox's places and
// bytes, and its keys can be listed, created and rotated (tenant.Request.Activated). An operator ends
// it by revoking its keys. Nodes forward its deliveries to control, whose node of the sandbox signs
// them (control.Config.DeliverSandbox and SandboxRows); it makes no beacons. Where the
// sandbox is off nobody can apply or activate; what was given out works on.
//
// # What is kept of a person
//
// Address, organisation and intended use are in these tables alone, the address in the tenant's
// developer too once it is activated. They are in no event and in no log. 30 days after it was made
// an application expires, unless it is ACTIVATED or REFUSED; then it is deleted, whatever its
// state, with its mail in the outbox (Expire). Events of applications belong to the system's tenant.
//
// In a database restored from an older copy, Replay closes the applications that were closed
// meanwhile, so no link can be used twice.
package access

import (
	"fmt"
	"strings"
	"time"

	"muniment.example/control/mailer"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Application is the record of an application for a key of the sandbox.
type Application struct {
	ID       string `json:"id" db:"application_id"`
	TenantID string `json:"-" db:"tenant_id"` // the system's
	// Email, Organisation and Use are personal data: no event has them.
	Email             string        `json:"-" db:"email"`
	Organisation      string        `json:"-" db:"organisation"`
	Use               string        `json:"-" db:"purpose"`
	State             State         `json:"state" db:"state,moves" enum:"UNCONFIRMED,RECEIVED,APPROVED,ACTIVATED,REFUSED,EXPIRED"`
	Approvals         int64         `json:"approvals" db:"approvals,moves" doc:"How often it was approved: each time another mail is sent."`
	ActivatedTenantID *string       `json:"activatedTenantId" db:"activated_tenant_id,moves" doc:"The tenant that came of it."`
	Mail              Mail          `json:"-" db:"*"`
	CreatedAt         store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt         store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision          int64         `json:"revision" db:"revision,moves"`
}

// State is the state of an application.
type State string

// The states.
const (
	Unconfirmed State = "UNCONFIRMED"
	Received    State = "RECEIVED"
	Approved    State = "APPROVED"
	Activated   State = "ACTIVATED"
	Refused     State = "REFUSED"
	Expired     State = "EXPIRED"
)

// Action moves an application from state to state.
type Action string

// The actions.
const (
	Confirm  Action = "confirm"
	Approve  Action = "approve"
	Resend   Action = "resend" // approve what is approved
	Refuse   Action = "refuse"
	Activate Action = "activate"
	Expire   Action = "expire"
	Drop     Action = "drop" // for a newer one
)

// transitions is the table of states. Any other transition is refused.
var transitions = store.Steps[Action, State]{
	Confirm:  {From: store.From(Unconfirmed), To: Received, Event: eventConfirmed},
	Approve:  {From: store.From(Received), To: Approved, Event: eventApproved},
	Resend:   {From: store.From(Approved), Event: eventApproved},
	Refuse:   {From: store.From(Unconfirmed, Received, Approved), To: Refused, Event: eventRefused},
	Activate: {From: store.From(Approved), To: Activated, Event: eventActivated},
	// It is seen as expired before that is stored.
	Expire: {From: store.From(Expired), To: Expired, Event: eventExpired},
	Drop:   {From: store.From(Unconfirmed), To: Expired, Event: eventExpired},
}

const (
	// keep is how long an application is kept, and the stretch within which those of an address count.
	keep = 30 * 24 * time.Hour
	// mostOfAddress is how many applications of an address there may be within keep.
	mostOfAddress = 3
	// confirmWithin is how long an application may be unconfirmed.
	confirmWithin = 24 * time.Hour
	// mostWaiting is how many applications wait for an operator at most, and how many with those that
	// are unconfirmed.
	mostWaiting = 10_000
	// mostMails is of how many approved applications Counts reads the mails.
	mostMails = 1000
	// tokenAge is how long a token is good.
	tokenAge = 24 * time.Hour
	// Bounds of texts, in bytes.
	maxOrganisation, maxUse = 200, 2000
)

// endsAt is when the application expires.
func (a *Application) endsAt() store.Instant { return store.At(a.CreatedAt.Add(keep)) }

// stateAt is the state at a time: an open application whose time is over is EXPIRED, stored or not.
func (a *Application) stateAt(now store.Instant) State {
	ends := a.endsAt().Time
	switch a.State {
	case Unconfirmed:
		ends = a.CreatedAt.Add(confirmWithin)
	case Received, Approved:
	default:
		return a.State
	}
	if !now.Before(ends) {
		return Expired
	}
	return a.State
}

// Mail is how far the mail of an application's newest approval is, or before that the one to confirm.
type Mail struct {
	State    MailState     `json:"state" db:"mail_state" enum:"NONE,QUEUED,SENT,WRITTEN,FAILED" doc:"WRITTEN is a file of the outbox, of a service without a mail server."`
	Attempts int64         `json:"attempts" db:"mail_attempts" doc:"How many have begun."`
	Code     string        `json:"code" db:"mail_code" doc:"Why the last attempt failed; empty if it has not."`
	Detail   string        `json:"detail" db:"mail_detail" doc:"The mail server's reply code, or what can't be reached."`
	At       store.Instant `json:"at" db:"mail_at" nullable:"true" doc:"When that was noted."`
}

// MailState is the state of a mail.
type MailState string

// The states of a mail.
const (
	MailNone    MailState = "NONE"
	MailQueued  MailState = "QUEUED"
	MailSent    MailState = "SENT"
	MailWritten MailState = "WRITTEN"
	MailFailed  MailState = "FAILED"
)

// Form is what a stranger sends to apply.
type Form struct {
	Email        string `json:"email" minLength:"1" maxLength:"254" doc:"Where the mail with the activation link is sent."`
	Organisation string `json:"organisation" minLength:"1" maxLength:"200" doc:"For whom the key is."`
	Use          string `json:"use" minLength:"1" maxLength:"2000" doc:"What it is for."`
}

// normal is the form as it is kept, or what is wrong with it.
func (f Form) normal() (Form, error) {
	sent := f.Email // which invalid UTF-8 would not survive
	f = Form{strings.ToLower(sent), strings.TrimSpace(f.Organisation), strings.TrimSpace(f.Use)}
	var faults []api.ValidationError
	if !mailer.IsAddress(sent) || !mailer.IsAddress(f.Email) {
		faults = append(faults, api.ValidationError{Field: "email", Message: fmt.Sprintf("must be one e-mail address of at most %d bytes, as name@example.org", mailer.MaxAddress)})
	}
	for _, text := range []struct {
		field, value, breaks string
		most                 int
	}{{"organisation", f.Organisation, "", maxOrganisation}, {"use", f.Use, "\r\n\t", maxUse}} {
		switch {
		case text.value == "":
			faults = append(faults, api.MissingField(text.field))
		case len(text.value) > text.most || !mailer.IsPlain(text.value, text.breaks):
			faults = append(faults, api.ValidationError{Field: text.field, Message: fmt.Sprintf("must be text without control characters, of at most %d bytes", text.most)})
		}
	}
	if len(faults) > 0 {
		return f, api.Invalid(faults...)
	}
	return f, nil
}

const prefixApplication api.Prefix = "app_"
