package journal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

// A lock that nobody else wants, with a journal and without. The store is in memory.
func BenchmarkCycle(b *testing.B) {
	for _, journaled := range []bool{false, true} {
		b.Run(fmt.Sprint("journaled ", journaled), func(b *testing.B) {
			cfg := actor.Config{Store: memstore.New()}
			if journaled {
				cfg.Journal, _ = opened(b, filepath.Join(b.TempDir(), "journal"))
			}
			a, err := actor.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = a.Close() }()
			b.ReportAllocs()
			for b.Loop() {
				g := a.Lock(background, "orders/42", actor.Request{Owner: "0b6b9cb2-9e5b-4d4f-a0d4-3a1b3c5d7e9f"})
				if err := g.Release(background); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// kept keeps what goes to a journal.
type kept struct{ writes []write }

type write struct {
	changes []saved.Change
	due     bool
}

func (*kept) Begin([]saved.Change) {}
func (k *kept) Write(changes []saved.Change, due bool) {
	k.writes = append(k.writes, write{append([]saved.Change{}, changes...), due})
}

// The changes of one cycle, of which three are due.
func BenchmarkWrite(b *testing.B) {
	k := new(kept)
	a, err := actor.New(actor.Config{Store: memstore.New(), Journal: k})
	if err != nil {
		b.Fatal(err)
	}
	g := a.Lock(background, "orders/42", actor.Request{Owner: "0b6b9cb2-9e5b-4d4f-a0d4-3a1b3c5d7e9f"})
	if err := g.Release(background); err != nil {
		b.Fatal(err)
	}
	cycle := k.writes
	_ = a.Close()
	j, _ := opened(b, filepath.Join(b.TempDir(), "journal"))
	j.Begin(nil)
	due := 0
	size := j.size
	for _, w := range cycle {
		j.Write(w.changes, true)
		if w.due {
			due++
		}
	}
	size = j.size - size
	b.ReportAllocs()
	for b.Loop() {
		for _, w := range cycle {
			j.Write(w.changes, w.due)
		}
	}
	b.ReportMetric(float64(due), "writes/op")
	b.ReportMetric(float64(size), "bytes/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*due), "ns/write")
}

const claims = 10_000

// holding leaves a journal with so many locks that are held, and their claims.
func holding(b *testing.B, n int) (path string, store *memstore.Store, size int) {
	b.Helper()
	path, store = filepath.Join(b.TempDir(), "journal"), memstore.New()
	j, _ := opened(b, path)
	a, err := actor.New(actor.Config{Store: store.Share(), Journal: j})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		owner := lockagent.NewAgentID()
		j.Put(string(owner), make([]byte, 64))
		name := lockagent.Name(fmt.Sprint("orders/", i))
		g := a.Lock(background, name, actor.Request{Owner: lockagent.Owner(owner)})
		if g.Err() != nil {
			b.Fatal(g.Err())
		}
	}
	a.Detach()
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	_ = a.Close()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return path, store, int(info.Size())
}

// A daemon starts again, with many claims that are held.
func BenchmarkRecovery(b *testing.B) {
	path, store, size := holding(b, claims)
	content, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			b.Fatal(err)
		}
		j, r, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		a, err := actor.Resume(actor.Config{Store: store.Share(), Journal: j}, *r.Agent)
		if err != nil || len(a.Resumed()) != claims || len(r.Records) != claims {
			b.Fatal(err)
		}
		a.Detach()
		_ = a.Close()
		_ = j.Close()
	}
	b.ReportMetric(float64(size)/claims, "bytes/claim")
}

// The memory of the journal for a claim that is held, beside that of the agent.
func BenchmarkMemory(b *testing.B) {
	path, _, _ := holding(b, claims)
	for b.Loop() {
		before := heap()
		s, err := read(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(heap()-before)/claims, "heap-bytes/claim")
		runtime.KeepAlive(s)
	}
}

func heap() int64 {
	for range 3 { // what is in pools lasts for two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// How long writers wait when the file is replaced.
func BenchmarkAll(b *testing.B) {
	path, _, _ := holding(b, claims)
	j, _ := opened(b, path)
	s, err := read(path)
	if err != nil {
		b.Fatal(err)
	}
	j.records = s.records
	for b.Loop() {
		_, _ = io.Discard.Write(j.all())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(time.Millisecond), "ms")
}
