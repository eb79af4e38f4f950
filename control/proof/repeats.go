package proof

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/oklog/ulid/v2"

	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer/pack"
)

// mostEarlier is for how many earlier packs a session keeps the entries in memory: some 2 MB each.
const mostEarlier = 16

// leaves are the leaves of a pack, by event id.
type leaves []eventLeaf

type eventLeaf struct {
	event ulid.ULID
	leaf  uint64
}

// addRepeats adds the duplicates of deliveries in earlier packs to the builder, which finds all
// others itself.
func (d *draft) addRepeats(ctx context.Context, b *pack.Builder, repeats []pipeline.Duplicate) error {
	// Rows that are sent again may repeat deliveries of many packs. Sorting reads each pack once.
	repeats = slices.SortedFunc(slices.Values(repeats), func(a, b pipeline.Duplicate) int { return a.First.Compare(b.First) })
	var p Pack
	for _, dup := range repeats {
		if dup.First.Compare(d.old.position) > 0 {
			continue
		}
		if p.ID == "" || dup.First.Compare(p.First) < 0 || dup.First.Compare(p.Last) > 0 {
			var found bool
			var err error
			if p, found, err = packAt(ctx, d.db.Read(), d.tenantID, dup.First); err == nil && !found {
				err = fmt.Errorf("no pack holds event %s, which is sealed", dup.FirstEventID)
			}
			if err != nil {
				return err
			}
		}
		leaf, err := d.leafOf(ctx, p, dup.FirstEventID)
		if err != nil {
			return fmt.Errorf("cannot find the first of a duplicate in pack %s: %w", p.ID, err)
		}
		b.Repeats(dup.EventID, leaf)
	}
	return nil
}

// leafOf finds the leaf of an event in a pack.
func (s *session) leafOf(ctx context.Context, p Pack, eventID string) (uint64, error) {
	known, ok := s.earlier[p.ID]
	if !ok {
		var err error
		if known, err = s.leavesOf(ctx, p); err != nil {
			return 0, err
		}
		if s.earlier == nil || len(s.earlier) == mostEarlier {
			s.earlier = map[string]leaves{}
		}
		s.earlier[p.ID] = known
	}
	id, err := eventULID(eventID)
	if err != nil {
		return 0, err
	}
	leaf, ok := known.leaf(id)
	if !ok {
		return 0, fmt.Errorf("there is no event %s", eventID)
	}
	return leaf, nil
}

// leaf returns the leaf of an event.
func (l leaves) leaf(id ulid.ULID) (leaf uint64, ok bool) {
	i, ok := slices.BinarySearchFunc(l, id, func(e eventLeaf, id ulid.ULID) int { return e.event.Compare(id) })
	if ok {
		leaf = l[i].leaf
	}
	return leaf, ok
}

// leavesOf reads a pack's file.
func (s *archive) leavesOf(ctx context.Context, p Pack) (all leaves, err error) {
	file, err := s.folder.open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := pack.Read(file)
	for err == nil {
		var text []byte
		if text, err = entries.Next(); err != nil {
			break
		}
		var event ulid.ULID
		event, err = eventULID(idOf(text))
		all = append(all, eventLeaf{event, p.FirstIndex + uint64(len(all))})
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(all, func(a, b eventLeaf) int { return cmp.Or(a.event.Compare(b.event), cmp.Compare(a.leaf, b.leaf)) })
	return all, nil
}

// idOf returns the id in the text of a sealed event. The text is canonical, so no later member is
// named eventId, and quotation marks within values are escaped.
func idOf(text []byte) string {
	const name = `"eventId":"`
	i := bytes.LastIndex(text, []byte(name))
	if i < 0 {
		return ""
	}
	id, _, _ := bytes.Cut(text[i+len(name):], []byte(`"`))
	return string(id)
}

func eventULID(eventID string) (ulid.ULID, error) {
	return ulid.ParseStrict(eventID[min(len(eventID), len(api.PrefixEvent)):])
}
