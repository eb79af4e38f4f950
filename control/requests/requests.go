// Package requests knows what a tenant's requests came to lately: when each of its API keys was last used, and which
// requests of the last 24 hours were refused, by key, operation, status, code and cause.
//
// Nodes tell control with their polls what they have answered themselves (gateway/keyuse), and control counts what it
// answers. Each control process adds both up in memory, and writes them every two seconds, in a few statements however
// many requests there were, so that all processes have the same. No node's poll waits for that. This is for people who
// look for a fault, and no evidence: there are no events of it, a restore of the database takes it back, and what was not
// written when a process ends is lost, a few seconds of it. A request is counted twice if the answer to its node's poll
// was lost, or that of the database.
//
// Only requests that have shown a key's secret are counted, so nobody is shown what a stranger has sent. A tenant has at
// most keyuse.MostOfTenant lines, and a key keyuse.MostOfKey, so each fills only its own; two processes that write at the
// same moment may exceed that by as many. No body, address or message is kept. The id of each line's last request is, which
// its caller may have chosen.
package requests

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/keyuse"
)

const (
	// WriteEvery is how often a process writes what it has counted.
	WriteEvery = 2 * time.Second
	// kept is for how long refused requests are.
	kept = 24 * time.Hour
)

// Service is safe for concurrent use.
type Service struct {
	db      *store.DB
	counter keyuse.Counter
}

// New returns the service.
func New(db *store.DB) (*Service, error) {
	if db == nil {
		return nil, errors.New("cannot open the requests: DB is missing")
	}
	return &Service{db: db}, nil
}

// Counter counts the requests that this process answers.
func (s *Service) Counter() *keyuse.Counter { return &s.counter }

// Add adds what a node has counted.
func (s *Service) Add(counted api.KeyUses) {
	if !counted.Empty() {
		s.counter.Add(keyuse.Until(counted, s.db.Now()))
	}
}

// writeTimeout bounds Write and Forget, so that a statement that waits for another holds its connection no longer.
const writeTimeout = 2 * time.Second

// Write writes what was counted since the last call: two statements for each api.MostKeyUses keys and api.MostRefusals
// lines. What could not be written is counted on.
func (s *Service) Write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for {
		now := s.db.Now()
		taken := s.counter.Take(now)
		if taken.Empty() {
			return nil
		}
		if err := s.write(ctx, taken, now); err != nil {
			s.counter.Return(taken)
			return fmt.Errorf("cannot write the uses of keys: %w", err)
		}
		if len(taken.Used) < api.MostKeyUses && len(taken.Refused) < api.MostRefusals {
			return nil
		}
	}
}

func (s *Service) write(ctx context.Context, taken api.KeyUses, now time.Time) error {
	rows, err := s.rowsOf(ctx, taken.Refused)
	if err != nil {
		return err
	}
	return s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := writeUses(ctx, tx, taken.Used); err != nil {
			return err
		}
		return writeRefused(ctx, tx, rows, now)
	})
}

// Forget deletes refused requests of more than a day ago. A row that is just written is left for the next call, so that
// the two don't deadlock.
func (s *Service) Forget(ctx context.Context) error {
	return s.forget(ctx, `DELETE FROM refused_requests WHERE (tenant_id, line) IN (SELECT tenant_id, line FROM refused_requests WHERE last_at < $1`+s.db.SkipLocked()+`)`,
		store.At(s.db.Now().Add(-kept)))
}

// ForgetUses deletes the uses of keys that no longer exist: one may be written while its tenant is dropped.
func (s *Service) ForgetUses(ctx context.Context) error {
	return s.forget(ctx, `DELETE FROM key_uses WHERE key_id IN (SELECT u.key_id FROM key_uses u WHERE NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.key_id = u.key_id)`+s.db.SkipLocked()+`)`)
}

func (s *Service) forget(ctx context.Context, statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.db.Transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	})
}

func moment(minute int64) store.Instant { return store.At(time.Unix(minute*60, 0)) }

// writeUses writes last uses of keys. Unknown keys, as of a tenant that was dropped, are left out.
func writeUses(ctx context.Context, tx *sql.Tx, used []api.KeyUse) error {
	if len(used) == 0 {
		return nil
	}
	// All processes write in the same order, so that they don't deadlock; and each key once in a statement.
	last := map[string]int64{}
	for _, u := range used {
		last[u.KeyID] = max(last[u.KeyID], u.Minute)
	}
	var values []string
	var args []any
	for id, minute := range last {
		values = append(values, fmt.Sprintf("(CAST($%d AS TEXT), CAST($%d AS BIGINT))", len(args)+1, len(args)+2))
		args = append(args, id, moment(minute))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO key_uses (key_id, tenant_id, used_at)
		SELECT k.key_id, k.tenant_id, v.column2 FROM (VALUES `+strings.Join(values, ", ")+`) AS v JOIN api_keys k ON k.key_id = v.column1 WHERE true ORDER BY k.key_id
		ON CONFLICT (key_id) DO UPDATE SET used_at = excluded.used_at WHERE key_uses.used_at < excluded.used_at`, args...)
	return err
}

// LastUsed returns when keys of a tenant were last used, of those that were.
func (s *Service) LastUsed(ctx context.Context, keyIDs []string) (map[string]store.Instant, error) {
	last := map[string]store.Instant{}
	if len(keyIDs) == 0 {
		return last, nil
	}
	type use struct {
		keyID string
		at    store.Instant
	}
	args := make([]any, len(keyIDs))
	for i, id := range keyIDs {
		args[i] = id
	}
	uses, err := store.List(ctx, s.db.Read(), "the last uses of keys", func(row store.Row) (u use, err error) {
		return u, row.Scan(&u.keyID, &u.at)
	}, `SELECT key_id, used_at FROM key_uses WHERE key_id IN (`+store.Marks(0, len(args))+`)`, args...)
	for _, u := range uses {
		last[u.keyID] = u.at
	}
	return last, err
}

// row is a row of refused_requests.
type row struct {
	tenantID, line string
	api.Refusals
}

// lineOf is a hash of what the requests of a line have in common.
func lineOf(r *api.Refusals) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.KeyID, r.Operation, fmt.Sprint(r.Status), string(r.Code), r.Cause}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// rowsOf returns the rows that refused requests are added to, in the order in which all processes write them.
func (s *Service) rowsOf(ctx context.Context, refused []api.Refusals) ([]*row, error) {
	if len(refused) == 0 {
		return nil, nil
	}
	owners, err := s.ownersOf(ctx, refused)
	if err != nil {
		return nil, err
	}
	refused = slices.DeleteFunc(slices.Clone(refused), func(r api.Refusals) bool {
		return r.KeyID != "" && owners[r.KeyID] != r.TenantID // the tenant was dropped, or the node errs
	})
	known, err := s.linesOf(ctx, refused)
	if err != nil {
		return nil, err
	}
	rows := map[[2]string]*row{}
	for _, r := range refused {
		of := known[r.TenantID]
		line := of.place(&r)
		have := rows[[2]string{r.TenantID, line}]
		if have == nil {
			rows[[2]string{r.TenantID, line}] = &row{r.TenantID, line, r}
			continue
		}
		if r.Last >= have.Last {
			have.Last, have.RequestID = r.Last, r.RequestID
		}
		have.First, have.Count = min(have.First, r.First), have.Count+r.Count
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b *row) int { return strings.Compare(a.tenantID+a.line, b.tenantID+b.line) }), nil
}

// lines are those that a tenant has.
type lines struct {
	known map[string]bool
	quota keyuse.Quota
}

// place returns the line of refused requests, which become others of the key or of the tenant if there are too many.
func (l *lines) place(r *api.Refusals) string {
	of := func(keyID, operation string) api.Refusals {
		if operation == "" {
			return api.Refusals{KeyID: keyID}
		}
		return *r
	}
	keyID, operation := l.quota.Place(r.KeyID, r.Operation, func(keyID, operation string) bool {
		common := of(keyID, operation)
		return l.known[lineOf(&common)]
	})
	common := of(keyID, operation)
	r.KeyID, r.Operation, r.Status, r.Code, r.Cause = common.KeyID, common.Operation, common.Status, common.Code, common.Cause
	line := lineOf(r)
	if !l.known[line] {
		l.add(line, r.KeyID, r.Operation)
	}
	return line
}

func (l *lines) add(line, keyID, operation string) {
	l.known[line] = true
	l.quota.Count(keyID, operation, 1)
}

// ownersOf returns the tenants of the keys.
func (s *Service) ownersOf(ctx context.Context, refused []api.Refusals) (map[string]string, error) {
	var args []any
	owners := map[string]string{}
	for _, r := range refused {
		if _, known := owners[r.KeyID]; !known && r.KeyID != "" {
			owners[r.KeyID] = ""
			args = append(args, r.KeyID)
		}
	}
	if len(args) == 0 {
		return owners, nil
	}
	found, err := store.List(ctx, s.db.Read(), "the tenants of keys", func(row store.Row) (of [2]string, err error) {
		return of, row.Scan(&of[0], &of[1])
	}, `SELECT key_id, tenant_id FROM api_keys WHERE key_id IN (`+store.Marks(0, len(args))+`)`, args...)
	for _, of := range found {
		owners[of[0]] = of[1]
	}
	return owners, err
}

// linesOf returns the lines that the tenants have.
func (s *Service) linesOf(ctx context.Context, refused []api.Refusals) (map[string]*lines, error) {
	of := map[string]*lines{}
	var args []any
	for _, r := range refused {
		if of[r.TenantID] == nil {
			of[r.TenantID] = &lines{known: map[string]bool{}}
			args = append(args, r.TenantID)
		}
	}
	if len(args) == 0 {
		return of, nil
	}
	found, err := store.List(ctx, s.db.Read(), "the lines of refused requests", func(row store.Row) (l [4]string, err error) {
		return l, row.Scan(&l[0], &l[1], &l[2], &l[3])
	}, `SELECT tenant_id, line, key_id, operation FROM refused_requests WHERE tenant_id IN (`+store.Marks(0, len(args))+`)`, args...)
	for _, l := range found {
		of[l[0]].add(l[1], l[2], l[3])
	}
	return of, err
}

// writeRefused writes rows. Of a line whose first request is older than a day the count begins again.
func writeRefused(ctx context.Context, tx *sql.Tx, rows []*row, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	var values []string
	args := []any{store.At(now.Add(-kept))}
	for _, r := range rows {
		of := []any{r.tenantID, r.line, placeOf(moment(r.Last), r.line), r.KeyID, r.Operation, r.Status, string(r.Code), r.Cause, r.Count, moment(r.First), moment(r.Last), r.RequestID}
		values, args = append(values, "("+store.Marks(len(args), len(of))+")"), append(args, of...)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO refused_requests AS r (tenant_id, line, place, key_id, operation, status, code, cause, request_count, first_at, last_at, last_request)
		VALUES `+strings.Join(values, ", ")+` ON CONFLICT (tenant_id, line) DO UPDATE SET
			request_count = excluded.request_count + CASE WHEN r.first_at < $1 THEN 0 ELSE r.request_count END,
			first_at = CASE WHEN r.first_at < $1 OR r.first_at > excluded.first_at THEN excluded.first_at ELSE r.first_at END,
			last_request = CASE WHEN r.last_at > excluded.last_at THEN r.last_request ELSE excluded.last_request END,
			place = CASE WHEN r.last_at > excluded.last_at THEN r.place ELSE excluded.place END,
			last_at = CASE WHEN r.last_at > excluded.last_at THEN r.last_at ELSE excluded.last_at END`, args...)
	return err
}

// placeOf is the place of a line in the list, in which later ones sort behind.
func placeOf(last store.Instant, line string) string {
	return fmt.Sprintf("%013d%s", last.UnixMilli(), line)
}
