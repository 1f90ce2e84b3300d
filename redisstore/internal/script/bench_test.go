package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
)

// BenchmarkServer measures what the server itself spends on locks that are acquired and released
// together, and how many times as much that is as the least pair of scripts takes. The two take
// turns, so that both meet the same moods of the machine.
func BenchmarkServer(b *testing.B) {
	for _, locks := range []int{1, 64, 256} {
		b.Run(strconv.Itoa(locks), func(b *testing.B) {
			s := start(b)
			ours, least := s.pairs(locks), s.leastPairs(locks)
			var all [2][]float64
			for b.Loop() {
				for kind, round := range []func(){ours, least} {
					before, rounds := s.spent(), max(1, 128/locks)
					for range rounds {
						round()
					}
					all[kind] = append(all[kind], (s.spent()-before)/float64(rounds*locks))
				}
			}
			median := func(kind int) float64 {
				slices.Sort(all[kind])
				return all[kind][len(all[kind])/2]
			}
			b.ReportMetric(median(0), "server-us/pair")
			b.ReportMetric(median(1), "least-us/pair")
			b.ReportMetric(median(0)/median(1), "ratio")
		})
	}
}

// BenchmarkKinds measures what the server itself spends on a lock of each kind that is acquired and released, and meets
// nobody. The ratio is to a plain lock. The two take turns.
func BenchmarkKinds(b *testing.B) {
	plain := benchmarkKind{"plain", lockagent.PlainLock, lockagent.Exclusive, Room.Acquire, Room.Release}
	for _, kind := range []benchmarkKind{
		plain,
		{"spin", lockagent.SpinLock, lockagent.Exclusive, Room.AcquireSpin, Room.ReleaseSpin},
		{"fair", lockagent.FairLock, lockagent.Exclusive, Room.FairAcquire, Room.FairRelease},
		{"fenced", lockagent.FencedLock, lockagent.Exclusive, Room.AcquireFenced, Room.ReleaseFenced},
		{"read", lockagent.ReadWriteLock, lockagent.Shared, Room.ReadWriteAcquire, Room.ReadWriteRelease},
		{"write", lockagent.ReadWriteLock, lockagent.Exclusive, Room.ReadWriteAcquire, Room.ReadWriteRelease},
		{"semaphore", lockagent.Semaphore, lockagent.Exclusive, acquireOnePermit, releaseOnePermit},
		{"permits", lockagent.Permits, lockagent.Exclusive, acquireOnePermit, releaseOnePermit},
	} {
		b.Run(kind.what, func(b *testing.B) {
			s := start(b)
			rounds := []func(){s.lonePairs(kind), s.lonePairs(plain)}
			var all [2][]float64
			for b.Loop() {
				for which, round := range rounds {
					before := s.spent()
					for range 128 {
						round()
					}
					all[which] = append(all[which], (s.spent()-before)/128)
				}
			}
			median := func(which int) float64 {
				slices.Sort(all[which])
				return all[which][len(all[which])/2]
			}
			b.ReportMetric(median(0), "server-us/pair")
			b.ReportMetric(median(0)/median(1), "ratio")
		})
	}
}

// BenchmarkHandOffs measures what the server itself spends when one of two agents asks for a lock that the other one
// has and gets a place, and when it is passed the lock.
func BenchmarkHandOffs(b *testing.B) {
	for _, kind := range []benchmarkKind{
		{"plain", lockagent.PlainLock, lockagent.Exclusive, Room.Acquire, Room.Release},
		{"fair", lockagent.FairLock, lockagent.Exclusive, Room.FairAcquire, Room.FairRelease},
		{"fenced", lockagent.FencedLock, lockagent.Exclusive, Room.AcquireFenced, Room.ReleaseFenced},
		{"write", lockagent.ReadWriteLock, lockagent.Exclusive, Room.ReadWriteAcquire, Room.ReadWriteRelease},
		{"semaphore", lockagent.Semaphore, lockagent.Exclusive, acquireOnePermit, releaseOnePermit},
		{"permits", lockagent.Permits, lockagent.Exclusive, acquireOnePermit, releaseOnePermit},
	} {
		b.Run(kind.what, func(b *testing.B) {
			s := start(b)
			ask, pass := s.handOffs(kind)
			var asks, passes []float64
			for b.Loop() {
				var asking, passing float64
				for range 32 {
					before := s.spent()
					ask()
					asked := s.spent()
					pass()
					asking, passing = asking+asked-before, passing+s.spent()-asked
				}
				asks, passes = append(asks, asking/32), append(passes, passing/32)
			}
			slices.Sort(asks)
			slices.Sort(passes)
			b.ReportMetric(asks[len(asks)/2], "server-us/ask")
			b.ReportMetric(passes[len(passes)/2], "server-us/pass")
		})
	}
}

// handOffs returns functions that ask for a lock which the other agent has, and pass it from one agent to the other.
func (s *server) handOffs(kind benchmarkKind) (ask, pass func()) {
	name := lockagent.Name("orders")
	channel := map[lockagent.LockKind]func(lockagent.Name) string{
		lockagent.ReadWriteLock: ReadWriteChannel, lockagent.Semaphore: PermitsChannel, lockagent.Permits: PermitsChannel,
	}[kind.kind]
	if channel == nil {
		channel = Channel
	}
	if kind.kind == lockagent.Semaphore || kind.kind == lockagent.Permits {
		s.do("SET", string(name), "1")
	}
	agents := []lockagent.AgentID{agentA, agentB}
	for _, agent := range agents {
		s.listen(AgentChannel(agent), AgentsChannel(name), channel(name))
	}
	number := uint64(1000)
	try := func() (lockagent.AcquireRequest, lockagent.AcquireReply) {
		number++
		req := wish(name, agents[number%2], number)
		req.Kind, req.Mode, req.Queue = kind.kind, kind.mode, true
		kind.acquire(s.room, &s.call, []lockagent.AcquireRequest{req}, s.past)
		o := s.acquired(1)[0]
		if o.Err != nil {
			s.t.Fatal(o.Err)
		}
		s.past.Note(o.Reply.At, 0)
		s.past.Incarnation = o.Reply.Incarnation
		return req, o.Reply
	}
	holder, _ := try()
	var waiter lockagent.AcquireRequest
	ask = func() {
		var reply lockagent.AcquireReply
		if waiter, reply = try(); !reply.Queued {
			s.t.Fatalf("%+v", reply)
		}
	}
	pass = func() {
		last := end(holder)
		last.Kind = kind.kind
		kind.release(s.room, &s.call, []ReleaseRequest{last}, s.past)
		if o := s.released(1)[0]; !o.Reply.Passed {
			s.t.Fatalf("%+v", o)
		}
		holder = waiter
	}
	return ask, pass
}

type benchmarkKind struct {
	what    string
	kind    lockagent.LockKind
	mode    lockagent.Mode
	acquire func(Room, *Call, []lockagent.AcquireRequest, Past)
	release func(Room, *Call, []ReleaseRequest, Past)
}

// lonePairs acquires and releases a lock of a kind.
func (s *server) lonePairs(kind benchmarkKind) func() {
	name := lockagent.Name("orders/" + kind.what)
	if kind.kind == lockagent.Semaphore || kind.kind == lockagent.Permits {
		s.do("SET", string(name), "10")
	}
	number := uint64(1000)
	return func() {
		number++
		req := wish(name, agentA, number)
		req.Kind, req.Mode = kind.kind, kind.mode
		kind.acquire(s.room, &s.call, []lockagent.AcquireRequest{req}, s.past)
		granted := s.acquired(1)[0]
		if !granted.Reply.Granted {
			s.t.Fatalf("%+v", granted)
		}
		s.past.Note(granted.Reply.At, granted.Reply.Token)
		s.past.Incarnation = granted.Reply.Incarnation
		last := end(req)
		last.Kind, last.Last = kind.kind, granted.Reply.Token
		kind.release(s.room, &s.call, []ReleaseRequest{last}, s.past)
		if o := s.released(1)[0]; !o.Reply.Released {
			s.t.Fatalf("%+v", o)
		}
	}
}

// spent is how many microseconds the server has spent on scripts.
func (s *server) spent() (us float64) {
	info, err := s.conn.Do("INFO", "commandstats")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(info.(string)) {
		if _, stats, of := strings.Cut(line, "cmdstat_evalsha:"); of {
			var calls int
			if _, err := fmt.Sscanf(stats, "calls=%d,usec=%f", &calls, &us); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return us
}

// pairs acquires and releases locks.
func (s *server) pairs(locks int) func() {
	wishes := make([]lockagent.AcquireRequest, locks)
	ends := make([]ReleaseRequest, locks)
	number := uint64(1000)
	return func() {
		number++
		for i := range wishes {
			wishes[i] = wish(lockagent.Name("orders/"+strconv.Itoa(i)), agentA, number)
		}
		for i, o := range s.acquireAll(wishes...) {
			if !o.Reply.Granted {
				s.t.Fatalf("%+v", o)
			}
			ends[i] = end(wishes[i])
			ends[i].Last = o.Reply.Token
		}
		for _, o := range s.releaseAll(ends...) {
			if !o.Reply.Released {
				s.t.Fatalf("%+v", o)
			}
		}
	}
}

// leastPairs does so without any care.
func (s *server) leastPairs(locks int) func() {
	acquire := newScript(`for i = 1, #KEYS do
		if redis.call('EXISTS', KEYS[i]) == 0 then
			redis.call('HSET', KEYS[i], ARGV[1], '1')
			redis.call('PEXPIRE', KEYS[i], ARGV[2])
		end
	end
	return 1`)
	release := newScript(`for i = 1, #KEYS do
		if redis.call('HDEL', KEYS[i], ARGV[1]) == 1 then
			redis.call('PUBLISH', ARGV[i + 1], '0')
		end
	end
	return 1`)
	if locks == 1 {
		acquire = newScript(`if redis.call('EXISTS', KEYS[1]) == 0 then
			redis.call('HSET', KEYS[1], ARGV[1], '1')
			redis.call('PEXPIRE', KEYS[1], ARGV[2])
			return 1
		end
		return 0`)
		release = newScript(`if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
			redis.call('PUBLISH', ARGV[2], '0')
			return 1
		end
		return 0`)
	}
	var names, channels []string
	for i := range locks {
		name := lockagent.Name("orders/" + strconv.Itoa(i))
		names, channels = append(names, string(name)), append(channels, Channel(name))
	}
	number := uint64(1000)
	return func() {
		number++
		owner := tenure(agentA, number).String()
		s.must(&Call{Script: acquire, Keys: names, Args: []string{owner, "30000"}})
		s.must(&Call{Script: release, Keys: names, Args: append([]string{owner}, channels...)})
	}
}
