package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"muniment.example/pipeline"
)

// The settings of a topic that are read.
const (
	settingCleanup        = "cleanup.policy"
	settingGeneration     = "delete.retention.ms" // see the package comment
	settingInSync         = "min.insync.replicas"
	settingMessageBytes   = "max.message.bytes"
	settingRetention      = "retention.ms"
	settingRetentionBytes = "retention.bytes"
	settingSegment        = "segment.ms"
	settingTimestamp      = "message.timestamp.type"
	settingUnclean        = "unclean.leader.election.enable"
)

// description is a topic as the brokers describe it.
type description struct {
	partitions  int
	replication int // least over the partitions
	settings    map[string]setting
}

type setting struct {
	value string
	own   bool // set on the topic itself, no default of the cluster
}

// errNoTopic: the cluster has no such topic.
var errNoTopic = errors.New("no such topic")

// describe reads the description of a topic from the brokers.
func describe(ctx context.Context, client *kafkago.Client, name string) (description, error) {
	meta, err := client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{name}})
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return description{}, fmt.Errorf("cannot reach Kafka: a broker hung up, as it does when TLS, user or password are not as it wants them: %w", err)
	}
	if err != nil {
		return description{}, fmt.Errorf("cannot reach Kafka: %w", err)
	}
	var d description
	switch t := meta.Topics[0]; {
	case errors.Is(t.Error, kafkago.UnknownTopicOrPartition):
		return description{}, fmt.Errorf("%w: %s", errNoTopic, name)
	case t.Error != nil:
		return description{}, fmt.Errorf("cannot describe topic %s: %w", name, t.Error)
	default:
		d.partitions, d.replication = len(t.Partitions), math.MaxInt
		for _, p := range t.Partitions {
			d.replication = min(d.replication, len(p.Replicas))
		}
	}
	res, err := client.DescribeConfigs(ctx, &kafkago.DescribeConfigsRequest{
		Resources: []kafkago.DescribeConfigRequestResource{{ResourceType: kafkago.ResourceTypeTopic, ResourceName: name}},
	})
	if err == nil && len(res.Resources) != 1 {
		err = fmt.Errorf("%d answers for one topic", len(res.Resources))
	}
	if err == nil {
		err = res.Resources[0].Error
	}
	if errors.Is(err, kafkago.UnknownTopicOrPartition) {
		return description{}, fmt.Errorf("%w: %s", errNoTopic, name)
	}
	if err != nil {
		return description{}, fmt.Errorf("cannot describe the settings of topic %s: %w", name, err)
	}
	d.settings = map[string]setting{}
	for _, e := range res.Resources[0].ConfigEntries {
		const topicSource = 1 // DYNAMIC_TOPIC_CONFIG
		d.settings[e.ConfigName] = setting{e.ConfigValue, e.ConfigSource == topicSource}
	}
	return d, nil
}

// generation is 0 for a topic that has none.
func (d description) generation() (uint32, error) {
	s := d.settings[settingGeneration]
	if !s.own {
		return 0, nil
	}
	n, err := strconv.ParseUint(s.value, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%w: %s=%s is not a generation", ErrTopic, settingGeneration, s.value)
	}
	return uint32(n), nil
}

// number returns a setting that has to be a number.
func (d description) number(name string) (int64, error) {
	n, err := strconv.ParseInt(d.settings[name].value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s=%q is not a number", ErrTopic, name, d.settings[name].value)
	}
	return n, nil
}

// check returns why a log can't work on the topic; nil if it can.
func (d description) check() error {
	generation, err := d.generation()
	if err != nil {
		return err
	}
	if generation == 0 {
		return fmt.Errorf("%w: it has no generation: run muniment migrate", ErrTopic)
	}
	if policy := d.settings[settingCleanup].value; policy != "delete" {
		return fmt.Errorf("%w: %s=%s drops records from its middle, it must be delete", ErrTopic, settingCleanup, policy)
	}
	if _, err := d.number(settingRetention); err != nil {
		return err
	}
	_, err = d.number(settingMessageBytes)
	return err
}

// sized reports whether the brokers also drop records by the partition's size, whatever
// their age.
func (d description) sized() bool {
	n, err := d.number(settingRetentionBytes)
	return err == nil && n >= 0
}

// warning lists what migrate would change; empty for nothing. The log works on such a topic
// all the same: refusing it would stop the loading of records that may be dropped early.
func (d description) warning() string {
	var all []string
	if d.sized() {
		all = append(all, settingRetentionBytes+"="+d.settings[settingRetentionBytes].value+" drops records before "+settingRetention+" has passed, at an unknown time")
	}
	if s, known := d.settings[settingTimestamp]; known && s.value != "LogAppendTime" {
		all = append(all, settingTimestamp+"="+s.value+" keeps records by the clocks of the nodes that wrote them")
	}
	return strings.Join(all, "; ")
}

// watch describes the topic, and then again and again to notice changes.
func (l *Log) watch(ctx context.Context) {
	backoff := l.cfg.MinBackoff
	for {
		before := l.topicErr // written here alone
		err := l.lookOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		l.topicErr = err
		l.mu.Unlock()
		wait := l.cfg.CheckEvery
		switch {
		case err == nil && before != nil:
			l.cfg.Log.Info("topic of the log is ready", "topic", l.cfg.Topic)
		case err != nil && (before == nil || before.Error() != err.Error()):
			l.cfg.Log.Warn("topic of the log is not ready", "topic", l.cfg.Topic, "err", err)
		}
		if err == nil {
			backoff = l.cfg.MinBackoff
		} else {
			wait = min(wait, backoff)
			backoff = min(2*backoff, l.cfg.MaxBackoff)
		}
		// At most one description per MinBackoff, however often lookAgain is called.
		if pipeline.Pause(ctx, min(wait, l.cfg.MinBackoff)) != nil {
			return
		}
		looking, cancel := context.WithTimeout(ctx, wait)
		select {
		case <-l.look:
		case <-looking.Done():
		}
		cancel()
	}
}

// lookAgain makes watch describe the topic now; it doesn't wait.
func (l *Log) lookAgain() {
	select {
	case l.look <- struct{}{}:
	default:
	}
}

func (l *Log) lookOnce(ctx context.Context) error {
	d, err := describe(ctx, l.client, l.cfg.Topic)
	if err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return fmt.Errorf("topic %s: %w", l.cfg.Topic, err)
	}
	generation, _ := d.generation()
	size, _ := d.number(settingMessageBytes)
	retention, _ := d.number(settingRetention)
	if warning := d.warning(); warning != l.warning {
		l.warning = warning
		if warning != "" {
			l.cfg.Log.Warn("topic of the log is not set as it should be: run muniment migrate", "topic", l.cfg.Topic, "why", warning)
		}
	}
	if old := l.topic; old != nil {
		old.messageBytes.Store(size)
		old.retention.Store(retention)
		old.sized.Store(d.sized())
		switch {
		case generation != old.generation:
			err = fmt.Errorf("%w: topic %s is of generation %d and was of %d: it was recreated or restored", pipeline.ErrFailed, l.cfg.Topic, generation, old.generation)
		case d.partitions != len(old.queues):
			err = fmt.Errorf("%w: topic %s has %d partitions and had %d: tenants would change theirs", pipeline.ErrFailed, l.cfg.Topic, d.partitions, len(old.queues))
		default:
			return nil
		}
		l.cfg.Log.Error("log has failed", "err", err)
		l.refuse(err)
		l.cfg.OnFailure(err)
		return err
	}
	t := &topic{generation: generation}
	t.messageBytes.Store(size)
	t.retention.Store(retention)
	t.sized.Store(d.sized())
	for p := range d.partitions {
		t.queues = append(t.queues, newQueue(l, int32(p)))
	}
	l.mu.Lock()
	l.topic, l.topicErr = t, nil
	l.mu.Unlock()
	close(l.known)
	return nil
}
