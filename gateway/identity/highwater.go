package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keyfile"
)

// # The high-water mark
//
// A rotation ends the old key's window after every time that the key was acquired for, including
// in previous processes, even if their clocks were ahead. So the folder holds the latest such
// time: Run writes the file ahead of the clock, and Close writes the exact time. If the file
// can't be written, signing continues.

const highWaterFile = "latest"

const (
	// markAhead is how far ahead of the clock the mark is written.
	markAhead = 10 * time.Second
	// markEvery is how often Run checks whether the mark must be moved.
	markEvery = 2 * time.Second
)

// readHighWater reads the high-water mark; zero if there is none.
func readHighWater(dir string) (at time.Time, err error) {
	path := filepath.Join(dir, highWaterFile)
	text, err := keyfile.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err == nil {
		at, err = canonical.ParseTime(strings.TrimSuffix(string(text), "\n"))
	}
	if err != nil {
		return at, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return at, nil
}

// writeHighWater writes a time that is after every time signed for so far, and not before at.
func (n *Node) writeHighWater(at time.Time) error {
	n.mu.Lock()
	if n.latest.After(at) {
		at = n.latest
	}
	n.mu.Unlock()
	at = nextMilli(at)
	if err := keyfile.Write(filepath.Join(n.cfg.Dir, highWaterFile), []byte(canonical.FormatTime(at)+"\n"), 0o600); err != nil {
		return fmt.Errorf("cannot write the high-water mark: %w", err)
	}
	n.highWater = at
	return nil
}

// keepHighWater keeps the mark ahead of the clock until ctx is done.
func (n *Node) keepHighWater(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := n.cfg.Now()
		if n.highWater.Sub(now) > markAhead/2 {
			continue
		}
		err := n.writeHighWater(now.Add(markAhead))
		if err != nil && !failing {
			n.cfg.Logger.Error("if the clock is set back before the next start, a rotation may end a key's window too early", "err", err)
		}
		failing = err != nil
	}
}
