package pipeline

import "math/bits"

// Bloom says "new" or "maybe" of hashes: a blocked Bloom filter (Putze, Sanders, Singler,
// 2007). The hashes may be those of a narrow range, as they are where they come in their
// order, but have to be random in it. A hash has one bit in each of the eight words of one
// block, so it costs one line of the processor's cache. With 16 hashes a block it says "maybe"
// of one in 100,000 that are new, with 24 of one in 10,000. Not for concurrent use while it
// is added to.
type Bloom []BloomBlock

// BloomBlock is 64 bytes of a Bloom.
type BloomBlock [8]uint64

// Add takes a hash in. The filter has at least one block.
func (b Bloom) Add(hash uint64) {
	block, left := b.spot(hash)
	for i := range block {
		block[i] |= 1 << (left >> 58)
		left <<= 6
	}
}

// Maybe is false if the hash was never added.
func (b Bloom) Maybe(hash uint64) bool {
	block, left := b.spot(hash)
	for i := range block {
		if block[i]&(1<<(left>>58)) == 0 {
			return false
		}
		left <<= 6
	}
	return true
}

// spot is where a hash is: its block, and six bits for each word.
func (b Bloom) spot(hash uint64) (block *BloomBlock, bitsOfWords uint64) {
	hash *= 0x9e3779b97f4a7c15 // all bits of it in the highest
	at, _ := bits.Mul64(hash, uint64(len(b)))
	return &b[at], hash * 0xd6e8feb86659fd93 // the block has used those up
}
