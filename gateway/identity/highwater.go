package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// # The high-water mark
//
// A rotation ends the old key's window after every moment that it was acquired for, also in
// processes before this one, whatever their clocks were. So the folder holds the latest such
// moment: the file is written ahead of the clock, and is exact after an orderly end. While it
// can't be written, signing goes on.

const highWaterFile = "latest"

const (
	// ahead is how far the mark is written ahead of the clock.
	ahead = 10 * time.Second
	// behind is how often Run checks whether it must be moved.
	behind = 2 * time.Second
)

// readHighWater reads the high-water mark; zero if there is none.
func readHighWater(dir string) (at time.Time, err error) {
	path := filepath.Join(dir, highWaterFile)
	text, err := keyfile.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err == nil {
		at, err = sealer.ParseTime(strings.TrimSuffix(string(text), "\n"))
	}
	if err != nil {
		return at, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return at, nil
}

// noteHighWater writes a moment after all that were signed for so far, and at least the given
// one.
func (n *Node) noteHighWater(at time.Time) error {
	n.mu.Lock()
	if n.latest.After(at) {
		at = n.latest
	}
	n.mu.Unlock()
	at = nextMilli(at)
	if err := keyfile.Write(filepath.Join(n.cfg.Dir, highWaterFile), []byte(sealer.FormatTime(at)+"\n"), 0o600); err != nil {
		return fmt.Errorf("cannot note up to when was signed: %w", err)
	}
	n.highWater = at
	return nil
}

// keepHighWater keeps the mark ahead of the clock until ctx is done.
func (n *Node) keepHighWater(ctx context.Context) {
	tick := time.NewTicker(behind)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := n.cfg.Now()
		if n.highWater.Sub(now) > ahead/2 {
			continue
		}
		err := n.noteHighWater(now.Add(ahead))
		if err != nil && !failing {
			n.cfg.Logger.Error("if the clock is set back before the next start, a rotation may end a key's window too early", "err", err)
		}
		failing = err != nil
	}
}
