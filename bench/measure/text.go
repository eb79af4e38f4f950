package measure

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Milliseconds is a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Count writes a number with thousands separators.
func Count[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// WriteVerdicts writes them as a Markdown table.
func WriteVerdicts(b *strings.Builder, all []Verdict) {
	rows := [][]string{{"what must hold", "figure", "bound", ""}}
	for _, v := range all {
		rows = append(rows, []string{v.What, v.Figure, v.Bound, string(v.State)})
	}
	Table(b, rows)
	b.WriteString("\n")
}

// Millis writes a number of milliseconds with its unit.
func Millis(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}

// Table writes a Markdown table with its columns in line: the first row is the head.
func Table(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprintf(b, "|%s", strings.Repeat("-", width+2))
			}
			b.WriteString("|\n")
		}
	}
}
