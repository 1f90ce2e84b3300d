package contender

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each contender locks: who comes second waits, or is refused by the floor, and gets
// the lock when the first one has given it back.
func TestContendersExclude(t *testing.T) {
	server := redistest.Start(t)
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) {
			first, second := open(t, k, server), open(t, k, server)
			held, err := first.Lock(t.Context(), k.Name)
			if err != nil {
				t.Fatal(err)
			}
			if held.Lost() {
				t.Error("lost at once")
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := second.Lock(short, k.Name); err == nil {
				t.Fatal("two hold the lock")
			}
			if err := held.Unlock(); err != nil {
				t.Error(err)
			}
			long, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			again, err := second.Lock(long, k.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that is slow for a moment keeps nobody waiting for longer. Otherwise a benchmark on a busy machine measures
// nothing. Only rueidislock as it comes waits on.
func TestContendersOutlastASlowServer(t *testing.T) {
	server := redistest.Start(t)
	for _, k := range Kinds {
		if k.Name == Rueidislock {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			c := open(t, k, server)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			server.Do("CLIENT", "PAUSE", "200")
			held, err := c.Lock(ctx, k.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := held.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

func open(t *testing.T, k Kind, server *redistest.Server) Contender {
	t.Helper()
	c, err := k.Open(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestFloorExtends(t *testing.T) {
	server := redistest.Start(t)
	floor, err := OpenFloorClient(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer floor.Close()
	for _, name := range []string{"a", "b"} {
		if _, err := floor.LockAsOne(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := floor.Extend(t.Context(), []string{"a", "b", "c"}, OneToken); n != 2 || err != nil {
		t.Errorf("%d were extended, %v; want 2", n, err)
	}
	if err := floor.Give(t.Context(), "a", "not mine"); !errors.Is(err, errNotFree) {
		t.Errorf("somebody else's lock was given: %v", err)
	}
}

func TestFloorTakesManyInOneCall(t *testing.T) {
	server := redistest.Start(t)
	floor, err := OpenFloorClient(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer floor.Close()
	names := []string{"a", "b", "c"}
	for _, names := range [][]string{names, names, names[1:2], names[1:2]} { // so that they are free again
		if err := floor.TakeAll(t.Context(), names); err != nil {
			t.Fatal(err)
		}
		if err := floor.Take(t.Context(), "b", "other"); !errors.Is(err, errNotFree) {
			t.Errorf("a lock was taken twice: %v", err)
		}
		if err := floor.GiveAll(t.Context(), names); err != nil {
			t.Fatal(err)
		}
	}
	server.Do("HSET", "b", "other", "1")
	if err := floor.TakeAll(t.Context(), names); !errors.Is(err, errNotFree) {
		t.Errorf("somebody else's lock was taken: %v", err)
	}
	if err := floor.GiveAll(t.Context(), names); !errors.Is(err, errNotFree) {
		t.Errorf("somebody else's lock was given: %v", err)
	}
	if err := floor.Take(t.Context(), "b", "other"); !errors.Is(err, errNotFree) {
		t.Errorf("somebody else's lock is gone: %v", err)
	}
}

func TestSlowedWastesItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Slowed{Contender: instant{}, Part: 0.3}
		s.Begin()
		for range 2 {
			held, err := s.Lock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 2)
			if err := held.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		if s.Each != 0 {
			t.Errorf("the first run wastes %v", s.Each)
		}
		s.Begin()
		if want := 150 * time.Millisecond; s.Each != want {
			t.Errorf("then %v is wasted in each cycle, want %v", s.Each, want)
		}
		time.Sleep(time.Minute)
		s.ops.Store(1) // a cycle keeps a core busy, and virtual time stands still meanwhile
		s.last.Store(time.Now().UnixNano())
		s.Begin()
		if want := 150 * time.Millisecond; s.Each != want {
			t.Errorf("the waste grows with itself: %v", s.Each)
		}
	})
}

type instant struct{ Contender }

func (instant) Lock(context.Context, string) (Held, error) { return instantHeld{}, nil }

type instantHeld struct{}

func (instantHeld) Unlock() error { return nil }
func (instantHeld) Lost() bool    { return false }

// Each hold of a lock that never rests begins and ends in Redis.
func TestUnrestedGoesToRedis(t *testing.T) {
	server := redistest.Start(t)
	rests, err := OpenAgent(t.Context(), server.Addr(), channelapi.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rests.Close()
	for what, c := range map[string]Contender{
		Unrested.Name: open(t, Unrested, server), "requests of an agent": rests.Unrested(),
	} {
		const cycles = 50
		before := server.Calls("evalsha")
		for range cycles {
			held, err := c.Lock(t.Context(), what)
			if err != nil {
				t.Fatal(err)
			}
			if err := held.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		if n := server.Calls("evalsha") - before; n < 2*cycles {
			t.Errorf("%s: %d calls for %d holds", what, n, cycles)
		}
	}
}

func TestKindsAreWhole(t *testing.T) {
	seen := make(map[string]bool)
	for _, k := range All() {
		if k.Name == "" || k.Family == "" || k.Setup == "" || k.Open == nil || seen[k.Name] {
			t.Errorf("%+v is not whole, or there twice", k)
		}
		if named, ok := Named(k.Name); !ok || named.Setup != k.Setup {
			t.Errorf("the kind named %s is %+v, %v", k.Name, named, ok)
		}
		seen[k.Name] = true
	}
	if _, ok := Named("nobody"); ok {
		t.Error("there is a contender of no name")
	}
}
