package sandbox

import (
	"context"
	"time"

	"muniment.example/control/store"
	"muniment.example/sealer/keydir"
)

// Keys lists the keys that sign for the sandbox, control's current one first, and the time as of
// which the list is correct. control/signing implements it.
type Keys interface {
	SandboxKeys(ctx context.Context) (keys []keydir.Key, issuedAt time.Time, err error)
}

// VerificationKey is a key in the contract's form.
type VerificationKey struct {
	KeyID     string        `json:"keyId"`
	Algorithm string        `json:"algorithm" enum:"ed25519"`
	PublicKey string        `json:"publicKey" doc:"32 bytes, base64url."`
	NotBefore store.Instant `json:"notBefore" doc:"The beginning of the window in which it signs."`
	NotAfter  store.Instant `json:"notAfter" nullable:"true" doc:"The end of the window, exclusive; null if it is open."`
	RevokedAt store.Instant `json:"revokedAt" nullable:"true" doc:"When it was revoked; null if it was not."`
	Purpose   string        `json:"purpose" enum:"sandbox_proof_signing" doc:"What it signs."`
}

func verificationKey(k keydir.Key) VerificationKey {
	at := func(t *time.Time) store.Instant {
		if t == nil {
			return store.Instant{}
		}
		return store.At(*t)
	}
	return VerificationKey{k.KeyID, k.Algorithm, k.PublicKey, store.At(k.NotBefore), at(k.NotAfter), at(k.RevokedAt), k.Purpose}
}

// Directory is the list of verification keys.
type Directory struct {
	Keys       []VerificationKey `json:"keys" doc:"Every key that ever signed for the sandbox, the one for new packs first."`
	IssuedAt   store.Instant     `json:"issuedAt" doc:"The time as of which the list is correct."`
	SnapshotID string            `json:"snapshotId" doc:"The id of the first key."`
}

// RuntimeKeys is the response with the verification keys, which has a contract version of its own.
type RuntimeKeys struct {
	Body[Directory]
	ContractVersion string `json:"contractVersion" enum:"ws30.v1" doc:"The version of this list."`
}

type keysAnswer struct{ Body RuntimeKeys }

const keysVersion = "ws30.v1"

func (s *Service) getKeys(ctx context.Context, _ *struct{}) (*keysAnswer, error) {
	keys, at, err := s.cfg.Keys.SandboxKeys(ctx)
	if err != nil {
		return nil, err
	}
	d := Directory{Keys: []VerificationKey{}, IssuedAt: store.At(at)}
	for _, k := range keys {
		d.Keys = append(d.Keys, verificationKey(k))
	}
	if len(d.Keys) > 0 {
		d.SnapshotID = d.Keys[0].KeyID
	}
	return &keysAnswer{RuntimeKeys{Body[Directory]{true, d}, keysVersion}}, nil
}
