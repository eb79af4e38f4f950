package erasure

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/rollback"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

const tenantID = "tnt_a"

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// keys has one key.
type keys struct{ signer *sealer.Signer }

func newKeys() keys {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	return keys{&sealer.Signer{KeyID: keydir.KeyID(key.Public().(ed25519.PublicKey)), Node: "control", Key: key}}
}

func (k keys) Signer(context.Context, string) (*sealer.Signer, error)   { return k.signer, nil }
func (k keys) Vouches(context.Context, *store.Tx, string) (bool, error) { return true, nil }

// people is the one table of the tests.
var people = store.Tables{{Name: "developers", Personal: &store.Personal{Kind: "developer", Key: []string{"developer_id"}, Person: []string{"email"}}}}

// files are bundles by the person in them. voiding is called with those that go.
type files struct {
	of      map[string]int64
	closed  map[string]bool // whom the closed ones are about; nil: it isn't noted
	voiding func()
}

func (f files) Subjects(context.Context, store.Querier, string) (list []string, _ error) {
	return slices.Sorted(maps.Keys(f.of)), nil
}

func (f files) Close(_ context.Context, _ *store.Tx, _ string, is func(string) bool, _ []string) error {
	for person := range f.of {
		if is(person) && f.closed != nil {
			f.closed[person] = true
		}
	}
	return nil
}

func (f files) Count(_ context.Context, _ store.Querier, _ string, is func(string) bool, _ []string) (n int64, _ error) {
	for person, count := range f.of {
		if is(person) {
			n += count
		}
	}
	return n, nil
}

func (f files) Void(_ context.Context, _ string, is func(string) bool, _ []string) error {
	f.voiding()
	for person := range f.of {
		if is(person) {
			delete(f.of, person)
		}
	}
	return nil
}

// stage is a service on a folder, and what it works on.
type stage struct {
	*Service
	clock     *roomtest.Clock
	dir       string
	warehouse *conform.MemoryWarehouse
	bundles   files
	log       *accepting
}

// accepting is a log that keeps events, or none while it is away.
type accepting struct {
	mu     sync.Mutex
	away   bool
	events []sealer.Event
}

func (l *accepting) Append(_ context.Context, r *sealer.Record) (at sealer.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return at, errors.New("the log is away")
	}
	e, err := sealer.ParseEvent(r.Event)
	l.events = append(l.events, e)
	return at, err
}

func (l *accepting) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

func newStage(t *testing.T) *stage {
	s := &stage{clock: roomtest.NewClock(noon), dir: t.TempDir(), warehouse: &conform.MemoryWarehouse{}, bundles: files{of: map[string]int64{"ada": 2, "bob": 1}}, log: &accepting{}}
	s.bundles.voiding = func() { // what is noted of it must not name her
		_, emails := s.left(t, "ada")
		require.NotContains(t, emails, "ada")
	}
	s.open(t, nil)
	require.NoError(t, s.Announce(t.Context()))
	rows := []pipeline.Row{conform.Shown(tenantID, 0, "ada", `{}`), conform.Shown(tenantID, 1, "bob", `{}`), conform.Shown("tnt_b", 2, "ada", `{}`)}
	require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(0), Rows: rows, Next: conform.Place(3)}))
	s.write(t, `INSERT INTO developers (developer_id, tenant_id, org_id, email, created_at, updated_at, revision)
		VALUES ('dev_1', 'tnt_a', 'org_a', 'ada', 0, 0, 0), ('dev_2', 'tnt_a', 'org_a', 'bob', 0, 0, 0)`)
	return s
}

// open opens the service, as another process does when there was one.
func (s *stage) open(t *testing.T, change func(*Config)) {
	t.Helper()
	cfg := Config{
		DB: roomtest.Open(t, s.dir, s.clock.Now), Warehouse: s.warehouse, Keys: newKeys(), Tables: append(people, Tables...), Bundles: s.bundles,
		LogKeep: func(context.Context) (time.Duration, error) { return 15 * 24 * time.Hour, nil }, CopiesKeep: 28 * time.Hour,
		Purpose: func(context.Context, store.Querier, string) (string, error) { return keydir.PurposePack, nil },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	s.Service, err = New(t.Context(), cfg)
	require.NoError(t, err)
}

func (s *stage) write(t *testing.T, statement string, args ...any) {
	t.Helper()
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	}))
}

// erase requests an erasure with an API key.
func (s *stage) erase(t *testing.T, keyID, person, token string) (Erasure, *api.Error) {
	in := &eraseInput{Body: EraseRequest{DataSubjectID: person}}
	if token != "" {
		in.Body.ConfirmationToken = &token
	}
	made, err := s.postErase(auth.WithPrincipal(t.Context(), auth.Principal{Key: &api.Key{TenantID: tenantID, ID: keyID}}), in)
	if err != nil {
		refused, ok := errors.AsType[*api.Error](err)
		require.True(t, ok, "%v", err)
		return Erasure{}, refused
	}
	return made.Erasure, nil
}

func (s *stage) mustErase(t *testing.T, person string) Erasure {
	t.Helper()
	_, refused := s.erase(t, "key_1", person, "")
	require.Equal(t, api.PreconditionFailed, refused.Code)
	made, refused := s.erase(t, "key_1", person, refused.ConfirmationToken)
	require.Nil(t, refused)
	return made
}

// work does one job, as a process that is killed where it fails.
func (s *stage) work(t *testing.T) error {
	t.Helper()
	job, err := s.db.Jobs.Claim(t.Context(), EraseJob, time.Minute)
	require.NoError(t, err)
	require.NotNil(t, job)
	ctx, stop := context.WithCancel(t.Context())
	var relaying sync.WaitGroup
	relaying.Go(func() { _ = s.db.Outbox.Relay(ctx, s.log) })
	defer relaying.Wait()
	defer stop()
	if err := s.Erase(t.Context(), job); err != nil {
		return err
	}
	return job.Done(t.Context())
}

func (s *stage) find(t *testing.T, id string) *Erasure {
	t.Helper()
	e, err := erasures.Find(t.Context(), s.db.Read(), tenantID, id)
	require.NoError(t, err)
	return e
}

// left counts the data about a person, and lists the persons in the table.
func (s *stage) left(t *testing.T, person string) (c Counts, emails []string) {
	t.Helper()
	c, err := s.count(t.Context(), &Erasure{TenantID: tenantID, SubjectHash: s.Hash(tenantID, person)}, sealer.NewPerson(person))
	require.NoError(t, err)
	emails, err = store.List(t.Context(), s.db.Read(), "e-mails", store.Text, `SELECT email FROM developers WHERE tenant_id = 'tnt_a' ORDER BY developer_id`)
	require.NoError(t, err)
	return c, emails
}

// counts are those of a person whom no permanent event names.
func counts(privateParts, developers, bundles int64) Counts {
	c := Counts{PrivateParts: privateParts, Records: map[string]int64{}, Bundles: bundles, Statements: []string{}, Permanent: map[string]int64{}}
	if developers > 0 {
		c.Records["developer"] = developers
	}
	return c
}

func TestErasureIsConfirmed(t *testing.T) {
	s := newStage(t)
	_, refused := s.erase(t, "key_1", "ada", "")
	require.Equal(t, counts(1, 1, 2), refused.Preview)
	token := refused.ConfirmationToken
	for about, c := range map[string]struct{ keyID, person, token string }{
		"another key":    {"key_2", "ada", token},
		"another person": {"key_1", "bob", token},
		"another text":   {"key_1", "ada", token[:len(token)-1] + "_"},
		"more":           {"key_1", "ada", token + "A"},
		"no token":       {"key_1", "ada", "x"},
	} {
		_, refused := s.erase(t, c.keyID, c.person, c.token)
		require.NotNil(t, refused, about)
		require.Equal(t, api.PreconditionFailed, refused.Code, about)
		require.NotEmpty(t, refused.ConfirmationToken, about)
	}
	require.Empty(t, roomtest.Events(t, s.db))
	s.clock.Advance(10*time.Minute - time.Millisecond)
	made, refused := s.erase(t, "key_1", "ada", token)
	require.Nil(t, refused)
	require.Equal(t, Requested, made.State)
	_, refused = s.erase(t, "key_1", "ada", token)
	require.NotNil(t, refused, "once more")
	require.Contains(t, refused.Message, made.ID)
	require.NotEqual(t, token, refused.ConfirmationToken)
	s.clock.Advance(time.Millisecond)
	_, refused = s.erase(t, "key_1", "ada", token)
	require.NotNil(t, refused, "ten minutes later")
	_, refused = s.erase(t, "key_1", "a\x00", "")
	require.Equal(t, api.ValidationFailed, refused.Code)

	events := roomtest.Events(t, s.db)
	require.Len(t, events, 1)
	require.Equal(t, sealer.TypeErased, events[0].Type)
	require.Equal(t, made.EventID, events[0].EventID)
	require.Equal(t, made.CreatedAt.Time, events[0].At)
	require.NotContains(t, string(events[0].Data), `"ada"`)
}

// TestAClockThatIsAhead: a delivery that was answered before the erasure, by a node whose clock is
// ahead, is covered, whenever it is loaded; one of a clock that is further ahead is not.
func TestAClockThatIsAhead(t *testing.T) {
	s := newStage(t)
	ahead, further := conform.Shown(tenantID, 3, "ada", `{}`), conform.Shown(tenantID, 4, "ada", `{}`)
	ahead.At = noon.Add(api.ClockSlack)
	further.At = ahead.At.Add(time.Millisecond)
	s.mustErase(t, "ada")
	require.NoError(t, s.work(t))
	require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(3), Rows: []pipeline.Row{ahead}, Next: conform.Place(4)}))
	left, _ := s.left(t, "ada")
	require.Equal(t, counts(0, 0, 0), left)
	require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(4), Rows: []pipeline.Row{further}, Next: conform.Place(5)}))
	left, _ = s.left(t, "ada")
	require.Equal(t, counts(1, 0, 0), left)
}

// failing stands for what a process was doing when it was killed.
type failing struct {
	pipeline.Eraser
	files
	keys
	at *int // that many calls succeed
}

var errKilled = errors.New("killed")

func (f failing) step() error {
	if *f.at--; *f.at < 0 {
		return errKilled
	}
	return nil
}

func (f failing) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	return nil, nil
}

func (f failing) Erase(ctx context.Context, key pipeline.SubjectKey, list []pipeline.Tombstone) error {
	return errors.Join(f.step(), f.Eraser.Erase(ctx, key, list), f.step())
}

func (f failing) Void(ctx context.Context, tenantID string, is func(string) bool, records []string) error {
	return errors.Join(f.step(), f.files.Void(ctx, tenantID, is, records), f.step())
}

func (f failing) Signer(ctx context.Context, purpose string) (*sealer.Signer, error) {
	return f.signer, f.step()
}

func (f failing) Vouches(context.Context, *store.Tx, string) (bool, error) { return true, f.step() }

// TestErasureGoesOn: another process completes an erasure that was killed at any step.
func TestErasureGoesOn(t *testing.T) {
	stacktest.Both(t)
	for steps := 0; ; steps++ {
		s := newStage(t)
		made := s.mustErase(t, "ada")
		at := steps
		s.open(t, func(cfg *Config) {
			f := failing{cfg.Warehouse, s.bundles, newKeys(), &at}
			cfg.Warehouse, cfg.Bundles, cfg.Keys = f, f, f
		})
		err := s.work(t)
		if err == nil {
			require.Equal(t, 6, steps, "calls that may be the last")
			break
		}
		require.ErrorIs(t, err, errKilled)
		require.Equal(t, Requested, s.find(t, made.ID).State)
		s.clock.Advance(2 * time.Minute) // its lease is over
		s.open(t, nil)
		require.NoError(t, s.work(t))
		done := s.find(t, made.ID)
		require.Equal(t, Completed, done.State)
		require.Equal(t, counts(1, 1, 2), done.Counts)
		left, emails := s.left(t, "ada")
		require.Equal(t, counts(0, 0, 0), left)
		require.Equal(t, []string{made.SubjectHash, "bob"}, emails)
		require.Equal(t, map[string]int64{"bob": 1}, s.bundles.of)
		left, _ = s.left(t, "bob")
		require.Equal(t, counts(1, 1, 1), left)
	}
}

// TestErasureNamesNobody: record, certificate, events and the database's files don't contain the name.
func TestErasureNamesNobody(t *testing.T) {
	s := newStage(t)
	const person = "ada.lovelace@example.org"
	s.write(t, `UPDATE developers SET email = '`+person+`' WHERE email = 'ada'`)
	made := s.mustErase(t, person)
	require.NoError(t, s.work(t))
	done := s.find(t, made.ID)
	text, err := json.Marshal(done)
	require.NoError(t, err)
	require.NotContains(t, string(text), person)
	require.Contains(t, *done.Certificate, `"records":{"developer":1}`)
	require.Contains(t, *done.Certificate, `"logGoneBy":"2026-12-08T12:01:00.000Z"`)
	require.NotEmpty(t, s.log.events)
	for _, e := range append(s.log.events, roomtest.Events(t, s.db)...) {
		require.NotContains(t, string(e.Data), person)
	}
	s.inNoFile(t, person)
}

// TestErasureOfWhatWasDeletedBefore: a name that no row has any more, as of a held row that was
// delivered, is in no file either.
func TestErasureOfWhatWasDeletedBefore(t *testing.T) {
	s := newStage(t)
	const person = "ada.lovelace@example.org"
	s.write(t, `UPDATE developers SET email = '`+person+`' WHERE email = 'ada'`)
	s.write(t, `UPDATE developers SET email = '' WHERE email = '`+person+`'`)
	require.Empty(t, s.mustErase(t, person).Counts.Records)
	require.NoError(t, s.work(t))
	s.inNoFile(t, person)
}

// TestErasureWaitsForTheLog: while the log is away, an event in the outbox names the person. There is
// no certificate until it is on its way, and then of a time that is no earlier than it is gone.
func TestErasureWaitsForTheLog(t *testing.T) {
	s := newStage(t)
	const person = "ada.lovelace@example.org"
	s.write(t, `UPDATE developers SET email = 'eve' WHERE email = 'ada'`)
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
		return tx.EmitPrivate(t.Context(), &store.Kind{Type: "dsar.requested"}, sealer.Event{
			TenantID: tenantID, Actor: store.BySystem(), Subject: sealer.Ref{Kind: "dsar_job", ID: "dsar:1"}, Data: []byte("{}"),
		}, sealer.Private{AttentionMs: -1, DataSubjects: sealer.About(person)})
	}))
	made := s.mustErase(t, person)
	s.log.away = true
	patient := s.drainFor
	s.drainFor = 100 * time.Millisecond
	require.ErrorContains(t, s.work(t), "the log has not accepted")
	s.drainFor = 100 * patient // however busy the machine is
	require.Equal(t, Requested, s.find(t, made.ID).State)
	s.log.away = false
	s.clock.Advance(time.Hour)
	require.NoError(t, s.work(t))
	done := s.find(t, made.ID)
	require.Equal(t, Completed, done.State)
	require.Contains(t, *done.Certificate, `"logGoneBy":"2026-12-08T13:00:00.000Z"`)
	s.inNoFile(t, person)
}

// inNoFile requires that no file of the database contains a text.
func (s *stage) inNoFile(t *testing.T, text string) {
	t.Helper()
	if stacktest.PostgresIfUp() != "" {
		return // whose files are elsewhere
	}
	all, err := filepath.Glob(filepath.Join(s.dir, "*"))
	require.NoError(t, err)
	for _, file := range all {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.False(t, strings.Contains(string(b), text), file)
	}
}

// TestErasedIsFollowed: what follows from an erasure is in its change, knows which kinds of records named the person, and
// is repeated in an older copy of the database.
func TestErasedIsFollowed(t *testing.T) {
	s := newStage(t)
	var followed []map[string]int64
	fails := errors.New("it fails")
	s.cfg.Erased = func(_ context.Context, _ *store.Tx, of string, rows map[string]int64, _ []string) error {
		require.Equal(t, tenantID, of)
		followed = append(followed, rows)
		return fails
	}
	_, refused := s.erase(t, "key_1", "ada", "")
	_, _, err := s.begin(t.Context(), Erasure{TenantID: tenantID, SubjectHash: s.Hash(tenantID, "ada"), RequestedBy: "key_1", Confirmation: &refused.ConfirmationToken}, sealer.NewPerson("ada"))
	require.ErrorIs(t, err, fails)
	left, _ := s.left(t, "ada")
	require.NotEmpty(t, left.Records)
	fails = nil
	made := s.mustErase(t, "ada")
	require.NotEmpty(t, made.Counts.Records)
	require.Equal(t, []map[string]int64{made.Counts.Records, made.Counts.Records}, followed)
}

// TestErasedTwice: later data of a person is erased by another tombstone.
func TestErasedTwice(t *testing.T) {
	s := newStage(t)
	first := s.mustErase(t, "ada")
	require.NoError(t, s.work(t))
	later := conform.Shown(tenantID, 3, "ada", `{}`)
	later.At = first.Until.Add(time.Millisecond)
	require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(3), Rows: []pipeline.Row{later}, Next: conform.Place(4)}))
	s.clock.Advance(2 * time.Hour)
	second := s.mustErase(t, "ada")
	require.NoError(t, s.work(t))
	require.Equal(t, first.SubjectHash, second.SubjectHash)
	require.NotEqual(t, first.EventID, second.EventID)
	require.Equal(t, counts(1, 0, 0), second.Counts)
	left, _ := s.left(t, "ada")
	require.Equal(t, counts(0, 0, 0), left)
	list, err := listTombstones(t.Context(), s.db.Read())
	require.NoError(t, err)
	require.Equal(t, []pipeline.Tombstone{second.tombstone()}, list)
}

// TestReplayErasesAnew: replaying the event of an erasure repeats the erasure in an older copy of the
// database.
func TestReplayErasesAnew(t *testing.T) {
	s := newStage(t)
	made := s.mustErase(t, "ada")
	event := roomtest.Events(t, s.db)[0]
	older := newStage(t)
	older.key = s.key // the copy has it
	older.write(t, `UPDATE subject_key SET subject_key = '00'`)
	apply := func(want bool) {
		require.NoError(t, older.db.Change(t.Context(), func(tx *store.Tx) error {
			changed, err := Replay(t.Context(), tx, &event)
			require.Equal(t, want, changed)
			return err
		}))
	}
	apply(true)
	apply(false)
	older.warehouse = s.warehouse
	older.cfg.Warehouse = s.warehouse
	require.NoError(t, older.work(t))
	done := older.find(t, made.ID)
	require.Equal(t, Completed, done.State)
	require.Equal(t, made.EventID, done.EventID)
	_, emails := older.left(t, "ada")
	require.Equal(t, []string{made.SubjectHash, "bob"}, emails)
}

// TestReplayInAnyOrder: of two erasures of a person that an older copy lacks, both have their record and
// their certificate again, whichever event comes first.
func TestReplayInAnyOrder(t *testing.T) {
	s := newStage(t)
	first := s.mustErase(t, "ada")
	s.clock.Advance(time.Hour)
	second := s.mustErase(t, "ada")
	older := newStage(t)
	older.key, older.cfg.Warehouse = s.key, s.warehouse // the copy has the key
	for _, event := range slices.Backward(roomtest.Events(t, s.db)) {
		require.NoError(t, older.db.Change(t.Context(), func(tx *store.Tx) error {
			changed, err := Replay(t.Context(), tx, &event)
			require.True(t, changed, event.Subject.ID)
			return err
		}))
	}
	for _, made := range []Erasure{first, second} {
		require.NoError(t, older.work(t))
		require.Equal(t, made.EventID, older.find(t, made.ID).EventID)
	}
	require.Equal(t, Completed, older.find(t, first.ID).State)
	require.Equal(t, Completed, older.find(t, second.ID).State)
	list, err := listTombstones(t.Context(), older.db.Read())
	require.NoError(t, err)
	require.Equal(t, []pipeline.Tombstone{second.tombstone()}, list)
}

// TestCovers: a person is covered up to the tombstone's time, as any form of the reference.
func TestCovers(t *testing.T) {
	s := newStage(t)
	covers := func(tenant, person string) bool {
		hashOf, err := s.Covers(t.Context(), s.db.Read(), tenant)
		require.NoError(t, err)
		if hashOf == nil || hashOf(person) == "" {
			return false
		}
		require.Equal(t, s.Hash(tenant, person), hashOf(person))
		return true
	}
	require.False(t, covers(tenantID, "ada@example.org"))
	s.mustErase(t, "Ada@example.org")
	s.clock.Advance(api.ClockSlack)
	require.True(t, covers(tenantID, "ADA@EXAMPLE.ORG"))
	require.False(t, covers(tenantID, "bob@example.org"))
	require.False(t, covers(tenantID, ""))
	require.False(t, covers("tnt_b", "ada@example.org"))
	s.clock.Advance(time.Millisecond)
	require.False(t, covers(tenantID, "ada@example.org"))
}

// TestBundlesBeside: a text that names two persons is in the bundles of both, so an erasure closes both;
// bundles of others stay.
func TestBundlesBeside(t *testing.T) {
	s := newStage(t)
	s.bundles.of, s.bundles.closed = map[string]int64{"ada": 2, "bob": 1, "eve": 4, "ad": 8}, map[string]bool{}
	s.open(t, func(cfg *Config) {
		cfg.Tables = append(cfg.Tables, store.Table{Name: "bases", Personal: &store.Personal{Kind: "basis", Key: []string{"basis_id"}, Text: []string{"title"}}})
	})
	s.write(t, `UPDATE bases SET title = 'ada, and bob.'`)
	_, refused := s.erase(t, "key_1", "ada", "")
	require.EqualValues(t, 3, refused.Preview.(Counts).Bundles)
	require.EqualValues(t, 3, s.mustErase(t, "ada").Counts.Bundles)
	require.Equal(t, map[string]bool{"ada": true, "bob": true}, s.bundles.closed)
}

// TestPermanent: preview, record and certificate name the events that will still name the person.
func TestPermanent(t *testing.T) {
	s := newStage(t)
	s.open(t, func(cfg *Config) {
		cfg.Tables = append(cfg.Tables, store.Table{Name: "bases", Public: []string{"title", "terms_ref"}, Names: map[string][]string{"scope": {"labels"}}})
	})
	var rows []pipeline.Row
	for i, c := range []struct{ kind, data string }{
		{"basis.created", `{"title":"of ada"}`}, {"basis.created", `{"title":"of bob","id":"ada"}`}, {"basis.created", `{"title":"of adam"}`},
		{"offer.proposed", `{"termsRef":["x",{"y":"\u0061da"}]}`}, {"offer.proposed", `{"offer":{"termsRef":"(ada)","title":"ada"}}`}, {"offer.rejected", `{"terms":"ada"}`},
		{"right.issued", `{"scope":{"labels":{"of ada":1}}}`}, {"right.issued", `{"scope":{"x-(ada)":1}}`}, {"right.issued", `{"scope":{"labels":{"adam":1}},"ada":{"ada":1}}`},
	} {
		rows = append(rows, conform.Said(tenantID, int64(3+i), c.kind, c.data))
	}
	require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(3), Rows: rows, Next: conform.Place(12)}))
	rows = []pipeline.Row{conform.Shown(tenantID, 12, "bob", `{"beamId":"of ada"}`), conform.Shown(tenantID, 13, "ada", `{"beamId":"of ada"}`)}
	require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(12), Rows: rows, Next: conform.Place(14)}))
	record := func(event, private string) []byte {
		return sealer.AppendRecord(nil, &sealer.Record{TenantID: tenantID, EventID: "evt_1", Node: "nod_1", Event: []byte(event), Private: []byte(private)})
	}
	var unread []pipeline.Quarantined
	for i, r := range [][]byte{
		record(`{"reason":"of ada"}`, ""), record(`{"reason":"of adam"}`, `{"telemetry":{"beamId":"ada"}}`), []byte("no record of ada."), // which stay
		record(`{"dataSubject":"ada","reason":"of ada"}`, `{"dataSubject":"ada","telemetry":{"beamId":"ada"}}`), record(`{"ada":1}`, ""), []byte("no record of adam."), record(`{"data":{"scope":{"labels":{"ada":1}}}}`, ""), // which stays
	} {
		unread = append(unread, pipeline.Quarantined{Position: conform.Place(int64(20 + i)), TenantID: tenantID, EventID: "evt_1", Reason: "forged", Record: r})
	}
	require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(14), Quarantined: unread, Next: conform.Place(14)}))
	want := map[string]int64{"basis.created": 1, "offer.proposed": 2, "right.issued": 2, "telemetry": 1, "quarantined": 4}
	_, refused := s.erase(t, "key_1", "ada", "")
	require.Equal(t, want, refused.Preview.(Counts).Permanent)
	made := s.mustErase(t, "ada")
	require.NoError(t, s.work(t))
	done := s.find(t, made.ID)
	require.Equal(t, want, done.Counts.Permanent)
	require.Contains(t, *done.Certificate, `"permanent":{"basis.created":1,"offer.proposed":2,"quarantined":4,"right.issued":2,"telemetry":1}`)
}

// TestErasureIsInTheLog: an erasure is acknowledged once the log has it, which a standby that is promoted
// may lack.
func TestErasureIsInTheLog(t *testing.T) {
	stacktest.Postgres(t)
	s := newStage(t)
	log, err := segment.Open(segment.Config{Dir: t.TempDir(), SegmentBytes: 64 << 10})
	require.NoError(t, err)
	defer log.Close()
	_, err = rollback.History{Log: log}.Reconcile(t.Context(), s.db)
	require.NoError(t, err)
	_, refused := s.erase(t, "key_1", "ada", "")
	token := refused.ConfirmationToken
	for range 2 { // the second finds that it was begun
		_, refused = s.erase(t, "key_1", "ada", token)
		require.NotNil(t, refused)
		require.Equal(t, api.LogUnavailable, refused.Reason)
	}
	relaying, stop := context.WithCancel(t.Context())
	relayed := make(chan error, 1)
	go func() { relayed <- s.db.Outbox.Relay(relaying, log) }()
	_, refused = s.erase(t, "key_1", "ada", token)
	require.Contains(t, refused.Message, "has begun the erasure")
	stop()
	require.NoError(t, <-relayed)
}
