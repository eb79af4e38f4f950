//go:build independent

package independent_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

func (l *log) node(n merkle.Node) (merkle.Hash, error) {
	return merkle.Hash(l.row[n.Place()*32:][:32]), nil
}

// home is the pack that holds a leaf.
func (l *log) home(leaf uint64) int {
	return slices.IndexFunc(l.packs, func(p *sealedPack) bool { return leaf < p.Header.TreeSize })
}

// inclusion proves a leaf under the checkpoint of its pack or of a later one.
func (l *log) inclusion(leaf uint64) *checkpoint.InclusionProof {
	home := l.home(leaf)
	under := l.packs[home+l.IntN(len(l.packs)-home)].Header
	hashes, err := merkle.ProveInclusion(leaf, under.TreeSize, l.node)
	require.NoError(l, err)
	return &checkpoint.InclusionProof{Index: leaf, Hashes: hashes, Checkpoint: under.Checkpoint}
}

// witness is a line under a checkpoint that says nothing to a verifier.
func (s *service) witness() string {
	return "— witness.example " + base64.StdEncoding.EncodeToString(s.bytes(4+64)) + "\n"
}

// consistency proves that one pack's tree extends that of another, or of itself.
func (l *log) consistency() *checkpoint.ConsistencyProof {
	to := l.IntN(len(l.packs))
	from := l.packs[l.IntN(to+1)].Header
	hashes, err := merkle.ProveConsistency(from.TreeSize, l.packs[to].Header.TreeSize, l.node)
	require.NoError(l, err)
	return &checkpoint.ConsistencyProof{Hashes: hashes, From: from.Checkpoint, To: l.packs[to].Header.Checkpoint}
}

// export takes some leaves out of the log.
func (l *log) export() (*pack.ExportHeader, [][]byte) {
	first := l.IntN(len(l.events))
	count := 1 + l.IntN(len(l.events)-first)
	h := &pack.ExportHeader{
		Count: uint64(count), FirstIndex: uint64(first), TenantID: l.tenant, Directory: l.directory(l.now),
	}
	packs := l.packs[l.home(h.FirstIndex) : l.home(h.FirstIndex+h.Count-1)+1]
	for _, p := range packs {
		h.Checkpoints = append(h.Checkpoints, p.Header.Checkpoint)
	}
	var err error
	h.Before, h.After, err = merkle.ProveRange(h.FirstIndex, h.Count, packs[len(packs)-1].Header.TreeSize, l.node)
	require.NoError(l, err)
	return h, l.events[first : first+count]
}

func exported(h *pack.ExportHeader, events [][]byte) []byte {
	return append(bytes.Join(append([][]byte{h.Append(nil)}, events...), []byte("\n")), '\n')
}

// proven is an event with its proof as data.
func (s *service) proven(event []byte, p *checkpoint.InclusionProof) []byte {
	return fmt.Appendf(nil, `{"event":%s,"proof":%s}`, event, s.canonical(p.Text()))
}

// wrapped puts data into an answer or leaves it, as it comes.
func (s *service) wrapped(data []byte) []byte {
	if s.IntN(2) == 0 {
		return data
	}
	return answer(data)
}

func answer(data []byte) []byte {
	return fmt.Appendf(nil, `{"ok":true,"data":%s,"contractVersion":"v1.0"}`+"\n", data)
}

// proof is one file that proves something of the log, with its kind.
func (l *log) proof() (kind string, text []byte) {
	switch l.IntN(4) {
	case 0:
		return "consistency", l.wrapped(l.consistency().Append(nil))
	case 1:
		note := l.packs[l.IntN(len(l.packs))].Header.Checkpoint
		if l.IntN(2) == 0 {
			return "checkpoint", []byte(note)
		}
		return "checkpoint", answer(l.canonical(object{"checkpoint": note}))
	case 2:
		return "export", exported(l.export())
	}
	leaf := l.IntN(len(l.events))
	return "inclusion", l.wrapped(l.proven(l.events[leaf], l.inclusion(uint64(leaf))))
}

// badProof is a proof in its right form that does not prove what it says.
func (l *log) badProof() (name string, text []byte) {
	hash := merkle.Hash(l.bytes(32))
	other := l.newLog()
	strange := other.seal(1).Header
	spoilt := func(hashes []merkle.Hash) []merkle.Hash {
		hashes = slices.Clone(hashes)
		switch n := len(hashes); {
		case n == 0 || l.IntN(3) == 0:
			return slices.Insert(hashes, l.IntN(n+1), hash)
		case l.IntN(2) == 0:
			return slices.Delete(hashes, n-1, n)
		default:
			hashes[l.IntN(n)] = hash
			return hashes
		}
	}
	// A checkpoint of the size and root of this one, but not by a key for it.
	unsigned := func(note string) string {
		point, err := checkpoint.Open(note, checkpoint.Origin(l.tenant), l.sealing.Public().(ed25519.PublicKey))
		require.NoError(l, err)
		note, err = checkpoint.Sign(point, []crypto.Signer{l.nodes[0].Key, l.newKey(), l.officer}[l.next("signer", 3)])
		require.NoError(l, err)
		return note
	}
	untimed := func(note string) string { return note[:strings.Index(note, "— muniment/sealed")] }
	switch l.next("proof", 3) {
	case 0:
		leaf := l.IntN(len(l.events))
		event, p := l.events[leaf], l.inclusion(uint64(leaf))
		faults := []struct {
			name string
			make func()
		}{
			{"hashes", func() { p.Hashes = spoilt(p.Hashes) }},
			{"another index", func() { p.Index = uint64(leaf + 1 - 2*l.IntN(2)) }},
			{"another event", func() { event = l.notice() }},
			{"another log's checkpoint", func() { p.Checkpoint = strange.Checkpoint }},
			{"no key for checkpoints", func() { p.Checkpoint = unsigned(p.Checkpoint) }},
			{"no time", func() { p.Checkpoint = untimed(p.Checkpoint) }},
		}
		fault := faults[l.next("inclusion", len(faults))]
		fault.make()
		return "inclusion: " + fault.name, l.proven(event, p)
	case 1:
		p := l.consistency()
		faults := []struct {
			name string
			make func()
		}{
			{"hashes", func() { p.Hashes = spoilt(p.Hashes) }},
			{"another log's checkpoint", func() { p.To = strange.Checkpoint }},
			{"another log's checkpoint before", func() { p.From = strange.Checkpoint }},
			{"no key for checkpoints", func() { p.To = unsigned(p.To) }},
			{"no key for checkpoints before", func() { p.From = unsigned(p.From) }},
			{"no time", func() { p.From = untimed(p.From) }},
		}
		fault := faults[l.next("consistency", len(faults))]
		fault.make()
		return "consistency: " + fault.name, p.Append(nil)
	}
	h, events := l.export()
	events = slices.Clone(events)
	faults := []struct {
		name string
		make func()
	}{
		{"hashes before", func() { h.Before = spoilt(h.Before) }},
		{"hashes after", func() { h.After = spoilt(h.After) }},
		{"another first leaf", func() { h.FirstIndex++ }},
		{"another entry", func() { events[l.IntN(len(events))] = l.notice() }},
		{"an entry less", func() { h.Count--; events = events[1:] }},
		{"an entry more", func() { h.Count++; events = append(events, l.notice()) }},
		{"a checkpoint less", func() { h.Checkpoints = h.Checkpoints[:len(h.Checkpoints)-1] }},
		{"a checkpoint twice", func() { h.Checkpoints = append(h.Checkpoints, h.Checkpoints[0]) }},
		{"another log's checkpoint", func() { h.Checkpoints[0] = strange.Checkpoint }},
		{"no key for checkpoints", func() { h.Checkpoints[0] = unsigned(h.Checkpoints[0]) }},
		{"another tenant", func() { h.TenantID = l.id("tnt_", epoch) }},
		{"a tenant of no id", func() { h.TenantID = notID(l.service, h.TenantID) }},
		{"a directory of another root", func() {
			stranger := *l.service
			stranger.root, _ = l.rootKey("root.independent")
			h.Directory = stranger.directory(l.now)
		}},
	}
	fault := faults[l.next("export", len(faults))]
	fault.make()
	return "export: " + fault.name, exported(h, events)
}
