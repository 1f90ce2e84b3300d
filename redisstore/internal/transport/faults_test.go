package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// count adds one to a number, and answers with it.
var count = NewScript("return tostring(redis.call('INCR', KEYS[1]))")

// counting makes a call of each question: it counts at the key that is asked for.
func counting(questions []question) (calls []*Call) {
	for _, q := range questions {
		calls = append(calls, counter(q.text, q.answer))
	}
	return calls
}

func counter(key string, answer func(string, error)) *Call {
	return &Call{Script: count, Keys: []string{key}, Slot: hashslot.Of(key), Done: func(r Reply, err error) {
		text, _ := r.Text()
		answer(text, err)
	}}
}

// try counts once, and returns the outcome.
func try(t testing.TB, lanes *Lanes[question], key string) error {
	t.Helper()
	c := make(chan error, 2)
	lanes.Add(t.Context(), hashslot.Of(key), question{key, func(_ string, err error) { c <- err }})
	return waittest.Receive(t, "the answer to "+key, c)
}

// eventually tries until it counts. What fails on the way is that the store is not available.
func eventually(t testing.TB, lanes *Lanes[question], key string) {
	t.Helper()
	waittest.Until(t, "the store to be available", func() bool {
		err := try(t, lanes, key)
		if err != nil && !errors.Is(err, lockagent.ErrStoreUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func counters(s *Servers) *Lanes[question] {
	return NewLanes(s, func() Packer[question] { return counting })
}

// A server that hangs keeps a call for no longer than Silence, even if it hangs while it is greeted.
func TestAServerThatHangs(t *testing.T) {
	server := redistest.Start(t)
	c := config(server.Addr())
	c.Silence = 50 * time.Millisecond
	lanes := counters(connect(t, c))
	eventually(t, lanes, "key")
	server.Pause()
	for range 3 { // with the old connection, and then with new ones
		if err := try(t, lanes, "key"); !errors.Is(err, lockagent.ErrStoreUnavailable) ||
			errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a server that hangs: %v", err)
		}
	}
	server.Resume()
	eventually(t, lanes, "key")
}

// However long a server may be silent, a call has its bound.
func TestTheBoundOfACall(t *testing.T) {
	server := redistest.Start(t)
	c := config(server.Addr())
	c.Call = 50 * time.Millisecond
	lanes := counters(connect(t, c))
	eventually(t, lanes, "key")
	server.Pause()
	for range 3 {
		if err := try(t, lanes, "key"); !errors.Is(err, lockagent.ErrStoreUnavailable) ||
			errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a server that hangs: %v", err)
		}
	}
	server.Resume()
	eventually(t, lanes, "key")
}

// A connection that no exchange watches is cut as well if an answer is due for too long.
func TestASilentConnectionIsCut(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	lost := make(chan struct{}, 10)
	d := newDialer(t.Context(), &Config{Network: "tcp", Silence: 20 * time.Millisecond}, func() { lost <- struct{}{} })
	conn, err := d.dial(t.Context(), silent.Addr().String(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	if want := "the server did not answer for 20ms"; !errors.Is(err, net.ErrClosed) || err.Error() != want {
		t.Errorf("Read: %v, want %q", err, want)
	}
}

// A master that was demoted in place refuses writes on connections that stay. The address
// may lead to the new master already: then the call does not suffer.
func TestAMasterThatIsDemotedInPlace(t *testing.T) {
	a, b := redistest.Start(t), redistest.Start(t)
	proxy := faultproxy.Start(t, a.Addr())
	lanes := counters(connect(t, config(proxy.Addr())))
	if err := try(t, lanes, "key"); err != nil {
		t.Fatal(err)
	}
	a.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(b.Port()))
	err := try(t, lanes, "key")
	if !errors.Is(err, lockagent.ErrStoreUnavailable) || !strings.Contains(err.Error(), "READONLY") ||
		!strings.Contains(err.Error(), "give that of the master") {
		t.Errorf("where there is no other: %v", err)
	}
	proxy.LeadTo(b.Addr())
	proxy.Cut()
	eventually(t, lanes, "key")
	proxy.LeadTo(a.Addr())
	b.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(a.Port()))
	a.Do("REPLICAOF", "NO", "ONE")
	const calls = 1000 // that travel on both tracks
	answers := make(chan error, calls)
	for range calls {
		lanes.Add(t.Context(), hashslot.Of("key"), question{"key", func(_ string, err error) { answers <- err }})
	}
	for i := range calls {
		if err := waittest.Receive(t, "the answer", answers); err != nil {
			t.Fatalf("answer %d after the address leads to another: %v", i, err)
		}
	}
	if got := a.Do("GET", "key"); got == nil {
		t.Error("nothing was written at the new master")
	}
}

// A password that was changed is not found out before there has to be another connection.
func TestAPasswordThatIsChanged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Dial()
	c := config(server.Addr())
	c.User, c.Password = "app", "old"
	do := func(args ...string) {
		t.Helper()
		if _, err := admin.Do(args...); err != nil {
			t.Fatal(args, err)
		}
	}
	do("ACL", "SETUSER", "app", "on", ">old", "~*", "&*", "+@all")
	lanes := counters(connect(t, c))
	eventually(t, lanes, "key")
	do("ACL", "SETUSER", "app", "resetpass", ">new")
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	if err := try(t, lanes, "key"); !errors.Is(err, lockagent.ErrNotPermitted) ||
		!strings.Contains(err.Error(), "open the store with the right one") {
		t.Errorf("with the old password: %v", err)
	}
	do("ACL", "SETUSER", "app", ">old")
	eventually(t, lanes, "key")

	c = config(server.Addr())
	lanes = counters(connect(t, c))
	eventually(t, lanes, "key")
	do("CONFIG", "SET", "requirepass", "secret")
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	if err := try(t, lanes, "key"); !errors.Is(err, lockagent.ErrNotPermitted) ||
		!strings.Contains(err.Error(), "open the store with one") {
		t.Errorf("without a password: %v", err)
	}
	do("CONFIG", "SET", "requirepass", "")
	eventually(t, lanes, "key")
}

// moody is a server that answers scripts as a test wants.
type moody struct {
	mu    sync.Mutex
	reply string // guarded by mu
}

func (m *moody) say(reply string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reply = reply
}

func (m *moody) start(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { m.serve(c) })
		}
	})
	return l.Addr().String()
}

func (m *moody) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		command := ""
		for i := range n {
			size, _ := r.ReadString('\n')
			length, _ := strconv.Atoi(strings.TrimSpace(size[1:]))
			word := make([]byte, length+2)
			if _, err := io.ReadFull(r, word); err != nil {
				return
			}
			if i == 0 {
				command = strings.TrimSpace(string(word))
			}
		}
		reply := "%3\r\n+version\r\n+7.0.0\r\n+mode\r\n+standalone\r\n+proto\r\n:3\r\n"
		if command != "HELLO" {
			m.mu.Lock()
			reply = m.reply + "\r\n"
			m.mu.Unlock()
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// Whatever a server refuses a call with, the caller hears what to do, and the next call goes
// well if the server does.
func TestWhatServersRefuse(t *testing.T) {
	m := new(moody)
	lanes := counters(connect(t, config(m.start(t))))
	for _, text := range []string{
		"READONLY You can't write against a read only replica.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"LOADING Redis is loading the dataset in memory",
		"NOAUTH Authentication required.",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"CROSSSLOT Keys in request don't hash to the same slot",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"NOREPLICAS Not enough good replicas to write.",
		"MISCONF Redis is configured to save RDB snapshots",
		"BUSY Redis is busy running a script.",
		"MOVED 1 127.0.0.1:1",
		"MOVED 1",
		"ASK",
		"",
	} {
		m.say("-" + text)
		err := try(t, lanes, "key")
		mark := markOf(text)
		if !errors.Is(err, mark.err) || !strings.Contains(fmt.Sprint(err), text) ||
			!strings.Contains(fmt.Sprint(err), mark.advice) {
			t.Errorf("%s: %v", text, err)
		}
		m.say("$1\r\n1")
		if err := try(t, lanes, "key"); err != nil {
			t.Errorf("after %s: %v", text, err)
		}
	}
}
