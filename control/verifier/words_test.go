package verifier

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/verify"
)

// TestEveryVerdictSaysWhatIsNext: whatever kind of file was judged, by whatever anchor, a person reads a sentence and what to do next,
// which stand apart; and a file of each kind has a name.
func TestEveryVerdictSaysWhatIsNext(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	kinds, err := json.Marshal(verify.Kinds())
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), node, "nodetest/words.js")
	cmd.Stdin = bytes.NewReader(kinds)
	out, err := cmd.Output()
	require.NoError(t, err)
	var said []struct{ Kind, Verdict, Anchor, Called, Title, Rests, Sentence, Next string }
	require.NoError(t, json.Unmarshal(out, &said))
	require.Len(t, said, len(verify.Kinds())*3*5+1)
	of := map[string]bool{}
	for _, s := range said {
		what := s.Kind + ", " + s.Verdict + ", " + s.Anchor
		for _, text := range []string{s.Sentence, s.Next} {
			require.Regexp(t, `^.{5,}[.]$`, text, what)
		}
		require.Equal(t, s.Kind == "unknown" || s.Kind == "release" || s.Kind == "none", s.Rests == "", what)
		require.NotEmpty(t, s.Called, what)
		require.NotEmpty(t, s.Title, what)
		require.NotContains(t, s.Sentence, "Next:", what)
		if s.Verdict == verify.VerdictSound && s.Kind == "directory" {
			require.Contains(t, s.Next, "what these keys have signed", what)
		} else if s.Verdict == verify.VerdictSound && s.Anchor == "service" {
			require.Contains(t, s.Next, "get the root key", what)
		}
		of[s.Verdict+" "+s.Next] = true
	}
	require.Len(t, of, 3+1+1+1+1, "of sound: keys alone, by a root key, by this service, by the sandbox; unsound; what is missing; no anchor")
}
