package verify

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"muniment/sealer"
)

// expect compares the files with a checkpoint that was held outside, which is taken on
// trust: the log must have been neither rolled back nor forked since.
func (v *verification) expect(name string) FileReport {
	f := FileReport{File: name, Kind: kindCheckpoint, Verdicts: []Verdict{}}
	c, err := readExpected(name)
	if err != nil {
		if _, disk := errors.AsType[*fs.PathError](err); disk {
			f.unreadable(err)
		} else {
			f.fail(FormatInvalid, "%v", err)
		}
		return f
	}
	k := v.known(c.Origin)
	root, known := k.rootAt(c.Size)
	switch {
	case len(k.roots) == 0:
		f.fail(ConsistencyUnproven, "nothing that was given proves a checkpoint of %s", c.Origin)
	case k.newest() < c.Size:
		f.fail(Rollback, "%s had %d leaves, in what was given it has %d", c.Origin, c.Size, k.newest())
	case !known:
		f.fail(ConsistencyUnproven, "the root of %s at size %d can't be told: give the packs between, or a consistency proof from it", c.Origin, c.Size)
	case root != c.Root:
		f.fail(ConsistencyMismatch, "%s has another root at size %d", c.Origin, c.Size)
	default:
		f.pass(ConsistencyOK, "%s still has the root that it had at size %d, and %d leaves now", c.Origin, c.Size, k.newest())
	}
	return f
}

// readExpected finds the checkpoint in a file of any kind that has one: a note or an
// answer with it, a proof, a pack, an export. Its signatures are not verified.
func readExpected(name string) (sealer.Checkpoint, error) {
	f := FileReport{File: name}
	text, err := f.open()
	if err != nil {
		return sealer.Checkpoint{}, err
	}
	var note string
	switch f.Kind {
	case kindCheckpoint:
		note, err = readNote(string(text))
	case kindProof:
		var p sealer.InclusionProof
		_, p, err = readInclusion(string(text))
		note = p.Checkpoint
	case kindConsistency:
		var p sealer.ConsistencyProof
		p, err = sealer.ParseConsistencyProof([]byte(unwrap(string(text))))
		note = p.To
	case kindPack, kindExport:
		note, err = lastCheckpoint(&f)
	default:
		err = errors.New("no checkpoint, and nothing that holds one")
	}
	if err != nil {
		return sealer.Checkpoint{}, err
	}
	return sealer.ParseCheckpoint(noteText(note))
}

// lastCheckpoint is the newest one in a pack or an export.
func lastCheckpoint(f *FileReport) (string, error) {
	file, err := os.Open(f.File)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if f.Kind == kindPack {
		p, err := sealer.ReadPack(file)
		if err != nil {
			return "", err
		}
		return p.Header().Checkpoint, nil
	}
	e, err := sealer.ReadExport(file)
	if err != nil {
		return "", err
	}
	notes := e.Header().Checkpoints
	return notes[len(notes)-1], nil
}

// noteText is the text of a signed note, without its signatures.
func noteText(note string) string {
	text, _, _ := strings.Cut(note, "\n\n")
	return text + "\n"
}
