package actor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/memstore"
)

// chronicle is a journal in memory. What is not due is lost, unless something due follows.
type chronicle struct {
	mu      sync.Mutex
	fold    JournalFold     // guarded by mu; of what is written
	pending []*JournalEntry // guarded by mu
	dead    bool            // guarded by mu; the process has ended
	left    int             // guarded by mu; how many entries it has to live, or 0
	death   chan struct{}   // closed then
	visit   func(*JournalEntry)

	held     map[belonging]lockagent.Grant // guarded by mu; by owners who would go on without the process
	outlived map[belonging]time.Time       // until when they do; set when the process has ended
}

// belonging is a hold.
type belonging struct {
	name  lockagent.Name
	token lockagent.Token
}

func newChronicle() *chronicle {
	return &chronicle{death: make(chan struct{}), held: make(map[belonging]lockagent.Grant), outlived: make(map[belonging]time.Time)}
}

func (k *chronicle) Begin(n AgentSnapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fold.Begin(n)
}

func (k *chronicle) Write(e *JournalEntry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return
	}
	own := *e
	own.Changes = slices.Clone(e.Changes)
	k.pending = append(k.pending, &own)
	if e.Due || k.visit != nil {
		for _, p := range k.pending {
			k.fold.Write(p)
		}
		k.pending = nil
	}
	if k.visit != nil {
		k.visit(e)
	}
	if k.left > 0 {
		if k.left--; k.left == 0 {
			k.dieLocked()
		}
	}
}

func (k *chronicle) dieLocked() {
	if !k.dead {
		k.dead = true
		for of, g := range k.held {
			k.outlived[of] = time.Now().Add(g.Remaining())
		}
		close(k.death)
	}
}

// die ends the process, which learns and does nothing any more.
func (k *chronicle) die() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dieLocked()
}

// lives reports whether the process goes on, and keeps it from ending while f runs.
func (k *chronicle) lives(f func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.dead {
		f()
	}
	return !k.dead
}

func (k *chronicle) snapshot() AgentSnapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fold.Snapshot()
}

// killed ends an agent at once, and returns what its journal has. Calls that are under way still arrive.
func killed(t testing.TB, a *Agent, s *tap) AgentSnapshot {
	t.Helper()
	k := a.cfg.Journal.(*chronicle)
	k.die()
	s.handle(func(o *op) { o.fail(lockagent.ErrClosed) })
	a.deafen()
	return carried(t, k.snapshot())
}

// mortal starts an agent that can be killed.
func mortal(t testing.TB, store *memstore.Store, cfg Config) (*Agent, *tap) {
	t.Helper()
	s := newTap(store.Share())
	cfg.Store, cfg.Journal = s, newChronicle()
	return start(t, cfg), s
}

// canonical is a snapshot of a lock in an order that does not depend on that of its parts.
func canonical(n LockSnapshot) string {
	slices.SortFunc(n.Tenures, func(x, y lockstate.SavedTenure) int {
		return cmp.Or(cmp.Compare(x.Part, y.Part), cmp.Compare(x.Number, y.Number))
	})
	slices.SortFunc(n.Bounds, func(x, y WaitBound) int { return cmp.Compare(x.ID, y.ID) })
	text, err := json.MarshalIndent(n, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Whatever happens, the journal tells of each lock what the lock knows.
func TestJournalTellsAll(t *testing.T) { journalTellsAll(t, 2) }

func journalTellsAll(t *testing.T, seeds uint64) {
	for _, kind := range []lockagent.LockKind{lockagent.PlainLock, lockagent.FairLock, lockagent.ReadWriteLock, lockagent.Semaphore, lockagent.SpinLock} {
		for seed := range seeds {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { tellsAll(t, newChance(seed), kind) })
			})
		}
	}
}

func door(i int) lockagent.Name { return lockagent.Name(fmt.Sprint("door", i)) }

func tellsAll(t *testing.T, c *chance, kind lockagent.LockKind) {
	const locks, lease, most = 3, 3 * time.Second, time.Second
	store := memstore.New()
	config := func() Config {
		s := newTap(store.Share())
		misbehave := c.misbehave(most)
		s.handle(func(o *op) {
			if o.kind == "acquire" && c.below(30) == 0 {
				o.fail(lockagent.ErrNotPermitted)
				return
			}
			misbehave(o)
		})
		return Config{Store: s, Lease: lease, Claim: 2 * time.Second, Idle: time.Second, Logger: quiet}
	}
	cfg := config()
	k := newChronicle()
	cfg.Journal = k
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[lockagent.Name]*lock) // guarded by k.mu
	visits := 0
	a.registry.make = func(e *entry) *lock {
		l := newLock(a, e)
		k.mu.Lock()
		defer k.mu.Unlock()
		found[e.name] = l
		return l
	}
	k.visit = func(e *JournalEntry) {
		l := found[e.Lock]
		visits++
		told := LockSnapshot{Name: e.Lock, Kind: l.snapshot().Kind}
		if f := k.fold.locks[e.Lock]; f != nil {
			told = f.snapshot(e.Lock)
		}
		knows := l.saved()
		if slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Kind == LockForgotten }) {
			knows.Floor = 0
		}
		if got, want := canonical(told), canonical(knows); got != want {
			t.Errorf("after %v: the journal tells\n%s\nbut the lock knows\n%s", e.Changes, got, want)
			k.visit = nil
		}
	}
	other, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	if kind == lockagent.Semaphore {
		for i := range locks {
			for {
				r := <-other.Permits(background, lockagent.PermitsRequest{Name: door(i), Kind: kind, Op: lockagent.TrySetPermits, N: 2})
				if r.Err == nil {
					break
				}
			}
		}
	}
	var workers sync.WaitGroup
	for _, b := range []*Agent{a, a, a, a, a, other, other} {
		workers.Go(func() {
			for i := range 25 {
				req := Request{Owner: lockagent.Owner(lockagent.NewAgentID()), Kind: kind, Outlive: false}
				switch c.below(6) {
				case 0:
					req.Lease, req.Outlive = lease+c.upTo(lease), true
				case 1:
					req.Try = true
				case 2:
					req.Wait = c.upTo(lease)
				case 3:
					if kind != lockagent.Semaphore {
						req.Session = true
						if c.below(2) == 0 {
							req.Lease = lease
						}
					}
				}
				if kind == lockagent.ReadWriteLock && c.below(2) == 0 {
					req.Mode = lockagent.Shared
				}
				name := door(c.below(locks))
				var g lockagent.Grant
				if c.below(2) == 0 {
					g = b.Lock(background, name, req)
				} else {
					g = <-b.Acquire(background, name, req)
				}
				if g.Err() != nil {
					continue
				}
				again := g
				if req.Session {
					kept := req
					kept.Lease = 0
					again = <-b.Acquire(background, name, kept)
				}
				if req.Lease != 0 && c.below(2) == 0 {
					_ = <-g.ExtendAsync(background, req.Lease)
				}
				switch {
				case i%8 == 7 && b == a:
					<-b.Break(name, kind, "")
				case i%8 == 3:
					time.Sleep(2 * lease)
				default:
					time.Sleep(c.upTo(most))
				}
				if c.below(8) == 0 {
					_ = <-b.Leave(background, name, g.Owner())
				} else if _ = <-g.ReleaseAsync(background); again.Held() {
					_ = <-again.ReleaseAsync(background)
				}
			}
		})
	}
	workers.Wait()
	_ = a.Close()
	_ = other.Close()
	if n := k.snapshot(); len(n.Locks) != 0 {
		t.Errorf("after the end: %+v", n.Locks)
	}
	t.Logf("compared %d times", visits)
}
