package kafka

import (
	"errors"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
)

// refusedContent says that a broker will never take these bytes: whoever sends them
// again gets the same answer. Everything else may pass, an authorization that is
// missing included: an operator can mend it while records wait.
func refusedContent(err error) bool {
	var code kafkago.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case kafkago.MessageSizeTooLarge, kafkago.RecordListTooLarge, kafkago.InvalidTimestamp,
		kafkago.InvalidRecord, kafkago.UnsupportedForMessageFormat:
		return true
	}
	return false
}

// damagedBatch says that a batch doesn't match its checksum; the library has no
// error value for it.
func damagedBatch(err error) bool {
	return strings.Contains(err.Error(), "crc32 checksum mismatch")
}

// errFailing says that a record was sent, and brokers have failed to take it so far.
var errFailing = errors.New("the brokers fail")

// ErrTooLarge says that a record is larger than the topic takes. It was not sent.
var ErrTooLarge = errors.New("record is too large")

// ErrTopic says that a topic is not as it has to be. An operator has to look.
var ErrTopic = errors.New("unfit topic")
