package proof

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"muniment.example/control/objects"
	"muniment.example/control/proof/prooftest"
	"muniment.example/control/settle"
	"muniment.example/control/signing"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/kafka"
	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	auditor "muniment.example/sealer/verify"
)

// fixture is the service and what surrounds it.
type fixture struct {
	*prooftest.Stage
	service *Service
	place   objects.Place // of the packs; nil: the folder
}

type (
	tb       = prooftest.TB
	delivery = prooftest.Delivery
)

const (
	tenant   = prooftest.Tenant
	stranger = prooftest.Stranger
)

var operator = prooftest.Operator

func deliveries(n int) []delivery { return prooftest.Deliveries(n) }

// build makes a fixture in a new folder. cfg holds what a test wants otherwise.
func build(t tb, cfg ...Config) *fixture { return buildOver(t, kafka.Config{}, cfg...) }

// buildOver makes a fixture whose log is a topic.
func buildOver(t tb, topic kafka.Config, cfg ...Config) *fixture {
	first := append(cfg, Config{})[0]
	h := &fixture{Stage: prooftest.NewStage(t, topic), place: first.Packs}
	h.open(first)
	t.Cleanup(h.Close)
	return h
}

// open starts everything over the folder.
func (h *fixture) open(cfg Config) {
	h.Open()
	cfg.DB, cfg.Log, cfg.Keys, cfg.Dir, cfg.Now = h.DB, h.Log, h.Keys, filepath.Join(h.Dir, "packs"), h.Now
	cfg.Packs = h.place
	cfg.Logger, cfg.Rate = slog.New(slog.DiscardHandler), settle.Rating.Rate
	if cfg.Warehouse == nil {
		cfg.Warehouse = h.Warehouse
	}
	var err error
	h.service, err = New(h.T.Context(), cfg)
	require.NoError(h.T, err)
}

// another is another process on the same database and folder.
func (h *fixture) another() *Service {
	h.T.Helper()
	service, err := New(h.T.Context(), h.service.cfg)
	require.NoError(h.T, err)
	return service
}

// reopen is a restart of the process.
func (h *fixture) reopen(cfg Config) {
	h.Close()
	h.open(cfg)
}

var _ Keys = (*signing.Service)(nil)

// seal must succeed; it returns the headers of the packs. The event of the
// sealing is in the log then.
func (h *fixture) seal() []pack.Header {
	h.T.Helper()
	sealed, err := h.service.sealWhole(h.T.Context(), h.Tenant, operator)
	require.NoError(h.T, err)
	require.NoError(h.T, h.DB.Outbox.Drain(h.T.Context(), h.Tenant))
	return headers(h.T, sealed)
}

func headers(t tb, sealed Sealed) []pack.Header {
	t.Helper()
	list := make([]pack.Header, 0, len(sealed.Packs))
	for _, text := range sealed.Packs {
		header, err := pack.ParseHeader(text)
		require.NoError(t, err)
		list = append(list, header)
	}
	if len(list) > 0 {
		require.Equal(t, string(sealed.Packs[len(list)-1]), string(sealed.Pack))
	}
	return list
}

// sealErr must fail; it returns what a caller sees of it.
func (h *fixture) sealErr() *api.Error {
	h.T.Helper()
	_, err := h.service.sealWhole(h.T.Context(), h.Tenant, operator)
	require.Error(h.T, err)
	return api.From(err)
}

// behind is what a caller sees of a seal that the warehouse keeps waiting. One whose time
// was over before it came to that is tried again.
func (h *fixture) behind() *api.Error {
	h.T.Helper()
	return h.refusal(h.sealErr)
}

// refusal is that of a seal, as often as there was no time for the warehouse.
func (h *fixture) refusal(seal func() *api.Error) *api.Error {
	h.T.Helper()
	refused := seal()
	for tries := 1; refused.Reason == api.LogUnavailable; tries++ {
		require.Less(h.T, tries, 100, "there is never time for the warehouse")
		refused = seal()
	}
	return refused
}

// refusalOfSome is that of SealSome.
func (h *fixture) refusalOfSome(upTo string) *api.Error {
	h.T.Helper()
	return h.refusal(func() *api.Error {
		_, err := h.service.SealSome(h.T.Context(), h.Tenant, h.position(upTo), operator)
		return api.From(err)
	})
}

// sealWhole seals all that was acknowledged before the call, or fails, as Vouch does.
func (s *Service) sealWhole(ctx context.Context, tenantID string, by sealer.Ref) (Sealed, error) {
	return s.timed(ctx, tenantID, request{spoolWait: s.cfg.SpoolWait, by: by})
}

// packs are the tenant's packs, as the database lists them.
func (h *fixture) packs() []Pack {
	packs, err := listPacks(h.T.Context(), h.DB.Read(), h.Tenant, 0, 1_000_000)
	require.NoError(h.T, err)
	return packs
}

// check has an auditor verify the packs, besides what entries looks at.
func (h *fixture) check() [][]byte {
	h.T.Helper()
	entries := h.entries()
	var files []string
	for _, p := range h.packs() {
		file := h.path(p.ID)
		if h.place != nil {
			file = filepath.Join(h.Dir, p.ID+packSuffix)
			require.NoError(h.T, os.WriteFile(file, h.read(p.ID), 0o600))
		}
		files = append(files, file)
	}
	var report bytes.Buffer
	exit := auditor.Files(h.T.Context(), auditor.Options{Files: files, Root: h.Keys.Vkey, Rating: settle.Rating, JSON: true}, &report)
	require.Equal(h.T, auditor.ExitSound, exit, report.String())
	return entries
}

// entries are those of all packs, in their order: the packs make one chain and hold each event of the
// tenant's log exactly once, but for those that came after the last seal.
func (h *fixture) entries() [][]byte {
	h.T.Helper()
	var entries [][]byte
	var previous *pack.Ref
	for _, p := range h.packs() {
		text := h.read(p.ID)
		reader, err := pack.Read(bytes.NewReader(text))
		require.NoError(h.T, err)
		header := reader.Header()
		require.EqualValues(h.T, len(entries), header.FirstIndex)
		require.Equal(h.T, previous, header.Previous)
		require.Equal(h.T, string(p.Header), string(reader.HeaderText()))
		require.EqualValues(h.T, len(text), p.File.Bytes)
		for {
			entry, err := reader.Next()
			if err == io.EOF {
				break
			}
			require.NoError(h.T, err)
			entries = append(entries, entry)
		}
		ref := header.Ref()
		previous = &ref
	}
	seen := map[string]bool{}
	for _, entry := range entries {
		require.False(h.T, seen[string(entry)], "twice: %s", entry)
		seen[string(entry)] = true
	}
	rows, err := h.Warehouse.Events(h.T.Context(), pipeline.EventQuery{TenantID: h.Tenant, Limit: 1_000_000})
	require.NoError(h.T, err)
	require.GreaterOrEqual(h.T, len(rows), len(entries))
	for i := range entries {
		require.Equal(h.T, string(rows[i].Event), string(entries[i]), "entry %d", i)
	}
	return entries
}

// path is that of a pack's file in the folder.
func (h *fixture) path(packID string) string {
	return filepath.Join(h.Dir, "packs", filepath.FromSlash(key(h.Tenant, packID)))
}

// read reads the file of a pack, wherever it is.
func (h *fixture) read(packID string) []byte {
	h.T.Helper()
	content, err := h.service.folder.packs.Open(h.T.Context(), key(h.Tenant, packID))
	require.NoError(h.T, err)
	defer content.Close()
	text, err := io.ReadAll(content)
	require.NoError(h.T, err)
	return text
}

// files are the names in the tenant's folder of packs, but for those of nodes, and of the packs that are in a
// bucket.
func (h *fixture) files() []string {
	var names []string
	entries, err := os.ReadDir(filepath.Join(h.Dir, "packs", h.Tenant))
	if !os.IsNotExist(err) {
		require.NoError(h.T, err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), nodesSuffix) {
			names = append(names, e.Name())
		}
	}
	if h.place != nil {
		require.NoError(h.T, each(h.T.Context(), h.place, h.Tenant+"/", func(_, packID string) error {
			names = append(names, packID+packSuffix)
			return nil
		}))
	}
	return names
}

// onlyOneRootOfASize opens every checkpoint that was ever signed, those of files
// without a pack included.
func (h *fixture) onlyOneRootOfASize() {
	h.T.Helper()
	roots := map[uint64]merkle.Hash{}
	for _, name := range h.files() {
		var text []byte
		if packID, ok := strings.CutSuffix(name, packSuffix); ok {
			text = h.read(packID)
		} else {
			var err error
			text, err = os.ReadFile(h.service.folder.name(h.Tenant, name))
			require.NoError(h.T, err)
		}
		p, err := pack.Read(bytes.NewReader(text))
		if err != nil {
			continue // a draft that was cut off
		}
		header := p.Header()
		root, met := roots[header.TreeSize]
		require.True(h.T, !met || root == header.RootHash, "two roots of size %d", header.TreeSize)
		roots[header.TreeSize] = header.RootHash
	}
}
