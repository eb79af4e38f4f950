package signing

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// TestFilesBelongToOneRole: no role lists the key files of another.
func TestFilesBelongToOneRole(t *testing.T) {
	dir := t.TempDir()
	roles := []role{directoryRole, packRole, {keydir.PurposeSandbox, control}, {keydir.PurposeBeacon, control}}
	for _, r := range roles {
		key, err := makeKey(dir, r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(beside(key.Path, requestSuffix), nil, 0o600))
		ids, err := r.files(dir)
		require.NoError(t, err)
		require.Equal(t, []string{keydir.KeyID(key.Pub)}, ids, r)
	}
	ids, err := packRole.files(filepath.Join(dir, "none"))
	require.NoError(t, err)
	require.Empty(t, ids)
}

const purposeTrial = "trial_signing"

var packRole = role{keydir.PurposePack, control}

// TestAnotherPurpose: with one more row in uses, control has a key for the new purpose that is
// in the directory, signs, rotates, is revoked, and is kept over a restart.
func TestAnotherPurpose(t *testing.T) {
	before := uses
	t.Cleanup(func() { uses = before })
	uses = append(slices.Clone(uses), use{purpose: purposeTrial, files: "trial"})

	p := newPlace(t)
	r, stop := p.mustStart(t)
	find := func(keyID string) sealer.Code {
		_, code := r.verified(t).Find(keyID, purposeTrial, p.now)
		return code
	}
	first := r.mustSigner(t, purposeTrial)
	require.Equal(t, control, first.Node)
	require.Empty(t, find(first.KeyID))
	require.Contains(t, p.files(t), "trial-"+first.KeyID+".key")

	s, err := r.Rotate(t.Context(), first.KeyID, operator)
	require.NoError(t, err)
	require.Equal(t, first.KeyID, s.Replaced.KeyID)
	p.now = s.Key.NotBefore.Time
	require.Equal(t, s.Key.KeyID, r.mustSigner(t, purposeTrial).KeyID)
	require.Empty(t, find(s.Key.KeyID))
	require.Empty(t, find(first.KeyID), "it may still sign what has begun")

	var sealed string
	v, err := r.Revoke(t.Context(), s.Key.KeyID, Revocation{Seal: func(_ context.Context, _, purpose string) ([]Unsealed, error) {
		sealed = purpose
		return nil, nil
	}}, operator)
	require.NoError(t, err)
	require.Equal(t, purposeTrial, sealed)
	require.Equal(t, sealer.KeyRevoked, find(s.Key.KeyID))
	next := r.mustSigner(t, purposeTrial).KeyID
	require.Equal(t, v.Successor.KeyID, next)

	stop()
	r, _ = p.mustStart(t)
	require.Equal(t, next, r.mustSigner(t, purposeTrial).KeyID)
	require.Equal(t, sealer.KeyRevoked, find(s.Key.KeyID))
}
