package proof

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// Range is a range of a tenant's leaves, in the form that muniment verify reads: a header that proves
// them, and the leaves verbatim from the packs' files.
type Range struct {
	Bytes       int64 // that Write writes
	first, last uint64
	folder      folder
	header      []byte
	slices      []slice
}

// slice is the part of a pack's lines that a range holds.
type slice struct {
	pack     Pack
	from, to int64
}

// Range proves the leaves from first to last, all of which must be sealed.
func (s *prover) Range(ctx context.Context, tenantID string, first, last uint64) (*Range, error) {
	r := &Range{first: first, last: last, folder: s.folder}
	if err := s.slice(ctx, tenantID, r); err != nil {
		return nil, err
	}
	header, err := s.rangeHeader(ctx, tenantID, r)
	if err != nil {
		return nil, err
	}
	r.header = append(header.Append(nil), '\n')
	r.Bytes += int64(len(r.header))
	return r, nil
}

// Write writes the header and the slices of the packs' files, each of which it compares with its hash
// again.
func (r *Range) Write(ctx context.Context, w io.Writer) error {
	if _, err := w.Write(r.header); err != nil {
		return err
	}
	for _, piece := range r.slices {
		file, err := r.folder.open(ctx, piece.pack)
		if err != nil {
			return err
		}
		lines, err := unpack(file)
		if err == nil {
			_, err = io.CopyN(io.Discard, lines, piece.from)
		}
		if err == nil {
			_, err = io.CopyN(w, lines, piece.to-piece.from)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// slice finds the leaves in the packs' files, each of which it reads completely and compares with its
// hash.
func (s *prover) slice(ctx context.Context, tenantID string, r *Range) error {
	first, found, err := packOf(ctx, s.db.Read(), tenantID, r.first)
	if err == nil && !found {
		err = fmt.Errorf("no pack holds leaf %d", r.first)
	}
	if err != nil {
		return err
	}
	for after := first.Sequence - 1; ; after++ {
		packs, err := listPacks(ctx, s.db.Read(), tenantID, after, 1)
		if err != nil {
			return err
		}
		if len(packs) == 0 {
			return fmt.Errorf("no pack holds leaf %d", r.last)
		}
		p := packs[0]
		piece, err := s.cut(ctx, p, r)
		if err != nil {
			return fmt.Errorf("cannot cut pack %s: %w", p.ID, err)
		}
		r.slices = append(r.slices, piece)
		r.Bytes += piece.to - piece.from
		if r.last < p.end() {
			return nil
		}
	}
}

// cut finds the leaves of a range in a pack's file.
func (s *prover) cut(ctx context.Context, p Pack, r *Range) (piece slice, err error) {
	file, err := s.folder.open(ctx, p)
	if err != nil {
		return piece, err
	}
	defer file.Close()
	unpacked, err := unpack(file)
	if err != nil {
		return piece, err
	}
	lines := bufio.NewReaderSize(unpacked, 1<<16)
	at, err := skipLine(lines)
	if err != nil {
		return piece, err
	}
	piece = slice{pack: p, from: at, to: at}
	for leaf := p.FirstIndex; leaf < p.end() && leaf <= r.last; leaf++ {
		n, err := skipLine(lines)
		if err != nil {
			return piece, err
		}
		piece.to += n
		if leaf < r.first {
			piece.from = piece.to
		}
	}
	return piece, nil
}

// skipLine reads over a line and counts its bytes.
func skipLine(lines *bufio.Reader) (n int64, err error) {
	for {
		part, err := lines.ReadSlice('\n')
		n += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

// rangeHeader anchors the leaves in the checkpoints of their packs.
func (s *prover) rangeHeader(ctx context.Context, tenantID string, r *Range) (*pack.ExportHeader, error) {
	directory, err := s.keys.Directory(ctx)
	if err != nil {
		return nil, err
	}
	h := &pack.ExportHeader{
		Count: r.last - r.first + 1, Directory: directory, FirstIndex: r.first, TenantID: tenantID,
	}
	// A checkpoint by a revoked key is proven by the next checkpoint. The last one has no successor
	// here, so a later one replaces it, which covers some more leaves.
	last, err := s.sound(ctx, r.slices[len(r.slices)-1].pack)
	if err != nil {
		return nil, err
	}
	for i, piece := range r.slices {
		under := piece.pack
		if i == len(r.slices)-1 {
			under = last
		}
		note, err := under.checkpoint()
		if err != nil {
			return nil, err
		}
		h.Checkpoints = append(h.Checkpoints, note)
	}
	err = s.prove(tenantID, func(n *nodes) error {
		h.Before, h.After, err = merkle.ProveRange(h.FirstIndex, h.Count, last.end(), n.reader(ctx))
		if err != nil {
			return err
		}
		return n.holds(ctx, h, last)
	})
	return h, err
}

// holds verifies a range's header: its hashes and the nodes over its leaves must yield the root of
// the last pack.
func (n *nodes) holds(ctx context.Context, h *pack.ExportHeader, last Pack) error {
	tree, err := merkle.RestoreTree(h.FirstIndex, h.Before)
	if err != nil {
		return err
	}
	end := h.FirstIndex + h.Count
	_, within, err := merkle.ProveRange(h.FirstIndex, 0, end, n.reader(ctx))
	if err == nil {
		err = tree.Extend(end, within)
	}
	if err == nil {
		err = tree.Extend(last.end(), h.After)
	}
	if err == nil && tree.Root().String() != last.RootHash {
		err = fmt.Errorf("leaves %d to %d are not those under the root of pack %s", h.FirstIndex, end, last.ID)
	}
	return err
}

// Span describes consecutive packs of a tenant by their headers.
type Span struct {
	// First and Last are the sequence numbers of its first and last pack, FirstID and LastID their ids.
	First, Last     int64
	FirstID, LastID string
	// From and To are the positions of its first and last entry.
	From, To sealer.Position
	Entries  int64
	// Metering are the lines of all headers.
	Metering []pack.MeterRow
}

// SealedIn returns the sequence numbers of a tenant's first and last pack with from ≤ sealedAt < to.
// If one of the packs through is later, last is its number. 0 means that there is none.
func (s *Service) SealedIn(ctx context.Context, tenantID string, from, to time.Time, through []string) (first, last int64, err error) {
	others, args := "", []any{tenantID, store.At(from), store.At(to)}
	for _, id := range through {
		args = append(args, id)
		others += fmt.Sprintf(", $%d", len(args))
	}
	if others != "" {
		others = " OR pack_id IN (" + strings.TrimPrefix(others, ", ") + ")"
	}
	err = s.db.Read().QueryRowContext(ctx, `SELECT COALESCE(MIN(sequence), 0), COALESCE(MAX(sequence), 0) FROM proof_packs
		WHERE tenant_id = $1 AND sealed_at >= $2 AND (sealed_at < $3`+others+`)`, args...).Scan(&first, &last)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot find the packs of %s: %w", tenantID, err)
	}
	return first, last, nil
}

// Span returns the span of a tenant's packs with sequence numbers from first to last.
func (s *Service) Span(ctx context.Context, tenantID string, first, last int64) (*Span, error) {
	span := &Span{First: first, Last: last}
	lines := map[pack.MeterRow]int{}
	err := store.Each(ctx, s.db.Read(), "the packs of "+tenantID, scanPack, func(p Pack) error {
		h, err := pack.ParseHeader(p.Header)
		if err != nil {
			return err
		}
		if span.FirstID == "" {
			span.FirstID, span.From = p.ID, p.First
		}
		span.LastID, span.To, span.Entries = p.ID, p.Last, span.Entries+int64(p.Count)
		for _, l := range h.Metering {
			kind := l
			kind.Receipts, kind.QuantityMs, kind.Impressions = 0, 0, 0
			i, known := lines[kind]
			if !known {
				i, span.Metering = len(span.Metering), append(span.Metering, kind)
				lines[kind] = i
			}
			of := &span.Metering[i]
			of.Receipts, of.QuantityMs, of.Impressions = of.Receipts+l.Receipts, of.QuantityMs+l.QuantityMs, of.Impressions+l.Impressions
		}
		return nil
	}, `SELECT `+packColumns+` FROM proof_packs WHERE tenant_id = $1 AND sequence >= $2 AND sequence <= $3 ORDER BY sequence`, tenantID, first, last)
	return span, err
}
