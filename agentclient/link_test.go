//go:build linux

package agentclient

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// many is how many requests there are at once: more than go in one message.
const many = 200

// largest opens locks whose requests are as large as they can be, at a daemon that takes requests of up to most bytes.
func largest(t *testing.T, most int) (*channelapi.Locks, func(i int) *channelapi.SessionLock) {
	t.Helper()
	r := runAs(t, &running{store: memstore.New(), path: socketPath(t), most: most})
	locks, err := Open(waittest.Context(t), Config{
		Socket: r.path, Command: strings.Repeat("x", 1024), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	s, err := locks.Session(strings.Repeat("s", 200))
	if err != nil {
		t.Fatal(err)
	}
	return locks, func(i int) *channelapi.SessionLock { return s.Lock(fmt.Sprintf("%0*d", lockagent.MaxNameLen, i)) }
}

// A daemon takes what a client says at once, also with the smallest limit that its configuration allows.
func TestManyLargeRequests(t *testing.T) {
	locks, lock := largest(t, config.MinRequestSize)
	ctx := waittest.Context(t)
	var grants []<-chan channelapi.Grant
	for i := range many {
		grants = append(grants, lock(i).AcquireAsync(ctx))
	}
	for i, g := range grants {
		if err := (<-g).Err(); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := locks.Close(); err != nil {
		t.Error(err)
	}
}

// A daemon that does not take what the client says ends the link. Whoever asked hears why.
func TestARefusedMessage(t *testing.T) {
	_, lock := largest(t, 1024)
	_, err := lock(1).TryAcquire(waittest.Context(t))
	if refused, ok := errors.AsType[*connect.Error](err); !errors.Is(err, channelapi.ErrStoreUnavailable) || !ok ||
		refused.Code() != connect.CodeResourceExhausted {
		t.Errorf("the error does not tell that the request is too large: %v", err)
	}
}

// A message may be refused when the link is in use. The daemon then ends both calls, and whichever end comes first
// tells why.
func TestARefusedMessageOnALinkInUse(t *testing.T) {
	t.Parallel()
	r := runAs(t, &running{store: memstore.New(), path: socketPath(t), most: 512})
	locks := dial(t, r.path)
	ctx := waittest.Context(t)
	for range 20 { // the calls end in any order
		g, err := locks.Lock("door").Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = locks.Lock(strings.Repeat("x", lockagent.MaxNameLen)).TryAcquire(ctx)
		if refused, ok := errors.AsType[*connect.Error](err); !ok || refused.Code() != connect.CodeResourceExhausted {
			t.Errorf("the error does not tell that the request is too large: %v", err)
		}
		if err := g.Release(ctx); err != nil {
			t.Error(err)
		}
	}
}
