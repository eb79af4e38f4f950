package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// left is beside the data folder of a release: what its users hold, and what its service answered
// last.
type left struct {
	Tenant   tenantKey
	OldKey   string            // an API key that was revoked
	Rights   map[string]string // by substrate; that of CTV was revoked
	Receipts map[string]string // with signature and event, by id
	Packs    map[string]string // SHA-256 of each bundle, by id
	Mapping  string            // of the vendor acme's screen 7
	Webhook  string            // is paused
	Endpoint string            // its URL
	Offer    string            // is open
	// Statement was issued; SHA-256 of what was signed.
	Statement, StatementSHA string
	Totals                  json.RawMessage // of metering
}

// upgradeFrom holds the data folders of releases.
const upgradeFrom = "testdata/upgrade"

// TestUpgrade starts the data folder of each release with this program. All that its users hold is
// there, byte for byte, and verifies; what was stopped is still stopped; and the service goes on: it
// delivers and seals, and the new pack continues the log of the old ones.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join(upgradeFrom, "*.tar.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, file, dir)
			was := parse[left](t, string(read(t, filepath.Join(dir, "left.json"))))
			s := notStarted(t, filepath.Join(dir, "data"))
			s.tenant, s.client.Key, s.rights = was.Tenant, was.Tenant.APIKey, was.Rights
			s.start()
			s.finds(&was)
			s.goesOnFrom(&was)
			s.stop()
		})
	}
}

// finds checks that everything is there.
func (s *service) finds(was *left) {
	t := s.t
	t.Helper()
	for id, receipt := range was.Receipts {
		require.Equal(t, receipt, s.receipt(id))
		s.get("/v1/receipts/"+id+"/proof", nil)
	}
	require.Equal(t, was.Packs, s.packSums())
	require.JSONEq(t, string(was.Totals), string(s.totals()))

	var mappings struct{ Mappings []struct{ ID, State string } }
	s.get("/v1/delivery/mappings", &mappings)
	require.Contains(t, mappings.Mappings, struct{ ID, State string }{was.Mapping, "ACTIVE"})
	var webhook struct{ Webhook struct{ URL, State string } }
	s.get("/v1/webhooks/"+was.Webhook, &webhook)
	require.Equal(t, struct{ URL, State string }{was.Endpoint, "PAUSED"}, webhook.Webhook)
	var offer struct{ Offer struct{ State string } }
	s.get("/v1/offers/"+was.Offer, &offer)
	require.Contains(t, []string{"PROPOSED", "EXPIRED"}, offer.Offer.State, "it may have expired since")
	var statement struct{ Statement stated }
	s.get("/v1/settlement/statements/"+was.Statement, &statement)
	require.Equal(t, "ISSUED", statement.Statement.State)
	require.Equal(t, was.StatementSHA, s.sum("/v1/settlement/statements/"+was.Statement+"?format=signed"))

	status, answer := s.deliver(s.client.Key, "CTV")
	require.Equal(t, http.StatusConflict, status, answer)
	status, answer = s.deliver(was.OldKey, "DOOH")
	require.Equal(t, http.StatusUnauthorized, status, answer)
}

// goesOnFrom delivers once more, by a right and by a mapping, and verifies all packs with the
// receipts and the statement of the release.
func (s *service) goesOnFrom(was *left) {
	t := s.t
	t.Helper()
	s.receipts(1)
	row := map[string]any{"rowId": "after", "vendor": "acme", "idType": "screen", "vendorId": "7", "playedAt": time.Now().UTC().Format(time.RFC3339), "dwellMs": 1500}
	var answer struct{ Counts struct{ Accepted int } }
	s.post("/v1/delivery/ingest-batch", map[string]any{"rows": []any{row}}, &answer)
	require.Equal(t, 1, answer.Counts.Accepted)
	packs := sealAndExport(t, s.client)
	require.Len(t, packs, len(was.Packs)+1)
	signed := filepath.Join(t.TempDir(), "issued.statement")
	require.NoError(t, s.client.Download(t.Context(), "/v1/settlement/statements/"+was.Statement+"?format=signed", signed))
	files := append(packs, signed)
	for id, receipt := range was.Receipts {
		files = append(files, filepath.Join(t.TempDir(), id+".json"))
		require.NoError(t, os.WriteFile(files[len(files)-1], []byte(receipt), 0o600))
	}
	said := muniment(t, append([]string{"verify", "--root", filepath.Join(s.data, "keys", "root.vkey")}, files...)...)
	require.Contains(t, said, "statement.ok")
	require.NotContains(t, said, ".unproven")
}

// receipt returns a receipt with its signature and event, as a file that verify accepts.
func (s *service) receipt(id string) string {
	s.t.Helper()
	var found struct{ Receipt, Signature, Event json.RawMessage }
	s.get("/v1/receipts/"+id, &found)
	return fmt.Sprintf(`{"receipt":%s,"signature":%s,"event":%s}`, found.Receipt, found.Signature, found.Event)
}

// sum returns the SHA-256 of a download.
func (s *service) sum(path string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "file")
	require.NoError(s.t, s.client.Download(s.t.Context(), path, file))
	sum := sha256.Sum256(read(s.t, file))
	return hex.EncodeToString(sum[:])
}

func (s *service) packSums() map[string]string {
	s.t.Helper()
	var list struct{ Packs []struct{ ID string } }
	s.get("/v1/proof-packs?limit=500", &list)
	sums := map[string]string{}
	for _, p := range list.Packs {
		sums[p.ID] = s.sum("/v1/proof-packs/" + p.ID + "/bundle")
	}
	return sums
}

func (s *service) totals() json.RawMessage {
	s.t.Helper()
	var metering struct{ Totals json.RawMessage }
	s.get("/v1/metering", &metering)
	return metering.Totals
}

// TestMakeUpgradeData makes and stores the data folder of the version that
// MUNIMENT_TEST_UPGRADE_DATA names: make upgrade-data.
func TestMakeUpgradeData(t *testing.T) {
	release := os.Getenv("MUNIMENT_TEST_UPGRADE_DATA")
	if release == "" {
		t.Skip("make upgrade-data VERSION=v1.2.3 makes the data folder of a version")
	}
	require.Error(t, exec.CommandContext(t.Context(), "git", "rev-parse", "--verify", "--quiet", "refs/tags/"+release).Run(), "%s is released: users have the data folder that is stored", release)
	archive := filepath.Join(upgradeFrom, release+".tar.gz")
	s := newService(t)
	was := s.leaves()
	s.stop()
	text, err := json.MarshalIndent(was, "", "  ")
	require.NoError(t, err)
	dir := filepath.Dir(s.data)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "left.json"), text, 0o600))
	pack(t, archive, dir, "left.json", filepath.Base(s.data))
	info, err := os.Stat(archive)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(300_000))
}

// leaves has the service do a little of everything.
func (s *service) leaves() left {
	t := s.t
	was := left{Tenant: s.tenant, Rights: s.rights, Receipts: map[string]string{}, Endpoint: "https://receiver.example/hooks"}
	receipts := s.receipts(5)
	signing := current(t, s.data, "receipt_signing")
	muniment(t, "signing-key", "rotate", "--data", s.data, signing)
	until(t, func() bool { return current(t, s.data, "receipt_signing") != signing })
	receipts = append(receipts, s.receipts(5)...)
	was.OldKey = strings.TrimSpace(muniment(t, "key", "create", "--data", s.data, "--tenant", s.tenant.TenantID, "--label", "old", "--scope", "delivery:write", "--key-only"))
	muniment(t, "key", "revoke", "--data", s.data, "key_"+strings.Split(was.OldKey, "_")[2])

	var mapping struct{ Mapping struct{ ID string } }
	s.post("/v1/delivery/mappings", map[string]any{"vendor": "acme", "idType": "screen", "vendorId": "7", "effectiveFrom": "2026-01-01T00:00:00Z",
		"target": map[string]any{"rightId": s.rights["DOOH"], "spatialAnchorId": "screen-7"}}, &mapping)
	was.Mapping = mapping.Mapping.ID
	var webhook struct{ Webhook struct{ ID string } }
	s.post("/v1/webhooks", map[string]any{"url": was.Endpoint, "events": []string{"challenge.*"}}, &webhook)
	was.Webhook = webhook.Webhook.ID
	require.NoError(t, s.client.Do(t.Context(), http.MethodPatch, "/v1/webhooks/"+was.Webhook, map[string]any{"state": "PAUSED"}, nil))
	var offer struct{ Offer struct{ ID string } }
	s.post("/v1/offers", map[string]any{"rightId": s.rights["DOOH"], "toOrgId": "org_other", "scope": map[string]any{}}, &offer)
	was.Offer = offer.Offer.ID

	to := time.Now().Add(-time.Hour).Truncate(time.Second)
	from := to.Add(-4 * 24 * time.Hour)
	s.registerRules(from)
	s.playRows(rand.New(rand.NewPCG(1, 2)), 50, from, to)
	s.seal()
	statement := s.draft(periodOf(from, to))
	s.post("/v1/settlement/statements/"+statement.ID+"/issue", nil, nil)
	was.Statement, was.StatementSHA = statement.ID, s.sum("/v1/settlement/statements/"+statement.ID+"?format=signed")
	s.move("CTV", "revoke")
	s.seal()
	was.Packs, was.Totals = s.packSums(), s.totals()
	for _, id := range receipts {
		was.Receipts[id] = s.receipt(id)
	}
	return was
}

// pack writes files and folders of dir into a tar.gz, but for the reserve, which only takes space.
func pack(t *testing.T, archive, dir string, names ...string) {
	t.Helper()
	file, err := os.Create(archive)
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	require.NoError(t, err)
	out := tar.NewWriter(z)
	for _, name := range names {
		require.NoError(t, filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "reserve" {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			in, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			h := &tar.Header{Name: filepath.ToSlash(in), Mode: int64(info.Mode().Perm()), Size: info.Size()}
			if err := out.WriteHeader(h); err != nil {
				return err
			}
			_, err = out.Write(read(t, path))
			return err
		}))
	}
	require.NoError(t, errors.Join(out.Close(), z.Close(), file.Close()))
}

// unpack reverses pack. Zeros become holes: most of a segment of the log is not written yet.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	require.NoError(t, err)
	defer file.Close()
	z, err := gzip.NewReader(file)
	require.NoError(t, err)
	zeros, block := make([]byte, 64<<10), make([]byte, 64<<10)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(h.Mode))
		require.NoError(t, err)
		for at := int64(0); at < h.Size; {
			n, err := io.ReadFull(in, block[:min(int64(len(block)), h.Size-at)])
			require.NoError(t, err)
			if !slices.Equal(block[:n], zeros[:n]) {
				_, err = out.WriteAt(block[:n], at)
				require.NoError(t, err)
			}
			at += int64(n)
		}
		require.NoError(t, errors.Join(out.Truncate(h.Size), out.Close()), path)
	}
}
