package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// redis is a server: a miniredis, and what it lacks.
type redis struct {
	mini  *miniredis.Miniredis
	runID string
	// digests are those of the scripts with what miniredis lacks, by those of the scripts without it.
	digests map[string]string
	clock   clock
	records *recorder // or nil
}

func newRedis(random *rand.Rand, clock clock) *redis {
	r := &redis{
		clock: clock,
		mini:  miniredis.NewMiniRedis(), digests: make(map[string]string),
		runID: fmt.Sprintf("%016x%016x%08x", random.Uint64(), random.Uint64(), random.Uint32()),
	}
	conn, err := r.mini.Dial() // the first call starts the server, without a listener
	if err != nil {
		panic(err)
	}
	_ = conn.Close()
	r.mini.SetTime(r.clock.now())
	r.mini.ClockTTL(true)
	r.mini.Server().SetPreHook(r.before)
	return r
}

// before is called before each command, also before those of scripts. It reports whether the command is done.
func (r *redis) before(c *server.Peer, command string, args ...string) bool {
	if r.takes(c, command, args) {
		return true
	}
	switch command {
	case "INFO": // of miniredis it has neither this section nor a run
		c.WriteBulk("# Server\r\nredis_version:8.4.0\r\nredis_mode:standalone\r\nrun_id:" + r.runID + "\r\n")
		return true
	case "EVAL", "EVALSHA": // no script begins another one, and a script sees one time
		now := r.clock.now()
		r.mini.SetTime(now)
		if r.records != nil {
			r.records.running.At = now.UnixMicro()
		}
		r.complete(command, args) // the server passes the same slice on
	}
	return false
}

func (r *redis) dial() (net.Conn, error) { return r.mini.Dial() }

// close ends the server. Nobody waits for it: it waits for its connections.
func (r *redis) close() { go r.mini.Close() }

// step sets the clock of the server. Redis keeps the end of a key as a time of its clock, and miniredis what is left.
func (r *redis) step(by time.Duration) {
	r.mini.SetTime(r.clock.now())
	r.clock.ahead += by
	db := r.mini.DB(0)
	if by < 0 {
		for _, key := range db.Keys() {
			if left := db.TTL(key); left > 0 {
				db.SetTTL(key, left-by)
			}
		}
	}
	r.mini.SetTime(r.clock.now())
}

// copy returns a server with the data of this one, as a replica has them.
func (r *redis) copy(random *rand.Rand) *redis {
	r.mini.SetTime(r.clock.now())
	to := newRedis(random, r.clock.next())
	from, db := r.mini.DB(0), to.mini.DB(0)
	for _, key := range from.Keys() {
		switch kind := from.Type(key); kind {
		case "string":
			text, _ := from.Get(key)
			_ = db.Set(key, text)
		case "hash":
			fields, _ := from.HKeys(key)
			for _, field := range fields {
				db.HSet(key, field, from.HGet(key, field))
			}
		case "list":
			list, _ := from.List(key)
			_, _ = db.Push(key, list...)
		case "zset":
			scores, _ := from.SortedSet(key)
			for member, score := range scores {
				_, _ = db.ZAdd(key, score, member)
			}
		default:
			panic("no lock is in a " + kind)
		}
		if left := from.TTL(key); left > 0 {
			db.SetTTL(key, left)
		}
	}
	return to
}

// sleep waits for a time of the run.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
