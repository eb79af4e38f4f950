package verify

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// TestEveryRangeIsExported exports every range of a log.
func TestEveryRangeIsExported(t *testing.T) {
	a := newArchive(t, 3, 1, 6)
	keys := a.Directory()
	for first := range a.events {
		for count := 1; first+count <= len(a.events); count++ {
			r := a.verify(keys, nil, file{"export", a.export(first, count)})
			require.True(t, r.OK, "%d from %d on: %+v", count, first, r.Files)
		}
	}
}

func TestFlipsInExport(t *testing.T) {
	a := newArchive(t, 3, 4, 2)
	a.flips(a.export(2, 2)) // of two packs
}

func TestBadExports(t *testing.T) {
	a := newArchive(t, 3, 4, 2)
	other := newArchive(t)
	other.Tenant = sealertest.TenantID("other")
	other.add(3)
	other.add(4)
	keys := a.Directory()
	whole := bytes.Split(bytes.TrimSuffix(a.export(1, 5), []byte("\n")), []byte("\n"))
	lines := func(change func([][]byte) [][]byte) []byte { return forge(change(slices.Clone(whole))...) }
	header := func(change func(*pack.ExportHeader)) []byte { return a.export(1, 5, change) }
	for about, c := range map[string]struct {
		text []byte
		want []sealer.Code
	}{
		"good":                   {header(func(*pack.ExportHeader) {}), nil},
		"an entry less":          {lines(func(l [][]byte) [][]byte { return l[:len(l)-1] }), []sealer.Code{FormatInvalid}},
		"an entry more":          {lines(func(l [][]byte) [][]byte { return append(l, a.events[6]) }), []sealer.Code{FormatInvalid}},
		"a blank line":           {lines(func(l [][]byte) [][]byte { return slices.Insert(l, 2, nil) }), []sealer.Code{RootMismatch, sealer.EntryAltered}},
		"only a header":          {lines(func(l [][]byte) [][]byte { return l[:1] }), []sealer.Code{FormatInvalid}},
		"half a header":          {whole[0][:100], []sealer.Code{FormatInvalid}},
		"swapped entries":        {lines(func(l [][]byte) [][]byte { l[1], l[2] = l[2], l[1]; return l }), []sealer.Code{RootMismatch}},
		"an altered entry":       {bytes.Replace(a.export(1, 5), []byte(`"quantityMs":1500`), []byte(`"quantityMs":9500`), 1), []sealer.Code{RootMismatch, sealer.WitnessMismatch}},
		"an entry of another":    {lines(func(l [][]byte) [][]byte { l[1] = other.events[1]; return l }), []sealer.Code{RootMismatch, sealer.TenantMismatch}},
		"count":                  {header(func(h *pack.ExportHeader) { h.Count-- }), []sealer.Code{FormatInvalid}},
		"count, none":            {header(func(h *pack.ExportHeader) { h.Count = 0 }), []sealer.Code{FormatInvalid}},
		"first":                  {header(func(h *pack.ExportHeader) { h.FirstIndex++ }), []sealer.Code{RootMismatch}},
		"first, far":             {header(func(h *pack.ExportHeader) { h.FirstIndex = 1 << 52 }), []sealer.Code{CheckpointMismatch}},
		"before, missing":        {header(func(h *pack.ExportHeader) { h.Before = nil }), []sealer.Code{FormatInvalid}},
		"before, another":        {header(func(h *pack.ExportHeader) { h.Before = []merkle.Hash{merkle.LeafHash(nil)} }), []sealer.Code{RootMismatch}},
		"after, missing":         {header(func(h *pack.ExportHeader) { h.After = nil }), []sealer.Code{FormatInvalid}},
		"after, another":         {header(func(h *pack.ExportHeader) { h.After = []merkle.Hash{merkle.LeafHash(nil)} }), []sealer.Code{RootMismatch}},
		"no checkpoint":          {header(func(h *pack.ExportHeader) { h.Checkpoints = nil }), []sealer.Code{FormatInvalid}},
		"first checkpoint only":  {header(func(h *pack.ExportHeader) { h.Checkpoints = h.Checkpoints[:1] }), []sealer.Code{CheckpointMismatch}},
		"last checkpoint only":   {header(func(h *pack.ExportHeader) { h.Checkpoints = h.Checkpoints[1:] }), nil},
		"checkpoint twice":       {header(func(h *pack.ExportHeader) { h.Checkpoints = append(h.Checkpoints, h.Checkpoints[1]) }), []sealer.Code{CheckpointMismatch}},
		"checkpoints swapped":    {header(func(h *pack.ExportHeader) { slices.Reverse(h.Checkpoints) }), []sealer.Code{CheckpointMismatch}},
		"one checkpoint more":    {header(func(h *pack.ExportHeader) { h.Checkpoints = append(h.Checkpoints, a.packs[2].Header.Checkpoint) }), []sealer.Code{CheckpointMismatch}},
		"of another log":         {header(func(h *pack.ExportHeader) { h.Checkpoints[1] = other.packs[1].Header.Checkpoint }), []sealer.Code{sealer.TenantMismatch}},
		"no note":                {header(func(h *pack.ExportHeader) { h.Checkpoints[0] = "x" }), []sealer.Code{FormatInvalid}},
		"tenant":                 {header(func(h *pack.ExportHeader) { h.TenantID = sealertest.TenantID("other") }), []sealer.Code{sealer.TenantMismatch}},
		"directory":              {header(func(h *pack.ExportHeader) { h.Directory = []byte(`{"delegation":"x"}`) }), []sealer.Code{DirectoryInvalid}},
		"after, where none is":   {a.export(4, 3, func(h *pack.ExportHeader) { h.After = []merkle.Hash{{}} }), []sealer.Code{FormatInvalid}},
		"an entry of no receipt": {a.export(2, 3, func(h *pack.ExportHeader) { h.After = append(h.After, merkle.Hash{}) }), []sealer.Code{FormatInvalid}},
	} {
		r := a.verify(keys, nil, file{"export", c.text})
		require.Equal(t, c.want, failures(r.Files[0].Verdicts), "%s: %+v", about, r.Files)
	}
}

// TestExportProvesReceipts verifies receipts with nothing but an export, whose
// header holds the directory.
func TestExportProvesReceipts(t *testing.T) {
	a := newArchive(t, 3, 4)
	r := a.verify(nil, nil, file{"receipt", answer(t, a.events[2])}, file{"export", a.export(1, 5)}, file{"event", a.events[4]})
	require.True(t, r.OK, "%+v", r.Files)
	require.Equal(t, InclusionOK, r.Files[0].Verdicts[0].Code)
}

// TestExportOfRevokedKeys has receipts by a key that was revoked between two packs
// or before all of them.
func TestExportOfRevokedKeys(t *testing.T) {
	a := newArchive(t, 3, 4)
	between := a.packs[0].Header.SealedAt.Add(time.Second)
	a.Now = a.Now.Add(time.Hour)
	a.Key(a.Nodes[0].KeyID).RevokedAt = &between
	r := a.verify(a.Directory(), nil, file{"export", a.export(0, 7)})
	require.Equal(t, []sealer.Code{sealer.KeyOutsideWindow}, failures(r.Files[0].Verdicts))
	for _, v := range r.Files[0].Verdicts {
		if !v.OK {
			require.GreaterOrEqual(t, *v.Index, 3, "the first pack is older than the revocation")
		}
	}
}
