//go:build linux

package agentclient

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/channeltest"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/journal"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/daemon/state"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
)

// role is a variable of the environment: with it, this program is a daemon or a client.
const role = "AGENTCLIENT_TEST_ROLE"

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		os.Exit(play(r))
	}
	goleak.VerifyTestMain(m)
}

// socketPath is a path of a socket, which must be short.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lac")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "agent.sock")
}

// running is a daemon in this process.
type running struct {
	*daemon.Daemon
	store *memstore.Store
	path  string
	lease time.Duration // 0 is the default
	most  int           // bytes of a request; 0 is the default
}

func run(t testing.TB, path string) *running {
	t.Helper()
	return runWith(t, path, 0)
}

func runWith(t testing.TB, path string, lease time.Duration) *running {
	t.Helper()
	return runAs(t, &running{store: memstore.New(), path: path, lease: lease})
}

func runAs(t testing.TB, r *running) *running {
	t.Helper()
	r.start(t)
	t.Cleanup(func() { r.end(t) })
	return r
}

func (r *running) start(t testing.TB) {
	t.Helper()
	listener, err := socket.Listen(socket.Config{Path: r.path})
	if err != nil {
		t.Fatal(err)
	}
	r.serve(t, listener)
}

func (r *running) serve(t testing.TB, listener net.Listener) {
	t.Helper()
	var err error
	if r.Daemon, err = daemon.Start(daemon.Config{
		Listener: listener, Store: r.store, Lease: r.lease, MaxRequest: r.most, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
}

// end ends the daemon at once.
func (r *running) end(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func dial(t testing.TB, path string) *channelapi.Locks {
	t.Helper()
	locks, err := Open(waittest.Context(t), Config{Socket: path, Command: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() }) // a daemon that is gone has not confirmed anything
	return locks
}

func TestSuite(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Opener {
		r := run(t, socketPath(t))
		return func(t *testing.T) *channelapi.Locks { return dial(t, r.path) }
	})
}

// serve is a daemon, until it gets SIGTERM. Variables of the environment say what it is like.
func serve() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	signal.Ignore(syscall.SIGXFSZ) // a limit for files stands for a full disk
	cfg := daemon.Config{Store: memstore.New(), Logger: slog.New(slog.DiscardHandler)}
	cfg.Lease, _ = time.ParseDuration(os.Getenv("AGENTCLIENT_TEST_LEASE")) // 0 is the default
	if dir := os.Getenv("AGENTCLIENT_TEST_STATE"); dir != "" {
		d, err := state.Open(dir)
		must(err)
		cfg.Journal, cfg.Recovered, err = journal.Open(d.Journal())
		must(err)
	}
	var err error
	if redis := os.Getenv("AGENTCLIENT_TEST_REDIS"); redis != "" {
		cfg.Store, err = redisstore.Config{GraceFirst: redisstore.NoGraceFirst}.Open(context.Background(), redis)
	} else if cfg.Journal != nil {
		cfg.Store, err = daemon.Remember(
			memstore.New(), cfg.Journal, cfg.Recovered, cfg.Lease, cfg.Margin, quota.New(quota.Config{}),
		)
	}
	must(err)
	cfg.Listener, err = socket.Listen(socket.Config{Path: os.Getenv("LOCKAGENT_SOCKET")})
	must(err)
	d, err := daemon.Start(cfg)
	must(err)
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM)
	_, _ = os.Stdout.WriteString("ready\n")
	<-ends
	now, cancel := context.WithCancel(context.Background())
	cancel()
	must(d.Leave(now))
}

// play is this program as a daemon or as a client.
func play(as string) int {
	if as == "daemon" {
		serve()
		return 0
	}
	locks, err := Dial(context.Background(), "")
	if err != nil {
		panic(err)
	}
	switch as {
	case "liver":
		live(locks, os.Stdin)
		return 0
	case "contender":
		contend(locks)
		return 0
	case "counter":
		count(locks, os.Stdin)
		return 0
	case "taker":
		take(locks, os.Stdin)
		return 0
	}
	if _, err := locks.Lock("door").Acquire(context.Background()); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("held\n")
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
	return 0
}
