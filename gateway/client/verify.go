package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/verify"
)

// Trust is what verification rests on: the keys that a service signs with. It is immutable.
type Trust struct{ directory *keydir.Directory }

// NewTrust reads a key directory, as KeyDirectory returns it, which has to be signed under the root
// key, a C2SP vkey that was got on another way than the directory. An empty root takes the directory
// on trust, wherever it is from: a weaker ground.
func NewTrust(root string, directory []byte) (*Trust, error) {
	text := bytes.TrimRight(directory, "\r\n")
	var d *keydir.Directory
	var err error
	if root == "" {
		d, err = keydir.Read(text)
	} else {
		d, err = keydir.Verify(text, strings.TrimSpace(root))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot trust the key directory: %w", err)
	}
	return &Trust{d}, nil
}

// KeyDirectory returns every key that the service ever signed with. Fetch it again at times: it
// says which keys were revoked.
func (c *Client) KeyDirectory(ctx context.Context) ([]byte, error) {
	const path = "/.well-known/muniment/keys.json"
	file, err := c.stream(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAnswer))
	if err != nil {
		return nil, unanswered("GET "+path, err)
	}
	return text, nil
}

// VerifyError says why something is not genuine, or can't be judged. Its Code is one of muniment verify's.
type VerifyError struct {
	Code    sealer.Code
	Message string
}

// Verdict is verify.VerdictUnsound if what was given is forged or altered, as with a wrong signature of a known key;
// and verify.VerdictUnjudged if something is missing, as with a key that the directory does not list: a
// newer directory may, or the evidence is another service's.
func (e *VerifyError) Verdict() string { return verify.VerdictOf(e.Code) }

func (e *VerifyError) Error() string { return string(e.Code) + ": " + e.Message }

// VerifiedReceipt is a receipt whose signature is genuine.
type VerifiedReceipt struct {
	Receipt sealer.Receipt
	KeyID   string
	// Sandbox: it is of a tenant of the sandbox, and proves itself only.
	Sandbox bool
	// Delivery is the event around the receipt, if it was given beside it: tenant, right, substrate
	// and metering, all bound by the signature. Without it nothing but the receipt is proven.
	Delivery *sealer.RecordedDelivery
}

// VerifyReceipt verifies a receipt without the service. answer is JSON with the members receipt and
// signature, and event if there is one: the data of an answer that has them, or the whole answer. What
// stands beside these is compared with the event, and ignored where that is missing.
//
// A receipt of a key that was revoked can't be judged, as the thief of a key can write any time: with a
// pack or a proof from before the revocation muniment verify accepts it. The error is a *VerifyError.
func VerifyReceipt(answer []byte, trust *Trust) (*VerifiedReceipt, error) {
	refuse := func(code sealer.Code, format string, args ...any) (*VerifiedReceipt, error) {
		return nil, &VerifyError{code, fmt.Sprintf(format, args...)}
	}
	if !verify.IsReceipt(answer) {
		return refuse(verify.FormatUnknown, "it has no receipt with its signature")
	}
	given, err := readSigned(answer)
	if err != nil {
		return refuse(verify.FormatInvalid, "%v", err)
	}
	text, err := canonical.JSON(jsontext.Value(given.Receipt))
	if err != nil {
		return refuse(verify.FormatInvalid, "receipt: %v", err)
	}
	r := &VerifiedReceipt{KeyID: given.Signature.KeyID}
	if r.Receipt, err = sealer.ParseReceipt(text); err == nil {
		err = sealer.CheckReceipt(&r.Receipt)
	}
	if err != nil {
		return refuse(verify.FormatInvalid, "%v", err)
	}
	signature, err := canonical.DecodeBase64(given.Signature.Value, ed25519.SignatureSize)
	if err != nil || given.Signature.Algorithm != sealer.Algorithm {
		return refuse(verify.FormatInvalid, "signature: want %d bytes of %s in base64url", ed25519.SignatureSize, sealer.Algorithm)
	}
	r.Sandbox = trust.directory.OfSandbox(r.KeyID)
	pub, code := trust.directory.Find(r.KeyID, keydir.ReceiptPurpose(r.Sandbox), r.Receipt.IssuedAt)
	if code = verify.KeyFault(trust.directory, r.KeyID, r.Receipt.IssuedAt, code); code != "" {
		return refuse(code, "key %s at %s", r.KeyID, canonical.FormatTime(r.Receipt.IssuedAt))
	}
	if !ed25519.Verify(pub, text, signature) {
		return refuse(sealer.SignatureInvalid, "receipt %s by key %s", r.Receipt.ReceiptID, r.KeyID)
	}
	if given.Event == nil {
		return r, nil
	}
	event, err := canonical.JSON(jsontext.Value(given.Event))
	if err != nil {
		return refuse(verify.FormatInvalid, "event: %v", err)
	}
	d, err := sealer.ReadDelivery(event)
	switch {
	case errors.Is(err, sealer.ErrWitness):
		return refuse(sealer.WitnessMismatch, "%v", err)
	case err != nil:
		return refuse(sealer.EntryAltered, "%v", err)
	case !bytes.Equal(d.ReceiptText, text) || d.KeyID != r.KeyID || !bytes.Equal(d.Signature, signature):
		return refuse(sealer.EntryAltered, "the event is of another receipt")
	case given.Substrate != "" && given.Substrate != d.Substrate:
		return refuse(sealer.EntryAltered, "the event states another substrate")
	case given.Metering != nil && (given.Metering.Metered != d.Metered || given.Metering.QuantityMs != d.QuantityMs):
		return refuse(sealer.EntryAltered, "the event states another metering")
	}
	r.Delivery = &d
	return r, nil
}

// signed is what an answer holds of a receipt.
type signed struct {
	Receipt   json.RawMessage       `json:"receipt"`
	Signature api.Signature         `json:"signature"`
	Event     json.RawMessage       `json:"event"`
	Substrate string                `json:"substrate"`
	Metering  *api.MeteringDecision `json:"metering"`
}

func readSigned(answer []byte) (*signed, error) {
	if !jsontext.Value(answer).IsValid() { // which finds names that are there twice
		return nil, errors.New("it is not one JSON value")
	}
	var envelope struct {
		OK   *bool           `json:"ok"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return nil, errors.New("it is no object")
	}
	if envelope.OK != nil && *envelope.OK && envelope.Data != nil {
		answer = envelope.Data
	}
	s := new(signed)
	if err := json.Unmarshal(answer, s); err != nil {
		return nil, err
	}
	if s.Receipt == nil || s.Signature.Value == "" {
		return nil, errors.New("it has no receipt with its signature")
	}
	return s, nil
}

// ReceiptFile is a receipt with its signature as VerifyReceipt and muniment verify take them: what a
// caller of Deliver or DeliverBatch keeps.
func ReceiptFile(r *api.Receipt, s *api.Signature) []byte {
	text := sealer.AppendReceipt([]byte(`{"receipt":`), &sealer.Receipt{
		ReceiptID: r.ReceiptID, CorrelationID: r.CorrelationID, SpatialAnchorID: r.SpatialAnchorID, SpatialPlacementID: r.SpatialPlacementID,
		IssuedAt: r.IssuedAt, RenderedAt: r.RenderedAt, DwellMs: r.DwellMs, Nonce: r.Nonce, Witness: r.Witness,
	})
	text = canonical.AppendString(append(text, `,"signature":{"algorithm":`...), s.Algorithm)
	text = canonical.AppendString(append(text, `,"keyId":`...), s.KeyID)
	text = canonical.AppendString(append(text, `,"value":`...), s.Value)
	return append(text, "}}"...)
}

// WebhookTolerance is how far a webhook's timestamp may be from now.
const WebhookTolerance = 5 * time.Minute

// WebhookKeys are what the requests of a webhook are verified by: Secrets, Trust, or both.
type WebhookKeys struct {
	// Secrets of the webhook, as whsec_…: the current one and, for a day after a rotation, the one
	// before. For signatures of the kind v1.
	Secrets []string
	// Trust has the service's key, for signatures of the kind v1a. That key signs for all webhooks of
	// all tenants: give WebhookID, or compare that of the message.
	Trust *Trust
	// WebhookID refuses the messages of all other webhooks. Empty leaves that to the caller.
	WebhookID string
}

// WebhookMessage is a request to a webhook that is genuine.
type WebhookMessage struct {
	// ID of the delivery, the same in each attempt: by it a receiver knows what it has had before.
	ID string `json:"-"`
	// Type of the event.
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	TenantID  string    `json:"tenantId"`
	WebhookID string    `json:"webhookId"`
	// Events are the texts of the events, as they are in the log.
	Events []json.RawMessage `json:"-"`
}

// ErrWebhook: a request to a webhook is not genuine, or too old.
var ErrWebhook = errors.New("the request is not the service's")

// VerifyWebhook verifies a request to a webhook by the Standard Webhooks specification. body is the
// request's as it came in, header its header, now the receiver's time. An attacker can send a
// request again within WebhookTolerance: receivers that mind remember the ID.
func VerifyWebhook(keys WebhookKeys, header http.Header, body []byte, now time.Time) (*WebhookMessage, error) {
	id, stamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || err != nil {
		return nil, fmt.Errorf("%w: it has no webhook-id or webhook-timestamp", ErrWebhook)
	}
	sent := time.Unix(seconds, 0)
	if d := now.Sub(sent); d > WebhookTolerance || d < -WebhookTolerance {
		return nil, fmt.Errorf("%w: its timestamp is %s from now", ErrWebhook, d.Round(time.Second))
	}
	ok, err := keys.signed(append([]byte(id+"."+stamp+"."), body...), header.Get("webhook-signature"), sent)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: no signature of it is by a known key", ErrWebhook)
	}
	m := &WebhookMessage{ID: id}
	var content struct {
		Data struct {
			Event  json.RawMessage   `json:"event"`
			Events []json.RawMessage `json:"events"`
		} `json:"data"`
	}
	if err := errors.Join(json.Unmarshal(body, m), json.Unmarshal(body, &content)); err != nil {
		return nil, fmt.Errorf("%w: its body can't be read: %w", ErrWebhook, err)
	}
	if keys.WebhookID != "" && m.WebhookID != keys.WebhookID {
		return nil, fmt.Errorf("%w: it is for the webhook %q", ErrWebhook, m.WebhookID)
	}
	if m.Events = content.Data.Events; content.Data.Event != nil {
		m.Events = append(m.Events, content.Data.Event)
	}
	return m, nil
}

// signed says whether one of the signatures is by one of the keys. How long it takes does not
// depend on how much of a signature is right.
func (k *WebhookKeys) signed(message []byte, signatures string, sent time.Time) (ok bool, err error) {
	if len(k.Secrets) == 0 && k.Trust == nil {
		return false, errors.New("cannot verify a webhook: neither Secrets nor Trust is given")
	}
	var sums [][]byte
	for _, secret := range k.Secrets {
		text, prefixed := strings.CutPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(text)
		if !prefixed || err != nil || len(key) == 0 {
			return false, errors.New("cannot verify a webhook: a secret is not of the form whsec_BASE64")
		}
		mac := hmac.New(sha256.New, key)
		mac.Write(message) // never fails
		sums = append(sums, mac.Sum(nil))
	}
	for _, signature := range strings.Fields(signatures) {
		kind, text, _ := strings.Cut(signature, ",")
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			continue
		}
		switch kind {
		case "v1":
			for _, sum := range sums {
				ok = hmac.Equal(sum, value) || ok
			}
		case "v1a":
			ok = k.Trust != nil && k.Trust.signedWebhook(message, value, sent) || ok
		}
	}
	return ok, nil
}

func (t *Trust) signedWebhook(message, signature []byte, sent time.Time) bool {
	for i := range t.directory.Keys {
		key := &t.directory.Keys[i]
		pub, code := t.directory.Find(key.KeyID, keydir.PurposeWebhook, sent)
		if code == "" && ed25519.Verify(pub, message, signature) {
			return true
		}
	}
	return false
}
