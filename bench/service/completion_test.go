package service

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// completed returns the words that muniment offers for a command line.
func completed(t *testing.T, words ...string) (found []string) {
	t.Helper()
	for line := range strings.Lines(systemtest.Command(t, append([]string{"complete", "--"}, words...)...)) {
		word, _, _ := strings.Cut(line, "\t")
		found = append(found, word)
	}
	return found
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words string // the last one may be empty
		want  []string
	}{
		{"ver", []string{"verify", "version"}},
		{"signing-key ro", []string{"rotate"}},
		{"key ", []string{"create", "list", "rotate", "revoke"}},
		{"verify --b", []string{"--bound"}},
		{"verify --root --json --e", []string{"--expect-checkpoint"}},
		{"up --log ", []string{"json", "text"}},
		{"up --log = j", []string{"json"}},
		{"up --log =", []string{"json", "text"}},
		{"up --log=j", []string{"--log=json"}},
		{"completion ", []string{"bash", "fish", "zsh"}},
		{"verify pa", nil}, // a file
		{"verify --root k", nil},
		{"verify --data ", nil},
		{"frobnicate --x", nil},
	} {
		found := completed(t, strings.Split(c.words, " ")...)
		if strings.HasSuffix(c.words, "key ") {
			require.Subset(t, found, c.want, c.words)
		} else {
			require.Equal(t, c.want, found, c.words)
		}
	}
	all := completed(t, "")
	require.Contains(t, all, "up")
	require.NotContains(t, all, "complete", "it is for scripts")
	require.NotContains(t, completed(t, "up", "--p"), "--pause-loader", "it is hidden")
}

// TestCompletionOfBash sources what the command prints, and completes a command and a flag.
func TestCompletionOfBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	const script = `
source <(muniment completion bash)
words() {
	COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
	_muniment muniment "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	echo "${COMPREPLY[*]}"
}
words muniment inge
words muniment tenant create --ke
words muniment up --log = te
complete -p muniment`
	out, err := exec.CommandContext(t.Context(), bash, "--norc", "-euc", script).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "ingest\n--key-only\ntext\ncomplete -o bashdefault -o default -F _muniment muniment\n", string(out))
}

// TestCompletionAtAPrompt types a word and a tab at a prompt of bash, which then runs the command
// that it became.
func TestCompletionAtAPrompt(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "script"} {
		if _, err := exec.LookPath(program); err != nil || runtime.GOOS != "linux" {
			t.Skip("needs Linux, bash and script of util-linux")
		}
	}
	printed := filepath.Join(t.TempDir(), "printed")
	cmd := exec.CommandContext(t.Context(), "script", "-qec", "bash --norc --noprofile -i", os.DevNull)
	cmd.Stdin = strings.NewReader("source <(muniment completion bash)\nmuniment vers\t>" + printed + "\nexit\n")
	cmd.Env = append(os.Environ(), "INPUTRC="+os.DevNull, "HISTFILE=", "TERM=dumb")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, systemtest.Command(t, "version"), string(systemtest.ReadFile(t, printed)), string(out))
}

// TestCompletionOfFish completes commands, a flag, and the value of a flag, and leaves files to fish.
func TestCompletionOfFish(t *testing.T) {
	t.Parallel()
	fish, err := exec.LookPath("fish")
	if err != nil {
		t.Skip("needs fish")
	}
	const script = `
muniment completion fish | source
for line in "muniment inge" "muniment tenant create --ke" "muniment up --log te" "muniment verify root.v"
	complete -C $line | string split -f 1 \t
end
true`
	cmd := exec.CommandContext(t.Context(), fish, "--no-config", "-c", script)
	cmd.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "root.vkey"), nil, 0o600))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "ingest\n--key-only\ntext\nroot.vkey\n", string(out))
}

// TestCompletionScriptsAreSound has each shell that is here parse its script.
func TestCompletionScriptsAreSound(t *testing.T) {
	t.Parallel()
	for shell, check := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		script := systemtest.Command(t, "completion", shell)
		require.Contains(t, script, "complete -- ")
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		cmd := exec.CommandContext(t.Context(), shell, check...)
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, out)
	}
	require.Contains(t, systemtest.Fails(t, "completion", "tcsh"), "must be one of")
}
