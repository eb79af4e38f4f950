package sqlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment.example/pipeline"
)

// blockRows is how many positions of the log a block has: the tables search_marks and
// search_times say which blocks may have a value or a time, and a listing reads only these.
const blockRows = 512

// fewRendered is how many deliveries of a window are looked up one by one; if there are more,
// a page is found soon in the blocks that may have them.
const fewRendered = 20_000

// never stands for no time of renderedAt, as the first and as the last, and for an open bound.
var never = struct {
	first, last int64
	time        time.Time
}{first: math.MaxInt64, last: math.MinInt64}

// block names a block of a tenant.
type block struct{ tenant, generation, number int64 }

// markOf is the mark of a value that a listing can select.
func markOf(value string) int64 {
	sum := sha256.Sum256([]byte(value))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// kindMark is the value by which a kind of actor is found.
func kindMark(kind string) string { return "kind " + kind }

// subjectMark is the value by which an erasure finds the events about a kind of subject.
func subjectMark(kind string) string { return "subject " + kind }

// storeMarks stores the marks and times of the blocks of the new rows.
func (l *load) storeMarks(s *span) error {
	type mark struct {
		block
		hash int64
	}
	type times struct{ earliest, latest, first, last int64 }
	type shared struct {
		block
		common int64
	}
	marks, seen, spread := map[mark]bool{}, map[shared]bool{}, map[block]times{}
	for _, n := range l.rows {
		b := block{n.tenant, n.generation, n.position / blockRows}
		at := n.At.UnixMilli()
		t, ok := spread[b]
		if !ok {
			t = times{at, at, never.first, never.last}
		}
		t.earliest, t.latest = min(t.earliest, at), max(t.latest, at)
		var values []string
		if k := (shared{b, n.common}); !seen[k] {
			seen[k] = true
			values = append(values, n.ActorID, n.SubjectID, kindMark(n.ActorKind), subjectMark(n.SubjectKind))
			if n.Delivery != nil {
				values = append(values, n.Delivery.RightID)
			}
		}
		if d := n.Delivery; d != nil {
			rendered := d.RenderedAt.UnixMilli()
			t.first, t.last = min(t.first, rendered), max(t.last, rendered)
			values = append(values, d.SpatialAnchorID, d.CorrelationID)
		}
		spread[b] = t
		values = append(values, n.subjects...)
		for _, v := range values {
			if v != "" {
				marks[mark{b, markOf(v)}] = true
			}
		}
	}
	sorted := slices.SortedFunc(maps.Keys(marks), func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.hash, b.hash), cmp.Compare(a.generation, b.generation), cmp.Compare(a.number, b.number))
	})
	err := insert(l, l.marks, sorted, func(args []any, m mark) []any {
		return append(args, s.number, m.tenant, m.hash, m.generation, m.number)
	})
	if err != nil {
		return err
	}
	blocks := slices.SortedFunc(maps.Keys(spread), func(a, b block) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.generation, b.generation), cmp.Compare(a.number, b.number))
	})
	return insert(l, l.times, blocks, func(args []any, b block) []any {
		t := spread[b]
		return append(args, b.tenant, b.generation, b.number, t.earliest, t.latest, t.first, t.last)
	})
}

// marked selects the blocks of a tenant that have or had a value.
const marked = `SELECT m.generation, m.block FROM spans AS s CROSS JOIN search_marks AS m ON m.span = s.span AND m.tenant = ? AND m.hash = ?`

// places lists the blocks that may have what q selects, in its order; ok is false if q selects
// by nothing that has marks: then all rows are scanned. subjectHash is the hash of the person
// that q selects.
func places(ctx context.Context, tx *sql.Tx, tenant int64, q pipeline.EventQuery, subjectHash string) (list []block, ok bool, err error) {
	var parts []string
	var args []any
	part := func(text string, more ...any) {
		parts, args = append(parts, text), append(args, more...)
	}
	for _, value := range []string{q.ActorID, q.SubjectID, q.RightID, q.SpatialAnchorID, q.CorrelationID, subjectHash, kindMark(q.ActorKind)} {
		if value != "" && value != kindMark("") {
			part(marked, tenant, markOf(value))
		}
	}
	if !q.From.IsZero() || !q.To.IsZero() {
		f := filter{}
		f.add("tenant = ?", tenant)
		f.since("latest", q.From, never.time)
		f.since("earliest", never.time, q.To)
		part(`SELECT generation, block FROM search_times WHERE `+f.String(), f.args...)
	}
	if !q.RenderedFrom.IsZero() || !q.RenderedTo.IsZero() {
		f := filter{}
		f.add("class = 0 AND tenant = ?", tenant)
		f.since("rendered_at", q.RenderedFrom, q.RenderedTo)
		const from = ` FROM events INDEXED BY deliveries_by_time WHERE `
		var few bool
		err := tx.QueryRowContext(ctx, `SELECT COUNT(*) < ? FROM (SELECT 1`+from+f.String()+` LIMIT ?)`,
			slices.Concat([]any{fewRendered}, f.args, []any{fewRendered})...).Scan(&few)
		if err != nil {
			return nil, false, err
		}
		if few {
			part(`SELECT generation, position / `+strconv.Itoa(blockRows)+` AS block`+from+f.String(), f.args...)
		} else {
			f := filter{}
			f.add("tenant = ?", tenant)
			f.since("rendered_last", q.RenderedFrom, never.time)
			f.since("rendered_first", never.time, q.RenderedTo)
			part(`SELECT generation, block FROM search_times WHERE `+f.String(), f.args...)
		}
	}
	if len(parts) == 0 {
		return nil, false, nil
	}
	if len(parts) == 1 {
		part(parts[0], args...) // INTERSECT makes each block one row
	}
	var f filter
	f.add("1")
	if q.After != nil {
		f.add("(generation, block) >= (?, ?)", q.After.Generation, q.After.Offset/blockRows)
	}
	if q.Before != nil {
		f.add("(generation, block) <= (?, ?)", q.Before.Generation, q.Before.Offset/blockRows)
	}
	order := "1, 2"
	if q.Newest {
		order = "1 DESC, 2 DESC"
	}
	list, err = collect(ctx, tx, func(scan func(...any) error) (b block, err error) {
		b.tenant = tenant
		err = scan(&b.generation, &b.number)
		return b, err
	}, `SELECT generation, block FROM (`+strings.Join(parts, " INTERSECT ")+`) WHERE `+f.String()+` ORDER BY `+order, append(args, f.args...)...)
	return list, true, err
}
