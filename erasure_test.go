package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
	"muniment/gateway/api"
	"muniment/pipeline/edge"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// confirmed requests the erasure of a person, and returns the body that confirms it.
func confirmed(t *testing.T, url, key, person string) string {
	t.Helper()
	a := call(t, url, key, operation{method: http.MethodPost, path: "/v1/compliance/erase", body: fmt.Sprintf(`{"dataSubjectId":%q}`, person)})
	require.Equal(t, http.StatusPreconditionFailed, a.status, a.body)
	return fmt.Sprintf(`{"dataSubjectId":%q,"confirmationToken":%q}`, person, textAt(t, a.body, "confirmationToken"))
}

// erasureOf is an erasure as it is answered.
type erasureOf struct {
	ID, State, SubjectHash, EventID, Certificate string
	Counts                                       struct{ PrivateParts, SetAside, Rows, Bundles int }
}

// erased erases a person, and waits until that is done.
func erased(t *testing.T, server *system.Server, key, person string) (e erasureOf) {
	t.Helper()
	client := system.Client{API: server.API, Key: key}
	var answer struct{ Erasure erasureOf }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/compliance/erase", json.RawMessage(confirmed(t, server.API, key, person)), &answer))
	until(t, func() bool {
		require.NoError(t, client.Do(t.Context(), "GET", "/v1/compliance/erasures/"+answer.Erasure.ID, nil, &answer))
		return answer.Erasure.State == "COMPLETED"
	}, "%s is erased", answer.Erasure.ID)
	return answer.Erasure
}

// holding are the files under a folder in which a text stands; in a bundle, also packed. Those
// under a folder of one of the names apart are passed over.
func holding(t *testing.T, folder, text string, apart ...string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if err == nil && slices.Contains(apart, entry.Name()) {
				return fs.SkipDir
			}
			return ignoreGone(err)
		}
		b, err := os.ReadFile(path)
		if strings.HasPrefix(string(b), "PK\x03\x04") {
			b = append(b, unpacked(b)...)
		}
		if bytes.Contains(b, []byte(text)) {
			name, _ := filepath.Rel(folder, path)
			files = append(files, name)
		}
		return ignoreGone(err)
	}))
	return files
}

// ignoreGone passes over what was removed meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unpacked is what a zip file holds, as far as it can be read: it may be in the making.
func unpacked(text []byte) (all []byte) {
	r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil
	}
	for _, f := range r.File {
		if in, err := f.Open(); err == nil {
			section, _ := io.ReadAll(in)
			all = append(all, section...)
		}
	}
	return all
}

// erasing is the story of a service that erases a person, with the files that have to lose every
// byte of them. The log and the nodes' copies are none of these: they lose it by their age.
type erasing struct {
	*service
	stores   map[string]func(text string) (files []string)
	links    []string // to bundles with data of the person
	receipts int
	metering string
}

const (
	person, personsMark = "ada.lovelace@example.org", "cell-of-ada-lovelace"
	other               = "grace.hopper@example.org"
	third               = "jean.bartik@example.org"
)

// begin names the person in deliveries, in a row that waits, in exports of all formats'
// kinds, and in the notes of exports that are not about the person, and another beside. Each store holds the person then.
func (s *erasing) begin() {
	t := s.t
	t.Helper()
	s.tenant = createTenant(t, s.data, "--scope", "*")
	s.client.Key = s.tenant.APIKey
	s.rights = issueRights(t, s.client)
	s.receipts = 40
	for i := range s.receipts {
		who, cell := person, personsMark
		if i%4 == 0 {
			who, cell = other, "cell-of-grace"
		}
		s.shown(who, cell)
	}
	s.post("/v1/delivery/ingest-batch", map[string]any{"vendor": "acme", "rows": []any{map[string]any{
		"idType": "player", "vendorId": "nobody-knows", "playedAt": time.Now().UTC().Format(time.RFC3339), "dwellMs": 5000,
		"dataSubjectId": person, "telemetry": map[string]any{"coverageCellId": personsMark},
	}}}, nil)
	until(t, func() bool { return s.metered() == s.receipts }, "all is loaded")
	notes := fmt.Sprintf(`,"requestNotes":%q`, "asked for by "+person+", who has "+personsMark)
	for job, named := range map[string]bool{
		fmt.Sprintf(`"scope":{"kind":"DATA_SUBJECT","dataSubjectId":%q}`, person):        true,
		fmt.Sprintf(`"scope":{"kind":"DATA_SUBJECT","dataSubjectId":%q}`, other):         false,
		fmt.Sprintf(`"scope":{"kind":"DATA_SUBJECT","dataSubjectId":%q}`, third) + notes: true,
		`"scope":{"kind":"TENANT_FULL"}` + notes:                                         true,
	} {
		// The answer is kept for the key, and names whom the export is of.
		a := call(t, s.client.API, s.client.Key, operation{method: "POST", path: "/v1/compliance/dsar", body: `{"format":"NDJSON",` + job + `}`}, "Idempotency-Key", rand.Text())
		require.Equal(t, http.StatusOK, a.status, a.body)
		id := textAt(t, a.body, "data.job.id")
		s.post("/v1/compliance/dsar/"+id+"/run", nil, nil)
		require.Equal(t, "READY", s.exported(id).State)
		var link struct{ BundleURL string }
		s.get("/v1/compliance/dsar/"+id+"/bundle", &link)
		if named {
			s.links = append(s.links, link.BundleURL)
		}
	}
	s.metering = s.sums()
	for name, files := range s.stores {
		for _, text := range []string{person, personsMark} {
			require.NotEmpty(t, files(text), "%s: %s", name, text)
		}
	}
}

// shown delivers something to a person.
func (s *erasing) shown(who, cell string) {
	s.t.Helper()
	s.post("/v1/delivery", map[string]any{
		"rightId": s.rights["CTV"], "spatialAnchorId": "screen-1", "dwellMs": 5000, "dataSubjectId": who,
		"telemetry": map[string]any{"viewable": true, "appState": "foreground", "coverageCellId": cell},
	}, nil)
}

// sums are what is metered, once all is loaded.
func (s *erasing) sums() string {
	s.t.Helper()
	var body json.RawMessage
	s.seal()
	s.get("/v1/metering?rightId="+s.rights["CTV"], &body)
	return position.ReplaceAllString(string(body), "")
}

// erase erases the person: nothing is left, everything is proven, and the certificate holds.
func (s *erasing) erase() (done erasureOf, packs []string) {
	t := s.t
	t.Helper()
	done = erased(t, s.server, s.client.Key, person)
	require.Greater(t, done.Counts.PrivateParts, s.receipts*3/4, "deliveries, and the events of the export")
	require.Equal(t, 4, done.Counts.Rows, "a held row, an export of the person, and two whose notes name the person")
	require.Equal(t, 3, done.Counts.Bundles)
	s.nothing("erased")
	for _, link := range s.links {
		require.Equal(t, http.StatusNotFound, call(t, link, "", operation{method: "GET"}).status, "the link is void")
	}
	packs = sealAndExport(t, s.client)
	verifyPacks(t, s.data, packs)
	certificate := filepath.Join(t.TempDir(), "certificate")
	require.NoError(t, os.WriteFile(certificate, []byte(done.Certificate), 0o600))
	verify := append([]string{"verify", "--json", "--root", filepath.Join(s.data, "keys", "root.vkey"), certificate}, packs...)
	require.Contains(t, muniment(t, verify...), `"its tombstone is leaf `)
	return done, packs
}

// nothing is in the stores of the person, all that is of another, and the sums are as they were.
func (s *erasing) nothing(about string) {
	s.t.Helper()
	for name, files := range s.stores {
		for _, text := range []string{person, personsMark} {
			require.Empty(s.t, files(text), "%s: %s: %s", about, name, text)
		}
		require.NotEmpty(s.t, files(other), "%s: %s", about, name)
	}
	require.Equal(s.t, s.metering, s.sums(), about)
}

// again erases the person once more, of whom nothing is left.
func (s *erasing) again(first erasureOf) {
	again := erased(s.t, s.server, s.client.Key, person)
	require.Zero(s.t, again.Counts)
	require.Equal(s.t, first.SubjectHash, again.SubjectHash)
	require.NotEqual(s.t, first.EventID, again.EventID)
	s.nothing("erased again")
}

// TestErasureIsKilled: a process that is killed while it erases some persons hands over to the next
// start. Each erasure is completed once, by a certificate that holds, and nothing of them is left.
func TestErasureIsKilled(t *testing.T) {
	t.Parallel()
	const together = 3
	s := &erasing{service: newService(t)}
	s.tenant = createTenant(t, s.data, "--scope", "*")
	s.client.Key = s.tenant.APIKey
	s.rights = issueRights(t, s.client)
	var names, certificates []string
	for midway := 0; midway < times(1, 20); { // each costs the term of a lease
		some := make([]string, together)
		for i := range some {
			some[i] = fmt.Sprintf("person-%d@example.org", len(names)+i)
			for range 5 {
				s.shown(some[i], "cell-of-"+some[i])
			}
			s.exported(s.export(map[string]any{"scope": map[string]any{"kind": "DATA_SUBJECT", "dataSubjectId": some[i]}}))
		}
		names = append(names, some...)
		until(t, func() bool { return s.metered() == 5*len(names) }, "all is loaded")
		bodies, begun := make([]string, together), make([]erasureOf, together)
		for i, name := range some {
			bodies[i] = confirmed(t, s.client.API, s.client.Key, name)
		}
		var requests sync.WaitGroup
		for i, body := range bodies {
			requests.Go(func() {
				var answer struct{ Erasure erasureOf }
				s.post("/v1/compliance/erase", json.RawMessage(body), &answer)
				begun[i] = answer.Erasure
			})
		}
		requests.Wait()
		s.server.Kill()
		s.startAgain()
		for i, name := range some {
			var answer struct{ Erasure erasureOf }
			completed := func() bool {
				s.get("/v1/compliance/erasures/"+begun[i].ID, &answer)
				return answer.Erasure.State == "COMPLETED"
			}
			if !completed() {
				midway++
			}
			untilAtMost(t, 2*time.Minute, completed, "%s is erased", begun[i].ID)
			require.Empty(t, holding(t, s.data, name, "log"))
			file := filepath.Join(t.TempDir(), begun[i].ID)
			require.NoError(t, os.WriteFile(file, []byte(answer.Erasure.Certificate), 0o600))
			certificates = append(certificates, file)
		}
	}
	verifyPacks(t, s.data, append(certificates, sealAndExport(t, s.client)...))
	var list struct{ Events []json.RawMessage }
	s.get("/v1/events?type=erasure.completed&limit=500", &list)
	require.Len(t, list.Events, len(names))
}

// TestErasedBytesExpire lets the time pass that a certificate gives to the log of a service in one
// process, and to a node's copies, while others are appended: what was written at the latest moment
// that is covered is in their files for as long as they are kept, and then in none.
func TestErasedBytesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = 48 * time.Hour
		logs := t.TempDir()
		log, err := segment.Open(segment.Config{Dir: filepath.Join(logs, "log"), SegmentBytes: 64 << 10})
		require.NoError(t, err)
		copies, err := edge.Open(edge.Config{Promise: log, Dir: filepath.Join(logs, "copies"), SegmentBytes: 64 << 10})
		require.NoError(t, err)
		var background sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		background.Go(func() { require.NoError(t, copies.Run(ctx)) })
		background.Go(func() {
			require.NoError(t, segment.Retention{Log: log, Keep: keep, Loaded: func(ctx context.Context) (sealer.Position, bool, error) {
				_, end, err := log.Bounds(ctx, segment.Partition)
				return end, true, err
			}}.Run(ctx))
		})
		defer func() {
			stop()
			background.Wait()
			require.NoError(t, copies.Close())
			require.NoError(t, log.Close())
		}()
		write := func(who string) {
			_, err := copies.Append(ctx, &sealer.Record{TenantID: "tnt_a", EventID: api.NewID(api.PrefixEvent, time.Now()), Node: "nod_a", Epoch: 1, Seq: 1, Event: []byte("{}"), Private: []byte(who)})
			require.NoError(t, err)
		}
		write(person)
		began := time.Now()
		last := map[string]time.Duration{}
		for time.Since(began) < keptFor(keep) {
			for _, in := range []string{"log", "copies"} {
				if len(holding(t, filepath.Join(logs, in), person)) > 0 {
					last[in] = time.Since(began)
				}
			}
			time.Sleep(10 * time.Minute) // of the bubble's clock
			write(other)
			synctest.Wait()
		}
		for in, kept := range map[string]time.Duration{"log": keep, "copies": segment.LeastKeep} {
			require.Greater(t, last[in], kept, in)
			require.Less(t, last[in], keptFor(kept), in)
			require.NotEmpty(t, holding(t, filepath.Join(logs, in), other))
		}
	})
}

// inFolder are the stores of a service in one process.
func (s *erasing) inFolder() map[string]func(text string) []string {
	return map[string]func(text string) []string{
		"the folder, but for the log": func(text string) []string { return holding(s.t, s.data, text, "log") },
		"warehouse": func(text string) []string {
			return slices.DeleteFunc(holding(s.t, s.data, text, "log"), func(name string) bool { return !strings.HasPrefix(name, "warehouse.db") })
		},
		"database": func(text string) []string {
			return slices.DeleteFunc(holding(s.t, s.data, text, "log"), func(name string) bool { return !strings.HasPrefix(name, "control.db") })
		},
		"bundles": func(text string) []string { return holding(s.t, filepath.Join(s.data, "bundles"), text) },
	}
}

// TestErasureOfAService: a person is named in deliveries, in a row that waits and in exports, with
// telemetry. Once erased, no byte of either is in the warehouse, the database and the bundles,
// whatever is loaded again, or restored; everything is proven and summed up as before.
func TestErasureOfAService(t *testing.T) {
	t.Parallel()
	s := &erasing{service: newService(t)}
	s.stores = s.inFolder()
	s.begin()
	older := filepath.Join(t.TempDir(), "older")
	s.backUp(older)
	done, packs := s.erase()

	copied, made := s.restored(older, "--tombstones", packs[len(packs)-1])
	require.Equal(t, 1, made.Tombstones)
	require.Contains(t, made.Reapplied, sealer.TypeErased+": "+done.ID+" of "+s.tenant.TenantID)
	restored := &erasing{service: copied, metering: s.metering}
	for _, text := range []string{person, personsMark} {
		require.Empty(t, restored.inFolder()["warehouse"](text), "restored: %s", text)
	}
	restored.start()
	until(t, func() bool {
		return len(holding(t, copied.data, person, "log"))+len(holding(t, copied.data, personsMark, "log")) == 0
	}, "the person is erased from the restored service")
	require.Equal(t, s.metering, restored.sums())
	restored.stop()

	s.stop()
	for _, text := range []string{person, personsMark} {
		require.Empty(t, holding(t, s.data, text, "log"), "stopped")
		require.NotEmpty(t, holding(t, filepath.Join(s.data, "log"), text), "the log is not rewritten")
	}
	for _, file := range []string{"warehouse.db", "warehouse.db-wal", "warehouse.db-shm"} {
		require.NoError(t, os.RemoveAll(filepath.Join(s.data, file)))
	}
	s.start()
	until(t, func() bool { return s.metered() == s.receipts }, "the log is loaded into a new warehouse")
	s.nothing("loaded again")
	s.again(done)
}
