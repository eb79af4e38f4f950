package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/sealertest"
)

// erasure appends a tombstone to the archive and returns its certificate.
func (a *archive) erasure(key string, change ...func(*sealer.ErasureCertificate)) []byte {
	a.TB.Helper()
	a.Now = a.Now.Add(time.Second)
	c := sealer.ErasureCertificate{
		ErasureID: "era_0", TenantID: a.Tenant, SubjectHash: "hash", EventID: a.ID("evt_"), Until: a.Now, CompletedAt: a.Now.Add(time.Second),
		PrivateParts: 7, SetAside: 1, Records: map[string]int64{"heldRow": 2, "counterparty": 1}, Permanent: map[string]int64{"dispute.opened": 1}, Statements: []string{"stm_1", "stm_2"}, Bundles: 3, LogGoneBy: a.Now.Add(9 * 24 * time.Hour), CopiesGoneBy: a.Now.Add(24 * time.Hour),
	}
	event, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: c.EventID, TenantID: a.Tenant, Type: sealer.TypeErased, At: a.Now, Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: sealer.Ref{Kind: "erasure", ID: c.ErasureID},
		Data: fmt.Appendf(nil, `{"subjectHash":"hash","until":"%s"}`, canonical.FormatTime(c.Until)),
	})
	require.NoError(a.TB, err)
	a.keep([][]byte{event})
	for _, f := range change {
		f(&c)
	}
	text, err := sealer.SignErasure(&c, sealertest.PrivateKey(key))
	require.NoError(a.TB, err)
	return []byte(text)
}

// erasureAnswer is the service's answer about an erasure with a certificate; with none, about one that is not completed.
func erasureAnswer(certificate []byte) []byte {
	state, completed, text := "REQUESTED", "null", "null"
	said := struct{ ErasureID, TenantID, SubjectHash, Until, EventID, CompletedAt string }{"era_0", "tnt_0", "hash", "2026-05-01T12:00:00.000Z", "evt_0", ""}
	counts := []byte(`{}`)
	if certificate != nil {
		body := bytes.Split(certificate, []byte("\n"))[1]
		var signed struct{ Counts json.RawMessage }
		_ = json.Unmarshal(body, &said) // a certificate that is no JSON has nothing beside it
		_ = json.Unmarshal(body, &signed)
		quoted, _ := json.Marshal(string(certificate))
		counts, state, completed, text = signed.Counts, "COMPLETED", strconv.Quote(said.CompletedAt), string(quoted)
	}
	return fmt.Appendf(nil, `{"ok":true,"data":{"erasure":{"id":%q,"tenantId":%q,"subjectHash":%q,"until":%q,"eventId":%q,"requestedBy":"key_1","state":%q,"counts":%s,"certificate":%s,"completedAt":%s,"createdAt":"2026-05-01T12:00:00.000Z","updatedAt":"2026-05-01T12:00:00.000Z","revision":3}},"contractVersion":"v1.0"}`+"\n",
		said.ErasureID, said.TenantID, said.SubjectHash, said.Until, said.EventID, state, counts, text, completed)
}

func TestCertificateOfErasure(t *testing.T) {
	a := newArchive(t, 3)
	good := a.erasure("pack")
	other := a.erasure("pack", func(c *sealer.ErasureCertificate) { c.SubjectHash = "another" })
	leaf := len(a.events) - 2
	proven := []file{{"certificate", good}, {"proof", a.proofAnswer(leaf, a.home(leaf))}}
	codes := func(r Report) (codes []sealer.Code) {
		for _, v := range r.Files[0].Verdicts {
			codes = append(codes, v.Code)
		}
		return codes
	}
	for _, files := range [][]file{
		proven, {proven[1], proven[0]},
		{proven[0], {"pack", sealertest.Bundle(t, a.packs[1], a.events[leaf:leaf+1])}},
		{proven[0], {"export", a.export(leaf, 1)}},
		{{"answer", erasureAnswer(good)}, proven[1]},
	} {
		r := a.verify(a.Directory(), nil, files...)
		require.True(t, r.OK, "%+v", r.Files)
	}
	require.Equal(t, []sealer.Code{SignatureOK, InclusionOK}, codes(a.verify(a.Directory(), nil, proven...)))
	require.Equal(t, []sealer.Code{SignatureOK, ErasureUnproven}, codes(a.verify(a.Directory(), nil, proven[0])))

	leaf++
	for about, c := range map[string]struct {
		files []file
		code  sealer.Code
	}{
		"of a node's key":    {[]file{{"certificate", a.erasure("nod_a")}}, sealer.KeyPurpose},
		"of a stranger":      {[]file{{"certificate", a.erasure("stranger")}}, sealer.KeyUnknown},
		"before the key":     {[]file{{"certificate", a.erasure("pack", func(c *sealer.ErasureCertificate) { c.CompletedAt = sealertest.Epoch.AddDate(-1, 0, 0) })}}, sealer.KeyOutsideWindow},
		"altered":            {[]file{{"certificate", bytes.Replace(good, []byte(`"privateParts":7`), []byte(`"privateParts":8`), 1)}}, sealer.SignatureInvalid},
		"of another note":    {[]file{{"certificate", bytes.Replace(good, []byte(`"note":"Backups`), []byte(`"note":"backups`), 1)}}, FormatInvalid},
		"with another event": {[]file{{"certificate", other}, {"proof", a.proofAnswer(leaf, a.home(leaf))}}, sealer.EntryAltered},
	} {
		r := a.verify(a.Directory(), nil, c.files...)
		require.Equal(t, c.code, fails(r)[0][0], about)
	}
	// A checkpoint and a certificate are never taken for each other, though one key signs both.
	_, err := sealer.ParseErasure(a.packs[0].Header.Checkpoint)
	require.Error(t, err)
	_, err = checkpoint.Open(string(good), checkpoint.Origin(a.Tenant), sealertest.Public(a.PackKey))
	require.Error(t, err)
}

// TestCertificateOfErasureBitByBit: no byte of it can be another.
func TestCertificateOfErasureBitByBit(t *testing.T) {
	a := newArchive(t, 3)
	good := a.erasure("pack")
	require.True(t, a.verify(a.Directory(), nil, file{"certificate", good}).OK)
	a.flips(good)
	answered := a.verify(a.Directory(), nil, file{"answer", erasureAnswer(good)})
	require.Contains(t, answered.Files[0].Verdicts[0].Message, "not signed is what the response has besides")
	pending := a.verify(a.Directory(), nil, file{"answer", erasureAnswer(nil)})
	require.Equal(t, "fetch the erasure again once its state is COMPLETED", pending.Files[0].Verdicts[0].Next)
}
