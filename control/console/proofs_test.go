package console

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/member"
	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer/sealertest"
)

// TestPacksOfAMonth are those that were sealed in it, by the clocks of the page's zone; those of a statement are from an hour before its
// time to the newest that it states.
func TestPacksOfAMonth(t *testing.T) {
	records := map[string]string{
		"/v1/packs":            `{"packs":[{"id":"ppk_1","sealedAt":"2026-10-05T00:00:00Z"}],"nextCursor":"c"}`,
		"/v1/statements":       `{"statements":[{"id":"stm_0","period":"2026-09","state":"ISSUED"},{"id":"stm_1","period":"2026-10","state":"ISSUED"}]}`,
		"/v1/statements/stm_1": `{"statement":{"id":"stm_1","period":"2026-10","state":"ISSUED","packId":"ppk_9","from":"2026-09-30T22:00:00Z"},"document":{"since":"2026-09-01T00:00:00Z"}}`,
	}
	show := func(query string) (text, page string, asked []string) {
		s, requests := recorded(t, records)
		p, w := s.page(Path + "/proof" + query)
		p.Session.Zone = berlin(t)
		require.NoError(t, showProof(p))
		return readable(w.Body.String()), w.Body.String(), *requests
	}
	text, page, asked := show("?month=2026-10")
	require.Equal(t, []string{"/v1/packs?from=2026-09-30T22%3A00%3A00.000Z&limit=50&to=2026-10-31T23%3A00%3A00.000Z", "/v1/statements?limit=100"}, asked)
	require.Contains(t, text, "Packs of October 2026")
	require.Contains(t, page, `href="/console/proof?statementId=stm_1">The packs that Statement October 2026 rests on</a>`)
	require.Contains(t, page, `href="/console/proof?cursor=c&amp;month=2026-10"`)
	require.Contains(t, page, `href="/console/proof.csv?month=2026-10"`)
	text, page, asked = show("?statementId=stm_1")
	require.Equal(t, []string{"/v1/statements/stm_1", "/v1/packs?from=2026-08-31T23%3A00%3A00.000Z&limit=50&upTo=ppk_9"}, asked)
	require.Contains(t, text, "Statement October 2026 rests on these packs")
	require.Contains(t, page, `href="/console/proof.csv?statementId=stm_1"`)
	s, _ := recorded(t, records)
	p, w := s.page(Path + "/proof?month=2026-1x")
	require.NoError(t, showProof(p))
	require.Equal(t, 422, w.Code)
	records["/v1/packs"] = `{"packs":[]}`
	text, _, _ = show("?month=2026-10")
	require.Contains(t, text, "No pack was sealed then.")
}

// audited is the console over packs, a statement and a list of keys, whose downloads are what download answers.
func audited(t *testing.T, records map[string]string, download func(w http.ResponseWriter, packID string)) (*Service, *sealertest.World) {
	t.Helper()
	s, _ := recorded(t, records)
	maps.Copy(s.operations(), map[string]operation{
		"download-proof-pack": {method: "GET", path: "/v1/packs/{packId}/bundle"}, "get-key-directory": {method: "GET", path: "/keys.json"},
	})
	world, serve := sealertest.NewWorld(t), s.cfg.Serve
	s.cfg.Logger = slog.New(slog.DiscardHandler)
	s.cfg.Serve = func(w http.ResponseWriter, ctx context.Context, caller auth.Principal, method, target string) error {
		packID, found := strings.CutPrefix(target, "/v1/packs/")
		packID, bundle := strings.CutSuffix(packID, "/bundle")
		switch {
		case found && bundle:
			download(w, packID)
		case target == "/keys.json":
			_, _ = w.Write(world.Directory())
		case strings.HasPrefix(target, "/v1/packs?from=2026-11-01T08"): // after the issue
			_, _ = w.Write([]byte(`{"data":` + records["after the issue"] + `}`))
		case strings.HasPrefix(target, "/v1/packs?") && !strings.Contains(target, "&to=") && !strings.Contains(target, "?to=") && records["all"] != "":
			return errors.New("packs without an end: each that is downloaded makes an event for the next")
		case strings.HasSuffix(target, "?format=signed"):
			_, _ = w.Write([]byte("signed " + target))
		default:
			return serve(w, ctx, caller, method, target)
		}
		return nil
	}
	return s, world
}

// still is a session that goes on.
func (p *page) still(*http.Request) (member.Session, error) { return *p.Session, nil }

// unzipped are the files of a ZIP file by their names, which are sorted.
func unzipped(t *testing.T, file []byte) (names []string, files map[string]string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	files = map[string]string{}
	for _, f := range r.File {
		require.Equal(t, zip.Store, f.Method)
		open, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(open)
		require.NoError(t, err)
		names, files[f.Name] = append(names, f.Name), string(text)
	}
	return slices.Sorted(slices.Values(names)), files
}

// TestPacksInOneFile: an auditor gets the packs of a month, each once and as it was sealed, named by the entries that it has, with the
// keys; and those of a statement with its signed files and the pack that proves its issue.
func TestPacksInOneFile(t *testing.T) {
	const two = `{"id":"ppk_1","firstIndex":0,"treeSize":12,"bytes":9,"sealedAt":"2026-10-05T00:00:00Z"},{"id":"ppk_2","firstIndex":12,"treeSize":13,"bytes":9,"sealedAt":"2026-10-06T00:00:00Z"}`
	records := map[string]string{
		"all":                  "bounded",
		"/v1/packs":            `{"packs":[` + two + `]}`,
		"/v1/statements/stm_1": `{"statement":{"id":"stm_1","state":"ISSUED","packId":"ppk_2","issuedAt":"2026-11-01T08:00:00Z"},"document":{"correction":{"previous":{"statementId":"stm_0"}}}}`,
		"/v1/statements/stm_0": `{"statement":{"id":"stm_0","state":"VOIDED"},"document":{"correction":null}}`,
	}
	s, world := audited(t, records, func(w http.ResponseWriter, packID string) {
		w.Header().Set("Content-Disposition", "none of the archive")
		_, _ = w.Write([]byte("pack of "))
		_, _ = w.Write([]byte(strings.TrimPrefix(packID, "ppk_")))
	})
	send := func(query string) (names []string, files map[string]string, w *httptest.ResponseRecorder) {
		p, w := s.page(Path + "/proof/packs.zip" + query)
		require.NoError(t, packFiles(p, p.still))
		names, files = unzipped(t, w.Body.Bytes())
		return names, files, w
	}
	names, files, w := send("?month=2026-10")
	require.Equal(t, []string{"0000000000-0000000011-ppk_1.ndjson", "0000000012-0000000012-ppk_2.ndjson", "keys.json"}, names)
	require.Equal(t, "pack of 1", files[names[0]])
	require.Equal(t, string(world.Directory()), files["keys.json"])
	require.Equal(t, `attachment; filename="packs-2026-10.zip"`, w.Header().Get("Content-Disposition"))
	require.Equal(t, "application/zip", w.Header().Get("Content-Type"))

	names, _, w = send("?from=2026-10-01&to=2026-10-08T12:00")
	require.Len(t, names, 3)
	require.Contains(t, w.Header().Get("Content-Disposition"), "packs-from-2026-10-01T0000-to-2026-10-08T1200.zip")

	records["after the issue"] = `{"packs":[{"id":"ppk_3","firstIndex":13,"treeSize":20,"bytes":9,"sealedAt":"2026-11-02T00:00:00Z"}]}`
	names, files, _ = send("?statementId=stm_1")
	require.Equal(t, []string{"0000000000-0000000011-ppk_1.ndjson", "0000000012-0000000012-ppk_2.ndjson", "0000000013-0000000019-ppk_3.ndjson", "keys.json", "statement-stm_0.ndjson", "statement-stm_1.ndjson"}, names)
	require.Equal(t, "signed /v1/statements/stm_0?format=signed", files["statement-stm_0.ndjson"])

	p, page := s.page(Path + "/proof?month=2026-10")
	require.NoError(t, showProof(p))
	require.Contains(t, page.Body.String(), `href="/console/proof/packs.zip?month=2026-10" download="packs-2026-10.zip"`)
	require.Contains(t, page.Body.String(), "muniment verify --root ROOT packs-2026-10/*")
}

// TestABrokenFileOfPacks looks like no whole one: what is refused before it begins is said in words, and what fails later aborts the
// response, without the directory that a ZIP file ends with. A tenant that is busy for a moment gets it all the same.
func TestABrokenFileOfPacks(t *testing.T) {
	const packs = `{"packs":[{"id":"ppk_1","firstIndex":0,"treeSize":1,"bytes":8},{"id":"ppk_2","firstIndex":1,"treeSize":2,"bytes":8}]}`
	whole := func(w http.ResponseWriter) { _, _ = w.Write([]byte("12345678")) }
	refuse := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":"NOT_READY","message":"the bucket is away"}`))
	}
	for name, second := range map[string]func(http.ResponseWriter){"refused": refuse, "too short": func(w http.ResponseWriter) { _, _ = w.Write([]byte("1234")) }} {
		s, _ := audited(t, map[string]string{"/v1/packs": packs}, func(w http.ResponseWriter, packID string) {
			if packID == "ppk_1" {
				whole(w)
				return
			}
			second(w)
		})
		p, w := s.page(Path + "/proof/packs.zip")
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { _ = packFiles(p, p.still) }, name)
		require.NotContains(t, w.Body.String(), "PK\x05\x06", name)
	}

	// Who may no more gets no further pack.
	s, _ := audited(t, map[string]string{"/v1/packs": packs}, func(w http.ResponseWriter, packID string) {
		if packID != "ppk_1" {
			t.Error("a pack for nobody")
		}
		whole(w)
	})
	p, w := s.page(Path + "/proof/packs.zip")
	asked := 0
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		_ = packFiles(p, func(*http.Request) (member.Session, error) {
			if asked++; asked > 1 {
				return member.Session{}, &api.Error{Code: api.AuthInvalid, Message: "the session has ended"}
			}
			return *p.Session, nil
		})
	})
	require.NotContains(t, w.Body.String(), "PK\x05\x06")

	s, _ = audited(t, map[string]string{"/v1/packs": packs}, func(w http.ResponseWriter, _ string) { refuse(w) })
	p, w = s.page(Path + "/proof/packs.zip")
	require.ErrorContains(t, packFiles(p, p.still), "the bucket is away")
	require.Empty(t, w.Header().Get("Content-Type"))
	s, _ = audited(t, map[string]string{"/v1/packs": `{"packs":[]}`}, nil)
	p, _ = s.page(Path + "/proof/packs.zip")
	require.Equal(t, errNoPacks, packFiles(p, p.still))

	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s, _ := audited(t, map[string]string{"/v1/packs": packs}, func(w http.ResponseWriter, _ string) {
			if tries++; tries%2 == 1 {
				busy(w)
				return
			}
			whole(w)
		})
		p, w := s.page(Path + "/proof/packs.zip")
		require.NoError(t, packFiles(p, p.still))
		names, _ := unzipped(t, w.Body.Bytes())
		require.Len(t, names, 3)
		require.Equal(t, 4, tries)
	})
}

// TestKeysThatSign are a table for people: what each signs, since when, and whether it was revoked; and how the root key begins
// that is to be compared. A file has all of them, with their public halves.
func TestKeysThatSign(t *testing.T) {
	s, world := audited(t, map[string]string{"/v1/packs": `{"packs":[]}`}, nil)
	s.cfg.Now = func() time.Time { return world.Now.Add(time.Hour) }
	revoked := &world.Keys[len(world.Keys)-1]
	revoked.RevokedAt = &world.Now
	p, w := s.page(Path + "/proof")
	require.NoError(t, showProof(p))
	text := readable(w.Body.String())
	name, hash, _ := strings.Cut(world.VKey, "+")
	hash, _, _ = strings.Cut(hash, "+")
	require.Contains(t, text, fmt.Sprintf("%d public keys, the oldest included; 1 revoked.", len(world.Keys)))
	require.Contains(t, text, "which the root key that begins "+name+"+"+hash+" lets sign until")
	require.Contains(t, text, "this list active 1 May 2026, 12:00 – the root key")
	require.Regexp(t, revoked.KeyID+` .* revoked 1 May 2026, 12:00 1 May 2026, 12:00 – the list`, text)
	require.Contains(t, w.Body.String(), "/.well-known/muniment/keys.json")
	require.Contains(t, strings.Join(p.Curls(), " "), "/keys.json")

	p, w = s.page(Path + "/proof/keys.csv")
	require.NoError(t, sendSigners(p))
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), route.ByteOrderMark))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+len(world.Keys))
	require.Equal(t, "Public key", rows[0][len(rows[0])-1])
	require.Contains(t, w.Body.String(), revoked.PublicKey)
	require.Contains(t, w.Body.String(), "REVOKED,2026-05-01T12:00:00.000Z,,the list,2026-05-01T")
}

// TestWhatSealsThePacks is said as the service is set: nobody waits for what doesn't come.
func TestWhatSealsThePacks(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		at    int
		says  string
	}{
		{time.Hour, 100_000, "A pack is sealed by itself as soon as an entry has waited for 1 hour, or 100 000 entries wait."},
		{90 * time.Second, 0, "as soon as an entry has waited for 1m30s."},
		{0, 500, "only when 500 entries wait, however long that takes."},
		{0, 0, "This service seals nothing by itself"},
	} {
		records := map[string]string{"/v1/packs": `{"packs":[]}`}
		s, _ := recorded(t, records)
		s.cfg.SealEvery, s.cfg.SealAt = c.every, c.at
		for _, events := range []int{0, 3} {
			records["/v1/tenant"] = fmt.Sprintf(`{"tenant":{"counts":{"events":%d}}}`, events)
			p, w := s.page(Path + "/proof")
			require.NoError(t, showProof(p))
			text := readable(w.Body.String())
			require.Equal(t, 1, strings.Count(text, c.says), text)
			require.Equal(t, events == 0, strings.Contains(text, "Deliver something first"))
		}
		p, _ := s.page(Path + "/proof/seal")
		made, err := proofActs[0].consequences(p, nil)
		require.NoError(t, err)
		require.Contains(t, strings.Join(made.Lines, " "), c.says)
	}
}

// TestCertificateOfAnErasure is a file as it was signed, once the erasure is completed; before that it is said that there is none.
func TestCertificateOfAnErasure(t *testing.T) {
	records := map[string]string{"/v1/erasures/ers_1": `{"erasure":{"id":"ers_1","state":"COMPLETED","certificate":"muniment/erasure.v1\nline\n"}}`}
	s, _ := recorded(t, records)
	s.operations()["get-erasure"] = operation{method: "GET", path: "/v1/erasures/{erasureId}"}
	show := func(h handler, path string) (*httptest.ResponseRecorder, error) {
		p, w := s.page(Path + path)
		p.r.SetPathValue("erasureId", "ers_1")
		return w, h(p)
	}
	w, err := show(sendCertificate, "/erasures/ers_1/certificate")
	require.NoError(t, err)
	require.Equal(t, "muniment/erasure.v1\nline\n", w.Body.String())
	require.Equal(t, `attachment; filename="ers_1.txt"`, w.Header().Get("Content-Disposition"))
	w, err = show(showErasure, "/erasures/ers_1")
	require.NoError(t, err)
	require.Contains(t, w.Body.String(), `href="/console/erasures/ers_1/certificate" download="ers_1.txt"`)
	require.Contains(t, readable(w.Body.String()), "Anyone can verify its file")

	records["/v1/erasures/ers_1"] = `{"erasure":{"id":"ers_1","state":"REQUESTED"}}`
	_, err = show(sendCertificate, "/erasures/ers_1/certificate")
	require.Equal(t, api.StateConflict, api.From(err).Code)
	w, err = show(showErasure, "/erasures/ers_1")
	require.NoError(t, err)
	require.NotContains(t, w.Body.String(), "Download the certificate")
	require.Contains(t, readable(w.Body.String()), "Load this page again")
}

// TestProofSaysWhatWaits: how much is in no pack, and since when.
func TestProofSaysWhatWaits(t *testing.T) {
	records := map[string]string{
		"/v1/packs":      `{"packs":[{"id":"ppk_2","treeSize":93,"sealedAt":"2026-10-05T08:00:00Z"},{"id":"ppk_1","treeSize":91,"sealedAt":"2026-10-05T07:00:00Z"}]}`,
		"/v1/checkpoint": `{"checkpoint":"note"}`,
		"/v1/tenant":     `{"tenant":{"counts":{"events":111}}}`,
	}
	show := func() string {
		s, _ := recorded(t, records)
		p, w := s.page(Path + "/proof")
		require.NoError(t, showProof(p))
		return readable(w.Body.String())
	}
	require.Contains(t, show(), "93 entries sealed 18 not sealed yet They came after the newest pack was sealed, on 5 Oct 2026, 08:00:00 .")
	records["/v1/tenant"] = `{"tenant":{"counts":{"events":93}}}`
	require.Contains(t, show(), "93 entries sealed nothing waits")
}

// TestFilesOfAnAuditor have every page of what they list: who did what to a right, and what the gate refused.
func TestFilesOfAnAuditor(t *testing.T) {
	s, asked := recorded(t, map[string]string{
		"/v1/events":       `{"events":[{"event":{"eventId":"evt_1","at":"2026-10-05T08:00:00Z","type":"right.suspended","actor":{"kind":"member","id":"mbr_1"},"data":{"stateReason":"=check"}}}],"nextCursor":null}`,
		"/v1/rights/rgh_1": `{}`,
		"/v1/refusals":     `{"rows":[{"bucket":"2026-10-05T00:00:00Z","rule":"messaging-optout","rightId":"rgh_1","refusals":3}],"nextCursor":null}`,
	})
	s.operations()["get-right"] = operation{method: "GET", path: "/v1/rights/{rightId}"}
	s.operations()["list-events"] = operation{method: "GET", path: "/v1/events"}
	s.operations()["get-refusals"] = operation{method: "GET", path: "/v1/refusals"}
	p, w := s.page(Path + "/rights/rgh_1/acts.csv")
	p.r.SetPathValue("rightId", "rgh_1")
	p.Session.Actor.ID, p.Session.Name = "mbr_1", "Ada"
	require.NoError(t, sendActsOn(p))
	require.Contains(t, w.Body.String(), "2026-10-05T08:00:00.000Z,suspended,mbr_1,Ada,'=check,evt_1\n")
	require.Contains(t, (*asked)[1], "subjectId=rgh_1&subjectKind=right&type=right.issued")
	p, w = s.page(Path + "/refusals.csv?from=2026-10-01T00:00:00Z&to=2026-10-08T00:00:00Z")
	require.NoError(t, sendRefusals(p))
	require.Contains(t, w.Body.String(), "Day,Rule,Right,Refused\n2026-10-05T00:00:00.000Z,messaging-optout,rgh_1,3\n")
	require.Equal(t, "/v1/refusals?bucket=day&from=2026-10-01T00%3A00%3A00Z&limit=500&timeZone=UTC&to=2026-10-08T00%3A00%3A00Z", (*asked)[len(*asked)-1])
}
