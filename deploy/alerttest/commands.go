package alerttest

import (
	"os"
	"os/exec"
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

// Type runs the commands of a section, each as it stands, and returns how many there are. Each has to
// succeed and to print something, but one whose comment says that it fails as long as there is the
// fault: that has to fail during it.
func (at Terminal) Type(t *testing.T, section string, fault bool) (n int) {
	t.Helper()
	for _, block := range typed.FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			n++
			cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", line)
			cmd.Dir, cmd.Env = at.Dir, append(os.Environ(), at.Env...)
			out, err := cmd.CombinedOutput()
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
