package natslog

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// Defaults of [Config].
const (
	DefaultStream    = "LOCKAGENT"
	DefaultQueueSize = 1 << 16
	DefaultMaxBytes  = 1 << 30
	DefaultLinger    = 5 * time.Millisecond
	DefaultHeartbeat = 10 * time.Second
)

// Bounds of [Config].
const (
	minLinger    = 100 * time.Microsecond
	maxLinger    = time.Second
	minHeartbeat = 100 * time.Millisecond
	maxHeartbeat = time.Hour
	maxReplicas  = 5
)

// Config says what a [Publisher] publishes and where. Agent and one of URL and
// InProcess must be set; everything else has a usable zero value.
type Config struct {
	Connection

	// Agent is whose events these are. It must be 1 to 64 letters, digits, '_'
	// and '-', as the text of a UUID is.
	Agent lockagent.AgentID

	// Epoch counts the lives of the agent. An agent that keeps its identity when
	// it starts again must give a greater one each time, or the publisher stops,
	// with [ErrEpoch]. Give the next number: an audit takes one that is left out for
	// a life of which the log has lost all. Below 10^10. Defaults to 1.
	Epoch uint64

	// Stream is the name of the stream. Defaults to [DefaultStream].
	Stream string

	// Prefix begins the subjects of all events. Defaults to [events.DefaultPrefix].
	Prefix string

	// MaxBytes, MaxAge and Replicas are for the stream if this publisher is the one who makes
	// it. MaxBytes and MaxAge bound it: the oldest events are removed. An existing stream is
	// left as it is; one of weaker settings is a warning in the log, and one that would lose
	// events is refused, with [ErrStream].
	//
	// MaxBytes defaults to [DefaultMaxBytes], and -1 is no bound. MaxAge defaults
	// to no bound. Replicas is 1 to 5, and defaults to 1.
	MaxBytes int64
	MaxAge   time.Duration
	Replicas int

	// QueueSize is how many records are kept until there is room for them in what is under way. A record takes 250 to
	// 700 bytes. The least is a request for a lock that others want, too. The most is a request that waits for a lock
	// of its own. Long texts come on top, with at most 1 KiB each. QueueSize decides how long an outage of NATS may
	// last before events are dropped. Defaults to [DefaultQueueSize].
	QueueSize int

	// Linger is how long an event waits for others that can be told in the same record or the
	// same message. It is 100 µs to 1 s. A busy agent sends something once in ten lingers only, in
	// fewer and larger messages. Events with consequences wait for nothing. Defaults to
	// [DefaultLinger].
	Linger time.Duration

	// Heartbeat is how often an EventAlive says that the agent runs, if nothing else makes the
	// publisher say so earlier. It is 100 ms to 1 h. Defaults to [DefaultHeartbeat].
	Heartbeat time.Duration

	// Sending is called when messages leave for the server together, with the number of their
	// records. It may be nil, and so may the done that it returns. done is called once. Its error is
	// nil when the stream has all messages. Otherwise some of them may be in the stream. The others
	// are sent again, as another sending. Both functions are called from any goroutine, and must
	// not block.
	Sending func(messages, records int) (done func(error))

	// Renewals publishes EventRenewed too: one event for each lock and third of a
	// lease, which no reader in this package needs.
	Renewals bool
}

// check returns everything that is wrong with cfg, and sets its defaults.
func (cfg *Config) check() error {
	var errs []error
	bad := func(option, format string, args ...any) {
		errs = append(errs, &lockagent.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)})
	}
	within := func(option string, d *time.Duration, or, least, most time.Duration) {
		if *d == 0 {
			*d = or
		}
		if *d < least || *d > most {
			bad(option, "%v is not between %v and %v", *d, least, most)
		}
	}
	if err := cfg.Connection.check(); err != nil {
		errs = append(errs, err)
	}
	if _, err := lockagent.ParseAgentID(string(cfg.Agent)); err != nil {
		errs = append(errs, err)
	}
	if cfg.Epoch > events.MaxEpoch {
		bad("Epoch", "%d is greater than %d", cfg.Epoch, uint64(events.MaxEpoch))
	}
	if cfg.Stream == "" {
		cfg.Stream = DefaultStream
	}
	if err := checkStream(cfg.Stream); err != nil {
		errs = append(errs, err)
	}
	if cfg.Prefix == "" {
		cfg.Prefix = events.DefaultPrefix
	}
	if err := events.CheckPrefix(cfg.Prefix); err != nil {
		errs = append(errs, err)
	}
	if err := cfg.checkNewStream(); err != nil {
		errs = append(errs, err)
	}
	if cfg.QueueSize < 0 {
		bad("QueueSize", "%d is less than 0", cfg.QueueSize)
	}
	within("Linger", &cfg.Linger, DefaultLinger, minLinger, maxLinger)
	within("Heartbeat", &cfg.Heartbeat, DefaultHeartbeat, minHeartbeat, maxHeartbeat)
	cfg.Epoch = max(cfg.Epoch, 1)
	if cfg.QueueSize == 0 {
		cfg.QueueSize = DefaultQueueSize
	}
	return errors.Join(errs...)
}

// checkNewStream returns what is wrong with the settings of a stream that is to be made, and sets
// their defaults.
func (cfg *Config) checkNewStream() error {
	var errs []error
	if cfg.MaxBytes < -1 {
		errs = append(errs, badOption("MaxBytes", "%d bytes cannot bound a stream; -1 is no bound", cfg.MaxBytes))
	}
	if cfg.MaxAge < 0 {
		errs = append(errs, badOption("MaxAge", "%v cannot bound a stream", cfg.MaxAge))
	}
	if cfg.Replicas < 0 || cfg.Replicas > maxReplicas {
		errs = append(errs, badOption("Replicas", "%d is not between 1 and %d", cfg.Replicas, maxReplicas))
	}
	cfg.Replicas = max(cfg.Replicas, 1)
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	return errors.Join(errs...)
}
