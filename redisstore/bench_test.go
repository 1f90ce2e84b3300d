package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// BenchmarkPair measures an acquire and a release that nobody contends for, made
// by goroutines that wait for each reply: through a store, and, as the floor that
// it stands on, by the same scripts and by the least script there is through the
// client alone. What is compared is the ratio within one run.
func BenchmarkPair(b *testing.B) {
	server := redistest.Start(b)
	for _, goroutines := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("%d/store", goroutines), func(b *testing.B) {
			store, err := Open(b.Context(), server.URL())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			benchmark(b, goroutines, func(name lockagent.Name, tenure lockagent.Tenure) error {
				return pair(store, name, tenure)
			})
		})
		b.Run(fmt.Sprintf("%d/scripts", goroutines), func(b *testing.B) {
			client := floor(b, server)
			defer client.Close()
			benchmark(b, goroutines, func(name lockagent.Name, tenure lockagent.Tenure) error {
				return scripts(client, name, tenure)
			})
		})
		b.Run(fmt.Sprintf("%d/least", goroutines), func(b *testing.B) {
			client := floor(b, server)
			defer client.Close()
			least := newScript("return redis.call('EXISTS', KEYS[1])")
			benchmark(b, goroutines, func(name lockagent.Name, _ lockagent.Tenure) error {
				for range 2 {
					if _, err := run(client, least, []string{string(name)}, nil); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func benchmark(b *testing.B, goroutines int, once func(lockagent.Name, lockagent.Tenure) error) {
	b.ReportAllocs()
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			agent := lockagent.NewAgentID()
			name := lockagent.Name("orders/" + strconv.Itoa(g))
			for number := range (b.N + goroutines - 1) / goroutines {
				if err := once(name, lockagent.Tenure{Agent: agent, Number: uint64(number + 1)}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

func pair(store *Store, name lockagent.Name, tenure lockagent.Tenure) error {
	done := make(chan error, 1)
	store.Acquire(context.Background(), lockagent.AcquireRequest{Name: name, Tenure: tenure, Lease: time.Minute, Tokens: 1}, func(_ lockagent.AcquireReply, err error) { done <- err })
	if err := <-done; err != nil {
		return err
	}
	store.Release(context.Background(), lockagent.ReleaseRequest{Name: name, Tenure: tenure}, func(_ lockagent.ReleaseReply, err error) { done <- err })
	return <-done
}

// scripts makes the calls of a store without its lane.
func scripts(client rueidis.Client, name lockagent.Name, tenure lockagent.Tenure) (err error) {
	p := newTestPacker()
	calls := p.pack(&gathered{acquires: []acquireCall{{
		req:  lockagent.AcquireRequest{Name: name, Tenure: tenure, Lease: time.Minute, Tokens: 1},
		done: func(_ lockagent.AcquireReply, failed error) { err = failed },
	}}})
	calls[0].done(run(client, calls[0].script, calls[0].keys, calls[0].args))
	if err != nil {
		return err
	}
	calls = p.pack(&gathered{releases: []releaseCall{{
		req:  lockagent.ReleaseRequest{Name: name, Tenure: tenure},
		done: func(_ lockagent.ReleaseReply, failed error) { err = failed },
	}}})
	calls[0].done(run(client, calls[0].script, calls[0].keys, calls[0].args))
	return err
}

func run(client rueidis.Client, s *script, keys, args []string) (rueidis.RedisMessage, error) {
	reply := client.Do(context.Background(), s.byDigest(client.B(), keys, args))
	if missing(reply) {
		reply = client.Do(context.Background(), s.bySource(client.B(), keys, args))
	}
	return reply.ToMessage()
}

func floor(b *testing.B, server *redistest.Server) rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, DisableRetry: true, ForceSingleClient: true})
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// BenchmarkServer measures what the server itself spends on a lock that is
// acquired and released, in scripts for many locks.
func BenchmarkServer(b *testing.B) {
	server := redistest.Start(b)
	for _, locks := range []int{1, 16, 64, 256} {
		b.Run(strconv.Itoa(locks), func(b *testing.B) {
			client := floor(b, server)
			defer client.Close()
			p := newTestPacker()
			agent := lockagent.NewAgentID()
			spent := func() float64 {
				var all float64
				for line := range strings.Lines(server.Do("INFO", "commandstats").(string)) {
					if _, stats, of := strings.Cut(line, "cmdstat_evalsha:"); of {
						var calls, usec float64
						if _, err := fmt.Sscanf(stats, "calls=%f,usec=%f", &calls, &usec); err != nil {
							b.Fatal(err)
						}
						all += usec
					}
				}
				return all
			}
			var number uint64
			round := func() {
				number++
				var batch gathered
				for i := range locks {
					req := lockagent.AcquireRequest{Name: lockagent.Name("orders/" + strconv.Itoa(i)), Tenure: lockagent.Tenure{Agent: agent, Number: number}, Lease: time.Minute, Tokens: 1}
					batch.acquires = append(batch.acquires, acquireCall{req: req, done: func(r lockagent.AcquireReply, err error) {
						if err != nil || !r.Granted {
							b.Fatal(r, err)
						}
					}})
				}
				for _, c := range p.pack(&batch) {
					c.done(run(client, c.script, c.keys, c.args))
				}
				batch.acquires = nil
				for i := range locks {
					req := lockagent.ReleaseRequest{Name: lockagent.Name("orders/" + strconv.Itoa(i)), Tenure: lockagent.Tenure{Agent: agent, Number: number}}
					batch.releases = append(batch.releases, releaseCall{req: req, done: func(r lockagent.ReleaseReply, err error) {
						if err != nil || !r.Released {
							b.Fatal(r, err)
						}
					}})
				}
				for _, c := range p.pack(&batch) {
					c.done(run(client, c.script, c.keys, c.args))
				}
			}
			round() // the server has the scripts now
			before := spent()
			b.ResetTimer()
			for n := 0; n < b.N; n += locks {
				round()
			}
			rounds := (b.N + locks - 1) / locks
			b.ReportMetric((spent()-before)*1000/float64(rounds*locks), "server-ns/pair")
		})
	}
}
