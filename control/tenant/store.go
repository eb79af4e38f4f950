package tenant

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/calendar"
	"muniment.example/sealer/keydir"
)

func insertTenant(ctx context.Context, tx *store.Tx, c Created, q *Request, now time.Time, revision int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO tenants (tenant_id, org_id, created_at, updated_at, revision, sandbox, visitor, time_zone) VALUES ($1, $2, $3, $3, $4, $5, $6, $7)`,
		c.TenantID, c.OrgID, store.At(now), revision, number(q.Sandbox), number(q.Sandbox && !q.Activated), q.TimeZone)
	if err != nil {
		return fmt.Errorf("cannot write the tenant %s: %w", c.TenantID, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO developers (developer_id, tenant_id, org_id, email, created_at, updated_at, revision)
		VALUES ($1, $2, $3, $4, $5, $5, $6)`, c.DeveloperID, c.TenantID, c.OrgID, q.Email, store.At(now), revision)
	if err != nil {
		return fmt.Errorf("cannot write the developer %s: %w", c.DeveloperID, err)
	}
	return nil
}

// number is how a column holds a boolean.
func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// isVisitor says whether the tenant is a visitor's, whose key stays in.
func isVisitor(ctx context.Context, q store.Querier, tenantID string) (bool, error) {
	id, err := store.One(ctx, q, fmt.Sprintf("the tenant %q", tenantID), store.Text, `SELECT tenant_id FROM tenants WHERE tenant_id = $1 AND visitor = 1`, tenantID)
	return id != nil, err
}

// IsSandbox says whether the tenant is one of the sandbox; false for one that is
// unknown or was dropped.
func IsSandbox(ctx context.Context, q store.Querier, tenantID string) (bool, error) {
	id, err := store.One(ctx, q, fmt.Sprintf("the tenant %q", tenantID), store.Text, `SELECT tenant_id FROM tenants WHERE tenant_id = $1 AND sandbox = 1`, tenantID)
	return id != nil, err
}

// TimeZone returns the tenant's IANA time zone; ErrNone if there is no such tenant.
func TimeZone(ctx context.Context, q store.Querier, tenantID string) (string, error) {
	zone, err := store.One(ctx, q, fmt.Sprintf("the tenant %q", tenantID), store.Text, `SELECT time_zone FROM tenants WHERE tenant_id = $1`, tenantID)
	if err == nil && zone == nil {
		err = ErrNone
	}
	if err != nil {
		return "", err
	}
	return *zone, nil
}

// Zone returns the location of the tenant's TimeZone.
func Zone(ctx context.Context, q store.Querier, tenantID string) (*time.Location, error) {
	name, err := TimeZone(ctx, q, tenantID)
	if err != nil {
		return nil, err
	}
	return calendar.Zone(name)
}

// Today returns the date, such as 2026-12-31, of a moment in the tenant's time zone.
func Today(ctx context.Context, q store.Querier, tenantID string, now time.Time) (string, error) {
	zone, err := Zone(ctx, q, tenantID)
	if err != nil {
		return "", err
	}
	return now.In(zone).Format(time.DateOnly), nil
}

// Organisation returns the tenant's organisation; ErrNone if there is no such tenant.
func Organisation(ctx context.Context, q store.Querier, tenantID string) (string, error) {
	org, err := store.One(ctx, q, fmt.Sprintf("the tenant %q", tenantID), store.Text, `SELECT org_id FROM tenants WHERE tenant_id = $1`, tenantID)
	if err == nil && org == nil {
		err = ErrNone
	}
	if err != nil {
		return "", err
	}
	return *org, nil
}

// ErrNone says that there is no such tenant; it may have been dropped.
var ErrNone error = api.NotFound("tenant")

// PackPurpose returns the purpose of the keys that sign the tenant's packs; ErrNone if there is
// no such tenant.
func PackPurpose(ctx context.Context, q store.Querier, tenantID string) (string, error) {
	if tenantID == api.SystemTenant {
		return keydir.PackPurpose(false), nil
	}
	scan := func(row store.Row) (sandbox bool, err error) { return sandbox, row.Scan(&sandbox) }
	sandbox, err := store.One(ctx, q, fmt.Sprintf("the tenant %q", tenantID), scan, `SELECT sandbox = 1 FROM tenants WHERE tenant_id = $1`, tenantID)
	switch {
	case err != nil:
		return "", err
	case sandbox == nil:
		return "", ErrNone
	}
	return keydir.PackPurpose(*sandbox), nil
}

// IsSandbox is the function IsSandbox on the service's database.
func (s *Service) IsSandbox(ctx context.Context, tenantID string) (bool, error) {
	return IsSandbox(ctx, s.db.Read(), tenantID)
}

// summary reads a tenant's own fields and the email of one of its developers; nil if there is
// no such tenant.
func (s *Service) summary(ctx context.Context, tenantID, developerID string) (*Snapshot, error) {
	scan := func(row store.Row) (found Snapshot, err error) {
		return found, row.Scan(&found.Tenant.TenantID, &found.Tenant.OrgID, &found.Tenant.TimeZone, &found.Tenant.CreatedAt, &found.Developer.DeveloperID, &found.Developer.OrgID, &found.Developer.Email)
	}
	return store.One(ctx, s.db.Read(), "the tenant "+tenantID, scan, `SELECT t.tenant_id, t.org_id, t.time_zone, t.created_at, d.developer_id, d.org_id, d.email
		FROM tenants t JOIN developers d ON d.tenant_id = t.tenant_id WHERE t.tenant_id = $1 AND d.developer_id = $2`, tenantID, developerID)
}

// listTenants lists the tenants that are not visitors', newest first.
func listTenants(ctx context.Context, q store.Querier, s store.Slice) (page []Listed, next string, err error) {
	scan := func(row store.Row) (t Listed, err error) {
		return t, row.Scan(&t.TenantID, &t.OrgID, &t.CreatedAt, &t.Sandbox, &t.Email, &t.Keys)
	}
	var w store.Where
	w.And("t.visitor = $", 0)
	return store.ListPage(ctx, q, s, "the tenants", func(t Listed) string { return t.TenantID }, scan,
		`SELECT t.tenant_id, t.org_id, t.created_at, t.sandbox = 1,
			COALESCE((SELECT d.email FROM developers d WHERE d.tenant_id = t.tenant_id ORDER BY d.developer_id LIMIT 1), ''),
			(SELECT COUNT(*) FROM api_keys k WHERE k.tenant_id = t.tenant_id AND k.revoked_at IS NULL)
		FROM tenants t`, "t.tenant_id", w)
}

// Lasting lists the tenants that are not visitors', the system's among them: those whose packs are
// sealed without being asked.
func (s *Service) Lasting(ctx context.Context) ([]string, error) {
	ids, err := store.List(ctx, s.db.Read(), "the tenants", store.Text, `SELECT tenant_id FROM tenants WHERE visitor = 0 ORDER BY tenant_id`)
	return append(ids, api.SystemTenant), err
}

// Any says whether an operator has created a tenant.
func (s *Service) Any(ctx context.Context) (bool, error) {
	one, err := store.One(ctx, s.db.Read(), "the tenants", store.Text, `SELECT tenant_id FROM tenants WHERE sandbox = 0 LIMIT 1`)
	return one != nil, err
}

// tenantOf returns an organisation's first tenant outside the sandbox; nil if there is none.
func tenantOf(ctx context.Context, q store.Querier, orgID string) (tenantID *string, err error) {
	return store.One(ctx, q, "the tenants of "+orgID, store.Text,
		`SELECT tenant_id FROM tenants WHERE org_id = $1 AND sandbox = 0 ORDER BY tenant_id LIMIT 1`, orgID)
}

var keys = store.Records[Key]{Noun: "key", Table: "api_keys", Feed: feedKey}

// secretHash is stored in hex.
type secretHash [32]byte

func (h *secretHash) Value() (driver.Value, error) { return hex.EncodeToString(h[:]), nil }

func (h *secretHash) Scan(column any) error {
	if _, err := hex.Decode(h[:], []byte(fmt.Sprint(column))); err != nil {
		return fmt.Errorf("the key's secret_hash is damaged: %w", err)
	}
	return nil
}

// findAnyKey is keys.Find for a key of any tenant.
func findAnyKey(ctx context.Context, q store.Querier, keyID string) (*Key, error) {
	return store.Find(ctx, q, "key", keyID, keys.Scan, keys.Select()+` WHERE key_id = $1`, keyID)
}

// owner returns the owner of a tenant's new keys, its first developer; nil if there is no such
// tenant.
func owner(ctx context.Context, q store.Querier, tenantID string) (*Key, error) {
	scan := func(row store.Row) (k Key, err error) {
		k.TenantID = tenantID
		err = row.Scan(&k.OrgID, &k.DeveloperID)
		return k, err
	}
	return store.One(ctx, q, fmt.Sprintf("the tenant %q", tenantID), scan,
		`SELECT org_id, developer_id FROM developers WHERE tenant_id = $1 ORDER BY developer_id LIMIT 1`, tenantID)
}

// TenantIDs lists, oldest first, the tenants that are sealed before a key of a purpose is
// revoked. They are those of the sandbox for one of its keys, and all others for any other key
// by which evidence is verified, with the system's tenant last. Tenants of the sandbox are left
// out of the revocation of a directory key: it signs no packs, and theirs verify under the next
// directory, too. No evidence depends on a key for webhooks, so there the list is empty.
func (s *Service) TenantIDs(ctx context.Context, purpose string) ([]string, error) {
	p, sandbox := keydir.PurposeOf(purpose), 0
	switch {
	case p.Name == "":
		return nil, fmt.Errorf("cannot list the tenants to seal: unknown key purpose %q", purpose)
	case !p.Receipts && !p.Packs && !p.Directories:
		return nil, nil
	case p.Sandbox:
		sandbox = 1
	}
	ids, err := store.List(ctx, s.db.Read(), "the tenants", store.Text, `SELECT tenant_id FROM tenants WHERE sandbox = $1 ORDER BY tenant_id`, sandbox)
	if err == nil && sandbox == 0 {
		ids = append(ids, api.SystemTenant)
	}
	return ids, err
}

// listKeys lists the tenant's keys, newest first.
func listKeys(ctx context.Context, q store.Querier, tenantID string, s store.Slice) (page []Key, next string, err error) {
	return keys.Page(ctx, q, tenantID, store.Where{}, s)
}

// mostMade is the most keys, members and links that the response of a revocation names, of each.
const mostMade = 100

// madeBy lists what works on of what a key made, and of what that made: also of what has ended meanwhile.
func madeBy(ctx context.Context, q store.Querier, maker *Key, now time.Time) (made Outlasting, err error) {
	makers, err := makersFrom(ctx, q, maker)
	if err != nil {
		return made, err
	}
	if made.MadeKeys, made.MoreMadeKeys, err = madeOf(ctx, q, makers, "the keys made by "+maker.KeyID, func(row store.Row) (k MadeKey, err error) {
		return k, row.Scan(&k.KeyID, &k.Label, &k.CreatedBy, &k.CreatedAt, &k.ExpiresAt)
	}, func(k MadeKey) string { return k.KeyID }, `SELECT key_id, label, created_by, created_at, expires_at FROM api_keys
		WHERE tenant_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) AND created_by`, maker.TenantID, store.At(now)); err != nil {
		return made, err
	}
	if made.MadeMembers, made.MoreMadeMembers, err = madeOf(ctx, q, makers, "the members invited by "+maker.KeyID, func(row store.Row) (m MadeMember, err error) {
		return m, row.Scan(&m.MemberID, &m.Role, &m.State, &m.InvitedBy, &m.CreatedAt)
	}, func(m MadeMember) string { return m.MemberID }, `SELECT member_id, role, state, invited_by, created_at FROM members WHERE tenant_id = $1 AND state <> 'REMOVED' AND invited_by`, maker.TenantID); err != nil {
		return made, err
	}
	made.MadePayeeLinks, made.MoreMadePayeeLinks, err = madeOf(ctx, q, makers, "the payees' links made by "+maker.KeyID, func(row store.Row) (l MadePayeeLink, err error) {
		return l, row.Scan(&l.PayeeLinkID, &l.StatementID, &l.CreatedBy, &l.CreatedAt, &l.ExpiresAt)
	}, func(l MadePayeeLink) string { return l.PayeeLinkID }, `SELECT link_id, statement_id, created_by, created_at, expires_at FROM payee_links WHERE tenant_id = $1 AND state = 'ACTIVE' AND expires_at > $2 AND created_by`, maker.TenantID, store.At(now))
	return made, err
}

// madeOf lists what makers made, newest first, at most mostMade, and says whether there is more. query ends where a set of makers follows.
func madeOf[T any](ctx context.Context, q store.Querier, makers []string, what string, scan func(store.Row) (T, error), id func(T) string, query string, args ...any) (made []T, more bool, err error) {
	for some := range slices.Chunk(makers, mostMakers) {
		part, err := store.List(ctx, q, what, scan, query+` IN (`+store.Marks(len(args), len(some))+`) ORDER BY 1 DESC LIMIT `+strconv.Itoa(mostMade+1), behind(args, some)...)
		if err != nil {
			return nil, false, err
		}
		made = append(made, part...)
	}
	slices.SortFunc(made, func(a, b T) int { return cmp.Compare(id(b), id(a)) })
	if len(made) > mostMade {
		made, more = made[:mostMade], true
	}
	return made, more, nil
}

// mostMakers is how many makers one query has.
const mostMakers = 200

// makersFrom lists a key, and all keys and members that it or any of them made, whether they may act or not.
func makersFrom(ctx context.Context, q store.Querier, maker *Key) ([]string, error) {
	all, seen := []string{maker.KeyID}, map[string]bool{maker.KeyID: true}
	for asked := 0; asked < len(all); {
		some := all[asked:min(len(all), asked+mostMakers)]
		asked += len(some)
		set := store.Marks(1, len(some))
		next, err := store.List(ctx, q, "what "+maker.KeyID+" made", store.Text, `SELECT key_id FROM api_keys WHERE tenant_id = $1 AND created_by IN (`+set+`)
			UNION ALL SELECT member_id FROM members WHERE tenant_id = $1 AND invited_by IN (`+set+`)`, behind([]any{maker.TenantID}, some)...)
		if err != nil {
			return nil, err
		}
		for _, id := range next {
			if !seen[id] {
				seen[id], all = true, append(all, id)
			}
		}
	}
	return all, nil
}

// behind is arguments, and texts behind them.
func behind(args []any, texts []string) []any {
	all := slices.Clone(args)
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// exported is a tenant in an export.
type exported struct {
	TenantID  string        `json:"tenantId"`
	OrgID     string        `json:"orgId"`
	CreatedAt store.Instant `json:"createdAt"`
}

type exportedDeveloper struct {
	DeveloperID string        `json:"developerId"`
	OrgID       string        `json:"orgId"`
	Email       string        `json:"email"`
	CreatedAt   store.Instant `json:"createdAt"`
}

// Sections are the data of this package in an export of the tenant. API keys have no secrets there.
var Sections = []store.Section{
	store.SectionOf("tenant", api.RightsRead, func(row store.Row) (t exported, err error) {
		return t, row.Scan(&t.TenantID, &t.OrgID, &t.CreatedAt)
	}, `SELECT tenant_id, org_id, created_at FROM tenants WHERE tenant_id = $1`),
	store.SectionOf("developers", api.KeysWrite, func(row store.Row) (d exportedDeveloper, err error) {
		return d, row.Scan(&d.DeveloperID, &d.OrgID, &d.Email, &d.CreatedAt)
	}, `SELECT developer_id, org_id, email, created_at FROM developers WHERE tenant_id = $1 ORDER BY developer_id`),
	keys.Section("apiKeys", api.KeysWrite),
}
