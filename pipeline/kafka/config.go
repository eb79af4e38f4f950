package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultTopic is the topic of a service's event log.
const DefaultTopic = "muniment.events"

// Config says how to reach Kafka and how a Log behaves.
type Config struct {
	// Brokers are host:port of some brokers, enough to find the others by. Required.
	Brokers []string
	// Topic; default DefaultTopic.
	Topic string

	// TLS returns, for each connection, its configuration for the host that is dialled;
	// nil is plain TCP.
	TLS func(host string) *tls.Config
	// SASL authenticates every connection; the zero value does not.
	SASL SASL

	// RequestTimeout bounds one request to a broker. The broker gets half of it for a
	// produce request. Default 30 s: a shorter one makes copies during a fail-over.
	RequestTimeout time.Duration
	// ReadTimeout is how long a read retries failures that may pass, such as a fail-over;
	// default 10 s.
	ReadTimeout time.Duration
	// MinBackoff and MaxBackoff bound the pause after a failed request; it doubles from
	// the first to the second. Defaults 20 ms and 500 ms.
	MinBackoff, MaxBackoff time.Duration

	// RequestBytes is the size at which a partition's batch in a produce request takes
	// no further record; default 1 MiB, and never more than the topic's
	// max.message.bytes. A request takes at least one batch, and no further one beyond
	// four times as much.
	RequestBytes int
	// QueueBytes bounds the records that wait for an acknowledgement, over all
	// partitions; default 64 MiB. Append refuses more with pipeline.ErrFull. They take
	// up to twice as much memory, most if each is a little over 8 KiB: memory is taken in
	// pieces of 16 KiB, and a record is never split.
	QueueBytes int
	// CheckEvery is the pause between two reads of the topic's description, which notice
	// that the topic was recreated; default 10 s.
	CheckEvery time.Duration

	// OnFailure is called once when the log fails permanently: the process should stop and
	// start again. nil does nothing.
	OnFailure func(error)
	// Log logs when the brokers can't be reached and when they can again; nil discards it.
	Log *slog.Logger
	// Registerer takes the metrics until Close; nil registers none.
	Registerer prometheus.Registerer
	// Dial opens connections; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// clientID is how the brokers' logs and quotas name this process.
const clientID = "muniment"

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// SASL is a user's way to authenticate.
type SASL struct {
	// Mechanism is plain, scram-sha-256 or scram-sha-512; empty is none.
	Mechanism      string
	User, Password string
	// PasswordNow, if set, returns the password for each connection, in place of Password.
	PasswordNow func() (string, error)
}

// mechanism is nil without authentication.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.Mechanism == "" {
		return nil, nil
	}
	m, err := s.now()
	if err != nil || s.PasswordNow == nil {
		return m, err
	}
	return fresh{m.Name(), s}, nil
}

// now is the mechanism with the current password.
func (s SASL) now() (m sasl.Mechanism, err error) {
	if s.PasswordNow != nil {
		if s.Password, err = s.PasswordNow(); err != nil {
			return nil, err
		}
	}
	switch strings.ToLower(s.Mechanism) {
	case "plain":
		return plain.Mechanism{Username: s.User, Password: s.Password}, nil
	case "scram-sha-256":
		return scram.Mechanism(scram.SHA256, s.User, s.Password)
	case "scram-sha-512":
		return scram.Mechanism(scram.SHA512, s.User, s.Password)
	}
	return nil, fmt.Errorf("SASL mechanism %q is not one of plain, scram-sha-256, scram-sha-512", s.Mechanism)
}

// fresh is a mechanism that reads the password for each connection.
type fresh struct {
	name string
	sasl SASL
}

func (f fresh) Name() string { return f.name }

func (f fresh) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := f.sasl.now()
	if err != nil {
		return nil, nil, err
	}
	return m.Start(ctx)
}

const (
	defaultRequestBytes = 1 << 20
	defaultQueueBytes   = 64 << 20
	// metadataTTL bounds how long requests go to a broker that is no longer the leader: the
	// library refreshes its metadata at random within this time, whatever a broker answers.
	metadataTTL = time.Second
)

// complete fills in the defaults, or names the field that can't be.
func (c Config) complete() (Config, error) {
	c.Topic = cmp.Or(c.Topic, DefaultTopic)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.MinBackoff = cmp.Or(c.MinBackoff, 20*time.Millisecond)
	c.MaxBackoff = max(cmp.Or(c.MaxBackoff, 500*time.Millisecond), c.MinBackoff)
	c.RequestBytes = cmp.Or(c.RequestBytes, defaultRequestBytes)
	c.QueueBytes = cmp.Or(c.QueueBytes, defaultQueueBytes)
	c.CheckEvery = cmp.Or(c.CheckEvery, 10*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.OnFailure == nil {
		c.OnFailure = func(error) {}
	}
	if c.TLS != nil {
		c.Dial, c.TLS = overTLS(c.Dial, c.TLS), nil // once
	}
	switch {
	case len(c.Brokers) == 0:
		return c, errors.New("kafka: Brokers is empty")
	case c.RequestTimeout < 0 || c.ReadTimeout < 0 || c.MinBackoff < 0 || c.MaxBackoff < 0 || c.CheckEvery < 0:
		return c, errors.New("kafka: a duration is negative")
	case c.RequestBytes < 0 || c.QueueBytes < 0:
		return c, errors.New("kafka: a size is negative")
	}
	return c, nil
}

// overTLS opens connections that have verified the broker.
func overTLS(dial dialFunc, configOf func(host string) *tls.Config) dialFunc {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		below, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(below, configOf(host))
		if err := conn.HandshakeContext(ctx); err != nil {
			below.Close()
			return nil, fmt.Errorf("no TLS with %s: %w", address, err)
		}
		return conn, nil
	}
}

// client returns a client of the brokers; the caller closes the transport's idle
// connections.
func (c Config) client() (*kafkago.Client, *kafkago.Transport, error) {
	mechanism, err := c.SASL.mechanism()
	if err != nil {
		return nil, nil, err
	}
	t := &kafkago.Transport{
		Dial:           c.Dial,
		ClientID:       clientID,
		SASL:           mechanism,
		MetadataTTL:    metadataTTL,
		MetadataTopics: []string{c.Topic},
	}
	return &kafkago.Client{Addr: kafkago.TCP(c.Brokers...), Timeout: c.RequestTimeout, Transport: t}, t, nil
}
