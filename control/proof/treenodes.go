package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"muniment.example/gateway/api"
	"muniment.example/sealer/keyfile"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// nodesSuffix ends the name of the file with the hashes of a pack's nodes.
const nodesSuffix = ".nodes"

// hashBytes is the size of one of them.
const hashBytes = int64(len(merkle.Hash{}))

// nodes reads the hashes of one tenant's Merkle tree for one proof. A file for each pack in the
// process's own folder, <packId>.nodes, holds the hashes of the nodes that the pack's leaves complete, in the order of
// merkle.Node, 32 bytes each and nothing else. So a proof reads as many hashes as the logarithm of
// the log, wherever its leaf is.
//
// These files are a cache. They are not synced and may be missing, cut or wrong after a crash, a
// restore, or a bit flip on the disk. Every proof is verified before it is returned, and if it
// fails, the files are rebuilt from the packs.
//
// It belongs to one goroutine and must be closed.
type nodes struct {
	*archive
	tenantID string
	// fresh rebuilds every file before it is read.
	fresh bool
	open  map[string]nodesFile // by pack id
	last  Pack                 // the pack that was looked up last
}

type nodesFile interface {
	io.ReaderAt
	io.Closer
}

// prove calls attempt, which reads nodes and verifies its result. If it fails, it is called once
// more with nodes rebuilt from the packs, unless the bucket that has these does not answer, or the disk is full.
func (a *archive) prove(tenantID string, attempt func(*nodes) error) error {
	err := a.attempt(tenantID, false, attempt)
	if reason := api.From(err).Reason; err != nil && reason != api.EngineUnavailable && reason != api.StorageFull {
		a.cfg.Logger.Warn("the hashes beside the packs are wrong, rebuilding them", "tenantId", tenantID, "err", err)
		err = a.attempt(tenantID, true, attempt)
	}
	return err
}

func (a *archive) attempt(tenantID string, fresh bool, attempt func(*nodes) error) error {
	n := &nodes{archive: a, tenantID: tenantID, fresh: fresh, open: map[string]nodesFile{}}
	err := attempt(n)
	for _, f := range n.open {
		err = errors.Join(err, f.Close())
	}
	return err
}

// reader reads nodes for the provers of merkle.
func (n *nodes) reader(ctx context.Context) merkle.NodeReader {
	return func(id merkle.Node) (h merkle.Hash, err error) {
		leaf := id.Last()
		if leaf < n.last.FirstIndex || leaf >= n.last.end() {
			p, found, err := packOf(ctx, n.db.Read(), n.tenantID, leaf)
			if err == nil && !found {
				err = fmt.Errorf("no pack holds leaf %d", leaf)
			}
			if err != nil {
				return h, err
			}
			n.last = p
		}
		file, err := n.file(ctx, n.last)
		if err == nil {
			_, err = file.ReadAt(h[:], int64(id.Place()-merkle.NodeCount(n.last.FirstIndex))*hashBytes)
		}
		return h, err
	}
}

// file opens the file of a pack's nodes, and rebuilds it if necessary.
func (n *nodes) file(ctx context.Context, p Pack) (nodesFile, error) {
	if f, ok := n.open[p.ID]; ok {
		return f, nil
	}
	var f nodesFile
	var err error
	if !n.fresh {
		f, err = n.folder.openNodes(p)
	}
	if n.fresh || err != nil {
		if f, err = n.rebuild(ctx, p); err != nil {
			return nil, fmt.Errorf("cannot hash pack %s: %w", p.ID, err)
		}
	}
	n.open[p.ID] = f
	return f, nil
}

// leaf finds the index of a leaf hash in a pack, by reading the pack's hashes from the first on.
func (n *nodes) leaf(ctx context.Context, p Pack, leaf merkle.Hash) (index uint64, found bool, err error) {
	file, err := n.file(ctx, p)
	if err != nil {
		return 0, false, err
	}
	row := make([]byte, p.nodes()*hashBytes)
	if _, err := file.ReadAt(row, 0); err != nil {
		return 0, false, err
	}
	begin := merkle.NodeCount(p.FirstIndex)
	for index := p.FirstIndex; index < p.end(); index++ {
		at := int64(merkle.NodeCount(index)-begin) * hashBytes
		if bytes.Equal(row[at:at+hashBytes], leaf[:]) {
			return index, true, nil
		}
	}
	return 0, false, nil
}

// rebuild hashes the entries of a pack. If the file can't be written, the next proof repeats the
// work.
func (n *nodes) rebuild(ctx context.Context, p Pack) (nodesFile, error) {
	file, err := n.folder.open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := pack.Read(file)
	if err != nil {
		return nil, err
	}
	tree, err := entries.Header().Before()
	if err != nil {
		return nil, err
	}
	row := make([]byte, 0, p.nodes()*hashBytes)
	for range p.Count {
		event, err := entries.Next()
		if err != nil {
			return nil, err
		}
		row = tree.AppendNodes(row, merkle.LeafHash(event))
	}
	n.saveNodes(p.TenantID, p.ID, row)
	return memory{bytes.NewReader(row)}, nil
}

// memory is a nodesFile in memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// saveNodes writes the file of a pack's nodes. A failure is logged only, since the file is a cache.
func (a *archive) saveNodes(tenantID, packID string, row []byte) {
	if err := a.folder.writeNodes(tenantID, packID, row); err != nil {
		a.cfg.Logger.Warn("cannot save the hashes of a pack", "packId", packID, "err", err)
	}
}

// end is the index after the pack's last leaf.
func (p *Pack) end() uint64 { return p.FirstIndex + uint64(p.Count) }

// nodes is how many nodes the pack's leaves complete.
func (p *Pack) nodes() int64 {
	return int64(merkle.NodeCount(p.end()) - merkle.NodeCount(p.FirstIndex))
}

// openNodes opens the file of a pack's nodes, if it has the right size.
func (f folder) openNodes(p Pack) (*os.File, error) {
	file, err := os.Open(f.name(p.TenantID, p.ID+nodesSuffix))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != p.nodes()*hashBytes {
		err = fmt.Errorf("%s has %d bytes instead of %d", filepath.Base(file.Name()), info.Size(), p.nodes()*hashBytes)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// writeNodes replaces the file of a pack's nodes. Open readers keep the old one.
func (f folder) writeNodes(tenantID, packID string, row []byte) error {
	if err := f.step("write nodes"); err != nil {
		return err
	}
	if err := keyfile.MakeDir(f.name(tenantID, "")); err != nil {
		return err
	}
	draft, err := os.CreateTemp(f.name(tenantID, ""), packID+nodesSuffix+".*"+draftSuffix)
	if err != nil {
		return err
	}
	_, err = draft.Write(row)
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), f.name(tenantID, packID+nodesSuffix))
	}
	if err != nil {
		return errors.Join(err, removeIfThere(draft.Name()))
	}
	return nil
}
