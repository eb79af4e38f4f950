//go:build independent

package independent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/verify"
)

// conduct is an event of a right or an API key, or a delivery: of a few rights, some of
// which derive from others, with revisions and moments that often collide.
func (l *log) conduct() []byte {
	l.now = l.now.Add([]time.Duration{time.Millisecond, time.Second, 15 * time.Second, 29 * time.Second, 31 * time.Second}[l.IntN(5)])
	if l.IntN(12) == 0 {
		l.now = l.now.Add(time.Duration(50+l.IntN(30)) * time.Minute)
	}
	right := fmt.Sprintf("rgh_%d", l.IntN(4))
	if l.IntN(2) == 0 {
		d, r := l.draft()
		d.RightID, d.RightRevision = right, int64(l.IntN(12))
		d.Actor.ID = fmt.Sprintf("key_%d", l.IntN(6))
		if l.IntN(8) == 0 {
			d.Actor.Kind = "operator"
		}
		if l.IntN(2) == 0 { // a row of a batch
			r.RenderedAt = r.IssuedAt.Add(-time.Duration(l.IntN([]int{2_000, 60_000, 3_600_000}[l.IntN(3)])) * time.Millisecond)
		}
		return l.sign(d, r)
	}
	kind := []string{"right.issued", "right.suspended", "right.suspended", "right.resumed", "right.resumed", "right.resumed", "right.revoked", "right.revised", "key.revoked"}[l.IntN(9)]
	subject := sealer.Ref{Kind: "right", ID: right}
	if l.IntN(20) == 0 {
		subject.Kind = "basis"
	}
	if kind == "key.revoked" {
		if subject = (sealer.Ref{Kind: "key", ID: fmt.Sprintf("key_%d", l.IntN(6))}); l.IntN(8) == 0 {
			subject.Kind = "right"
		}
	}
	revision := fmt.Sprint(l.IntN(12))
	if l.IntN(12) == 0 {
		revision = []string{"null", `"5"`, "5.5", "-1", "9007199254740992", "9007199254740994", "1e+21"}[l.IntN(7)]
	}
	parent := "null"
	if l.IntN(3) == 0 {
		parent = []string{`"rgh_0"`, `"rgh_1"`, `"rgh_2"`, `""`, "7"}[l.IntN(5)]
	}
	data := fmt.Appendf(nil, `{"parentRightId":%s,"revision":%s}`, parent, revision)
	if l.IntN(20) == 0 {
		data = []byte(`{}`)
	}
	at := l.moment()
	text, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: l.id("evt_", at), TenantID: l.tenant, Type: kind, At: at,
		Actor: sealer.Ref{Kind: "key", ID: "key_9"}, Subject: subject, Data: data,
	})
	require.NoError(l, err)
	return text
}

// TestStopsAlike: whatever stops stand in some packs, exports and proofs of a log, both
// verifiers say the same of each file, in what fails and in what is remarked.
func TestStopsAlike(t *testing.T) {
	s := newService(t, "stops")
	f := newFolder(t, s)
	keys := f.put(s.directory(epoch.AddDate(1, 0, 0)))
	var sets [][]string
	for range size(2000) {
		l := s.newLog()
		var set []string
		for range 1 + s.IntN(4) {
			var events [][]byte
			for range 1 + s.IntN(8) {
				events = append(events, l.conduct())
			}
			p := l.sealed(events, nil)
			if s.IntN(4) > 0 {
				set = append(set, f.put(p.file))
			}
			for _, event := range events {
				parts, err := sealer.SplitDelivery(event)
				switch {
				case err != nil || s.IntN(8) > 0:
				case s.IntN(2) == 0:
					set = append(set, f.put(s.answer(event)))
				default:
					set = append(set, f.put(fmt.Appendf(nil, `{"event":%s,"receipt":%s,"signature":%s}`, event, parts.Receipt, parts.Signature)))
				}
			}
		}
		for range s.IntN(3) {
			_, text := l.proof()
			set = append(set, f.put(text))
		}
		s.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
		sets = append(sets, append(set, keys))
	}
	count := map[sealer.Code]int{}
	for i, theirs := range stranger(t, f.root, sets) {
		for n, us := range ours(t, f.root, sets[i]) {
			about := func() string { return f.keep(sets[i], us, theirs[n]) }
			require.Equal(t, us.OK, theirs[n].OK, "%v", lazily(about))
			require.Equal(t, us.Unproven, theirs[n].Unproven, "%v", lazily(about))
			if !us.OK {
				require.Equal(t, us.first(verify.APIKeyRevoked, verify.RightStopped, verify.InclusionMismatch), theirs[n].Codes[0], "%v", lazily(about))
				count[theirs[n].Codes[0]]++
			}
			for _, code := range us.Unproven {
				count[code]++
			}
		}
	}
	for _, code := range []sealer.Code{verify.APIKeyRevoked, verify.RightStopped, verify.RightLate, verify.RightUnproven, verify.InclusionMismatch} {
		require.Positive(t, count[code], code)
	}
	t.Logf("%d sets, %v: both verifiers say the same of each file", len(sets), count)
}

// TestBoundOfTheStranger: the bound is a number of seconds, with or without the unit.
func TestBoundOfTheStranger(t *testing.T) {
	for bound, says := range map[string]string{
		"": "bad", "90": "bad", "90s": "bad", "89.999s": "bad", "91": "ok", "91s": "ok", "1e3": "ok",
		"0": "error", "-1000": "error", "nan": "error", "inf": "error", "1e400": "error", "1m31s": "error", "s": "error",
	} {
		args := []string{"verify.py", "--root", "../testdata/root.vkey"}
		if bound != "" {
			args = append(args, "--bound="+bound)
		}
		out, _ := python(append(args, "../testdata/bad/stops-50-1.ndjson")...).CombinedOutput()
		require.Contains(t, string(out), map[string]string{"bad": "apikey.revoked", "ok": "ok ../testdata", "error": "error: argument --bound"}[says], bound)
		require.NotContains(t, string(out), "Traceback")
	}
}

// lazily is a message that is only made when it is written.
type lazily func() string

func (l lazily) String() string { return l() }

// first is the first of some codes that a verdict has.
func (v *verdict) first(codes ...sealer.Code) sealer.Code {
	for _, code := range codes {
		for _, c := range v.Codes {
			if c == code {
				return code
			}
		}
	}
	return ""
}

// keep copies files of a set that the verifiers disagree about to where they outlive the test.
func (f *folder) keep(set []string, us, theirs verdict) string {
	dir, err := os.MkdirTemp("", "disagree")
	require.NoError(f, err)
	for _, name := range append([]string{f.root}, set...) {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		require.NoError(f, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
	}
	return fmt.Sprintf("%s, %s: sealer: %v %v, verify.py: %v %v", dir, filepath.Base(us.File), us.Codes, us.Unproven, theirs.Codes, theirs.Unproven)
}
