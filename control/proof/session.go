package proof

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
)

// Types of this service's events.
const (
	typeSealed     = "pack.sealed"
	typeDownloaded = "pack.downloaded"
)

// TypeExported is the type of the event of an export. It is no reason to seal.
const TypeExported = "events.exported"

// Pack is the database row of a sealed pack, without its entries.
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
	// First and Last are the positions of the first and last entry in the event log.
	First, Last  sealer.Position
	SealedAt     store.Instant
	SigningKeyID string
	// Bytes and SHA256 (base64url) describe the pack's canonical lines, File the file that holds
	// them.
	Bytes  int64
	SHA256 string
	File   Sum
	// Header is the file's first line, verbatim; empty in a list of summaries.
	Header json.RawMessage
	counts counts
}

// counts are the lengths of lists in a header.
type counts struct{ duplicates, rated, unrated int64 }

func countsOf(h *pack.Header) counts {
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

// session is one call's work on one tenant.
type session struct {
	*packer
	tenantID string
	// leaving is the key that is about to be revoked; may be empty.
	leaving string
	yields  bool // see request
	by      sealer.Ref
	// end is the position that the session seals up to, exclusive. short means that the log continues
	// there, but the warehouse doesn't yet.
	end   sealer.Position
	short bool
	// signer and directory belong together: the directory was read after signer, and
	// after everything before end was signed, so it knows all of their keys.
	signer        *sealer.Signer
	receipts      string // the purpose of the keys of receipts
	directory     *keydir.Directory
	directoryText []byte
	// earlier caches the entries of earlier packs.
	earlier map[string]leaves // by pack id
}

// prepare reads the signer and the key directory, which may be newer than the end of the log.
func (s *session) prepare(ctx context.Context) error {
	purpose, err := s.cfg.Purpose(ctx, s.db.Read(), s.tenantID)
	if err != nil {
		return err
	}
	s.receipts = keydir.ReceiptPurpose(keydir.PurposeOf(purpose).Sandbox)
	if s.signer, err = s.keys.Signer(ctx, purpose); err != nil {
		return err
	}
	if s.directoryText, err = s.keys.Directory(ctx); err != nil {
		return err
	}
	s.directory, err = keydir.Read(s.directoryText)
	return err
}

// sealNext seals one pack on the current head. more is false if no new events are left. errMoved
// means that another process was faster.
func (s *session) sealNext(ctx context.Context) (more bool, err error) {
	old, err := readHead(ctx, s.db.Read(), s.tenantID)
	if err != nil {
		return false, err
	}
	d := newDraft(s, old)
	defer d.scratch.close()
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
