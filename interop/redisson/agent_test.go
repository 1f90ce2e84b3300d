package redisson

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redisserver"
	"github.com/lockagent/lockagent/redisstore"
)

// roleVariable tells a process that a test has started from this binary what to be.
const roleVariable = "LOCKAGENT_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		runAgent()
		return
	}
	goleak.VerifyTestMain(tests{m}, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(built.dir)
		os.Exit(code)
	}))
}

// tests end what the tests have shared before anybody looks for goroutines that are left.
type tests struct{ *testing.M }

func (m tests) Run() (code int) {
	defer endShared()
	return m.M.Run()
}

// startAgent starts another process of ours that takes commands as the driver does, but few:
// ping, lock and rush. Lock is also for a semaphore and permits, and answers with the token.
func (w *world) startAgent(t *testing.T, lease time.Duration) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], w.url, lease.String())
	cmd.Env = append(os.Environ(), roleVariable+"=agent")
	agent := &process{child: start(t, cmd)}
	agent.do(t, "main", "ping")
	return agent
}

// runAgent is the process. It ends when its input does.
func runAgent() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	lease, err := time.ParseDuration(os.Args[2])
	check(err)
	store, err := redisstore.Config{DialTimeout: time.Minute, GraceFirst: redisstore.NoGraceFirst}.Open(ctx, os.Args[1])
	check(err)
	locks, err := channelapi.New(channelapi.Config{Store: store, Lease: lease})
	check(err)
	var mu sync.Mutex
	var held []channelapi.Grant // guarded by mu; a grant that nobody has any more is given back
	run := func(words []string) (string, error) {
		kind, command, _ := strings.Cut(words[0], ".")
		args := words[1:]
		switch command {
		case "lock":
			g := <-request(ctx, locks, thing{kind, args[0]})
			mu.Lock()
			held = append(held, g)
			mu.Unlock()
			return strconv.FormatUint(uint64(g.Token()), 10), g.Err()
		case "rush":
			threads, _ := strconv.Atoi(args[1])
			length, _ := strconv.Atoi(args[2])
			hold, _ := strconv.Atoi(args[3])
			var c counter
			if len(args) > 4 {
				c = counter{args[5], args[4]}
			}
			got, err := new(rush).run(
				ctx, workOf(locks, thing{kind, args[0]}), threads, time.Duration(length)*time.Millisecond,
				time.Duration(hold)*time.Microsecond, c,
			)
			return got.String(), err
		default:
			return "pong", nil
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Split(lines.Text(), " ")
		for i := range words {
			words[i], err = url.QueryUnescape(words[i])
			check(err)
		}
		go func() {
			outcome := "ok"
			value, err := run(words[2:])
			if err != nil {
				outcome, value = "error", err.Error()
			}
			mu.Lock()
			defer mu.Unlock() // one line at a time
			fmt.Println(words[0], outcome, url.QueryEscape(value))
		}()
	}
	check(locks.Close())
	check(store.Close())
}

// increment works for a while between reading a counter and writing it. Without a lock increments get lost.
func increment(conn *redisserver.Conn, counter string, work time.Duration) error {
	before, err := conn.Do("GET", counter)
	if err != nil {
		return err
	}
	<-time.After(work)
	text, _ := before.(string) // none at first
	n, _ := strconv.ParseInt(text, 10, 64)
	_, err = conn.Do("SET", counter, strconv.FormatInt(n+1, 10))
	return err
}
