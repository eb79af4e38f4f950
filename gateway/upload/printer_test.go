package upload

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// show runs a printer for a while, beside a run that is at its half.
func show(t *testing.T, columns int, asJSON bool) string {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		var p Progress
		p.TotalFiles.Store(2)
		p.TotalBytes.Store(2000)
		r := StartPrinter(&out, &p, columns, asJSON)
		time.Sleep(15 * time.Second)
		p.Bytes.Store(1000)
		p.Accepted.Store(1234567)
		p.Rejected.Store(12)
		p.trouble(errors.New("the service\x1b[2J answers 503"))
		time.Sleep(10 * time.Second)
		p.count([]result{{Status: statusUnmapped}, {Status: statusDuplicate}})
		p.Skipped.Store(7)
		p.Files.Store(2)
		p.Unknown.Store(1)
		p.Bytes.Store(2000)
		r.Stop()
	})
	return out.String()
}

func TestLines(t *testing.T) {
	require.Equal(t, `  0%  0 rows, 0/s
 50%  1,234,579 rows, 61,728/s, 12 rejected; retrying: the service\u001b[2J answers 503
1,234,581 rows of 2 files in 25s: 1,234,567 accepted, 1 duplicate, 12 rejected, 1 unmapped, which are held until a mapping knows them; 7 were done before; 1 files were passed over: their names don't say what they hold
`, show(t, 0, false))
}

func TestBar(t *testing.T) {
	drawn := strings.Split(show(t, 60, false), "\r")
	require.Contains(t, drawn, "[........................]   0%  0 rows, 0/s\x1b[K")
	require.Contains(t, strings.Join(drawn, "\n"), "\n[############............]  50%  1,234,579 rows, ")
	for _, line := range drawn[:len(drawn)-1] {
		require.LessOrEqual(t, len(strings.TrimSuffix(line, "\x1b[K")), 59, "it stays on one line")
	}
	require.True(t, strings.HasPrefix(drawn[len(drawn)-1], "\x1b[K1,234,581 rows of 2 files"), "the totals stand in its place")
}

func TestJSONLines(t *testing.T) {
	var last map[string]any
	lines := 0
	for line := range strings.Lines(show(t, 60, true)) {
		last = nil
		require.NoError(t, json.Unmarshal([]byte(line), &last))
		lines++
		require.Equal(t, lines == 3, last["done"])
	}
	require.Equal(t, 3, lines)
	require.EqualValues(t, 1234567, last["accepted"])
	require.EqualValues(t, 2, last["files"])
	require.NotContains(t, last, "trouble")
}
