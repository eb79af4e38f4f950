package main

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/pipeline/segment"
)

// unbounded are flags with a number that any value suits.
var unbounded = []string{"log-level", "seed"}

// TestBoundsOfFlags: a value just out of range is refused in words that name the flag, its least value and an
// example, and the bounds themselves are taken. A flag with a number needs bounds.
func TestBoundsOfFlags(t *testing.T) {
	tried := map[string]string{}
	visitFlags(t, commandLine().Model.Node, func(command *kong.Node, flag *kong.Flag) {
		target, shown := flag.Target.Type(), flag.Summary()
		switch target.Kind() {
		case reflect.Int, reflect.Int64, reflect.Float64:
		case reflect.String:
			if flag.Tag.Has("address") {
				for _, wrong := range []string{"http://127.0.0.1:9090", "127.0.0.1", "9090", "127.0.0.1:9090/", "127.0.0.1:70000", ""} {
					require.ErrorContains(t, parseFlag(command, flag, wrong), "--"+flag.Name+": ", shown)
					require.ErrorContains(t, parseFlag(command, flag, wrong), "must be HOST:PORT, without http://, for example 127.0.0.1:9090", shown)
				}
				require.NotContains(t, fmt.Sprint(parseFlag(command, flag, "[::1]:0")), "HOST:PORT, without", shown)
				require.NotContains(t, fmt.Sprint(parseFlag(command, flag, "localhost:9090")), "HOST:PORT, without", shown)
			}
			return
		default:
			return
		}
		for _, name := range unbounded {
			if flag.Name == name {
				return
			}
		}
		require.True(t, flag.Tag.Has("least"), "%s of %s has no bounds", shown, command.Path())
		tried[flag.Name] = flag.Tag.Get("most")
		step := int64(1)
		if target == reflect.TypeFor[time.Duration]() {
			step = int64(time.Millisecond)
		}
		written := func(n int64) string {
			if target == reflect.TypeFor[time.Duration]() {
				return time.Duration(n).String()
			}
			return fmt.Sprint(n)
		}
		for _, bound := range []struct {
			tag  string
			sign int64
		}{{"least", -1}, {"most", 1}} {
			if !flag.Tag.Has(bound.tag) {
				continue
			}
			limit, err := limitOf(flag.Tag.Get(bound.tag), target)
			require.NoError(t, err, shown)
			err = parseFlag(command, flag, written(limit+bound.sign*step))
			require.ErrorContains(t, err, "--"+flag.Name+": ", shown)
			require.ErrorContains(t, err, "is out of range", shown)
			require.ErrorContains(t, err, flag.Tag.Get("least"), shown)
			_, example, found := strings.Cut(err.Error(), ", for example ")
			require.True(t, found && example != "", err)
			for _, right := range []string{example, written(limit)} {
				require.NotContains(t, fmt.Sprint(parseFlag(command, flag, right)), "--"+flag.Name+":", shown)
			}
			require.ErrorContains(t, parseFlag(command, flag, written(math.MinInt64)), "is out of range", shown)
			require.ErrorContains(t, parseFlag(command, flag, "many"), ", for example "+example, shown)
		}
	})
	require.Greater(t, len(tried), 25)
	for name, most := range map[string]time.Duration{"row-age": api.MaxRowAge, "ack-timeout": issue.DefaultTimeout / 2} {
		got, err := time.ParseDuration(tried[name])
		require.NoError(t, err)
		require.Equal(t, most, got, name)
	}
	least, err := time.ParseDuration("25h")
	require.NoError(t, err)
	require.Equal(t, segment.LeastKeep, least, "the least --keep")
}

// visitFlags calls visit with each flag of a command and of those below it.
func visitFlags(t *testing.T, command *kong.Node, visit func(*kong.Node, *kong.Flag)) {
	for _, flag := range command.Flags {
		visit(command, flag)
	}
	for _, below := range command.Children {
		visitFlags(t, below, visit)
	}
}

// parseFlag parses a command line with that flag; what else the command needs is missing.
func parseFlag(command *kong.Node, flag *kong.Flag, value string) error {
	for command.Type == kong.CommandNode && len(command.Children) > 0 { // a flag of a group
		command = command.Children[0]
	}
	_, err := commandLine().Parse(append(strings.Fields(command.FullPath())[1:], "--"+flag.Name+"="+value))
	return err
}
