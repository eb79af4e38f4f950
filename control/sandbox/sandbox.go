// Package sandbox is the live sandbox under /api/sandbox, for visitors without a key.
//
// It has no rights, offers or packs of its own. A visitor gets a tenant like any other, with a key
// that is never given out; a visitor's requests are sent to /v1 with that key, and the response's
// data is passed on unchanged, in the sandbox's envelope. Its own are the cookie that names the
// tenant (cookie.go), the limits of each address (limit.go), the standard seed (seed.go), and the
// demos.
//
// Errors are {ok, error, message}. What /v1 refuses is HANDLER_ERROR, whose message is
// "<code of /v1>: <its message>", with the faults of all fields: 409 for a refused
// transition, 404 for an unknown id, 422 for a value, 503 while an engine is unavailable,
// otherwise 500. MISSING_FIELDS names the required fields that are absent, null or empty texts; a body
// that is no JSON object, or too long, is INVALID_BODY. Limits and cookie are checked before
// the body. What reaches no operation is a HANDLER_ERROR, too, 404 or 405, and counts for the
// limits as well.
//
// A page of another site could make a browser send a POST with its visitor's address, and
// sometimes the cookie. So a request that the browser marks as from another site is a
// HANDLER_ERROR, 403. Programs don't send such marks.
//
// A cookie is rejected as if there were none, unless it is signed for its tenant with the
// secret in the database, which is read for every request: after a rotation no process
// takes an older one. A tenant that was reset, or not used for a day, is dropped: its
// records and packs are deleted, and its events in the embedded warehouse, or what
// strangers make would fill the disk in time. In the log its events stay as long as any,
// and in ClickHouse for good; so do its head and the roots that were signed, of which there
// may never be others. Its cookie is
// TENANT_EVICTED then; POST tenant gives a new one. The same goes for a tenant whose key an
// operator has revoked.
//
// What visitors make may take a limited space, and none while the disk is nearly full:
// otherwise a visitor who runs the demo in a loop could keep all others, also paying ones, from
// delivering. One address may put a 64th of that space into the log, over all the tenants that it
// makes. Beyond that it is RATE_LIMITED until the log has dropped enough of it (budget.go).
//
// The number of tenants is limited. If all places or all bytes are taken, the tenant that was
// idle for longest is dropped for another visitor, if that is more than an hour, and if it frees
// space: what a tenant has put into the log stays there. Otherwise the answer is 503. So a client
// with many addresses can keep others out for an hour after the last request, and make idle
// visitors lose their tenants. With 64 addresses or more that each fill their part of the log, the
// sandbox is closed until the log has dropped some of it, after Config.LogKeep.
//
// An address has one window for all control processes: in memory where there is one
// process, in the database where there may be several.
package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"muniment/control/store"
	"muniment/control/tenant"
	"muniment/gateway/auth"
)

// Ask sends a request of a caller to the service itself, and returns status and body of the
// response. An error means that there was no complete response.
type Ask func(ctx context.Context, caller auth.Principal, method, target string, body []byte) (status int, answer []byte, err error)

// Deliver issues a receipt for a body of POST /v1/delivery, on behalf of a key of a tenant
// of the sandbox. answer is that route's, and the receipt durable. On an error nothing was
// promised: what that route would refuse is an *api.Error, any other means that it can't be
// said.
type Deliver func(ctx context.Context, tenantID, keyID string, body []byte) (answer []byte, err error)

// Config of the service. DB, Tables, Keys, Ask and Deliver are required.
type Config struct {
	DB *store.DB
	// Tables are those of all services: a visitor's tenant is dropped from them.
	Tables  store.Tables
	Keys    Keys
	Ask     Ask
	Deliver Deliver
	// CountPacks counts a tenant's proof packs; nil counts none.
	CountPacks tenant.Counter
	// MaxTenants bounds the visitors' tenants, of all processes together; 5,000 when it is 0,
	// which is more than one address makes within a day.
	MaxTenants int64
	// Bytes bounds what all visitors' tenants take on disk, of all processes together. A 64th
	// of it bounds what one takes outside the log, and what one address puts into the log;
	// 1 GiB when it is 0.
	Bytes int64
	// MinFree is how much space there must be on the disk of log, warehouse and packs: while Free
	// returns less, visitors are refused. 0: no minimum.
	MinFree int64
	Free    func() (int64, error)
	// LogKeep is how long the log keeps what is loaded; 7 days when it is 0.
	LogKeep time.Duration
	// DropPacks has the files of a tenant's packs deleted after the change that drops the
	// tenant; nil has none.
	DropPacks func(ctx context.Context, tx *store.Tx, tenantID string) error
	// Limits of each address; a limit that is 0 is the contract's.
	Limits Limits
	// Shared counts them in the database, together with other processes.
	Shared bool
	// Idle is after how long without a request a tenant is evicted; a day when it is 0.
	Idle time.Duration
	// Now is the clock of the limits, which should be a monotonic one. Default time.Now.
	Now func() time.Time
	// Logger; nil is slog.Default.
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
	v := &visitors{core: c, limiter: NewLimiter(cfg.Limits, cfg.Now)}
	if cfg.Shared {
		v.shared = &shared{db: cfg.DB, limits: cfg.Limits, refused: map[netip.Addr]time.Time{}}
	}
	return &Service{c, b, v, &demo{c, b}}
}

// New wires the service, and makes the secret of the cookies if there is none yet.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Tables == nil || cfg.Keys == nil || cfg.Ask == nil || cfg.Deliver == nil || cfg.MinFree > 0 && cfg.Free == nil {
		return nil, errors.New("cannot open the sandbox: DB, Tables, Keys, Ask, Deliver or Free is missing")
	}
	if cfg.MaxTenants == 0 {
		cfg.MaxTenants = defaultMaxTenants
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = defaultBytes
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
