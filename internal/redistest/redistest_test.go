package redistest_test

import (
	"errors"
	"net"
	"os"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.M{M: m}) }

func TestServer(t *testing.T) {
	s := redistest.Start(t)
	if got := s.Do("SET", "k", "v"); got != "OK" {
		t.Errorf("SET replied %v", got)
	}
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("GET replied %v", got)
	}
	if got := s.Do("GET", "none"); got != nil {
		t.Errorf("GET of nothing replied %v", got)
	}
	want := []any{int64(1), "two", nil, []any{int64(3)}}
	if got := s.Do("EVAL", "return {1, 'two', false, {3}}", "0"); !reflect.DeepEqual(got, want) {
		t.Errorf("EVAL replied %#v, want %#v", got, want)
	}
	if got := s.Calls("GET"); got != 2 {
		t.Errorf("the server counted %d calls of GET, want 2", got)
	}
	if got := s.Calls("HGET"); got != 0 {
		t.Errorf("the server counted %d calls of HGET, want none", got)
	}
	var reply redistest.Error
	if _, err := s.Dial().Do("NONSENSE"); !errors.As(err, &reply) {
		t.Errorf("an unknown command gave %v, want an error reply", err)
	}
}

func TestABorrowedServerIsEmpty(t *testing.T) {
	var addr string
	for range 2 {
		t.Run("again", func(t *testing.T) {
			s := redistest.Borrow(t)
			if addr != "" && s.Addr() != addr {
				t.Errorf("the server at %s was not used again", addr)
			}
			addr = s.Addr()
			if got := s.Do("PUBSUB", "NUMSUB", "c"); s.Do("EXISTS", "k") != int64(0) ||
				!reflect.DeepEqual(got, []any{"c", int64(0)}) {
				t.Errorf("it has a key, or listeners: %v", got)
			}
			s.Do("SET", "k", "v")
			if _, err := s.Dial().Do("SUBSCRIBE", "c"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// borrower is a test that may fail.
type borrower struct {
	testing.TB
	failed  bool
	cleanUp func()
}

func (b *borrower) Cleanup(f func()) { b.cleanUp = f }
func (b *borrower) Error(...any)     { b.failed = true }
func (b *borrower) Failed() bool     { return b.failed }

func TestABorrowedServerWithOtherSettingsIsEnded(t *testing.T) {
	for _, change := range [][]string{{"CONFIG", "SET", "maxmemory", "1000000000"}, {"ACL", "SETUSER", "clerk"}} {
		b := &borrower{TB: t}
		s := redistest.Borrow(b)
		s.Do(change...)
		b.cleanUp()
		if !b.failed {
			t.Errorf("after %q the test has not failed", change)
		}
		if conn, err := net.Dial("tcp", s.Addr()); err == nil {
			_ = conn.Close()
			t.Errorf("after %q the server still listens", change)
		}
	}
}

func TestRestartForgets(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "k", "v")
	addr := s.Addr()
	s.Restart()
	if s.Addr() != addr {
		t.Errorf("the server moved from %s to %s", addr, s.Addr())
	}
	if got := s.Do("GET", "k"); got != nil {
		t.Errorf("the server remembers %v", got)
	}
}

func TestKilledServerIsGone(t *testing.T) {
	s := redistest.Start(t)
	s.Kill()
	s.Kill()
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		_ = conn.Close()
		t.Error("somebody listens at the address of a killed server")
	}
}

func TestPausedServerAnswersLater(t *testing.T) {
	s := redistest.Start(t)
	conn := s.Dial()
	s.Pause()
	reply := make(chan any, 1)
	go func() {
		got, _ := conn.Do("PING")
		reply <- got
	}()
	select {
	case got := <-reply:
		t.Fatalf("a paused server answered %v", got)
	case <-time.After(50 * time.Millisecond): // absence can only be given some time
	}
	s.Resume()
	if got := <-reply; got != "PONG" {
		t.Errorf("the resumed server answered %v", got)
	}
}

func TestPassword(t *testing.T) {
	s := redistest.Start(t, redistest.WithPassword("sesame"), redistest.WithUser("app", "pw", "~app:* +get"))
	if got, want := s.URL(), "redis://:sesame@"+s.Addr(); got != want {
		t.Errorf("URL is %q, want %q", got, want)
	}
	if got := s.Do("AUTH", "app", "pw"); got != "OK" {
		t.Errorf("AUTH replied %v", got)
	}
}

func TestMessages(t *testing.T) {
	s := redistest.Start(t)
	sub := s.Dial()
	if _, err := sub.Do("SUBSCRIBE", "c"); err != nil {
		t.Fatal(err)
	}
	s.Do("PUBLISH", "c", "hello")
	got, err := sub.Receive()
	if want := []any{"message", "c", "hello"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("received %v, %v; want %v", got, err, want)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	for _, key := range []string{"a", "b", "c", "{x}y"} {
		if got := c.NodeOf(key).Do("SET", key, "v"); got != "OK" {
			t.Errorf("SET %s replied %v", key, got)
		}
	}
	c.Nodes[1].Restart()
	c.AwaitOK(t)
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	s.A.Do("SET", "k", "v")
	s.A.AwaitReplica()
	s.Failover()
	if got := s.B.Do("GET", "k"); got != "v" {
		t.Errorf("the new master has %v", got)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	var socket, addr string
	t.Run("inner", func(t *testing.T) {
		s := redistest.Start(t, redistest.WithTLS())
		socket, addr = s.Socket(), s.Addr()
	})
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", socket)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("the server still listens")
	}
}
