package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

var background = context.Background()

// opened opens a journal that the end of the test closes.
func opened(t testing.TB, path string) (*Journal, Recovered) {
	t.Helper()
	j, r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j, r
}

// begun is an agent with a journal.
func begun(t testing.TB, j *Journal) *actor.Agent {
	t.Helper()
	a, err := actor.New(actor.Config{Store: memstore.New(), Journal: j, NoRest: true}) // what rests changes by itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// parsed is what the file says.
func parsed(t testing.TB, path string) *state {
	t.Helper()
	s, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// same compares what the file says with what the journal knows, which has written everything.
func same(t testing.TB, j *Journal, s *state) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !reflect.DeepEqual(s.records, j.records) {
		t.Errorf("the file has the records %q, want %q", s.records, j.records)
	}
}

// agentOf is the agent that the records tell of.
func agentOf(t testing.TB, records map[string][]byte) *saved.Agent {
	t.Helper()
	a, err := saved.Read(records)
	if err != nil || a == nil {
		t.Fatalf("no agent: %v", err)
	}
	return a
}

// use has several goroutines use locks and claims of several kinds, each so many times. They leave some behind.
func use(t testing.TB, a *actor.Agent, j *Journal, times int) {
	t.Helper()
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range times {
				claim := fmt.Sprint("claim", w, "-", i)
				j.Put(claim, []byte(fmt.Sprint("a secret of ", claim)))
				req := actor.Request{
					Owner: lockagent.Owner(claim), Session: rnd.IntN(2) == 0, Wait: time.Hour,
					Mode: lockagent.Exclusive,
					Tag:  claim,
				}
				name := lockagent.Name(fmt.Sprint("door", rnd.IntN(3)))
				switch rnd.IntN(4) {
				case 0:
					req.Kind, name = lockagent.FairLock, "fair "+name
				case 1:
					req.Kind, name = lockagent.ReadWriteLock, "book "+name
					if rnd.IntN(2) == 0 {
						req.Mode = lockagent.Shared
					}
				case 2:
					req.Lease = time.Hour
				}
				g := a.Lock(background, name, req)
				if g.Err() != nil {
					t.Errorf("%v", g.Err())
					return
				}
				if err := g.Release(background); err != nil {
					t.Error(err)
				}
				j.Drop(claim)
			}
			name := lockagent.Name(fmt.Sprint("kept", w))
			for _, lease := range []time.Duration{time.Hour, 0} {
				g := a.Lock(background, name, actor.Request{Owner: "ann", Session: true, Lease: lease})
				if g.Err() != nil {
					t.Errorf("%v", g.Err())
				}
			}
			_ = a.Acquire(background, name, actor.Request{Owner: "bob", Wait: time.Hour, Tag: "tag"})
			j.Put(string(name), nil)
		})
	}
	workers.Wait()
}

func TestFileHasEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, r := opened(t, path)
	if r.Agent != nil || len(r.Records) != 0 {
		t.Errorf("recovered %+v of nothing", r)
	}
	a := begun(t, j)
	use(t, a, j, 100)
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	same(t, j, parsed(t, path))
	if n := agentOf(t, parsed(t, path).records); len(n.Locks) < 4 || n.ID != a.ID() {
		t.Errorf("%+v", n)
	}
}

// A file does not grow for ever, and no record is lost on the way to a new one.
func TestFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := opened(t, path)
	j.least = 4 << 10
	made := 0 // one file at a time is made
	j.create = func(path string) (file, error) { made++; return create(path) }
	a := begun(t, j)
	use(t, a, j, 300)
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	j.work.Wait()
	j.Put("last", nil) // the file may have grown while the disk was slow
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	j.work.Wait()
	if info, err := os.Stat(path); err != nil || info.Size() > 64<<10 || made < 3 {
		t.Errorf("%v bytes after %d files: %v", info.Size(), made, err)
	}
	same(t, j, parsed(t, path))
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("a new file was left behind")
	}
}

// What is not due is written soon.
func TestLazyRecordsAreWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		j, _ := opened(t, path)
		begun(t, j)
		j.Put("claim", []byte("secret"))
		if s := parsed(t, path); len(s.records) != 1 { // that of the agent
			t.Error("a claim is written at once")
		}
		time.Sleep(2 * linger)
		same(t, j, parsed(t, path))
	})
}

// A record that stays the same is not written again, and a record that is not there does not end.
func TestNoChangeIsNotWritten(t *testing.T) {
	j, _ := opened(t, filepath.Join(t.TempDir(), "journal"))
	j.Begin(nil)
	j.Write([]saved.Change{{Key: "a", Data: []byte{1}}, {Key: "b", Data: []byte{}}}, true)
	size := j.size
	j.Write([]saved.Change{{Key: "a", Data: []byte{1}}, {Key: "b", Data: []byte{}}, {Key: "c"}}, true)
	if j.size != size {
		t.Errorf("%d bytes were written", j.size-size)
	}
	j.Write([]saved.Change{{Key: "b"}}, true)
	if j.size == size || len(j.records) != 1 {
		t.Errorf("a record has not ended: %q", j.records)
	}
}

// brittle is a disk that is full after so many bytes.
type brittle struct {
	*os.File
	room *atomic.Int64
}

var errFull = errors.New("the disk is full")

func (b brittle) Write(p []byte) (int, error) {
	n := min(len(p), int(b.room.Load()))
	b.room.Add(int64(-n))
	if _, err := b.File.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// A full disk is no obstacle to the agent. When there is room again, the file has everything.
func TestDiskIsFull(t *testing.T) {
	for _, bytes := range []int64{0, 10, 100, 1_000, 10_000} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "journal")
				j, _ := opened(t, path)
				var room atomic.Int64
				room.Store(bytes)
				j.create = func(path string) (file, error) {
					f, err := os.Create(path)
					return brittle{f, &room}, err
				}
				a := begun(t, j)
				use(t, a, j, 60)
				time.Sleep(time.Second)
				if err := j.Flush(); !errors.Is(err, errFull) || !errors.Is(j.Err(), errFull) {
					t.Errorf("Err is %v", err)
				}
				room.Store(1 << 30)
				time.Sleep(time.Second)
				if err := j.Flush(); err != nil {
					t.Fatal(err)
				}
				same(t, j, parsed(t, path))
			})
		})
	}
}

// A file that was closed, and one that was not, are both a good beginning.
func TestGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	store := memstore.New()
	j, _ := opened(t, path)
	a, err := actor.New(actor.Config{Store: store.Share(), Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	g := a.Lock(background, "door", actor.Request{Owner: "ann"})
	j.Put("ann", []byte("secret"))
	for generation := range 3 {
		a.Detach()
		if err := errors.Join(a.Close(), j.Close()); err != nil {
			t.Fatal(err)
		}
		var r Recovered
		j, r = opened(t, path)
		if string(r.Records["ann"]) != "secret" || r.Dropped != 0 || !r.SameBoot {
			t.Errorf("%d: recovered %+v", generation, r)
		}
		if a, err = actor.Resume(actor.Config{Store: store.Share(), Journal: j}, *r.Agent); err != nil {
			t.Fatal(err)
		}
		resumed := a.Resumed()
		if len(resumed) != 1 || resumed[0].Token != g.Token() {
			t.Fatalf("%d: resumed %+v", generation, resumed)
		}
		if again := <-resumed[0].Grant; !again.Held() {
			t.Errorf("%d: %v", generation, again.Cause())
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
