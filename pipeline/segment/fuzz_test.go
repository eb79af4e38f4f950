package segment

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// FuzzSegment opens arbitrary bytes as a segment. With mend, the checksums are
// made right first, so that what lies behind them is reached as well. Whatever
// opens must read the same both ways, and again after a restart.
func FuzzSegment(f *testing.F) {
	fs := newMemFS()
	cfg := Config{Dir: "log", SegmentBytes: leastSegmentBytes, FS: fs}
	log := mustOpen(f, cfg)
	require.NoError(f, newLedger().write(log, "a", 3, nil))
	name := fs.segments()[0]
	whole := fs.files[name].data
	for _, mend := range []bool{false, true} {
		f.Add(whole, mend)
		f.Add(whole[:len(whole)/2], mend)
		f.Add(whole[:fileHeaderSize], mend)
		f.Add([]byte{}, mend)
	}
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if mend {
			mendChecksums(data)
		}
		fs := newMemFS()
		file := &memFile{fs: fs, data: data, durable: data}
		fs.files[name], fs.names[name] = file, file
		cfg := Config{Dir: "log", SegmentBytes: leastSegmentBytes, FS: fs}
		log, err := Open(cfg)
		if err != nil {
			require.ErrorIs(t, err, pipeline.ErrDamaged)
			return
		}
		first, end, err := log.Bounds(context.Background(), 0)
		require.NoError(t, err)
		next := first
		err = log.Scan(context.Background(), first, end, func(e sealer.Entry) error {
			require.Equal(t, next, e.Position)
			one, err := log.Read(context.Background(), e.Position)
			require.NoError(t, err)
			require.Equal(t, e, one)
			next = next.Next()
			return nil
		})
		if err != nil { // a sound checksum over what is no record
			require.ErrorIs(t, err, pipeline.ErrDamaged)
			_, err = log.Read(context.Background(), next)
			require.ErrorIs(t, err, pipeline.ErrDamaged)
		} else {
			require.Equal(t, end, next)
		}
		require.NoError(t, log.Close())
		log, err = Open(cfg)
		require.NoError(t, err)
		require.Equal(t, end, log.end)
		require.NoError(t, log.Close())
	})
}

// mendChecksums makes every checksum right that it comes past.
func mendChecksums(b []byte) {
	if len(b) < fileHeaderSize {
		return
	}
	le := binary.LittleEndian
	le.PutUint32(b[68:], crc32.Checksum(b[:68], crcTable))
	for b = b[fileHeaderSize:]; len(b) >= groupHeaderSize && string(b[:4]) == groupMagic; {
		le.PutUint32(b[68:], crc32.Checksum(b[:68], crcTable))
		body := b[groupHeaderSize:min(uint64(len(b)), groupHeaderSize+uint64(le.Uint32(b[4:])))]
		b = b[groupHeaderSize+len(body):]
		for len(body) >= recordHeaderSize && uint64(le.Uint32(body)) <= uint64(len(body)-recordHeaderSize) {
			rec := body[:recordHeaderSize+le.Uint32(body)]
			le.PutUint32(rec[4:], recordCRC(rec))
			body = body[len(rec):]
		}
	}
}
