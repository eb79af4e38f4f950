// Package sums adds up the deliveries of proof packs by hour and by day of renderedAt, in UTC, and
// encodes what they add up to.
//
// A block holds the lines of one day: each sums the deliveries of an hour, or of the whole day, that
// share their kind. Its text, before it is compressed with zstd, is
//
//	version  a byte, 1
//	texts    their number; of each its length and its bytes: all that kinds name, rising
//	kinds    their number; of each the indexes of its six texts: rising by these
//	lines    their number; then seven columns, each with its length in bytes before it: hour of the day, index
//	         of the kind, receipts, milliseconds, impressions, first - start of the hour, last - first
//
// where a number is an unsigned varint. Lines rise by hour and kind. The hour of a line and, within an
// hour, its kind are the difference from the line before. Decoding refuses any other text.
//
// The package is pure: no I/O, no clock. Sums contain nothing that a person can have erased.
package sums

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// Lengths of time in milliseconds.
const (
	HourMs = int64(3_600_000)
	DayMs  = 24 * HourMs
)

// StartOf is the start of the hour or day, by its length, that a moment is in; all in milliseconds since
// the epoch.
func StartOf(ms, length int64) int64 {
	over := ms % length
	if over < 0 {
		over += length
	}
	return ms - over
}

// Kind is what the deliveries of one line have in common. MeteringBasis and Reason of duplicates are
// sealer.BasisNone and sealer.ReasonDuplicate.
type Kind struct{ RightID, Substrate, BasisID, MeteringBasis, Reason, Completion string }

func (k *Kind) texts() [6]*string {
	return [6]*string{&k.RightID, &k.Substrate, &k.BasisID, &k.MeteringBasis, &k.Reason, &k.Completion}
}

func (k Kind) compare(o Kind) int {
	return cmp.Or(strings.Compare(k.RightID, o.RightID), strings.Compare(k.Substrate, o.Substrate), strings.Compare(k.BasisID, o.BasisID),
		strings.Compare(k.MeteringBasis, o.MeteringBasis), strings.Compare(k.Reason, o.Reason), strings.Compare(k.Completion, o.Completion))
}

// Sum is what deliveries add up to. Impressions are in ten-thousandths; First and Last are the earliest
// and the latest renderedAt, in milliseconds since the epoch.
type Sum struct{ Receipts, QuantityMs, Impressions, First, Last int64 }

// Add adds more deliveries, at least one.
func (s *Sum) Add(more *Sum) {
	if s.Receipts == 0 {
		*s = *more
		return
	}
	s.Receipts, s.QuantityMs, s.Impressions = s.Receipts+more.Receipts, s.QuantityMs+more.QuantityMs, s.Impressions+more.Impressions
	s.First, s.Last = min(s.First, more.First), max(s.Last, more.Last)
}

// Line sums the deliveries of one kind in the hour or day from Start on, in milliseconds since the epoch.
type Line struct {
	Start int64
	Kind
	Sum
}

// Table adds up lines. Its zero value is ready to use. It belongs to one goroutine.
type Table struct {
	texts   map[string]uint32 // numbers of names
	names   []string
	numbers map[kind]uint32
	kinds   []kind
	starts  map[int64]places
	last    int64  // the start that was added to last,
	at      places // and its places
	cells   []cell
	sums    []Sum
}

// places are those, in cells and sums, of the lines of one start, by kind.
type places = map[uint32]int

// kind is a Kind whose texts are numbers: comparing it reads no text.
type kind [6]uint32

type cell struct {
	start int64
	kind  uint32
}

// Number returns the number of a kind in this table, from 0.
func (t *Table) Number(k Kind) uint32 {
	var of kind
	for i, text := range k.texts() {
		of[i] = t.text(*text)
	}
	return t.number(of)
}

// text returns the number of a text.
func (t *Table) text(s string) uint32 {
	n, known := t.texts[s]
	if !known {
		if t.texts == nil {
			t.texts, t.numbers, t.starts = map[string]uint32{}, map[kind]uint32{}, map[int64]places{}
		}
		s = strings.Clone(s) // it may alias the text of an event or of a block
		n = uint32(len(t.names))
		t.texts[s], t.names = n, append(t.names, s)
	}
	return n
}

func (t *Table) number(of kind) uint32 {
	n, known := t.numbers[of]
	if !known {
		n = uint32(len(t.kinds))
		t.numbers[of], t.kinds = n, append(t.kinds, of)
	}
	return n
}

// kind returns the kind with a number.
func (t *Table) kind(n uint32) (k Kind) {
	for i, text := range k.texts() {
		*text = t.names[t.kinds[n][i]]
	}
	return k
}

// Numbers returns the numbers in this table of the kinds of a block, by their indexes: of those of a right, or
// of all if that is empty; of others it is -1. Without completion kinds that differ in nothing else are one.
func (t *Table) Numbers(b *Block, rightID string, completion bool) []int64 {
	texts := make([]int64, len(b.texts)) // their numbers here, and one more; 0: not looked up
	text := func(i uint32) uint32 {
		if texts[i] == 0 {
			texts[i] = int64(t.text(b.texts[i])) + 1
		}
		return uint32(texts[i] - 1)
	}
	none := t.text("")
	numbers := make([]int64, len(b.kinds))
	for i, of := range b.kinds {
		if numbers[i] = -1; rightID != "" && b.texts[of[0]] != rightID {
			continue
		}
		for j := range of {
			of[j] = text(of[j])
		}
		if !completion {
			of[len(of)-1] = none
		}
		numbers[i] = int64(t.number(of))
	}
	return numbers
}

// AddBlock adds all lines of a block.
func (t *Table) AddBlock(b *Block) {
	numbers := t.Numbers(b, "", true)
	for i := range b.Lines {
		l := &b.Lines[i]
		t.Add(l.Start, uint32(numbers[l.Kind]), &l.Sum)
	}
}

// Add adds deliveries of the kind with a number. start need not be that of an hour or day: it only
// separates lines.
func (t *Table) Add(start int64, kind uint32, sum *Sum) {
	if t.at == nil || t.last != start {
		if t.last, t.at = start, t.starts[start]; t.at == nil {
			t.at = places{}
			t.starts[start] = t.at
		}
	}
	i, known := t.at[kind]
	if !known {
		i = len(t.cells)
		t.at[kind], t.cells, t.sums = i, append(t.cells, cell{start, kind}), append(t.sums, Sum{})
	}
	t.sums[i].Add(sum)
}

// Count adds a delivery to its hour.
func (t *Table) Count(d *sealer.RecordedDelivery, duplicate bool) {
	at := d.Receipt.RenderedAt.UnixMilli()
	k := Kind{d.RightID, d.Substrate, d.BasisID, d.Basis, d.Reason, d.Completion}
	one := Sum{1, d.QuantityMs, d.Impressions, at, at}
	if duplicate {
		k.MeteringBasis, k.Reason = sealer.BasisNone, sealer.ReasonDuplicate
		one.QuantityMs, one.Impressions = 0, 0
	}
	t.Add(StartOf(at, HourMs), t.Number(k), &one)
}

// Before returns how many lines start before a moment.
func (t *Table) Before(start int64) (lines int) {
	for _, at := range t.cells {
		if at.start < start {
			lines++
		}
	}
	return lines
}

// Lines returns the lines, rising by start and kind.
func (t *Table) Lines() []Line { return t.Slice(0, 0) }

// Slice returns the lines behind the first skip, and at most limit of them; 0 is no limit.
func (t *Table) Slice(skip, limit int) []Line {
	// There are far more lines than kinds, so only these are compared by their texts.
	texts := ranked(len(t.names), func(a, b uint32) int { return strings.Compare(t.names[a], t.names[b]) })
	ranks := ranked(len(t.kinds), func(a, b uint32) int {
		for i, one := range t.kinds[a] {
			if other := t.kinds[b][i]; one != other {
				return cmp.Compare(texts[one], texts[other])
			}
		}
		return 0
	})
	order := make([]int, len(t.cells))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		one, other := t.cells[a], t.cells[b]
		if one.start != other.start {
			return cmp.Compare(one.start, other.start)
		}
		return cmp.Compare(ranks[one.kind], ranks[other.kind])
	})
	order = order[min(skip, len(order)):]
	if limit > 0 {
		order = order[:min(limit, len(order))]
	}
	lines := make([]Line, len(order))
	for i, at := range order {
		lines[i] = Line{t.cells[at].start, t.kind(t.cells[at].kind), t.sums[at]}
	}
	return lines
}

// ranked returns the rank of each of n things that are numbered.
func ranked(n int, compare func(a, b uint32) int) []uint32 {
	order, ranks := make([]uint32, n), make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, compare)
	for rank, of := range order {
		ranks[of] = uint32(rank)
	}
	return ranks
}

// Apart returns the start of the first line that two tables don't have alike, First and Last aside.
func (t *Table) Apart(other *Table) (start int64, apart bool) {
	one, two := t.Lines(), other.Lines()
	for i := range max(len(one), len(two)) {
		switch {
		case i == len(one):
			return two[i].Start, true
		case i == len(two):
			return one[i].Start, true
		}
		a, b := one[i], two[i]
		if a.First, a.Last, b.First, b.Last = 0, 0, 0, 0; a != b {
			return min(a.Start, b.Start), true
		}
	}
	return 0, false
}

// Agree returns an error unless the lines sum to the metering of a pack's header.
func (t *Table) Agree(metering []pack.MeterRow) error {
	left := map[pack.MeterRow]Sum{}
	add := func(row pack.MeterRow, sign int64) {
		of := row
		of.Receipts, of.QuantityMs, of.Impressions = 0, 0, 0
		was := left[of]
		left[of] = Sum{Receipts: was.Receipts + sign*row.Receipts, QuantityMs: was.QuantityMs + sign*row.QuantityMs, Impressions: was.Impressions + sign*row.Impressions}
	}
	for _, row := range metering {
		add(row, 1)
	}
	for i, sum := range t.sums {
		k := t.kind(t.cells[i].kind)
		add(pack.MeterRow{RightID: k.RightID, Substrate: k.Substrate, BasisID: k.BasisID, MeteringBasis: k.MeteringBasis, Reason: k.Reason,
			Receipts: sum.Receipts, QuantityMs: sum.QuantityMs, Impressions: sum.Impressions}, -1)
	}
	maps.DeleteFunc(left, func(_ pack.MeterRow, sum Sum) bool { return sum == Sum{} })
	for of, apart := range left {
		return fmt.Errorf("the sums by hour are not the metering in the header: of %s, %s, %s, %s, %s it has %d receipts, %d ms and %d ten-thousandths of impressions more",
			of.RightID, of.Substrate, of.BasisID, of.MeteringBasis, of.Reason, apart.Receipts, apart.QuantityMs, apart.Impressions)
	}
	return nil
}

// Day is the encoded sums of one day.
type Day struct {
	// Day counts days since the epoch.
	Day int64
	// Hours is the block of the lines by hour, Whole that of the lines of the day.
	Hours, Whole []byte
}

// Days encodes lines by hour, each day of them.
func (t *Table) Days(c *Codec) []Day {
	var days []Day
	lines := t.Lines()
	for len(lines) > 0 {
		start := StartOf(lines[0].Start, DayMs)
		n := 0
		var whole Table
		for ; n < len(lines) && lines[n].Start < start+DayMs; n++ {
			whole.Add(start, whole.Number(lines[n].Kind), &lines[n].Sum)
		}
		days = append(days, Day{start / DayMs, c.Encode(lines[:n]), c.Encode(whole.Lines())})
		lines = lines[n:]
	}
	return days
}

// Codec encodes and decodes blocks. It is safe for concurrent use.
type Codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	buffers sync.Pool // of decompressed texts, *[]byte
}

// mostBlock bounds the memory that decoding a block takes: 100,000 lines of as many kinds are a tenth of it.
const mostBlock = 256 << 20

// mostBuffer bounds a buffer that is kept.
const mostBuffer = 1 << 20

// NewCodec returns a codec.
func NewCodec() (*Codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(mostBlock))
	if err != nil {
		return nil, err
	}
	return &Codec{encoder: encoder, decoder: decoder}, nil
}

const version = 1

// columns of a line, in their order.
const (
	columnHour = iota
	columnKind
	columnReceipts
	columnQuantity
	columnImpressions
	columnFirst
	columnLast
	columns
)

// Encode returns the block of lines of one day, at least one: rising by start and kind, each of them
// once.
func (c *Codec) Encode(lines []Line) []byte {
	day := StartOf(lines[0].Start, DayMs)
	known := map[string]uint64{}
	kinds := map[Kind]uint64{}
	for i := range lines {
		k := &lines[i].Kind
		kinds[*k] = 0
		for _, text := range k.texts() {
			known[*text] = 0
		}
	}
	text := []byte{version}
	text = binary.AppendUvarint(text, uint64(len(known)))
	for i, s := range slices.Sorted(maps.Keys(known)) {
		known[s] = uint64(i)
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
	}
	text = binary.AppendUvarint(text, uint64(len(kinds)))
	for i, k := range slices.SortedFunc(maps.Keys(kinds), Kind.compare) {
		kinds[k] = uint64(i)
		for _, s := range k.texts() {
			text = binary.AppendUvarint(text, known[*s])
		}
	}
	text = binary.AppendUvarint(text, uint64(len(lines)))
	var column [columns][]byte
	put := func(i int, n uint64) { column[i] = binary.AppendUvarint(column[i], n) }
	hour, kind := uint64(0), uint64(0)
	for i := range lines {
		l := &lines[i]
		h, k := uint64((l.Start-day)/HourMs), kinds[l.Kind]
		put(columnHour, h-hour)
		if h > hour {
			kind = 0
		}
		put(columnKind, k-kind)
		hour, kind = h, k
		put(columnReceipts, uint64(l.Receipts))
		put(columnQuantity, uint64(l.QuantityMs))
		put(columnImpressions, uint64(l.Impressions))
		put(columnFirst, uint64(l.First-l.Start))
		put(columnLast, uint64(l.Last-l.First))
	}
	for _, bytes := range column {
		text = append(binary.AppendUvarint(text, uint64(len(bytes))), bytes...)
	}
	return c.encoder.EncodeAll(text, nil)
}

// Block is a decoded block.
type Block struct {
	texts []string
	kinds []kind // indexes of texts
	// Lines are in their order.
	Lines []BlockLine
}

// Kind returns the kind with an index.
func (b *Block) Kind(i uint32) (k Kind) {
	for j, text := range k.texts() {
		*text = b.texts[b.kinds[i][j]]
	}
	return k
}

// BlockLine is a line whose kind is an index, for Block.Kind and the result of Table.Numbers.
type BlockLine struct {
	Start int64
	Kind  uint32
	Sum
}

// ErrBlock is the error of Decode for what is no block.
var ErrBlock = errors.New("not a block of sums")

// Decode reads a block of a day, which is given in days since the epoch. whole says that its lines are of
// the day. It takes memory for what the block has, not for what it claims to have.
func (c *Codec) Decode(day int64, block []byte, whole bool) (b Block, err error) {
	buffer, _ := c.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	defer func() {
		if cap(*buffer) <= mostBuffer {
			c.buffers.Put(buffer)
		}
	}()
	*buffer, err = c.decoder.DecodeAll(block, (*buffer)[:0])
	text := *buffer
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	r := reader{text: text}
	if len(text) == 0 || text[0] != version {
		return b, fmt.Errorf("%w: its version is unknown", ErrBlock)
	}
	r.text = text[1:]
	n := r.count(1)
	b.texts = make([]string, 0, min(n, atFirst))
	for i := range n {
		text := string(r.bytes())
		if i > 0 && text <= b.texts[i-1] {
			r.bad = true
		}
		if b.texts = append(b.texts, text); r.bad {
			return Block{}, ErrBlock
		}
	}
	n = r.count(6)
	b.kinds = make([]kind, 0, min(n, atFirst))
	for i := range n {
		var of kind
		for j := range of {
			if n := r.number(); n < uint64(len(b.texts)) {
				of[j] = uint32(n)
			} else {
				r.bad = true
			}
		}
		if i > 0 && slices.Compare(of[:], b.kinds[i-1][:]) <= 0 { // texts rise, so kinds rise as their texts do
			r.bad = true
		}
		if b.kinds = append(b.kinds, of); r.bad {
			return Block{}, ErrBlock
		}
	}
	if n = r.count(columns); !r.bad {
		r.lines(&b, n, day*DayMs, whole)
	}
	if r.bad || len(r.text) > 0 {
		return Block{}, ErrBlock
	}
	return b, nil
}

// atFirst is for how many things Decode makes space before it has read any.
const atFirst = 1 << 14

// lines reads the columns of n lines.
func (r *reader) lines(b *Block, n int, day int64, whole bool) {
	var column [columns]reader
	for i := range column {
		column[i].text = r.bytes()
	}
	length, last := HourMs, uint64(23)
	if whole {
		length, last = DayMs, 0
	}
	hour, kind := uint64(0), uint64(0)
	b.Lines = make([]BlockLine, 0, min(n, atFirst))
	for i := range n {
		h, k := column[columnHour].number(), column[columnKind].number()
		if i > 0 && h == 0 && k == 0 {
			r.bad = true // the line before, again
		}
		if h > 0 {
			kind = 0
		}
		hour, kind = hour+h, kind+k
		l := BlockLine{Start: day + int64(hour)*HourMs, Kind: uint32(kind)}
		l.Receipts, l.QuantityMs, l.Impressions = column[columnReceipts].sum(), column[columnQuantity].sum(), column[columnImpressions].sum()
		l.First = l.Start + column[columnFirst].sum()
		l.Last = l.First + column[columnLast].sum()
		if h > last || hour > last || k >= uint64(len(b.kinds)) || kind >= uint64(len(b.kinds)) || l.Receipts == 0 || l.First >= l.Start+length || l.Last >= l.Start+length || l.Last < l.First {
			r.bad = true
		}
		for i := range column {
			r.bad = r.bad || column[i].bad
		}
		if b.Lines = append(b.Lines, l); r.bad {
			return
		}
	}
	for i := range column {
		r.bad = r.bad || column[i].bad || len(column[i].text) > 0
	}
}

// reader reads numbers and texts; after bad is set it reads zeros.
type reader struct {
	text []byte
	bad  bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.text)
	if size <= 0 || size > 1 && r.text[size-1] == 0 { // an overlong one would be another text of the same
		r.bad, r.text = true, nil
		return 0
	}
	r.text = r.text[size:]
	return n
}

// sum reads a number that fits an int64 with space above.
func (r *reader) sum() int64 {
	n := r.number()
	if n > 1<<62 {
		r.bad = true
		return 0
	}
	return int64(n)
}

// count reads how many things follow that take at least so many bytes each.
func (r *reader) count(least uint64) int {
	n := r.number()
	if n > uint64(len(r.text))/least {
		r.bad, r.text = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) bytes() []byte {
	n := r.count(1)
	text := r.text[:n]
	r.text = r.text[n:]
	return text
}
