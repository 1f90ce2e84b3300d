//go:build linux

package agentclient

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// tally is in a file that many processes have in their memory. Only a lock protects it: nothing here is atomic.
type tally []byte

const tallySize = 16

func openTally(path string) tally {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	defer func() { _ = f.Close() }()
	m, err := syscall.Mmap(int(f.Fd()), 0, tallySize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return m
}

func (x tally) count() uint64 { return binary.NativeEndian.Uint64(x) }

func (x tally) token() uint64 { return binary.NativeEndian.Uint64(x[8:]) }

func (x tally) set(count, token uint64) {
	binary.NativeEndian.PutUint64(x, count)
	binary.NativeEndian.PutUint64(x[8:], token)
}

// counted is what a process says of its holds.
type counted struct {
	Counts []int // of each goroutine
	Wrong  string
}

// count counts its holds, with some goroutines, until the input ends. Every second one waits for a bounded time.
func count(locks *channelapi.Locks, in io.Reader) {
	goroutines, _ := strconv.Atoi(os.Getenv("AGENTCLIENT_TEST_GOROUTINES"))
	shared := openTally(os.Getenv("AGENTCLIENT_TEST_TALLY"))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	fmt.Println("ready")
	said := counted{Counts: make([]int, goroutines)}
	var mu sync.Mutex // guards said.Wrong
	wrong := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		said.Wrong = what
	}
	var wg sync.WaitGroup
	for i := range said.Counts {
		wg.Go(func() {
			for ctx.Err() == nil {
				var options []channelapi.Option
				if i%2 == 1 {
					options = append(options, channelapi.Wait(1+rand.N(100*time.Millisecond)))
				}
				g, err := locks.Lock("door", options...).Acquire(ctx)
				if err != nil {
					if ctx.Err() == nil && !(len(options) > 0 && errors.Is(err, channelapi.ErrTimeout)) {
						wrong(err.Error())
					}
					continue
				}
				n, last := shared.count(), shared.token()
				if rand.IntN(16) == 0 {
					<-time.After(rand.N(time.Millisecond))
				}
				if uint64(g.Token()) <= last || shared.count() != n {
					wrong(fmt.Sprintf("token %d after %d, count %d after %d", g.Token(), last, shared.count(), n))
				}
				shared.set(n+1, uint64(g.Token()))
				said.Counts[i]++
				if g.Cause() != nil {
					wrong(g.Cause().Error())
				}
				_ = g.Release(context.Background()) // a daemon that is killed has not confirmed it
			}
		})
	}
	wg.Wait()
	data, _ := json.Marshal(said) // nothing in it can fail
	fmt.Println(string(data))
}

// Several processes with eight goroutines each count in memory that only the lock protects. Their daemon is killed now
// and then, and another one goes on. No count is lost, and tokens grow.
func TestContest(t *testing.T) {
	t.Parallel()
	inEachStore(t, func(t *testing.T, redis string) { contest(t, redis, 3, 1) })
}

func contest(t *testing.T, redis string, processes, kills int) {
	t.Parallel()
	const goroutines = 8
	path, file := socketPath(t), filepath.Join(t.TempDir(), "tally")
	if err := os.WriteFile(file, make([]byte, tallySize), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := []string{leaseOfKilled, "AGENTCLIENT_TEST_STATE=" + t.TempDir(), "AGENTCLIENT_TEST_REDIS=" + redis}
	daemon := start(t, "daemon", path, settings...)
	daemon.says("ready")
	var counters []*process
	var ins []io.Closer
	for range processes {
		p, in := startWithInput(
			t, "counter", path, "AGENTCLIENT_TEST_TALLY="+file, "AGENTCLIENT_TEST_GOROUTINES="+strconv.Itoa(goroutines),
		)
		counters, ins = append(counters, p), append(ins, in)
	}
	for _, p := range counters {
		p.says("ready") // nobody can connect while there is no daemon
	}
	shared := openTally(file)
	defer func() { _ = syscall.Munmap(shared) }()
	more := func() {
		t.Helper()
		before := shared.count()
		waittest.Until(t, "the processes go on to count", func() bool { return shared.count() > before+200 })
	}
	for range kills {
		more()
		daemon.kill()
		daemon = start(t, "daemon", path, settings...)
		daemon.says("ready")
	}
	more()
	for _, in := range ins {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
	total, idle := 0, 0
	for _, p := range counters {
		var said counted
		if !p.out.Scan() {
			t.Fatal("a process said nothing")
		}
		if err := json.Unmarshal(p.out.Bytes(), &said); err != nil {
			t.Fatal(err)
		}
		if said.Wrong != "" {
			t.Error(said.Wrong)
		}
		for _, n := range said.Counts {
			total += n
			if n == 0 {
				idle++
			}
		}
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if uint64(total) != shared.count() || total == 0 {
		t.Errorf("%d holds, and %d were counted", total, shared.count())
	}
	t.Logf("%d holds, %d of %d goroutines had none", total, idle, processes*goroutines)
}
