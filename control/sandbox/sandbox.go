// Package sandbox is the live sandbox under /api/sandbox, for visitors without a key.
//
// It has no rights, offers or packs of its own. A visitor gets a tenant like any other, with a key
// that is never shown. The sandbox sends a visitor's requests to /v1 with that key, and passes the
// response's data on unchanged, in its own envelope. Its own parts are the cookie that names the
// tenant (cookie.go), the limits of each IP address (limit.go), the standard seed (seed.go), and
// the demos.
//
// The operations of package playground, under /api/playground, are for the same visitors
// (operation.go).
//
// Errors are {ok, error, message}. An error of /v1 becomes HANDLER_ERROR with the message
// "<code of /v1>: <its message>" and the faults of all fields: 412 for the gate, 409 for a transition that is not
// allowed, 404 for an unknown id, 422 for a value, 503 while an engine is unavailable, otherwise
// 500. MISSING_FIELDS names the required fields that are absent, null or empty strings. A body that
// is not a JSON object, or too long, is INVALID_BODY. Limits and cookie are checked before the
// body. A request without an operation is HANDLER_ERROR, too, 404 or 405, and counts towards the
// limits.
//
// A page of another site could make a browser send a POST from its visitor's address, and
// sometimes with the cookie. So a request that the browser marks as coming from another site is
// HANDLER_ERROR, 403. Clients other than browsers don't send these marks.
//
// A cookie counts only if it is signed for its tenant with the secret in the database, which is
// read for every request: after a rotation no process accepts an older cookie. A tenant that was
// reset, or not used for a day, is dropped: its records, its packs and its events in the embedded
// warehouse are deleted, since visitors would fill the disk otherwise. Its events remain in the log
// as long as any others, and in ClickHouse permanently. So do the head and the signed roots of its
// log, which must never be signed with other values. From then on its cookie is TENANT_EVICTED, and
// POST tenant sets a new one. A tenant whose key an operator has revoked is TENANT_EVICTED, too.
//
// The events that visitors have in the log are limited, and while the disk is nearly full they may
// write nothing: otherwise a visitor who runs the demo in a loop could prevent all other deliveries,
// those of paying tenants among them. One address may cause a 64th of these events, over all the
// tenants that it creates; after that it is RATE_LIMITED until the log has deleted enough of them
// (budget.go).
//
// The number of tenants is limited. At the limit the tenant that is idle longest is dropped for
// another visitor, if it is idle for over an hour. Otherwise the response is 503. So a client with
// many addresses can keep others out until an hour after its last request, and make idle visitors
// lose their tenants. If 64 or more addresses each cause all their events, the sandbox is closed
// until the log has deleted some of them, after Config.LogKeep.
//
// The sandbox's keys also sign for tenants of control/access. These are not visitors': nothing here
// counts or drops them.
//
// Each address has one window for all control processes: in memory if there is one process, in the
// database if there may be several.
package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/auth"
)

// Call sends a request of a caller to the service itself, and returns status and body of the
// response. An error means that there was no complete response.
type Call func(ctx context.Context, caller auth.Principal, method, target string, body []byte) (status int, response []byte, err error)

// Deliver issues a receipt for a body of POST /v1/delivery, on behalf of a key of a tenant of the
// sandbox. When it returns a response, which is that route's, the receipt is durable. An *api.Error
// is a refusal by that route; after any other error it is unknown whether there is a receipt.
type Deliver func(ctx context.Context, tenantID, keyID string, body []byte) (response []byte, err error)

// Config of the service. DB, Tables, Keys, Call and Deliver are required.
type Config struct {
	DB *store.DB
	// Tables are the tables of all services: a visitor's tenant is dropped from them.
	Tables  store.Tables
	Keys    Keys
	Call    Call
	Deliver Deliver
	// CountPacks counts a tenant's proof packs; nil counts none.
	CountPacks tenant.Counter
	// MaxTenants is the most tenants of visitors, over all processes. Default 5,000, which is
	// more than one address can create within a day.
	MaxTenants int64
	// Events is the most events of visitors in the log, over all processes; one address may cause
	// a 64th of it. Default 400,000.
	Events int64
	// MinFree is the least free space, in bytes, on the disk of log, warehouse and packs: while
	// Free returns less, visitors are refused. 0: no minimum, and Free is optional.
	MinFree int64
	Free    func() (int64, error)
	// LogKeep is how long the log keeps what is loaded. Default 7 days.
	LogKeep time.Duration
	// DropPacks deletes the files of a tenant's packs after the change that drops the tenant.
	// nil: there are no files.
	DropPacks func(ctx context.Context, tx *store.Tx, tenantID string) error
	// Dropped is called once this process has dropped a tenant. Optional.
	Dropped func(tenantID string)
	// Limits of each IP address; the default of each limit is the contract's.
	Limits Limits
	// Shared makes the limits count in the database, together with other processes.
	Shared bool
	// Idle is after how long without a request a tenant is evicted. Default one day.
	Idle time.Duration
	// Now is the clock of the limits, and should be monotonic. Default time.Now.
	Now func() time.Time
	// Logger; default slog.Default.
	Logger *slog.Logger
}

const (
	defaultMaxTenants = 5000
	defaultIdle       = 24 * time.Hour
)

// Service is safe for concurrent use.
type Service struct {
	*core
	*budget
	*visitors
	*changes
	*demo
}

// core is what all parts of the service use.
type core struct {
	cfg Config
	db  *store.DB
}

func newService(cfg Config) *Service {
	c := &core{cfg: cfg, db: cfg.DB}
	b := &budget{core: c}
	v := &visitors{c, NewCallers(CallersConfig{DB: cfg.DB, Limits: cfg.Limits, Shared: cfg.Shared, Now: cfg.Now})}
	return &Service{c, b, v, &changes{c, b}, &demo{c, b}}
}

// New wires the service, and creates the secret of the cookies if there is none.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Tables == nil || cfg.Keys == nil || cfg.Call == nil || cfg.Deliver == nil || cfg.MinFree > 0 && cfg.Free == nil {
		return nil, errors.New("cannot open the sandbox: DB, Tables, Keys, Call, Deliver or Free is missing")
	}
	if cfg.MaxTenants == 0 {
		cfg.MaxTenants = defaultMaxTenants
	}
	if cfg.Events == 0 {
		cfg.Events = budgetEvents
	}
	if cfg.LogKeep == 0 {
		cfg.LogKeep = defaultLogKeep
	}
	if cfg.DropPacks == nil {
		cfg.DropPacks = func(context.Context, *store.Tx, string) error { return nil }
	}
	if cfg.Limits.Burst == 0 {
		cfg.Limits.Burst = defaultBurst
	}
	if cfg.Limits.Sustained == 0 {
		cfg.Limits.Sustained = defaultSustained
	}
	if cfg.Idle == 0 {
		cfg.Idle = defaultIdle
	}
	if cfg.CountPacks == nil {
		cfg.CountPacks = func(context.Context, string) (int64, error) { return 0, nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	err := cfg.DB.Change(ctx, func(tx *store.Tx) error { return keepSecret(ctx, tx, newSecret(), store.At(tx.Now())) })
	return newService(cfg), err
}
