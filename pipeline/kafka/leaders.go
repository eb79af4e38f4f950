package kafka

import (
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// leaders tells which broker leads a partition, as the library last heard. That may be
// wrong, for up to twice metadataTTL: the library hears of it once in a while, whatever
// a broker answers, and is asked here once in a while. Then a request fails, and its
// partitions go alone until they succeed. If the library knows better than what is kept
// here, it refuses the request unsent, and partitions whose leader didn't move are
// counted and logged as unavailable, too.
type leaders struct {
	log *Log

	mu      sync.Mutex
	asked   time.Time
	brokers map[int]*broker // by id
	led     map[int]*broker // by partition, where it is known
}

// of is the leader of a queue's partition; nil if that isn't known.
func (l *leaders) of(q *queue) *broker {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.asked) > metadataTTL {
		l.ask()
	}
	return l.led[int(q.partition)]
}

// doubt has the library asked again before the next request. It may not have heard yet:
// until it is asked once more a request with the partition fails again.
func (l *leaders) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Time{}
}

// ask asks the library, which knows without asking the brokers. The caller holds l.mu.
func (l *leaders) ask() {
	l.asked = time.Now()
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
