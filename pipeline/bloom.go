package pipeline

import "math/bits"

// Bloom is a blocked Bloom filter of hashes (Putze, Sanders, Singler, 2007). The hashes may
// be of a narrow range, but have to be random in it. A hash has one bit in each of the eight
// words of one block, so it costs one line of the processor's cache. With 16 hashes a block
// Maybe is true for one in 100,000 new hashes, with 24 for one in 10,000. Add must not run
// beside any other call.
type Bloom []BloomBlock

// BloomBlock is 64 bytes of a Bloom.
type BloomBlock [8]uint64

// Add adds a hash. The filter has at least one block.
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
	hash *= 0x9e3779b97f4a7c15 // the highest bits depend on all bits
	at, _ := bits.Mul64(hash, uint64(len(b)))
	return &b[at], hash * 0xd6e8feb86659fd93 // the block depends on the highest bits already
}
