package natslog

import (
	"errors"
	"log/slog"
	"time"
)

// ForwardConfig says what a [Forwarder] forwards, and to where. Source and Hub must say how to
// reach NATS. Everything else has a usable zero value.
type ForwardConfig struct {
	// Source has the stream to read: that of a host, for example.
	Source ReaderConfig

	// Hub has the stream that gets a copy. It must run nats-server 2.11 or later, and should allow
	// atomic batches, as a stream that a forwarder makes does. Otherwise each message costs a round
	// trip. If its Prefix is another than that of Source, the subjects of the copies begin with it.
	Hub ReaderConfig

	// MaxBytes, MaxAge and Replicas are settings of the hub's stream if this forwarder makes it.
	// They mean the same as in a [Config]. By default the stream keeps 1 GiB, and removes the
	// oldest. A forwarder does not change a stream that exists. If its settings are weaker, the
	// log has a warning.
	MaxBytes int64
	MaxAge   time.Duration
	Replicas int

	// Logger gets what goes wrong. Defaults to [slog.Default].
	Logger *slog.Logger
}

// check returns everything that is wrong with cfg, and sets its defaults.
func (cfg *ForwardConfig) check() error {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	for _, end := range []*ReaderConfig{&cfg.Source, &cfg.Hub} {
		if end.Logger == nil {
			end.Logger = cfg.Logger
		}
	}
	made := cfg.hubStream()
	errs := []error{
		atEnd(SourceEnd, cfg.Source.check()),
		atEnd(HubEnd, errors.Join(cfg.Hub.check(), made.checkNewStream())),
	}
	cfg.MaxBytes, cfg.Replicas = made.MaxBytes, made.Replicas
	return errors.Join(errs...)
}

// hubStream is a publisher who would make the stream of the hub.
func (cfg *ForwardConfig) hubStream() Config {
	return Config{
		Connection: cfg.Hub.Connection, Stream: cfg.Hub.Stream, Prefix: cfg.Hub.Prefix,
		MaxBytes: cfg.MaxBytes, MaxAge: cfg.MaxAge, Replicas: cfg.Replicas,
	}
}

func atEnd(end string, err error) error {
	if err == nil {
		return nil
	}
	return &EndError{end, err}
}
