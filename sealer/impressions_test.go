package sealer

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImpressionsHaveOneSpelling(t *testing.T) {
	for text, n := range map[string]int64{
		"0": 0, "0.0001": 1, "0.1": 1000, "0.5": 5000, "1": Impression, "2.5": 25_000, "2.0505": 20_505, "10": 100_000,
		"10000": MaxMultiplier, "922337203685477.5807": math.MaxInt64,
	} {
		require.Equal(t, text, FormatImpressions(n))
		got, err := ParseImpressions(text)
		require.NoError(t, err, text)
		require.Equal(t, n, got)
	}
	for _, text := range []string{
		"", ".", "-0", "-1", "+1", "00", "01", "1.", ".5", "1.0", "1.50", "1.00001", "1.-5", "1.+5", "1e2", "1_0", " 1", "1,5", "1.5.0", "0x1",
		"922337203685477.5808", "9223372036854775807", "٣",
	} {
		_, err := ParseImpressions(text)
		require.Error(t, err, "%q", text)
	}
}
