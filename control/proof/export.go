package proof

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"muniment/control/route"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/sealer"
)

func (r *Room) exportRoutes(a route.API) {
	route.AddFile(a, route.Operation{ID: "export-events", Method: http.MethodGet, Path: "/v1/events/export", Tag: "Events", Access: route.Scope(api.AuditRead),
		Summary: "Download a run of sealed events with what proves it", Heavy: true, Content: route.Content{Type: bundleType, Note: "The export"},
		Description: "NDJSON of canonical lines: a header with the signed checkpoints of the packs that hold the events, the hashes that lead " +
			"there and the key directory, then the events verbatim, oldest first. The file is for muniment verify, and needs nothing " +
			"but the root key. 409 if nothing of the run is sealed yet, or not all up to upTo.", Errors: []int{http.StatusConflict}}, r.exportEvents)
}

type exportRequest struct {
	After string `query:"after" maxLength:"100" doc:"Position; only events behind it. Default: from the first event on."`
	UpTo  string `query:"upTo" maxLength:"100" doc:"Position; only events up to it, itself included. Default: up to the newest sealed event."`
}

var (
	errNothingSealed = api.Conflict("no sealed event is in this run")
	errNotAllSealed  = api.Conflict("an event of this run is in no proof pack yet: seal one first, or name a lower upTo")
)

// run is the leaves of an export, which stand in some packs.
type run struct {
	first, last uint64
	packs       []Pack
	slices      []slice
	bytes       int64 // of all slices
}

// slice is the part of a pack's lines that an export holds.
type slice struct {
	pack     Pack
	from, to int64
}

func (r *Room) exportEvents(ctx context.Context, in *exportRequest) (*route.File, error) {
	tenantID := auth.PrincipalFrom(ctx).TenantID
	events, err := r.run(ctx, tenantID, in)
	if err != nil {
		return nil, err
	}
	header, err := r.exportHeader(ctx, tenantID, events)
	if err != nil {
		return nil, err
	}
	text := append(header.Append(nil), '\n')
	name := fmt.Sprintf("events-%d-%d.ndjson", events.first, events.last)
	return &route.File{Name: name, Size: int64(len(text)) + events.bytes, Write: func(to io.Writer) {
		if err := r.writeExport(to, text, events); err != nil {
			r.cfg.Logger.Info("an export broke off", "tenantId", tenantID, "err", err)
		}
	}}, nil
}

// writeExport writes the header and the slices of the packs' files.
func (r *Room) writeExport(w io.Writer, header []byte, events *run) error {
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, s := range events.slices {
		file, err := os.Open(r.folder.path(s.pack.TenantID, s.pack.ID))
		if err != nil {
			return err
		}
		lines, err := unpack(file)
		if err == nil {
			_, err = io.CopyN(io.Discard, lines, s.from)
		}
		if err == nil {
			_, err = io.CopyN(w, lines, s.to-s.from)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// run finds the leaves that a request is about, and the packs that hold them.
func (r *Room) run(ctx context.Context, tenantID string, in *exportRequest) (*run, error) {
	partition, err := r.log.PartitionOf(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	after, err := route.GivenPosition("after", in.After, partition)
	if err != nil {
		return nil, err
	}
	upTo, err := route.GivenPosition("upTo", in.UpTo, partition)
	if err != nil {
		return nil, err
	}
	h, err := readHead(ctx, r.db.Read(), tenantID)
	if err == nil && h.sequence == 0 {
		err = errNothingSealed
	}
	if err == nil && upTo != nil && upTo.Compare(h.position) > 0 {
		err = r.load(ctx, tenantID) // an event that is on its way must not be left out silently
	}
	if err != nil {
		return nil, err
	}
	events := &run{last: h.tree.Size() - 1}
	if after != nil {
		behind := h.position.Next()
		if events.first, err = r.leafNext(ctx, pipeline.EventQuery{TenantID: tenantID, After: after, Before: &behind}); err != nil {
			return nil, err
		}
	}
	if upTo != nil {
		behind := upTo.Next()
		query := pipeline.EventQuery{TenantID: tenantID, Before: &behind, Newest: true}
		if events.last, err = r.leafNext(ctx, query); err != nil {
			return nil, err
		}
	}
	if events.first > events.last {
		return nil, errNothingSealed
	}
	return events, r.slice(ctx, tenantID, events)
}

// leafNext is the leaf of the first event that a query finds.
func (r *Room) leafNext(ctx context.Context, query pipeline.EventQuery) (uint64, error) {
	query.Limit = 1
	rows, err := r.warehouse.Events(ctx, query)
	if err == nil && len(rows) == 0 {
		err = errNothingSealed
	}
	if err != nil {
		return 0, err
	}
	_, leaf, found, err := r.leafOf(ctx, rows[0])
	if err == nil && !found {
		err = errNotAllSealed
	}
	return leaf, err
}

// slice cuts the leaves out of the packs' files, each of which is read through and
// compared with its hash.
func (r *Room) slice(ctx context.Context, tenantID string, events *run) error {
	first, found, err := packOf(ctx, r.db.Read(), tenantID, events.first)
	if err == nil && !found {
		err = fmt.Errorf("no pack holds leaf %d", events.first)
	}
	if err != nil {
		return err
	}
	for after := first.Sequence - 1; ; after++ {
		packs, err := listPacks(ctx, r.db.Read(), tenantID, after, 1)
		if err != nil {
			return err
		}
		if len(packs) == 0 {
			return fmt.Errorf("no pack holds leaf %d", events.last)
		}
		p := packs[0]
		s, err := r.cut(p, events)
		if err != nil {
			return fmt.Errorf("cannot cut pack %s: %w", p.ID, err)
		}
		events.packs = append(events.packs, p)
		events.slices = append(events.slices, s)
		events.bytes += s.to - s.from
		if events.last < p.end() {
			return nil
		}
	}
}

// cut finds where the leaves of an export stand in a pack's file.
func (r *Room) cut(p Pack, events *run) (s slice, err error) {
	file, err := r.folder.open(p)
	if err != nil {
		return s, err
	}
	defer file.Close()
	unpacked, err := unpack(file)
	if err != nil {
		return s, err
	}
	lines := bufio.NewReaderSize(unpacked, 1<<16)
	at, err := skipLine(lines)
	if err != nil {
		return s, err
	}
	s = slice{pack: p, from: at, to: at}
	for leaf := p.FirstIndex; leaf < p.end() && leaf <= events.last; leaf++ {
		n, err := skipLine(lines)
		if err != nil {
			return s, err
		}
		s.to += n
		if leaf < events.first {
			s.from = s.to
		}
	}
	return s, nil
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

// exportHeader anchors the leaves in the checkpoints of their packs.
func (r *Room) exportHeader(ctx context.Context, tenantID string, events *run) (*sealer.ExportHeader, error) {
	directory, err := r.keys.Directory(ctx)
	if err != nil {
		return nil, err
	}
	h := &sealer.ExportHeader{
		Count: events.last - events.first + 1, Directory: directory, FirstIndex: events.first, TenantID: tenantID,
	}
	// The checkpoint of a revoked key is proven by the next one. The last has none behind
	// it: another takes its place, which covers some leaves more.
	last, err := r.sound(ctx, events.packs[len(events.packs)-1])
	if err != nil {
		return nil, err
	}
	under := slices.Clone(events.packs)
	under[len(under)-1] = last
	for i := range under {
		note, err := under[i].checkpoint()
		if err != nil {
			return nil, err
		}
		h.Checkpoints = append(h.Checkpoints, note)
	}
	err = r.prove(tenantID, func(n *nodes) error {
		h.Before, h.After, err = sealer.ProveRange(h.FirstIndex, h.Count, last.end(), n.reader(ctx))
		if err != nil {
			return err
		}
		return n.holds(ctx, h, last)
	})
	return h, err
}

// holds verifies what an export's header says: with the nodes over its leaves, it
// has to make the root of the last pack.
func (n *nodes) holds(ctx context.Context, h *sealer.ExportHeader, last Pack) error {
	tree, err := sealer.RestoreTree(h.FirstIndex, h.Before)
	if err != nil {
		return err
	}
	end := h.FirstIndex + h.Count
	_, within, err := sealer.ProveRange(h.FirstIndex, 0, end, n.reader(ctx))
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
