package demo

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/address"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/tracing"
)

// openLog starts a server for the event log, or finds out whether there is one.
func (s *show) openLog() (*natsserver.Server, error) {
	s.log = eventLog{
		Connection: s.cfg.NATS, Stream: s.cfg.Stream, Prefix: s.cfg.Prefix,
		Replicas: s.cfg.Replicas, MaxBytes: s.cfg.MaxBytes, MaxAge: s.cfg.MaxAge,
	}
	s.log.Logger = s.cfg.Logger
	if s.log.URL != "" {
		reader, err := s.log.open()
		if err != nil {
			return nil, fmt.Errorf("%w at %s: %w", ErrNoEventLog, address.Redacted(s.log.URL), err)
		}
		reader.Close()
		return nil, nil
	}
	cfg := natsserver.Config{Dir: s.cfg.Keep, Temporary: s.cfg.Keep == "", Logger: s.cfg.Logger}
	if s.cfg.Command != nil {
		cfg.Listen = "127.0.0.1:0"
	}
	server, err := natsserver.Start(cfg)
	if err != nil {
		return nil, err
	}
	s.log.Own = true
	if s.cfg.Command != nil {
		s.log.URL = server.URL()
	} else {
		s.log.InProcess = server
	}
	return server, nil
}

// openStore opens a store for an agent of this process.
func (s *show) openStore(ctx context.Context) (lockagent.Store, error) {
	if s.cfg.Redis != "" {
		return openRedis(ctx, s.cfg.Redis, s.cfg.Lease)
	}
	if s.memory == nil {
		s.memory = memstore.New()
	}
	return s.memory.Share(), nil
}

// patience is how long a Redis that accepts connections may take until it is of use. With the default, a busy machine
// would end a demonstration.
const patience = 3 * redisstore.DefaultDialTimeout

// openRedis opens a store for locks with the given lease. A call that has no
// answer is given up soon enough for a renewal to be tried again. The grace periods are as they come: a demonstration
// may be the first to meet a Redis that others use.
func openRedis(ctx context.Context, url string, lease time.Duration) (lockagent.Store, error) {
	store, err := redisstore.Config{
		DialTimeout: patience, CallTimeout: min(redisstore.DefaultCallTimeout, lease/4),
	}.Open(ctx, url)
	if err != nil {
		return nil, err // and no store, rather than one that is a nil pointer
	}
	return store, nil
}

func (s *show) telemetry() tracing.Config {
	if s.cfg.Redis == "" {
		return s.cfg.Telemetry
	}
	return describeRedis(s.cfg.Telemetry, s.cfg.Redis)
}

// describeRedis says in spans what the store is.
func describeRedis(t tracing.Config, address string) tracing.Config {
	t.System = "redis"
	if u, err := url.Parse(address); err == nil {
		t.Address = cmp.Or(u.Host, u.Path) // a host, or the path of a socket
		if u.Host != "" && u.Port() == "" {
			t.Address = net.JoinHostPort(u.Hostname(), "6379")
		}
	}
	return t
}
