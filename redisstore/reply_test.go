package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// A reply says nothing of locks that were granted or released as most are. So one that is not
// understood to its end must not be believed at all.
func TestRepliesThatAreNotUnderstood(t *testing.T) {
	server := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reply := func(lua string) rueidis.RedisMessage {
		m, err := run(client, transport.NewScript("return "+lua), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const locks = 2
	p := newTestPacker()
	for lua, good := range map[string]bool{
		`'1700 1708 life'`:                        true,
		`'1700 1708 '`:                            true, // of a Cluster
		`{'1700 1708 life', 2, 1, 1709}`:          true,
		`{'1700 1708 life', 1, -1, 2, 0, 5, 'x'}`: true,
		`''`:                               false,
		`'1700'`:                           false,
		`'1700 1708'`:                      false,
		`'now 1708 life'`:                  false,
		`'1700 first life'`:                false,
		`1700`:                             false,
		`{}`:                               false,
		`{1700}`:                           false,
		`{'1700 1708 life', 3, -1}`:        false, // there is no third lock
		`{'1700 1708 life', 2, -1, 1, -1}`: false, // not in their order
		`{'1700 1708 life', 'x', -1}`:      false,
		`{'1700 1708 life', 2}`:            false,
		`{'1700 1708 life', 2, 0, 5}`:      false,
		`{'1700 1708 life', 2, 7}`:         false,
		`{'1700 1708 life', 2, 1, 'x'}`:    false,
	} {
		if _, err := parseAcquired(nil, reply(lua), locks); (err == nil) != good {
			t.Errorf("an acquire that is answered %s: error %v", lua, err)
		}
	}
	for lua, good := range map[string]bool{
		`'1700'`:                       true,
		`{'1700', 1, 0, 2, 3}`:         true,
		`{'1700', 2, 2, 1, 1600, 0}`:   true,
		`{'1700', 1, -1, 'ERR', 2, 0}`: true,
		`''`:                           false,
		`'now'`:                        false,
		`{'1700', 0, 0}`:               false,
		`{'1700', 3, 0}`:               false,
		`{'1700', 2, 0, 1, 0}`:         false,
		`{'1700', 2}`:                  false,
		`{'1700', 2, 1}`:               false,
		`{'1700', 2, 9}`:               false,
		`{'1700', 2, 2, 1, 1600}`:      false,
	} {
		if _, err := p.parseReleased(nil, reply(lua), locks); (err == nil) != good {
			t.Errorf("a release that is answered %s: error %v", lua, err)
		}
	}
}

// Each lock of a script has the lease, the tokens and the floor that were asked for it,
// whichever of them most have.
func TestUnlikeLocksInABatch(t *testing.T) {
	server := redistest.Start(t)
	clock := batch{packer: newTestPacker()}
	now := lockagent.Token(0)
	first := clock.acquire("first", one, 1)
	done := first.done
	first.done = func(r lockagent.AcquireReply, err error) {
		now = r.Token
		done(r, err)
	}
	clock.travel(t, server, "")

	wishes := []lockagent.AcquireRequest{
		{Name: "short", Lease: 10 * time.Second, Tokens: 1},
		{Name: "plain", Lease: time.Minute, Tokens: 1},
		{Name: "with a past floor", Lease: time.Minute, Tokens: 1, Floor: now},
		{Name: "with many tokens", Lease: time.Minute, Tokens: 1000},
		{Name: "also plain", Lease: time.Minute, Tokens: 1},
		{Name: "with a floor to come", Lease: time.Minute, Tokens: 1, Floor: now + 3_600_000_000},
		{Name: "again", Lease: time.Minute, Tokens: 1},
	}
	b := batch{packer: clock.packer}
	replies := make([]lockagent.AcquireReply, len(wishes))
	for i, w := range wishes {
		a := b.acquire(w.Name, one, uint64(i+2))
		w.Tenure = a.req.Tenure
		a.req = w
		a.done = func(r lockagent.AcquireReply, err error) {
			if replies[i] = r; err != nil || !r.Granted {
				t.Errorf("%q was answered %+v, %v", w.Name, r, err)
			}
		}
	}
	b.travel(t, server, "")
	for i, w := range wishes {
		if left := time.Duration(server.Do("PTTL", string(w.Name)).(int64)) * time.Millisecond; left > w.Lease || left < w.Lease/2 {
			t.Errorf("%q has a lease of %v, want %v", w.Name, left, w.Lease)
		}
		switch got := replies[i].Token; {
		case got <= w.Floor || got <= now:
			t.Errorf("%q has token %d, want one above %d and %d", w.Name, got, w.Floor, now)
		case got > replies[1].Token && w.Floor <= now:
			t.Errorf("%q has token %d, though %d was enough", w.Name, got, replies[1].Token)
		}
		kept := server.Do("EXISTS", "lockagent_token:{"+string(w.Name)+"}") == int64(1)
		if ahead := w.Tokens > 8 || w.Floor > now; kept != ahead {
			t.Errorf("the last token of %q is kept: %v, want %v", w.Name, kept, ahead)
		}
	}
}

// The numbers of tenures are compared as numbers, however many digits they have.
func TestNumbersOfManyLengths(t *testing.T) {
	server := redistest.Start(t)
	numbers := []uint64{10, 9, 100, 99, 1<<63 - 1, 11}
	name := func(number uint64) lockagent.Name { return lockagent.Name(strconv.FormatUint(number, 10)) }
	acquire := func(want string) {
		t.Helper()
		var b batch
		var wants []string
		for _, number := range numbers {
			b.acquire(name(number), one, number)
			wants = append(wants, want)
		}
		b.travel(t, server, "")
		expect(t, "acquires", b.acquired, wants...)
	}
	release := func() {
		var b batch
		for _, number := range numbers {
			b.release(name(number), one, number)
		}
		b.travel(t, server, "")
	}
	acquire("granted")
	release()
	acquire(lockagent.ErrWithdrawn.Error())
	server.Do("FLUSHALL")
	release()
	acquire(lockagent.ErrWithdrawn.Error())

	// Earlier tenures of other locks are none the worse for it.
	var b batch
	b.acquire("another", one, 5)
	b.travel(t, server, "")
	expect(t, "acquires", b.acquired, "granted")
}

// Tokens grow although the clock of the server has been set back, by little or much.
func TestTokensGrowWhenTheClockIsSetBack(t *testing.T) {
	server := redistest.Start(t)
	for _, ahead := range []time.Duration{-4 * time.Microsecond, 200 * time.Microsecond, time.Hour} {
		var last lockagent.Token
		for i := range 5 {
			if i == 1 {
				server.Do("SET", "lockagent_clock", strconv.FormatInt(int64(last)+ahead.Microseconds(), 10))
				last += lockagent.Token(ahead.Microseconds()) + 7 // those that may have been used
			}
			var b batch
			a := b.acquire(lockagent.Name("orders/"+strconv.Itoa(i)), one, 1)
			a.done = func(r lockagent.AcquireReply, err error) {
				if err != nil || r.Token <= last {
					t.Errorf("%v ahead: token %d after %d, error %v", ahead, r.Token, last, err)
				}
				last = r.Token + lockagent.Token(a.req.Tokens) - 1
			}
			b.travel(t, server, "")
		}
		server.Do("FLUSHALL")
	}
}

// Who listens to a pattern hears of releases that travel together, too.
func TestAReleaseIsHeardByPattern(t *testing.T) {
	server := redistest.Start(t)
	for listeners, number := range []uint64{1, 2} {
		var b batch
		b.acquire("1", one, number)
		b.acquire("2", one, number)
		b.travel(t, server, "")
		p := newTestPacker()
		p.queues = true
		b = batch{packer: p}
		for i, name := range []lockagent.Name{"1", "2"} {
			b.release(name, one, number)
			b.releases[i].done = wrap(b.releases[i].done, func(r lockagent.ReleaseReply) {
				if r.Others != listeners {
					t.Errorf("%d others heard of a release, want %d", r.Others, listeners)
				}
			})
		}
		if listeners == 1 {
			conn := server.Dial()
			if _, err := conn.Do("PSUBSCRIBE", "redisson_lock__channel:*"); err != nil {
				t.Fatal(err)
			}
		}
		b.travel(t, server, "")
		expect(t, "releases", b.released, "true", "true")
	}
}

// What was released before the clock of the server was set back is not forgotten earlier
// for that.
func TestReleasesAreKeptWhenTheClockIsSetBack(t *testing.T) {
	server := redistest.Start(t)
	later := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
	for _, key := range []string{"lockagent_even:", "lockagent_odd:"} {
		server.Do("HSET", key+string(one), "", "0000000000000000007:"+later, "orders", "0000000000000000007:1:1000000:0")
	}
	for _, held := range []bool{true, false} { // released, and withdrawn
		var b batch
		if held {
			b.acquire("another", one, 8)
			b.travel(t, server, "")
			b = batch{}
		}
		b.release("another", one, 8)
		b.travel(t, server, "")
		found := 0
		for _, key := range []string{"lockagent_even:", "lockagent_odd:"} {
			mark := server.Do("HGET", key+string(one), "")
			if mark == "0000000000000000008:"+later && server.Do("HEXISTS", key+string(one), "orders") == int64(1) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("held %v: no hash has the later time, and what was released before", held)
		}
		server.Do("HDEL", "lockagent_even:"+string(one), "another")
		server.Do("HDEL", "lockagent_odd:"+string(one), "another")
	}
}
