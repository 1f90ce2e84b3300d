package actor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

// chronicle is a journal in memory. What is not due is lost, unless something due follows.
type chronicle struct {
	mu      sync.Mutex
	records map[string][]byte // guarded by mu; those that are written
	pending []saved.Change    // guarded by mu
	dead    bool              // guarded by mu; the process has ended
	left    int               // guarded by mu; how often it writes until it ends, or 0
	death   chan struct{}     // closed then
	visit   func([]saved.Change)

	held     map[belonging]lockagent.Grant // guarded by mu; by owners who would go on without the process
	outlived map[belonging]time.Time       // until when they do; set when the process has ended
}

// belonging is a hold.
type belonging struct {
	name  lockagent.Name
	token lockagent.Token
}

func newChronicle() *chronicle {
	return &chronicle{
		records: make(map[string][]byte), death: make(chan struct{}),
		held: make(map[belonging]lockagent.Grant), outlived: make(map[belonging]time.Time),
	}
}

func (k *chronicle) Begin(changes []saved.Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.records)
	k.applyLocked(changes)
}

func (k *chronicle) Write(changes []saved.Change, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return
	}
	k.pending = append(k.pending, changes...)
	if due || k.visit != nil {
		k.applyLocked(k.pending)
		k.pending = nil
	}
	if k.visit != nil {
		k.visit(changes)
	}
	if k.left > 0 {
		if k.left--; k.left == 0 {
			k.dieLocked()
		}
	}
}

func (k *chronicle) applyLocked(changes []saved.Change) {
	for _, c := range changes {
		if c.Data == nil {
			delete(k.records, c.Key)
		} else {
			k.records[c.Key] = c.Data
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

// flush writes what is not written yet.
func (k *chronicle) flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.applyLocked(k.pending)
	k.pending = nil
}

// leaves is what the records leave to another process.
func (k *chronicle) leaves(t testing.TB) saved.Agent {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := saved.Read(k.records)
	if err != nil {
		t.Fatal(err)
	}
	// In a bubble the process finds the time that has passed by the wall clock, which is virtual. The boot clock is the
	// machine's: on a slow machine it would tell of more time, and holds would end that their owners still believe in.
	n.Taken.Up = math.MaxInt64
	return *n
}

// killed ends an agent at once, and returns what its journal has. Calls that are under way still arrive.
func killed(t testing.TB, a *Agent, s *tap) saved.Agent {
	t.Helper()
	k := a.cfg.Journal.(*chronicle)
	k.die()
	s.handle(func(o *op) { o.fail(lockagent.ErrClosed) })
	a.deafen()
	return k.leaves(t)
}

// mortal starts an agent that can be killed.
func mortal(t testing.TB, store *memstore.Store, cfg Config) (*Agent, *tap) {
	t.Helper()
	s := newTap(store.Share())
	cfg.Store, cfg.Journal = s, newChronicle()
	return start(t, cfg), s
}

// The journal gets the present time once a second, and more numbers before the agent has used those that it has.
func TestJournalGetsTimeAndNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := leaving(t, Config{Store: memstore.New(), NoRest: true})
		k := a.cfg.Journal.(*chronicle)
		begin := k.leaves(t)
		after := func(what string) saved.Agent {
			t.Helper()
			released(t, granted(t, a.Acquire(background, "door", who("ann"))))
			k.flush()
			n := k.leaves(t)
			if n.Last < a.fresh.Load() {
				t.Errorf("%s: the journal has numbers up to %d, and %d is used", what, n.Last, a.fresh.Load())
			}
			return n
		}
		if n := after("at once"); n.Taken != begin.Taken || n.Last != begin.Last {
			t.Errorf("the journal gets %+v at once, after %+v", n, begin)
		}
		a.fresh.Store(begin.Last - reserved/4)
		n := after("after many steps")
		if n.Last < begin.Last+reserved/2 {
			t.Errorf("after many steps the journal has numbers up to %d, after %d", n.Last, begin.Last)
		}
		time.Sleep(stampEvery)
		if now := after("a second later"); now.Taken.At.Sub(n.Taken.At) != stampEvery {
			t.Errorf("a second later the time is %+v, after %+v", now.Taken, n.Taken)
		}
	})
}

// An actor that was about to leave, and stays because somebody wants its lock, tells of the floor once more.
func TestFloorOfALockThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := leaving(t, Config{Store: store.Share(), NoRest: true}), start(t, Config{Store: store})
		var l *lock
		a.registry.make = func(e *entry) *lock {
			l = newLock(a, e)
			return l
		}
		g := granted(t, a.Acquire(background, "door", who("ann")))
		released(t, g)
		far := granted(t, b.Acquire(background, "door", who("far")))
		synctest.Wait()
		l.journalLeave()
		waits := a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		n := a.cfg.Journal.(*chronicle).leaves(t)
		if len(n.Locks) != 1 || n.Locks[0].Floor != g.Token() {
			t.Errorf("the journal has %+v, want the floor %d", n.Locks, g.Token())
		}
		released(t, far)
		released(t, granted(t, waits))
	})
}

// Whatever happens, the journal tells of each lock what the lock knows.
func TestJournalTellsAll(t *testing.T) { journalTellsAll(t, 2) }

func journalTellsAll(t *testing.T, seeds uint64) {
	for _, kind := range []lockagent.LockKind{
		lockagent.PlainLock, lockagent.FairLock, lockagent.ReadWriteLock, lockagent.Semaphore, lockagent.SpinLock,
	} {
		for seed := range seeds {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { tellsAll(t, newChance(seed), kind) })
			})
		}
	}
}

// concerns reports whether a change is about a lock.
func concerns(changes []saved.Change, name lockagent.Name) bool {
	return slices.ContainsFunc(changes, func(c saved.Change) bool {
		return strings.HasPrefix(c.Key, "lock/"+string(name)+"/")
	})
}

// known is what the lock knows, in the order of the journal.
func (l *lock) known() saved.Lock {
	n := l.state.Snapshot()
	of := saved.Lock{Name: l.entry.name, Kind: l.entry.kind, Floor: n.Floor, Tenures: n.Tenures}
	for _, r := range n.Requests {
		r.ClaimBy = 0
		known := saved.Request{SavedRequest: r}
		if r.Tenure == 0 {
			known.Until = l.requests.get(r.ID).bound(r.Arrived)
		} else if hold := l.requests.get(r.ID); hold != nil {
			known.Total = cmp.Or(hold.total, l.total(r.Tenure, r.Token))
		}
		of.Requests = append(of.Requests, known)
	}
	slices.SortFunc(of.Tenures, func(x, y lockstate.SavedTenure) int { return cmp.Compare(x.Number, y.Number) })
	slices.SortFunc(of.Requests, func(x, y saved.Request) int { return x.Compare(y.SavedRequest) })
	return of
}

// takesFor checks which tenures the lock takes for those that the journal has.
func (l *lock) takesFor(t *testing.T, has []lockstate.SavedTenure) {
	t.Helper()
	var numbers []uint64
	for i := range has {
		numbers = append(numbers, has[i].Number)
	}
	if takes := slices.Sorted(slices.Values(l.scribe.tenures)); !slices.Equal(takes, numbers) {
		t.Errorf("the journal has the tenures %d, and the lock takes them for %d", numbers, takes)
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
	k.visit = func(changes []saved.Change) {
		visits++
		all, err := saved.Read(k.records)
		if err != nil {
			t.Fatal(err)
		}
		for name, l := range found {
			if !concerns(changes, name) {
				continue
			}
			told := saved.Lock{Name: name, Kind: kind}
			for _, of := range all.Locks {
				if of.Name == name {
					told = of
				}
			}
			want := l.known()
			if slices.ContainsFunc(changes, func(c saved.Change) bool {
				return c.Key == saved.FloorKey(name) && c.Data == nil
			}) { // the lock leaves
				want.Floor = 0
			}
			if got, want := fmt.Sprintf("%+v", told), fmt.Sprintf("%+v", want); got != want {
				t.Errorf("after %v: the journal tells\n%s\nbut the lock knows\n%s", changes, got, want)
				k.visit = nil
			}
			l.takesFor(t, told.Tenures)
		}
	}
	other, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	if kind == lockagent.Semaphore {
		for i := range locks {
			for {
				set := lockagent.PermitsRequest{Name: door(i), Kind: kind, Op: lockagent.TrySetPermits, N: 2}
				r := <-other.Permits(background, set)
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
	if n := k.leaves(t); len(n.Locks) != 0 {
		t.Errorf("after the end: %+v", n.Locks)
	}
	t.Logf("compared %d times", visits)
}
