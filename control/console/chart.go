package console

import (
	"fmt"
	"strings"
	"time"
)

// hour is what was played in an hour, and in the same hour a week before.
type hour struct {
	Start                           time.Time
	Plays, PlaysBefore              int64
	Impressions, ImpressionsBefore  string // decimals
	Metered, Suppressed, Duplicates int64
}

// chart is a picture of hours: a bar for each, and a line for the week before.
type chart struct {
	Label         string // what a reader hears who doesn't see it
	Width, Height int
	Bars          []bar
	Before        string // the points of the line
	Levels        []level
	Hours         []tick
	Ground        int
}

type (
	bar struct {
		X, Y, Width, Height int
		Title               string
	}
	level struct {
		Y    int
		Text string
	}
	tick struct {
		X    int
		Text string
	}
)

const (
	chartWidth, chartHeight = 720, 220
	chartLeft, chartTop     = 56, 12
	chartGround             = chartHeight - 26
)

// plays draws the hours.
func playsChart(hours []hour) chart {
	c := chart{Width: chartWidth, Height: chartHeight, Ground: chartGround}
	var most, sum, before int64
	for _, h := range hours {
		most, sum, before = max(most, h.Plays, h.PlaysBefore), sum+h.Plays, before+h.PlaysBefore
	}
	top := roundUp(most)
	y := func(n int64) int {
		return chartGround - int(float64(n)/float64(top)*float64(chartGround-chartTop))
	}
	for _, part := range []int64{0, top / 2, top} {
		if part == 0 || part != top/2 || top > 1 {
			c.Levels = append(c.Levels, level{y(part), count(part)})
		}
	}
	step := (chartWidth - chartLeft) / max(1, len(hours))
	var points []string
	for i, h := range hours {
		x := chartLeft + i*step
		c.Bars = append(c.Bars, bar{x + 3, y(h.Plays), step - 6, chartGround - y(h.Plays),
			fmt.Sprintf("%s: %s plays, a week before %s", h.Start.Format("15:04"), count(h.Plays), count(h.PlaysBefore))})
		points = append(points, fmt.Sprintf("%d,%d %d,%d", x, y(h.PlaysBefore), x+step, y(h.PlaysBefore)))
		if h.Start.Hour()%6 == 0 {
			c.Hours = append(c.Hours, tick{x, h.Start.Format("15:04")})
		}
	}
	c.Before = strings.Join(points, " ")
	c.Label = fmt.Sprintf("Plays by hour: %s in these %d hours, %s in the same hours a week before. The numbers are in the table below.", count(sum), len(hours), count(before))
	return c
}

// roundUp is the end of a scale: 1, 2 or 5 and zeros, at least n.
func roundUp(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, step := range []int64{1, 2, 5} {
			if step*unit >= n {
				return step * unit
			}
		}
	}
}
