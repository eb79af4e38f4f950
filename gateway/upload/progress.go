package upload

import (
	"sync/atomic"

	"muniment.example/gateway/remote"
)

// Progress counts what a run has done so far. It may be read at any time.
type Progress struct {
	TotalFiles, Files atomic.Int64 // Files are read and answered
	TotalBytes, Bytes atomic.Int64 // of files as they lie on the disk

	// Rows by their status, those that an earlier run had done, and attempts that were made again.
	Accepted, Duplicate, Rejected, Unmapped, Held, Skipped, Retries atomic.Int64
	// Unfinished are sessions that are kept until a later log ends them.
	Unfinished atomic.Int64
	// Unknown are files of folders whose names don't say what they hold.
	Unknown atomic.Int64

	why     atomic.Pointer[string]
	warning atomic.Pointer[string]
}

// Warning is what the service said of the rows of a document; empty if it said nothing.
func (p *Progress) Warning() string { return loaded(&p.warning) }

func loaded(text *atomic.Pointer[string]) string {
	if text := text.Load(); text != nil {
		return *text
	}
	return ""
}

func (p *Progress) warn(text string) {
	text = remote.Printable(text)
	p.warning.Store(&text)
}

// Trouble is why the last attempt failed; empty once one succeeds.
func (p *Progress) Trouble() string { return loaded(&p.why) }

// Answered is the rows that this run has had answered.
func (p *Progress) Answered() int64 {
	return p.Accepted.Load() + p.Duplicate.Load() + p.Rejected.Load() + p.Unmapped.Load() + p.Held.Load()
}

func (p *Progress) trouble(err error) {
	why := remote.Printable(err.Error())
	p.why.Store(&why)
	p.Retries.Add(1)
}

func (p *Progress) count(lines []result) {
	p.why.Store(nil)
	for i := range lines {
		switch lines[i].Status {
		case statusAccepted:
			p.Accepted.Add(1)
		case statusDuplicate:
			p.Duplicate.Add(1)
		case statusRejected:
			p.Rejected.Add(1)
		case statusUnmapped:
			p.Unmapped.Add(1)
		case statusHeld:
			p.Held.Add(1)
		}
	}
}
