//go:build independent

package independent_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// A mutant is evidence that must not pass. Spoilt bytes are not signed; a lie
// is properly signed by the service itself.

// next goes through the numbers below n, again and again, for each purpose. So that
// no lie is left out by chance.
func (s *service) next(purpose string, n int) int {
	s.counts[purpose]++
	return s.counts[purpose] % n
}

// spoil changes bytes without knowing what they mean.
func (s *service) spoil(text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	at, line, other := s.IntN(len(text)), s.IntN(len(lines)), s.IntN(len(lines))
	switch s.IntN(10) {
	case 0:
		return slices.Delete(slices.Clone(text), at, at+1)
	case 1:
		return slices.Insert(slices.Clone(text), at, text[s.IntN(len(text))])
	case 2:
		return text[:at]
	case 3:
		return append(slices.Clone(text), " \n{"[s.IntN(3)])
	case 4:
		return bytes.Join(slices.Delete(slices.Clone(lines), line, line+1), nil)
	case 5:
		return bytes.Join(slices.Insert(slices.Clone(lines), line, lines[other]), nil)
	case 6:
		swapped := slices.Clone(lines)
		swapped[line], swapped[other] = swapped[other], swapped[line]
		return bytes.Join(swapped, nil)
	case 7: // the same digit or letter, another one
		spoilt := slices.Clone(text)
		spoilt[at] = "0189AZaz-_+/=\"\\ "[s.IntN(16)]
		return spoilt
	}
	spoilt := slices.Clone(text)
	spoilt[at] ^= 1 << s.IntN(8)
	return spoilt
}

// withoutLineEnds is a text by which one is told apart from what programs make of its line ends, which is no fault.
func withoutLineEnds(text []byte) []byte {
	return bytes.TrimRight(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), "\n")
}

// notID spoils the form of an id.
func notID(s *service, id string) string {
	return []string{
		id + "0", id[:len(id)-1], strings.ToLower(id), id[4:], "nod_" + id[4:], id[:4] + "8" + id[5:], id[:4] + "system2", id[:len(id)-1] + "U", id + "\n",
	}[s.next("not an id", 9)]
}

// checkpoints are lies in the checkpoint alone: its lines, and those of its signatures.
var checkpoints = []func(f *forgery, said string, lines []string) string{
	func(_ *forgery, said string, lines []string) string { return said + "\n" + lines[0] },
	func(_ *forgery, said string, lines []string) string { return said + "\n" + lines[1] },
	func(_ *forgery, said string, lines []string) string { return said + "\n" + lines[1] + lines[0] },
	func(_ *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + lines[0] + lines[1]
	},
	func(f *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + lines[1] + lines[f.IntN(2)]
	},
	func(f *forgery, said string, lines []string) string {
		witness := f.witness()
		return said + "\n" + lines[0] + lines[1] + witness + witness
	},
	func(f *forgery, said string, lines []string) string {
		witness := f.witness()
		return said + "\n" + lines[0] + lines[1] + witness + f.flipped(witness)
	},
	func(f *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + lines[1] + strings.Replace(f.witness(), "witness", "a\u2003witness", 1)
	},
	func(f *forgery, said string, lines []string) string {
		return said + "\n" + f.flipped(lines[0]) + lines[1]
	},
	func(f *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + f.flipped(lines[1])
	},
	func(_ *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + strings.Replace(lines[1], "sealed", "opened", 1)
	},
	func(_ *forgery, said string, lines []string) string {
		return said + "\n" + strings.ReplaceAll(lines[0]+lines[1], "—", "-")
	},
	func(_ *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + strings.TrimSuffix(lines[1], "\n")
	},
	func(f *forgery, said string, _ []string) string {
		said += "an extension\n"
		return said + "\n" + strings.Join(f.note(said), "")
	},
	func(f *forgery, said string, _ []string) string {
		said = strings.Replace(said, "\n", "\n0", 1)
		return said + "\n" + strings.Join(f.note(said), "")
	},
	func(f *forgery, said string, _ []string) string {
		said = strings.Replace(said, "=\n", "\n", 1)
		return said + "\n" + strings.Join(f.note(said), "")
	},
}

// badDirectory is a directory with a fault, signed by the directory's own key.
func (s *service) badDirectory(good []byte) (name string, text []byte) {
	d := s.parse(good)
	keys := d.list("keys")
	one := object(keys[s.IntN(len(keys))].(map[string]any))
	officer := object(keys[0].(map[string]any))
	key := s.officer
	until, to := epoch.Add(time.Minute), s.officer.Public().(ed25519.PublicKey)
	faults := []struct {
		name string
		make func()
	}{
		{"another id", func() { one["keyId"] = keyID(s.newKey()) }},
		{"a key twice", func() { d["keys"] = append(keys, one) }},
		{"no keys", func() { d["keys"] = []any{} }},
		{"the directory key is revoked", func() { officer["revokedAt"] = "2030-01-01T00:00:00.000Z" }},
		{"the directory key is for packs", func() { officer["purpose"] = keydir.PurposePack }},
		{"issued before the directory key was valid", func() { d["issuedAt"] = canonical.FormatTime(epoch.Add(-1e6)) }},
		{"issued after the directory key was", func() { officer["notAfter"] = canonical.FormatTime(until) }},
		{"signed by a key without delegation", func() { key = s.sealing }},
		{"delegated to by another root", func() {
			root, _ := s.rootKey("root.independent")
			d["delegation"], _ = keydir.Delegate(root, to, epoch, s.until)
		}},
		{"delegated to another key", func() {
			d["delegation"], _ = keydir.Delegate(s.root, s.sealing.Public().(ed25519.PublicKey), epoch, s.until)
		}},
		{"delegated to for a time that is over", func() {
			d["delegation"], _ = keydir.Delegate(s.root, to, epoch, until)
		}},
		{"issued when its delegation had ended", func() { d["issuedAt"] = canonical.FormatTime(s.until) }},
		{"a delegation in another form, or spoilt", func() {
			said, err := keydir.Delegate(s.root, to, epoch, s.until)
			require.NoError(s, err)
			said, _, _ = strings.Cut(said, "\n\n")
			lines := strings.Split(said, "\n")
			spoil := []func() string{
				func() string { return said + "\nmore" },
				func() string {
					return strings.Join(slices.Replace(slices.Clone(lines), 0, 1, "muniment/directory-key.v2"), "\n")
				},
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 1, 2, keyID(s.sealing)), "\n") },
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 3, 4, "-"), "\n") },
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 4, 5, "never"), "\n") },
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 4, 5, "-"), "\n") },
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 4, 5, lines[3]), "\n") },
				func() string {
					return strings.Join(slices.Replace(slices.Clone(lines), 3, 5, lines[4], lines[3]), "\n")
				},
				func() string { return strings.Join(lines[:4], "\n") },
			}[s.next("delegation", 9)]()
			text, err := note.Sign(&note.Note{Text: spoil + "\n"}, s.root)
			require.NoError(s, err)
			d["delegation"] = string(text)
		}},
		{"a delegation whose signature is spoilt", func() {
			said := d["delegation"].(string)
			f := &forgery{sealedPack: &sealedPack{log: &log{service: s}}}
			at := strings.LastIndex(said, "— ")
			d["delegation"] = said[:at] + f.flipped(said[at:])
		}},
		{"a delegation under another name", func() {
			d["delegation"] = strings.Replace(d["delegation"].(string), "— root.independent", "— root.dependent", 1)
		}},
		{"a delegation with another key's hash", func() {
			said := d["delegation"].(string)
			at := strings.LastIndexByte(said, ' ') + 1
			raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(said[at:]))
			require.NoError(s, err)
			raw[s.IntN(4)]++
			d["delegation"] = said[:at] + base64.StdEncoding.EncodeToString(raw) + "\n"
		}},
		{"another algorithm", func() { one["algorithm"] = "ed448" }},
		{"a time without a zone", func() { one["notBefore"] = "2026-03-01T00:00:00.000" }},
		{"a time with an offset", func() { one["notBefore"] = "2026-03-01T00:00:00.000+00:00" }},
	}
	fault := faults[s.next("directory", len(faults))]
	fault.make()
	delete(d, "signature")
	d["signature"] = signature(key, s.canonical(d))
	return "directory: " + fault.name, s.canonical(d)
}

// badReceipt is an answer that is not what the node has given. It returns nil if
// by chance it is.
func (s *service) badReceipt(event []byte) []byte {
	good := s.answer(event)
	parts, err := sealer.SplitDelivery(event)
	require.NoError(s, err)
	part := [][]byte{parts.Receipt, parts.Signature}[s.IntN(2)]
	bad := bytes.Replace(good, part, s.spoil(part), 1)
	if same := func(text []byte) []byte {
		var answer struct {
			Data struct{ Receipt, Signature any }
		}
		if json.Unmarshal(text, &answer) != nil {
			return nil
		}
		return s.canonical([]any{answer.Data.Receipt, answer.Data.Signature})
	}; bytes.Equal(same(good), same(bad)) {
		return nil
	}
	return bad
}
