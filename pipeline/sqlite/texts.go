package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// The texts of deliveries, their events and private parts, are most of what a warehouse holds, and
// much alike. They are kept in blocks, rows of text_blocks: consecutive texts of one tenant, so that
// a page of a tenant reads few blocks and a dropped tenant leaves none. events and private of a block
// are a zstd frame each, as erasing persons rewrites the latter alone. A frame has the lengths of
// its texts, as unsigned varints, increased by one, 0 for none; and then the texts.
//
// Each Load writes the new texts of a tenant as a block. If they and the open blocks before them
// are enough for a whole one, the same transaction writes them anew, and deletes the open blocks.
// So every text is written three times at most, nearly all twice, however few come at once, and a
// tenant's open blocks hold less than a block. A crash leaves the blocks before the transaction, or
// those behind it.
//
// Blocks are found by the numbers of their texts, which don't change.
const (
	// blockBytes bounds the texts of a block, unless a single one is larger. Those of nodes, compressed,
	// fill a page. To read one text the block is decompressed, in some 10 µs.
	blockBytes = 24 << 10
	// wholeBytes make a block whole: it isn't written again.
	wholeBytes = blockBytes * 3 / 4
	// mostBlockBytes bounds the memory that decompressing takes: records are smaller.
	mostBlockBytes = 32 << 20
)

// texts are the two of a delivery. Without an event they were removed.
type texts struct{ event, private []byte }

func (t texts) size() int64 { return int64(len(t.event) + len(t.private)) }

// kept is a private part, nil for an empty one.
func kept(private []byte) []byte {
	if len(private) == 0 {
		return nil
	}
	return private
}

// codec compresses texts. Safe for concurrent use.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newCodec() (c codec, err error) {
	// What is left of texts are hashes, signatures and ids in base64: to code these by their entropy saves a
	// fifth, takes twice the time in either direction, and leaves a page for a block nevertheless.
	c.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithNoEntropyCompression(true),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(64<<10))
	if err == nil {
		c.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(readers), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(mostBlockBytes))
	}
	return c, err
}

func (c codec) close() { c.decoder.Close() }

// pack makes a frame of texts; nil if all are nil.
func (c codec) pack(list [][]byte) []byte {
	size := 0
	for _, text := range list {
		size += binary.MaxVarintLen32 + len(text)
	}
	raw := make([]byte, 0, size)
	some := false
	for _, text := range list {
		if text == nil {
			raw = append(raw, 0)
			continue
		}
		raw, some = binary.AppendUvarint(raw, uint64(len(text))+1), true
	}
	if !some {
		return nil
	}
	for _, text := range list {
		raw = append(raw, text...)
	}
	return c.encoder.EncodeAll(raw, make([]byte, 0, len(raw)/2))
}

// frame holds the texts of a frame, and the memory for them, which the next one uses again.
type frame struct {
	texts [][]byte
	read  bool
	raw   []byte
}

// unpack reads the n texts of a frame, each nil if it is none.
func (f *frame) unpack(c codec, packed []byte, n int64) (err error) {
	if f.raw, err = c.decoder.DecodeAll(packed, f.raw[:0]); err != nil {
		return err
	}
	behind := f.raw // the lengths
	for range n {
		_, used := binary.Uvarint(behind)
		if used <= 0 {
			return errors.New("a length is missing")
		}
		behind = behind[used:]
	}
	lengths := f.raw
	f.texts = f.texts[:0]
	for range n {
		length, used := binary.Uvarint(lengths)
		lengths = lengths[used:]
		switch {
		case length == 0:
			f.texts = append(f.texts, nil)
			continue
		case length-1 > uint64(len(behind)):
			return errors.New("a text is cut off")
		}
		f.texts, behind = append(f.texts, behind[:length-1:length-1]), behind[length-1:]
	}
	if len(behind) > 0 {
		return errors.New("more follows its texts")
	}
	f.read = true
	return nil
}

// textBlock is a row of text_blocks. Its frames are decompressed when they are needed.
type textBlock struct {
	number, tenant, first, texts, size int64
	open                               bool
	events, private                    []byte // compressed; private is nil without any

	unpacked [2]frame
}

const blockColumns = "text_block, tenant, first, texts, size, open, events, private"

// scan reads a row of blockColumns into b, whose memory is used again.
func (b *textBlock) scan(scan func(...any) error) error { return scan(b.into()...) }

// into is where a row of blockColumns is read into.
func (b *textBlock) into() []any {
	b.unpacked[0].read, b.unpacked[1].read = false, false
	return []any{&b.number, &b.tenant, &b.first, &b.texts, &b.size, &b.open, &b.events, &b.private}
}

// all returns the texts of both frames, which are valid until b is read into.
func (b *textBlock) all(c codec) (events, private [][]byte, err error) {
	if events, err = b.frame(c, 0, b.events); err != nil {
		return nil, nil, err
	}
	if b.private == nil {
		return events, make([][]byte, len(events)), nil
	}
	private, err = b.frame(c, 1, b.private)
	return events, private, err
}

func (b *textBlock) frame(c codec, i int, packed []byte) ([][]byte, error) {
	f := &b.unpacked[i]
	if !f.read {
		err := f.unpack(c, packed, b.texts)
		switch {
		case errors.Is(err, zstd.ErrDecoderClosed):
			return nil, err
		case err != nil:
			return nil, damage{fmt.Errorf("texts %d to %d of tenant %d are damaged, in block %d of the warehouse: %w", b.first, b.first+b.texts-1, b.tenant, b.number, err)}
		}
	}
	return f.texts, nil
}

// damage is the error of texts that are damaged or missing: no later attempt finds them.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

func isDamage(err error) bool { return errors.As(err, new(damage)) }

// textReader finds the texts of deliveries. It keeps the block that it has read last, as the rows of a
// page follow each other.
type textReader struct {
	codec codec
	find  *sql.Stmt // nil: the block that it has is the one
	textBlock
}

const findBlock = `SELECT ` + blockColumns + ` FROM text_blocks WHERE tenant = ? AND first <= ? ORDER BY first DESC LIMIT 1`

// reader returns a textReader, for release.
func (w *Warehouse) reader(find *sql.Stmt) *textReader {
	r, ok := w.readers.Get().(*textReader)
	if !ok {
		r = &textReader{codec: w.codec}
	}
	r.find, r.texts = find, 0
	return r
}

func (w *Warehouse) release(r *textReader) {
	if cap(r.unpacked[0].raw)+cap(r.unpacked[1].raw) <= 4*blockBytes { // a large text's memory is not kept
		w.readers.Put(r)
	}
}

// holds reports whether the block that was read last is that of a text.
func (r *textReader) holds(tenant, text int64) bool {
	return r.tenant == tenant && r.first <= text && text < r.first+r.texts
}

// seek reads the block of a text.
func (r *textReader) seek(ctx context.Context, tenant, text int64) error {
	if r.holds(tenant, text) {
		return nil
	}
	err := sql.ErrNoRows
	if r.find != nil {
		err = r.scan(r.find.QueryRowContext(ctx, tenant, text).Scan)
	}
	if errors.Is(err, sql.ErrNoRows) || err == nil && text >= r.first+r.texts {
		err = damage{fmt.Errorf("text %d of tenant %d is missing from the warehouse", text, tenant)}
	}
	if err != nil {
		r.texts = 0 // it is no block
	}
	return err
}

// event returns a copy of an event's text.
func (r *textReader) event(ctx context.Context, tenant, text int64) ([]byte, error) {
	if err := r.seek(ctx, tenant, text); err != nil {
		return nil, err
	}
	events, err := r.frame(r.codec, 0, r.events)
	switch {
	case err != nil:
		return nil, err
	case events[text-r.first] == nil:
		return nil, fmt.Errorf("text %d of tenant %d was removed from the warehouse", text, tenant)
	}
	return append([]byte{}, events[text-r.first]...), nil
}

// privatePart returns a copy of a private part; nil if the delivery has none.
func (r *textReader) privatePart(ctx context.Context, tenant, text int64) ([]byte, error) {
	if err := r.seek(ctx, tenant, text); err != nil || r.private == nil {
		return nil, err
	}
	private, err := r.frame(r.codec, 1, r.private)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(private[text-r.first]), nil
}

// readEvent reads the event's text of a delivery.
func (r *textReader) readEvent(ctx context.Context, row *storedRow) (err error) {
	if row.Delivery != nil {
		row.Event, err = r.event(ctx, row.tenant, row.text)
	}
	return err
}

// readPrivate reads the private part of a delivery.
func (r *textReader) readPrivate(ctx context.Context, row *storedRow) (err error) {
	if row.Delivery != nil {
		row.Private, err = r.privatePart(ctx, row.tenant, row.text)
	}
	return err
}

// tail is where the texts of a tenant go on. The open blocks begin with text open, and have size
// bytes.
type tail struct{ next, open, size int64 }

// tailOf returns a tenant's tail.
func (l *load) tailOf(tenant int64) (tail, error) {
	if t, ok := l.tails[tenant]; ok {
		return t, nil
	}
	t := tail{next: 1, open: 1}
	end := true
	err := eachOf(l.ctx, l.StmtContext(l.ctx, l.tailBlocks), func(scan func(...any) error) error {
		var b textBlock
		if err := scan(&b.first, &b.texts, &b.size, &b.open); err != nil {
			return err
		}
		if end {
			end, t.next, t.open = false, b.first+b.texts, b.first+b.texts
		}
		if !b.open {
			return errLimit
		}
		t.open, t.size = b.first, t.size+b.size
		return nil
	}, tenant)
	if err != nil && !errors.Is(err, errLimit) {
		return tail{}, fmt.Errorf("cannot read where the texts of tenant %d end: %w", tenant, err)
	}
	l.tails[tenant] = t
	return t, nil
}

// storeTexts stores the texts of the rows, which stand in the order of their tenants, and numbers them.
func (l *load) storeTexts() error {
	var deliveries, others []*newRow
	for _, n := range l.rows {
		if n.class == classDelivery {
			deliveries = append(deliveries, n)
		} else {
			others = append(others, n)
		}
	}
	if len(others) > 0 {
		var last int64
		if err := l.QueryRowContext(l.ctx, `SELECT COALESCE(max(text), 0) FROM texts`).Scan(&last); err != nil {
			return err
		}
		for i, n := range others {
			n.text = last + 1 + int64(i)
		}
	}
	err := insert(l, l.texts, others, func(args []any, n *newRow) []any {
		return append(args, n.text, verbatim(n.Event), optional(n.private))
	})
	if err != nil {
		return err
	}
	return l.storeDeliveryTexts(deliveries)
}

// storeDeliveryTexts stores the texts of deliveries, which stand in the order of their tenants, and
// numbers them.
func (l *load) storeDeliveryTexts(rows []*newRow) error {
	var blocks []*textBlock
	for len(rows) > 0 {
		tenant, n := rows[0].tenant, 1
		for n < len(rows) && rows[n].tenant == tenant {
			n++
		}
		t, err := l.tailOf(tenant)
		if err != nil {
			return err
		}
		list, size := make([]texts, n), int64(0)
		for i, row := range rows[:n] {
			row.text = t.next + int64(i)
			list[i] = texts{verbatim(row.Event), kept(row.private)}
			size += list[i].size()
		}
		rows = rows[n:]
		first := t.next
		if t.open < first && (size >= wholeBytes || t.size+size >= blockBytes) {
			if first, list, err = l.reopen(tenant, t.open, list); err != nil {
				return err
			}
			t.open = first
		}
		made := l.codec.cut(tenant, first, list)
		blocks = append(blocks, made...)
		last := made[len(made)-1]
		t.next = last.first + last.texts
		switch {
		case !last.open:
			t.open, t.size = t.next, 0
		case first == t.open: // it is the only open one
			t.open, t.size = last.first, last.size
		default:
			t.size += last.size
		}
		l.tails[tenant] = t
	}
	return insert(l, l.blocks, blocks, func(args []any, b *textBlock) []any {
		return append(args, b.tenant, b.first, b.texts, b.size, b.open, b.events, optional(b.private))
	})
}

// reopen deletes the open blocks of a tenant, from one with a text on, and returns their texts
// before others, with the number of the first. One that is damaged stays, with those before it: it keeps
// nobody from loading.
func (l *load) reopen(tenant, open int64, behind []texts) (first int64, list []texts, err error) {
	first = open
	var damaged []int64
	err = eachOf(l.ctx, l.StmtContext(l.ctx, l.openBlocks), func(scan func(...any) error) error {
		var b textBlock
		if err := b.scan(scan); err != nil {
			return err
		}
		events, private, err := b.all(l.codec)
		if err != nil {
			damaged = append(damaged, b.number)
			first, list = b.first+b.texts, nil
			return nil
		}
		list = append(list, make([]texts, b.first-first-int64(len(list)))...) // blocks between were deleted
		for i := range events {
			list = append(list, texts{events[i], private[i]})
		}
		return nil
	}, tenant, open)
	for _, number := range damaged {
		if err == nil {
			err = l.exec(`UPDATE text_blocks SET open = FALSE WHERE text_block = ?`, number)
		}
	}
	if err == nil {
		_, err = l.StmtContext(l.ctx, l.joinedBlocks).ExecContext(l.ctx, tenant, first)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("cannot join blocks of texts: %w", err)
	}
	return first, append(list, behind...), nil
}

// cut makes blocks of texts, as far as they weren't removed. The last one stays open unless it is nearly full.
func (c codec) cut(tenant, first int64, list []texts) (blocks []*textBlock) {
	for len(list) > 0 {
		size, n := list[0].size(), 1
		for n < len(list) && size+list[n].size() <= blockBytes {
			size += list[n].size()
			n++
		}
		b := &textBlock{tenant: tenant, first: first, texts: int64(n), size: size, open: n == len(list) && size < wholeBytes}
		events, private := make([][]byte, n), make([][]byte, n)
		for i, t := range list[:n] {
			events[i], private[i] = t.event, t.private
		}
		if b.events, b.private = c.pack(events), c.pack(private); b.events != nil {
			blocks = append(blocks, b)
		}
		list, first = list[n:], first+int64(n)
	}
	return blocks
}

// removeText removes a delivery's text from its block, and the block with the last one. It keeps nobody from
// loading: an event in a damaged frame stays there, and a text that is missing is none.
func (l *load) removeText(tenant, text int64) error {
	b, err := l.seekText(tenant, text)
	if b == nil || err != nil {
		return err
	}
	if err := l.changePrivate(b, func(private [][]byte) { private[text-b.first] = nil }); err != nil {
		return err
	}
	events, err := b.frame(l.codec, 0, b.events)
	if err != nil {
		l.log.WarnContext(l.ctx, "the text of a removed event stays in the warehouse, in a damaged block", "err", err)
		return nil
	}
	events[text-b.first] = nil
	delete(l.tails, tenant)
	packed := l.codec.pack(events)
	if packed == nil {
		return l.exec(`DELETE FROM text_blocks WHERE text_block = ?`, b.number)
	}
	return l.exec(`UPDATE text_blocks SET events = ? WHERE text_block = ?`, packed, b.number)
}

// seekText reads the block of a text; nil if it is missing.
func (l *load) seekText(tenant, text int64) (*textBlock, error) {
	r := textReader{codec: l.codec, find: l.StmtContext(l.ctx, l.findBlock)}
	err := r.seek(l.ctx, tenant, text)
	if isDamage(err) {
		l.log.WarnContext(l.ctx, "a text that was to be removed is not in the warehouse", "err", err)
		return nil, nil
	}
	return &r.textBlock, err
}

// changePrivate changes private parts of a block. From a damaged frame no part can be removed alone: it is
// deleted as a whole, as it may name persons whom nobody finds in it any more.
func (l *load) changePrivate(b *textBlock, change func(private [][]byte)) error {
	if b.private == nil {
		return nil
	}
	var packed []byte
	private, err := b.frame(l.codec, 1, b.private)
	if err == nil {
		change(private)
		packed = l.codec.pack(private)
	} else {
		l.log.WarnContext(l.ctx, "private parts are deleted, because some were to be and their block is damaged", "err", err)
	}
	return l.exec(`UPDATE text_blocks SET private = ? WHERE text_block = ?`, optional(packed), b.number)
}
