package proof

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment.example/control/objects"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/pack"
)

// draftAge is how old a draft must be before it is swept. If a seal still writes a swept draft, it
// fails without harm.
const draftAge = time.Hour

// sweep deletes what crashed seals left: old drafts, nodes without a pack, and complete files that no pack
// names and whose leaves the head has passed. A file beyond the head stays: another process may be about
// to commit it, or the database was restored from an older copy than the packs, and then it is a real
// pack. One of a dropped tenant goes too, if this database has promised its root: a bucket may take it after the drop.
func (s *Service) sweep(ctx context.Context) (swept int, err error) {
	err = each(ctx, s.folder.packs, "", func(tenantID, packID string) error {
		left, err := s.superseded(ctx, tenantID, packID)
		if err == nil && left {
			err = s.folder.remove(ctx, tenantID, packID)
			swept++
		}
		return err
	})
	if err != nil {
		return swept, err
	}
	names, err := fs.Glob(os.DirFS(s.cfg.Dir), "*/"+string(api.PrefixPack)+"*")
	for _, name := range names {
		tenantID, base := path.Split(name)
		tenantID = path.Clean(tenantID)
		left := false
		if packID, ok := strings.CutSuffix(base, draftSuffix); ok {
			packID, _, _ := strings.Cut(packID, nodesSuffix)
			left = s.old(packID)
		} else if packID, ok := strings.CutSuffix(base, nodesSuffix); ok && s.old(packID) {
			_, found, unknown := readPack(ctx, s.db.Read(), tenantID, packID)
			left, err = !found, unknown
		}
		if err == nil && left {
			err = removeIfThere(s.folder.name(tenantID, base))
			swept++
		}
		if err != nil {
			return swept, err
		}
	}
	return swept, err
}

// old reports whether a pack was begun so long ago that no seal works on it any more.
func (s *Service) old(packID string) bool { return s.now().Sub(madeAt(packID)) > draftAge }

// DropJob is the kind of job that deletes the files of a dropped tenant's packs.
const DropJob = "proof.drop"

type droppedPacks struct {
	TenantID string `json:"tenantId"`
}

// Drop has the files of a tenant's packs deleted after the change that deletes their rows
// (see store.Tables.DropTenant).
func (s *Service) Drop(ctx context.Context, tx *store.Tx, tenantID string) error {
	_, err := tx.Enqueue(ctx, store.NewJob{Kind: DropJob, TenantID: api.SystemTenant, Payload: droppedPacks{tenantID}})
	return err
}

// RunDrop runs a DropJob. Of the hashes beside packs in a bucket it deletes those of this process; the others' are
// swept at their next start.
func (s *Service) RunDrop(ctx context.Context, job *store.Job) error {
	var dropped droppedPacks
	if err := job.Read(&dropped); err != nil {
		return err
	}
	if !api.IsID(api.PrefixTenant, dropped.TenantID) { // else it would delete another folder
		return fmt.Errorf("%q is not a tenant id", dropped.TenantID)
	}
	err := each(ctx, s.folder.packs, dropped.TenantID+"/", func(tenantID, packID string) error {
		return s.folder.packs.Remove(ctx, key(tenantID, packID))
	})
	if err == nil {
		err = os.RemoveAll(s.folder.name(dropped.TenantID, ""))
	}
	if err != nil {
		return fmt.Errorf("cannot delete the packs of %s: %w", dropped.TenantID, err)
	}
	return nil
}

// superseded reports whether a file is no pack and can never become one.
func (s *Service) superseded(ctx context.Context, tenantID, packID string) (bool, error) {
	// The head is read first: a pack that is committed between the two reads is beyond this head.
	h, err := readHead(ctx, s.db.Read(), tenantID)
	if err != nil {
		return false, err
	}
	_, known, err := readPack(ctx, s.db.Read(), tenantID, packID)
	if err != nil || known {
		return false, err
	}
	file, err := s.folder.packs.Open(ctx, key(tenantID, packID))
	if errors.Is(err, objects.ErrNone) {
		return false, nil // another process has swept it
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	reader, err := pack.Read(file)
	if api.From(err).Reason == api.EngineUnavailable {
		return false, err
	}
	if err != nil {
		// A complete file that is no readable pack: an operator has to inspect it.
		s.cfg.Logger.Error("a file in the folder of packs is not a pack", "tenantId", tenantID, "packId", packID, "err", err)
		return false, nil
	}
	size := reader.Header().TreeSize
	if size <= h.tree.Size() {
		return true, nil
	}
	roots, err := promised(ctx, s.db.Read(), tenantID, h.tree.Size())
	if err != nil || roots[size] != reader.Header().RootHash.String() {
		return false, err // this database is older than the pack
	}
	_, err = s.cfg.Purpose(ctx, s.db.Read(), tenantID)
	if api.From(err).Code == api.ResourceNotFound {
		return true, nil
	}
	return false, err
}

// madeAt returns the time in a pack's id; for an invalid id a time in the far future, so no age is reached.
func madeAt(packID string) time.Time {
	id, err := ulid.ParseStrict(strings.TrimPrefix(packID, string(api.PrefixPack)))
	if err != nil {
		return time.UnixMilli(1 << 60)
	}
	return id.Timestamp()
}
