package signing

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
)

// TestRevokeCurrentKey follows the order of a revocation.
func TestRevokeCurrentKey(t *testing.T) {
	p := newPlace(t)
	r, stop := p.mustStart(t)
	signer := r.mustPackSigner(t)
	sealedAt := time.Time{}
	seal := func(_ context.Context, keyID, purpose string) ([]Unsealed, error) {
		require.Equal(t, []string{signer.KeyID, keydir.PurposePack}, []string{keyID, purpose})
		require.NotEqual(t, signer.KeyID, r.mustPackSigner(t).KeyID, "it is out of use")
		d := r.verified(t)
		_, code := d.Find(signer.KeyID, keydir.PurposePack, p.now)
		require.Empty(t, code, "it is not revoked yet")
		sealedAt = d.IssuedAt
		return nil, nil
	}
	v, err := r.Revoke(t.Context(), signer.KeyID, Revocation{Reason: "lost laptop", Seal: seal}, operator)
	require.NoError(t, err)
	require.Equal(t, "REVOKED", v.Key.State)
	require.Equal(t, "ACTIVE", v.Successor.State)

	d := r.verified(t)
	require.True(t, d.IssuedAt.After(sealedAt), "a directory with a change in it is issued later than those without")
	_, code := d.Find(signer.KeyID, keydir.PurposePack, p.now)
	require.Equal(t, sealer.KeyRevoked, code)
	_, code = d.FindSealed(signer.KeyID, keydir.PurposePack, p.now, sealedAt)
	require.Empty(t, code, "sealed before")
	_, code = d.FindSealed(signer.KeyID, keydir.PurposePack, p.now, d.IssuedAt)
	require.Equal(t, sealer.KeyRevoked, code, "sealed after")

	events := r.events(t)
	again, err := r.Revoke(t.Context(), signer.KeyID, Revocation{Seal: func(context.Context, string, string) ([]Unsealed, error) { panic("not again") }}, operator)
	require.NoError(t, err)
	require.Equal(t, v.Key, again.Key)
	require.Equal(t, events, r.events(t), "revoking twice leaves no event")
	require.Equal(t, []string{"key.rotated", "key.revoked"}, events[len(events)-2:])
	stop()

	r, _ = p.mustStart(t)
	require.Equal(t, v.Successor.KeyID, r.mustPackSigner(t).KeyID)
}

func TestRevocationWaitsForTheSeal(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	keyID := r.mustPackSigner(t).KeyID
	unavailable := errors.New("the warehouse is unavailable")
	_, err := r.Revoke(t.Context(), keyID, Revocation{Force: true, Seal: func(context.Context, string, string) ([]Unsealed, error) { return nil, unavailable }}, operator)
	require.ErrorIs(t, err, unavailable)
	p.now = p.now.Add(time.Second)
	require.NotEqual(t, keyID, r.mustPackSigner(t).KeyID, "it is out of use all the same")
	_, code := r.verified(t).Find(keyID, keydir.PurposePack, p.now.Add(-time.Second))
	require.Empty(t, code)

	v, err := r.Revoke(t.Context(), keyID, Revocation{Seal: func(context.Context, string, string) ([]Unsealed, error) { return nil, nil }}, operator)
	require.NoError(t, err, "the second attempt continues where the first one ended")
	require.Nil(t, v.Successor)
	require.Equal(t, "REVOKED", v.Key.State)
}

// TestForcedRevocation: tenants that can't be sealed are named, and prevent a revocation unless
// it is forced.
func TestForcedRevocation(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	keyID := r.mustPackSigner(t).KeyID
	var unsealed []Unsealed
	for i := range mostNamed + 2 {
		unsealed = append(unsealed, Unsealed{fmt.Sprintf("tnt_%d", i), "held", api.Unavailable(api.Quarantined, "held", time.Minute)})
	}
	q := Revocation{Seal: func(context.Context, string, string) ([]Unsealed, error) { return unsealed, nil }}
	_, err := r.Revoke(t.Context(), keyID, q, operator)
	refused := api.From(err)
	require.Equal(t, api.Quarantined, refused.Reason)
	require.Contains(t, refused.Message, "tnt_0 (held), tnt_1 (held)")
	require.Contains(t, refused.Message, "tnt_9 (held), 2 more;")
	_, code := r.verified(t).Find(keyID, keydir.PurposePack, p.now)
	require.NotEqual(t, sealer.KeyRevoked, code)

	q.Force = true
	v, err := r.Revoke(t.Context(), keyID, q, operator)
	require.NoError(t, err)
	require.Equal(t, "REVOKED", v.Key.State)
	require.Equal(t, unsealed, v.Unsealed)
}

func TestRevokedPackKeyStopsSealsAtWork(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	atWork := r.mustPackSigner(t)
	v, err := r.Revoke(t.Context(), atWork.KeyID, Revocation{}, operator)
	require.NoError(t, err)
	require.Equal(t, v.Successor.KeyID, r.mustPackSigner(t).KeyID)
	_, err = atWork.Key.Sign(nil, []byte("pack"), crypto.Hash(0))
	require.ErrorIs(t, err, keyfile.ErrDestroyed)
	require.NoFileExists(t, packRole.path(p.keys(), atWork.KeyID))
}

// TestRevokeKeyOfAnAbsentNode: the directory with the revocation is issued later than those
// before, even within one millisecond.
func TestRevokeKeyOfAnAbsentNode(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	keyID := r.admit(t, "nod_a", keydir.PurposeReceipt)
	before := r.verified(t)
	v, err := r.Revoke(t.Context(), keyID, Revocation{}, operator)
	require.NoError(t, err)
	require.Nil(t, v.Successor)
	require.True(t, v.Key.RevokedAt.After(before.IssuedAt))
	require.True(t, r.verified(t).IssuedAt.After(before.IssuedAt))
}

// TestRevokeDirectoryKey needs the root key: another directory key has to sign the directory
// that has the revocation.
func TestRevokeDirectoryKey(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	old := r.directory.ring().current().signer.KeyID
	secret, safe := filepath.Join(p.keys(), rootSecretFile), filepath.Join(t.TempDir(), "safe")
	require.NoError(t, os.Rename(secret, safe))
	_, err := r.Revoke(t.Context(), old, Revocation{}, operator)
	require.Equal(t, api.StateConflict, api.From(err).Code)
	require.Len(t, r.verified(t).Keys, 5)

	require.NoError(t, os.Rename(safe, secret))
	v, err := r.Revoke(t.Context(), old, Revocation{}, operator)
	require.NoError(t, err)
	require.NotNil(t, v.Successor)
	_, code := r.verified(t).Find(old, keydir.PurposeDirectory, p.now)
	require.Equal(t, sealer.KeyRevoked, code)
	require.NoFileExists(t, directoryRole.path(p.keys(), old))

	_, err = r.Revoke(t.Context(), "0123", Revocation{}, operator)
	require.Equal(t, api.ResourceNotFound, api.From(err).Code)
}

// holdChange makes a change whose commit others have to wait for.
func (r *Service) holdChange(t *testing.T, fn func(tx *store.Tx) error) (ended <-chan error) {
	ctx, held, done := context.WithoutCancel(t.Context()), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.db.Change(ctx, func(tx *store.Tx) error {
			err := fn(tx)
			close(held)
			<-time.After(100 * time.Millisecond)
			return err
		})
	}()
	<-held
	return done
}

// TestRevocationKeepsWhatChangesMeanwhile: the end of a window that another process writes at
// the same time is kept.
func TestRevocationKeepsWhatChangesMeanwhile(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	keyID, end := r.mustPackSigner(t).KeyID, p.now.Add(time.Hour)
	ended := r.holdChange(t, func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE signing_keys SET not_after = $1 WHERE key_id = $2`, store.At(end), keyID)
		return err
	})
	row, err := r.writeRevocation(t.Context(), nil, keyID, "", operator)
	require.NoError(t, err)
	require.NoError(t, <-ended)
	require.NotNil(t, row.RevokedAt)
	require.NotNil(t, row.NotAfter)
	require.Equal(t, end, *row.NotAfter)
}
