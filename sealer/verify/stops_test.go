package verify

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// moved is an event of a right: its kind, id and revision, and its parent, if it has one.
func (w *world) moved(kind, right string, revision int, parent ...string) []byte {
	w.TB.Helper()
	said := "null"
	if len(parent) > 0 {
		said = `"` + parent[0] + `"`
	}
	return w.eventOf("right."+kind, sealer.Ref{Kind: "right", ID: right}, fmt.Sprintf(`{"parentRightId":%s,"revision":%d}`, said, revision))
}

// eventOf is an event, a second later.
func (w *world) eventOf(kind string, subject sealer.Ref, data string) []byte {
	w.TB.Helper()
	w.Now = w.Now.Add(time.Second)
	event, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: w.ID("evt_"), TenantID: w.Tenant, Type: kind, At: w.Now, Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: subject, Data: []byte(data),
	})
	require.NoError(w.TB, err)
	return event
}

// delivered is a delivery on a revision of a right, requested with key_fixture.
func (w *world) delivered(right string, revision int) []byte {
	w.TB.Helper()
	s, d, r := w.Draft(2)
	d.RightID, d.RightRevision = right, int64(revision)
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(w.TB, err)
	return event
}

// later lets time pass.
func (w *world) later(d time.Duration) []byte { w.Now = w.Now.Add(d); return nil }

const (
	fiveMinutes = 5 * time.Minute
	// A pack that begins with a wait and has one event is sealed three seconds and the wait
	// after the last event before.
	soon    = time.Hour + DefaultBound - 3*time.Second
	tooLate = soon + time.Millisecond
)

// stopCases are packs of one log, and for each pack the code that it fails with, or that is
// remarked, if any. Each moment of events is a second after the one before.
var stopCases = []struct {
	name  string
	packs []func(*world) [][]byte
	codes []sealer.Code
	// given are the packs that are verified; nil for all.
	given []int
}{
	{"a suspension's own revision", one(issued(10), suspended(20), delivered(20)), []sealer.Code{RightStopped}, nil},
	{"before it", one(issued(10), suspended(20), delivered(10)), []sealer.Code{""}, nil},
	{"the resumption's revision", one(issued(10), suspended(20), resumed(30), delivered(30)), []sealer.Code{""}, nil},
	{"the resumption stands behind", one(issued(10), suspended(20), delivered(30), earlier(2*time.Second, resumed(30))), []sealer.Code{""}, nil},
	{"between suspension and resumption", one(issued(10), suspended(20), resumed(30), delivered(25)), []sealer.Code{RightStopped}, nil},
	{"between, the log in another order", one(delivered(25), resumed(30), suspended(20)), []sealer.Code{RightStopped}, nil},
	{"the second suspension", one(suspended(20), resumed(30), suspended(40), delivered(40)), []sealer.Code{RightStopped}, nil},
	{"between two suspensions", one(suspended(20), resumed(30), suspended(40), delivered(35)), []sealer.Code{""}, nil},
	{"a resumption that is not at hand", one(suspended(20), delivered(30)), []sealer.Code{RightUnproven}, nil},
	{"a resumption that is not at hand, before another stop", one(suspended(20), suspended(40), delivered(30)), []sealer.Code{RightUnproven}, nil},
	{"a revocation's own revision", one(issued(10), revoked(20), delivered(20)), []sealer.Code{RightStopped}, nil},
	{"behind a revocation", one(issued(10), revoked(20), delivered(30)), []sealer.Code{RightStopped}, nil},
	{"behind a revocation that something resumed", one(revoked(20), resumed(30), delivered(30)), []sealer.Code{RightStopped}, nil},
	{"before a revocation", one(issued(10), revoked(20), delivered(10)), []sealer.Code{""}, nil},
	{"another right", one(of("rgh_b", issued(10)), revoked(20), of("rgh_b", delivered(30))), []sealer.Code{""}, nil},
	{"an event that is no stop", one(at("right.revised", 20), delivered(20)), []sealer.Code{""}, nil},
	{"a stop of something else", one(subject("basis", 20), delivered(20)), []sealer.Code{""}, nil},
	{"a stop without a revision", one(data(`{"parentRightId":null}`), delivered(20)), []sealer.Code{""}, nil},
	{"a stop with a broken revision", one(data(`{"revision":"20"}`), delivered(20)), []sealer.Code{""}, nil},

	{"late, before a stop", one(issued(10), revoked(20), wait(fiveMinutes), delivered(10)), []sealer.Code{RightLate}, nil},
	{"late, before a suspension that ended", one(suspended(20), resumed(30), wait(fiveMinutes), delivered(10)), []sealer.Code{RightLate}, nil},
	{"at the bound", one(revoked(20), wait(89*time.Second), delivered(10)), []sealer.Code{""}, nil},
	{"behind the bound", one(revoked(20), wait(89*time.Second+time.Millisecond), delivered(10)), []sealer.Code{RightLate}, nil},

	{"a row of a play in a suspension that ended", one(issued(10), suspended(20), wait(time.Second), resumed(30), played(30, 2*time.Second)), []sealer.Code{RightStopped}, nil},
	{"a row of a play from before it", one(issued(10), suspended(20), resumed(30), played(30, 3*time.Second)), []sealer.Code{""}, nil},
	{"a row of a play when it began", one(issued(10), suspended(20), resumed(30), played(30, 2*time.Second)), []sealer.Code{RightStopped}, nil},
	{"a row of a play when it ended", one(issued(10), suspended(20), resumed(30), played(30, time.Second)), []sealer.Code{""}, nil},
	{"a row in the first of two suspensions", one(suspended(20), resumed(30), suspended(40), resumed(50), played(50, 3500*time.Millisecond)), []sealer.Code{RightStopped}, nil},
	{"a row between two suspensions", one(suspended(20), resumed(30), suspended(40), resumed(50), played(50, 2500*time.Millisecond)), []sealer.Code{""}, nil},
	{"a row in a suspension, decided before it", one(issued(10), suspended(20), resumed(30), played(10, 2*time.Second)), []sealer.Code{""}, nil},
	{"the same, late", one(issued(10), suspended(20), wait(fiveMinutes), resumed(30), played(10, time.Minute)), []sealer.Code{RightStopped}, nil},
	{"a row in a suspension of which the end is not at hand", []func(*world) [][]byte{events(issued(10), suspended(20)), events(resumed(30), suspended(40)), events(resumed(50), played(50, 3500*time.Millisecond))},
		[]sealer.Code{"", "", ""}, []int{0, 2}},
	{"a row in a suspension of a parent, in time", one(parent(issued(5)), child(10), parent(suspended(20)), parent(resumed(30)), played(10, 2*time.Second)), []sealer.Code{""}, nil},
	{"the same, late for it", one(parent(issued(5)), child(10), parent(suspended(20)), wait(fiveMinutes), parent(resumed(30)), played(10, time.Minute)), []sealer.Code{RightStopped}, nil},
	{"a late row from before the suspension of a parent", one(parent(issued(5)), child(10), wait(time.Minute), parent(suspended(20)), wait(fiveMinutes), parent(resumed(30)), played(10, 5*time.Minute+30*time.Second)), []sealer.Code{""}, nil},

	{"a parent that is resumed", one(parent(issued(5)), child(10), parent(suspended(20)), parent(resumed(30)), wait(fiveMinutes), delivered(10)), []sealer.Code{""}, nil},
	{"a child that was resumed while its parent was suspended", one(child(10), suspended(15), parent(suspended(20)), resumed(25), parent(resumed(30)), delivered(25)), []sealer.Code{""}, nil},
	{"a child that was issued while its parent was suspended", one(parent(suspended(20)), child(25), parent(resumed(30)), delivered(25)), []sealer.Code{RightStopped}, nil},
	{"a child that was issued after its parent was revoked", one(parent(revoked(20)), child(25), delivered(25)), []sealer.Code{RightStopped}, nil},
	{"a child that was resumed after its parent was revoked", one(child(10), suspended(15), parent(revoked(20)), resumed(25), delivered(25)), []sealer.Code{""}, nil},
	{"the same, late", one(child(10), suspended(15), parent(revoked(20)), resumed(25), wait(fiveMinutes), delivered(25)), []sealer.Code{RightStopped}, nil},
	{"a grandparent, late", one(of("rgh_p", moved("issued", 7, "rgh_g")), child(10), suspended(15), of("rgh_g", revoked(20)), resumed(25), wait(fiveMinutes), delivered(25)), []sealer.Code{RightStopped}, nil},
	{"a parent that is known from a later event", one(parent(revoked(20)), wait(fiveMinutes), delivered(25), moved("suspended", 28, "rgh_p")), []sealer.Code{RightStopped}, nil},
	{"a parent that is revoked later", one(child(10), parent(revoked(20)), wait(fiveMinutes), delivered(10)), []sealer.Code{RightLate}, nil},
	{"within the bound of a parent's revocation", one(child(10), parent(revoked(20)), delivered(10)), []sealer.Code{""}, nil},
	{"while a parent is suspended", one(child(10), parent(suspended(20)), wait(fiveMinutes), delivered(10), parent(resumed(30))), []sealer.Code{RightStopped}, nil},
	{"the same, not all moves of the parent are at hand", []func(*world) [][]byte{events(child(10), parent(suspended(20)), wait(fiveMinutes), delivered(10)), events(revised), events(parent(resumed(30)))}, []sealer.Code{RightLate, ""}, []int{0, 2}},
	{"a parent's suspension whose end is not at hand", one(child(10), parent(suspended(20)), wait(fiveMinutes), delivered(10)), []sealer.Code{RightUnproven}, nil},
	{"a circle of parents", one(moved("issued", 10, "rgh_p"), of("rgh_p", moved("issued", 11, "rgh_a")), delivered(10)), []sealer.Code{""}, nil},

	{"an API key, late", one(revokedKey, wait(89*time.Second+time.Millisecond), delivered(10)), []sealer.Code{APIKeyRevoked}, nil},
	{"an API key, within the bound", one(revokedKey, wait(89*time.Second), delivered(10)), []sealer.Code{""}, nil},
	{"an API key, before", one(delivered(10), revokedKey), []sealer.Code{""}, nil},
	{"another API key", one(otherAPIKey, wait(fiveMinutes), delivered(10)), []sealer.Code{""}, nil},

	{"in a later pack", []func(*world) [][]byte{events(issued(10), revoked(20)), events(delivered(20))}, []sealer.Code{"", RightStopped}, nil},
	{"in an earlier pack", []func(*world) [][]byte{events(delivered(20)), events(revoked(20))}, []sealer.Code{RightStopped, ""}, nil},
	{"behind a gap", []func(*world) [][]byte{events(suspended(20)), events(resumed(30), suspended(40)), events(resumed(50), delivered(30))}, []sealer.Code{"", RightUnproven}, []int{0, 2}},
	{"without the gap", []func(*world) [][]byte{events(suspended(20)), events(resumed(30), suspended(40)), events(resumed(50), delivered(30))}, []sealer.Code{"", "", ""}, nil},
	{"resumed, sealed later", []func(*world) [][]byte{events(suspended(20), wait(fiveMinutes), delivered(30)), events(wait(soon), earlier(soon+time.Minute, resumed(30)))}, []sealer.Code{"", ""}, nil},
	{"resumed again, sealed so late that it would be there", []func(*world) [][]byte{events(suspended(20), wait(fiveMinutes), delivered(30)), events(wait(tooLate), revised)}, []sealer.Code{RightStopped, ""}, nil},
	{"resumed again, not sealed so late yet", []func(*world) [][]byte{events(suspended(20), wait(fiveMinutes), delivered(30)), events(wait(soon), revised)}, []sealer.Code{RightUnproven, ""}, nil},
	{"resumed again, suspended again later", []func(*world) [][]byte{events(suspended(20), delivered(30)), events(suspended(40), wait(tooLate), revised)}, []sealer.Code{RightStopped, ""}, nil},
	{"resumed again, a pack is missing", []func(*world) [][]byte{events(suspended(20), delivered(30)), events(revised), events(wait(tooLate), revised)}, []sealer.Code{RightUnproven, ""}, []int{0, 2}},
	{"resumed again, a later pack is missing", []func(*world) [][]byte{events(suspended(20), delivered(30)), events(wait(tooLate), revised), events(revised), events(revised)}, []sealer.Code{RightStopped, "", ""}, []int{0, 1, 3}},
	{"resumed again, the first pack is missing", []func(*world) [][]byte{events(revised), events(suspended(20), delivered(30)), events(wait(tooLate), revised)}, []sealer.Code{RightStopped, ""}, []int{1, 2}},
	{"a resumption that is sealed behind a second suspension", []func(*world) [][]byte{events(suspended(20), wait(fiveMinutes), delivered(30)), events(suspended(40), earlier(time.Minute, resumed(30)), wait(tooLate), revised)}, []sealer.Code{"", ""}, nil},
	{"a child that was issued while its parent was suspended for good", []func(*world) [][]byte{events(parent(suspended(20)), child(25), delivered(25)), events(wait(tooLate), revised)}, []sealer.Code{RightStopped, ""}, nil},
	{"a child that was issued once its parent was resumed", []func(*world) [][]byte{events(parent(suspended(20)), child(25), delivered(25)), events(parent(resumed(24)), wait(tooLate), revised)}, []sealer.Code{"", ""}, nil},
	{"across packs", []func(*world) [][]byte{events(suspended(20)), events(issued(5)), events(resumed(50), delivered(30))}, []sealer.Code{"", "", RightStopped}, nil},
}

type step = func(w *world, right string) []byte

func events(steps ...step) func(*world) [][]byte {
	return func(w *world) (list [][]byte) {
		for _, s := range steps {
			if e := s(w, "rgh_a"); e != nil {
				list = append(list, e)
			}
		}
		return list
	}
}

func one(steps ...step) []func(*world) [][]byte { return []func(*world) [][]byte{events(steps...)} }

func moved(kind string, revision int, parent ...string) step {
	return func(w *world, right string) []byte { return w.moved(kind, right, revision, parent...) }
}

func issued(revision int) step    { return moved("issued", revision) }
func suspended(revision int) step { return moved("suspended", revision) }
func resumed(revision int) step   { return moved("resumed", revision) }
func revoked(revision int) step   { return moved("revoked", revision) }
func child(revision int) step     { return moved("issued", revision, "rgh_p") }
func delivered(revision int) step {
	return func(w *world, right string) []byte { return w.delivered(right, revision) }
}

// earlier is an event that was made so long before it came into the log.
func earlier(d time.Duration, s step) step {
	return func(w *world, right string) []byte {
		now := w.Now
		w.Now = now.Add(-d)
		event := s(w, right)
		w.Now = now.Add(time.Second)
		return event
	}
}

// played is a row of a batch, whose play was so long ago.
func played(revision int, ago time.Duration) step {
	return func(w *world, right string) []byte {
		s, d, r := w.Draft(2)
		d.RightID, d.RightRevision, r.RenderedAt = right, int64(revision), r.IssuedAt.Add(-ago)
		event, err := s.SealDelivery(nil, d, r)
		require.NoError(w.TB, err)
		return event
	}
}
func wait(d time.Duration) step { return func(w *world, _ string) []byte { return w.later(d) } }
func of(right string, s step) step {
	return func(w *world, _ string) []byte { return s(w, right) }
}
func revised(w *world, _ string) []byte { return w.Note("right.revised") }
func parent(s step) step                { return of("rgh_p", s) }

func at(kind string, revision int) step {
	return func(w *world, right string) []byte {
		return w.eventOf(kind, sealer.Ref{Kind: "right", ID: right}, fmt.Sprintf(`{"revision":%d}`, revision))
	}
}

func subject(kind string, revision int) step {
	return func(w *world, right string) []byte {
		return w.eventOf("right.revoked", sealer.Ref{Kind: kind, ID: right}, fmt.Sprintf(`{"revision":%d}`, revision))
	}
}

func data(text string) step {
	return func(w *world, right string) []byte {
		return w.eventOf("right.revoked", sealer.Ref{Kind: "right", ID: right}, text)
	}
}

func revokedKey(w *world, _ string) []byte {
	return w.eventOf("key.revoked", sealer.Ref{Kind: "key", ID: "key_fixture"}, `{"revision":20}`)
}

func otherAPIKey(w *world, _ string) []byte {
	return w.eventOf("key.revoked", sealer.Ref{Kind: "key", ID: "key_other"}, `{"revision":20}`)
}

// stops are the cases of packs with stops; remarks are no failures.
func (v *vectors) stops() {
	for n, c := range stopCases {
		w := newWorld(v.t)
		w.Tenant = sealertest.TenantID("stops " + c.name)
		var files []string
		var codes [][]sealer.Code
		exit, about := ExitSound, "nothing is said of it"
		for i, events := range c.packs {
			list, code := events(w), c.codes[min(i, len(c.codes)-1)]
			pack := sealertest.Bundle(v.t, w.Seal(list), list)
			if c.given != nil {
				at := slices.Index(c.given, i)
				if at < 0 {
					continue
				}
				code = c.codes[at]
			}
			fails := code == RightStopped || code == APIKeyRevoked
			dir := "good"
			if fails {
				dir, exit = "bad", ExitUnsound
				codes = append(codes, []sealer.Code{code})
				about = "a delivery that must not be"
			} else {
				codes = append(codes, nil)
				if code != "" {
					about = "remarked: `" + string(code) + "`"
				}
			}
			files = append(files, v.put(fmt.Sprintf("%s/stops-%d-%d.ndjson", dir, n+1, i+1), pack))
		}
		v.cases = append(v.cases, vector{Name: "stops: " + c.name, About: about, Files: files, Exit: exit, Failures: codes})
	}
}

// stopsOfReceipts are an event beside a receipt, and the proof of a stop.
func (v *vectors) stopsOfReceipts() {
	a := newArchive(v.t)
	a.Tenant = sealertest.TenantID("stops of receipts")
	a.keep(events(issued(10), revoked(20), delivered(10), delivered(20))(a.world))
	stop := v.put("good/stop-proof.json", a.proofAnswer(1, 0))
	v.sound("receipt with its event, before a revocation", "the event beside the receipt is canonical, and begins the file",
		stop, v.put("good/stop-before.json", reordered(v.t, detail(v.t, a.events[2]))))
	v.unsound("receipt with its event, on a revoked right", "the proof says which revision revoked the right; the event beside the receipt names that",
		[]string{stop, v.put("bad/stop-receipt.json", detail(v.t, a.events[3]))}, nil, []sealer.Code{RightStopped})
}

// TestStops: a delivery was not decided on a right that was stopped, nor requested with a key
// that was revoked, as far as the stop stands in the same evidence.
func TestStops(t *testing.T) {
	isStop := map[sealer.Code]bool{RightStopped: true, APIKeyRevoked: true, RightLate: true, RightUnproven: true}
	for _, c := range stopCases {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			var packs, files []string
			for i, events := range c.packs {
				packs = append(packs, f.pack(fmt.Sprint(i), events(f.w)))
			}
			files = packs
			if c.given != nil {
				files = nil
				for _, i := range c.given {
					files = append(files, packs[i])
				}
			}
			tr, err := readTrust(f.w.VKey, "")
			require.NoError(t, err)
			r := verifyFiles(t.Context(), tr, &Options{Files: files})
			for i, report := range r.Files {
				var got []sealer.Code
				for _, v := range report.Verdicts {
					if isStop[v.Code] {
						got = append(got, v.Code)
						require.Equal(t, v.Code == RightLate || v.Code == RightUnproven, v.OK)
					}
				}
				var want []sealer.Code
				if c.codes[i] != "" {
					want = []sealer.Code{c.codes[i]}
				}
				require.Equal(t, want, got, "%+v", report.Verdicts)
				require.Equal(t, want != nil && (want[0] == RightStopped || want[0] == APIKeyRevoked), !report.ok(), "%+v", report.Verdicts)
			}
		})
	}
}

// TestStopsOfOtherFiles: proofs and exports have stops, and are compared with them, as packs
// are; receipts go with the file that holds them, and a file that is not sound stops nothing.
func TestStopsOfOtherFiles(t *testing.T) {
	a := newArchive(t)
	a.keep(events(issued(10), revoked(20), delivered(10))(a.world))
	a.keep(events(delivered(20))(a.world))
	stop, late := file{"stop", a.proofAnswer(1, 0)}, file{"late", a.proofAnswer(3, 1)}
	receipt := file{"receipt", answer(t, a.events[3])}
	judge := func(files ...file) [][]sealer.Code { return fails(a.verify(a.Directory(), nil, files...)) }
	require.Equal(t, [][]sealer.Code{nil}, judge(late))
	require.Equal(t, [][]sealer.Code{nil, {RightStopped}}, judge(stop, late))
	require.Equal(t, [][]sealer.Code{{RightStopped}}, judge(file{"export", a.export(0, 4)}))
	require.Equal(t, [][]sealer.Code{nil, {RightStopped}}, judge(file{"first", a.export(0, 2)}, late))
	require.Equal(t, [][]sealer.Code{{InclusionMismatch}, nil, {RightStopped}}, judge(receipt, stop, late))
	require.Equal(t, [][]sealer.Code{nil, {RightStopped}, nil}, judge(stop, file{"bare", []byte(a.inclusion(3, 1).Text())}, file{"event", a.events[3]}))

	about := file{"about", detail(t, a.events[3])}
	require.Equal(t, [][]sealer.Code{nil}, judge(about))
	require.Equal(t, [][]sealer.Code{nil, {RightStopped}}, judge(stop, about))
	require.Equal(t, [][]sealer.Code{nil, {RightStopped}}, judge(stop, file{"reordered", reordered(t, about.text)}))

	spoilt := append([]byte(nil), stop.text...)
	spoilt[len(spoilt)/2] ^= 1
	require.Nil(t, judge(file{"stop", spoilt}, late)[1])

	other := newArchive(t)
	other.Tenant = sealertest.TenantID("other")
	other.keep(events(revoked(20))(other.world))
	require.Equal(t, [][]sealer.Code{nil, nil}, judge(file{"other", other.proofAnswer(0, 0)}, late))
}

// TestStopsOfReceiptsAreRemarked: the event beside a receipt is judged as that of a proof is.
func TestStopsOfReceiptsAreRemarked(t *testing.T) {
	a := newArchive(t)
	a.keep(events(issued(10), revoked(20), wait(fiveMinutes), delivered(10))(a.world))
	r := a.verify(a.Directory(), nil, file{"stop", a.proofAnswer(1, 0)}, file{"about", detail(t, a.events[2])})
	require.True(t, r.OK)
	require.True(t, slices.ContainsFunc(r.Files[1].Verdicts, func(v Verdict) bool { return v.Code == RightLate }), "%+v", r.Files[1].Verdicts)
}

// TestStopsOfExportsSealedLater: an export says when its leaves were sealed, as packs do.
func TestStopsOfExportsSealedLater(t *testing.T) {
	a := newArchive(t)
	a.keep(events(suspended(20), wait(fiveMinutes), delivered(30))(a.world))
	a.keep(events(revised, wait(tooLate), revised)(a.world))
	judge := func(files ...file) [][]sealer.Code { return fails(a.verify(a.Directory(), nil, files...)) }
	require.Equal(t, [][]sealer.Code{{RightStopped}}, judge(file{"all", a.export(0, 4)}))
	require.Equal(t, [][]sealer.Code{nil}, judge(file{"not all of the later pack", a.export(0, 3)}))
	require.Equal(t, [][]sealer.Code{{RightStopped}, nil}, judge(file{"first", a.export(0, 3)}, file{"last", a.export(3, 1)}))
}

// TestStopsOfFullPacks: what was committed before the seal of a full pack may be in the next. The
// pack has two entries, and is said to have more.
func TestStopsOfFullPacks(t *testing.T) {
	f := newFolder(t)
	list := events(suspended(20), delivered(30), wait(time.Hour+DefaultBound), revised)(f.w)
	name := f.pack("pack", list)
	for count, want := range map[uint64][]sealer.Code{pack.MaxEntries: nil, pack.MaxEntries - 1: {RightStopped}} {
		tr, err := readTrust(f.w.VKey, "")
		require.NoError(t, err)
		c := verifyFiles(t.Context(), tr, &Options{Files: []string{name}}).Files[0].conduct
		require.Len(t, c.seals, 1)
		seal := c.seals[0]
		c.seals = nil
		c.sealed(count, seal.size, seal.at)
		v := &verification{files: []FileReport{{conduct: c}}}
		v.stops(0)
		require.Equal(t, want, failures(v.files[0].Verdicts), count)
	}
}

// TestStopsOfPacksThatAreFull is TestStopsOfFullPacks with as many entries as that says.
func TestStopsOfPacksThatAreFull(t *testing.T) {
	if sealertest.Rounds(0, 1) == 0 {
		t.Skip("only with MUNIMENT_TEST_FULL: 200,000 entries")
	}
	f := newFolder(t)
	list := events(suspended(20), delivered(30))(f.w)
	for len(list) < pack.MaxEntries {
		list = append(list, f.w.Note("right.revised"))
	}
	for count, want := range map[int][]sealer.Code{pack.MaxEntries: nil, pack.MaxEntries - 1: {RightStopped}} {
		tr, err := readTrust(f.w.VKey, "")
		require.NoError(t, err)
		r := verifyFiles(t.Context(), tr, &Options{Files: []string{f.pack("full", list[:count])}})
		require.Equal(t, want, failures(r.Files[0].Verdicts), count)
	}
}

// TestStopsBound: the bound is the service's.
func TestStopsBound(t *testing.T) {
	a := newArchive(t)
	a.keep(events(revokedKey, wait(9*time.Second), delivered(10))(a.world))
	export := file{"export", a.export(0, 2)}
	a.options.Bound = 10 * time.Second
	require.Equal(t, [][]sealer.Code{nil}, fails(a.verify(a.Directory(), nil, export)))
	a.options.Bound = 10*time.Second - time.Millisecond
	require.Equal(t, [][]sealer.Code{{APIKeyRevoked}}, fails(a.verify(a.Directory(), nil, export)))
}
