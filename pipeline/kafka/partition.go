package kafka

// partitionOf is the partition of a tenant: murmur2 over its id, as the clients of
// Apache Kafka place a key, so that a foreign producer that keys by tenant agrees
// with us. It never changes: a tenant's order rests on it.
func partitionOf(tenantID string, partitions int) int32 {
	return int32(murmur2(tenantID)&0x7fffffff) % int32(partitions)
}

// murmur2 is the hash of org.apache.kafka.common.utils.Utils, after Austin
// Appleby's MurmurHash2.
func murmur2(key string) uint32 {
	const m, r = 0x5bd1e995, 24
	h := 0x9747b28c ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
