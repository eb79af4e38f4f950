package upload

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/remote"
)

// TestRetries: what the service can't take now is sent again, not before its Retry-After, and
// each row is in once.
func TestRetries(t *testing.T) {
	for name, c := range map[string]struct {
		before      func(t *testing.T, attempt int) (*http.Response, error)
		least, most time.Duration
	}{
		"overloaded": {func(t *testing.T, attempt int) (*http.Response, error) {
			return refuse(t, 503, "INTERNAL_ERROR", "Retry-After", "20"), nil
		}, 3 * 20 * time.Second, 3*20*time.Second + 3*2*time.Second},
		"limited": {func(t *testing.T, attempt int) (*http.Response, error) {
			return refuse(t, 429, "RATE_LIMITED", "Retry-After", time.Now().Add(40*time.Second).UTC().Format(http.TimeFormat)), nil
		}, 3 * 39 * time.Second, 3*40*time.Second + 3*2*time.Second},
		"away": {func(t *testing.T, attempt int) (*http.Response, error) {
			return nil, errors.New("connection refused")
		}, (250 + 500 + 1000) * time.Millisecond, (500+1000+2000)*time.Millisecond + 3},
		"a proxy": {func(t *testing.T, attempt int) (*http.Response, error) {
			return reply(t, 502, "<html>"), nil
		}, (250 + 500 + 1000) * time.Millisecond, (500+1000+2000)*time.Millisecond + 3},
		"half an answer": {func(t *testing.T, attempt int) (*http.Response, error) {
			return reply(t, 200, "half"), nil
		}, (250 + 500 + 1000) * time.Millisecond, (500+1000+2000)*time.Millisecond + 3},
	} {
		t.Run(name, func(t *testing.T) {
			path := put(t, t.TempDir(), "plays.ndjson", []byte(strings.Join(rowsOf(10), "\n")))
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				attempts := 0
				s.before = func(int, *http.Request) (*http.Response, error) {
					if attempts++; attempts <= 3 {
						return c.before(t, attempts)
					}
					return nil, nil
				}
				began := time.Now()
				p, err := s.run(Config{}, path)
				require.NoError(t, err)
				require.EqualValues(t, 3, p.Retries.Load())
				require.EqualValues(t, 10, p.Accepted.Load())
				require.Empty(t, p.Trouble())
				require.GreaterOrEqual(t, time.Since(began), c.least)
				require.LessOrEqual(t, time.Since(began), c.most)
			})
		})
	}
}

// TestGivenUp: a service that stays away ends the run, which a later one goes on from.
func TestGivenUp(t *testing.T) {
	path := put(t, t.TempDir(), "plays.ndjson", []byte(strings.Join(rowsOf(3500), "\n")))
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.before = func(n int, _ *http.Request) (*http.Response, error) {
			if n == 2 {
				return refuse(t, 503, "INTERNAL_ERROR"), nil
			}
			return nil, nil
		}
		began := time.Now()
		_, err := s.run(Config{Senders: 1, RetryFor: 5 * time.Minute}, path)
		require.ErrorContains(t, err, "given up after 5m0s: the service answers 503 INTERNAL_ERROR: no")
		require.Less(t, time.Since(began), 6*time.Minute)
		require.Len(t, resultsOf(t, path), 2000)
		s.before = nil
		p, err := s.run(Config{}, path)
		require.NoError(t, err)
		require.EqualValues(t, 2000, p.Skipped.Load())
		require.EqualValues(t, 1500, p.Accepted.Load())
	})
}

// TestBusyRows: rows that the service rejects for a passing reason are sent again by themselves,
// at last by the next run.
func TestBusyRows(t *testing.T) {
	dir := t.TempDir()
	path := put(t, dir, "plays.ndjson", []byte(strings.Join(rowsOf(10), "\n")))
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		requests, failures := map[string]int{}, 3
		s.of = func(row string) map[string]any {
			if requests[row]++; strings.Contains(row, `"r7"`) && requests[row] <= failures {
				return map[string]any{"status": "rejected", "error": map[string]any{"error": "INTERNAL_ERROR", "reason": "CONTROL_UNAVAILABLE", "message": "away"}}
			}
			return nil
		}
		p, err := s.run(Config{}, path)
		require.NoError(t, err)
		require.EqualValues(t, 10, p.Accepted.Load())
		require.Equal(t, 1, s.sent()[rowsOf(1)[0]], "the others are not sent again")
		require.Equal(t, 4, s.sent()[rowsOf(8)[7]])

		require.NoError(t, os.Remove(path+resultsSuffix))
		clear(requests)
		failures = 20
		began := time.Now()
		p, err = s.run(Config{}, path)
		require.NoError(t, err)
		require.Zero(t, p.Rejected.Load())
		require.Greater(t, time.Since(began), 4*time.Minute, "as long as control is away")

		failures = 1000
		require.NoError(t, os.Remove(path+resultsSuffix))
		clear(requests)
		began = time.Now()
		p, err = s.run(Config{RetryFor: 10 * time.Minute}, path)
		require.Greater(t, time.Since(began), 10*time.Minute)
		require.Less(t, time.Since(began), 11*time.Minute)
		require.NoError(t, err)
		require.EqualValues(t, 1, p.Rejected.Load())
		require.Equal(t, statusRejected, resultsOf(t, path)[7].Status)
		failures = 0
		p, err = s.run(Config{}, path)
		require.NoError(t, err)
		require.EqualValues(t, 9, p.Skipped.Load())
		require.Equal(t, statusDuplicate, resultsOf(t, path)[7].Status)
	})
}

// TestFullQuota: rows above the quota of held rows are left to the next run.
func TestFullQuota(t *testing.T) {
	path := put(t, t.TempDir(), "plays.ndjson", []byte(strings.Join(rowsOf(10), "\n")))
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.of = func(string) map[string]any {
			return map[string]any{"status": "rejected", "error": map[string]any{"error": "RATE_LIMITED", "message": "full"}}
		}
		began := time.Now()
		p, err := s.run(Config{}, path)
		require.NoError(t, err)
		require.EqualValues(t, 10, p.Rejected.Load())
		require.Zero(t, time.Since(began))
		s.of = nil
		p, err = s.run(Config{}, path)
		require.NoError(t, err)
		require.EqualValues(t, 10, p.Accepted.Load())
	})
}

// TestRefused: what ends a file, and what ends the run.
func TestRefused(t *testing.T) {
	for status, ends := range map[int]string{400: "file", 413: "file", 415: "file", 422: "file", 301: "run", 401: "run", 403: "run", 404: "run", 405: "run"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			dir := t.TempDir()
			one := put(t, dir, "1.ndjson", []byte(strings.Join(rowsOf(3000), "\n")))
			put(t, dir, "2.ndjson", []byte(`{"other":1}`))
			s := newService(t)
			refused := 0
			s.before = func(_ int, req *http.Request) (*http.Response, error) {
				if refused++; refused == 1 {
					return refuse(t, status, "SOME_CODE", "Location", "https://elsewhere.example"), nil
				}
				return nil, nil
			}
			p, err := s.run(Config{Senders: 1}, dir)
			require.ErrorContains(t, err, fmt.Sprintf("the service answers %d SOME_CODE: no", status))
			if ends == "run" {
				require.EqualValues(t, 0, p.Accepted.Load())
				return
			}
			require.ErrorContains(t, err, one)
			require.EqualValues(t, 1, p.Accepted.Load(), "the next file is sent")
		})
	}
}

// TestMisleadingAnswers: an answer that does not fit its rows is not taken for theirs.
func TestMisleadingAnswers(t *testing.T) {
	one := map[string]any{"index": 0, "status": "accepted"}
	for want, results := range map[string][]any{
		"with 1 results": {one}, "of row 0": {one, one}, `status "taken\u009b"`: {one, map[string]any{"index": 1, "status": "taken\u009b"}},
	} {
		path := put(t, t.TempDir(), "plays.ndjson", []byte("1\n2\n"))
		s := newService(t)
		s.before = func(int, *http.Request) (*http.Response, error) {
			return reply(t, 200, map[string]any{"data": map[string]any{"results": results}}), nil
		}
		_, err := s.run(Config{}, path)
		require.ErrorContains(t, err, want)
		require.Empty(t, resultsOf(t, path))
	}
	r := remote.Refusal{Status: 422, Code: "X\x1b[2J", Message: strings.Repeat("\x07", 5000)}
	require.NotContains(t, r.Error(), "\x1b")
	require.NotContains(t, r.Error(), "\x07")
}
