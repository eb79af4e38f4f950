package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
)

// tombstone is what an event of an erasure says.
type tombstone struct {
	eventID     string
	leaf        uint64
	SubjectHash string
	Until       string
}

// noteErasure notes the tombstone of a person.
func (c *conduct) noteErasure(leaf uint64, e *sealer.Event) {
	t := tombstone{eventID: e.EventID, leaf: leaf}
	if json.Unmarshal(e.Data, &t) == nil {
		c.tombstones = append(c.tombstones, t)
	}
}

// erasureFile is a file with a certificate of erasure.
type erasureFile struct {
	*FileReport
	text     string
	answered bool // it came in an answer, which has more than it says
	said     sealer.ErasureCertificate
}

func (v *verification) openErasure(f *FileReport, text []byte) {
	e := &erasureFile{FileReport: f, answered: strings.HasPrefix(string(text), startOfErasure)}
	var err error
	if e.text, err = readErasure(string(text)); err == nil {
		e.said, err = sealer.ParseErasure(e.text)
	}
	switch {
	case err == errNoCertificate:
		said := found(FormatUnknown, err.Error())
		said.Next = "fetch the erasure again once its state is COMPLETED"
		f.add(said)
	case err != nil:
		f.say(FormatInvalid, "%v", err)
	default:
		v.erasures = append(v.erasures, e)
	}
}

// startOfErasure is how an HTTP answer about an erasure begins.
const startOfErasure = startOfAnswer + `{"erasure":{"id":"era_`

var errNoCertificate = errors.New("the erasure is not completed, so it has no certificate yet")

// recordOfErasure are the members of an erasure in an answer. One of any other name could say something that a person
// takes for signed.
var recordOfErasure = []string{
	"id", "tenantId", "subjectHash", "until", "eventId", "requestedBy", "state", "counts", "certificate", "completedAt", "createdAt", "updatedAt", "revision",
}

// readErasure reads a certificate: its text, or that in the HTTP answer {"erasure":{…"certificate":TEXT…}}, which has
// the members of recordOfErasure, the state COMPLETED, and the same value in each member that the certificate has too.
// errNoCertificate if the answer has none.
func readErasure(text string) (string, error) {
	if !strings.HasPrefix(text, startOfErasure) {
		return text, nil
	}
	var r answerReader
	_, data, err := r.answer([]byte(text), answerVersion)
	if err != nil {
		return "", err
	}
	r.exactly("/data", data, "erasure")
	at := "/data/erasure"
	record := r.members(at, data["erasure"])
	r.exactly(at, record, recordOfErasure...)
	if r.fault == nil && record["certificate"].Kind() == 'n' {
		return "", errNoCertificate
	}
	if state := r.name(at+"/state", record["state"]); state != "COMPLETED" {
		r.fail(at+"/state", "want COMPLETED, as there is a certificate")
	}
	certificate := r.name(at+"/certificate", record["certificate"])
	_, signed, _ := strings.Cut(certificate, "\n")
	signed, _, _ = strings.Cut(signed, "\n")
	said := r.members(at+"/certificate", jsontext.Value(signed))
	for of, v := range said {
		if of == "erasureId" {
			of = "id"
		}
		if beside, there := record[of]; there && string(r.canonical(at+"/"+of, beside)) != string(v) {
			r.fail(at+"/"+of, "the certificate says otherwise")
		}
	}
	return certificate, r.fault
}

// verify judges a certificate, once all files that may hold its tombstone are judged.
func (e *erasureFile) verify(v *verification) {
	if v.trust.newer == nil {
		e.noDirectory(v.trust)
		return
	}
	key, code := e.signedBy(v.trust.newer)
	if code != "" {
		e.say(code, "the certificate of erasure %s, completed %s, is not signed by a key for packs that held then", e.said.ErasureID, canonical.FormatTime(e.said.CompletedAt))
		return
	}
	beside := ""
	if e.answered {
		beside = "; not signed is what the response has besides, such as who requested it"
	}
	e.say(SignatureOK, "person %s of %s was erased up to %s, signed by key %s at %s%s", e.said.SubjectHash, e.said.TenantID, canonical.FormatTime(e.said.Until), key.KeyID, canonical.FormatTime(e.said.CompletedAt), beside)
	if keydir.PurposeOf(key.Purpose).Sandbox {
		e.noteSandbox(key.KeyID)
	}
	e.about = fmt.Sprintf("The service signed on %s that it has erased a person's data up to %s.", moment(e.said.CompletedAt), moment(e.said.Until))
	e.tombstone(v)
}

// signedBy is the key that has signed the certificate, or a code that says why none counts.
func (e *erasureFile) signedBy(d *keydir.Directory) (*keydir.Key, sealer.Code) {
	keys, err := signers(d, e.text, "muniment/erasure")
	switch {
	case err != nil:
		return nil, FormatInvalid
	case len(keys) == 0:
		return nil, sealer.KeyUnknown
	case !keydir.PurposeOf(keys[0].Purpose).Packs:
		return nil, sealer.KeyPurpose
	}
	key := keys[0]
	pub, err := key.Public()
	if err == nil {
		err = sealer.OpenErasure(e.text, pub)
	}
	if err != nil {
		return nil, checkpointFault(err)
	}
	_, code := d.Find(key.KeyID, key.Purpose, e.said.CompletedAt)
	return key, KeyFault(d, key.KeyID, e.said.CompletedAt, code)
}

// tombstone looks for the event of the erasure in the other files.
func (e *erasureFile) tombstone(v *verification) {
	for i := range v.files {
		f := &v.files[i]
		if f.conduct == nil || f.conduct.tenantID != e.said.TenantID {
			continue
		}
		for _, t := range f.conduct.tombstones {
			switch {
			case t.eventID != e.said.EventID, worst(f.Verdicts) == VerdictUnjudged:
			case !f.ok():
				e.say(InclusionMismatch, "leaf %d of %s, in %s, which is not sound itself", t.leaf, checkpoint.Origin(e.said.TenantID), f.File)
				return
			case t.SubjectHash != e.said.SubjectHash || t.Until != canonical.FormatTime(e.said.Until):
				e.say(sealer.EntryAltered, "leaf %d of %s, in %s, says something else", t.leaf, checkpoint.Origin(e.said.TenantID), f.File)
				return
			default:
				e.say(InclusionOK, "its tombstone is leaf %d of %s, as %s holds it", t.leaf, checkpoint.Origin(e.said.TenantID), f.File)
				return
			}
		}
	}
	e.say(ErasureUnproven, "event %s, the tombstone, is in none of the given files", e.said.EventID)
}
