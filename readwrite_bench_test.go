package lockagent_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// 64 readers of one process share the lease of one of them. They are compared with one owner after the other
// who takes the lock alone, each time through Redis.
func BenchmarkReadersOfOneProcess(b *testing.B) {
	const readers = 64
	for _, name := range []string{"alone through Redis", fmt.Sprint(readers, " readers")} {
		b.Run(name, func(b *testing.B) {
			server := redistest.Start(b)
			store, err := redisstore.Config{GraceFirst: redisstore.NoGraceFirst}.Open(b.Context(), server.URL())
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			locks, err := channelapi.New(channelapi.Config{Store: store})
			if err != nil {
				b.Fatal(err)
			}
			defer locks.Close()
			cycle := func(l *channelapi.Lock) {
				g, err := l.Acquire(b.Context())
				if err == nil {
					err = g.Release(b.Context())
				}
				if err != nil {
					b.Error(err)
				}
			}
			if name[0] == 'a' {
				for b.Loop() {
					cycle(locks.WriteLock("report"))
				}
				return
			}
			beside, err := locks.ReadLock("report").Acquire(b.Context()) // so that the tenure goes on
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range readers {
				all.Go(func() {
					for range (b.N + i) / readers {
						cycle(locks.ReadLock("report"))
					}
				})
			}
			all.Wait()
			b.StopTimer()
			_ = beside.Release(b.Context())
		})
	}
}
