package segment

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

func TestRollbackIsRefusedUntilAllowed(t *testing.T) {
	ctx := context.Background()
	fs := newMemFS()
	cfg := Config{Dir: "log", SegmentBytes: 8 << 10, FS: fs}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 30, 500)
	older := fs.clone()
	appendN(t, log, 30, 40, 500)
	recorded := log.end
	require.NoError(t, log.Close())

	cfg.AtLeast = &recorded
	log = mustOpen(t, cfg)
	require.NoError(t, log.Close())

	for name, fs := range map[string]*memFS{"older copy": older, "nothing": newMemFS()} {
		before := fs.clone()
		cfg.FS = fs
		_, err := Open(cfg)
		require.ErrorIs(t, err, ErrRollback, name)
		require.ErrorContains(t, err, recorded.String())
		require.Equal(t, before.contents(), fs.contents(), "a refused start changes nothing")
	}

	// The operator accepts it: new records are of a new generation.
	cfg.FS, cfg.Generation = older, recorded.Generation+1
	log = mustOpen(t, cfg)
	first, end, err := log.Bounds(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, sealer.Position{Generation: 1}, first)
	require.Equal(t, sealer.Position{Generation: 2, Offset: 30}, end)
	at, err := log.Append(ctx, record(30, 500))
	require.NoError(t, err)
	require.Equal(t, end, at)
	require.NoError(t, log.Close())

	// A later start with the same Config changes nothing more.
	log = mustOpen(t, cfg)
	got := readAll(t, log)
	require.Len(t, got, 31)
	require.Equal(t, uint32(1), got[29].Generation)
	require.Equal(t, uint32(2), got[30].Generation)

	// What the lost end held is gone; what stands before it is not.
	lost := sealer.Position{Generation: 1, Offset: 35}
	_, err = log.Read(ctx, lost)
	require.ErrorIs(t, err, pipeline.ErrGone)
	require.ErrorIs(t, log.Scan(ctx, lost, log.end, nil), pipeline.ErrGone)
	require.ErrorIs(t, log.Wait(ctx, lost), pipeline.ErrGone)
	_, err = log.Read(ctx, got[29].Position)
	require.NoError(t, err)

	// A reader that had read just up to the lost end goes on in the new generation.
	boundary := sealer.Position{Generation: 1, Offset: 30}
	_, err = log.Read(ctx, boundary)
	require.ErrorIs(t, err, pipeline.ErrGone)
	require.NoError(t, log.Wait(ctx, boundary))
	var next []sealer.Position
	require.NoError(t, log.Scan(ctx, boundary, log.end, func(e sealer.Entry) error {
		next = append(next, e.Position)
		return nil
	}))
	require.Equal(t, []sealer.Position{got[30].Position}, next)

	// A range that ends in the old generation ends at its last record.
	count := 0
	require.NoError(t, log.Scan(ctx, got[25].Position, sealer.Position{Generation: 1, Offset: 99}, func(sealer.Entry) error {
		count++
		return nil
	}))
	require.Equal(t, 5, count)
}

// TestRaisedEmptyLog raises the generation where there is nothing to keep.
func TestRaisedEmptyLog(t *testing.T) {
	fs := newMemFS()
	for generation := uint32(1); generation < 4; generation++ {
		log := mustOpen(t, Config{Dir: "log", SegmentBytes: 8 << 10, FS: fs, Generation: generation})
		first, end, err := log.Bounds(context.Background(), 0)
		require.NoError(t, err)
		require.Equal(t, sealer.Position{Generation: generation}, first)
		require.Equal(t, first, end)
		require.NoError(t, log.Close())
	}
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 8 << 10, FS: fs})
	appendN(t, log, 0, 30, 500)
	require.Len(t, readAll(t, log), 30)
	_, err := log.Retain(log.end, farFuture)
	require.NoError(t, err)
	readAll(t, log)
}

// TestTornTailBeforeRecordedEnd damages the last group, which was acknowledged:
// without the recorded end it would pass for torn.
func TestTornTailBeforeRecordedEnd(t *testing.T) {
	d := newDamagedLog(t, 64<<10, 10, false)
	name := d.fs.segments()[0]
	d.fs.files[name].data[lastByte(d.fs.files[name].data)] ^= 1
	before := d.fs.contents()
	_, err := d.open(d.fs, &d.end)
	require.ErrorIs(t, err, ErrRollback)
	requireNamed(t, err, name)
	require.Equal(t, before, d.fs.contents(), "the evidence is kept")
}

// TestIdleStartsLeaveNoTrace opens and closes a log without appends.
func TestIdleStartsLeaveNoTrace(t *testing.T) {
	fs := newMemFS()
	cfg := Config{Dir: "log", SegmentBytes: 8 << 10, FS: fs}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 3, 100)
	require.NoError(t, log.Close())
	once := fs.contents()
	for range 3 {
		require.NoError(t, mustOpen(t, cfg).Close())
	}
	require.Equal(t, once, fs.contents())
}

// contents are the segments as the process sees them.
func (fs *memFS) contents() map[string]string {
	all := map[string]string{}
	for _, name := range fs.segments() {
		all[name] = string(fs.files[name].data)
	}
	return all
}
