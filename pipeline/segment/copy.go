package segment

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"muniment.example/sealer"
)

// Copy creates a folder, writes the log into it as it is when Copy is called, and returns
// where the copy ends: at the last group that ends at or before limit. A group is never
// split, as it became durable as a whole: a limit within one leaves all of it out. Each file
// is written through the writer that through returns for it. Every group is checked, and a
// damaged one is pipeline.ErrDamaged.
//
// The copy is a log that Open accepts, without preallocated space, and is synced when Copy
// returns. After an error the folder holds no usable log. Retention may remove segments
// meanwhile: they are open, and so copied all the same.
func (r *Reader) Copy(ctx context.Context, dir string, limit sealer.Position, through func(*os.File) io.Writer) (end sealer.Position, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot copy log to %s: %w", dir, err)
		}
	}()
	// A snapshot: what a segment holds grows while it is the last.
	r.mu.RLock()
	segs := make([]segment, len(r.segs))
	for i, s := range r.segs {
		segs[i] = *s
	}
	end, offset := r.end, r.limit(limit)
	r.mu.RUnlock()

	fs := osFS{}
	if err := fs.MkdirAll(dir); err != nil {
		return end, err
	}
	v := r.view(nil, 0, readAhead)
	defer r.views.Put(v)
	for i := range segs {
		s := &segs[i]
		if i > 0 && s.first >= offset {
			break
		}
		*v = view{file: s.file, limit: s.pos, ahead: readAhead, buf: v.buf[:0]}
		copied, err := s.copyTo(ctx, dir, v, offset, through)
		if errors.Is(err, os.ErrClosed) {
			err = r.fault(s, 0, err)
		}
		if err != nil {
			return end, err
		}
		end = s.position(copied)
	}
	return end, fs.SyncDir(dir)
}

// copyTo writes the header of a segment and its groups up to an offset into a file
// of the same name. It returns the offset behind them.
func (s *segment) copyTo(ctx context.Context, dir string, v *view, limit int64, through func(*os.File) io.Writer) (end int64, err error) {
	f, err := os.OpenFile(filepath.Join(dir, s.name()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(through(f), readAhead)
	end, err = s.copyGroups(ctx, w, v, limit)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return end, errors.Join(err, f.Close())
}

func (s *segment) copyGroups(ctx context.Context, w io.Writer, v *view, limit int64) (end int64, err error) {
	end = s.first
	header, err := v.bytes(0, fileHeaderSize)
	if err == nil {
		_, err = w.Write(header)
	}
	if err != nil {
		return end, err
	}
	chain := s.chain
	for pos := int64(fileHeaderSize); pos < s.pos; {
		if err := ctx.Err(); err != nil {
			return end, err
		}
		h, raw, err := v.group(pos, s.salt)
		if err != nil {
			return end, s.unreadable(pos, err)
		}
		if h.first != end || h.chain != chain {
			return end, s.damaged(pos, "does not continue the group before")
		}
		if h.first+int64(h.count) > limit {
			break
		}
		if _, err := w.Write(raw); err != nil {
			return end, err
		}
		chain = s.link(raw)
		end += int64(h.count)
		pos += h.size()
	}
	return end, nil
}
