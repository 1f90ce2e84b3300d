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
	"github.com/lockagent/lockagent/redisstore/internal/transport"
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
			least := transport.NewScript("return redis.call('EXISTS', KEYS[1])")
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
	var b batch
	b.acquire(name, tenure.Agent, tenure.Number).done = func(_ lockagent.AcquireReply, failed error) { err = failed }
	makeAll(client, newTestPacker(), b.items())
	if err != nil {
		return err
	}
	b = batch{}
	b.release(name, tenure.Agent, tenure.Number)
	b.releases[0].done = func(_ lockagent.ReleaseReply, failed error) { err = failed }
	makeAll(client, newTestPacker(), b.items())
	return err
}

func makeAll(client rueidis.Client, p *packer, items []transport.Item) {
	for _, c := range p.pack(items) {
		c.Done(run(client, c.Script, c.Keys, c.Args))
	}
}

func run(client rueidis.Client, s *transport.Script, keys, args []string) (rueidis.RedisMessage, error) {
	count := int64(len(keys))
	reply := client.Do(context.Background(), client.B().Evalsha().Sha1(s.Digest).Numkeys(count).Key(keys...).Arg(args...).Build())
	if err, of := rueidis.IsRedisErr(reply.Error()); of && err.IsNoScript() {
		reply = client.Do(context.Background(), client.B().Eval().Script(s.Source).Numkeys(count).Key(keys...).Arg(args...).Build())
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
				var all batch
				for i := range locks {
					all.acquire(lockagent.Name("orders/"+strconv.Itoa(i)), agent, number).done = func(r lockagent.AcquireReply, err error) {
						if err != nil || !r.Granted {
							b.Fatal(r, err)
						}
					}
				}
				makeAll(client, p, all.items())
				all = batch{}
				for i := range locks {
					all.release(lockagent.Name("orders/"+strconv.Itoa(i)), agent, number)
					all.releases[i].done = func(r lockagent.ReleaseReply, err error) {
						if err != nil || !r.Released {
							b.Fatal(r, err)
						}
					}
				}
				makeAll(client, p, all.items())
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
