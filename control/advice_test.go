package control_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestAdviceIsThePages: what the API and the console say to do about an error is what the page for integrators says, for
// each status.
func TestAdviceIsThePages(t *testing.T) {
	page, err := os.ReadFile("../gateway/integrating.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "| status | `error` | what it means | what to do |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	said := map[int][]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		status, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		require.NoError(t, err, row)
		do := regexp.MustCompile("`|; \\[[^]]*\\]\\([^)]*\\)").ReplaceAllString(strings.TrimSpace(cells[4]), "")
		said[status] = append(said[status], do)
	}
	require.NotEmpty(t, said)
	for status, texts := range said {
		require.Contains(t, texts, api.Remedy(status, ""), status)
	}
	require.Contains(t, said[412], api.Remedy(412, "erase"))
	require.NotEqual(t, api.Remedy(412, "deliver"), api.Remedy(412, "erase"), "an erasure is confirmed by sending it again")
	for status := range 600 {
		if api.Remedy(status, "") != "" {
			require.NotEmpty(t, said[status], status)
		}
	}
}
