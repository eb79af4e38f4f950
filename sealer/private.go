package sealer

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"muniment.example/sealer/canonical"
)

// Private is the part of a record that erasure deletes. The event holds only its commitment,
// which reveals nothing without the salt. So every proof stays valid after an erasure, and
// reveals nothing about the erased person.
type Private struct {
	// Salt is 128 random bits, fresh for every record.
	Salt [16]byte
	// DataSubjects are the persons that the record is about.
	DataSubjects []DataSubject
	// Notes are free text of an audit event, which may name a person, sorted by name.
	Notes []Note
	// Telemetry is the consent-projected telemetry, an RFC 8785 object; nil for none.
	Telemetry []byte
	// AttentionMs is derived from eye tracking; −1 for none.
	AttentionMs int64
	// RequestHash is a salted hash of the request's body; empty for none.
	RequestHash string
}

// DataSubject is a person in a private part. One person can be erased from it, and the commitment
// stays valid for the rest: it covers a hash in place of each person.
type DataSubject struct {
	// Reference is the caller's; empty if the person was erased.
	Reference string
	// Salt is 128 random bits for this person.
	Salt [16]byte
	// Hash is all that is left of a person who was erased: Commit(Salt, Reference).
	Hash string
}

// Note is free text in a private part. One note can be erased from it, and the commitment stays valid for
// the rest: it covers a hash in place of each note.
type Note struct {
	Name string
	// Text is a string, or an object with texts, in RFC 8785 form; empty if the note was erased.
	Text string
	// Salt is 128 random bits for this note.
	Salt [16]byte
	// Hash is all that is left of a note that was erased: Commit(Salt, Text).
	Hash string
}

// NotesOf returns a note for each member of a value that is an object in JSON, not salted yet. Each member
// must be a string or an object.
func NotesOf(value any) (notes []Note, err error) {
	text, err := canonical.JSON(value)
	if err != nil {
		return nil, err
	}
	s := NewScanner(string(text))
	s.Lit(`{`)
	for s.Fault == nil && !s.Has(`}`) {
		if len(notes) > 0 {
			s.Lit(`,`)
		}
		n := Note{Name: s.Name()}
		s.Lit(`:`)
		n.Text = s.note()
		notes = append(notes, n)
	}
	if err := s.End(); err != nil {
		return nil, fmt.Errorf("cannot make notes: %w", err)
	}
	return notes, nil
}

// note consumes the text of a note, of which only the extent is checked.
func (s *Scanner) note() string {
	start := s.At
	if strings.HasPrefix(s.Text[s.At:], `"`) {
		s.Str()
	} else {
		s.Object()
	}
	return s.Text[start:s.At]
}

// About returns persons who are not salted yet; references that are empty name nobody.
func About(references ...string) (list []DataSubject) {
	for _, r := range references {
		if r != "" {
			list = append(list, DataSubject{Reference: r})
		}
	}
	return list
}

// DrawSalts draws all salts.
func (p *Private) DrawSalts(random io.Reader) error {
	_, err := io.ReadFull(random, p.Salt[:])
	for i := range p.DataSubjects {
		if err == nil {
			_, err = io.ReadFull(random, p.DataSubjects[i].Salt[:])
		}
	}
	for i := range p.Notes {
		if err == nil {
			_, err = io.ReadFull(random, p.Notes[i].Salt[:])
		}
	}
	return err
}

// AppendPrivate appends the canonical text of p. Empty members are omitted; the
// salt is always there:
//
//	{"attentionMs":…,"dataSubjects":[{"dataSubject":…,"salt":…},HASH,…],"notes":{NAME:{"salt":…,"text":…},NAME:HASH,…},
//	 "requestHash":…,"salt":…,"telemetry":{…}}
func AppendPrivate(dst []byte, p *Private) []byte { return p.append(dst, false) }

// AppendCommitted appends what the commitment covers: the canonical text with the hash of each person and
// each note.
func AppendCommitted(dst []byte, p *Private) []byte { return p.append(dst, true) }

func (p *Private) append(dst []byte, hashed bool) []byte {
	dst = append(dst, '{')
	if p.AttentionMs >= 0 {
		dst = append(dst, `"attentionMs":`...)
		dst = canonical.AppendNumber(dst, float64(p.AttentionMs))
		dst = append(dst, ',')
	}
	if len(p.DataSubjects) > 0 {
		dst = append(dst, `"dataSubjects":[`...)
		for i := range p.DataSubjects {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = p.DataSubjects[i].append(dst, hashed)
		}
		dst = append(dst, `],`...)
	}
	if len(p.Notes) > 0 {
		dst = append(dst, `"notes":{`...)
		for i := range p.Notes {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = p.Notes[i].append(dst, hashed)
		}
		dst = append(dst, `},`...)
	}
	if p.RequestHash != "" {
		dst = append(dst, `"requestHash":`...)
		dst = canonical.AppendString(dst, p.RequestHash)
		dst = append(dst, ',')
	}
	dst = append(dst, `"salt":"`...)
	dst = canonical.Base64.AppendEncode(dst, p.Salt[:])
	dst = append(dst, '"')
	if p.Telemetry != nil {
		dst = append(dst, `,"telemetry":`...)
		dst = append(dst, p.Telemetry...)
	}
	return append(dst, '}')
}

func (s *DataSubject) append(dst []byte, hashed bool) []byte {
	switch {
	case s.Reference == "":
		return append(append(append(dst, '"'), s.Hash...), '"')
	case hashed:
		dst = append(dst, '"')
		from := len(dst)
		dst = append(append(dst, s.Salt[:]...), s.Reference...)
		sum := sha256.Sum256(dst[from:])
		return append(canonical.Base64.AppendEncode(dst[:from], sum[:]), '"')
	}
	dst = canonical.AppendString(append(dst, `{"dataSubject":`...), s.Reference)
	dst = canonical.Base64.AppendEncode(append(dst, `,"salt":"`...), s.Salt[:])
	return append(dst, `"}`...)
}

func (n *Note) append(dst []byte, hashed bool) []byte {
	dst = append(canonical.AppendString(dst, n.Name), ':')
	switch {
	case n.Text == "":
		return append(append(append(dst, '"'), n.Hash...), '"')
	case hashed:
		return append(append(append(dst, '"'), n.hash()...), '"')
	}
	dst = canonical.Base64.AppendEncode(append(dst, `{"salt":"`...), n.Salt[:])
	return append(append(append(dst, `","text":`...), n.Text...), '}')
}

// hash is what stands for a note, erased or not.
func (n *Note) hash() string {
	if n.Text == "" {
		return n.Hash
	}
	return Commit(n.Salt, []byte(n.Text))
}

// ParsePrivate reads exactly what AppendPrivate writes. Telemetry aliases b.
func ParsePrivate(b []byte) (Private, error) {
	s := NewScanner(string(b))
	p := readPrivateHead(&s)
	notesAt, notesEnd := 0, 0
	if s.Has(`"notes":`) {
		notesAt = s.At
		p.Notes = readNotes(&s)
		notesEnd = s.At
		s.Lit(`,`)
	}
	if s.Has(`"requestHash":`) {
		p.RequestHash = s.Name()
		s.Lit(`,`)
	}
	s.Lit(`"salt":`)
	p.Salt = [16]byte(s.Bytes(len(p.Salt)))
	if s.Has(`,"telemetry":`) {
		telemetryAt := s.At
		s.Object()
		p.Telemetry = b[telemetryAt:s.At:s.At]
	}
	s.Lit(`}`)
	err := s.End()
	if err == nil && p.Telemetry != nil && !canonical.IsJSON(p.Telemetry) {
		err = fmt.Errorf("telemetry: %w", canonical.ErrNotCanonical)
	}
	if err == nil && p.Notes != nil && !canonical.IsJSON(b[notesAt:notesEnd]) {
		err = fmt.Errorf("notes: %w", canonical.ErrNotCanonical)
	}
	if err != nil {
		return Private{}, fmt.Errorf("cannot read private part: %w", err)
	}
	return p, nil
}

// readPrivateHead reads what comes before the notes.
func readPrivateHead(s *Scanner) Private {
	p := Private{AttentionMs: -1}
	s.Lit(`{`)
	if s.Has(`"attentionMs":`) {
		p.AttentionMs = s.Integer()
		s.Lit(`,`)
	}
	if s.Has(`"dataSubjects":[`) {
		for more := true; more && s.Fault == nil; more = s.Has(`,`) {
			p.DataSubjects = append(p.DataSubjects, readDataSubject(s))
		}
		s.Lit(`],`)
	}
	return p
}

func readDataSubject(s *Scanner) (d DataSubject) {
	if !s.Has(`{"dataSubject":`) {
		sum := s.Bytes(sha256.Size)
		d.Hash = canonical.Base64.EncodeToString(sum)
		return d
	}
	d.Reference = s.Name()
	s.Lit(`,"salt":`)
	d.Salt = [16]byte(s.Bytes(len(d.Salt)))
	s.Lit(`}`)
	return d
}

func readNotes(s *Scanner) (notes []Note) {
	s.Lit(`{`)
	for more := true; more && s.Fault == nil; more = s.Has(`,`) {
		n := Note{Name: s.Name()}
		s.Lit(`:`)
		if s.Has(`{"salt":`) {
			n.Salt = [16]byte(s.Bytes(len(n.Salt)))
			s.Lit(`,"text":`)
			n.Text = s.note()
			s.Lit(`}`)
		} else {
			n.Hash = canonical.Base64.EncodeToString(s.Bytes(sha256.Size))
		}
		notes = append(notes, n)
	}
	s.Lit(`}`)
	return notes
}

// DataSubjects lists the references to persons in a private part that ParsePrivate accepts, but for
// those who were erased. It parses no further than that member.
func DataSubjects(private []byte) (references []string) {
	if !bytes.Contains(private, []byte(`"dataSubject":`)) {
		return nil
	}
	s := NewScanner(string(private))
	for _, d := range readPrivateHead(&s).DataSubjects {
		if d.Reference != "" {
			references = append(references, d.Reference)
		}
	}
	return references
}

// LeaveOut puts hashes in the places of persons in a private part that ParsePrivate accepts: of those
// for whom out returns true. It returns the private part itself if there is none of them.
func LeaveOut(private []byte, out func(reference string) bool) ([]byte, error) {
	if !slices.ContainsFunc(DataSubjects(private), out) {
		return private, nil
	}
	p, err := ParsePrivate(private)
	if err != nil {
		return nil, err
	}
	for i := range p.DataSubjects {
		if d := &p.DataSubjects[i]; d.Reference != "" && out(d.Reference) {
			*d = DataSubject{Hash: Commit(d.Salt, []byte(d.Reference))}
		}
	}
	return AppendPrivate(nil, &p), nil
}

// Forget is LeaveOut for persons who are erased. Notes with a text that names one of them go, too. It returns
// nothing if all of it was about them: no other person is left, or the telemetry has a text that names one
// of them.
func Forget(private []byte, erased func(reference string) bool) ([]byte, error) {
	references := slices.DeleteFunc(DataSubjects(private), func(reference string) bool { return !erased(reference) })
	left, err := LeaveOut(private, erased)
	if err != nil || len(references) == 0 {
		return left, err
	}
	if len(DataSubjects(left)) == 0 {
		return nil, nil
	}
	p, err := ParsePrivate(left)
	if err != nil {
		return nil, err
	}
	for _, reference := range references {
		person := NewPerson(reference)
		if person.inTexts(p.Telemetry) {
			return nil, nil
		}
		p.hideNotes(person.In)
	}
	return AppendPrivate(nil, &p), nil
}

// ForgetNotes puts hashes in the places of notes in a private part that ParsePrivate accepts: of those with a
// text for which erased returns true. It returns the private part itself if there is none of them, and
// nothing if no other note and no person is left.
func ForgetNotes(private []byte, erased func(text string) bool) ([]byte, error) {
	if !bytes.Contains(private, []byte(`"notes":{`)) {
		return private, nil
	}
	p, err := ParsePrivate(private)
	if err != nil || !p.hideNotes(erased) {
		return private, err
	}
	of := func(n Note) bool { return n.Text != "" }
	if !slices.ContainsFunc(p.Notes, of) && len(DataSubjects(private)) == 0 {
		return nil, nil
	}
	return AppendPrivate(nil, &p), nil
}

// NotesAbout puts hashes in the places of those notes in a private part that ParsePrivate accepts that don't
// name a person. It returns nothing if none does.
func NotesAbout(private []byte, person Person) ([]byte, error) {
	p, err := ParsePrivate(private)
	if err != nil {
		return nil, err
	}
	named := func(n Note) bool { return n.Text != "" && anyText([]byte(n.Text), person.In) }
	if !slices.ContainsFunc(p.Notes, named) {
		return nil, nil
	}
	for i := range p.Notes {
		if n := &p.Notes[i]; !named(*n) {
			*n = Note{Name: n.Name, Hash: n.hash()}
		}
	}
	return AppendPrivate(nil, &p), nil
}

// hideNotes puts hashes in the places of the notes with a text for which is returns true.
func (p *Private) hideNotes(is func(text string) bool) (some bool) {
	for i := range p.Notes {
		if n := &p.Notes[i]; n.Text != "" && anyText([]byte(n.Text), is) {
			*n, some = Note{Name: n.Name, Hash: n.hash()}, true
		}
	}
	return some
}

// NoteHashes lists the hashes of the notes in a private part that ParsePrivate accepts, but for those that
// were erased.
func NoteHashes(private []byte) (hashes []string) {
	if !bytes.Contains(private, []byte(`"notes":{`)) {
		return nil
	}
	p, _ := ParsePrivate(private)
	for i := range p.Notes {
		if p.Notes[i].Text != "" {
			hashes = append(hashes, p.Notes[i].hash())
		}
	}
	return hashes
}

// NamedInTelemetry reports whether the telemetry in a private part that ParsePrivate accepts has a text
// that names a person, whom the private part is not about: Forget would leave it.
func NamedInTelemetry(private []byte, person Person) bool {
	if !bytes.Contains(private, []byte(`,"telemetry":`)) || slices.ContainsFunc(DataSubjects(private), person.Is) {
		return false
	}
	p, err := ParsePrivate(private)
	return err == nil && person.inTexts(p.Telemetry)
}

// inTexts reports whether a text in a JSON object contains the reference, at any depth.
func (p Person) inTexts(object []byte) bool { return anyText(object, p.In) }

// anyText reports whether is returns true for a text in a JSON value, at any depth.
func anyText(text []byte, is func(text string) bool) bool {
	var value any
	_ = json.Unmarshal(text, &value) // what ParsePrivate accepts is JSON
	var in func(value any) bool
	in = func(value any) bool {
		switch v := value.(type) {
		case string:
			return is(v)
		case []any:
			return slices.ContainsFunc(v, in)
		case map[string]any:
			for _, member := range v {
				if in(member) {
					return true
				}
			}
		}
		return false
	}
	return in(value)
}

// AppendRequestSalt appends what salts the hash of a request: all salts, so that it confirms no guess
// at a person who was erased.
func (p *Private) AppendRequestSalt(dst []byte) []byte {
	dst = append(dst, p.Salt[:]...)
	for i := range p.DataSubjects {
		dst = append(dst, p.DataSubjects[i].Salt[:]...)
	}
	return dst
}

// Commitment returns what an event holds of p.
func (p *Private) Commitment() string { return Commit(p.Salt, AppendCommitted(nil, p)) }

// Commit returns base64url SHA-256(salt ‖ text).
func Commit(salt [16]byte, text []byte) string {
	return string(AppendCommitment(nil, append(salt[:], text...)))
}

// AppendCommitment appends Commit of a salt and the text that follows it in salted.
func AppendCommitment(dst, salted []byte) []byte {
	sum := sha256.Sum256(salted)
	return canonical.Base64.AppendEncode(dst, sum[:])
}

// CheckPrivate checks that private is a private part and that commitment is its Commit.
func CheckPrivate(private []byte, commitment string) error {
	p, err := ParsePrivate(private)
	if err != nil {
		return err
	}
	if p.Commitment() != commitment {
		return fmt.Errorf("private part does not match its commitment %q", commitment)
	}
	return nil
}

// isHash reports whether s is a base64url SHA-256.
func isHash(s string) bool { return canonical.IsBase64(s, sha256.Size) }
