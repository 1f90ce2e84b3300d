package lockagent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// What bad days do to locks on a real Redis: it is killed, emptied, slow, cut off,
// or refuses. No test here waits for a time to pass.

// openAgent is an agent of its own at a Redis server, reached at addr.
func openAgent(t *testing.T, cfg redisstore.Config, addr string, agent channelapi.Config) *channelapi.Locks {
	t.Helper()
	cfg.DialTimeout, cfg.GraceFirst = slowest, redisstore.NoGraceFirst
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout, cfg.SilenceTimeout = slowest, slowest
	}
	store, err := cfg.Open(waittest.Context(t), "redis://"+addr)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	agent.Store = store
	if agent.Lease == 0 {
		agent.Lease = time.Hour // or what comes only because a lease has run out would come, too
	}
	locks, err := channelapi.New(agent)
	must(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

func holdOf(t *testing.T, locks *channelapi.Locks, name string, opts ...channelapi.Option) lockagent.Grant {
	t.Helper()
	return receive(t, locks.Lock(name, opts...).AcquireAsync(t.Context()))
}

// awaitLoss waits until a hold is over and returns why.
func awaitLoss(t *testing.T, g lockagent.Grant) lockagent.LossReason {
	t.Helper()
	waittest.Receive(t, "the end of the hold", g.Done())
	lost, ok := errors.AsType[*lockagent.LostError](g.Cause())
	if !ok {
		t.Fatalf("the hold ended because of %v", g.Cause())
	}
	return lost.Reason
}

func awaitWaiters(t *testing.T, locks *channelapi.Locks, name string, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprint(n, " requests to wait"), func() bool {
		s, err := locks.Lock(name).Status(t.Context())
		must(t, err)
		return s.Waiters == n
	})
}

func channelOf(name string) string { return "redisson_lock__channel:{" + name + "}" }

func awaitSubscribers(t *testing.T, redis *redistest.Server, name string) {
	t.Helper()
	waittest.Until(t, "somebody to listen for the release", func() bool {
		return fmt.Sprint(redis.Do("PUBSUB", "NUMSUB", channelOf(name))) != fmt.Sprintf("[%s 0]", channelOf(name))
	})
}

// However many wait, an agent subscribes once to a lock, asks the store twice, and
// then sleeps: nothing polls.
func TestManyWaitersOneSubscription(t *testing.T) {
	redis := redistest.Start(t)
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	beta := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{HandOffTime: time.Hour})
	// The first wait of an agent makes its connection for subscriptions, and looks
	// whether that leads to the same Redis.
	warm := holdOf(t, alpha, "warm")
	warming := beta.Lock("warm").AcquireAsync(t.Context())
	awaitSubscribers(t, redis, "warm")
	// ReleaseAsync, because a caller who waits has a connection of its own, which would have the store look again.
	give := func(g lockagent.Grant) { must(t, waittest.Receive(t, "a release", g.ReleaseAsync(t.Context()))) }
	give(warm)
	give(receive(t, warming))

	hold := holdOf(t, alpha, theLock)
	scripts, subscriptions := redis.Calls("evalsha"), redis.Calls("subscribe")

	const waiters = 100
	var all []<-chan lockagent.Grant
	redis.Pause() // so that all have come when beta asks for the second time
	for range waiters {
		all = append(all, beta.Lock(theLock).AcquireAsync(t.Context()))
	}
	redis.Resume()
	// The second attempt is the one that follows the subscription.
	waittest.Until(t, "beta to ask twice", func() bool { return redis.Calls("evalsha") >= scripts+2 })
	for range 1000 { // some time for more, if there were more
		redis.Do("PING")
	}
	if n := redis.Calls("evalsha") - scripts; n != 2 {
		t.Errorf("%d scripts ran for %d waiters, want 2", n, waiters)
	}
	if n := redis.Calls("subscribe") - subscriptions; n != 2 { // to the lock's channel, and to that of the agents
		t.Errorf("%d SUBSCRIBE for %d waiters of one lock, want 2", n, waiters)
	}

	// The lock is passed on, and handed off to all the others.
	give(hold)
	for _, grant := range all {
		give(receive(t, grant))
	}
	// alpha's release, and beta's
	if n := redis.Calls("evalsha") - scripts - 2; n != 2 {
		t.Errorf("%d scripts ran to serve %d waiters, want 2", n, waiters)
	}
}

// noGrace is for those who prefer an overlap to waiting.
var noGrace = redisstore.Config{Grace: redisstore.GraceOff}

// Without a grace period, whoever waits when Redis dies goes on as soon as it is back, and whoever holds is
// told that the lock was forgotten.
func TestRedisRestartsEmpty(t *testing.T) {
	redis := redistest.Start(t)
	alpha := openAgent(t, noGrace, redis.Addr(), channelapi.Config{})
	beta := openAgent(t, noGrace, redis.Addr(), channelapi.Config{})
	hold := holdOf(t, alpha, theLock)
	waiting := beta.Lock(theLock).AcquireAsync(t.Context())
	awaitWaiters(t, beta, theLock, 1)

	redis.Kill()
	redis.Restart()

	if why := awaitLoss(t, hold); why != lockagent.LostDenied {
		t.Errorf("the holder was told %q, want %q", why, lockagent.LostDenied)
	}
	next := receive(t, waiting)
	if next.Token() <= hold.Token() {
		t.Errorf("token %d after %d", next.Token(), hold.Token())
	}
	if err := hold.Release(t.Context()); !errors.Is(err, lockagent.ErrLost) {
		t.Errorf("the release of what was lost: %v", err)
	}
	must(t, next.Release(t.Context()))

	again := holdOf(t, alpha, theLock)
	if again.Token() <= next.Token() {
		t.Errorf("token %d after %d", again.Token(), next.Token())
	}
	must(t, again.Release(t.Context()))
}

// Without a grace period, a holder that is cut off while Redis forgets its lock overlaps with the next one.
// The audit names that overlap, and the reset that explains it.
func TestForgottenHoldIsExplained(t *testing.T) {
	redis := redistest.Start(t)
	proxy := faultproxy.Start(t, redis.Addr())
	alphas, betas := newJournal(), newJournal()
	alpha := openAgent(t, noGrace, proxy.Addr(), channelapi.Config{Recorder: alphas})
	beta := openAgent(t, noGrace, redis.Addr(), channelapi.Config{Recorder: betas})
	first := holdOf(t, alpha, theLock)

	proxy.Refuse(true)
	proxy.Cut()
	redis.Kill()
	redis.Restart()
	second := holdOf(t, beta, theLock)
	if !first.Held() {
		t.Fatal("the first holder knows already: there is no overlap to find")
	}
	proxy.Refuse(false)
	if why := awaitLoss(t, first); why != lockagent.LostDenied {
		t.Errorf("the first holder was told %q, want %q", why, lockagent.LostDenied)
	}
	must(t, second.Release(t.Context()))
	must(t, alpha.Close())
	must(t, beta.Close())

	report := auditOf(alphas, betas)
	if report.Violations.Count > 0 || report.Explained.Count != 1 || report.Resets.Count == 0 {
		t.Fatalf("the audit says\n%v", report)
	}
	if e := report.Explained.First[0]; e.First.Token != first.Token() || e.Second.Token != second.Token() {
		t.Errorf("the overlap is of %d and %d, want %d and %d", e.First.Token, e.Second.Token, first.Token(), second.Token())
	}
}

// An operator breaks a lock that another agent holds. The holder is told at once. If the
// holds overlap all the same, the audit knows why.
func TestBrokenElsewhereIsExplained(t *testing.T) {
	redis := redistest.Start(t)
	alphas, betas := newJournal(), newJournal()
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{Recorder: alphas, Lease: 5 * time.Second})
	beta := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{Recorder: betas})
	first := holdOf(t, alpha, theLock)
	if held, err := beta.Lock(theLock).Break(t.Context(), ""); err != nil || !held {
		t.Fatalf("Break: %t, %v", held, err)
	}
	second := holdOf(t, beta, theLock)
	if why := awaitLoss(t, first); why != lockagent.LostBroken {
		t.Errorf("the first holder was told %q, want %q", why, lockagent.LostBroken)
	}
	must(t, second.Release(t.Context()))
	must(t, alpha.Close())
	must(t, beta.Close())
	report := auditOf(alphas, betas)
	if report.Verdict != audit.Proven && report.Verdict != audit.Explained || report.Explained.Count > 1 {
		t.Errorf("the audit says\n%v", report)
	}
	for _, overlap := range report.Explained.First {
		if overlap.BrokenAt == 0 {
			t.Errorf("the audit does not explain %+v", overlap)
		}
	}
}

// auditOf judges what the agents recorded.
func auditOf(journals ...*journal) audit.Report {
	auditor := audit.New()
	for _, j := range journals {
		for i, e := range j.events {
			auditor.Add(events.Record{Event: e, Epoch: 1, Seq: uint64(i + 1)})
		}
	}
	return auditor.Report()
}

// The answer to an acquire or a release is lost, though it was carried out: the lock
// is held once, and released once.
func TestLostReplies(t *testing.T) {
	redis := redistest.Start(t)
	proxy := faultproxy.Start(t, redis.Addr())
	alpha := openAgent(t, redisstore.Config{}, proxy.Addr(), channelapi.Config{})
	// The release makes a small request of each script, because the server has the scripts.
	must(t, holdOf(t, alpha, theLock).Release(t.Context()))

	// Once a connection breaks, the store also asks the server who it is. Those calls name no lock.
	lost := proxy.LoseReply(theLock)
	hold := holdOf(t, alpha, theLock)
	<-lost
	if fields := redis.Do("HVALS", theLock); fmt.Sprint(fields) != "[2]" { // a plain lock
		t.Errorf("the lock's hash has the values %v, want one 2", fields)
	}

	lost = proxy.LoseReply(channelOf(theLock)) // of a holder's calls, only the release names it
	if err := hold.Release(t.Context()); !errors.Is(err, lockagent.ErrUnconfirmed) {
		t.Errorf("a release without an answer: %v, want ErrUnconfirmed", err)
	}
	<-lost
	must(t, holdOf(t, alpha, theLock).Release(t.Context()))
	if n := redis.Do("EXISTS", theLock); fmt.Sprint(n) != "0" {
		t.Error("the lock is still there")
	}
}

// Redis hangs for longer than any call is given. Nobody stalls for ever.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	alpha := openAgent(
		t, redisstore.Config{CallTimeout: 4 * time.Second, SilenceTimeout: 4 * time.Second}, redis.Addr(),
		channelapi.Config{},
	)
	release := func(g lockagent.Grant) {
		t.Helper()
		err := g.Release(t.Context())
		if !errors.Is(err, lockagent.ErrUnconfirmed) { // Redis answers late on a machine that is busy
			must(t, err)
		}
	}
	release(holdOf(t, alpha, theLock))

	redis.Pause()
	waiting := alpha.Lock(theLock).AcquireAsync(t.Context())
	if _, err := alpha.Lock("another").TryAcquire(t.Context()); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("a try while Redis hangs: %v, want ErrStoreUnavailable", err)
	}
	_, err := alpha.Lock("a third", channelapi.Wait(10*time.Second)).Acquire(t.Context())
	if !errors.Is(err, lockagent.ErrTimeout) || !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("a wait while Redis hangs: %v, want ErrTimeout and ErrStoreUnavailable", err)
	}
	redis.Resume()
	release(receive(t, waiting))
}

// A session takes a lock for a moment, and again to keep it. The short lease is
// extended before it ends.
func TestShortLeaseIsKept(t *testing.T) {
	t.Parallel()
	const short = 30 * time.Second // the test waits for a third of it
	redis := redistest.Start(t)
	events := newJournal()
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{Recorder: events})
	session, err := alpha.Session("ann")
	must(t, err)
	receive(t, session.Lock(theLock, channelapi.Lease(short)).AcquireAsync(t.Context()))
	kept := receive(t, session.Lock(theLock).AcquireAsync(t.Context()))
	for kept.Held() && kept.Remaining() < 2*short {
		events.await(t, "renewed") // the first one may only be because messages may have been missed
	}
	if !kept.Held() {
		t.Errorf("the hold has ended: %v", kept.Cause())
	}
	must(t, kept.Release(t.Context()))
}

// Requests are abandoned at random moments. No key, no waiter, no hold is left.
func TestAbandonedRequests(t *testing.T) {
	redis := redistest.Start(t)
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	beta := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	var all sync.WaitGroup
	for i := range 200 {
		locks := []*channelapi.Locks{alpha, beta}[i%2]
		name := fmt.Sprintf("abandoned/%d", i%7)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(5*time.Millisecond))))
			defer cancel()
			grant := locks.Lock(name).AcquireAsync(ctx)
			<-ctx.Done() // and the channel is left alone
			_ = grant
		})
	}
	all.Wait()
	// Whoever asks now gets each lock, so nobody else has it.
	for i := range 7 {
		must(t, holdOf(t, alpha, fmt.Sprintf("abandoned/%d", i)).Release(t.Context()))
	}
	must(t, alpha.Close())
	must(t, beta.Close())
	if keys := redis.Do("KEYS", "abandoned/*"); fmt.Sprint(keys) != "[]" {
		t.Errorf("these locks are left: %v", keys)
	}
}

// A Redisson client holds the lock, and releases it as Redisson does.
func TestForeignHolder(t *testing.T) {
	redis := redistest.Start(t)
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	const java = "0f8fad5b-d9cb-469f-a165-70867728950e:42"
	redis.Do("HSET", theLock, java, "2")
	redis.Do("PEXPIRE", theLock, "600000")

	_, err := alpha.Lock(theLock).TryAcquire(t.Context())
	if held, ok := errors.AsType[*lockagent.HeldError](err); !ok || held.Holder != java {
		t.Errorf("a try: %v, want that %s holds it", err, java)
	}
	if s, err := alpha.Lock(theLock).Status(t.Context()); err != nil || s.Holder != java || s.HoldCount != 2 || !s.Locked {
		t.Errorf("the status is %+v, %v", s, err)
	}
	waiting := alpha.Lock(theLock).AcquireAsync(t.Context())
	awaitWaiters(t, alpha, theLock, 1)
	awaitSubscribers(t, redis, theLock)
	redis.Do("DEL", theLock)
	redis.Do("PUBLISH", channelOf(theLock), "0")
	hold := receive(t, waiting)

	// And what Java would see of ours: one owner, the number of a plain lock, and a TTL.
	fields, _ := redis.Do("HGETALL", theLock).([]any)
	if len(fields) != 2 || !strings.HasPrefix(fmt.Sprint(fields[0]), string(alpha.ID())+":") ||
		fmt.Sprint(fields[1]) != "2" {
		t.Errorf("the lock's hash is %v", fields)
	}
	if ttl, ok := redis.Do("PTTL", theLock).(int64); !ok || ttl <= 0 {
		t.Errorf("the lock's hash lives for %v ms", ttl)
	}
	must(t, hold.Release(t.Context()))
}

// What cannot work is refused, each with an error of its own.
func TestRefusals(t *testing.T) {
	redis := redistest.Start(t, redistest.WithUser("reader", "secret", "~* &* +@read +@connection +info"))
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})

	redis.Do("SET", "text", "not a lock")
	for what, ask := range map[string]func() error{
		"acquire": func() error { _, err := alpha.Lock("text").Acquire(t.Context()); return err },
		"inspect": func() error { _, err := alpha.Lock("text").Status(t.Context()); return err },
		"break":   func() error { _, err := alpha.Lock("text").Break(t.Context(), ""); return err },
	} {
		if err := ask(); !errors.Is(err, lockagent.ErrWrongType) {
			t.Errorf("%s of a key that is text: %v, want ErrWrongType", what, err)
		}
	}
	if v := redis.Do("GET", "text"); v != "not a lock" {
		t.Errorf("the text is now %v", v)
	}

	for url, want := range map[string]error{
		redis.UserURL("reader", "wrong"):  lockagent.ErrNotPermitted,
		"http://" + redis.Addr():          lockagent.ErrBadURL,
		"redis://127.0.0.1:port":          lockagent.ErrBadURL,
		"redis://127.0.0.1:1":             lockagent.ErrStoreUnavailable,
		redis.UserURL("reader", "secret"): lockagent.ErrNotPermitted,
	} {
		store, err := redisstore.Config{GraceFirst: redisstore.NoGraceFirst}.Open(t.Context(), url)
		if !errors.Is(err, want) {
			t.Errorf("Open(%s) = %v, want %v", url, err, want)
		}
		if err == nil {
			must(t, store.Close())
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

// An agent that asks nothing of its store tells the store's time all the same. Otherwise no audit
// could judge what others did.
func TestIdleAgentTellsTheTime(t *testing.T) {
	t.Parallel()
	redis, nats := redistest.Start(t), natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	id := lockagent.NewAgentID()
	publisher, err := natslog.NewPublisher(natslog.Config{Connection: nats, Agent: id, Heartbeat: 100 * time.Millisecond})
	must(t, err)
	openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{ID: id, Recorder: publisher})
	busy := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	ctx := waittest.Context(t)
	must(t, publisher.Flush(ctx)) // so there is a stream
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: nats})
	must(t, err)
	defer reader.Close()
	token, enough := holdOf(t, busy, theLock).Token(), errors.New("enough")
	err = reader.Tail(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		if r.Kind == lockagent.EventAlive && r.StoreTime > lockagent.StoreTime(token) {
			return enough
		}
		return err
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
	must(t, publisher.Close(ctx))
}

// One agent takes and releases a lock as fast as it can. Then Redis is flushed, and another agent
// takes the lock. Its token is greater all the same: tokens do not run ahead of the clock that
// they are made from.
func TestTokensGrowAfterFlush(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	beta := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	var last lockagent.Token
	for range 500 {
		g := holdOf(t, alpha, theLock)
		last = g.Token()
		must(t, g.Release(t.Context()))
	}
	redis.Do("FLUSHALL")
	g := holdOf(t, beta, theLock)
	if g.Token() <= last {
		t.Errorf(
			"token %d after %d: tokens had run %v ahead of the clock", g.Token(), last,
			time.Duration(last-g.Token())*time.Microsecond,
		)
	}
	must(t, g.Release(t.Context()))
}
