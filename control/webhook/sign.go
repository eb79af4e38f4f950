package webhook

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// sign returns the header webhook-signature of the Standard Webhooks specification: a v1 signature
// by each secret, and a v1a signature by control's key.
func sign(id string, at time.Time, body []byte, secrets []string, signer *sealer.Signer) (string, error) {
	message := fmt.Appendf(nil, "%s.%s.%s", id, unix(at), body)
	var all []string
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err != nil {
			return "", fmt.Errorf("cannot read the secret of a webhook: %w", err)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write(message) // never fails
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	signature, err := signer.Key.Sign(nil, message, crypto.Hash(0))
	if err != nil {
		return "", fmt.Errorf("cannot sign for a webhook: %w", err)
	}
	return strings.Join(append(all, "v1a,"+base64.StdEncoding.EncodeToString(signature)), " "), nil
}

// verifyingKeys returns the keys that verify v1a signatures, in the form of the Standard Webhooks
// specification, the current one first.
func (c *core) verifyingKeys(ctx context.Context) ([]string, error) {
	keys, err := c.cfg.Keys.WebhookKeys(ctx)
	if err != nil {
		return nil, err
	}
	all := []string{}
	for _, k := range keys {
		text, err := verifyingKey(&k)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

func verifyingKey(k *keydir.Key) (string, error) {
	public, err := k.Public()
	if err != nil {
		return "", fmt.Errorf("cannot read the key %s of webhooks: %w", k.KeyID, err)
	}
	return "whpk_" + base64.StdEncoding.EncodeToString(public), nil
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// appendBody appends the body of a request. Events are verbatim from the log, so that their proofs
// hold.
func (d *Delivery) appendBody(dst []byte, events [][]byte) []byte {
	dst = fmt.Appendf(dst, `{"type":%q,"timestamp":%q,"tenantId":%q,"webhookId":%q,"data":`, d.EventType, d.EventAt, d.tenantID, d.WebhookID)
	if d.EventType != TypeDelivery {
		dst = append(append(dst, `{"event":`...), events[0]...)
		return append(dst, "}}"...)
	}
	dst = append(dst, `{"events":[`...)
	for i, e := range events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, e...)
	}
	return append(dst, "]}}"...)
}
