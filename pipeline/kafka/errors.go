package kafka

import (
	"errors"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
)

// refusedContent reports whether a broker will never take these bytes. All other errors
// may pass, a missing authorization included: an operator can mend it while records wait.
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

// damagedBatch reports whether a batch doesn't match its checksum; the library has no
// error value for it.
func damagedBatch(err error) bool {
	return strings.Contains(err.Error(), "crc32 checksum mismatch")
}

// errFailing: a record was sent, and each attempt has failed so far.
var errFailing = errors.New("the brokers fail")

// ErrTooLarge: a record is larger than the topic takes. It was not sent.
var ErrTooLarge = errors.New("record is too large")

// ErrTopic: a topic's configuration is not what a log needs. An operator has to mend it.
var ErrTopic = errors.New("unfit topic")
