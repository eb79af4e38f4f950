package systemtest

import (
	"archive/zip"
	"bytes"
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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/waittest"
)

// Confirmed requests the erasure of a person, and returns the body that confirms it.
func Confirmed(t *testing.T, url, key, person string) string {
	t.Helper()
	a := Call(t, url, key, Operation{Method: http.MethodPost, Path: "/v1/compliance/erase", Body: fmt.Sprintf(`{"dataSubjectId":%q}`, person)})
	require.Equal(t, http.StatusPreconditionFailed, a.Status, a.Body)
	return fmt.Sprintf(`{"dataSubjectId":%q,"confirmationToken":%q}`, person, TextAt(t, a.Body, "confirmationToken"))
}

// ErasureOf is an erasure as it is answered.
type ErasureOf struct {
	ID, State, SubjectHash, EventID, Certificate string
	Counts                                       ErasureCounts
}

// ErasureCounts are the counts of an erasure, or of its preview.
type ErasureCounts struct {
	PrivateParts, SetAside, Bundles int
	Records, Permanent              map[string]int
}

// Erased erases a person, and waits until that is done.
func Erased(t *testing.T, server *system.Server, key, person string) (e ErasureOf) {
	t.Helper()
	client := system.Client{API: server.API, Key: key}
	var answer struct{ Erasure ErasureOf }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/compliance/erase", json.RawMessage(Confirmed(t, server.API, key, person)), &answer))
	waittest.Until(t, func() bool {
		require.NoError(t, client.Do(t.Context(), "GET", "/v1/compliance/erasures/"+answer.Erasure.ID, nil, &answer))
		return answer.Erasure.State == "COMPLETED"
	}, "%s is erased", answer.Erasure.ID)
	return answer.Erasure
}

// Holding are the files under a folder in which a text stands; in a bundle or a warehouse, also packed. Those
// under a folder of one of the names apart are passed over.
func Holding(t *testing.T, folder, text string, apart ...string) (files []string) {
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
		if bytes.Contains(b, []byte(text)) || textsHold(t, path, text) {
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

// Erasing is the story of a service that erases a person, with the files that have to lose every
// byte of them. The log and the nodes' copies are none of these: they lose it by their age.
type Erasing struct {
	*Service
	Stores   map[string]func(text string) (files []string)
	links    []string // to bundles with data of the person
	Receipts int
	Metering string
}

const (
	Person, PersonsMark = "ada.lovelace@example.org", "cell-of-ada-lovelace"
	other               = "grace.hopper@example.org"
	third               = "jean.bartik@example.org"
)

// Begin names the person in deliveries, in a row that waits, in a payee's account, in exports of all formats'
// kinds, and in the notes of exports that are not about the person, and another beside. Each store holds the person then.
func (s *Erasing) Begin() {
	t := s.T
	t.Helper()
	s.Tenant = CreateTenant(t, s.Data, "--scope", "*")
	s.Client.Key = s.Tenant.APIKey
	s.Rights = IssueRights(t, s.Client)
	s.Receipts = 40
	for i := range s.Receipts {
		who, cell := Person, PersonsMark
		if i%4 == 0 {
			who, cell = other, "cell-of-grace"
		}
		s.Shown(who, cell)
	}
	s.Post("/v1/delivery/ingest-batch", map[string]any{"vendor": "acme", "rows": []any{map[string]any{
		"idType": "player", "vendorId": "nobody-knows", "playedAt": time.Now().UTC().Format(time.RFC3339), "dwellMs": 5000,
		"dataSubjectId": Person, "telemetry": map[string]any{"coverageCellId": PersonsMark},
	}}}, nil)
	s.Post("/v1/settlement/counterparties", map[string]any{"name": "a studio", "kind": "OTHER", "currency": "EUR", "payoutRef": "IBAN of " + Person + " (" + PersonsMark + ")"}, nil)
	waittest.Until(t, func() bool { return s.Metered() == s.Receipts }, "all is loaded")
	notes := fmt.Sprintf(`,"requestNotes":%q`, "asked for by "+Person+", who has "+PersonsMark)
	for job, named := range map[string]bool{
		fmt.Sprintf(`"scope":{"kind":"DATA_SUBJECT","dataSubjectId":%q}`, Person):        true,
		fmt.Sprintf(`"scope":{"kind":"DATA_SUBJECT","dataSubjectId":%q}`, other):         false,
		fmt.Sprintf(`"scope":{"kind":"DATA_SUBJECT","dataSubjectId":%q}`, third) + notes: true,
		`"scope":{"kind":"TENANT_FULL"}` + notes:                                         true,
	} {
		// The answer is kept for the key, and names whom the export is of.
		a := Call(t, s.Client.API, s.Client.Key, Operation{Method: "POST", Path: "/v1/compliance/dsar", Body: `{"format":"NDJSON",` + job + `}`}, "Idempotency-Key", rand.Text())
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		id := TextAt(t, a.Body, "data.job.id")
		s.Post("/v1/compliance/dsar/"+id+"/run", nil, nil)
		require.Equal(t, "READY", s.Exported(id).State)
		var link struct{ BundleURL string }
		s.Get("/v1/compliance/dsar/"+id+"/bundle", &link)
		if named {
			s.links = append(s.links, link.BundleURL)
		}
	}
	s.Metering = s.Sums()
	for name, files := range s.Stores {
		for _, text := range []string{Person, PersonsMark} {
			require.NotEmpty(t, files(text), "%s: %s", name, text)
		}
	}
}

// Shown delivers something to a person.
func (s *Erasing) Shown(who, cell string) {
	s.T.Helper()
	s.Post("/v1/delivery", map[string]any{
		"rightId": s.Rights["CTV"], "spatialAnchorId": "screen-1", "dwellMs": 5000, "dataSubjectId": who,
		"telemetry": map[string]any{"viewable": true, "appState": "foreground", "coverageCellId": cell},
	}, nil)
}

// Sums are what is metered, once all is loaded.
func (s *Erasing) Sums() string {
	s.T.Helper()
	var body json.RawMessage
	s.Seal()
	s.Get("/v1/metering?rightId="+s.Rights["CTV"], &body)
	return Position.ReplaceAllString(string(body), "")
}

// Erase erases the person: nothing is left, everything is proven, and the certificate holds.
func (s *Erasing) Erase() (done ErasureOf, packs []string) {
	t := s.T
	t.Helper()
	done = Erased(t, s.Server, s.Client.Key, Person)
	require.Greater(t, done.Counts.PrivateParts, s.Receipts*3/4, "deliveries, and the events of the export")
	require.Equal(t, map[string]int{"heldRow": 1, "dsarJob": 3, "counterparty": 1}, done.Counts.Records, "a held row, an export of the person, two whose notes name the person, and a payee's account")
	require.Empty(t, done.Counts.Permanent)
	require.Equal(t, 3, done.Counts.Bundles)
	s.Nothing("erased")
	for _, link := range s.links {
		require.Equal(t, http.StatusNotFound, Call(t, link, "", Operation{Method: "GET"}).Status, "the link is void")
	}
	packs = SealAndExport(t, s.Client)
	VerifyPacks(t, s.Data, packs)
	certificate := filepath.Join(t.TempDir(), "certificate")
	require.NoError(t, os.WriteFile(certificate, []byte(done.Certificate), 0o600))
	verify := append([]string{"verify", "--json", "--root", filepath.Join(s.Data, "keys", "root.vkey"), certificate}, packs...)
	require.Contains(t, Command(t, verify...), `"its tombstone is leaf `)
	return done, packs
}

// Nothing is in the stores of the person, all that is of another, and the sums are as they were.
func (s *Erasing) Nothing(about string) {
	s.T.Helper()
	for name, files := range s.Stores {
		for _, text := range []string{Person, PersonsMark} {
			require.Empty(s.T, files(text), "%s: %s: %s", about, name, text)
		}
		require.NotEmpty(s.T, files(other), "%s: %s", about, name)
	}
	require.Equal(s.T, s.Metering, s.Sums(), about)
}

// Again erases the person once more, of whom nothing is left.
func (s *Erasing) Again(first ErasureOf) {
	again := Erased(s.T, s.Server, s.Client.Key, Person)
	require.Equal(s.T, ErasureCounts{Records: map[string]int{}, Permanent: map[string]int{}}, again.Counts)
	require.Equal(s.T, first.SubjectHash, again.SubjectHash)
	require.NotEqual(s.T, first.EventID, again.EventID)
	s.Nothing("erased again")
}

// InFolder are the stores of a service in one process.
func (s *Erasing) InFolder() map[string]func(text string) []string {
	return map[string]func(text string) []string{
		"the folder, but for the log": func(text string) []string { return Holding(s.T, s.Data, text, "log") },
		"warehouse": func(text string) []string {
			return slices.DeleteFunc(Holding(s.T, s.Data, text, "log"), func(name string) bool { return !strings.HasPrefix(name, "warehouse.db") })
		},
		"database": func(text string) []string {
			return slices.DeleteFunc(Holding(s.T, s.Data, text, "log"), func(name string) bool { return !strings.HasPrefix(name, "control.db") })
		},
		"bundles": func(text string) []string { return Holding(s.T, filepath.Join(s.Data, "bundles"), text) },
	}
}
