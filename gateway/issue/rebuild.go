package issue

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
)

// Rebuild reads the Idempotency-Keys of the last 24 hours back from the log. Whoever
// issues for callers that send keys calls it before the first.
func (i *Issuer) Rebuild(ctx context.Context) error {
	since := i.cfg.Now().Add(-keepKeys)
	first, end, err := i.cfg.Log.Bounds(ctx, 0)
	if err != nil {
		return err
	}
	from, err := firstSince(ctx, i.cfg.Log, first, end, since.Add(-clockSlack))
	if err != nil {
		return err
	}
	return i.cfg.Log.Scan(ctx, from, end, func(e sealer.Entry) error {
		at, ok := eventTime(e.EventID)
		if !ok || at.Before(since) {
			return nil
		}
		if h, ok := idempotencyOf(e.Event); ok {
			s, k := i.claims.shard(&h), claimKey(h[:16])
			s.mu.Lock()
			s.put(&k, place{e.Offset, e.Partition, e.Generation, uint32(at.Unix())})
			s.mu.Unlock()
		}
		return nil
	})
}

// clockSlack is how far the clocks of those who write to one log may disagree, for
// finding a point in time in it.
const clockSlack = 10 * time.Minute

// firstSince finds, by halving, a position at or before the first event of a moment. An
// event that can't be read may be from any: what stands before it is looked at.
func firstSince(ctx context.Context, log Log, first, end sealer.Position, since time.Time) (sealer.Position, error) {
	if first.Generation != end.Generation {
		return first, nil
	}
	from, to := first.Offset, end.Offset
	for from < to {
		middle := first
		middle.Offset = from + (to-from)/2
		e, err := log.Read(ctx, middle)
		if err != nil {
			held, _, boundsErr := log.Bounds(ctx, first.Partition)
			if boundsErr != nil {
				return first, errors.Join(err, boundsErr)
			}
			if middle.Compare(held) < 0 { // the oldest go meanwhile
				from = max(held.Offset, middle.Offset+1)
				continue
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return first, err
			}
		}
		if at, ok := eventTime(e.EventID); ok && at.Before(since) {
			from = middle.Offset + 1
		} else {
			to = middle.Offset
		}
	}
	first.Offset = from
	return first, nil
}

// eventTime reads the moment out of an event id.
func eventTime(id string) (time.Time, bool) {
	if !api.IsID(api.PrefixEvent, id) {
		return time.Time{}, false
	}
	const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var ms uint64
	for _, c := range []byte(id[len(api.PrefixEvent) : len(api.PrefixEvent)+10]) {
		ms = ms<<5 | uint64(strings.IndexByte(crockford, c))
	}
	return time.UnixMilli(int64(ms)), true
}
