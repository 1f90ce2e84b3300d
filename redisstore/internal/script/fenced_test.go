package script

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

const tokenKey = "redisson_lock_token:{orders}"

// fencedServer is a server on which locks are fenced.
type fencedServer struct{ *server }

func startFenced(t *testing.T) fencedServer { return fencedServer{start(t)} }

func (s fencedServer) acquireAll(requests ...lockagent.AcquireRequest) []Outcome[lockagent.AcquireReply] {
	s.t.Helper()
	s.room.AcquireFenced(&s.call, requests, s.past)
	outcomes := make([]Outcome[lockagent.AcquireReply], len(requests))
	if err := s.room.ReadAcquired(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	s.past.Note(outcomes[0].Reply.At, 0)
	s.past.Incarnation = outcomes[0].Reply.Incarnation
	return outcomes
}

func (s fencedServer) grant(req lockagent.AcquireRequest) lockagent.AcquireReply {
	s.t.Helper()
	o := s.acquireAll(req)[0]
	if o.Err != nil || !o.Reply.Granted {
		s.t.Fatalf("%q was not granted: %+v", req.Name, o)
	}
	return o.Reply
}

func (s fencedServer) release(req ReleaseRequest) lockagent.ReleaseReply {
	s.t.Helper()
	s.room.ReleaseFenced(&s.call, []ReleaseRequest{req}, s.past)
	outcomes := make([]Outcome[lockagent.ReleaseReply], 1)
	if err := s.room.ReadReleased(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	return outcomes[0].Reply
}

func (s fencedServer) renew(name lockagent.Name, tenure lockagent.Tenure, lease time.Duration) {
	s.t.Helper()
	s.room.RenewFenced(&s.call, []lockagent.RenewRequest{{Name: name, Tenure: tenure, Lease: lease}})
	s.must(&s.call)
}

// token is what the token key of a lock has. It has no TTL.
func (s fencedServer) token(key string) lockagent.Token {
	s.t.Helper()
	text, _ := s.Do("GET", key).(string)
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil || s.Do("PTTL", key) != int64(-1) {
		s.t.Fatalf("%s has %q for %v ms", key, text, s.Do("PTTL", key))
	}
	return lockagent.Token(token)
}

// ahead is how many microseconds the token key is above a token.
func (s fencedServer) ahead(of lockagent.Token) time.Duration {
	return time.Duration(int64(s.token(tokenKey))-int64(of)) * time.Microsecond
}

// While a tenure of ours has the lock, the key is above its tokens by what is left of the lease. Afterwards
// it is not, but never below the last token.
func TestTokenKeyAtEachStep(t *testing.T) {
	t.Parallel()
	s := startFenced(t)
	s.Do("SET", tokenKey, "41", "PX", "100000")
	first := s.grant(wish("orders", agentA, 1))
	if first.Token <= 41 || first.Token != lockagent.Token(first.At) || s.ahead(first.Token) != 30*time.Second {
		t.Errorf("granted %+v, the key is ahead by %v", first, s.ahead(first.Token))
	}
	before := s.ahead(first.Token)
	s.renew("orders", tenure(agentA, 1), time.Minute)
	if after := s.ahead(first.Token); after < before+29*time.Second || after > before+40*time.Second {
		t.Errorf("a renewal moved the key from %v to %v", before, after)
	}
	before = s.ahead(first.Token)
	s.renew("orders", tenure(agentA, 1), time.Second)
	s.renew("orders", tenure(agentB, 1), time.Hour)
	if after := s.ahead(first.Token); after != before {
		t.Errorf("a renewal that changed nothing moved the key from %v to %v", before, after)
	}
	req := end(wish("orders", agentA, 1))
	req.Last = first.Token + 59_000_000
	if s.release(req); s.token(tokenKey) != req.Last {
		t.Errorf("released with the last token %d, the key is %d", req.Last, s.token(tokenKey))
	}
	if s.release(req); s.token(tokenKey) != req.Last {
		t.Errorf("released again, the key is %d", s.token(tokenKey))
	}

	// A tenure without a hold tells no token.
	second := s.grant(wish("orders", agentA, 2))
	if s.release(end(wish("orders", agentA, 2))); s.ahead(second.Token) < 0 || s.ahead(second.Token) > 20*time.Second {
		t.Errorf("after a tenure without a hold the key is ahead by %v", s.ahead(second.Token))
	}

	// Redisson adds one.
	s.Do("INCR", tokenKey)
	java := s.token(tokenKey)
	third := s.grant(wish("orders", agentB, 3))
	again := s.grant(wish("orders", agentB, 3))
	if third.Token <= java || again.Token <= third.Token ||
		s.ahead(again.Token) < 29*time.Second || s.ahead(again.Token) > 50*time.Second {
		t.Errorf(
			"tokens %d and %d after Redisson's %d, the key is ahead by %v",
			third.Token, again.Token, java, s.ahead(again.Token),
		)
	}

	// A break and a crash leave the key above all that the tenure may have used.
	s.room.Break(&s.call, lockagent.BreakRequest{Name: "orders", Kind: lockagent.FencedLock}, s.past)
	s.must(&s.call)
	s.Do("INCR", tokenKey)
	if s.token(tokenKey) <= again.Token {
		t.Errorf("after a break the next token of Redisson is %d, after %d", s.token(tokenKey), again.Token)
	}
}

// Another program moves the key while a tenure has the lock. The release does not take that back.
func TestTokenKeyThatAnotherProgramHasMoved(t *testing.T) {
	t.Parallel()
	for name, used := range map[string]lockagent.Token{"used": 7, "not used": 0} {
		s := startFenced(t)
		granted := s.grant(wish("orders", agentA, 1))
		const theirs = 5000000000000000
		s.Do("SET", tokenKey, strconv.Itoa(theirs))
		req := end(wish("orders", agentA, 1))
		if used > 0 {
			req.Last = granted.Token + used
		}
		s.release(req)
		if after := s.token(tokenKey); after < theirs-30_000_000 {
			t.Errorf("%s: the key is %d, after %d", name, after, theirs)
		}
	}
}

// A renewal moves the key as far as the lease, wherever it is, and makes one that somebody has removed.
func TestTokenKeyAfterARenewal(t *testing.T) {
	t.Parallel()
	s := startFenced(t)
	s.Do("SET", tokenKey, "5000000000000000")
	granted := s.grant(wish("orders", agentA, 1))
	s.renew("orders", tenure(agentA, 1), time.Hour)
	if ahead := s.ahead(granted.Token); ahead < time.Hour || ahead > time.Hour+10*time.Second {
		t.Errorf("renewed for an hour, the key is ahead by %v", ahead)
	}
	s.Do("DEL", tokenKey)
	s.renew("orders", tenure(agentA, 1), time.Minute)
	if ahead := s.ahead(lockagent.Token(granted.At)); ahead < time.Minute {
		t.Errorf("the key that was removed is ahead by %v", ahead)
	}
}

// One script serves several locks.
func TestSeveralFencedLocks(t *testing.T) {
	t.Parallel()
	s := startFenced(t)
	s.Do("SET", "redisson_lock_token:{b}", "5000000000000000")
	s.grant(wish("c", agentB, 1))
	o := s.acquireAll(wish("a", agentA, 1), wish("b", agentA, 1), wish("c", agentA, 1), wish("a", agentA, 1))
	a, b, c := o[0].Reply, o[1].Reply, o[2].Reply
	if !a.Granted || !b.Granted || c.Granted || c.Holder != tenure(agentB, 1).String() ||
		b.Token != 5000000000000001 || a.Token >= b.Token || o[3].Reply.Token <= a.Token {
		t.Errorf("acquired %+v", o)
	}
	if key := s.token("redisson_lock_token:{a}"); key < o[3].Reply.Token+30_000_000 {
		t.Errorf("the key is %d after %d", key, o[3].Reply.Token)
	}
}

// A pass has a token above the key, and says of which kind the lock is.
func TestPassOfAFencedLock(t *testing.T) {
	t.Parallel()
	s := startFenced(t)
	holder := s.waits(agentA, "orders")
	waiter := s.waits(agentB, "orders")
	s.Do("SET", tokenKey, "5000000000000000")
	s.grant(wish("orders", agentA, 1))
	s.acquireAll(queueing("orders", agentB, 7))
	wanted := s.message(holder)
	if wanted.Kind != lockagent.MessageWanted || wanted.LockKind != lockagent.FencedLock ||
		wanted.Tenure != tenure(agentA, 1) {
		t.Errorf("told %+v", wanted)
	}
	req := end(wish("orders", agentA, 1))
	req.Last = 5000000020000000
	released := s.release(req)
	m := s.message(waiter)
	if !released.Passed || m.Kind != lockagent.MessagePassed ||
		m.LockKind != lockagent.FencedLock || m.Tenure != tenure(agentB, 7) ||
		m.Token != req.Last+1 || m.At < released.At ||
		s.token(tokenKey) != m.Token+lockagent.Token(lockagent.PassLease.Microseconds()) {
		t.Errorf("released %+v and told %+v, the key is %d", released, m, s.token(tokenKey))
	}
}

func TestRefusalsOfFencedLocks(t *testing.T) {
	t.Parallel()
	s := startFenced(t)
	far := wish("orders", agentA, 1)
	far.Floor = lockagent.MaxToken - 1
	spoil := func(value ...string) func() {
		return func() { s.Do(append([]string{value[0], tokenKey}, value[1:]...)...) }
	}
	for name, tt := range map[string]struct {
		spoil func()
		req   lockagent.AcquireRequest
		want  error
	}{
		"a floor that is none": {func() {}, far, lockagent.ErrBadOption},
		"a key that is none":   {spoil("HSET", "a", "b"), wish("orders", agentA, 1), lockagent.ErrWrongType},
		"no number":            {spoil("SET", "seven"), wish("orders", agentA, 1), lockagent.ErrWrongType},
		"at the end":           {spoil("SET", "9007199254740990"), wish("orders", agentA, 1), lockagent.ErrNoTokens},
	} {
		s.Do("FLUSHALL")
		tt.spoil()
		s.room.AcquireFenced(&s.call, []lockagent.AcquireRequest{tt.req}, Past{})
		outcomes := make([]Outcome[lockagent.AcquireReply], 1)
		if err := s.room.ReadAcquired(s.must(&s.call), Past{}, outcomes); err != nil {
			t.Fatal(err)
		}
		if got := outcomes[0].Err; !errors.Is(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		if held := s.Do("HGET", "orders", tenure(agentA, 1).String()); held != nil {
			t.Errorf("%s: the lock is held all the same", name)
		}
	}
}
