package alerttest

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShortened(t *testing.T) {
	for long, short := range map[string]string{
		"increase(x_total[15m]) > 10\n        for: 2m\n":                  "increase(x_total[15000ms]) > 10\n        for: 2000ms\n",
		"max_over_time(x[7d])":                                            "max_over_time(x[10080000ms])",
		"min by (installation) (x_left_seconds) < 60 * 86400":             "min by (installation) (x_left_seconds) < (60 * 86400) / 60",
		"x_expiry_seconds < 3600 or y_records > 100000 or z:ratio > 0.5":  "x_expiry_seconds < (3600) / 60 or y_records > 100000 or z:ratio > 0.5",
		"record: muniment:delivery_errors:ratio_rate5m\n  action: in 5m.": "record: muniment:delivery_errors:ratio_rate5m\n  action: in 5m.",
	} {
		require.Equal(t, short, Shortened(long, 60))
	}
	rules, err := os.ReadFile("../prometheus/rules.yml")
	require.NoError(t, err)
	left := regexp.MustCompile(`\[\d+[smhd]\]|for: \d+[smhd]\b|_seconds\)? [<>] \d`).FindAllString(Shortened(string(rules), 60), -1)
	require.Empty(t, left)
}
