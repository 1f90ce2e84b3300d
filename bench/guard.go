package main

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guard sees whether two hold a lock at a time. It is memory that processes share,
// through a file, and knows nothing of Redis.
type guard struct {
	memory  []byte
	inside  *atomic.Int64 // how many hold the lock at this moment
	counter *atomic.Int64 // incremented in two steps, so that two at a time lose one
	entered atomic.Int64  // by this process
	overlap atomic.Int64  // seen by this process
}

// newGuard maps a file, and makes it if it is not there.
func newGuard(path string) (*guard, error) {
	const size = 4096
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the mapping stays
	if err := file.Truncate(size); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &guard{
		memory:  memory,
		inside:  (*atomic.Int64)(unsafe.Pointer(&memory[0])),
		counter: (*atomic.Int64)(unsafe.Pointer(&memory[8])),
	}, nil
}

// hold is called by whoever has the lock. do is the critical section.
func (g *guard) hold(do func()) {
	if g.inside.Add(1) != 1 {
		g.overlap.Add(1)
	}
	before := g.counter.Load()
	do()
	g.counter.Store(before + 1)
	g.entered.Add(1)
	g.inside.Add(-1)
}

// check returns an error if all processes together entered more often than the
// counter says, or if overlaps were seen.
func (g *guard) check(entered, overlaps int64) error {
	if counted := g.counter.Load(); counted != entered || overlaps != 0 {
		return fmt.Errorf(
			"%w: %d grants, %d counted by the holders, %d overlaps seen", errOverlap, entered, counted, overlaps,
		)
	}
	return nil
}

func (g *guard) close() error { return unix.Munmap(g.memory) }

var errOverlap = errors.New("two held one lock at a time")
