package verify

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
)

// head is a signed checkpoint that came with evidence.
type head struct {
	checkpoint.Checkpoint
	// key has signed it.
	key *keydir.Key
	// revoked is set if the key was revoked after SealedAt. As a thief of the key can write any
	// SealedAt, something else has to vouch for the head.
	revoked bool
}

// openHead opens a signed checkpoint of any log with the keys of d. A code says why it
// can't be trusted.
func openHead(d *keydir.Directory, text string) (head, sealer.Code, error) {
	origin, _, _ := strings.Cut(text, "\n")
	keys, err := signers(d, text, origin)
	if err == nil {
		err = checkpoint.CheckOrigin(origin)
	}
	if err != nil {
		return head{}, FormatInvalid, fmt.Errorf("no signed checkpoint: %w", err)
	}
	code := sealer.KeyUnknown
	for _, key := range keys {
		if !keydir.PurposeOf(key.Purpose).Packs {
			code = sealer.KeyPurpose
			continue
		}
		pub, err := key.Public()
		if err != nil {
			return head{}, sealer.KeyUnknown, err
		}
		h := head{key: key}
		if h.Checkpoint, err = checkpoint.Open(text, origin, pub); err != nil {
			return head{}, checkpointFault(err), err
		}
		code = h.judge(d)
		return h, code, nil
	}
	return head{}, code, fmt.Errorf("the checkpoint of %s is signed by another key", origin)
}

// signers are the keys of d with the key hash of a note's first signature, which must be by name.
func signers(d *keydir.Directory, text, name string) (keys []*keydir.Key, err error) {
	_, signatures, _ := strings.Cut(text, "\n\n")
	id, err := firstKeyHash(signatures, name)
	if err != nil {
		return nil, err
	}
	for i := range d.Keys {
		pub, err := d.Keys[i].Public()
		if err != nil {
			continue
		}
		vkey, err := note.NewEd25519VerifierKey(name, pub)
		if err != nil {
			continue
		}
		if v, err := note.NewVerifier(vkey); err == nil && v.KeyHash() == id {
			keys = append(keys, &d.Keys[i])
		}
	}
	return keys, nil
}

// checkpointFault is the code of a note that can't be opened: its signature or its form is wrong.
func checkpointFault(err error) sealer.Code {
	if _, ok := errors.AsType[*note.InvalidSignatureError](err); ok {
		return sealer.SignatureInvalid
	}
	return FormatInvalid
}

// firstKeyHash is the id of the key in the first signature line, which must be by
// name.
func firstKeyHash(signatures, name string) (uint32, error) {
	line, _, _ := strings.Cut(signatures, "\n")
	text, ok := strings.CutPrefix(line, "— "+name+" ")
	raw, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(raw) < 4 {
		return 0, errors.New("the first signature is not by the log")
	}
	return binary.BigEndian.Uint32(raw), nil
}

// latest is the last millisecond at which the head may have been signed.
func (h *head) latest() time.Time { return h.SealedAt.Add(time.Second - time.Millisecond) }

// judge checks that the key may have signed. SealedAt is cut to the second, and may so be just
// before the key's window.
func (h *head) judge(d *keydir.Directory) sealer.Code {
	at := h.SealedAt
	if h.key.NotBefore.Truncate(time.Second).Equal(at) {
		at = h.key.NotBefore
	}
	_, code := d.Find(h.key.KeyID, h.key.Purpose, at)
	if code == sealer.KeyRevoked {
		_, code = d.FindSealed(h.key.KeyID, h.key.Purpose, at, h.latest())
		h.revoked = code == ""
	}
	return code
}

// ofSandbox says whether the head is of a log of the sandbox.
func (h *head) ofSandbox() bool { return keydir.PurposeOf(h.key.Purpose).Sandbox }

// receipts is the purpose of the keys that sign the receipts under the head.
func (h *head) receipts() string { return keydir.ReceiptPurpose(h.ofSandbox()) }

// checkpoint judges a signed checkpoint that a file holds, whose key may be revoked
// and then needs something else that proves it. by is when it stood at the latest.
func (v *verification) checkpoint(f *FileReport, h *head) (by time.Time, ok bool) {
	by, known := v.known(h.Origin).vouch(h.Size, h.Root)
	switch {
	case !h.revoked:
		if at := h.latest(); !known || at.Before(by) {
			by = at
		}
		f.say(CheckpointOK, "signed note of %s, size %d, sealed at %s", h.Origin, h.Size, canonical.FormatTime(h.SealedAt))
	case known:
		f.say(ChainVouched, "key %s was revoked later; a later checkpoint builds on this one", h.key.KeyID)
		f.say(CheckpointOK, "signed note of %s, size %d, sealed by %s", h.Origin, h.Size, canonical.FormatTime(by))
	default:
		f.say(sealer.KeyRevoked, "the checkpoint is signed by key %s, and nothing proves that it was signed before the revocation", h.key.KeyID)
		return by, false
	}
	return by, true
}

// expect compares the files with a checkpoint that was held outside, which is taken on
// trust: the log must have been neither rolled back nor forked since.
func (v *verification) expect(name string) FileReport {
	f := FileReport{File: name, Kind: kindCheckpoint, Verdicts: []Verdict{}}
	c, err := readExpected(name)
	if err != nil {
		switch _, disk := errors.AsType[*fs.PathError](err); {
		case disk:
			f.unreadable(err)
		case errors.Is(err, errNoCheckpoint):
			f.say(FormatUnknown, "%v", err)
		default:
			f.say(FormatInvalid, "%v", err)
		}
		return f
	}
	k := v.known(c.Origin)
	root, known := k.rootAt(c.Size)
	switch {
	case len(k.roots) == 0:
		f.say(ConsistencyUnproven, "nothing that was given proves a checkpoint of %s", c.Origin)
	case k.newest() < c.Size && !c.SealedAt.IsZero() && k.latest().Truncate(time.Second).After(c.SealedAt):
		f.say(Rollback, "%s had %d leaves at %s, and %d at %s", c.Origin, c.Size, canonical.FormatTime(c.SealedAt), k.newest(), canonical.FormatTime(k.latest()))
	case k.newest() < c.Size:
		f.say(ConsistencyUnproven, "%s had %d leaves, in what was given it has %d, and nothing of it is newer: either a later pack is missing, or the log was rolled back", c.Origin, c.Size, k.newest())
	case !known:
		f.say(ConsistencyUnproven, "the root of %s at size %d is unknown: give the packs between, or a consistency proof from it", c.Origin, c.Size)
	case root != c.Root:
		f.say(ConsistencyMismatch, "%s has another root at size %d", c.Origin, c.Size)
	default:
		f.about = "The log has only grown since the checkpoint that you kept."
		f.say(ConsistencyOK, "%s still has the root that it had at size %d, and %d leaves now", c.Origin, c.Size, k.newest())
	}
	return f
}

var errNoCheckpoint = errors.New("no checkpoint, and nothing that holds one")

// readExpected finds the checkpoint in a file of any kind that has one: a note or an
// answer with it, a proof, a pack, an export. Its signatures are not verified.
func readExpected(name string) (checkpoint.Checkpoint, error) {
	f := FileReport{File: name}
	text, err := f.open()
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	var note string
	switch f.Kind {
	case kindCheckpoint:
		note, err = readNote(string(text))
	case kindProof:
		var p checkpoint.InclusionProof
		_, p, err = readInclusion(string(text))
		note = p.Checkpoint
	case kindConsistency:
		var p checkpoint.ConsistencyProof
		p, err = checkpoint.ParseConsistencyProof([]byte(unwrap(string(text))))
		note = p.To
	case kindPack, kindExport:
		note, err = lastCheckpoint(&f)
	default:
		err = errNoCheckpoint
	}
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	return checkpoint.Read(note)
}

// lastCheckpoint is the newest one in a pack or an export.
func lastCheckpoint(f *FileReport) (string, error) {
	file, err := os.Open(f.File)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if f.Kind == kindPack {
		p, err := pack.Read(&lineEnds{in: file})
		if err != nil {
			return "", err
		}
		return p.Header().Checkpoint, nil
	}
	e, err := pack.ReadExport(&lineEnds{in: file})
	if err != nil {
		return "", err
	}
	notes := e.Header().Checkpoints
	return notes[len(notes)-1], nil
}
