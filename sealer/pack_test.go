package sealer

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
)

// okCodes are the codes of the verdicts that are OK.
func okCodes(verdicts []Verdict) []Code {
	var codes []Code
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
		events := append(w.run(20), w.note("right.revoked"))
		p := w.seal(events)
		nd := bundle(t, p, events)
		require.Equal(t, 23, bytes.Count(nd, []byte("\n")))
		object := AppendPackObject(nil, p, events)
		require.True(t, json.Valid(object))
		require.True(t, isCanonical(object))
		for _, form := range [][]byte{nd, object} {
			r, err := ReadPack(bytes.NewReader(form))
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
			want := []Code{DirectoryOK, SignatureOK, CheckpointOK, InclusionOK, WitnessOK, MeteringOK}
			if w.packs > 1 {
				want = append(slices.Insert(want, 1, ConsistencyOK), DuplicatesUnproven, SettlementUnproven) // earlier packs are not at hand
			}
			require.Equal(t, want, okCodes(v))
		}
	}
}

func TestPackMetering(t *testing.T) {
	w := newWorld(t)
	at := func(n int, key string, after time.Duration) []byte {
		w.now = epoch.Add(after)
		return w.delivery(n, key)
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
		w.note("right.revoked"),
	}
	w.now = epoch.Add(60 * time.Hour)
	p := w.seal(events)
	require.Equal(t, []Duplicate{{2, 0}, {3, 2}, {4, 0}, {6, 0}}, p.Header.Duplicates)
	require.Equal(t, []MeterRow{
		{RightID: "rgh_2", Substrate: "MOBILE", BasisID: "bas_0", MeteringBasis: "none", Reason: "DUPLICATE", Receipts: 4},
		{RightID: "rgh_2", Substrate: "MOBILE", BasisID: "bas_0", MeteringBasis: "viewable", Reason: "METERED", Receipts: 3, QuantityMs: 9000, Impressions: 3 * Impression},
		{RightID: "rgh_3", Substrate: "DOOH", BasisID: "bas_1", MeteringBasis: p.Header.Metering[2].MeteringBasis, Reason: "NOT_VISIBLE", Receipts: 1},
	}, p.Header.Metering)
	require.Empty(t, failures(w.verdicts(bundle(t, p, events))))
}

// checker verifies many versions of the one pack that is good. What inspecting
// the good entries found is remembered: inspection is pure, so this changes
// nothing but the time that thousands of verifications take.
func (w *world) checker(good []byte) func(pack []byte) []Verdict {
	w.tb.Helper()
	var base inspector
	var mu sync.Mutex
	known := make(map[string]finding)
	primed := trust{root: w.vkey}
	run := func(pack []byte, inspect func(*inspector, []byte) finding) []Verdict {
		t := primed
		c := packCheck{trust: &t, rate: testRate, inspect: inspect}
		require.NoError(w.tb, c.run(context.Background(), bytes.NewReader(pack), newHistory(nil)))
		c.settle(false)
		return c.verdicts
	}
	require.Empty(w.tb, failures(run(good, func(in *inspector, text []byte) finding {
		mu.Lock()
		defer mu.Unlock()
		base = *in
		known[string(text)] = in.inspect(text)
		return known[string(text)]
	})))
	primed.learn(w.headerOf(good).Directory)
	return func(pack []byte) []Verdict {
		return run(pack, func(in *inspector, text []byte) finding {
			same := in.purpose == base.purpose && in.sealedAt.Equal(base.sealedAt) && in.directory.IssuedAt.Equal(base.directory.IssuedAt)
			if f, ok := known[string(text)]; ok && same {
				return f
			}
			return in.inspect(text)
		})
	}
}

// headerOf reads the header of a pack.
func (w *world) headerOf(pack []byte) *PackHeader {
	w.tb.Helper()
	r, err := ReadPack(bytes.NewReader(pack))
	require.NoError(w.tb, err)
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
	w.seal(w.run(3))
	events := w.run(20)
	p := w.seal(events)
	step := rounds(23, 1)
	pack := bundle(t, p, events)
	w.flip(t, pack, every(step, pack))
	object := AppendPackObject(nil, p, events)
	w.flip(t, object, every(7*step, object))
}

// TestRandomFlipsAreFound changes some bytes of a pack of 2,000 entries.
func TestRandomFlipsAreFound(t *testing.T) {
	w := newWorld(t)
	events := w.run(2000)
	pack := bundle(t, w.seal(events), events)
	places := rand.New(rand.NewPCG(7, 8)).Perm(len(pack))[:rounds(200, 2000)]
	w.flip(t, pack, places)
}

// TestAlteredPacks names what each kind of tampering is called.
func TestAlteredPacks(t *testing.T) {
	w := newWorld(t)
	first := w.run(5)
	firstPack := w.seal(first)
	events := append(w.run(9), w.note("right.revoked"))
	p := w.seal(events)
	lines := bytes.Split(bytes.TrimSuffix(bundle(t, p, events), []byte("\n")), []byte("\n"))
	other := newWorld(t)
	other.tenant = tenantID("other")
	foreign := other.delivery(4, "")

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
		want []Code
	}{
		"entry deleted":     {edit(func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) }), []Code{CountMismatch}},
		"entry inserted":    {edit(func(l [][]byte) [][]byte { return slices.Insert(l, 3, foreign) }), []Code{FormatInvalid}},
		"entry replaced":    {edit(func(l [][]byte) [][]byte { l[3] = foreign; return l }), []Code{RootMismatch, TenantMismatch}},
		"entries swapped":   {edit(func(l [][]byte) [][]byte { l[3], l[4] = l[4], l[3]; return l }), []Code{RootMismatch}},
		"entry doubled":     {edit(func(l [][]byte) [][]byte { l[3] = l[4]; return l }), []Code{RootMismatch, EntryRepeated}},
		"moved right":       {replace(2, `"subject":{"id":"rgh_1"`, `"subject":{"id":"rgh_2"`), []Code{RootMismatch, WitnessMismatch}},
		"more ms":           {replace(2, `"quantityMs":1500`, `"quantityMs":9500`), []Code{RootMismatch, WitnessMismatch}},
		"signature swapped": {replace(2, sigValue(t, lines[2]), sigValue(t, lines[4])), []Code{RootMismatch, SignatureInvalid}},
		"note changed":      {replace(10, "end of campaign", "holiday"), []Code{RootMismatch}},
		"note respelt":      {replace(10, "end of campaign", `\u0065nd of campaign`), []Code{RootMismatch, EntryAltered}},
		"header count":      {replace(0, `"count":10`, `"count":11`), []Code{FormatInvalid}},
		"header rows":       {replace(0, `"quantityMs":`, `"quantityMs":1`), []Code{SignatureInvalid, MeteringMismatch}},
		"header seal time":  {replace(0, `"sealedAt":"2026-05-01T12:00:1`, `"sealedAt":"2026-05-01T12:00:2`), []Code{SignatureInvalid, CheckpointMismatch}},
		"header previous":   {replace(0, firstPack.Header.PackID, p.Header.PackID), []Code{SignatureInvalid}},
		"header hash":       {replace(0, `"headerHash":"`, `"headerHash":"A`), []Code{FormatInvalid}},
		"header root":       {replace(0, `"rootHash":"`+p.Header.RootHash.String(), `"rootHash":"`+firstPack.Header.RootHash.String()), []Code{ConsistencyMismatch, SignatureInvalid, CheckpointMismatch, RootMismatch}},
		"header proof":      {replace(0, p.Header.Consistency[0].String(), p.Header.RootHash.String()), []Code{ConsistencyMismatch, SignatureInvalid, RootMismatch}},
		"header checkpoint": {replace(0, `{"checkpoint":"`, `{"checkpoint":"x`), []Code{SignatureInvalid, CheckpointMismatch}},
		"no signature":      {edit(func(l [][]byte) [][]byte { return l[:len(l)-1] }), []Code{FormatInvalid}},
		"signed by another": {replace(11, p.Header.SigningKeyID, KeyID(pub(testKey("sandbox")))), []Code{FormatInvalid}},
		"two signatures":    {edit(func(l [][]byte) [][]byte { return append(l, l[len(l)-1]) }), []Code{FormatInvalid}},
		"blank line at end": {edit(func(l [][]byte) [][]byte { return append(l, nil) }), []Code{FormatInvalid}},
		"blank line within": {edit(func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte{}) }), []Code{FormatInvalid}},
		"windows line ends": {bytes.ReplaceAll(forge(lines...), []byte("\n"), []byte("\r\n")), []Code{FormatInvalid}},
		"no last newline":   {bytes.TrimSuffix(forge(lines...), []byte("\n")), []Code{FormatInvalid}},
		"private part":      {edit(func(l [][]byte) [][]byte { return slices.Insert(l, 11, []byte(`{"salt":"AAAAAAAAAAAAAAAAAAAAAA"}`)) }), []Code{FormatInvalid}},
		"nothing":           {nil, []Code{FormatInvalid}},
		"only a header":     {forge(lines[0]), []Code{FormatInvalid}},
		"header of another": {edit(func(l [][]byte) [][]byte { l[0] = firstPack.HeaderText; return l }), []Code{FormatInvalid}},
		"a text":            {[]byte("no pack at all\n"), []Code{FormatInvalid}},
	} {
		require.Equal(t, c.want, failures(w.verdicts(c.pack)), name)
	}

	pack := forge(lines...)
	check := w.checker(pack)
	for cut := 0; cut < len(pack); cut += 5 {
		require.NotEmpty(t, failures(check(pack[:cut])), "cut at %d", cut)
	}
}

func sigValue(t *testing.T, event []byte) string {
	t.Helper()
	parts, err := SplitDelivery(event)
	require.NoError(t, err)
	return string(parts.Signature[len(parts.Signature)-89:])
}

// TestForgedPacks has packs that somebody signed, only not whoever may.
func TestForgedPacks(t *testing.T) {
	t.Run("header signed again by another key", func(t *testing.T) {
		w := newWorld(t)
		events := w.run(4)
		p := w.seal(events)
		thief := testKey("thief")
		header := bytes.ReplaceAll(p.HeaderText, []byte(p.Header.SigningKeyID), []byte(KeyID(pub(thief))))
		signature, err := sign(thief, header)
		require.NoError(t, err)
		pack := forge(slices.Concat([][]byte{header}, events, [][]byte{signatureLine(KeyID(pub(thief)), signature)})...)
		require.Equal(t, []Code{DirectoryInvalid}, failures(w.verdicts(pack)))

		// The directory as it was, and only the name of the key changed.
		header = bytes.Replace(p.HeaderText, []byte(`"signingKeyId":"`+p.Header.SigningKeyID), []byte(`"signingKeyId":"`+KeyID(pub(thief))), 1)
		signature, err = sign(thief, header)
		require.NoError(t, err)
		pack = forge(slices.Concat([][]byte{header}, events, [][]byte{signatureLine(KeyID(pub(thief)), signature)})...)
		require.Equal(t, []Code{KeyUnknown}, failures(w.verdicts(pack)))
	})
	t.Run("under another root", func(t *testing.T) {
		w := newWorld(t)
		w.rootName = "evil.example"
		events := w.run(4)
		pack := bundle(t, w.seal(events), events)
		require.Equal(t, []Code{DirectoryInvalid}, failures(w.verdicts(pack)))
	})
	t.Run("by a node's key", func(t *testing.T) {
		w := newWorld(t)
		_, err := NewPackBuilder(PackConfig{
			PackID: w.packID(1), TenantID: w.tenant, Before: NewTree(), SealedAt: epoch, Directory: w.directory(), Key: w.nodes[0].Key,
		})
		require.ErrorContains(t, err, string(KeyPurpose))
	})
	t.Run("behind another pack", func(t *testing.T) {
		w := newWorld(t)
		w.seal(w.run(3))
		w.previous.RootHash = Hash{}
		_, err := NewPackBuilder(PackConfig{
			PackID: w.packID(2), TenantID: w.tenant, Before: w.tree, Previous: w.previous, SealedAt: w.now, Directory: w.directory(), Key: w.packKey,
		})
		require.ErrorContains(t, err, "does not end with the tree before")
	})
}

// resign signs a header again that was changed, with the pack's own key: what a
// service that lies could publish.
func (w *world) resign(p *SealedPack, events [][]byte, change func(h *PackHeader)) []byte {
	w.tb.Helper()
	h := p.Header
	change(&h)
	text := h.append(nil)
	signature, err := sign(w.packKey, text)
	require.NoError(w.tb, err)
	return forge(slices.Concat([][]byte{text}, events, [][]byte{signatureLine(h.SigningKeyID, signature)})...)
}

// unbilled is a pack of deliveries in which each is said to repeat an earlier leaf of its
// own, as far as there are any.
func (w *world) unbilled(p *SealedPack, events [][]byte) []byte {
	w.tb.Helper()
	return w.resign(p, events, func(h *PackHeader) {
		var m Meter
		h.Duplicates = nil
		for i, e := range events {
			d, err := ReadDelivery(e)
			require.NoError(w.tb, err)
			repeats := uint64(i) < h.FirstIndex
			m.Add(&d, repeats)
			if repeats {
				h.Duplicates = append(h.Duplicates, Duplicate{Leaf: h.FirstIndex + uint64(i), First: uint64(i)})
			}
		}
		h.Metering = m.Rows()
	})
}

// revokePackKey lets another key take over from the pack key, which is revoked.
func (w *world) revokePackKey() {
	w.tb.Helper()
	stolen := KeyID(pub(w.packKey))
	revoked := w.now.Add(time.Minute)
	w.now = revoked.Add(time.Minute)
	w.packKey = testKey("second pack key")
	w.keys = append(w.keys, NewKey(pub(w.packKey), PurposePack, revoked))
	w.key(stolen).RevokedAt = &revoked
}

func TestPacksOfALiar(t *testing.T) {
	w := newWorld(t)
	w.seal(w.run(3))
	events := append(w.run(20), w.delivery(2, ""))
	p := w.seal(events)
	require.Len(t, p.Header.Duplicates, 2)
	for name, c := range map[string]struct {
		change func(*PackHeader)
		want   Code
	}{
		"more ms":              {func(h *PackHeader) { h.Metering[0].QuantityMs += 1000 }, MeteringMismatch},
		"more impressions":     {func(h *PackHeader) { h.Metering[0].Impressions++ }, MeteringMismatch},
		"row left out":         {func(h *PackHeader) { h.Metering = h.Metering[1:] }, MeteringMismatch},
		"row twice":            {func(h *PackHeader) { h.Metering = append(h.Metering, h.Metering[0]) }, MeteringMismatch},
		"rows in other order":  {func(h *PackHeader) { slices.Reverse(h.Metering) }, MeteringMismatch},
		"duplicate left out":   {func(h *PackHeader) { h.Duplicates = h.Duplicates[1:] }, DuplicatesMismatch},
		"duplicate made up":    {func(h *PackHeader) { h.Duplicates = []Duplicate{{h.FirstIndex + 1, h.FirstIndex}} }, DuplicatesMismatch},
		"duplicate of another": {func(h *PackHeader) { h.Duplicates[0].First-- }, DuplicatesMismatch},
		"out of order":         {func(h *PackHeader) { slices.Reverse(h.Duplicates) }, FormatInvalid},
		"duplicate of itself":  {func(h *PackHeader) { h.Duplicates[0].First = h.Duplicates[0].Leaf }, FormatInvalid},
		"duplicate elsewhere":  {func(h *PackHeader) { h.Duplicates[0] = Duplicate{1, 0} }, FormatInvalid},
		"earlier, without key": {func(h *PackHeader) { h.Duplicates = append(h.Duplicates, Duplicate{h.TreeSize - 1, 0}) }, DuplicatesMismatch},
		"another tenant":       {func(h *PackHeader) { h.TenantID = tenantID("other") }, TenantMismatch},
		"another root":         {func(h *PackHeader) { h.RootHash[0] ^= 1 }, RootMismatch},
		"another previous": {func(h *PackHeader) {
			h.Previous = &PackRef{Hash{}, named(packPrefix, "another"), h.RootHash, h.FirstIndex}
		}, ConsistencyMismatch},
		"checkpoint of before": {func(h *PackHeader) { h.Checkpoint = checkpointOf(t, w, h.FirstIndex) }, CheckpointMismatch},
		"proof left out":       {func(h *PackHeader) { h.Consistency = nil }, ConsistencyMismatch},
		"sealed too early":     {func(h *PackHeader) { h.SealedAt = epoch.Add(-time.Hour) }, KeyOutsideWindow},
	} {
		pack := w.resign(p, events, func(h *PackHeader) {
			h.Metering, h.Duplicates = slices.Clone(h.Metering), slices.Clone(h.Duplicates)
			c.change(h)
		})
		require.Contains(t, failures(w.verdicts(pack)), c.want, name)
	}
}

func TestFirstPackHasNoConsistencyProof(t *testing.T) {
	w := newWorld(t)
	events := w.run(3)
	pack := w.resign(w.seal(events), events, func(h *PackHeader) { h.Consistency = []Hash{h.RootHash} })
	require.Equal(t, []Code{ConsistencyMismatch}, failures(w.verdicts(pack)))
}

func checkpointOf(t *testing.T, w *world, size uint64) string {
	t.Helper()
	text, err := SignCheckpoint(Checkpoint{Origin(w.tenant), size, w.tree.Root(), w.now}, w.packKey)
	require.NoError(t, err)
	return text
}

func TestSealRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		events func(w *world) [][]byte
		want   string
	}{
		"no entries":    {func(*world) [][]byte { return nil }, "0 entries"},
		"no event":      {func(w *world) [][]byte { return append(w.run(40), []byte("{}")) }, "entry 40: entry.altered"},
		"foreign event": {func(w *world) [][]byte { o := newWorld(t); o.tenant = tenantID("o"); return o.run(1) }, "entry 0: tenant.mismatch"},
		"event twice":   {func(w *world) [][]byte { e := w.run(2); return append(e, e[0]) }, "entry 2: entry.repeated"},
		"future event": {func(w *world) [][]byte {
			defer func(now time.Time) { w.now = now }(w.now)
			w.now = w.now.Add(time.Second)
			return w.run(1) // of a millisecond, and more, after the seal
		}, "entry 0: entry.after_seal"},
		"forged receipt": {func(w *world) [][]byte { w.nodes[1].Key = testKey("thief"); return w.run(2) }, "entry 1: signature.invalid"},
		"unknown key":    {func(w *world) [][]byte { w.nodes[1].KeyID = "00"; return w.run(2) }, "entry 1: key.unknown"},
		"revoked key": {func(w *world) [][]byte {
			w.key(w.nodes[1].KeyID).RevokedAt = &epoch
			return w.run(2)
		}, "entry 1: key.revoked"},
		"sandbox receipt": {func(w *world) [][]byte {
			key := testKey("sandbox")
			w.nodes[1] = &Signer{KeyID(pub(key)), "nod_b", key}
			return w.run(2)
		}, "entry 1: key.purpose"},
		"moved receipt": {func(w *world) [][]byte {
			e := w.run(1)
			return [][]byte{bytes.Replace(e[0], []byte(`"rightId":"rgh_0"`), []byte(`"rightId":"rgh_1"`), 1)}
		}, "entry 0: witness.mismatch"},
	} {
		w := newWorld(t)
		_, err := w.trySeal(c.events(w))
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestSandboxPack(t *testing.T) {
	w := newWorld(t)
	key := testKey("sandbox")
	w.packKey = key
	w.nodes = []*Signer{{KeyID(pub(key)), "nod_control", key}}
	events := w.run(5)
	p := w.seal(events)
	require.Empty(t, failures(w.verdicts(AppendPackObject(nil, p, events))))
}

func TestBundleWriterRefusesOtherEntries(t *testing.T) {
	w := newWorld(t)
	events := w.run(3)
	p := w.seal(events)
	for _, other := range [][][]byte{events[:2], append(slices.Clone(events), events[0]), {events[1], events[0], events[2]}} {
		b := NewBundleWriter(io.Discard, p)
		for _, e := range other {
			require.NoError(t, b.Add(e))
		}
		require.Error(t, b.Close())
	}
}

func TestPackBuilderAborts(t *testing.T) {
	w := newWorld(t)
	b, err := NewPackBuilder(PackConfig{
		PackID: w.packID(1), TenantID: w.tenant, Before: NewTree(), SealedAt: epoch, Directory: w.directory(), Key: w.packKey,
	})
	require.NoError(t, err)
	for _, e := range w.run(100) {
		b.Add(e)
	}
	b.Abort()
	b.Abort()
}

func TestVerifyPackTellsABrokenDisk(t *testing.T) {
	w := newWorld(t)
	events := w.run(300)
	pack := bundle(t, w.seal(events), events)
	broken := io.MultiReader(bytes.NewReader(pack[:len(pack)/2]), brokenReader{})
	_, err := verifyPack(context.Background(), broken, w.vkey)
	require.ErrorIs(t, err, io.ErrClosedPipe)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = verifyPack(ctx, bytes.NewReader(pack), w.vkey)
	require.ErrorIs(t, err, context.Canceled)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
