package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// strangersReader reads a log as a program could that knows only the comment in
// format.go: it uses nothing of this package.
func strangersReader(dir string) (payloads [][]byte, first uint64, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		return nil, 0, err
	}
	sort.Strings(files)
	le, castagnoli := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	var next uint64
	var hash [32]byte
	for i, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, 0, err
		}
		generation, offset, salt := le.Uint32(b[12:]), le.Uint64(b[16:]), string(b[24:32])
		switch {
		case string(b[:8]) != "muniment", le.Uint32(b[8:]) != 1 && le.Uint32(b[8:]) != 2:
			return nil, 0, fmt.Errorf("%s: not a segment", name)
		case le.Uint32(b[68:]) != crc32.Checksum(b[:68], castagnoli):
			return nil, 0, fmt.Errorf("%s: header damaged", name)
		case filepath.Base(name) != fmt.Sprintf("%010d-%020d.seg", generation, offset):
			return nil, 0, fmt.Errorf("%s: wrong name", name)
		case i == 0:
			first, next = offset, offset
		case offset != next, string(b[32:64]) != string(hash[:]):
			return nil, 0, fmt.Errorf("%s: does not continue", name)
		}
		hash = [32]byte(b[32:64])
		hashed := le.Uint32(b[8:]) == 1
		for b = b[72:]; len(b) >= 72 && string(b[:4]) == "MGRP"; {
			length, count := le.Uint32(b[4:]), le.Uint32(b[8:])
			switch {
			case le.Uint32(b[68:]) != crc32.Checksum(b[:68], castagnoli):
				return nil, 0, fmt.Errorf("%s: group damaged", name)
			case string(b[12:20]) != salt, le.Uint64(b[20:]) != next, string(b[36:68]) != string(hash[:]):
				return nil, 0, fmt.Errorf("%s: group does not continue", name)
			}
			body := b[72 : 72+length]
			hash = [32]byte{}
			if hashed {
				hash = sha256.Sum256(b[:72+length])
			}
			for ; count > 0; count-- {
				n := le.Uint32(body)
				if le.Uint32(body[4:]) != crc32.Checksum(append(body[:4:4], body[8:8+n]...), castagnoli) {
					return nil, 0, fmt.Errorf("%s: record %d damaged", name, next)
				}
				payloads = append(payloads, body[8:8+n])
				body = body[8+n:]
				next++
			}
			b = b[72+length:]
		}
		for _, c := range b {
			if c != 0 {
				return nil, 0, fmt.Errorf("%s: no zeros behind the groups", name)
			}
		}
	}
	return payloads, first, nil
}

func TestStrangerReadsTheFormat(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentBytes: 8 << 10}
	log := mustOpen(t, cfg)
	acked := newLedger()
	require.NoError(t, acked.write(log, "a", 50, nil))
	require.NoError(t, log.Close())
	cfg.Generation = 7
	log = mustOpen(t, cfg)
	require.NoError(t, acked.write(log, "b", 50, nil))
	want := readAll(t, log)
	removed, err := log.Retain(want[20].Position, farFuture)
	require.NoError(t, err)
	require.Positive(t, removed)
	want = readAll(t, log)
	require.NoError(t, log.Close())

	payloads, first, err := strangersReader(cfg.Dir)
	require.NoError(t, err)
	require.Equal(t, want[0].Offset, int64(first))
	require.Len(t, payloads, len(want))
	for i, e := range want {
		require.Equal(t, sealer.AppendRecord(nil, &e.Record), payloads[i])
	}
}

// TestFormatIsFixed pins the bytes, so that no change goes unnoticed that would
// make yesterday's logs unreadable.
func TestFormatIsFixed(t *testing.T) {
	h := fileHeader{version: chained, generation: 2, first: 3, salt: 0x0807060504030201, chain: sha256.Sum256([]byte("before"))}
	g := newGroup(nil)
	g.add(&sealer.Record{TenantID: "tnt_a", EventID: "evt_1", Node: "nod_1", Epoch: 4, Seq: 5, Event: []byte("{}"), Private: []byte("p")})
	gh := groupHeader{body: len(g.buf) - groupHeaderSize, count: 1, salt: h.salt, first: 3, written: 1_800_000_000_000, chain: h.chain}
	gh.put(g.buf)
	require.Equal(t, "0000000002-00000000000000000003.seg", h.name())
	require.Equal(t, goldenSegment, fmt.Sprintf("%x", append(h.encode(), g.buf...)))
}

func TestBodyIsItsRecordsAndNothingElse(t *testing.T) {
	g := newGroup(nil)
	g.add(record(1, 10))
	g.add(record(2, 10))
	body := g.buf[groupHeaderSize:]
	require.True(t, checkBody(body, 2))
	require.False(t, checkBody(body, 1))
	require.False(t, checkBody(body, 3))
	require.False(t, checkBody(append(body, 0), 2))
	require.True(t, checkBody(nil, 0))
}

const goldenSegment = "" +
	"6d756e696d656e74" + "01000000" + "02000000" + "0300000000000000" + "0102030405060708" +
	"6db7d803e74f1ffa7d8f5adc0bf95b3e15bf4c8373fffadf546227cc6c6742cb" + "00000000" + "3b383dcd" +
	"4d475250" + "22000000" + "01000000" + "0102030405060708" + "0300000000000000" + "00505c18a3010000" +
	"6db7d803e74f1ffa7d8f5adc0bf95b3e15bf4c8373fffadf546227cc6c6742cb" + "be7e3959" +
	"1a000000" + "fdba9f07" + "0105746e745f61056576745f31056e6f645f310405027b7d0170"

// TestNewerFormatIsNotDamage: the error for a segment of a later version says so, and doesn't propose to
// restore a file.
func TestNewerFormatIsNotDamage(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	log := mustOpen(t, cfg)
	require.NoError(t, newLedger().write(log, "a", 5, nil))
	require.NoError(t, log.Close())
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "*.seg"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	binary.LittleEndian.PutUint32(text[8:], 3)
	binary.LittleEndian.PutUint32(text[68:], crc32.Checksum(text[:68], crcTable))
	require.NoError(t, os.WriteFile(files[0], text, 0o600))

	_, err = Open(cfg)
	require.ErrorContains(t, err, "format version 3 is newer than 2, the newest that this program knows")
	require.ErrorContains(t, err, filepath.Base(files[0]))
	require.NotErrorIs(t, err, pipeline.ErrDamaged)
}
