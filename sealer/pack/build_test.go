package pack_test

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

func TestSealRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		events func(w *sealertest.World) [][]byte
		want   string
	}{
		"no entries": {func(*sealertest.World) [][]byte { return nil }, "0 entries"},
		"no event":   {func(w *sealertest.World) [][]byte { return append(w.Run(40), []byte("{}")) }, "entry 40: entry.altered"},
		"foreign event": {func(w *sealertest.World) [][]byte {
			o := sealertest.NewWorld(t)
			o.Tenant = sealertest.TenantID("o")
			return o.Run(1)
		}, "entry 0: tenant.mismatch"},
		"event twice": {func(w *sealertest.World) [][]byte { e := w.Run(2); return append(e, e[0]) }, "entry 2: entry.repeated"},
		"future event": {func(w *sealertest.World) [][]byte {
			defer func(now time.Time) { w.Now = now }(w.Now)
			w.Now = w.Now.Add(time.Second)
			return w.Run(1) // of a millisecond, and more, after the seal
		}, "entry 0: entry.after_seal"},
		"forged receipt": {func(w *sealertest.World) [][]byte { w.Nodes[1].Key = sealertest.PrivateKey("thief"); return w.Run(2) }, "entry 1: signature.invalid"},
		"unknown key":    {func(w *sealertest.World) [][]byte { w.Nodes[1].KeyID = "00"; return w.Run(2) }, "entry 1: key.unknown"},
		"revoked key": {func(w *sealertest.World) [][]byte {
			w.Key(w.Nodes[1].KeyID).RevokedAt = &sealertest.Epoch
			return w.Run(2)
		}, "entry 1: key.revoked"},
		"sandbox receipt": {func(w *sealertest.World) [][]byte {
			key := sealertest.PrivateKey("sandbox")
			w.Nodes[1] = &sealer.Signer{KeyID: keydir.KeyID(sealertest.Public(key)), Node: "nod_b", Key: key}
			return w.Run(2)
		}, "entry 1: key.purpose"},
		"moved receipt": {func(w *sealertest.World) [][]byte {
			e := w.Run(1)
			return [][]byte{bytes.Replace(e[0], []byte(`"rightId":"rgh_0"`), []byte(`"rightId":"rgh_1"`), 1)}
		}, "entry 0: witness.mismatch"},
	} {
		w := sealertest.NewWorld(t)
		_, err := w.TrySeal(c.events(w))
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestBundleWriterRefusesOtherEntries(t *testing.T) {
	w := sealertest.NewWorld(t)
	events := w.Run(3)
	p := w.Seal(events)
	for _, other := range [][][]byte{events[:2], append(slices.Clone(events), events[0]), {events[1], events[0], events[2]}} {
		b := pack.NewBundleWriter(io.Discard, p)
		for _, e := range other {
			require.NoError(t, b.Add(e))
		}
		require.Error(t, b.Close())
	}
}

func TestBuilderAborts(t *testing.T) {
	w := sealertest.NewWorld(t)
	b, err := pack.NewBuilder(pack.Config{
		PackID: w.PackID(1), TenantID: w.Tenant, Before: merkle.NewTree(), SealedAt: sealertest.Epoch, Directory: w.Directory(), Key: w.PackKey,
	})
	require.NoError(t, err)
	for _, e := range w.Run(100) {
		b.Add(e)
	}
	b.Abort()
	b.Abort()
}
