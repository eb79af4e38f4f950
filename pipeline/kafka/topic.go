package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// Topic declares what the topic of a log has to be. The zero value is the default of a new topic;
// an existing one keeps its partitions, its replicas and its own retention where they are 0.
type Topic struct {
	// Partitions is their number, for the life of the topic; default 12. All records of a
	// tenant are in one, so it bounds how much one tenant can write, and how many loaders
	// work at once.
	Partitions int
	// Replication is how many brokers keep a partition; default 3.
	Replication int
	// InSync is how many of them must have a record before it is acknowledged; default
	// 2. With fewer left, nothing is.
	InSync int
	// Retention is how long a record is kept; default 7 days. If the warehouse is away for
	// longer, records are lost.
	Retention time.Duration
	// MessageBytes is the size of the largest batch, so of the largest record too;
	// default 4 MiB.
	MessageBytes int
	// Renew gives an existing topic a new generation: after it was restored, or copied from
	// another cluster, so that earlier positions can't be mistaken for positions in it.
	// Every log that is open on it fails, and loaders load all it holds once more.
	Renew bool
}

func (t Topic) complete() (Topic, error) {
	t.Partitions = cmp.Or(t.Partitions, 12)
	t.Replication = cmp.Or(t.Replication, 3)
	t.InSync = cmp.Or(t.InSync, min(2, t.Replication))
	t.Retention = cmp.Or(t.Retention, 7*24*time.Hour)
	t.MessageBytes = cmp.Or(t.MessageBytes, 4<<20)
	switch {
	case t.Partitions < 1 || t.Replication < 1 || t.InSync < 1:
		return t, errors.New("kafka: a topic needs a partition, a replica, and one in sync")
	case t.InSync > t.Replication:
		return t, fmt.Errorf("kafka: %d of %d replicas can't be in sync", t.InSync, t.Replication)
	case t.Retention < time.Millisecond:
		return t, fmt.Errorf("kafka: Retention %v keeps nothing", t.Retention)
	case t.MessageBytes < recordOverhead+batchOverhead:
		return t, fmt.Errorf("kafka: MessageBytes %d holds no record", t.MessageBytes)
	}
	return t, nil
}

// of declares what an existing topic keeps where t says nothing.
func (t Topic) of(d description) Topic {
	t.Partitions = cmp.Or(t.Partitions, d.partitions)
	t.Replication = cmp.Or(t.Replication, d.replication)
	if kept, err := d.number(settingRetention); t.Retention == 0 && err == nil && kept > 0 && d.settings[settingRetention].own {
		t.Retention = time.Duration(kept) * time.Millisecond
	}
	return t
}

// Change is what a migration does to a topic.
type Change struct {
	Topic string
	// Setting is what is set; empty for the topic's creation.
	Setting  string
	From, To string
}

// String is a line for an operator.
func (c Change) String() string {
	if c.Setting == "" {
		return fmt.Sprintf("create topic %s: %s", c.Topic, c.To)
	}
	return fmt.Sprintf("set %s of topic %s to %s (was %s)", c.Setting, c.Topic, c.To, cmp.Or(c.From, "not set"))
}

// Migrate creates the topic of cfg, or changes an existing one to what t declares, and
// returns the changes in the order in which they are made. A setting that keeps more or
// promises more than declared stays as it is. If t declares what can't be changed, the
// error is an ErrTopic that names all of it, and nothing is changed. A dry run has the
// brokers check the changes, and makes none.
func (t Topic) Migrate(ctx context.Context, cfg Config, dryRun bool) ([]Change, error) {
	declared, err := t.complete()
	if err != nil {
		return nil, err
	}
	cfg, err = cfg.complete()
	if err != nil {
		return nil, err
	}
	client, transport, err := cfg.client()
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()

	d, err := describe(ctx, client, cfg.Topic)
	if errors.Is(err, errNoTopic) {
		return declared.create(ctx, client, cfg.Topic, dryRun)
	}
	if err != nil {
		return nil, err
	}
	if declared, err = t.of(d).complete(); err != nil {
		return nil, err
	}
	changes, err := declared.plan(cfg.Topic, d, time.Now())
	if err != nil || len(changes) == 0 {
		return changes, err
	}
	return changes, alter(ctx, client, cfg.Topic, changes, dryRun)
}

// settings are those that a topic is created with, independent of the cluster's defaults.
func (t Topic) settings(generation uint32) []kafkago.ConfigEntry {
	return []kafkago.ConfigEntry{
		{ConfigName: settingCleanup, ConfigValue: "delete"},
		{ConfigName: settingGeneration, ConfigValue: strconv.FormatUint(uint64(generation), 10)},
		{ConfigName: settingInSync, ConfigValue: strconv.Itoa(t.InSync)},
		{ConfigName: settingMessageBytes, ConfigValue: strconv.Itoa(t.MessageBytes)},
		{ConfigName: settingRetention, ConfigValue: strconv.FormatInt(t.Retention.Milliseconds(), 10)},
		{ConfigName: settingRetentionBytes, ConfigValue: "-1"},
		{ConfigName: settingTimestamp, ConfigValue: "LogAppendTime"},
		{ConfigName: settingUnclean, ConfigValue: "false"},
	}
}

func (t Topic) create(ctx context.Context, client *kafkago.Client, name string, dryRun bool) ([]Change, error) {
	generation := newGeneration(0, time.Now())
	change := Change{Topic: name, To: fmt.Sprintf("%d partitions, %d replicas, %d in sync, kept %v, generation %d",
		t.Partitions, t.Replication, t.InSync, t.Retention, generation)}
	res, err := client.CreateTopics(ctx, &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{
			Topic:             name,
			NumPartitions:     t.Partitions,
			ReplicationFactor: t.Replication,
			ConfigEntries:     t.settings(generation),
		}},
		ValidateOnly: dryRun,
	})
	if err == nil {
		err = res.Errors[name]
	}
	if err != nil {
		return nil, fmt.Errorf("cannot create topic %s: %w", name, err)
	}
	return []Change{change}, nil
}

// newGeneration is higher than the old one, and than that of any topic made before.
func newGeneration(old uint32, now time.Time) uint32 {
	return max(uint32(now.Unix()), old+1)
}

// plan compares an existing topic with what is declared.
func (t Topic) plan(name string, d description, now time.Time) (changes []Change, err error) {
	refuse := func(format string, args ...any) {
		err = errors.Join(err, fmt.Errorf("%w %s: "+format, append([]any{ErrTopic, name}, args...)...))
	}
	set := func(setting, to string) {
		changes = append(changes, Change{Topic: name, Setting: setting, From: d.settings[setting].value, To: to})
	}
	if d.partitions != t.Partitions {
		refuse("it has %d partitions, %d are declared, and their number stays for the life of a topic", d.partitions, t.Partitions)
	}
	if d.replication < t.Replication {
		refuse("a partition has %d replicas, %d are declared: reassign its partitions", d.replication, t.Replication)
	}
	if policy := d.settings[settingCleanup].value; policy != "delete" {
		refuse("%s is %s, which drops records from its middle", settingCleanup, policy)
	}
	generation, generationErr := d.generation()
	switch {
	case generationErr != nil:
		refuse("%w", generationErr)
	case generation == 0:
		changes = append(changes, Change{Topic: name, Setting: settingGeneration, To: strconv.FormatUint(uint64(newGeneration(0, now)), 10)})
	case t.Renew:
		set(settingGeneration, strconv.FormatUint(uint64(newGeneration(generation, now)), 10))
	}
	atLeast := func(setting string, least int64) {
		switch n, numberErr := d.number(setting); {
		case numberErr != nil:
			refuse("%w", numberErr)
		case n >= 0 && n < least: // −1 is no bound
			set(setting, strconv.FormatInt(least, 10))
		}
	}
	exactly := func(setting, want string) {
		if s, known := d.settings[setting]; known && s.value != want {
			set(setting, want)
		}
	}
	atLeast(settingInSync, int64(t.InSync))
	atLeast(settingMessageBytes, int64(t.MessageBytes))
	atLeast(settingRetention, t.Retention.Milliseconds())
	exactly(settingRetentionBytes, "-1")
	exactly(settingTimestamp, "LogAppendTime")
	exactly(settingUnclean, "false")
	if err != nil {
		return nil, err
	}
	return changes, nil
}

func alter(ctx context.Context, client *kafkago.Client, name string, changes []Change, dryRun bool) error {
	var settings []kafkago.IncrementalAlterConfigsRequestConfig
	for _, c := range changes {
		settings = append(settings, kafkago.IncrementalAlterConfigsRequestConfig{
			Name: c.Setting, Value: c.To, ConfigOperation: kafkago.ConfigOperationSet,
		})
	}
	res, err := client.IncrementalAlterConfigs(ctx, &kafkago.IncrementalAlterConfigsRequest{
		Resources: []kafkago.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: name, Configs: settings,
		}},
		ValidateOnly: dryRun,
	})
	if err == nil {
		for _, r := range res.Resources {
			err = errors.Join(err, r.Error)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot change topic %s: %w", name, err)
	}
	return nil
}
