package service

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestEvidenceOfTheSandbox: who has saved packs and runtime keys over HTTP has all that
// it takes to verify them, also after keys were rotated.
func TestEvidenceOfTheSandbox(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t, "--sandbox-burst", "1000")
	s := systemtest.NewSaver(t, h.Client.API, nil)
	packs, keys := s.Evidence()
	systemtest.Strangers(t, packs, keys)

	var before, after struct {
		SnapshotID string
		Keys       []struct{ KeyID string }
	}
	s.Save("before", "GET", "/runtime-keys", "", &before)
	for _, k := range before.Keys {
		systemtest.Command(t, "signing-key", "rotate", "--data", h.Data, k.KeyID)
	}
	newer := s.Save("newer.json", "GET", "/runtime-keys", "", &after)
	require.NotEqual(t, before.SnapshotID, after.SnapshotID)
	systemtest.Strangers(t, packs, newer)
	for i, file := range packs {
		packs[i] = s.Save("again-"+filepath.Base(file), "GET", "/proof-packs/"+strings.TrimSuffix(filepath.Base(file), ".json"), "", new(struct{}))
	}
	systemtest.Strangers(t, packs, keys) // which do not know of the rotation
	systemtest.Strangers(t, packs, newer)
}
