package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"muniment/control/store"
	"muniment/pipeline"
	"muniment/sealer"
)

// Types of events that don't make anything new to seal.
const (
	typeSealed   = "pack.sealed"
	typeRefusals = "gate.refusals"
)

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
	// Header is verbatim, as the file's first line has it.
	Header json.RawMessage
}

// session is one call's work on one tenant, under the tenant's lock.
type session struct {
	*Room
	tenantID string
	by       sealer.Ref
	// end is the position that the session seals up to, exclusive.
	end sealer.Position
	// signer and directory belong together: the directory was read after signer, and
	// after everything before end was signed, so it knows all of their keys.
	signer        *sealer.Signer
	directory     *sealer.Directory
	directoryText []byte
	// repeated are the duplicates before end that were not sealed when the session
	// began.
	repeated []pipeline.Duplicate
}

func (r *Room) newSession(ctx context.Context, tenantID string, by sealer.Ref, end sealer.Position) (*session, error) {
	s := &session{Room: r, tenantID: tenantID, by: by, end: end, signer: r.keys.PackSigner()}
	var err error
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
	s.repeated, err = r.warehouse.Duplicates(ctx, tenantID, old.position, end)
	return s, err
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
	leaves := map[string]uint64{}
	wanted := map[string]map[string][]string{} // pack → first event → its duplicates
	packs := map[string]Pack{}
	for _, dup := range s.repeated {
		first, err := s.warehouse.Event(ctx, s.tenantID, dup.FirstEventID)
		if err != nil {
			return nil, err
		}
		if first.Position.Compare(old.position) > 0 {
			continue
		}
		p, found, err := packAt(ctx, s.db.Read(), s.tenantID, first.Position)
		if err != nil || !found {
			return nil, errors.Join(err, fmt.Errorf("no pack holds event %s, which is sealed", dup.FirstEventID))
		}
		packs[p.ID] = p
		if wanted[p.ID] == nil {
			wanted[p.ID] = map[string][]string{}
		}
		wanted[p.ID][dup.FirstEventID] = append(wanted[p.ID][dup.FirstEventID], dup.EventID)
	}
	for id, firsts := range wanted {
		if err := s.leavesOf(packs[id], firsts, leaves); err != nil {
			return nil, fmt.Errorf("cannot find duplicates in pack %s: %w", id, err)
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
