package kafka

import (
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// leaders caches which broker leads each partition. It may be outdated by up to twice
// metadataTTL: the library refreshes its metadata once in that time, whatever a broker
// answers, and so does this cache. Then a request fails, and its partitions are sent alone
// until they succeed. If the library's metadata are newer than this cache, it refuses the
// request unsent, and partitions whose leader didn't move are counted and logged as
// unavailable, too.
type leaders struct {
	log *Log

	mu          sync.Mutex
	lastRefresh time.Time
	brokers     map[int]*broker // by id
	led         map[int]*broker // by partition, where it is known
}

// of is the leader of a queue's partition; nil if that isn't known.
func (l *leaders) of(q *queue) *broker {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.lastRefresh) > metadataTTL {
		l.refresh()
	}
	return l.led[int(q.partition)]
}

// expire refreshes the cache before the next request. The library's metadata may be
// outdated themselves; then a request with the partition fails again.
func (l *leaders) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastRefresh = time.Time{}
}

// refresh reads the library's metadata, which needs no request. The caller holds l.mu.
func (l *leaders) refresh() {
	l.lastRefresh = time.Now()
	clear(l.led)
	res, err := l.log.client.Metadata(l.log.ctx, &kafkago.MetadataRequest{Topics: []string{l.log.cfg.Topic}})
	if err != nil || len(res.Topics) != 1 {
		return
	}
	for _, p := range res.Topics[0].Partitions {
		if p.Leader.Host == "" {
			continue
		}
		b := l.brokers[p.Leader.ID]
		if b == nil {
			b = &broker{log: l.log}
			l.brokers[p.Leader.ID] = b
		}
		l.led[p.ID] = b
	}
}
