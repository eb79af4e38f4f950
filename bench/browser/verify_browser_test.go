//go:build browser

package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestVerifierInABrowser has Chromium judge the vectors and a receipt of a running service, on its page:
// control/playground/browser/verify.js is what it does there.
func TestVerifierInABrowser(t *testing.T) {
	s := systemtest.NewService(t)
	answer := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: systemtest.Delivery(s.Rights["DOOH"])})
	require.Equal(t, 200, answer.Status, answer.Body)
	own := filepath.Join(t.TempDir(), "receipt.json")
	require.NoError(t, os.WriteFile(own, []byte(answer.Body), 0o600))
	vectors, err := filepath.Abs("sealer/testdata")
	require.NoError(t, err)
	inBrowser(t, "verify.js", "URL="+s.Client.API, "FILES="+vectors, "OWN="+own, "TMP="+filepath.Dir(own))
}
