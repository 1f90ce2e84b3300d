package claims

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/journal"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/memstore"
)

// world is a store, and the journal of the book that uses it.
type world struct {
	t       *testing.T
	dir     string
	lives   int
	store   *memstore.Store
	started map[int]uint64 // when processes started

	book    *Book
	agent   *actor.Agent
	journal *journal.Journal
}

// newWorld starts the first book.
func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), store: memstore.New(), started: make(map[int]uint64)}
	w.begin()
	t.Cleanup(func() {
		_ = w.agent.Close()
		_ = w.journal.Close()
	})
	return w
}

func (w *world) path() string { return filepath.Join(w.dir, fmt.Sprint("journal", w.lives)) }

// begin begins a book, which goes on from the journal.
func (w *world) begin() {
	w.t.Helper()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	j, before, err := journal.Open(w.path())
	must(err)
	b, err := New(Config{
		Journal: j, Records: before.Records, Grace: 10 * time.Second, Started: func(pid int) uint64 { return w.started[pid] },
	})
	must(err)
	cfg := actor.Config{Store: w.store.Share(), Journal: j, Logger: slog.New(slog.DiscardHandler), Resumed: b.Resumed}
	var agent *actor.Agent
	if before.Agent == nil {
		agent, err = actor.New(cfg)
	} else {
		agent, err = actor.Resume(cfg, *before.Agent)
	}
	must(err)
	b.Begin(agent)
	w.book, w.agent, w.journal = b, agent, j
}

// restart kills the book, and begins the next one after a while.
func (w *world) restart(after time.Duration) {
	w.t.Helper()
	w.kill()
	pass(after)
	w.begin()
	synctest.Wait()
}

// kill kills the book.
func (w *world) kill() {
	w.t.Helper()
	content, err := os.ReadFile(w.path()) // what SIGKILL would leave
	if err != nil {
		w.t.Fatal(err)
	}
	w.book.Leave()
	w.agent.Detach()
	_ = w.agent.Close()
	_ = w.journal.Close()
	w.lives++
	if err := os.WriteFile(w.path(), content, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// attached attaches to a claim that must be there.
func (w *world) attached(by Client, claim, secret string) *Stream {
	w.t.Helper()
	s, err := w.book.Attach(by, claim, secret, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

// Claims keep lock, token and place. So do several of one session.
func TestClaimsGoOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		labels := map[string]string{"ticket": "7"}
		held := ask(t, w.book, Request{Client: ann, Name: "door", Command: "make", Labels: labels})
		g := read[Granted](t, held)
		var session []Granted
		for range 2 {
			session = append(session, read[Granted](t, ask(t, w.book, Request{Client: ann, Name: "desk", Session: "job"})))
		}
		var waiting []Queued
		for _, by := range []Client{bob, ann} {
			waiting = append(waiting, read[Queued](t, ask(t, w.book, Request{Client: by, Name: "door"})))
		}
		counts(t, w.book, 3, 2)
		w.restart(time.Second)
		counts(t, w.book, 3, 2)
		l := w.book.Lock("door")
		if h := l.Holders[0]; !h.Resumed || h.Token != g.Grant.Token() || h.Command != "make" ||
			!maps.Equal(h.Labels, labels) || h.Client != ann {
			t.Errorf("the holder is %+v", h)
		}
		if l.Waiters[0].ID != waiting[0].Claim || l.Waiters[1].ID != waiting[1].Claim {
			t.Errorf("the waiters are %+v", l.Waiters)
		}
		again := w.attached(ann, g.Claim, g.Secret)
		if h := read[Granted](t, again); h.Grant.Token() != g.Grant.Token() || h.Claim != g.Claim {
			t.Errorf("token %d after %d", h.Grant.Token(), g.Grant.Token())
		}
		for _, g := range session {
			s := w.attached(ann, g.Claim, g.Secret)
			if h := read[Granted](t, s); h.Grant.Token() != g.Grant.Token() {
				t.Errorf("token %d after %d", h.Grant.Token(), g.Grant.Token())
			}
			s.Close()
		}
		if _, err := w.book.Attach(ann, g.Claim, "guess", nil); !errors.Is(err, refusal.ErrNoClaim) {
			t.Error(err)
		}
		first := w.attached(bob, waiting[0].Claim, waiting[0].Secret)
		second := w.attached(ann, waiting[1].Claim, waiting[1].Secret)
		read[Queued](t, first)
		read[Queued](t, second)
		pass(time.Minute) // all have come back, so no grace ends anything
		again.Close()
		read[Granted](t, first)
		silent(t, second)
		first.Close()
		read[Granted](t, second)
		second.Close()
		free(t, w.book, "door")
	})
}

// A claim whose client does not come back ends with the grace. One whose process has ended does so at once.
func TestClientsThatDoNotComeBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lives, dead := Client{PID: 7, UID: 1, Started: 70}, Client{PID: 8, UID: 1, Started: 80}
		w.started[lives.PID], w.started[dead.PID] = 70, 80
		read[Granted](t, ask(t, w.book, Request{Client: lives, Name: "door"}))
		read[Queued](t, ask(t, w.book, Request{Client: dead, Name: "door"}))
		g := read[Granted](t, ask(t, w.book, Request{Client: dead, Name: "desk"}))
		read[Granted](t, ask(t, w.book, Request{Client: dead, Name: "shelf"}))
		w.attached(lives, g.Claim, g.Secret) // in place of the one who made the claim
		w.started[dead.PID] = 81             // another process has the number
		w.restart(time.Second)
		counts(t, w.book, 2, 0)
		if w.book.Lock("shelf").Held != 0 {
			t.Error("the claim of a process that ended goes on")
		}
		next := ask(t, w.book, Request{Client: ann, Name: "door"})
		pass(10*time.Second - 1)
		counts(t, w.book, 2, 1)
		pass(2)
		counts(t, w.book, 1, 0)
		read[Granted](t, next)
	})
}

// The client of such a claim has lost its hold, and all who look hear the same. So it is with a detached claim whose
// time to live passes.
func TestAClaimThatIsAbandonedIsLost(t *testing.T) {
	for what, test := range map[string]struct {
		req Request
		why lockagent.LossReason
	}{
		"the client does not come back": {Request{Client: ann, Name: "door"}, lockagent.LostUnclaimed},
		"nobody renews it": {
			Request{Client: ann, Name: "door", Detach: true, TTL: 10 * time.Second}, lockagent.LostExpired,
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				s := ask(t, w.book, test.req)
				id := read[Granted](t, s).Claim
				if test.req.Detach {
					over(t, s)
				}
				w.restart(time.Second)
				w.book.mu.Lock()
				g := w.book.claims[id].grant
				w.book.mu.Unlock()
				pass(10 * time.Second)
				free(t, w.book, "door")
				endedBy(t, Granted{Grant: g}, test.why)
			})
		})
	}
}

// The instant of a record may be of a clock that was ahead of the present one, and nobody may know that. The claim
// lasts no longer than its time to live all the same.
func TestADetachedClaimLastsNoLongerThanItsTimeToLive(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := ask(t, w.book, Request{Client: ann, Name: "door", Detach: true, TTL: time.Minute})
		g := read[Granted](t, s)
		over(t, s)
		w.book.mu.Lock()
		w.book.claims[g.Claim].save(true, bootclock.Now()+24*time.Hour)
		err := w.journal.Flush()
		w.book.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		w.restart(time.Second)
		counts(t, w.book, 1, 0)
		pass(time.Minute)
		free(t, w.book, "door")
	})
}

// The grace ends at the deadline that the client knows: then the client has given up the lock by itself.
func TestTheGraceIsNoLongerThanTheDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := read[Granted](t, ask(t, w.book, Request{Client: ann, Name: "door", Lease: 5 * time.Second, Outlive: true}))
		left := g.Grant.Remaining()
		w.restart(0)
		pass(left)
		counts(t, w.book, 0, 0)
	})
}

// Detached claims go on, for as long as they would have.
func TestDetachedClaimsGoOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		detached := func(name lockagent.Name) Granted {
			s := ask(t, w.book, Request{Client: ann, Name: name, Detach: true, TTL: time.Minute})
			g := read[Granted](t, s)
			over(t, s)
			return g
		}
		renewed, left, back := detached("renewed"), detached("left"), detached("back")
		told := ask(t, w.book, Request{Client: ann, Name: "told", Detach: true, TTL: time.Minute})
		read[Granted](t, told) // the client has got it, and the daemon is killed before the stream has ended
		ask(t, w.book, Request{Client: ann, Name: "untold", Detach: true, TTL: time.Minute})
		pass(20 * time.Second)
		if _, err := w.book.Renew(background, renewed.Claim, renewed.Secret, time.Hour, 0); err != nil {
			t.Fatal(err)
		}
		w.attached(ann, back.Claim, back.Secret)
		w.restart(time.Second)
		counts(t, w.book, 5, 0)
		pass(11 * time.Second)
		counts(t, w.book, 3, 0) // without the one that nobody knew of, and the one whose client has not come back
		if _, err := w.book.Release(background, left.Claim, left.Secret, 0); err != nil {
			t.Error(err)
		}
	})
}

// A request can be repeated, before and after a restart.
func TestRequestsWithASecret(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		secret := strings.Repeat("s", MinSecret)
		req := Request{Client: ann, Name: "door", Secret: secret}
		g := read[Granted](t, ask(t, w.book, req))
		if g.Secret != secret {
			t.Errorf("the secret is %q", g.Secret)
		}
		for range 2 {
			if h := read[Granted](t, ask(t, w.book, req)); h.Claim != g.Claim || h.Grant.Token() != g.Grant.Token() {
				t.Errorf("claim %s with %d, want %s with %d", h.Claim, h.Grant.Token(), g.Claim, g.Grant.Token())
			}
			w.restart(time.Second)
		}
		for _, other := range []Request{
			{Client: bob, Name: "door", Secret: secret},
			{Client: ann, Name: "desk", Secret: secret},
			{Client: ann, Name: "desk", Secret: "short"},
		} {
			if _, err := w.book.Acquire(other); !errors.Is(err, lockagent.ErrBadOption) {
				t.Errorf("%+v: %v", other, err)
			}
		}
		if h := read[Granted](t, w.attached(ann, "", secret)); h.Claim != g.Claim {
			t.Errorf("attached to %s", h.Claim)
		}
		if ended, err := w.book.Release(background, g.Claim, secret, 0); !ended || err != nil {
			t.Error(ended, err)
		}
		if _, err := w.book.Attach(ann, "", secret, nil); !errors.Is(err, refusal.ErrNoClaim) {
			t.Error(err)
		}
		if h := read[Granted](t, ask(t, w.book, req)); h.Claim == g.Claim || h.Grant.Token() <= g.Grant.Token() {
			t.Errorf("claim %s with %d", h.Claim, h.Grant.Token())
		}
	})
}

// A request that is to be detached can be repeated, and is detached then, however far it had come. Its time to live
// begins anew.
func TestADetachedRequestIsRepeated(t *testing.T) {
	const ttl = time.Minute
	for name, test := range map[string]struct{ told, restart, detached bool }{
		"while it waits": {}, "while it waits, after a restart": {restart: true},
		"when it is granted": {told: true}, "when it is granted, after a restart": {told: true, restart: true},
		"when it is detached":                  {told: true, detached: true},
		"when it is detached, after a restart": {told: true, detached: true, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				req := Request{Client: ann, Name: "door", Detach: true, TTL: ttl, Secret: strings.Repeat("s", MinSecret)}
				holder := ask(t, w.book, Request{Client: bob, Name: "door", Secret: strings.Repeat("h", MinSecret)})
				read[Granted](t, holder)
				s := ask(t, w.book, req)
				read[Queued](t, s)
				if test.told {
					holder.Close()
					read[Granted](t, s)
				}
				if test.detached {
					over(t, s)
				}
				pass(ttl / 2)
				if test.restart {
					w.restart(time.Second)
				}
				by := req
				by.Client.PID = 77 // another process of the user
				again := ask(t, w.book, by)
				if !test.told {
					read[Queued](t, again)
					w.attached(bob, "", strings.Repeat("h", MinSecret)).Close()
				}
				g := read[Granted](t, again)
				over(t, again)
				if h := w.book.Lock("door").Holders; len(h) != 1 || !h[0].Detached || h[0].Resumed || h[0].ID != g.Claim {
					t.Errorf("the holders are %+v", h)
				}
				if test.restart {
					w.restart(time.Second)
				}
				pass(ttl - 2*time.Second)
				counts(t, w.book, 1, 0)
				pass(2 * time.Second)
				free(t, w.book, "door")
			})
		})
	}
}

// Somebody has been told of a detached claim. So it outlasts a client that repeats its request, and ends before it is
// told. It ends with its time to live then.
func TestARepeatedRequestThatEndsLeavesTheDetachedClaim(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		req := Request{Client: ann, Name: "door", Detach: true, TTL: time.Minute, Secret: strings.Repeat("s", MinSecret)}
		s := ask(t, w.book, req)
		g := read[Granted](t, s)
		over(t, s)
		ask(t, w.book, req).Close()
		counts(t, w.book, 1, 0)
		if _, err := w.book.Renew(background, g.Claim, g.Secret, time.Hour, 0); err != nil {
			t.Error(err)
		}
		ask(t, w.book, req).Close()
		w.restart(time.Second)
		counts(t, w.book, 1, 0)
		pass(time.Hour)
		free(t, w.book, "door")
	})
}

// Who attaches has the claim from then on. Neither its time to live nor its process ends it, nor does another request
// with the secret detach it.
func TestAClaimIsAttachedForGood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		req := Request{Client: ann, Name: "door", Detach: true, TTL: time.Minute, Secret: strings.Repeat("s", MinSecret)}
		s := ask(t, w.book, req)
		read[Granted](t, s)
		over(t, s)
		read[Granted](t, w.attached(ann, "", req.Secret))
		w.restart(time.Second)
		again := ask(t, w.book, req)
		read[Granted](t, again)
		silent(t, again)
		pass(time.Hour)
		counts(t, w.book, 1, 0)
		again.Close()
		free(t, w.book, "door")
	})
}

// Records without a request, and requests without a record, are what a kill between two writes leaves.
func TestHalfOfAClaim(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		alone := read[Granted](t, ask(t, w.book, Request{Client: ann, Name: "door"}))
		read[Queued](t, ask(t, w.book, Request{Client: ann, Name: "door"}))
		for id := range w.book.claims {
			w.journal.Drop(id)
		}
		w.journal.Put("0190c0de", []byte(`{"secret":"`+strings.Repeat("A", 43)+`="}`))
		if err := w.journal.Flush(); err != nil {
			t.Fatal(err)
		}
		w.restart(time.Second)
		free(t, w.book, "door")
		if err := w.journal.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, r, err := journal.Open(w.path()); err != nil || len(r.Records) != 0 {
			t.Errorf("%v, %v", slices.Collect(maps.Keys(r.Records)), err)
		}
		if _, err := w.book.Attach(ann, alone.Claim, alone.Secret, nil); !errors.Is(err, refusal.ErrNoClaim) {
			t.Error(err)
		}
	})
}

func TestARecordThatCannotBeRead(t *testing.T) {
	for _, bad := range []string{"", "{", `{"secret":"AAAA"}`} {
		if _, err := New(Config{Records: map[string][]byte{"0190c0de": []byte(bad)}}); err == nil ||
			!strings.Contains(err.Error(), "0190c0de") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// failing is a journal that fails on demand.
type failing struct {
	forgetful
	err error
}

func (f *failing) Err() error   { return f.err }
func (f *failing) Flush() error { return f.err }

// While the journal cannot be written, nothing new is granted. What is held goes on, and is released.
func TestTheJournalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := open(t)
		j := &failing{}
		b.cfg.Journal = j
		held := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, held)
		waits := ask(t, b, Request{Client: bob, Name: "door"})
		read[Queued](t, waits)
		leaves := ask(t, b, Request{Client: ann, Name: "desk", Detach: true, TTL: time.Hour})
		g := read[Granted](t, leaves)
		over(t, leaves)
		fixed := read[Granted](t, ask(t, b, Request{Client: ann, Name: "fixed", Lease: 30 * time.Second}))
		j.err = errors.New("disk full")
		if _, err := b.Renew(background, fixed.Claim, fixed.Secret, 0, time.Hour); !errors.Is(err, refusal.ErrJournal) ||
			fixed.Grant.Remaining() > time.Minute {
			t.Errorf("an extension: %v, and %v remain", err, fixed.Grant.Remaining())
		}
		if _, err := b.Acquire(Request{Client: ann, Name: "other"}); !errors.Is(err, refusal.ErrJournal) {
			t.Errorf("a new claim: %v", err)
		}
		if _, err := b.Renew(background, g.Claim, g.Secret, time.Hour, 0); !errors.Is(err, refusal.ErrJournal) {
			t.Errorf("a renewal: %v", err)
		}
		pass(time.Minute)
		if e, err := held.Take(); err != nil || e == nil {
			t.Errorf("%T, %v, want a renewal", e, err)
		}
		held.Close()
		if e := read[Ended](t, waits); !errors.Is(e.Cause, refusal.ErrJournal) {
			t.Errorf("the waiter was told %v", e.Cause)
		}
		counts(t, b, 1, 0) // the lock that the waiter was not told of is free again
		j.err = nil
		read[Granted](t, ask(t, b, Request{Client: bob, Name: "door"}))
	})
}

// A hold that outlives its stream does so after a restart as well, whether its client comes back and leaves, has ended
// meanwhile, or does not come.
func TestHoldsOutliveTheirStreamsAfterARestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		dead := Client{PID: 7, UID: ann.UID, Started: 70}
		w.started[dead.PID] = dead.Started
		names := []lockagent.Name{"back", "dead", "silent"}
		var back Granted
		for i, by := range []Client{ann, dead, ann} {
			if g := read[Granted](
				t, ask(t, w.book, Request{Client: by, Name: names[i], Lease: time.Minute, Outlive: true}),
			); i == 0 {
				back = g
			}
		}
		delete(w.started, dead.PID)
		w.restart(time.Second)
		w.attached(ann, back.Claim, back.Secret).Close()
		pass(20 * time.Second) // more than the grace
		counts(t, w.book, 3, 0)
		for _, name := range names {
			if l := w.book.Lock(name); l.Held != 1 || !l.Holders[0].Detached || l.Holders[0].Resumed {
				t.Errorf("%s: %+v", name, l)
			}
		}
		w.restart(time.Second) // they are detached
		w.attached(ann, back.Claim, back.Secret).Close()
		pass(20 * time.Second)
		counts(t, w.book, 3, 0)
		pass(time.Minute)
		for _, name := range names {
			free(t, w.book, name)
		}
	})
}

// A book that leaves its claims to the next daemon tells their clients nothing of holds: those end in this process
// only, and so do the deadlines.
func TestAClaimThatIsLeftTellsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		kept := ask(t, w.book, Request{Client: ann, Name: "door"})
		before := read[Granted](t, kept)
		leased := ask(t, w.book, Request{Client: ann, Name: "desk", Lease: time.Minute})
		read[Granted](t, leased)
		untold := ask(t, w.book, Request{Client: ann, Name: "room"})
		pass(15 * time.Second) // there is a renewal to tell
		w.book.Leave()
		w.agent.Detach()
		for _, s := range []*Stream{kept, leased, untold} {
			silent(t, s)
		}
		if at, err := leased.Extend(t.Context(), time.Minute); !errors.Is(err, lockagent.ErrClosed) || at != 0 {
			t.Errorf("Extend: %v, %v", at, err)
		}
		w.restart(time.Second)
		if g := read[Granted](t, w.attached(ann, before.Claim, before.Secret)); g.Grant.Token() != before.Grant.Token() ||
			g.Deadline <= before.Deadline {
			t.Errorf(
				"token %d after %d, deadline %v after %v", g.Grant.Token(), before.Grant.Token(), g.Deadline, before.Deadline,
			)
		}
	})
}
