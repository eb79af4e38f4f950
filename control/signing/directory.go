package signing

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"muniment.example/control/route"
	"muniment.example/sealer/keydir"
)

// Directory returns the signed key directory, canonical JSON in the form of
// keydir.Sign. Each call reads it from the database and signs it, so it has every
// change that was committed before the call. A directory that has a change is issued later
// than every one that does not.
func (s *Service) Directory(ctx context.Context) ([]byte, error) {
	for {
		text, unlogged, err := s.sign(ctx)
		if unlogged == nil || err != nil {
			return text, err
		}
		if err := s.keys.awaitLogged(ctx, unlogged); err != nil {
			return nil, fmt.Errorf("cannot sign the key directory: %w", err)
		}
	}
}

// sign is Directory, or returns the key that the log has to have first.
func (s *Service) sign(ctx context.Context) (text []byte, unlogged *held, err error) {
	// No key changes here between the read and the signature.
	s.keys.change.RLock()
	defer s.keys.change.RUnlock()
	rows, err := allKeys(ctx, s.db)
	if err != nil {
		return nil, nil, err
	}
	signers := s.directory.ring()
	if row := newest(rows, directoryRole, s.db.Now()); s.keys.shared && row != nil && signers.find(row.KeyID) == nil {
		s.keys.change.RUnlock()
		err := s.keys.catchUp(ctx, signers)
		s.keys.change.RLock()
		if err != nil {
			return nil, nil, err
		}
		if rows, err = allKeys(ctx, s.db); err != nil {
			return nil, nil, err
		}
	}
	d := keydir.Directory{IssuedAt: issue(s.db.Now(), rows)}
	var newest int64
	for _, row := range rows {
		d.Keys = append(d.Keys, row.Key)
		newest = max(newest, row.revision)
	}
	d.SnapshotID = fmt.Sprintf("dir_%d", newest)
	k, err := signers.pick(d.IssuedAt)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot sign the key directory: %w", s.directory.explain(ctx, err))
	}
	if !k.logged.Load() {
		return nil, k, nil
	}
	d.Delegation = k.delegation
	text, err = keydir.Sign(&d, k.signer.Key)
	return text, nil, err
}

// issue returns the time at which a directory is issued: now, unless the clock was set
// back, since a directory must not be older than a change in it.
func issue(now time.Time, rows []Key) time.Time {
	for _, row := range rows {
		for _, at := range []*time.Time{&row.NotBefore, row.RevokedAt} {
			if at != nil && at.After(now) {
				now = *at
			}
		}
	}
	return now
}

// SandboxKeys lists all keys that ever signed packs or receipts for the sandbox: control's
// current one first, then the others, newest first. The list is correct as of issuedAt,
// which is not before any change in it.
func (s *Service) SandboxKeys(ctx context.Context) (keys []keydir.Key, issuedAt time.Time, err error) {
	rows, err := allKeys(ctx, s.db)
	if err != nil {
		return nil, issuedAt, err
	}
	now := s.db.Now()
	return keysOf(rows, keydir.PurposeSandbox, now), issue(now, rows), nil
}

// WebhookKeys lists the keys by which receivers verify webhooks: control's current one first,
// then those before it, newest first. Revoked ones are left out.
func (s *Service) WebhookKeys(ctx context.Context) ([]keydir.Key, error) {
	rows, err := allKeys(ctx, s.db)
	if err != nil {
		return nil, err
	}
	keys := keysOf(rows, keydir.PurposeWebhook, s.db.Now())
	return slices.DeleteFunc(keys, func(k keydir.Key) bool { return k.RevokedAt != nil }), nil
}

// keysOf are the keys of a purpose: control's current one first, then the others, newest first.
func keysOf(rows []Key, purpose string, now time.Time) (keys []keydir.Key) {
	current := newest(rows, role{purpose, control}, now)
	for _, row := range slices.Backward(rows) {
		switch {
		case row.Purpose != purpose:
		case current != nil && row.KeyID == current.KeyID:
			keys = slices.Insert(keys, 0, row.Key)
		default:
			keys = append(keys, row.Key)
		}
	}
	return keys
}

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	route.AddRaw(a, route.Operation{
		ID: "get-key-directory", Method: http.MethodGet, Path: "/.well-known/muniment/keys.json", Tag: "Verification", Access: route.Public{},
		Summary:     "Get the signed directory of verification keys",
		Description: "Canonical JSON, without an envelope: its bytes are what is signed.",
		Content:     route.Content{Type: "application/json", Note: "The directory"},
	}, func(ctx context.Context, _ *struct{}) (*directoryAnswer, error) {
		text, err := s.Directory(ctx)
		if err != nil {
			return nil, err
		}
		return &directoryAnswer{ContentType: "application/json", CacheControl: "public, max-age=60", Body: text}, nil
	})
}

type directoryAnswer struct {
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	Body         []byte
}
