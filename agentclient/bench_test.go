//go:build linux

package agentclient

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/bootclock"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// BenchmarkUncontended is one acquire and its release through the socket of a daemon that is a process of its own.
func BenchmarkUncontended(b *testing.B) {
	path := socketPath(b)
	start(b, "daemon", path).says("ready")
	lock := dial(b, path).Lock("door")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		g, err := lock.Acquire(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkContended is one lock, wanted by 8 processes with 8 goroutines each. It reports the grants of all of them in a second.
func BenchmarkContended(b *testing.B) {
	const processes, goroutines, length = 8, 8, 2 * time.Second
	path := socketPath(b)
	start(b, "daemon", path).says("ready")
	for b.Loop() {
		var contenders []*process
		for range processes {
			p := start(b, "contender", path, "AGENTCLIENT_TEST_GOROUTINES="+strconv.Itoa(goroutines), "AGENTCLIENT_TEST_LENGTH="+length.String())
			contenders = append(contenders, p)
		}
		grants := 0
		for _, p := range contenders {
			if !p.out.Scan() {
				b.Fatal("a contender said nothing")
			}
			n, err := strconv.Atoi(p.out.Text())
			if err != nil {
				b.Fatal(err)
			}
			grants += n
			_ = p.cmd.Wait()
		}
		b.ReportMetric(float64(grants)/length.Seconds(), "grants/s")
	}
}

// contend makes as many grants as it can, with some goroutines, for some time.
func contend(locks *channelapi.Locks) {
	goroutines, _ := strconv.Atoi(os.Getenv("AGENTCLIENT_TEST_GOROUTINES"))
	length, _ := time.ParseDuration(os.Getenv("AGENTCLIENT_TEST_LENGTH"))
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var wg sync.WaitGroup
	counts := make([]int, goroutines)
	for i := range counts {
		wg.Go(func() {
			for {
				g, err := locks.Lock("door").Acquire(ctx)
				if err != nil {
					return
				}
				counts[i]++
				_ = g.Release(context.Background()) // the count is of grants
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	fmt.Println(total)
}

// BenchmarkHandOff is a hand-off from this process to another one that waits. It reports the median time from the release to
// the grant.
func BenchmarkHandOff(b *testing.B) {
	path := socketPath(b)
	start(b, "daemon", path).says("ready")
	locks := dial(b, path)
	ctx := context.Background()
	rpc := servicesAt(path)
	b.Cleanup(rpc.transport.CloseIdleConnections)
	looking := rpc.look
	p, in := startWithInput(b, "taker", path)
	out := bufio.NewWriter(in)
	var took []time.Duration
	for b.Loop() {
		g, err := locks.Lock("door").Acquire(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := out.WriteString("take\n"); err != nil {
			b.Fatal(err)
		}
		_ = out.Flush()
		for waiting := int32(0); waiting == 0; {
			r, err := looking.Get(ctx, &lockagentv1.GetRequest{Name: "door"})
			if err != nil {
				b.Fatal(err)
			}
			waiting = r.GetLock().GetWaiting()
		}
		released := bootclock.Now()
		if err := g.Release(ctx); err != nil {
			b.Fatal(err)
		}
		if !p.out.Scan() {
			b.Fatal("the taker said nothing")
		}
		at, err := strconv.ParseInt(strings.TrimSpace(p.out.Text()), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Duration(at)-released)
	}
	_ = in.Close()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// take acquires the lock for each line of the input, and writes when it was granted.
func take(locks *channelapi.Locks, in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		g, err := locks.Lock("door").Acquire(context.Background())
		at := bootclock.Now()
		if err != nil {
			panic(err)
		}
		if err := g.Release(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println(int64(at))
	}
}
