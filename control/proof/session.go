package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"muniment/control/store"
	"muniment/sealer"
)

// typeSealed is the type of the event that tells of a pack.
const typeSealed = "pack.sealed"

// Pack is a sealed pack's row: what lists and the next seal need, without its
// entries.
type Pack struct {
	ID       string
	TenantID string
	// Sequence counts the tenant's packs from 1.
	Sequence int64
	Revision int64
	// FirstIndex is the leaf index of the first of Count entries.
	FirstIndex uint64
	Count      int
	RootHash   string
	// First and Last are where the first and last entry stand in the event log.
	First, Last  sealer.Position
	SealedAt     store.Instant
	SigningKeyID string
	// Bytes and SHA256 (base64url) are of the pack's file.
	Bytes  int64
	SHA256 string
	// Header is verbatim, as the file's first line has it; empty in a list of summaries.
	Header json.RawMessage
	counts counts
}

// counts are of what a header lists.
type counts struct{ duplicates, rated, unrated int64 }

func countsOf(h *sealer.PackHeader) counts {
	c := counts{duplicates: int64(len(h.Duplicates))}
	if h.Settlement == nil {
		return c
	}
	for _, l := range h.Settlement.Lines {
		c.rated += l.Receipts
	}
	for _, u := range h.Settlement.Unrated {
		c.unrated += u.Receipts
	}
	return c
}

// session is one call's work on one tenant, under the tenant's lock.
type session struct {
	*Room
	tenantID string
	// leaving is the key that is about to be revoked; may be empty.
	leaving string
	by      sealer.Ref
	// end is the position that the session seals up to, exclusive.
	end sealer.Position
	// signer and directory belong together: the directory was read after signer, and
	// after everything before end was signed, so it knows all of their keys.
	signer        *sealer.Signer
	receipts      string // the purpose of the keys of receipts
	directory     *sealer.Directory
	directoryText []byte
	// repeats are the duplicates before end that no pack holds yet, by event id.
	repeats map[string]repeat
}

// repeat is what a duplicate repeats.
type repeat struct {
	eventID  string
	position sealer.Position
}

func (r *Room) newSession(ctx context.Context, tenantID, leaving string, by sealer.Ref, end sealer.Position) (*session, error) {
	s := &session{Room: r, tenantID: tenantID, leaving: leaving, by: by, end: end, repeats: map[string]repeat{}}
	purpose, err := r.cfg.Purpose(ctx, r.db.Read(), tenantID)
	if err != nil {
		return nil, err
	}
	s.receipts = sealer.ReceiptPurpose(sealer.PurposeOf(purpose).Sandbox)
	if s.signer, err = r.keys.Signer(ctx, purpose); err != nil {
		return nil, err
	}
	if s.directoryText, err = r.keys.Directory(ctx); err != nil {
		return nil, err
	}
	if s.directory, err = sealer.ReadDirectory(s.directoryText); err != nil {
		return nil, err
	}
	old, err := readHead(ctx, r.db.Read(), tenantID)
	if err != nil {
		return nil, err
	}
	duplicates, err := r.warehouse.Duplicates(ctx, tenantID, old.position, end)
	if err != nil {
		return nil, err
	}
	for _, dup := range duplicates {
		first, err := r.warehouse.Event(ctx, tenantID, dup.FirstEventID)
		if err != nil {
			return nil, err
		}
		s.repeats[dup.EventID] = repeat{dup.FirstEventID, first.Position}
	}
	return s, nil
}

// sealNext seals one pack on the present head. more is false when nothing new is
// left behind it; errMoved says that another process was faster.
func (s *session) sealNext(ctx context.Context) (more bool, err error) {
	old, err := readHead(ctx, s.db.Read(), s.tenantID)
	if err != nil {
		return false, err
	}
	d := newDraft(s, old)
	if news, err := d.build(ctx); err != nil || !news {
		return false, err
	}
	if err := d.write(ctx); err != nil {
		return false, fmt.Errorf("cannot write pack %s: %w", d.packID, err)
	}
	if err := d.commit(ctx); err != nil {
		return false, fmt.Errorf("cannot commit pack %s: %w", d.packID, err)
	}
	h := &d.pack.Header
	s.metrics.packs.Inc()
	s.metrics.entries.Add(float64(h.Count))
	s.cfg.Logger.Info("proof pack sealed", "tenantId", s.tenantID, "packId", h.PackID, "entries", h.Count, "treeSize", h.TreeSize)
	return h.Count == s.cfg.MaxEntries, nil
}

// earlier finds, for the duplicates of deliveries that earlier packs hold, the
// leaf of the first: the builder finds the others itself.
func (s *session) earlier(ctx context.Context, old head) (map[string]uint64, error) {
	var packs []Pack
	wanted := map[string]map[string][]string{} // pack → first event → its duplicates
	for dup, first := range s.repeats {
		if first.position.Compare(old.position) > 0 {
			continue
		}
		i := slices.IndexFunc(packs, func(p Pack) bool {
			return p.First.Compare(first.position) <= 0 && first.position.Compare(p.Last) <= 0
		})
		if i < 0 {
			p, found, err := packAt(ctx, s.db.Read(), s.tenantID, first.position)
			if err == nil && !found {
				err = fmt.Errorf("no pack holds event %s, which is sealed", first.eventID)
			}
			if err != nil {
				return nil, err
			}
			i, packs = len(packs), append(packs, p)
			wanted[p.ID] = map[string][]string{}
		}
		firsts := wanted[packs[i].ID]
		firsts[first.eventID] = append(firsts[first.eventID], dup)
	}
	leaves := map[string]uint64{}
	for _, p := range packs {
		if err := s.leavesOf(p, wanted[p.ID], leaves); err != nil {
			return nil, fmt.Errorf("cannot find duplicates in pack %s: %w", p.ID, err)
		}
	}
	return leaves, nil
}

// leavesOf looks the first events up in a pack's file, and notes their leaves
// under the events that repeat them.
func (s *session) leavesOf(p Pack, firsts map[string][]string, leaves map[string]uint64) error {
	file, err := s.folder.open(p)
	if err != nil {
		return err
	}
	defer file.Close()
	entries, err := sealer.ReadPack(file)
	if err != nil {
		return err
	}
	for leaf := p.FirstIndex; len(firsts) > 0; leaf++ {
		text, err := entries.Next()
		if err != nil {
			return err // also io.EOF: the pack must hold them all
		}
		event, err := sealer.ParseEvent(text)
		if err != nil {
			return err
		}
		for _, dup := range firsts[event.EventID] {
			leaves[dup] = leaf
		}
		delete(firsts, event.EventID)
	}
	return nil
}
