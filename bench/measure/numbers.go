package measure

import (
	"cmp"
	"slices"
	"time"
)

// Quantile of sorted latencies, in milliseconds.
func Quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return Micros(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]) / 1000
}

// Micros is a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Spread is the middle, the least and the greatest.
func Spread(all []float64) (middle, least, most float64) {
	if len(all) == 0 {
		return 0, 0, 0
	}
	return Median(all), slices.Min(all), slices.Max(all)
}

// Median is 0 of nothing.
func Median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.SortFunc(all, cmp.Compare[float64])
	mid := len(all) / 2
	if len(all)%2 == 1 {
		return all[mid]
	}
	return (all[mid-1] + all[mid]) / 2
}
