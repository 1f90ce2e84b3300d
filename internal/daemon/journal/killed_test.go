package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
)

const (
	// childVar has the configuration of a child process, which is this program.
	childVar = "LOCKAGENT_TEST_JOURNAL"
	lease    = time.Hour // so long that no lock becomes free by itself
)

// childConfig tells a child process what to do.
type childConfig struct {
	Path  string
	Redis string // the address, or empty for a store in memory
}

// report is what a child says about a grant, before it does anything else with it.
type report struct {
	Name     lockagent.Name
	Token    lockagent.Token
	Releases bool // the grant is about to be released
}

// hot are the locks that all fight for.
var hot = map[lockagent.Name]lockagent.LockKind{
	"a": lockagent.PlainLock, "b": lockagent.PlainLock, "c": lockagent.FairLock, "d": lockagent.FairLock,
}

// place is a lock that the child waits for all the time.
const place = "place"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func redisStore(address string) lockagent.Store {
	s, err := redisstore.Config{DialTimeout: time.Minute, GraceFirst: redisstore.NoGraceFirst}.Open(background, address)
	must(err)
	return s
}

// child is an agent that fights for locks until it is killed.
func child() {
	var cfg childConfig
	must(json.Unmarshal([]byte(os.Getenv(childVar)), &cfg))
	j, r, err := Open(cfg.Path)
	must(err)
	j.least = 16 << 10 // many new files
	var store lockagent.Store = memstore.New()
	if cfg.Redis != "" {
		store = redisStore(cfg.Redis)
	}
	c := actor.Config{Store: store, Journal: j, Lease: lease}
	var a *actor.Agent
	if r.Agent == nil {
		a, err = actor.New(c)
	} else {
		a, err = actor.Resume(c, *r.Agent)
	}
	must(err)
	say := func(x report) {
		line, err := json.Marshal(x)
		must(err)
		_, err = os.Stdout.Write(append(line, '\n')) // one call, so a line is whole or missing
		must(err)
	}
	_ = a.Acquire(background, place, actor.Request{Owner: lockagent.Owner(lockagent.NewAgentID())})
	if cfg.Redis != "" {
		go func() {
			for !j.hasPlace() {
				<-time.After(time.Millisecond)
			}
			say(report{Name: place})
		}()
	}
	for i := range 12 {
		go func() {
			for n := 0; ; n++ {
				name := lockagent.Name('a' + rune(rand.IntN(len(hot))))
				owner := lockagent.Owner(lockagent.NewAgentID())
				g := a.Lock(background, name, actor.Request{Owner: owner, Kind: hot[name]})
				must(g.Err())
				say(report{Name: name, Token: g.Token()})
				if i%4 == 0 {
					<-time.After(time.Millisecond)
				}
				say(report{Name: name, Token: g.Token(), Releases: true})
				must(g.Release(background))
			}
		}()
	}
	select {}
}

// life runs a child until it is killed at any moment. It returns the grants that the child had, and all that it told
// of. It calls placed when the child waits for the place.
func life(
	t *testing.T, cfg childConfig, most time.Duration, placed func(alive func() bool),
) (had, all map[report]bool) {
	t.Helper()
	text, err := json.Marshal(cfg)
	must(err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	var killed atomic.Bool
	end := sync.OnceFunc(func() {
		time.AfterFunc(rand.N(most), func() {
			killed.Store(true)
			_ = cmd.Process.Kill()
		})
	})
	if rand.IntN(6) == 0 {
		end() // while it starts
	}
	had, all = make(map[report]bool), make(map[report]bool)
	for lines := bufio.NewScanner(out); lines.Scan(); end() {
		var x report
		must(json.Unmarshal(lines.Bytes(), &x))
		if x.Name == place {
			placed(func() bool { return !killed.Load() })
			continue
		}
		grant := report{Name: x.Name, Token: x.Token}
		all[grant], had[grant] = true, true
		if x.Releases {
			delete(had, grant)
		}
	}
	_ = cmd.Wait()
	return had, all
}

// promised checks that the journal has the grants of a child that was killed.
func promised(t *testing.T, n *saved.Agent, had map[report]bool) {
	t.Helper()
	told := make(map[report]bool)
	if n != nil {
		for i := range n.Locks {
			for _, r := range n.Locks[i].Requests {
				told[report{Name: n.Locks[i].Name, Token: r.Token}] = true
			}
		}
	}
	for g := range had {
		if !told[g] {
			t.Errorf("the child had %+v, which is not in the journal", g)
		}
	}
}

// What a process told of its grants is in its journal, at any moment.
func TestKilled(t *testing.T) { killed(t, 4) }

func killed(t *testing.T, kills int) {
	t.Parallel()
	total := 0
	for i := 0; i < kills || i < 100 && total == 0; i++ {
		cfg := childConfig{Path: filepath.Join(t.TempDir(), "journal")}
		had, all := life(t, cfg, 200*time.Millisecond, func(func() bool) {})
		_, r := opened(t, cfg.Path)
		promised(t, r.Agent, had)
		total += len(all)
	}
	if t.Logf("%d grants", total); total == 0 {
		t.Error("nothing was granted")
	}
}

// await is [waittest.Receive] for any goroutine. The goroutine ends if there is nothing to receive when the test ends.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	ctx := waittest.Context(t)
	select {
	case v = <-c:
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), context.Canceled) { // otherwise the test has ended, and can say no more
			t.Errorf("gave up waiting: %s", what)
		}
		runtime.Goexit()
	}
	return v
}

// rival is an agent of another process that wants the same locks.
type rival struct {
	agent *actor.Agent

	mu     sync.Mutex
	tokens map[report]bool // guarded by mu
}

// fight has the rival want the hot locks until the returned function is called.
func (r *rival) fight(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(background)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for ctx.Err() == nil {
				name := lockagent.Name('a' + rune(rand.IntN(len(hot))))
				owner := lockagent.Owner(lockagent.NewAgentID())
				g := r.agent.Lock(ctx, name, actor.Request{Owner: owner, Kind: hot[name]})
				if g.Err() != nil {
					continue
				}
				r.mu.Lock()
				r.tokens[report{Name: name, Token: g.Token()}] = true
				r.mu.Unlock()
				if err := g.Release(background); err != nil {
					t.Errorf("the rival lost its lock: %v", err)
				}
			}
		})
	}
	return func() { cancel(); workers.Wait() }
}

// An agent is killed again and again while it fights for locks in Redis. Each time the next one goes on with all that
// it had and wanted, and nothing is left that nobody knows of.
func TestKilledWithRedis(t *testing.T) { killedWithRedis(t, 3) }

func killedWithRedis(t *testing.T, kills int) {
	t.Parallel()
	server := redistest.Start(t)
	address := server.URL()
	newAgent := func(j actor.Journal) *actor.Agent {
		s := redisStore(address)
		a, err := actor.New(actor.Config{Store: s, Lease: lease, Journal: j})
		must(err)
		t.Cleanup(func() { _ = a.Close(); _ = s.(*redisstore.Store).Close() })
		return a
	}
	thirdJournal, _ := opened(t, filepath.Join(t.TempDir(), "third"))
	first, third := &rival{agent: newAgent(nil), tokens: make(map[report]bool)}, newAgent(thirdJournal)
	cfg := childConfig{Path: filepath.Join(t.TempDir(), "journal"), Redis: address}
	seen, places, held, waited := make(map[report]bool), 0, 0, 0
	for i := 0; i < kills || i < 100 && (held == 0 || waited == 0 || places == 0); i++ {
		ahead := first.agent.Lock(background, place, actor.Request{Owner: "ahead"})
		must(ahead.Err())
		stop := first.fight(t)
		var behind <-chan lockagent.Grant
		queued := false // both wait, in this order
		had, all := life(t, cfg, 250*time.Millisecond, func(alive func() bool) {
			behind = third.Acquire(background, place, actor.Request{Owner: "behind"})
			waittest.Until(t, "the place behind", thirdJournal.hasPlace)
			queued = alive() // otherwise the store may have taken the place from an agent that does not listen
		})
		for g := range all {
			if seen[g] {
				t.Errorf("%+v is granted a second time", g)
			}
			seen[g] = true
		}
		j, r := opened(t, cfg.Path)
		promised(t, r.Agent, had)
		held += len(had)
		if r.Agent == nil {
			stop()
			must(ahead.Release(background)) // the child had not begun, so nobody is behind
			continue
		}
		if r.Dropped > 0 {
			t.Logf("%d bytes were cut off", r.Dropped)
		}
		if behind == nil {
			behind = third.Acquire(background, place, actor.Request{Owner: "behind"})
		}
		store := redisStore(address)
		a, err := actor.Resume(actor.Config{Store: store, Journal: j, Lease: lease}, *r.Agent)
		must(err)
		var waiting sync.WaitGroup
		order := make(chan bool, 2) // true for whoever waited in the child
		waiting.Go(func() {
			g := await(t, "the place behind", behind)
			must(g.Err())
			order <- false
			must(g.Release(background))
		})
		if !listed(a.Resumed(), place) {
			must(ahead.Release(background))
		}
		for _, x := range a.Resumed() {
			of := report{Name: x.Name, Token: x.Token}
			switch {
			case x.Name == place:
				waiting.Go(func() {
					waittest.Until(t, "the agent listens", func() bool { // the store passes no lock to others
						counts, _ := server.Do("PUBSUB", "NUMSUB", "lockagent_agent:"+string(a.ID())).([]any)
						return len(counts) == 2 && counts[1] != int64(0)
					})
					waittest.Until(t, "the request has its place", j.hasPlace)
					must(ahead.Release(background))
					g := await(t, "the place", x.Grant)
					must(g.Err())
					order <- true
					must(g.Release(background))
				})
			case x.Waits:
				waited++
				waiting.Go(func() {
					g := await(t, "a grant for a request that waited", x.Grant)
					must(g.Err())
					if of := (report{Name: g.Name(), Token: g.Token()}); all[of] {
						t.Errorf("%+v is granted a second time", of)
					}
					must(g.Release(background))
				})
			default:
				waiting.Go(func() {
					g := await(t, "a grant that goes on", x.Grant)
					if err := g.Release(background); had[of] && (err != nil || g.Token() != of.Token) {
						t.Errorf("%v, which was held, is gone: %v", of, err)
					}
				})
			}
		}
		waiting.Wait()
		stop()
		if queued {
			if places++; !waittest.Receive(t, "who had the place", order) { // nobody, if both gave up
				t.Error("the request that waits has lost its place to one that came later")
			}
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		must(j.Close())
		must(store.(*redisstore.Store).Close())
		for name, kind := range hot {
			g := third.Lock(waittest.Context(t), name, actor.Request{Owner: "third", Kind: kind})
			if g.Err() != nil {
				t.Errorf("%s is not free: %v", name, g.Err())
				continue
			}
			if seen[report{Name: name, Token: g.Token()}] {
				t.Errorf("token %d of %s is granted a second time", g.Token(), name)
			}
			must(g.Release(background))
		}
	}
	for g := range first.tokens {
		if seen[g] {
			t.Errorf("%+v is granted to both", g)
		}
	}
	t.Logf("%d grants, %d went on, %d waited, %d places were kept", len(seen), held, waited, places)
	if held == 0 || waited == 0 || places == 0 {
		t.Error("too little happened")
	}
}

// hasPlace reports whether the request for the place is in the queue of the store.
func (j *Journal) hasPlace() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, err := saved.Read(j.records)
	must(err)
	for i := range n.Locks {
		for _, t := range n.Locks[i].Tenures {
			if n.Locks[i].Name == place && t.Asks && t.Queued {
				return true
			}
		}
	}
	return false
}

func listed(resumed []actor.ResumedRequest, name lockagent.Name) bool {
	for _, r := range resumed {
		if r.Name == name {
			return true
		}
	}
	return false
}
