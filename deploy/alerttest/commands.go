package alerttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var typed = regexp.MustCompile("(?m)^<!-- a test runs these commands -->\n```sh\n((?s:.*?))^```$")

// failsMeanwhile is in the comment behind a command that succeeds only once the fault is mended.
const failsMeanwhile = "fails as long as"

// Terminal is where an operator types commands: a folder, and variables beside those of the test.
type Terminal struct {
	Dir string
	Env []string
}

// recorded is a curl that does what it does anyway, and appends to a file the status and the URL of each answer.
const recorded = `curl() { command curl "$@" -w '%{stderr}%{http_code} %{url_effective}\n' 2>>"$MUNIMENT_TYPED"; }
`

// refused is an answer that is an error.
var refused = regexp.MustCompile(`(?m)^[45]\d\d (\S+)$`)

// Type runs the commands of a section, each as it stands, and returns how many there are. Each has to
// succeed and to print something, but one whose comment says that it fails as long as there is the
// fault: that has to fail during it. No answer of a server may be an error, but of /readyz.
func (at Terminal) Type(t *testing.T, section string, fault bool) (n int) {
	t.Helper()
	for _, block := range typed.FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			n++
			answers := filepath.Join(t.TempDir(), "answers")
			cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", recorded+line)
			cmd.Dir, cmd.Env = at.Dir, append(append(os.Environ(), at.Env...), "MUNIMENT_TYPED="+answers)
			out, err := cmd.CombinedOutput()
			answered, readErr := os.ReadFile(answers)
			require.True(t, readErr == nil || os.IsNotExist(readErr), readErr)
			out = append(out, answered...) // curl's complaints are in there
			for _, m := range refused.FindAllSubmatch(answered, -1) {
				require.True(t, strings.HasSuffix(string(m[1]), "/readyz"), "%s\n%s", line, out) // whose status is what is asked for
			}
			if fault && strings.Contains(line, failsMeanwhile) {
				require.Error(t, err, "%s\n%s", line, out)
			} else {
				require.NoError(t, err, "%s\n%s", line, out)
			}
			require.NotEmpty(t, out, line)
		}
	}
	return n
}
