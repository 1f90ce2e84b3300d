package lockagent_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// agentAddr is set in a process that is an agent at the Redis server there.
const agentAddr = "LOCKAGENT_TEST_AGENT_ADDR"

// agentProcess is an agent in a process of its own, which asks for theLock, releases it
// again, and ends.
type agentProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // that it says: its id, and the token of its grant
}

// startAgentProcess runs the test that calls it once more, in another process.
func startAgentProcess(t *testing.T, addr string) *agentProcess {
	t.Helper()
	p := &agentProcess{t: t, cmd: exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$"), lines: make(chan string, 10)}
	p.cmd.Env = append(os.Environ(), agentAddr+"="+addr)
	p.cmd.Stderr = t.Output()
	// A stopped process group of its own is ended by the system when this process is gone.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-read
		_ = p.cmd.Wait()
	})
	return p
}

// hear returns what it says next.
func (p *agentProcess) hear() string {
	p.t.Helper()
	return waittest.Receive(p.t, "the other process to say something", p.lines)
}

// stop returns when the process does nothing any more.
func (p *agentProcess) stop() {
	p.t.Helper()
	machinetest.Stop(p.t, p.cmd.Process)
}

func (p *agentProcess) resume() {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// runAgentProcess is what the other process does.
func runAgentProcess(t *testing.T, addr string) {
	locks := openAgent(t, redisstore.Config{}, addr, channelapi.Config{})
	fmt.Println(locks.ID())
	g, err := locks.Lock(theLock).Acquire(t.Context())
	must(t, err)
	fmt.Println(g.Token())
	must(t, g.Release(t.Context()))
}

// An agent whose process does not run is passed the lock. The others get it when the
// short lease of the pass is over, which is long before any other lease is. When the
// process runs again it hears of the pass, and does not take it for the lock.
func TestAgentThatIsStoppedIsPassedTheLock(t *testing.T) {
	t.Parallel()
	if addr := os.Getenv(agentAddr); addr != "" {
		runAgentProcess(t, addr)
		return
	}
	redis := redistest.Start(t)
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{HandOffGrants: 1})
	hold := holdOf(t, alpha, theLock)
	other := startAgentProcess(t, redis.Addr())
	id := other.hear()
	awaitQueue(t, redis, theLock, 1)
	waiting := alpha.Lock(theLock).AcquireAsync(t.Context())
	passes := redis.Dial()
	_, err := passes.Do("PSUBSCRIBE", "lockagent_agent:*")
	must(t, err)

	other.stop()
	must(t, hold.Release(t.Context()))
	passed := heardPass(t, passes)
	if !strings.HasPrefix(passed.tenure, id) {
		t.Fatalf("the lock was passed on to %s, want it passed on to %s", passed.tenure, id)
	}
	next := receive(t, waiting)
	if next.Token() <= passed.token {
		t.Errorf("token %d after %d, which was passed on", next.Token(), passed.token)
	}

	other.resume()
	awaitQueue(t, redis, theLock, 1) // it waits again
	if len(other.lines) > 0 {
		t.Errorf("it was granted the lock that another holds: token %s", other.hear())
	}
	must(t, next.Release(t.Context()))
	var last lockagent.Token
	if _, err := fmt.Sscan(other.hear(), &last); err != nil || last <= next.Token() {
		t.Errorf("it was granted the lock with token %d, %v; want one after %d", last, err, next.Token())
	}
}

// A holder is stopped, and an operator breaks its lock because of that. When the holder runs again, its lease is over.
// It learns of that first, or of the break. Its hold was over by its own deadline, and the log must say so: otherwise
// it outlived its lease.
func TestBrokenWhileItsProcessIsStopped(t *testing.T) {
	t.Parallel()
	const lease, locks = 8 * time.Second, 8 // what the holder hears first is by chance
	if addr := os.Getenv(agentAddr); addr != "" {
		agent := openAgent(t, redisstore.Config{}, addr, channelapi.Config{Lease: lease})
		var holds []lockagent.Grant
		for i := range locks {
			holds = append(holds, holdOf(t, agent, fmt.Sprint(theLock, i)))
		}
		fmt.Println("holds")
		for _, hold := range holds {
			fmt.Println(awaitLoss(t, hold))
		}
		return
	}
	redis := redistest.Start(t)
	operator := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	holder := startAgentProcess(t, redis.Addr())
	holder.hear()
	holder.stop()
	for i := range locks { // on a busy machine, a lease may be over already
		_, err := operator.Lock(fmt.Sprint(theLock, i)).Break(t.Context(), "olga")
		must(t, err)
	}
	// The time of a lease, by the server's clock.
	_, err := redis.Dial().Do("BLPOP", "nothing", fmt.Sprint((lease + lease/10).Seconds()))
	must(t, err)
	holder.resume()
	for range locks {
		if why := holder.hear(); why != lockagent.LostDeadline.String() {
			t.Errorf("the holder was told %q, want %q", why, lockagent.LostDeadline)
		}
	}
}

// awaitQueue waits until n tenures have a place in the queue of a lock.
func awaitQueue(t *testing.T, redis *redistest.Server, name string, n int64) {
	t.Helper()
	waittest.Until(t, fmt.Sprint("the queue to have ", n, " places"), func() bool {
		return redis.Do("ZCARD", "lockagent_queue:{"+name+"}") == n
	})
}

// pass is what a lock was passed on as.
type pass struct {
	tenure string
	token  lockagent.Token
}

// heardPass returns the next pass that a connection hears of.
func heardPass(t *testing.T, c *redistest.Conn) (p pass) {
	t.Helper()
	for {
		message, err := c.Receive() // pmessage, pattern, channel, text
		must(t, err)
		if text, ok := strings.CutPrefix(message.([]any)[3].(string), "passed "); ok {
			_, err = fmt.Sscan(text, &p.tenure, &p.token)
			must(t, err)
			return p
		}
	}
}
