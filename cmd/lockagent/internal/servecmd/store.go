//go:build linux

package servecmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/address"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/tracing"
)

// openStore opens the store that the settings name, or one in memory.
func (s *server) openStore() error {
	redis := &s.settings().Redis
	if redis.URL == "" {
		store := memstore.New()
		s.onClose(store.Close)
		remembered, err := daemon.Remember(
			store, s.journal, s.before, s.settings().Lease.Duration, s.settings().Lease.Margin, s.access.Quotas(),
		)
		if err != nil {
			return err
		}
		s.store, s.numbers, s.where = remembered, remembered, "memory"
		return nil
	}
	s.where = address.Redacted(redis.URL)
	url, err := redis.Address()
	if err != nil {
		return badFile("redis", err)
	}
	cfg, err := redisConfig(redis)
	if err != nil {
		return badFile("redis", err)
	}
	cfg.Logger, cfg.Credentials = s.logger, redis.Credentials()
	// A call without an answer is given up soon enough for a renewal to be tried again.
	cfg.CallTimeout = min(redisstore.DefaultCallTimeout, s.settings().Lease.Duration/4)
	store, err := s.awaitRedis(func(ctx context.Context) (*redisstore.Store, error) { return cfg.Open(ctx, url) })
	switch {
	case errors.Is(err, errAsked):
		return err
	case errors.Is(err, lockagent.ErrBadURL), errors.Is(err, lockagent.ErrBadOption):
		return &cli.Failure{
			Code: cli.ExitConfig, Err: fmt.Errorf("%s %s: %w", s.place("redis.url"), s.where, err),
			Try: "lockagent serve --redis " + cli.ExampleRedis,
		}
	case err != nil:
		return fmt.Errorf("%s %s: %w", s.place("redis.url"), s.where, err)
	}
	s.store = store
	s.onClose(store.Close)
	return s.confirm()
}

// redisConfig is what the settings say of the store, for all who open one. The error is about a file that they name.
func redisConfig(redis *config.Redis) (redisstore.Config, error) {
	tls, err := redis.TLS()
	cfg := redisstore.Config{MinReplicas: redis.MinReplicas, TLS: tls, GraceFirst: redis.GraceFirst}
	if !redis.Grace {
		cfg.Grace = redisstore.GraceOff
	}
	if redis.GraceFirst == 0 {
		cfg.GraceFirst = redisstore.NoGraceFirst
	}
	return cfg, err
}

// confirm asks Redis for the holds that may have run out in the journal alone.
func (s *server) confirm() error {
	if s.before.Agent == nil {
		return nil
	}
	lease := &s.settings().Lease
	s.notify(
		"STATUS=Asking Redis for what is held",
		fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (2*lease.Duration+extendStart).Microseconds()),
	)
	s.before.Agent.Confirm(s.cmd.Context(), s.store, lease.Duration, lease.Margin)
	if s.cmd.Context().Err() != nil {
		return errAsked
	}
	return nil
}

// reachEvery is between two attempts to reach a Redis that is away.
const reachEvery = 250 * time.Millisecond

// awaitRedis opens the store, and waits for a Redis that is away. Until then the daemon is alive and not ready, and the
// claims of the one before are as it has left them. What waiting does not mend is an error at once.
func (s *server) awaitRedis(open func(context.Context) (*redisstore.Store, error)) (*redisstore.Store, error) {
	told := ""
	for {
		store, err := open(s.cmd.Context())
		switch {
		case s.cmd.Context().Err() != nil && err != nil:
			return nil, errAsked
		case !errors.Is(err, lockagent.ErrStoreUnavailable):
			return store, err
		}
		s.status.waits(err)
		s.notify(
			"STATUS=Waiting for Redis: "+cli.OneLine(err.Error()),
			fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extendStart.Microseconds()),
		)
		if text := err.Error(); text != told {
			s.logger.Warn(
				"Redis is away, and the daemon waits for it", "setting", s.place("redis.url"), "redis", s.where, "error", err,
			)
			told = text
		}
		select {
		case <-time.After(reachEvery):
		case <-s.cmd.Context().Done():
			return nil, errAsked
		}
	}
}

// extendStart is for how long systemd waits for the next attempt to reach Redis. It is longer than an attempt takes.
const extendStart = 6 * redisstore.DefaultDialTimeout

// badFile is the error of a file that a setting of a section names.
func badFile(section string, err error) error {
	return &cli.Failure{
		Code: cli.ExitConfig, Err: fmt.Errorf("%s: %w", section, err),
		Try: "lockagent config show    (says which files the settings name)",
	}
}

// place is where a setting came from, for an error that speaks of it.
func (s *server) place(key string) string {
	switch from := s.config.Load().Origin(key); from.Kind {
	case config.FromFile:
		return from.String() + ": " + key
	case config.FromDefault:
		return key
	default:
		return from.String()
	}
}

// tracedStore is the store with spans and metrics of its calls.
func (s *server) tracedStore() lockagent.Store {
	cfg := s.telemetry.Config
	if redis := s.settings().Redis.URL; redis != "" {
		cfg.System = "redis"
		if u, err := url.Parse(redis); err == nil { // else the store would not be open
			cfg.Address = u.Host
			if u.Host == "" {
				cfg.Address = u.Path // of a socket
			} else if u.Port() == "" {
				cfg.Address = net.JoinHostPort(u.Hostname(), "6379")
			}
		}
	}
	return tracing.Store(s.store, cfg)
}

// tracedRecorder is the event log with spans and metrics of what is recorded.
func (s *server) tracedRecorder() lockagent.Recorder {
	if s.log == nil {
		return tracing.Recorder(nil, s.telemetry.Config)
	}
	return tracing.Recorder(s.log.publisher, s.telemetry.Config)
}
