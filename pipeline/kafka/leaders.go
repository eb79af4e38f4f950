package kafka

import (
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// leaders tells which broker leads a partition, as the library last heard. That may be
// wrong: then a request fails, and its partitions go alone until they succeed.
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

// doubt has the library asked again before the next request.
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
