//go:build unix

package tracing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// BenchmarkCost measures what this package adds to an uncontended acquire and release
// through Redis: the processor time of the agent, in nanoseconds for each cycle. Beside
// that are the time that a cycle takes without this package, and its processor time.
// The variants take turns, many times in one run, so that all meet the same noise.
func BenchmarkCost(b *testing.B) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	sampling := func(share float64) *sdktrace.TracerProvider {
		return sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))))
	}
	rare, always := sampling(.01), sampling(1)
	b.Cleanup(func() {
		_ = meters.Shutdown(context.Background())
		_ = rare.Shutdown(context.Background())
		_ = always.Shutdown(context.Background())
	})
	variants := []struct {
		name string
		*Config
	}{
		{"bare", nil},
		{"noSDK", &Config{}},
		{"1%", &Config{TracerProvider: rare}},
		{"metrics", &Config{MeterProvider: meters}},
		{"1%+metrics", &Config{TracerProvider: rare, MeterProvider: meters}},
		{"100%+metrics", &Config{TracerProvider: always, MeterProvider: meters}},
	}
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			server := redistest.Start(b)
			var all []*channelapi.Locks
			for _, v := range variants {
				all = append(all, tracedLocks(b, server.URL(), v.Config))
			}
			used := make([][]float64, len(variants))
			var took []float64
			for b.Loop() {
				for _, i := range rand.Perm(len(all)) {
					began := time.Now()
					used[i] = append(used[i], cycles(b, all[i], goroutines))
					if i == 0 {
						took = append(took, float64(time.Since(began))/cyclesEach)
					}
				}
			}
			for i, v := range variants[1:] {
				var added []float64
				for round, with := range used[i+1] {
					added = append(added, with-used[0][round])
				}
				b.ReportMetric(median(added), v.name+"-ns")
			}
			b.ReportMetric(median(used[0]), "cpu-ns")
			b.ReportMetric(median(took), "wall-ns")
		})
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

func tracedLocks(b *testing.B, url string, c *Config) *channelapi.Locks {
	store, err := redisstore.Config{GraceFirst: redisstore.NoGraceFirst}.Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	cfg := channelapi.Config{Store: store, Recorder: nowhere{}}
	if c != nil {
		cfg.Store, cfg.Recorder = Store(store, *c), Recorder(nowhere{}, *c)
	}
	locks, err := channelapi.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = locks.Close()
		_ = store.Close()
	})
	return locks
}

// cyclesEach is how many cycles a turn has.
const cyclesEach = 1024

// cycles is the processor time of one of many cycles, in nanoseconds. Each goroutine has
// a lock of its own.
func cycles(b *testing.B, locks *channelapi.Locks, goroutines int) float64 {
	ctx := context.Background()
	began := spent(b)
	var all sync.WaitGroup
	for i := range goroutines {
		lock := locks.Lock(fmt.Sprint("cost/", i))
		all.Go(func() {
			for range cyclesEach / goroutines {
				g, err := lock.Acquire(ctx)
				if err == nil {
					err = g.Release(ctx)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(spent(b)-began) / cyclesEach
}

// spent is the processor time of this process so far.
func spent(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
