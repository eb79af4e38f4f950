package verify

import (
	"fmt"
	"slices"

	"muniment/sealer"
)

// Report is what verifying some files came to.
type Report struct {
	OK    bool         `json:"ok"`
	Files []FileReport `json:"files"`
	// Message says why no file could be judged.
	Message string `json:"message,omitempty"`
}

// FileReport is what verifying one file came to.
type FileReport struct {
	File string `json:"file"`
	// Kind is "pack", "receipt", "directory", "proof" (of inclusion), "event",
	// "consistency", "checkpoint", "export", "erasure", "dsar_bundle", "statement" or "unknown".
	Kind     string    `json:"kind"`
	Verdicts []Verdict `json:"verdicts"`

	pack *packCheck // of a pack
	// conduct is of a pack, an export, a proof, or a receipt with its event beside it.
	conduct *conduct
	// stuck is set if the file could not be judged for want of something else: it
	// can't be read, or no directory was given.
	stuck bool
}

// ok reports whether no check failed.
func (f *FileReport) ok() bool {
	return !slices.ContainsFunc(f.Verdicts, func(v Verdict) bool { return !v.OK })
}

func (f *FileReport) add(v ...Verdict) { f.Verdicts = append(f.Verdicts, v...) }

func (f *FileReport) pass(code sealer.Code, format string, args ...any) {
	f.add(Verdict{Code: code, OK: true, Message: fmt.Sprintf(format, args...)})
}

func (f *FileReport) fail(code sealer.Code, format string, args ...any) {
	f.add(Verdict{Code: code, Message: fmt.Sprintf(format, args...)})
}

// noteSandbox remarks, once, that what the file proves rests on a key of the sandbox.
func (f *FileReport) noteSandbox(keyID string) {
	if !f.sandboxed() {
		f.add(sandboxKey(keyID))
	}
}

func (f *FileReport) sandboxed() bool {
	return slices.ContainsFunc(f.Verdicts, func(v Verdict) bool { return v.Code == KeySandbox })
}

func sandboxKey(keyID string) Verdict {
	return Verdict{Code: KeySandbox, OK: true, Message: fmt.Sprintf("signed by key %s of the sandbox: anyone can make such evidence, under any names", keyID)}
}

// unreadable notes that the disk, not the file's content, is at fault.
func (f *FileReport) unreadable(err error) {
	f.stuck = true
	f.add(Verdict{Code: InputUnreadable, Message: err.Error()})
}

// noDirectory adds the verdict that there are no keys to verify the file with.
func (f *FileReport) noDirectory() {
	f.stuck = true
	f.fail(sealer.KeyUnknown, "no key directory: give the service's /.well-known/muniment/keys.json as a further file or by --keys, or a pack that holds one")
}
