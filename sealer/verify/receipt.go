package verify

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// signedReceipt is a receipt as a caller holds it: the data of an answer that has one, or
// the whole answer.
type signedReceipt struct {
	receipt   sealer.Receipt
	text      []byte // canonical
	keyID     string
	signature []byte

	// What the signature does not cover; nil if it is missing.
	substrate *string
	metering  *sealer.RecordedMetering
	event     []byte // canonical
	// unsigned names members that nothing can prove.
	unsigned []string
}

// errNoReceipt says that a JSON text lacks a receipt or its signature.
var errNoReceipt = errors.New("no receipt with its signature")

// answerVersion is the contract version of the answers with a receipt or an erasure.
const answerVersion = "v1.0"

// readReceipt finds receipt and signature in an HTTP answer or its data. Spacing
// and order are free there; what was signed is the receipt's canonical form.
func readReceipt(text []byte) (*signedReceipt, error) {
	var in answerReader
	at, data, err := in.answer(text, answerVersion)
	if err != nil {
		return nil, err
	}
	if data["receipt"] == nil && data["signature"] == nil {
		return nil, errNoReceipt
	}
	in.some(at, data, []string{"receipt", "signature"}, "substrate", "metering", "event", "position", "sealed")
	if in.fault != nil {
		return nil, in.fault
	}
	r := &signedReceipt{text: in.canonical(at+"/receipt", data["receipt"])}
	r.keyID, r.signature = in.signature(at+"/signature", data["signature"])
	r.beside(&in, at, data)
	if in.fault != nil {
		return nil, in.fault
	}
	r.receipt, err = sealer.ParseReceipt(r.text)
	return r, err
}

// holdsReceipt reports whether an answer that begins with an event has a receipt: else it is a proof.
func holdsReceipt(text []byte) bool {
	var in answerReader
	_, data, err := in.answer(text, answerVersion)
	return err == nil && (data["receipt"] != nil || data["signature"] != nil)
}

// beside reads the other members of the answer.
func (r *signedReceipt) beside(in *answerReader, at string, data map[string]jsontext.Value) {
	if v, there := data["substrate"]; there {
		substrate := in.name(at+"/substrate", v)
		r.substrate = &substrate
	}
	if v, there := data["metering"]; there {
		m, err := sealer.ParseMetering(in.canonical(at+"/metering", v))
		if err != nil {
			in.fail(at+"/metering", "%v", err)
		}
		r.metering = &m
	}
	if v, there := data["event"]; there {
		in.members(at+"/event", v)
		r.event = in.canonical(at+"/event", v)
	}
	if v, there := data["position"]; there {
		in.name(at+"/position", v)
		r.unsigned = append(r.unsigned, "position")
	}
	if v, there := data["sealed"]; there && v.Kind() != 'n' {
		sealed := in.members(at+"/sealed", v)
		in.exactly(at+"/sealed", sealed, "packId", "leafIndex")
		if _, err := sealer.ParseID(sealer.PackPrefix, in.name(at+"/sealed/packId", sealed["packId"])); err != nil {
			in.fail(at+"/sealed/packId", "%v", err)
		}
		in.integer(at+"/sealed/leafIndex", sealed["leafIndex"])
		r.unsigned = append(r.unsigned, "sealed")
	}
}

// receiptMembers are members of a receipt that others' receipts have no names like.
var receiptMembers = []string{"spatialAnchorId", "spatialPlacementId", "renderedAt", "dwellMs", "witness"}

// IsReceipt reports whether a text is meant to be a receipt of this form: where an answer has it, there is a receipt with one
// of receiptMembers, or beside a signature with a keyId. So is what was cut or altered, and is no JSON, but has what only a receipt
// has. Of several values in a row the first decides.
func IsReceipt(text []byte) bool {
	var first jsontext.Value
	if utf8.Valid(text) {
		first, _ = jsontext.NewDecoder(bytes.NewReader(text)).ReadValue() // an error leaves it empty
	}
	if len(first) == 0 {
		return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && bytes.Contains(text, []byte(`"receipt"`)) && bytes.Contains(text, []byte(`"receiptId"`))
	}
	var answer, data map[string]jsontext.Value
	_ = json.Unmarshal(first, &answer)        // likewise
	_ = json.Unmarshal(answer["data"], &data) // likewise
	return hasReceipt(answer) || hasReceipt(data)
}

func hasReceipt(place map[string]jsontext.Value) bool {
	var receipt, signature map[string]jsontext.Value
	_ = json.Unmarshal(place["receipt"], &receipt) // an error leaves it empty
	_ = json.Unmarshal(place["signature"], &signature)
	_, there := place["receipt"]
	return there && signature["keyId"] != nil || slices.ContainsFunc(receiptMembers, func(name string) bool { return receipt[name] != nil })
}

// giveSigned says where the signed file of a statement is.
const giveSigned = "give its signed file, by that name on its page in the console, or by GET /v1/settlement/statements/{statementId} with ?format=signed"

// whatInstead describes what a file is that is of no kind that can be judged, and what to do; next is empty for
// the usual.
func whatInstead(text []byte) (message, next string) {
	type data struct {
		Pack       jsontext.Value `json:"pack"`
		Entries    jsontext.Value `json:"entries"`
		Delegation jsontext.Value `json:"delegation"`
		Statement  jsontext.Value `json:"statementId"`
	}
	var answer struct {
		data
		refusal
		Data data `json:"data"`
	}
	err := json.Unmarshal(text, &answer)
	whole := cmp.Or(string(answer.Pack), string(answer.Entries), string(answer.Data.Pack), string(answer.Data.Entries), string(answer.Delegation), string(answer.Data.Delegation))
	start := bytes.ToLower(bytes.TrimLeft(text[:min(len(text), 512)], " \t\r\n\ufeff"))
	switch {
	case len(start) == 0:
		return "it is empty", ""
	case bytes.HasPrefix(start, []byte("<")), bytes.HasPrefix(start, []byte("%pdf-")):
		return "a page for people, which nothing signs", "of a statement " + giveSigned + "; of anything else the file that it was made from"
	case err == nil && answer.refused() != nil:
		return answer.refused().Error(), "repeat the request"
	case whole != "":
		return "a proof pack or a key directory in another form", "save the response unchanged: every byte counts"
	case answer.Statement != nil || answer.Data.Statement != nil:
		return "a statement as a program reads it, which nothing signs", giveSigned
	}
	return "no receipt with its signature, and nothing else that can be verified", ""
}

// receiptPlace is where a file holds a receipt of another file.
type receiptPlace struct {
	file  *FileReport
	place string
	// by is the latest moment at which the receipt can have come there.
	by       time.Time
	delivery *sealer.RecordedDelivery
}

// verify judges the receipt by the keys of d; in is where files hold it.
func (r *signedReceipt) verify(d *keydir.Directory, in []*receiptPlace) []Verdict {
	var verdicts []Verdict
	say := func(code sealer.Code, about string) { verdicts = append(verdicts, found(code, about)) }
	if err := sealer.CheckReceipt(&r.receipt); err != nil {
		say(FormatInvalid, err.Error())
	}
	event, code, err := r.eventBeside()
	if err != nil {
		say(code, err.Error())
	}
	var sealedAt *time.Time
	if best := r.best(in); best != nil {
		v := r.inclusion(best)
		verdicts = append(verdicts, v)
		if v.OK {
			sealedAt, event = &best.by, best.delivery
		}
	}
	sandbox := d.OfSandbox(r.keyID)
	purpose := keydir.ReceiptPurpose(sandbox)
	pub, code := d.Find(r.keyID, purpose, r.receipt.IssuedAt)
	if sealedAt != nil {
		pub, code = d.FindSealed(r.keyID, purpose, r.receipt.IssuedAt, *sealedAt)
	}
	code = KeyFault(d, r.keyID, r.receipt.IssuedAt, code)
	about := fmt.Sprintf("receipt %s, signed by key %s at %s", r.receipt.ReceiptID, r.keyID, canonical.FormatTime(r.receipt.IssuedAt))
	switch {
	case code != "":
		say(code, about)
		return verdicts
	case !ed25519.Verify(pub, r.text, r.signature):
		say(sealer.SignatureInvalid, about)
		return verdicts
	}
	say(SignatureOK, about)
	if sandbox {
		verdicts = append(verdicts, sandboxKey(r.keyID))
	}
	failed := slices.ContainsFunc(verdicts, func(v Verdict) bool { return !v.OK })
	if names := r.uncovered(event != nil); len(names) > 0 && !failed {
		message := fmt.Sprintf("the signature does not cover what the file says of %s", strings.Join(names, " and "))
		if event == nil {
			message += ": give the pack, a proof or an export with the receipt as well to have metering and substrate checked"
		}
		say(ReceiptUncovered, message)
	}
	return verdicts
}

// eventBeside checks the event that an answer has beside the receipt; nil if there is none.
// The receipt's witness binds it, so that what it says is covered by the signature.
func (r *signedReceipt) eventBeside() (*sealer.RecordedDelivery, sealer.Code, error) {
	if r.event == nil {
		return nil, "", nil
	}
	d, err := sealer.ReadDelivery(r.event)
	switch {
	case errors.Is(err, sealer.ErrWitness):
		return nil, sealer.WitnessMismatch, err
	case err != nil:
		return nil, sealer.EntryAltered, err
	case !r.stands(&d):
		return nil, sealer.EntryAltered, errors.New("the event beside it is of another receipt")
	}
	if name := r.contradicts(&d); name != "" {
		return nil, sealer.EntryAltered, fmt.Errorf("the event beside it states another %s", name)
	}
	return &d, "", nil
}

// contradicts names the member in which the file and the event differ; empty if none does.
func (r *signedReceipt) contradicts(d *sealer.RecordedDelivery) string {
	switch {
	case r.metering != nil && !r.metering.Equal(&d.RecordedMetering):
		return "metering"
	case r.substrate != nil && *r.substrate != d.Substrate:
		return "substrate"
	}
	return ""
}

// uncovered names the members that neither the signature nor an event covers.
func (r *signedReceipt) uncovered(event bool) (names []string) {
	if r.metering != nil && !event {
		names = append(names, "metering")
	}
	if r.substrate != nil && !event {
		names = append(names, "substrate")
	}
	return append(names, r.unsigned...)
}

// best picks the file to judge the receipt by: one that contradicts it, else the sound one that
// proves it oldest, else any; nil if there is none.
func (r *signedReceipt) best(in []*receiptPlace) *receiptPlace {
	var best *receiptPlace
	for _, s := range in {
		switch {
		case worst(s.file.Verdicts) == VerdictUnjudged: // nobody knows whose word that is
		case best == nil, !r.says(s):
			best = s
		case !r.says(best):
		case s.file.ok() && (!best.file.ok() || s.by.Before(best.by)):
			best = s
		}
	}
	return best
}

// says reports whether that file holds this receipt.
func (r *signedReceipt) says(s *receiptPlace) bool { return r.stands(s.delivery) }

// stands reports whether a delivery holds the receipt, under the same signature.
func (r *signedReceipt) stands(d *sealer.RecordedDelivery) bool {
	return bytes.Equal(d.ReceiptText, r.text) && d.KeyID == r.keyID && bytes.Equal(d.Signature, r.signature)
}

// inclusion judges the receipt by the file that holds its id.
func (r *signedReceipt) inclusion(in *receiptPlace) Verdict {
	switch other := r.contradicts(in.delivery); {
	case !in.file.ok():
		return found(InclusionMismatch, in.place+", which is not sound itself")
	case !r.says(in):
		return found(sealer.EntryAltered, in.place+" says something else")
	case other != "":
		return found(sealer.EntryAltered, in.place+" states another "+other)
	}
	return found(InclusionOK, in.place)
}
