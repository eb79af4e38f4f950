// Package payeelink lets a payee read its own part of an issued statement by a link, without an account.
//
// A link is of one payee and one statement, has an end, and can be revoked. It leads to a page under /payee/, with the
// payee's part as a paper, the same as PDF, CSV and JSON, and what a verifier needs. None of it names another payee:
// paper.Paper.For leaves them out. Of a line it shows price, quantity, amount and the payee's percentage, which an invoice
// needs, and by which a payee checks its amount. So who shares a line knows what all others together get of it, and with
// one other, what that one gets. A draft has no links.
//
// The token of a link is 256 random bits, which are returned once; the database has their SHA-256, as of an API key. So
// nobody who reads the database, a backup or the log can make a link, none can be guessed, and no secret has to be kept
// to check one. A token that says what it is for and is signed would need such a secret, and could be revoked only by a
// record like this one. What is signed is what the link hands out.
//
// What can be verified: the service's log has an event for each payable (payable.issued), with its number and amount,
// and without its parties. The page hands out that event with the proof that the signed log includes it. /verify judges
// it by itself, and the payee learns that exactly this is recorded as due, since when, and that it was not changed. How
// the amount was computed follows from the signed statement and the packs, which show what all payees get and who saw
// what: they are not handed out here, and the page says so. The signed text of a statement for this payee alone has no
// share of others, but what is without a price, what disputes exclude, the scopes of rights and the statements it
// overlaps with, of the whole tenant. It is handed out only if it shows nothing of these but of the payee's own lines.
//
// An unknown token, one that has ended and one that was revoked get the same answer. No event, log line, trace or error
// has a token: requests are known by the route alone. Pages say that nobody may keep, index or frame them, nor learn
// their address as a referrer; they run no script (the CSP's sandbox). They are served from the places for callers
// without a key, and at most atOnce of them are made at a time: atOnceTenant of a tenant's, atOnceLink of a link's, so
// that no link, and no tenant with many, keeps all others from theirs.
//
// When a person is erased, links to the papers that named the person end. If the database is restored from an older
// copy, a link that was revoked since is revoked again by its event; one that was made since is listed, and works no
// more: its hash is in no event.
package payeelink

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"muniment.example/control/paper"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/checkpoint"
)

// Path is where pages of links are; the token follows.
const Path = "/payee"

const (
	prefix api.Prefix = "pln_"
	// defaultLife is how long a link works that names no end, and longest how long any does.
	defaultLife, longest = 30 * 24 * time.Hour, 400 * 24 * time.Hour
	// mostInForce is how many links to one payee's part of a statement work at a time.
	mostInForce = 20
	// atOnce is how many answers are made at a time: a paper of a large statement takes memory and time. atOnceTenant
	// of them are by links of one tenant, atOnceLink by one link.
	atOnce, atOnceTenant, atOnceLink = 8, 4, 2
)

// Link is the record of a link.
type Link struct {
	ID             string `json:"id" db:"link_id"`
	TenantID       string `json:"-" db:"tenant_id"`
	StatementID    string `json:"statementId" db:"statement_id" doc:"The statement that it shows a part of."`
	CounterpartyID string `json:"counterpartyId" db:"counterparty_id" doc:"The payee whose part it shows."`
	// TokenHash is nil once the link is revoked, and of one that is known from an event alone.
	TokenHash *string       `json:"-" db:"token_hash,moves"`
	State     State         `json:"state" db:"state,moves" enum:"ACTIVE,REVOKED" doc:"ACTIVE links work until expiresAt."`
	ExpiresAt store.Instant `json:"expiresAt" db:"expires_at" doc:"When it stops to work."`
	CreatedBy string        `json:"createdBy" db:"created_by" doc:"The API key or the member that made it."`
	RevokedAt store.Instant `json:"revokedAt" db:"revoked_at,moves" nullable:"true" doc:"When it was revoked; null until then."`
	CreatedAt store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision  int64         `json:"revision" db:"revision,moves"`
}

// State is the state of a link.
type State string

// The states.
const (
	Active  State = "ACTIVE"
	Revoked State = "REVOKED"
)

// action moves a link from state to state.
type action string

const revoke action = "revoke"

// The events about links.
var (
	linkEvents   = &store.Noun{Name: "payee_link", Scope: api.SettlementRead}
	eventCreated = linkEvents.Kind("payee_link.created", "A link was made by which a payee reads its part of a statement. The link itself is left out.", Link{})
	eventRevoked = linkEvents.Kind("payee_link.revoked", "A payee's link stopped to work before its end.", Link{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{linkEvents}

// links are the records; one that is revoked stays so.
var links = store.Machine[Link, action, State]{
	Records: store.Records[Link]{Noun: linkEvents.Name, Table: "payee_links"},
	Steps:   store.Steps[action, State]{revoke: {From: store.From(Active, Revoked), To: Revoked, Event: eventRevoked, Stops: true}},
}

// Tables are the tables of this package.
var Tables = store.Tables{{Name: "payee_links"}}

// Sections are this package's data in an export of the tenant.
var Sections = []store.Section{links.Section("payeeLinks", api.SettlementRead)}

// Replay applies the newest event of a link for rollback.Replay. No event has a token's hash: a link that the database does
// not know is restored without, and so works no more.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	was, said, err := links.NewerInEvent(ctx, tx, e)
	if err != nil || said == nil {
		return false, err
	}
	if was != nil && said.State == Active {
		said.TokenHash = was.TokenHash
	}
	return true, links.Restore(ctx, tx, was, said)
}

// Log finds and proves events: Events is pipeline.Warehouse's, Inclusion proof.Service's, each with its contract.
type Log interface {
	Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error)
	Inclusion(ctx context.Context, row pipeline.Row, latest bool) (proof checkpoint.InclusionProof, found bool, err error)
}

// Config of the service. DB, Statements, Log and PublicURL are required.
type Config struct {
	DB         *store.DB
	Statements *statement.Service
	Log        Log
	// PublicURL is where browsers reach the pages, without a slash at its end.
	PublicURL string
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Service is safe for concurrent use.
type Service struct {
	cfg    Config
	db     *store.DB
	places *places

	backoff api.Backoff
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Statements == nil || cfg.Log == nil || cfg.PublicURL == "" {
		return nil, errors.New("cannot open the payees' links: DB, Statements, Log or PublicURL is missing")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Service{cfg: cfg, db: cfg.DB, places: newPlaces()}, nil
}

// create makes a link, and returns its token, which is kept nowhere.
func (s *Service) create(ctx context.Context, l Link, by sealer.Ref) (Link, string, error) {
	known, err := store.Count(ctx, s.db.Read(), "the payee", `SELECT COUNT(*) FROM counterparties WHERE tenant_id = $1 AND counterparty_id = $2`, l.TenantID, l.CounterpartyID)
	if err == nil && known == 0 {
		err = api.InvalidField("counterpartyId", "is not a counterparty of this tenant")
	}
	if err != nil {
		return l, "", err
	}
	if _, err := s.cfg.Statements.PartOf(ctx, l.TenantID, l.StatementID, l.CounterpartyID); err != nil {
		return l, "", err
	}
	token := api.NewSecret()
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		now := store.At(tx.Now())
		if l.ExpiresAt.IsZero() {
			l.ExpiresAt = store.At(now.Add(defaultLife))
		}
		if !l.ExpiresAt.After(now.Time) || l.ExpiresAt.After(now.Add(longest)) {
			return errEnd
		}
		n, err := store.Count(ctx, tx, "the payee's links", `SELECT COUNT(*) FROM payee_links WHERE tenant_id = $1 AND statement_id = $2 AND counterparty_id = $3 AND state = 'ACTIVE' AND expires_at > $4`, l.TenantID, l.StatementID, l.CounterpartyID, now)
		if err != nil {
			return err
		}
		if n >= mostInForce {
			return errTooMany
		}
		l.ID, l.State, l.CreatedBy, l.CreatedAt, l.UpdatedAt = api.NewID(prefix, now.Time), Active, by.ID, now, now
		l.TokenHash = new(api.HashSecret(token))
		return links.Create(ctx, tx, eventCreated, &l, by, nil)
	})
	return l, token, err
}

// The errors of a request for a link.
var (
	errEnd     = api.InvalidField("expiresAt", "must be in the future, and at most 400 days away")
	errTooMany = api.Conflict("20 links of this payee work already: revoke one first")
)

// end revokes a link.
func (s *Service) end(ctx context.Context, tenantID, linkID string, by sealer.Ref) (ended Link, err error) {
	err = links.Do(ctx, s.db, revoke, func(tx *store.Tx) (err error) {
		ended, err = end(ctx, tx, tenantID, linkID, by)
		return err
	})
	return ended, err
}

func end(ctx context.Context, tx *store.Tx, tenantID, linkID string, by sealer.Ref) (Link, error) {
	return links.Move(ctx, tx, store.Move[Link, action]{TenantID: tenantID, ID: linkID, Action: revoke, By: by, Edit: func(next *Link) error {
		next.TokenHash, next.RevokedAt = nil, next.UpdatedAt
		return nil
	}})
}

// ErasedKinds are the kinds of rows of which Erased needs the ids: counterparties and payables.
var ErasedKinds = []string{"counterparty", "payable"}

// Erased ends the links to what counterparties and payables say of a person who was erased, in that change; ids are
// theirs.
func (s *Service) Erased(ctx context.Context, tx *store.Tx, tenantID string, ids []string) error {
	for _, id := range ids {
		named, err := store.List(ctx, tx, "the links to papers of a person", store.Text,
			`SELECT link_id FROM payee_links WHERE tenant_id = $1 AND state = 'ACTIVE' AND (counterparty_id = $2 OR EXISTS (
				SELECT 1 FROM payables p WHERE p.tenant_id = $1 AND p.payable_id = $2 AND p.counterparty_id = payee_links.counterparty_id AND p.statement_id = payee_links.statement_id)) ORDER BY link_id`, tenantID, id)
		if err != nil {
			return err
		}
		for _, linkID := range named {
			if _, err := end(ctx, tx, tenantID, linkID, store.BySystem()); err != nil {
				return err
			}
		}
	}
	return nil
}

// inForce returns the link of a token; nil if there is none, or it works no more.
func (s *Service) inForce(ctx context.Context, token string) (*Link, error) {
	l, err := store.One(ctx, s.db.Read(), "a payee's link", links.Scan, links.Select()+` WHERE token_hash = $1`, api.HashSecret(token))
	if err != nil || l == nil || l.State != Active || !s.db.Now().Before(l.ExpiresAt.Time) {
		return nil, err
	}
	return l, nil
}

// payableOf is what the payee is due of the statement; nil for a correction that changes nothing of it.
func payableOf(p *paper.Paper) (id, number string) {
	if one := p.One(); one != nil {
		return one.ID, one.Number
	}
	return "", ""
}
