package sealer

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// originPrefix begins the name of every log of ours.
const originPrefix = "muniment/"

// head is a signed checkpoint that came with evidence.
type head struct {
	Checkpoint
	// key has signed it.
	key *Key
	// revoked is set if the key was revoked after SealedAt, as far as that is true:
	// then only something else can vouch for the head.
	revoked bool
}

// head opens a signed checkpoint of any log with the keys of d. A code says why it
// can't be trusted.
func (d *Directory) head(text string) (head, Code, error) {
	body, signatures, _ := strings.Cut(text, "\n\n")
	origin, _, _ := strings.Cut(body, "\n")
	id, err := firstKeyHash(signatures, origin)
	if err == nil {
		err = checkOrigin(origin)
	}
	if err != nil {
		return head{}, FormatInvalid, fmt.Errorf("no signed checkpoint: %w", err)
	}
	code := KeyUnknown
	for i := range d.Keys {
		key := &d.Keys[i]
		pub, err := key.Public()
		if err != nil {
			continue
		}
		if v, err := newNoteVerifier(origin, pub); err != nil || v.KeyHash() != id {
			continue
		}
		if !PurposeOf(key.Purpose).Packs {
			code = KeyPurpose
			continue
		}
		h := head{key: key}
		if h.Checkpoint, err = OpenCheckpoint(text, origin, pub); err != nil {
			return head{}, checkpointFault(err), err
		}
		code = h.judge(d)
		return h, code, nil
	}
	return head{}, code, fmt.Errorf("the checkpoint of %s is signed by another key", origin)
}

// checkpointFault tells a wrong signature from a wrong form.
func checkpointFault(err error) Code {
	if _, ok := errors.AsType[*note.InvalidSignatureError](err); ok {
		return SignatureInvalid
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

// judge asks whether the key may have signed. The moment is known to the second,
// in which the key's window may have begun.
func (h *head) judge(d *Directory) Code {
	at := h.SealedAt
	if h.key.NotBefore.Truncate(time.Second).Equal(at) {
		at = h.key.NotBefore
	}
	_, code := d.Find(h.key.KeyID, h.key.Purpose, at)
	if code == KeyRevoked {
		_, code = d.FindSealed(h.key.KeyID, h.key.Purpose, at, h.latest())
		h.revoked = code == ""
	}
	return code
}

// ofSandbox says whether the head is of a log of the sandbox.
func (h *head) ofSandbox() bool { return PurposeOf(h.key.Purpose).Sandbox }

// receipts is the purpose of the keys that sign the receipts under the head.
func (h *head) receipts() string { return ReceiptPurpose(h.ofSandbox()) }

// seenRoot is a root of one log that a file proves, and when it stood at the latest.
type seenRoot struct {
	file *FileReport
	size uint64
	root Hash
	by   time.Time
}

// span is a run of leaves of one log that a sound file holds.
type span struct {
	file   *FileReport
	before *Tree
	last   uint64 // the size of the log behind the last leaf
	end    Hash   // its root
	leaves []Hash // empty if nobody asks for them
	by     time.Time
}

// root recomputes the log's root of a size, if the span reaches it.
func (s *span) root(size uint64) (Hash, bool) {
	first := s.before.Size()
	switch {
	case size == s.last:
		return s.end, true
	case size < first, size > first+uint64(len(s.leaves)):
		return Hash{}, false
	}
	tree := s.before.Clone()
	for _, leaf := range s.leaves[:size-first] {
		tree.Append(leaf)
	}
	return tree.Root(), true
}

// span is what the entries of a file were folded into, from before on.
func (l *ledger) span(f *FileReport, before *Tree, by time.Time) *span {
	return &span{f, before, l.next(), l.tree.Root(), l.leaves, by}
}

// known is what the given files prove about one log.
type known struct {
	roots []seenRoot
	spans []*span
}

// known returns what is known about a log.
func (v *verification) known(origin string) *known {
	k := v.logs[origin]
	if k == nil {
		k = new(known)
		v.logs[origin] = k
	}
	return k
}

func (k *known) learn(f *FileReport, size uint64, root Hash, by time.Time) {
	k.roots = append(k.roots, seenRoot{f, size, root, by})
}

// vouch says whether the files prove a root, and by when it stood at the latest.
func (k *known) vouch(size uint64, root Hash) (by time.Time, ok bool) {
	note := func(at time.Time) {
		if !ok || at.Before(by) {
			by, ok = at, true
		}
	}
	for _, r := range k.roots {
		if r.size == size && r.root == root {
			note(r.by)
		}
	}
	for _, s := range k.spans {
		if (!ok || s.by.Before(by)) && s.holds(size, root) {
			note(s.by)
		}
	}
	return by, ok
}

func (s *span) holds(size uint64, root Hash) bool {
	have, ok := s.root(size)
	return ok && have == root
}

// rootAt is the root of a size, if the files tell it.
func (k *known) rootAt(size uint64) (Hash, bool) {
	for _, r := range k.roots {
		if r.size == size {
			return r.root, true
		}
	}
	for _, s := range k.spans {
		if root, ok := s.root(size); ok {
			return root, true
		}
	}
	return Hash{}, false
}

// newest is the largest size that the files prove.
func (k *known) newest() (size uint64) {
	for _, r := range k.roots {
		size = max(size, r.size)
	}
	return size
}

// forks fails the files that prove two roots of one size. Which of them is the
// fork can't be told.
func (k *known) forks() {
	slices.SortStableFunc(k.roots, func(a, b seenRoot) int { return cmp.Compare(a.size, b.size) })
	for i, r := range k.roots {
		if i > 0 && k.roots[i-1].size == r.size && k.roots[i-1].root != r.root {
			fork(r.size, r.file, k.roots[i-1].file)
		}
		for _, s := range k.spans {
			if s.file == r.file {
				continue
			}
			if root, ok := s.root(r.size); ok && root != r.root {
				fork(r.size, r.file, s.file)
			}
		}
	}
}

func fork(size uint64, files ...*FileReport) {
	for i, f := range files {
		f.add(Verdict{Code: ChainFork, Message: fmt.Sprintf("the log has another root at size %d in %s", size, files[1-i].File)})
	}
}

// checkpoint judges a signed checkpoint that a file holds, whose key may be revoked
// and then needs something else that proves it. by is when it stood at the latest.
func (v *verification) checkpoint(f *FileReport, h *head) (by time.Time, ok bool) {
	by, known := v.known(h.Origin).vouch(h.Size, h.Root)
	switch {
	case !h.revoked:
		if at := h.latest(); !known || at.Before(by) {
			by = at
		}
		f.pass(CheckpointOK, "signed note of %s, size %d, sealed at %s", h.Origin, h.Size, FormatTime(h.SealedAt))
	case known:
		f.pass(ChainVouched, "key %s was revoked later; a later checkpoint builds on this one", h.key.KeyID)
		f.pass(CheckpointOK, "signed note of %s, size %d, sealed by %s", h.Origin, h.Size, FormatTime(by))
	default:
		f.fail(KeyRevoked, "the checkpoint is signed by key %s, and nothing proves that it was signed before the revocation", h.key.KeyID)
		return by, false
	}
	return by, true
}

func (f *FileReport) pass(code Code, format string, args ...any) {
	f.add(Verdict{Code: code, OK: true, Message: fmt.Sprintf(format, args...)})
}

func (f *FileReport) fail(code Code, format string, args ...any) {
	f.add(Verdict{Code: code, Message: fmt.Sprintf(format, args...)})
}
