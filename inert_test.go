package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/sealer/terminal"
)

// lie is what a server, or whoever wrote a label, would have a terminal obey: a line of its own, colours,
// a cleared screen in one byte, writing from right to left, a character that nobody sees.
const lie = "lie\nFORGED\r\x1b[2J\u009b2J\u202e\u2028\U000e0001\x7f"

// liar answers every operation, with the lie in every text.
type liar struct{ answers int }

func (*liar) Base() (string, error) { return "http://127.0.0.1:9090", nil }

func (l *liar) Do(_, _ string, _, out any) error {
	l.answers++
	l.fill(reflect.ValueOf(out).Elem())
	return nil
}

// fill sets every text; pointers and lists of the first two answers alone, so that a list of pages ends.
func (l *liar) fill(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(lie)
	case reflect.Pointer:
		if l.answers <= 2 {
			v.Set(reflect.New(v.Type().Elem()))
			l.fill(v.Elem())
		}
	case reflect.Slice:
		if l.answers <= 2 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range v.Len() {
				l.fill(v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			l.fill(v.Field(i))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	}
}

// TestOutputOfCommandsIsInert runs every command that prints what a server answers, as text and as JSON.
func TestOutputOfCommandsIsInert(t *testing.T) {
	delegation := filepath.Join(t.TempDir(), "delegation")
	require.NoError(t, os.WriteFile(delegation, []byte("some"), 0o600))
	ran := 0
	for _, command := range commandLine().Model.Leaves(true) {
		if !command.Target.Addr().MethodByName("Run").IsValid() || !callsServer(command) {
			continue
		}
		for _, asJSON := range []bool{false, true} {
			line := strings.Fields(command.FullPath())[1:]
			for _, p := range command.Positional {
				switch p.Name {
				case "position":
				case "file":
					line = append(line, delegation)
				default:
					line = append(line, "some")
				}
			}
			for _, f := range command.Flags {
				switch {
				case f.Required:
					line = append(line, "--"+f.Name, "some")
				case f.Name == "all", f.Name == "json" && asJSON:
					line = append(line, "--"+f.Name)
				}
			}
			if asJSON && !strings.Contains(strings.Join(line, " "), "--json") {
				continue
			}
			ran++
			var out strings.Builder
			runAgainst(t, &out, line)
			require.NotEmpty(t, out.String(), line)
			for _, r := range out.String() {
				require.True(t, r == '\n' || strconv.IsGraphic(r), "%s prints %q in %q", line, r, out.String())
			}
			for printed := range strings.Lines(out.String()) {
				require.False(t, strings.HasPrefix(printed, "FORGED"), "%s prints a line of the answer: %q", line, out.String())
			}
		}
	}
	require.GreaterOrEqual(t, ran, 30)
}

// callsServer says whether a command takes the client of a server.
func callsServer(command *kong.Node) bool {
	run := command.Target.Addr().MethodByName("Run").Type()
	for i := range run.NumIn() {
		if run.In(i) == reflect.TypeFor[route.AdminClient]() {
			return true
		}
	}
	return false
}

func runAgainst(t *testing.T, out io.Writer, line []string) {
	app := commandLine()
	parsed, err := app.Parse(line)
	require.NoError(t, err, line)
	parsed.BindTo(new(liar), (*route.AdminClient)(nil))
	parsed.BindTo(terminal.Writer(out), (*io.Writer)(nil))
	require.NoError(t, parsed.Run(), line)
}
