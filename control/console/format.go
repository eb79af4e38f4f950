package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"muniment.example/sealer/canonical"
)

// When is a time for people: UTC, as all of the service's times.
func when(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 Jan 2006, 15:04:05")
}

// upToMinute is a time that is known to the minute, for people.
func upToMinute(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 Jan 2006, 15:04")
}

// day is a date for people.
func day(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 Jan 2006")
}

// stamp is a time for programs; empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return canonical.FormatTime(t)
}

// short is an id that keeps what tells it apart.
func short(id string) string {
	if len(id) < 16 {
		return id
	}
	return id[:4] + "…" + id[len(id)-6:]
}

// count is a number with its thousands apart.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	var parts []string
	for len(text) > 3 {
		parts = append([]string{text[len(text)-3:]}, parts...)
		text = text[:len(text)-3]
	}
	return strings.Join(append([]string{text}, parts...), " ")
}

// long is a number of milliseconds for people.
func long(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%s h %02d min", count(int64(d.Hours())), int(d.Minutes())%60)
}

// mood is the colour of a state.
func mood(state string) string {
	switch state {
	case "ACTIVE", "ACCEPTED", "READY", "DELIVERED", "SETTLED", "PAID", "METERED", "COMPLETED", "OVERTURNED":
		return "good"
	case "SUSPENDED", "PROPOSED", "OPEN", "HELD", "INVESTIGATING", "RESPONDED", "PAUSED", "PENDING", "INVITED", "NOT_BEGUN", "DRAFT", "DUE":
		return "warn"
	case "REVOKED", "REMOVED", "FAILED", "DISABLED", "UPHELD":
		return "bad"
	case "ISSUED", "COUNTERED", "REQUESTED", "COLLECTING", "PACKAGING":
		return "info"
	}
	return ""
}

// words is a name of the contract for people: NOT_AUDIBLE is "not audible".
func words(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", " ")) }
