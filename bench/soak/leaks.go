package soak

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"muniment.example/bench/abuse"
)

// Words that stand in requests of Soak and in nothing that a server may log: of
// keys, of headers, of drips and of header bombs.
var hiddenWords = []string{
	"mun_test_", "mun_live_", "bearer", "authorization", "content-length", "x-drip", "x-bomb", abuse.BombFill[:16],
}

// hide remembers what no log may hold: the secret of a key, or either half of it, and
// the names and texts of the bodies' telemetry.
func (r *soaking) hide(key string, bodies [][]byte) error {
	parts := strings.Split(key, "_") // mun, environment, id, secret, checksum
	if len(parts) != 5 || len(parts[3]) < 16 {
		return errors.New("an API key is not mun_<env>_<id>_<secret>_<crc>")
	}
	secrets := []string{parts[3]}
	token, err := r.server.AdminToken()
	if err != nil {
		return err
	}
	if len(token) < 16 {
		return errors.New("the server has no admin token")
	}
	for _, s := range append(secrets, token) {
		r.hidden = append(r.hidden, s[:len(s)/2], s[len(s)/2:])
	}
	for _, body := range bodies {
		var delivery struct{ Telemetry any }
		if err := json.Unmarshal(body, &delivery); err != nil {
			return err
		}
		r.hidden = telling(r.hidden, delivery.Telemetry)
	}
	r.hidden = append(r.hidden, hiddenWords...)
	for i, text := range r.hidden {
		r.hidden[i] = strings.ToLower(text)
	}
	slices.Sort(r.hidden)
	r.hidden = slices.Compact(r.hidden)
	return nil
}

// telling appends names and texts of a JSON value, as far as they are long enough
// not to stand in a log by chance.
func telling(to []string, value any) []string {
	const least = 6
	switch v := value.(type) {
	case string:
		if len(v) >= least {
			to = append(to, v)
		}
	case []any:
		for _, one := range v {
			to = telling(to, one)
		}
	case map[string]any:
		for name, one := range v {
			to = telling(telling(to, name), one)
		}
	}
	return to
}

// leaked is what was found in a log.
type leaked struct {
	lines   int
	leaking []string // lines that hold what they must not
}

// search looks for hidden texts, which are in lower case, in whatever case.
func search(log io.Reader, hidden []string) (leaked, error) {
	var l leaked
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			l.lines++
			low := strings.ToLower(line)
			if slices.ContainsFunc(hidden, func(text string) bool { return strings.Contains(low, text) }) {
				l.leaking = append(l.leaking, line)
			}
		}
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return l, err
		}
	}
}

// searchLog holds what the server has logged against what is hidden, and shows the
// first line that leaks.
func (r *soaking) searchLog(file string) error {
	log, err := os.Open(file)
	if err != nil {
		return err
	}
	defer log.Close()
	l, err := search(log, r.hidden)
	if err != nil {
		return err
	}
	if len(l.leaking) > 0 {
		fmt.Fprintf(r.out, "the log says: %s\n", strings.TrimSpace(l.leaking[0]))
	}
	r.leaks(l)
	return nil
}
