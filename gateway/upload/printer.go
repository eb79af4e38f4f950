package upload

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Printer shows progress until Stop: a bar that is drawn anew, or lines where Width is 0, or
// JSON objects, one a line.
type Printer struct {
	out   io.Writer
	width int
	json  bool
	p     *Progress
	began time.Time
	stop  chan struct{}
	ended chan struct{}
}

// The rhythm of bars, and of lines.
const (
	drawEvery = 200 * time.Millisecond
	lineEvery = 10 * time.Second
)

// StartPrinter shows p on out: as a bar of that many columns, or without columns by lines.
func StartPrinter(out io.Writer, p *Progress, columns int, asJSON bool) *Printer {
	r := &Printer{out: out, width: columns, json: asJSON, p: p, began: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	go r.run()
	return r
}

func (r *Printer) run() {
	defer close(r.ended)
	every := lineEvery
	if r.bar() {
		every = drawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.show()
		case <-r.stop:
			if r.bar() {
				fmt.Fprint(r.out, "\r\x1b[K") // what follows stands in its place
			}
			return
		}
	}
}

func (r *Printer) bar() bool { return r.width > 0 && !r.json }

// Stop ends the show, and prints the totals. It returns once nothing more is printed.
func (r *Printer) Stop() {
	close(r.stop)
	<-r.ended
	if r.json {
		r.writeJSON(true)
		return
	}
	fmt.Fprintln(r.out, r.totals())
}

func (r *Printer) show() {
	switch {
	case r.json:
		r.writeJSON(false)
	case r.width > 0:
		fmt.Fprint(r.out, "\r"+r.drawn()+"\x1b[K")
	default:
		fmt.Fprintln(r.out, r.line())
	}
}

// line is how far it is.
func (r *Printer) line() string {
	rows := r.p.Answered()
	text := fmt.Sprintf("%3d%%  %s rows", r.percent(), grouped(rows))
	if s := time.Since(r.began).Seconds(); s >= 1 {
		text += fmt.Sprintf(", %s/s", grouped(int64(float64(rows)/s)))
	}
	if n := r.p.Rejected.Load(); n > 0 {
		text += fmt.Sprintf(", %s rejected", grouped(n))
	}
	if n := r.p.Unmapped.Load(); n > 0 {
		text += fmt.Sprintf(", %s unmapped", grouped(n))
	}
	if n := r.p.Held.Load(); n > 0 {
		text += fmt.Sprintf(", %s held", grouped(n))
	}
	if why := r.p.Trouble(); why != "" {
		text += "; retrying: " + why
	}
	return text
}

// drawn is the same behind a bar, as far as the terminal is wide.
func (r *Printer) drawn() string {
	const cells = 24
	full := r.percent() * cells / 100
	text := []rune("[" + strings.Repeat("#", full) + strings.Repeat(".", cells-full) + "] " + r.line())
	return string(text[:min(len(text), max(r.width-1, 1))])
}

func (r *Printer) percent() int {
	total := r.p.TotalBytes.Load()
	if total == 0 {
		return 0
	}
	return int(min(100, 100*r.p.Bytes.Load()/total))
}

// totals is what became of all rows.
func (r *Printer) totals() string {
	parts := []string{
		grouped(r.p.Accepted.Load()) + " accepted", grouped(r.p.Duplicate.Load()) + " duplicate", grouped(r.p.Rejected.Load()) + " rejected",
	}
	if n := r.p.Unmapped.Load(); n > 0 {
		parts = append(parts, grouped(n)+" unmapped, which are held until a mapping knows them")
	}
	if n := r.p.Held.Load(); n > 0 {
		parts = append(parts, grouped(n)+" held until their right is resumed")
	}
	text := fmt.Sprintf("%s rows of %d files in %s: %s", grouped(r.p.Answered()), r.p.Files.Load(), time.Since(r.began).Round(time.Second/10), strings.Join(parts, ", "))
	if n := r.p.Skipped.Load(); n > 0 {
		text += fmt.Sprintf("; %s were done before", grouped(n))
	}
	if n := r.p.Unfinished.Load(); n > 0 {
		text += fmt.Sprintf("; %s sessions are not finished: they are kept until a later log ends them, or until --finish", grouped(n))
	}
	if why := r.p.Warning(); why != "" {
		text += "; note: " + why
	}
	if n := r.p.Unknown.Load(); n > 0 {
		text += fmt.Sprintf("; %d files were passed over: their names don't say what they hold", n)
	}
	return text
}

func (r *Printer) writeJSON(done bool) {
	// An upload goes on if its output can't be written.
	_ = json.NewEncoder(r.out).Encode(struct {
		Done       bool    `json:"done"`
		Files      int64   `json:"files"`
		Of         int64   `json:"totalFiles"`
		Bytes      int64   `json:"bytes"`
		OfBytes    int64   `json:"totalBytes"`
		Accepted   int64   `json:"accepted"`
		Duplicate  int64   `json:"duplicate"`
		Rejected   int64   `json:"rejected"`
		Unmapped   int64   `json:"unmapped"`
		Held       int64   `json:"held"`
		Skipped    int64   `json:"skipped"`
		Unfinished int64   `json:"unfinishedSessions"`
		Unknown    int64   `json:"unknownFiles"`
		Retries    int64   `json:"retries"`
		Trouble    string  `json:"trouble,omitempty"`
		Warning    string  `json:"warning,omitempty"`
		Seconds    float64 `json:"seconds"`
	}{
		done, r.p.Files.Load(), r.p.TotalFiles.Load(), r.p.Bytes.Load(), r.p.TotalBytes.Load(), r.p.Accepted.Load(), r.p.Duplicate.Load(),
		r.p.Rejected.Load(), r.p.Unmapped.Load(), r.p.Held.Load(), r.p.Skipped.Load(), r.p.Unfinished.Load(), r.p.Unknown.Load(), r.p.Retries.Load(), r.p.Trouble(), r.p.Warning(), time.Since(r.began).Seconds(),
	})
}

// grouped is a number with its thousands apart.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
