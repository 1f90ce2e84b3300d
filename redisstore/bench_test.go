package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// BenchmarkPair measures an acquire and a release of a lock that nobody else wants. Each
// goroutine waits for each reply. The floor runs the least script that there is, through the
// client alone. Compare only the ratio within one run.
func BenchmarkPair(b *testing.B) {
	server := redistest.Start(b)
	for _, goroutines := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("%d/store", goroutines), func(b *testing.B) {
			store := openURL(b, server.URL())
			benchmark(b, goroutines, func(name lockagent.Name, number uint64) error {
				return pair(store, name, number)
			})
		})
		b.Run(fmt.Sprintf("%d/least", goroutines), func(b *testing.B) {
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{server.Addr()}, DisableCache: true, DisableRetry: true, ForceSingleClient: true,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			least := transport.NewScript("return redis.call('EXISTS', KEYS[1])")
			if err := client.Do(b.Context(), client.B().ScriptLoad().Script(least.Source).Build()).Error(); err != nil {
				b.Fatal(err)
			}
			benchmark(b, goroutines, func(name lockagent.Name, _ uint64) error {
				for range 2 {
					command := client.B().Evalsha().Sha1(least.Digest).Numkeys(1).Key(string(name)).Build()
					if err := client.Do(b.Context(), command).Error(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func benchmark(b *testing.B, goroutines int, once func(name lockagent.Name, number uint64) error) {
	b.ReportAllocs()
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			name := lockagent.Name("orders/" + strconv.Itoa(g))
			for number := range (b.N + goroutines - 1) / goroutines {
				if err := once(name, uint64(number+1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

func pair(store *Store, name lockagent.Name, number uint64) error {
	done := make(chan error, 1)
	store.Acquire(
		context.Background(), lockagent.AcquireRequest{Name: name, Tenure: tenure(number), Lease: time.Minute},
		func(_ lockagent.AcquireReply, err error) { done <- err },
	)
	if err := <-done; err != nil {
		return err
	}
	store.Release(
		context.Background(), lockagent.ReleaseRequest{Name: name, Tenure: tenure(number)},
		func(_ lockagent.ReleaseReply, err error) { done <- err },
	)
	return <-done
}
