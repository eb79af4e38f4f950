package main

import (
	"regexp"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestNoSecretHasADefault: who starts a command names engines, users and secrets, or
// goes without.
func TestNoSecretHasADefault(t *testing.T) {
	var cli commands
	app, err := kong.New(&cli, kong.Vars{})
	require.NoError(t, err)
	secret := regexp.MustCompile(`password|token|secret|user|invitation|cert|\bkey\b|-ca$|^(kafka|clickhouse|database)$`)
	seen := 0
	for _, command := range app.Model.Leaves(false) {
		for _, flag := range command.Flags {
			if secret.MatchString(flag.Name) {
				seen++
				require.False(t, flag.HasDefault, "%s --%s is %q by default", command.Path(), flag.Name, flag.Default)
			}
			require.NotContains(t, flag.Default, "@", flag.Name)
		}
	}
	require.Greater(t, seen, 50)
}
