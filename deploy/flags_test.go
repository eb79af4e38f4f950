//go:build tools

package deploy

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var variable = regexp.MustCompile(`\(\$(MUNIMENT_[A-Z_]+)\)`)

// requireFlags fails if a command does not know a variable that it is given, which it
// would ignore without a word.
func requireFlags(t *testing.T, where, command string, variables []string) {
	t.Helper()
	help, err := exec.Command("../bin/muniment", command, "--help").CombinedOutput()
	require.NoError(t, err, "%s: %s", where, help)
	known := map[string]bool{}
	for _, v := range variable.FindAllStringSubmatch(strings.Join(strings.Fields(string(help)), " "), -1) {
		known[v[1]] = true
	}
	for _, name := range variables {
		require.True(t, known[name] || !strings.HasPrefix(name, "MUNIMENT_"), "%s: muniment %s has no flag for %s", where, command, name)
	}
}

func TestComposeKnowsTheFlags(t *testing.T) {
	project, err := compose(t, secrets)
	require.NoError(t, err)
	for name, s := range project.Services {
		if len(s.Command) != 1 {
			continue // an engine
		}
		var given []string
		for v := range s.Environment {
			given = append(given, v)
		}
		requireFlags(t, name, s.Command[0], given)
	}
}

func TestChartKnowsTheFlags(t *testing.T) {
	for _, values := range [][]string{append(needed[:3:3], "gateway.existingInvitation=invitation"), issued, handed} {
		text, err := helm(t, values...)
		require.NoError(t, err)
		requireKnownFlags(t, text)
	}
}

// requireKnownFlags looks at the variables of every container of the rendered chart.
func requireKnownFlags(t *testing.T, text string) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		for _, c := range o.Spec.Template.Spec.Containers {
			var given []string
			for _, v := range c.Env {
				given = append(given, v.Name)
			}
			require.NotEmpty(t, given)
			requireFlags(t, o.Metadata.Name, c.Args[0], given)
		}
	}
}

var settings = regexp.MustCompile(`(?s)cat > /etc/muniment/([a-z]+)\.env <<END\n(.*?)\nEND\n`)

// TestProcessesKnowTheFlags looks at the settings that the page on separate processes has for each of them.
func TestProcessesKnowTheFlags(t *testing.T) {
	text, err := os.ReadFile("systemd/processes.md")
	require.NoError(t, err)
	files := settings.FindAllStringSubmatch(string(text), -1)
	require.Len(t, files, 3)
	for _, file := range files {
		var given []string
		for line := range strings.Lines(file[2]) {
			name, _, _ := strings.Cut(line, "=")
			given = append(given, name)
		}
		requireFlags(t, file[1]+".env", file[1], given)
	}
}
