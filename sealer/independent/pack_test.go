//go:build independent

package independent_test

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/settle"
	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// sealedPack is a pack with all that it was made from.
type sealedPack struct {
	*log
	*pack.Pack
	sealing ed25519.PrivateKey
	before  *merkle.Tree
	events  [][]byte
	file    []byte // of either form
	refused bool   // by the builder
}

// seal makes n entries and seals them.
func (l *log) seal(n int) *sealedPack { return l.sealed(l.entries(n)) }

// entries makes the next n, and names those that repeat leaves of packs before.
func (l *log) entries(n int) (events [][]byte, earlier map[string]uint64) {
	earlier = make(map[string]uint64)
	for leaf := l.tree.Size(); len(events) < n; leaf++ {
		switch l.IntN(24) {
		case 0, 1, 2, 3:
			events = append(events, l.notice())
			continue
		case 5:
			if l.priced {
				events = append(events, l.issued())
				continue
			}
		case 4:
			if l.priced {
				events = append(events, l.rule())
				continue
			}
		}
		event, id, first := l.delivery(leaf)
		if first != nil && *first < l.tree.Size() {
			earlier[id] = *first
		}
		events = append(events, event)
		if l.IntN(20) == 0 {
			l.answered = append(l.answered, event)
		}
	}
	return events, earlier
}

// sealed is the next pack, of these events. earlier names, by event id, the leaves
// of packs before that they repeat. What no service would sign is signed behind its back.
func (l *log) sealed(events [][]byte, earlier map[string]uint64) *sealedPack {
	p := &sealedPack{log: l, sealing: l.sealing, before: l.tree, events: events}
	l.now = l.now.Add(time.Second)
	cfg := pack.Config{
		PackID: l.id("ppk_", l.now), TenantID: l.tenant, Before: l.tree, Previous: l.previous,
		SealedAt: l.now, Directory: l.directory(l.now), Key: l.sealing, Earlier: earlier,
		Rules: l.rules, Rate: settle.Rating.Rate, Rights: rights,
	}
	var err error
	if p.Pack, err = build(l, cfg, events); err != nil {
		require.ErrorContains(l, err, "the duplicates of earlier packs contradict each other")
		p.refused = true
		cfg.Earlier = nil
		p.Pack, err = build(l, cfg, events)
		require.NoError(l, err)
		p.repeat(earlier)
	}
	ref := p.Header.Ref()
	l.tree, l.previous, l.rules = p.Tree, &ref, p.Header.Rules()
	l.packs = append(slices.Clip(l.packs), p)
	l.events = append(slices.Clip(l.events), events...)
	l.grown, l.row = l.grown.Clone(), slices.Clip(l.row)
	for _, e := range events {
		l.row = l.grown.AppendNodes(l.row, merkle.LeafHash(e))
	}

	if l.IntN(4) == 0 {
		p.file = pack.AppendObject(nil, p.Pack, p.events)
		return p
	}
	var bundle bytes.Buffer
	w := pack.NewBundleWriter(&bundle, p.Pack)
	for _, e := range p.events {
		require.NoError(l, w.Add(e))
	}
	require.NoError(l, w.Close())
	p.file = bundle.Bytes()
	return p
}

func build(t require.TestingT, cfg pack.Config, events [][]byte) (*pack.Pack, error) {
	b, err := pack.NewBuilder(cfg)
	require.NoError(t, err)
	for _, e := range events {
		b.Add(e)
	}
	return b.Seal()
}

// repeat has the pack list what earlier names, rows included, and signs that. What was
// rated stays as it was.
func (p *sealedPack) repeat(earlier map[string]uint64) {
	firsts := map[uint64]uint64{}
	for _, d := range p.Header.Duplicates {
		firsts[d.Leaf] = d.First
	}
	var m pack.Meter
	list, rows := []pack.Duplicate{}, []object{}
	for leaf, event := p.Header.FirstIndex, 0; event < len(p.events); leaf, event = leaf+1, event+1 {
		d, err := sealer.ReadDelivery(p.events[event])
		if err != nil {
			continue // another event
		}
		first, repeats := firsts[leaf]
		if named, ok := earlier[d.Event.EventID]; ok && (d.Idempotency != "" || d.Identity.Hash != "") {
			first, repeats = named, true
		}
		m.Add(&d, repeats)
		if repeats {
			list = append(list, pack.Duplicate{Leaf: leaf, First: first})
		}
	}
	p.Header.Duplicates, p.Header.Metering = list, m.Rows()
	for _, r := range p.Header.Metering {
		rows = append(rows, object{"rightId": r.RightID, "substrate": r.Substrate, "basisId": r.BasisID,
			"meteringBasis": r.MeteringBasis, "reason": r.Reason, "receipts": r.Receipts, "quantityMs": r.QuantityMs,
			"impressions": sealer.FormatImpressions(r.Impressions)})
	}
	said, header := []object{}, p.parse(p.HeaderText)
	for _, d := range list {
		said = append(said, object{"leaf": d.Leaf, "first": d.First})
	}
	header["duplicates"], header["metering"] = said, rows
	p.HeaderText = p.canonical(header)
	p.Signature = ed25519.Sign(p.sealing, p.HeaderText)
}
