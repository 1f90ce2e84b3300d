//go:build linux

package agentclient

import (
	"bufio"
	"context"
	"encoding/json"
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

// BenchmarkContended is one lock, wanted by 8 processes with 8 goroutines each. It reports the grants of all of them in
// a second, what the goroutine with the fewest grants has of the mean, and how long one of a hundred grants took.
// Another process wants the lock now and then, and reports the same for itself alone. With a wait, each request has a
// bound of its own.
func BenchmarkContended(b *testing.B) {
	b.Run("without end", func(b *testing.B) { benchmarkContended(b, 0) })
	b.Run("wait", func(b *testing.B) { benchmarkContended(b, 10*time.Second) })
}

func benchmarkContended(b *testing.B, wait time.Duration) {
	const processes, goroutines, length = 8, 8, 2 * time.Second
	path := socketPath(b)
	start(b, "daemon", path).says("ready")
	for b.Loop() {
		settings := []string{"AGENTCLIENT_TEST_LENGTH=" + length.String(), "AGENTCLIENT_TEST_WAIT=" + wait.String()}
		var contenders []*process
		for range processes {
			contenders = append(
				contenders,
				start(b, "contender", path, append(settings, "AGENTCLIENT_TEST_GOROUTINES="+strconv.Itoa(goroutines))...),
			)
		}
		visitor := start(
			b, "contender", path, append(settings, "AGENTCLIENT_TEST_GOROUTINES=1", "AGENTCLIENT_TEST_PAUSE=20ms")...,
		)
		var grants, least int
		var p99 time.Duration
		for _, p := range contenders {
			c := p.contended(b)
			for _, n := range c.Counts {
				grants += n
				if least == 0 || n < least {
					least = n
				}
			}
			p99 = max(p99, c.P99)
		}
		v := visitor.contended(b)
		b.ReportMetric(float64(grants)/length.Seconds(), "grants/s")
		b.ReportMetric(float64(least*processes*goroutines)/float64(grants), "least/mean")
		b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(v.P50.Microseconds())/1000, "visitor-p50-ms")
		b.ReportMetric(float64(v.P99.Microseconds())/1000, "visitor-p99-ms")
	}
}

// contended is what a contender says in the end.
type contended struct {
	Counts   []int         // of grants, for each goroutine
	P50, P99 time.Duration // of their waits
}

func (p *process) contended(b *testing.B) (c contended) {
	b.Helper()
	if !p.out.Scan() {
		b.Fatal("a contender said nothing")
	}
	if err := json.Unmarshal(p.out.Bytes(), &c); err != nil {
		b.Fatal(err)
	}
	_ = p.cmd.Wait()
	return c
}

// contend makes as many grants as it can, with some goroutines, for some time, with a pause after each of them.
func contend(locks *channelapi.Locks) {
	goroutines, _ := strconv.Atoi(os.Getenv("AGENTCLIENT_TEST_GOROUTINES"))
	length, _ := time.ParseDuration(os.Getenv("AGENTCLIENT_TEST_LENGTH"))
	pause, _ := time.ParseDuration(os.Getenv("AGENTCLIENT_TEST_PAUSE"))
	var options []channelapi.Option
	if wait, _ := time.ParseDuration(os.Getenv("AGENTCLIENT_TEST_WAIT")); wait > 0 {
		options = append(options, channelapi.Wait(wait))
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var wg sync.WaitGroup
	waits := make([][]time.Duration, goroutines)
	for i := range waits {
		wg.Go(func() {
			for {
				asked := time.Now()
				g, err := locks.Lock("door", options...).Acquire(ctx)
				if err != nil {
					return
				}
				waits[i] = append(waits[i], time.Since(asked))
				_ = g.Release(context.Background()) // the count is of grants
				if pause > 0 {
					<-time.After(pause)
				}
			}
		})
	}
	wg.Wait()
	var c contended
	for _, w := range waits {
		c.Counts = append(c.Counts, len(w))
	}
	if all := slices.Sorted(slices.Values(slices.Concat(waits...))); len(all) > 0 {
		c.P50, c.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	data, _ := json.Marshal(c) // nothing in it can fail
	fmt.Println(string(data))
}

// BenchmarkHandOff is a hand-off from this process to another one that waits. It reports the median time from the
// release to the grant.
func BenchmarkHandOff(b *testing.B) {
	path := socketPath(b)
	start(b, "daemon", path).says("ready")
	locks := dial(b, path)
	ctx := context.Background()
	rpc := servicesAt(path)
	b.Cleanup(rpc.hangUp)
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
