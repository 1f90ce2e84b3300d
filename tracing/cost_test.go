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

// BenchmarkCost compares an uncontended acquire and release through Redis without
// this package and with it: the metrics are what it adds, in percent of the processor
// time that the agent spends. Other programs disturb that less than they do the time
// on the wall. The variants take turns, many times in one run.
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
			took := make([][]float64, len(variants))
			for b.Loop() {
				for _, i := range rand.Perm(len(all)) {
					took[i] = append(took[i], cycles(b, all[i], goroutines).Seconds())
				}
			}
			b.ReportMetric(median(took[0])/cyclesEach*1e9, "ns/cycle")
			for i, v := range variants[1:] {
				var added []float64
				for round, t := range took[i+1] {
					added = append(added, 100*(t/took[0][round]-1))
				}
				b.ReportMetric(median(added), v.name+"-%")
			}
		})
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

func tracedLocks(b *testing.B, url string, c *Config) *channelapi.Locks {
	store, err := redisstore.Open(b.Context(), url)
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

// cyclesEach is how often a turn acquires and releases.
const cyclesEach = 4096

// cycles takes the processor time of a turn. Each goroutine has a lock of its own.
func cycles(b *testing.B, locks *channelapi.Locks, goroutines int) time.Duration {
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
	return spent(b) - began
}

// spent is the processor time of this process so far.
func spent(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
