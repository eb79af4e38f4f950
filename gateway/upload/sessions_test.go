package upload

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// call is a tracking URL of a session at a time of 1 November.
func call(id, event, at string) string {
	return fmt.Sprintf("https://t.example/v?event=%s&adservingid=%s&universaladid=ad&timestamp=2026-11-01T%sZ\n", event, id, at)
}

// TestSessionsOfRotatedLogs: a session that a log ends in the middle of is kept until a later one ends it,
// or until it is too old to go on; each is sent once, with all its events.
func TestSessionsOfRotatedLogs(t *testing.T) {
	dir := t.TempDir()
	first := put(t, dir, "1.log", []byte(call("a", "start", "12:00:00")+call("b", "start", "12:00:00")+call("old", "start", "12:00:01")+call("b", "complete", "12:00:15")+call("a", "midpoint", "12:00:08")))
	second := put(t, dir, "2.log", []byte(call("a", "complete", "12:00:15")+call("c", "start", "12:59:00")))
	third := put(t, dir, "3.log", []byte(call("d", "start", "13:05:00")))
	s := newService(t)
	cfg := Config{Format: "vast", Senders: 1}

	p, err := s.run(cfg, first)
	require.NoError(t, err)
	require.EqualValues(t, []int64{1, 2}, []int64{p.Accepted.Load(), p.Unfinished.Load()})
	require.Len(t, s.taken, 1)

	p, err = s.run(cfg, first)
	require.NoError(t, err)
	require.EqualValues(t, []int64{0, 2}, []int64{p.Accepted.Load() + p.Duplicate.Load() + p.Rejected.Load(), p.Unfinished.Load()}, "what is kept is not kept twice")

	p, err = s.run(cfg, second)
	require.NoError(t, err)
	require.EqualValues(t, []int64{1, 2}, []int64{p.Accepted.Load(), p.Unfinished.Load()})
	require.Contains(t, s.taken, "a "+call("a", "start", "12:00:00")+call("a", "midpoint", "12:00:08")+call("a", "complete", "12:00:15"))

	p, err = s.run(cfg, third)
	require.NoError(t, err)
	require.EqualValues(t, []int64{1, 2}, []int64{p.Accepted.Load(), p.Unfinished.Load()}, "the log's times say that nothing is added to one")
	require.Contains(t, s.taken, "old "+call("old", "start", "12:00:01"))

	cfg.Finish = true
	p, err = s.run(cfg, third)
	require.NoError(t, err)
	require.EqualValues(t, []int64{2, 0}, []int64{p.Accepted.Load(), p.Unfinished.Load()})
	require.Len(t, s.taken, 5)
	fourth := put(t, dir, "4.log", []byte(call("d", "close", "13:06:00")+call("c", "start", "13:07:00")))
	p, err = s.run(cfg, fourth)
	require.NoError(t, err)
	require.Zero(t, p.Answered(), "what comes late is none of another session")
	require.NoError(t, os.Remove(fourth))
	for row, times := range s.sent() {
		require.Equal(t, 1, times, row)
	}

	s = newService(t)
	cfg.Results = t.TempDir()
	_, err = s.run(cfg, dir)
	require.NoError(t, err)
	require.Len(t, s.taken, 5)
	require.Contains(t, s.taken, "a "+call("a", "start", "12:00:00")+call("a", "midpoint", "12:00:08")+call("a", "complete", "12:00:15"), "finished with the last log, not with each")

	s = newService(t)
	cfg.Finish, cfg.Results = false, t.TempDir()
	for range 2 { // the whole folder at once, and again
		p, err = s.run(cfg, dir)
		require.NoError(t, err)
		require.Len(t, s.taken, 3)
		require.EqualValues(t, 2, p.Unfinished.Load())
	}
	for row, times := range s.sent() {
		require.Equal(t, 1, times, row)
	}
}

// TestSessionIsKeptUntilItIsAnswered: what a log has left is not lost as a run ends before the service has
// answered the session that it became part of.
func TestSessionIsKeptUntilItIsAnswered(t *testing.T) {
	dir := t.TempDir()
	first := put(t, dir, "1.log", []byte(call("a", "start", "12:00:00")))
	second := put(t, dir, "2.log", []byte(call("a", "complete", "12:00:15")))
	s := newService(t)
	cfg := Config{Format: "vast"}
	_, err := s.run(cfg, first)
	require.NoError(t, err)
	require.NoError(t, os.Remove(first))

	s.before = func(int, *http.Request) (*http.Response, error) { return refuse(t, 403, "AUTH_SCOPE"), nil }
	_, err = s.run(cfg, second)
	require.ErrorContains(t, err, "AUTH_SCOPE")
	s.before = nil
	for _, want := range []int64{1, 0} {
		p, err := s.run(cfg, second)
		require.NoError(t, err)
		require.EqualValues(t, want, p.Accepted.Load())
	}
	require.Contains(t, s.taken, "a "+call("a", "start", "12:00:00")+call("a", "complete", "12:00:15"))
}

// TestPlacesOfEvents: an error of an event names its place in the file.
func TestPlacesOfEvents(t *testing.T) {
	s := newService(t)
	s.of = func(row string) map[string]any {
		if strings.HasPrefix(row, "b ") {
			return map[string]any{"status": "rejected", "error": map[string]any{"error": "VALIDATION_FAILED", "field": "line 4, timestamp", "message": "must be a time"}}
		}
		return nil
	}
	path := put(t, t.TempDir(), "calls.log", []byte("# calls\n"+call("a", "start", "12:00:00")+call("b", "start", "12:00:00")+call("a", "complete", "12:00:15")+call("b", "complete", "12:00:99")+call("b", "complete", "12:00:20")))
	_, err := s.run(Config{Format: "vast"}, path)
	require.NoError(t, err)
	results := resultsOf(t, path)
	require.Equal(t, statusAccepted, results[1].Status)
	require.Contains(t, string(results[2].Error), `"line 5, timestamp"`)
	require.Equal(t, "b", results[2].RowID)
}

// TestLogsInTheirOrder: logs are read in the order of their times, whatever their names are, and a session
// whose start is in none that was read yet waits for it.
func TestLogsInTheirOrder(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "t.log", []byte(call("a", "complete", "12:00:15")))
	older := put(t, dir, "t.log.1", []byte(call("a", "start", "12:00:00")))
	want := "a " + call("a", "start", "12:00:00") + call("a", "complete", "12:00:15")
	s := newService(t)
	_, err := s.run(Config{Format: "vast"}, dir)
	require.NoError(t, err)
	require.Len(t, s.taken, 1)
	require.Contains(t, s.taken, want)

	s = newService(t)
	cfg := Config{Format: "vast", Results: t.TempDir()}
	p, err := s.run(cfg, filepath.Join(dir, "t.log"))
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Unfinished.Load())
	_, err = s.run(cfg, older)
	require.NoError(t, err)
	require.Len(t, s.taken, 1)
}

// TestClocksOfLogs: a device whose clock is ahead ends no other's session, and where no time can be read
// the service says so.
func TestClocksOfLogs(t *testing.T) {
	dir := t.TempDir()
	var text string
	for i := range 40 {
		text += call(fmt.Sprint("d", i), "start", fmt.Sprintf("12:00:%02d", i))
	}
	path := put(t, dir, "ahead.log", []byte(text+strings.ReplaceAll(call("ahead", "start", "12:00:00"), "2026-11-01", "2026-11-03")))
	s := newService(t)
	p, err := s.run(Config{Format: "vast"}, path)
	require.NoError(t, err)
	require.EqualValues(t, []int64{0, 41}, []int64{p.Answered(), p.Unfinished.Load()})

	path = put(t, t.TempDir(), "unread.log", []byte(strings.ReplaceAll(text, "Z\n", "\n")))
	p, err = s.run(Config{Format: "vast"}, path)
	require.NoError(t, err)
	require.EqualValues(t, []int64{40, 0}, []int64{p.Answered(), p.Unfinished.Load()})
}

// TestCorrectedSession: one that was rejected is sent again once its log says something else.
func TestCorrectedSession(t *testing.T) {
	s := newService(t)
	s.of = func(row string) map[string]any {
		if strings.Contains(row, "wrong") {
			return map[string]any{"status": "rejected", "error": map[string]any{"error": "VALIDATION_FAILED", "message": "no"}}
		}
		return nil
	}
	dir := t.TempDir()
	path := put(t, dir, "calls.log", []byte(call("a", "start", "12:00:00")+call("a", "complete&wrong=1", "12:00:15")))
	for _, want := range []int64{1, 0} {
		p, err := s.run(Config{Format: "vast"}, path)
		require.NoError(t, err)
		require.EqualValues(t, want, p.Rejected.Load())
	}
	put(t, dir, "calls.log", []byte(call("a", "start", "12:00:00")+call("a", "complete", "12:00:15")))
	p, err := s.run(Config{Format: "vast"}, path)
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Accepted.Load())
}
