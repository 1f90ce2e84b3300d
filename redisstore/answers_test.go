package redisstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// strange is a server that answers the commands of one name otherwise than Redis does. It has Redis run another script
// in their place, so the answer comes in its turn, between those to other commands and messages.
type strange struct {
	redis string // the address of the server that answers
	addr  string

	mu     sync.Mutex // guards what follows
	name   string     // of the commands that are answered otherwise
	script string     // that answers them; empty if raw does
	raw    string     // is written at once, and then what it answers
	conns  []net.Conn // of clients
}

func (s *strange) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", s.redis)
			if err != nil {
				_ = client.Close()
				continue
			}
			s.mu.Lock()
			s.conns = append(s.conns, client)
			s.mu.Unlock()
			for _, one := range []func(){func() { _, _ = io.Copy(client, server) }, func() { s.pass(client, server) }} {
				all.Go(func() {
					one()
					_, _ = client.Close(), server.Close()
				})
			}
		}
	})
}

// says has the server answer the commands of a name with a line of the protocol, or by a script if the answer begins
// with "return".
func (s *strange) says(name, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.script, s.raw = name, "", answer
	if strings.Contains(answer, "return ") {
		s.script, s.raw = answer, ""
	}
}

// cut cuts all connections.
func (s *strange) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// pass passes commands on.
func (s *strange) pass(client io.ReadWriter, server io.Writer) {
	r := bufio.NewReader(client)
	for {
		words, err := readCommand(r)
		if err != nil {
			return
		}
		name := strings.ToUpper(words[0])
		s.mu.Lock()
		if name == s.name {
			if s.raw != "" {
				_, _ = io.WriteString(client, s.raw)
			} else {
				words = []string{"EVAL", s.script, "0"}
			}
		}
		s.mu.Unlock()
		b := fmt.Appendf(nil, "*%d\r\n", len(words))
		for _, w := range words {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
		}
		if _, err := server.Write(b); err != nil {
			return
		}
	}
}

// answersOfServers are answers that may come to any command: errors, values of each type, and bytes that are no answer.
func answersOfServers() (answers []string) {
	for _, text := range []string{
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"BUSY Redis is busy running a script.",
		"LOADING Redis is loading the dataset in memory",
		"NOPERM User app has no permissions to run the 'x' command",
		"NOAUTH Authentication required.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"NOSCRIPT No matching script.",
		"MOVED 1 ::1:1",
		"ASK x",
		"ERR unknown command 'x'",
		"NONSENSE",
	} {
		answers = append(answers, fmt.Sprintf("return redis.error_reply(%q)", text))
	}
	return append(answers,
		"return 7", "return 'text'", "return false", "return {}", "return {1, {2, {'three'}}}",
		"return redis.status_reply('QUEUED')",
		"redis.setresp(3) return {map = {a = 1}}", "redis.setresp(3) return {double = 1.5}",
		"redis.setresp(3) return {set = {a = true}}",
		"+OK\r\n", "+PONG\r\n", ":1\r\n", ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nx\r\n:0\r\n", ">0\r\n", "*-2\r\n",
		"$-5\r\n", "*9223372036854775807\r\n", "$9223372036854775807\r\n",
		"$1099511627776\r\n", "$?\r\n;-5\r\n", "%-1\r\n", strings.Repeat("*1\r\n", 100_000), "\x00\xff\r\n",
		"\r\n", "-\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n")
}

// No answer to any command ends the process, today's or tomorrow's: a call ends with an error, and when the server
// is as before, so is the store.
func TestAnyAnswerToAnyCommand(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := redisstore.Config{
		SilenceTimeout: 10 * time.Second, CallTimeout: 20 * time.Second, GraceFirst: redisstore.NoGraceFirst,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, name := range []string{
		"HELLO", "SELECT", "PING", "SUBSCRIBE", "UNSUBSCRIBE", "EVALSHA", "EVAL", "INFO", "CONFIG",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &strange{redis: redis.Addr()}
			s.start(t)
			url := "redis://" + s.addr + "/1"
			number := uint64(0)
			use := func(store *redisstore.Store) error {
				number++
				req := wish(lockagent.Name(name), agentA, number)
				_, err := storetest.Acquire(t, store, req)
				_, err2 := storetest.Renew(t, store, lockagent.RenewRequest{
					Name: req.Name, Tenure: req.Tenure, Lease: time.Minute, Urgent: true,
				})
				_, err3 := storetest.Release(t, store, end(req))
				return errors.Join(err, err2, err3)
			}
			store, err := config.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			for _, answer := range answersOfServers() {
				s.says(name, answer)
				if name == "HELLO" || name == "SELECT" { // those who have greeted the server do so again
					s.cut()
				}
				deaf := store.Listen(agentA, func(lockagent.Message) {})
				cancel := store.Subscribe(lockagent.Name(name), lockagent.PlainLock, func() {})
				_ = use(store)
				_, _ = config.Examine(t.Context(), url)
				deaf()
				cancel()
				s.says("", "")
				waittest.Until(
					t, fmt.Sprintf("the store to be as before %.60q", answer), func() bool { return use(store) == nil },
				)
			}
		})
	}
}
