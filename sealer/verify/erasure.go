package verify

import (
	"encoding/json"
	"fmt"

	"muniment.example/sealer"
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
	text string
	said sealer.ErasureCertificate
}

func (v *verification) openErasure(f *FileReport, text []byte) {
	e := &erasureFile{FileReport: f, text: oneNewline(string(text))}
	var err error
	if e.said, err = sealer.ParseErasure(e.text); err != nil {
		f.say(FormatInvalid, "%v", err)
		return
	}
	v.erasures = append(v.erasures, e)
}

// verify judges a certificate, once all files that may hold its tombstone are judged.
func (e *erasureFile) verify(v *verification) {
	if v.trust.newer == nil {
		e.noDirectory()
		return
	}
	key, code := e.signedBy(v.trust.newer)
	if code != "" {
		e.say(code, "the certificate of erasure %s, completed %s, is not signed by a key for packs that held then", e.said.ErasureID, sealer.FormatTime(e.said.CompletedAt))
		return
	}
	e.say(SignatureOK, "person %s of %s was erased up to %s, signed by key %s at %s", e.said.SubjectHash, e.said.TenantID, sealer.FormatTime(e.said.Until), key.KeyID, sealer.FormatTime(e.said.CompletedAt))
	if sealer.PurposeOf(key.Purpose).Sandbox {
		e.noteSandbox(key.KeyID)
	}
	e.about = fmt.Sprintf("The service signed on %s that it has erased a person's data up to %s.", moment(e.said.CompletedAt), moment(e.said.Until))
	e.tombstone(v)
}

// signedBy is the key that has signed the certificate, or a code that says why none counts.
func (e *erasureFile) signedBy(d *sealer.Directory) (*sealer.Key, sealer.Code) {
	keys, err := signers(d, e.text, "muniment/erasure")
	switch {
	case err != nil:
		return nil, FormatInvalid
	case len(keys) == 0:
		return nil, sealer.KeyUnknown
	case !sealer.PurposeOf(keys[0].Purpose).Packs:
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
				e.say(InclusionMismatch, "leaf %d of %s, in %s, which is not sound itself", t.leaf, sealer.Origin(e.said.TenantID), f.File)
				return
			case t.SubjectHash != e.said.SubjectHash || t.Until != sealer.FormatTime(e.said.Until):
				e.say(sealer.EntryAltered, "leaf %d of %s, in %s, says something else", t.leaf, sealer.Origin(e.said.TenantID), f.File)
				return
			default:
				e.say(InclusionOK, "its tombstone is leaf %d of %s, as %s holds it", t.leaf, sealer.Origin(e.said.TenantID), f.File)
				return
			}
		}
	}
	e.say(ErasureUnproven, "event %s, the tombstone, is in none of the given files", e.said.EventID)
}
