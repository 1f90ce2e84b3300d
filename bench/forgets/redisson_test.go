package forgets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent/internal/forgettest"
	"github.com/lockagent/lockagent/interop/redisson/driver"
)

// classpathVariable has the classpath of the driver of Redisson, which the test has built for its agents.
const classpathVariable = "LOCKAGENT_TEST_FORGETS_CLASSPATH"

// redissonLocks are those of a Java process. The owner of a lock is a thread there, so each request has one for itself.
type redissonLocks struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended

	mu      sync.Mutex // protects what follows
	in      io.WriteCloser
	last    int                    // command
	waiting map[string]chan string // for answers, by command
	threads []string               // that have nothing to do
	named   int                    // threads
}

var errEnded = errors.New("the driver of Redisson has ended")

// openRedisson opens the locks of Redisson as they come, but with as long a lease as the others have.
func openRedisson(ctx context.Context, servers string) (forgettest.Locks, error) {
	u, err := url.Parse(servers)
	if err != nil {
		return nil, err
	}
	addrs, mode := append([]string{u.Host}, u.Query()["addr"]...), "single"
	set := u.Query().Get("master_set")
	switch {
	case set != "":
		mode = "sentinel"
	case len(addrs) > 1:
		mode = "cluster"
	}
	java := driver.Driver{Classpath: os.Getenv(classpathVariable)}
	r := &redissonLocks{
		cmd:  java.Command(ctx, forgettest.Lease, mode, addrs, "-XX:+UseSerialGC"),
		gone: make(chan struct{}), waiting: make(map[string]chan string),
	}
	if set != "" {
		r.cmd.Args = append(r.cmd.Args, "set="+set)
	}
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go r.read(out)
	return r, nil
}

// read hands out the answers until the process ends.
func (r *redissonLocks) read(out io.Reader) {
	defer close(r.gone)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		id, answer, _ := strings.Cut(lines.Text(), " ")
		r.mu.Lock()
		r.waiting[id] <- answer
		delete(r.waiting, id)
		r.mu.Unlock()
	}
	_ = r.cmd.Wait()
}

// call has a thread run a command on a lock.
func (r *redissonLocks) call(thread, command, name string, args ...string) (string, error) {
	answer := make(chan string, 1)
	r.mu.Lock()
	r.last++
	id := strconv.Itoa(r.last)
	r.waiting[id] = answer
	words := append([]string{id, thread, "plain." + command, name}, args...)
	_, err := fmt.Fprintln(r.in, strings.Join(words, " "))
	r.mu.Unlock()
	if err != nil {
		return "", err
	}
	select {
	case <-r.gone:
		return "", errEnded
	case text := <-answer:
		outcome, value, _ := strings.Cut(text, " ")
		value, err := url.QueryUnescape(value)
		if err == nil && outcome != "ok" {
			err = errors.New(value)
		}
		return value, err
	}
}

// Acquire implements [forgettest.Locks]. Nothing ends a request of Redisson early, so each waits for a second.
func (r *redissonLocks) Acquire(ctx context.Context, _ forgettest.Kind, name string, _ int) (forgettest.Grant, error) {
	g := &redissonGrant{of: r, name: name, thread: r.thread()}
	for ctx.Err() == nil {
		granted, err := r.call(g.thread, "tryLock", name, "1000", "-1")
		if err != nil {
			return nil, err // the thread may have the lock all the same: it is not used again
		}
		if granted == "true" {
			return g, nil
		}
	}
	r.spare(g.thread)
	return nil, ctx.Err()
}

func (r *redissonLocks) thread() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.threads); n > 0 {
		t := r.threads[n-1]
		r.threads = r.threads[:n-1]
		return t
	}
	r.named++
	return fmt.Sprint("thread", r.named)
}

func (r *redissonLocks) spare(thread string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.threads = append(r.threads, thread)
}

// SetPermits implements [forgettest.Locks]. Nobody asks for any.
func (*redissonLocks) SetPermits(context.Context, forgettest.Kind, string, int) {}

// Close implements [forgettest.Locks].
func (r *redissonLocks) Close() {
	_ = r.in.Close()
	<-r.gone
}

type redissonGrant struct {
	of           *redissonLocks
	name, thread string
}

// Token implements [forgettest.Grant]. A plain lock of Redisson has none.
func (*redissonGrant) Token() uint64 { return 0 }

// Done implements [forgettest.Grant]. Redisson tells no holder that it has lost the lock.
func (*redissonGrant) Done() <-chan struct{} { return nil }

// Remaining implements [forgettest.Grant]. Redisson tells of no deadline.
func (*redissonGrant) Remaining() time.Duration { return time.Hour }

// Release implements [forgettest.Grant].
func (g *redissonGrant) Release() (lost string) {
	_, err := g.of.call(g.thread, "unlock", g.name)
	if err == nil {
		g.of.spare(g.thread)
	} else if strings.Contains(err.Error(), "IllegalMonitorStateException") {
		g.of.spare(g.thread)
		return "unlock refused"
	}
	return ""
}
