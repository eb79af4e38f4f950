package sealer

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// signedReceipt is a receipt as a caller holds it: the data of a delivery's
// answer, or the whole answer.
type signedReceipt struct {
	receipt   Receipt
	text      []byte // canonical
	keyID     string
	signature []byte
}

// errNoReceipt says that a JSON text holds no receipt.
var errNoReceipt = errors.New("no receipt with its signature")

// readReceipt finds receipt and signature in an HTTP answer or its data. Spacing
// and order are free there; what was signed is the receipt's canonical form.
func readReceipt(text []byte) (*signedReceipt, error) {
	type data struct {
		Receipt   jsontext.Value `json:"receipt"`
		Signature *struct {
			Algorithm string `json:"algorithm"`
			KeyID     string `json:"keyId"`
			Value     string `json:"value"`
		} `json:"signature"`
	}
	var answer struct {
		data
		Data *data `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	d := &answer.data
	if answer.Data != nil {
		d = answer.Data
	}
	if d.Receipt == nil || d.Signature == nil {
		return nil, errNoReceipt
	}
	if d.Signature.Algorithm != Algorithm {
		return nil, fmt.Errorf("signed with algorithm %q", d.Signature.Algorithm)
	}
	canonical, err := Canonical(d.Receipt)
	if err != nil {
		return nil, err
	}
	r := &signedReceipt{text: canonical, keyID: d.Signature.KeyID}
	if r.receipt, err = ParseReceipt(canonical); err != nil {
		return nil, err
	}
	r.signature, err = decodeBase64(d.Signature.Value, ed25519.SignatureSize)
	return r, err
}

// whatInstead says of a JSON text that holds no receipt what is wrong with it.
func whatInstead(text []byte) string {
	type data struct {
		Pack    jsontext.Value `json:"pack"`
		Entries jsontext.Value `json:"entries"`
	}
	var answer struct {
		data
		refusal
		Data data `json:"data"`
	}
	_ = json.Unmarshal(text, &answer) // what can't be read is not told
	switch {
	case answer.refused() != nil:
		return answer.refused().Error()
	case answer.Pack != nil, answer.Entries != nil, answer.Data.Pack != nil, answer.Data.Entries != nil:
		return "a proof pack in another spelling: save what was answered as it is, every byte counts"
	}
	return "no receipt with its signature, and nothing else that can be verified"
}

// refusal is what an HTTP answer without data says.
type refusal struct {
	OK      *bool  `json:"ok"`
	Code    string `json:"error"`
	Message string `json:"message"`
}

func (r *refusal) refused() error {
	if r.OK == nil || *r.OK {
		return nil
	}
	return fmt.Errorf("the answer to a request that was refused: %s: %s", r.Code, r.Message)
}

// sighted is where a file holds a receipt that is asked about.
type sighted struct {
	file  *FileReport
	place string
	// by is when the receipt stood there at the latest.
	by       time.Time
	text     []byte
	keyID    string
	sigValue []byte
}

// verify judges the receipt by the keys of d; in is where files hold it.
func (r *signedReceipt) verify(d *Directory, in []*sighted) []Verdict {
	var verdicts []Verdict
	if err := checkReceipt(&r.receipt); err != nil {
		verdicts = append(verdicts, Verdict{Code: FormatInvalid, Message: err.Error()})
	}
	var sealedAt *time.Time
	if best := r.best(in); best != nil {
		v := r.inclusion(best)
		verdicts = append(verdicts, v)
		if v.OK {
			sealedAt = &best.by
		}
	}
	purpose := PurposeReceipt
	pub, code := d.find(r.keyID, purpose, r.receipt.IssuedAt, sealedAt)
	if code == KeyPurpose {
		purpose = PurposeSandbox
		pub, code = d.find(r.keyID, purpose, r.receipt.IssuedAt, sealedAt)
	}
	about := fmt.Sprintf("receipt %s, signed by key %s at %s", r.receipt.ReceiptID, r.keyID, FormatTime(r.receipt.IssuedAt))
	switch {
	case code != "":
		return append(verdicts, Verdict{Code: code, Message: about})
	case !ed25519.Verify(pub, r.text, r.signature):
		return append(verdicts, Verdict{Code: SignatureInvalid, Message: about})
	}
	verdicts = append(verdicts, Verdict{Code: SignatureOK, OK: true, Message: about})
	if purpose == PurposeSandbox {
		verdicts = append(verdicts, sandboxKey(r.keyID))
	}
	return verdicts
}

// best picks the file that speaks loudest: one that says something else, else the
// sound one that proves the receipt oldest, else any; nil if there is none.
func (r *signedReceipt) best(in []*sighted) *sighted {
	var best *sighted
	for _, s := range in {
		switch {
		case best == nil, !r.says(s):
			best = s
		case !r.says(best):
		case s.file.ok() && (!best.file.ok() || s.by.Before(best.by)):
			best = s
		}
	}
	return best
}

// says reports whether the receipt is what stands there.
func (r *signedReceipt) says(s *sighted) bool {
	return bytes.Equal(s.text, r.text) && s.keyID == r.keyID && bytes.Equal(s.sigValue, r.signature)
}

// inclusion judges the receipt by the file that holds its id.
func (r *signedReceipt) inclusion(in *sighted) Verdict {
	v := Verdict{Code: InclusionOK, OK: true, Message: in.place}
	switch {
	case !in.file.ok():
		v.Code, v.OK = InclusionMismatch, false
		v.Message += ", which is not sound itself"
	case !r.says(in):
		v.Code, v.OK = EntryAltered, false
		v.Message += " says something else"
	}
	return v
}
