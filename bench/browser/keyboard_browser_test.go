//go:build browser

package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestKeyboardInABrowser has Chromium go through an auditor's day without a mouse: control/playground/browser/keyboard.js is
// what it does there.
func TestKeyboardInABrowser(t *testing.T) {
	s := systemtest.NewService(t)
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--scope", "*")
	s.Client.Key = s.Tenant.APIKey
	s.Rights = systemtest.IssueRights(t, s.Client)
	post := poster(s)
	for range 2 {
		for range 3 {
			post("/v1/delivery", map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 4200})
		}
		s.Seal()
	}
	root, err := os.ReadFile(filepath.Join(s.Data, "keys", "root.vkey"))
	require.NoError(t, err)
	inBrowser(t, "keyboard.js", "URL="+s.Client.API, "KEY="+s.Client.Key, "ROOT="+strings.TrimSpace(string(root)))
}
