package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/signature"
)

// okCodes are the codes of the verdicts that are OK.
func okCodes(verdicts []Verdict) []sealer.Code {
	var codes []sealer.Code
	for _, v := range verdicts {
		if v.OK {
			codes = append(codes, v.Code)
		}
	}
	return codes
}

func TestPackBothForms(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		events := append(w.Run(20), w.Note("right.revoked"))
		p := w.Seal(events)
		nd := sealertest.Bundle(t, p, events)
		require.Equal(t, 23, bytes.Count(nd, []byte("\n")))
		object := pack.AppendObject(nil, p, events)
		require.True(t, json.Valid(object))
		require.True(t, isCanonical(object))
		for _, form := range [][]byte{nd, object} {
			r, err := pack.Read(bytes.NewReader(form))
			require.NoError(t, err)
			require.Equal(t, p.Header, *r.Header())
			require.Equal(t, p.HeaderText, r.HeaderText())
			for _, e := range events {
				got, err := r.Next()
				require.NoError(t, err)
				require.Equal(t, string(e), string(got))
			}
			_, err = r.Next()
			require.Equal(t, io.EOF, err)
			require.Equal(t, p.Signature, r.Signature())

			v := w.verdicts(form)
			require.Empty(t, failures(v), "%v", v)
			want := []sealer.Code{DirectoryOK, SignatureOK, CheckpointOK, InclusionOK, WitnessOK, MeteringOK}
			if w.Packs > 1 {
				want = append(slices.Insert(want, 1, ConsistencyOK), DuplicatesUnproven, SettlementUnproven) // earlier packs are not at hand
			}
			require.Equal(t, want, okCodes(v))
		}
	}
}

func TestPackMetering(t *testing.T) {
	w := newWorld(t)
	at := func(n int, key string, after time.Duration) []byte {
		w.Now = sealertest.Epoch.Add(after)
		return w.Delivery(n, key)
	}
	events := [][]byte{
		at(2, "a", 0),
		at(2, "", time.Hour),
		at(2, "a", 23*time.Hour), // repeats leaf 0
		at(2, "a", 25*time.Hour), // repeats leaf 2, which repeats leaf 0: leaf 0 is too old
		at(2, "a", 24*time.Hour), // a day after leaf 0 to the millisecond
		at(2, "a", 50*time.Hour), // 25 h after the newest
		at(2, "a", time.Minute),  // late in the log, yet not older than a day: leaf 0
		at(3, "b", time.Hour),    // suppressed
		w.Note("right.revoked"),
	}
	w.Now = sealertest.Epoch.Add(60 * time.Hour)
	p := w.Seal(events)
	require.Equal(t, []pack.Duplicate{{Leaf: 2, First: 0}, {Leaf: 3, First: 2}, {Leaf: 4, First: 0}, {Leaf: 6, First: 0}}, p.Header.Duplicates)
	require.Equal(t, []pack.MeterRow{
		{RightID: "rgh_2", Substrate: "MOBILE", BasisID: "bas_0", MeteringBasis: "none", Reason: "DUPLICATE", Receipts: 4},
		{RightID: "rgh_2", Substrate: "MOBILE", BasisID: "bas_0", MeteringBasis: "viewable", Reason: "METERED", Receipts: 3, QuantityMs: 9000, Impressions: 3 * sealer.Impression},
		{RightID: "rgh_3", Substrate: "DOOH", BasisID: "bas_1", MeteringBasis: p.Header.Metering[2].MeteringBasis, Reason: "NOT_VISIBLE", Receipts: 1},
	}, p.Header.Metering)
	require.Empty(t, failures(w.verdicts(sealertest.Bundle(t, p, events))))
}

// checker verifies many versions of the one pack that is good. What inspecting
// the good entries found is remembered: inspection is pure, so this changes
// nothing but the time that thousands of verifications take.
func (w *world) checker(good []byte) func(bundle []byte) []Verdict {
	w.TB.Helper()
	var base pack.Inspector
	var mu sync.Mutex
	known := make(map[string]pack.Finding)
	primed := trust{root: w.VKey}
	run := func(bundle []byte, inspect func(*pack.Inspector, []byte) pack.Finding) []Verdict {
		t := primed
		c := packCheck{trust: &t, rate: rate.Rating.Rate, inspect: inspect}
		require.NoError(w.TB, c.run(context.Background(), bytes.NewReader(bundle), nil))
		c.settle(false)
		return c.verdicts
	}
	require.Empty(w.TB, failures(run(good, func(in *pack.Inspector, text []byte) pack.Finding {
		mu.Lock()
		defer mu.Unlock()
		base = *in
		known[string(text)] = in.Inspect(text)[0]
		return known[string(text)]
	})))
	primed.learn(w.headerOf(good).Directory)
	return func(bundle []byte) []Verdict {
		return run(bundle, func(in *pack.Inspector, text []byte) pack.Finding {
			same := in.Purpose == base.Purpose && in.SealedAt.Equal(base.SealedAt) && in.Directory.IssuedAt.Equal(base.Directory.IssuedAt)
			if f, ok := known[string(text)]; ok && same {
				return f
			}
			return in.Inspect(text)[0]
		})
	}
}

// headerOf reads the header of a pack.
func (w *world) headerOf(bundle []byte) *pack.Header {
	w.TB.Helper()
	r, err := pack.Read(bytes.NewReader(bundle))
	require.NoError(w.TB, err)
	return r.Header()
}

// flip changes bytes of a good pack, one at a time, on all processors.
func (w *world) flip(t *testing.T, good []byte, places []int) {
	t.Helper()
	check := w.checker(good)
	var group sync.WaitGroup
	missed := make(chan int, len(places))
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		group.Go(func() {
			pack := bytes.Clone(good)
			for n := worker; n < len(places); n += workers {
				i := places[n]
				pack[i] ^= 1 << (n % 8)
				if len(failures(check(pack))) == 0 {
					missed <- i
				}
				pack[i] = good[i]
			}
		})
	}
	group.Wait()
	close(missed)
	for i := range missed {
		require.Failf(t, "a flip is not found", "byte %d", i)
	}
}

// every lists each step-th place of a pack.
func every(step int, pack []byte) (places []int) {
	for i := 0; i < len(pack); i += step {
		places = append(places, i)
	}
	return places
}

// TestEveryFlipIsFound changes bytes of a pack of 20 receipts, one at a time: each of them
// in the full form.
func TestEveryFlipIsFound(t *testing.T) {
	w := newWorld(t)
	w.Seal(w.Run(3))
	events := w.Run(20)
	p := w.Seal(events)
	step := sealertest.Rounds(23, 1)
	bundle := sealertest.Bundle(t, p, events)
	w.flip(t, bundle, every(step, bundle))
	object := pack.AppendObject(nil, p, events)
	w.flip(t, object, every(7*step, object))
}

// TestRandomFlipsAreFound changes some bytes of a pack of 300 entries, in the full form of 2,000.
func TestRandomFlipsAreFound(t *testing.T) {
	w := newWorld(t)
	events := w.Run(sealertest.Rounds(300, 2000))
	pack := sealertest.Bundle(t, w.Seal(events), events)
	places := rand.New(rand.NewPCG(7, 8)).Perm(len(pack))[:sealertest.Rounds(60, 2000)]
	w.flip(t, pack, places)
}

// TestAlteredPacks names what each kind of tampering is called.
func TestAlteredPacks(t *testing.T) {
	w := newWorld(t)
	first := w.Run(5)
	firstPack := w.Seal(first)
	events := append(w.Run(9), w.Note("right.revoked"))
	p := w.Seal(events)
	lines := bytes.Split(bytes.TrimSuffix(sealertest.Bundle(t, p, events), []byte("\n")), []byte("\n"))
	other := newWorld(t)
	other.Tenant = sealertest.TenantID("other")
	foreign := other.Delivery(4, "")

	edit := func(change func(l [][]byte) [][]byte) []byte { return forge(change(slices.Clone(lines))...) }
	replace := func(i int, old, new string) []byte {
		return edit(func(l [][]byte) [][]byte {
			l[i] = []byte(strings.Replace(string(l[i]), old, new, 1))
			require.NotEqual(t, string(lines[i]), string(l[i]))
			return l
		})
	}
	for name, c := range map[string]struct {
		pack []byte
		want []sealer.Code
	}{
		"entry deleted":     {edit(func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) }), []sealer.Code{CountMismatch}},
		"entry inserted":    {edit(func(l [][]byte) [][]byte { return slices.Insert(l, 3, foreign) }), []sealer.Code{FormatInvalid}},
		"entry replaced":    {edit(func(l [][]byte) [][]byte { l[3] = foreign; return l }), []sealer.Code{RootMismatch, sealer.TenantMismatch}},
		"entries swapped":   {edit(func(l [][]byte) [][]byte { l[3], l[4] = l[4], l[3]; return l }), []sealer.Code{RootMismatch}},
		"entry doubled":     {edit(func(l [][]byte) [][]byte { l[3] = l[4]; return l }), []sealer.Code{RootMismatch, sealer.EntryRepeated}},
		"moved right":       {replace(2, `"subject":{"id":"rgh_1"`, `"subject":{"id":"rgh_2"`), []sealer.Code{RootMismatch, sealer.WitnessMismatch}},
		"more ms":           {replace(2, `"quantityMs":1500`, `"quantityMs":9500`), []sealer.Code{RootMismatch, sealer.WitnessMismatch}},
		"signature swapped": {replace(2, sigValue(t, lines[2]), sigValue(t, lines[4])), []sealer.Code{RootMismatch, sealer.SignatureInvalid}},
		"note changed":      {replace(10, "end of campaign", "holiday"), []sealer.Code{RootMismatch}},
		"note respelt":      {replace(10, "end of campaign", `\u0065nd of campaign`), []sealer.Code{RootMismatch, sealer.EntryAltered}},
		"header count":      {replace(0, `"count":10`, `"count":11`), []sealer.Code{FormatInvalid}},
		"header rows":       {replace(0, `"quantityMs":`, `"quantityMs":1`), []sealer.Code{sealer.SignatureInvalid, MeteringMismatch}},
		"header seal time":  {replace(0, `"sealedAt":"2026-05-01T12:00:1`, `"sealedAt":"2026-05-01T12:00:2`), []sealer.Code{sealer.SignatureInvalid, CheckpointMismatch}},
		"header previous":   {replace(0, firstPack.Header.PackID, p.Header.PackID), []sealer.Code{sealer.SignatureInvalid}},
		"header hash":       {replace(0, `"headerHash":"`, `"headerHash":"A`), []sealer.Code{FormatInvalid}},
		"header root":       {replace(0, `"rootHash":"`+p.Header.RootHash.String(), `"rootHash":"`+firstPack.Header.RootHash.String()), []sealer.Code{ConsistencyMismatch, sealer.SignatureInvalid, CheckpointMismatch, RootMismatch}},
		"header proof":      {replace(0, p.Header.Consistency[0].String(), p.Header.RootHash.String()), []sealer.Code{ConsistencyMismatch, sealer.SignatureInvalid, RootMismatch}},
		"header checkpoint": {replace(0, `{"checkpoint":"`, `{"checkpoint":"x`), []sealer.Code{sealer.SignatureInvalid, CheckpointMismatch}},
		"no signature":      {edit(func(l [][]byte) [][]byte { return l[:len(l)-1] }), []sealer.Code{FormatInvalid}},
		"signed by another": {replace(11, p.Header.SigningKeyID, keydir.KeyID(sealertest.Public(sealertest.PrivateKey("sandbox")))), []sealer.Code{FormatInvalid}},
		"two signatures":    {edit(func(l [][]byte) [][]byte { return append(l, l[len(l)-1]) }), []sealer.Code{FormatInvalid}},
		"blank line within": {edit(func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte{}) }), []sealer.Code{FormatInvalid}},
		"old line ends":     {bytes.ReplaceAll(forge(lines...), []byte("\n"), []byte("\r")), []sealer.Code{FormatInvalid}},
		"private part":      {edit(func(l [][]byte) [][]byte { return slices.Insert(l, 11, []byte(`{"salt":"AAAAAAAAAAAAAAAAAAAAAA"}`)) }), []sealer.Code{FormatInvalid}},
		"nothing":           {nil, []sealer.Code{FormatInvalid}},
		"only a header":     {forge(lines[0]), []sealer.Code{FormatInvalid}},
		"header of another": {edit(func(l [][]byte) [][]byte { l[0] = firstPack.HeaderText; return l }), []sealer.Code{FormatInvalid}},
		"a text":            {[]byte("no pack at all\n"), []sealer.Code{FormatInvalid}},
	} {
		require.Equal(t, c.want, failures(w.verdicts(c.pack)), name)
	}

	pack := forge(lines...)
	check := w.checker(pack)
	for cut := 0; cut < len(pack); cut += 11 {
		require.NotEmpty(t, failures(check(pack[:cut])), "cut at %d", cut)
	}
}

func sigValue(t *testing.T, event []byte) string {
	t.Helper()
	parts, err := sealer.SplitDelivery(event)
	require.NoError(t, err)
	return string(parts.Signature[len(parts.Signature)-89:])
}

// TestForgedPacks has packs signed by keys that must not sign them.
func TestForgedPacks(t *testing.T) {
	t.Run("header signed again by another key", func(t *testing.T) {
		w := newWorld(t)
		events := w.Run(4)
		p := w.Seal(events)
		thief := sealertest.PrivateKey("thief")
		header := bytes.ReplaceAll(p.HeaderText, []byte(p.Header.SigningKeyID), []byte(keydir.KeyID(sealertest.Public(thief))))
		signature, err := sign(thief, header)
		require.NoError(t, err)
		bundle := forge(slices.Concat([][]byte{header}, events, [][]byte{signatureLine(keydir.KeyID(sealertest.Public(thief)), signature)})...)
		require.Equal(t, []sealer.Code{DirectoryInvalid}, failures(w.verdicts(bundle)))

		// The directory as it was, and only the name of the key changed.
		header = bytes.Replace(p.HeaderText, []byte(`"signingKeyId":"`+p.Header.SigningKeyID), []byte(`"signingKeyId":"`+keydir.KeyID(sealertest.Public(thief))), 1)
		signature, err = sign(thief, header)
		require.NoError(t, err)
		bundle = forge(slices.Concat([][]byte{header}, events, [][]byte{signatureLine(keydir.KeyID(sealertest.Public(thief)), signature)})...)
		require.Equal(t, []sealer.Code{sealer.KeyUnknown}, failures(w.verdicts(bundle)))
	})
	t.Run("under another root", func(t *testing.T) {
		w := newWorld(t)
		w.RootName = "evil.example"
		events := w.Run(4)
		bundle := sealertest.Bundle(t, w.Seal(events), events)
		require.Equal(t, []sealer.Code{DirectoryForeign}, failures(w.verdicts(bundle)))
	})
	t.Run("by a node's key", func(t *testing.T) {
		w := newWorld(t)
		_, err := pack.NewBuilder(pack.Config{
			PackID: w.PackID(1), TenantID: w.Tenant, Before: merkle.NewTree(), SealedAt: sealertest.Epoch, Directory: w.Directory(), Key: w.Nodes[0].Key,
		})
		require.ErrorContains(t, err, string(sealer.KeyPurpose))
	})
	t.Run("behind another pack", func(t *testing.T) {
		w := newWorld(t)
		w.Seal(w.Run(3))
		w.Previous.RootHash = merkle.Hash{}
		_, err := pack.NewBuilder(pack.Config{
			PackID: w.PackID(2), TenantID: w.Tenant, Before: w.Tree, Previous: w.Previous, SealedAt: w.Now, Directory: w.Directory(), Key: w.PackKey,
		})
		require.ErrorContains(t, err, "does not end with the given tree")
	})
}

// resign signs a header again that was changed, with the pack's own key: what a
// service that lies could publish.
func (w *world) resign(p *pack.Pack, events [][]byte, change func(h *pack.Header)) []byte {
	w.TB.Helper()
	h := p.Header
	change(&h)
	text := h.Append(nil)
	signature, err := sign(w.PackKey, text)
	require.NoError(w.TB, err)
	return forge(slices.Concat([][]byte{text}, events, [][]byte{signatureLine(h.SigningKeyID, signature)})...)
}

// unbilled is a pack of deliveries in which each is said to repeat an earlier leaf of its
// own, as far as there are any.
func (w *world) unbilled(p *pack.Pack, events [][]byte) []byte {
	w.TB.Helper()
	return w.resign(p, events, func(h *pack.Header) {
		var m pack.Meter
		h.Duplicates = nil
		for i, e := range events {
			d, err := sealer.ReadDelivery(e)
			require.NoError(w.TB, err)
			repeats := uint64(i) < h.FirstIndex
			m.Add(&d, repeats)
			if repeats {
				h.Duplicates = append(h.Duplicates, pack.Duplicate{Leaf: h.FirstIndex + uint64(i), First: uint64(i)})
			}
		}
		h.Metering = m.Rows()
	})
}

// revokePackKey lets another key take over from the pack key, which is revoked.
func (w *world) revokePackKey() {
	w.TB.Helper()
	stolen := keydir.KeyID(sealertest.Public(w.PackKey))
	revoked := w.Now.Add(time.Minute)
	w.Now = revoked.Add(time.Minute)
	w.PackKey = sealertest.PrivateKey("second pack key")
	w.Keys = append(w.Keys, keydir.NewKey(sealertest.Public(w.PackKey), keydir.PurposePack, revoked))
	w.Key(stolen).RevokedAt = &revoked
}

func TestPacksOfALiar(t *testing.T) {
	w := newWorld(t)
	w.Seal(w.Run(3))
	events := append(w.Run(20), w.Delivery(2, ""))
	p := w.Seal(events)
	require.Len(t, p.Header.Duplicates, 2)
	for name, c := range map[string]struct {
		change func(*pack.Header)
		want   sealer.Code
	}{
		"more ms":             {func(h *pack.Header) { h.Metering[0].QuantityMs += 1000 }, MeteringMismatch},
		"more impressions":    {func(h *pack.Header) { h.Metering[0].Impressions++ }, MeteringMismatch},
		"row left out":        {func(h *pack.Header) { h.Metering = h.Metering[1:] }, MeteringMismatch},
		"row twice":           {func(h *pack.Header) { h.Metering = append(h.Metering, h.Metering[0]) }, MeteringMismatch},
		"rows in other order": {func(h *pack.Header) { slices.Reverse(h.Metering) }, MeteringMismatch},
		"duplicate left out":  {func(h *pack.Header) { h.Duplicates = h.Duplicates[1:] }, DuplicatesMismatch},
		"duplicate made up": {func(h *pack.Header) {
			h.Duplicates = []pack.Duplicate{{Leaf: h.FirstIndex + 1, First: h.FirstIndex}}
		}, DuplicatesMismatch},
		"duplicate of another": {func(h *pack.Header) { h.Duplicates[0].First-- }, DuplicatesMismatch},
		"out of order":         {func(h *pack.Header) { slices.Reverse(h.Duplicates) }, FormatInvalid},
		"duplicate of itself":  {func(h *pack.Header) { h.Duplicates[0].First = h.Duplicates[0].Leaf }, FormatInvalid},
		"duplicate elsewhere":  {func(h *pack.Header) { h.Duplicates[0] = pack.Duplicate{Leaf: 1, First: 0} }, FormatInvalid},
		"earlier, without key": {func(h *pack.Header) {
			h.Duplicates = append(h.Duplicates, pack.Duplicate{Leaf: h.TreeSize - 1, First: 0})
		}, DuplicatesMismatch},
		"another tenant": {func(h *pack.Header) { h.TenantID = sealertest.TenantID("other") }, sealer.TenantMismatch},
		"another root":   {func(h *pack.Header) { h.RootHash[0] ^= 1 }, RootMismatch},
		"another previous": {func(h *pack.Header) {
			h.Previous = &pack.Ref{HeaderHash: merkle.Hash{}, PackID: sealertest.Named("ppk_", "another"), RootHash: h.RootHash, TreeSize: h.FirstIndex}
		}, ConsistencyMismatch},
		"checkpoint of before": {func(h *pack.Header) { h.Checkpoint = checkpointOf(t, w, h.FirstIndex) }, CheckpointMismatch},
		"proof left out":       {func(h *pack.Header) { h.Consistency = nil }, ConsistencyMismatch},
		"sealed too early":     {func(h *pack.Header) { h.SealedAt = sealertest.Epoch.Add(-time.Hour) }, sealer.KeyOutsideWindow},
	} {
		bundle := w.resign(p, events, func(h *pack.Header) {
			h.Metering, h.Duplicates = slices.Clone(h.Metering), slices.Clone(h.Duplicates)
			c.change(h)
		})
		require.Contains(t, failures(w.verdicts(bundle)), c.want, name)
	}
}

func TestFirstPackHasNoConsistencyProof(t *testing.T) {
	w := newWorld(t)
	events := w.Run(3)
	bundle := w.resign(w.Seal(events), events, func(h *pack.Header) { h.Consistency = []merkle.Hash{h.RootHash} })
	require.Equal(t, []sealer.Code{ConsistencyMismatch}, failures(w.verdicts(bundle)))
}

func checkpointOf(t *testing.T, w *world, size uint64) string {
	t.Helper()
	text, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(w.Tenant), Size: size, Root: w.Tree.Root(), SealedAt: w.Now}, w.PackKey)
	require.NoError(t, err)
	return text
}

func TestSandboxPack(t *testing.T) {
	w := newWorld(t)
	key := sealertest.PrivateKey("sandbox")
	w.PackKey = key
	w.Nodes = []*sealer.Signer{{KeyID: keydir.KeyID(sealertest.Public(key)), Node: "nod_control", Key: key}}
	events := w.Run(5)
	p := w.Seal(events)
	require.Empty(t, failures(w.verdicts(pack.AppendObject(nil, p, events))))
}

func TestBrokenDisk(t *testing.T) {
	w := newWorld(t)
	events := w.Run(300)
	pack := sealertest.Bundle(t, w.Seal(events), events)
	broken := io.MultiReader(bytes.NewReader(pack[:len(pack)/2]), brokenReader{})
	_, err := verifyPack(context.Background(), broken, w.VKey)
	require.ErrorIs(t, err, io.ErrClosedPipe)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = verifyPack(ctx, bytes.NewReader(pack), w.VKey)
	require.ErrorIs(t, err, context.Canceled)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// BenchmarkVerifyPack verifies a pack of 20,000 receipts, its signatures each by itself and in groups.
func BenchmarkVerifyPack(b *testing.B) {
	w := newWorld(b)
	const receipts = 20_000
	events := w.Run(receipts)
	pack := sealertest.Bundle(b, w.Seal(events), events)
	for name, signatures := range map[string]*signature.Checker{"one by one": nil, "grouped": new(signature.Checker)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c := packCheck{trust: &trust{root: w.VKey, signatures: signatures}, rate: rate.Rating.Rate}
				require.NoError(b, c.run(b.Context(), bytes.NewReader(pack), nil))
				require.False(b, c.failed())
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*receipts), "µs/receipt")
		})
	}
}
