//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	callBound = 20 * time.Second      // of a call, if another process keeps the directory to itself
	askEvery  = time.Millisecond      // for the directory
	pollEvery = 10 * time.Millisecond // for locks that were released
	remembers = time.Minute           // for how long a tenure that was withdrawn is remembered
	farthest  = 24 * time.Hour        // from the clock to a floor
)

var _ lockagent.Store = (*Store)(nil)

// Store is a [lockagent.Store] for the processes of one host, over a directory that nothing else uses. It has plain
// locks, and no layers. So [lockagent.Grant.Wanted] tells a holder of others in its process, and of no other process.
// [Open] makes one; the zero Store is of no use. A Store is safe for concurrent use.
type Store struct {
	dir    string
	closed chan struct{}
	queued chan struct{} // has a value if calls wait
	runs   sync.WaitGroup

	mu          sync.Mutex // guards what follows
	isClosed    bool
	calls       []func(error)
	subs        map[*subscription]bool
	hooks       map[*func(lockagent.Reset)]bool
	incarnation string // the one that was found last
}

// subscription is one call of Subscribe.
type subscription struct {
	name   lockagent.Name
	wake   func()
	stands bool
	freed  int64 // of the lock, when the subscriber was last woken
}

// Open opens the store in a directory, which it makes if there is none.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	s := &Store{dir: dir, closed: make(chan struct{}), queued: make(chan struct{}, 1)}
	s.subs, s.hooks = make(map[*subscription]bool), make(map[*func(lockagent.Reset)]bool)
	s.runs.Go(s.serve)
	s.runs.Go(s.poll)
	return s, nil
}

// lockFile is what the file of a lock says.
type lockFile struct {
	Holder    string           `json:",omitempty"` // the text of a tenure
	Until     int64            `json:",omitempty"` // when its lease ends: microseconds since 1970
	Freed     int64            // how often the lock was released
	Withdrawn map[string]int64 `json:",omitempty"` // tenures, with the time until which that is remembered
}

// clockFile is what the file "clock" says. The tokens of all locks come from one clock, which never goes back. Leases
// do not: a token that is far ahead must not end them.
type clockFile struct {
	Incarnation string // a new one if somebody has emptied the directory
	Ahead       int64  // by how many microseconds the clock is ahead of that of the host
	Last        int64  // what the clock showed last
}

// tick returns what the clock shows. It is more than ever before, and more than least.
func (c *clockFile) tick(least int64) int64 {
	now := time.Now().UnixMicro() + c.Ahead
	if behind := max(c.Last, least) + 1 - now; behind > 0 { // somebody has set the clock of the host back
		c.Ahead += behind
		now += behind
	}
	c.Last = now
	return now
}

// Acquire implements [lockagent.Store].
func (s *Store) Acquire(_ context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	call(s, req.Name, req.Kind, req.Check(), done, func(v *visit) (reply lockagent.AcquireReply, err error) {
		tenure := req.Tenure.String()
		switch {
		case v.lock.Withdrawn[tenure] > v.now:
			return reply, lockagent.ErrWithdrawn
		case int64(req.Floor) > v.clock.tick(0)+farthest.Microseconds():
			return reply, &lockagent.OptionError{Option: "floor", Reason: "it is more than a day ahead of the clock"}
		}
		reply.Incarnation = v.clock.Incarnation
		if !v.held(tenure) && v.lock.Until > v.now {
			reply.At, reply.Holder = lockagent.StoreTime(v.clock.tick(0)), v.lock.Holder
			reply.Remaining = time.Duration(v.lock.Until-v.now) * time.Microsecond
			return reply, nil
		}
		at := v.clock.tick(int64(req.Floor))
		if at > int64(lockagent.MaxToken) {
			return reply, lockagent.ErrNoTokens
		}
		v.lock.Holder = tenure
		v.extend(req.Lease)
		reply.Granted, reply.At, reply.Token = true, lockagent.StoreTime(at), lockagent.Token(at)
		return reply, nil
	})
}

// Renew implements [lockagent.Store].
func (s *Store) Renew(_ context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	call(s, req.Name, req.Kind, req.Check(), done, func(v *visit) (reply lockagent.RenewReply, err error) {
		reply.At = lockagent.StoreTime(v.clock.tick(0))
		if reply.Held = v.held(req.Tenure.String()); reply.Held {
			v.extend(req.Lease)
		}
		return reply, nil
	})
}

// Release implements [lockagent.Store].
func (s *Store) Release(_ context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	call(s, req.Name, req.Kind, req.Check(), done, func(v *visit) (reply lockagent.ReleaseReply, err error) {
		tenure := req.Tenure.String()
		reply.At, reply.Others = lockagent.StoreTime(v.clock.tick(int64(req.Last))), -1
		if reply.Released = v.held(tenure); reply.Released {
			v.lock.Holder, v.lock.Until = "", 0
			v.lock.Freed++
		}
		if req.Unanswered {
			if v.lock.Withdrawn == nil {
				v.lock.Withdrawn = make(map[string]int64)
			}
			v.lock.Withdrawn[tenure] = v.now + remembers.Microseconds()
		}
		return reply, nil
	})
}

// Subscribe implements [lockagent.Store]. It looks for releases some times a second.
func (s *Store) Subscribe(name lockagent.Name, _ lockagent.LockKind, wake func()) (cancel func()) {
	sub := &subscription{name: name, wake: wake}
	s.mu.Lock()
	closed := s.isClosed
	s.subs[sub] = true
	s.mu.Unlock()
	if closed { // the next Acquire says so, and nobody else wakes the waiter
		wake()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, sub)
	}
}

// OnReset implements [lockagent.Store].
func (s *Store) OnReset(f func(lockagent.Reset)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks[&f] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.hooks, &f)
	}
}

// Close implements [lockagent.Store]. A function that the store calls, such as done or wake, must not call Close.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.isClosed {
		s.isClosed = true
		close(s.closed)
	}
	s.mu.Unlock()
	s.runs.Wait()
	return nil
}

// visit is one call while it has the directory for itself.
type visit struct {
	now   int64 // of the host, in microseconds since 1970
	lock  lockFile
	clock clockFile
}

// held reports whether a tenure has the lock.
func (v *visit) held(tenure string) bool { return v.lock.Holder == tenure && v.lock.Until > v.now }

// extend starts a lease, which does not end earlier than before.
func (v *visit) extend(lease time.Duration) {
	v.lock.Until = max(v.lock.Until, v.now+(lease+time.Microsecond-1).Microseconds())
}

// call queues a call. do decides it, and done gets the answer. err is what is wrong with the request, or nil.
func call[R any](
	s *Store, name lockagent.Name, kind lockagent.LockKind, err error, done func(R, error), do func(*visit) (R, error),
) {
	if err == nil && kind.OrPlain() != lockagent.PlainLock {
		err = &lockagent.OptionError{
			Option: "kind", Reason: fmt.Sprintf("there are only plain locks here, no %.64q", kind),
		}
	}
	s.mu.Lock()
	if err == nil && s.isClosed {
		err = lockagent.ErrClosed
	}
	if err == nil {
		s.calls = append(s.calls, func(err error) {
			var reply R
			if err == nil {
				reply, err = visitAs(s, name, do)
			}
			done(reply, err)
		})
	}
	s.mu.Unlock()
	if err != nil {
		var none R
		done(none, err)
		return
	}
	select {
	case s.queued <- struct{}{}:
	default:
	}
}

// visitAs carries out one call.
func visitAs[R any](s *Store, name lockagent.Name, do func(*visit) (R, error)) (reply R, err error) {
	unlock, err := s.lockDir()
	if err != nil {
		return reply, unavailable(err)
	}
	defer unlock()
	v := visit{}
	if err := s.read("clock", &v.clock); err != nil {
		return reply, err
	}
	if v.clock.Incarnation == "" {
		v.clock.Incarnation = rand.Text()
	}
	if err := s.read(fileOf(name), &v.lock); err != nil {
		return reply, err
	}
	v.now = time.Now().UnixMicro()
	if reply, err = do(&v); err != nil {
		return reply, err
	}
	for tenure, until := range v.lock.Withdrawn {
		if until <= v.now {
			delete(v.lock.Withdrawn, tenure)
		}
	}
	err = s.write("clock", &v.clock) // before the lock: what the clock has shown once, it never shows again
	if err == nil {
		err = s.write(fileOf(name), &v.lock)
	}
	s.look(false)
	return reply, unavailable(err)
}

// lockDir has the directory to itself until unlock is called. The system calls unlock for a process that ends. The
// file that is locked is the directory, because somebody may remove all others.
func (s *Store) lockDir() (unlock func(), err error) {
	for overdue := time.Now().Add(callBound); ; time.Sleep(askEvery) {
		d, err := os.Open(s.dir)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			if at, atErr := d.Stat(); atErr == nil {
				if is, isErr := os.Stat(s.dir); isErr == nil && os.SameFile(at, is) {
					return func() { _ = d.Close() }, nil
				}
			}
		}
		_ = d.Close()
		if time.Now().After(overdue) {
			return nil, errors.New("another process keeps the directory to itself")
		}
	}
}

// fileOf is the name of the file of a lock. The name of a lock may be too long for a file, or have a slash.
func fileOf(name lockagent.Name) string {
	sum := sha256.Sum256([]byte(name))
	return "lock-" + hex.EncodeToString(sum[:])
}

// read reads a file. A file that is not there leaves the value as it is.
func (s *Store) read(file string, value any) error {
	data, err := os.ReadFile(filepath.Join(s.dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return unavailable(err)
	}
	if json.Unmarshal(data, value) != nil {
		return lockagent.ErrWrongType
	}
	return nil
}

// write replaces a file as a whole: a process may end at any instant.
func (s *Store) write(file string, value any) error {
	data, _ := json.Marshal(value) // nothing in it can fail
	path := filepath.Join(s.dir, file)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// unavailable is the error of a call for an error of the file system.
func unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("filestore: %w: %w", lockagent.ErrNotPermitted, err)
	}
	return fmt.Errorf("filestore: %w: %w", lockagent.ErrStoreUnavailable, err)
}

// serve makes the calls, one after the other.
func (s *Store) serve() {
	for {
		select {
		case <-s.queued:
		case <-s.closed:
		}
		s.mu.Lock()
		calls, closed := s.calls, s.isClosed
		s.calls = nil
		s.mu.Unlock()
		for i, call := range calls {
			if closed {
				call(lockagent.ErrClosed)
				continue
			}
			call(nil)
			if i+1 < len(calls) || len(s.queued) > 0 {
				time.Sleep(askEvery) // or other processes, which ask so often, would not find the directory free
			}
		}
		if closed {
			return
		}
	}
}

// poll wakes waiters, and tells of resets.
func (s *Store) poll() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case now := <-tick.C:
			// The one difference is of the clock that somebody may set, the other of one that nobody can.
			stepped := now.Round(0).Sub(last.Round(0)) - now.Sub(last)
			last = now
			s.look(stepped.Abs() > time.Second)
			s.lookForReleases()
		case <-s.closed:
			s.mu.Lock()
			subs := slices.Collect(maps.Keys(s.subs))
			s.mu.Unlock()
			for _, sub := range subs {
				sub.wake()
			}
			return
		}
	}
}

// look takes note of the present incarnation, and tells of a reset.
func (s *Store) look(stepped bool) {
	s.mu.Lock() // before the file is read: who has read an older one must not be the last to take note
	var c clockFile
	if s.read("clock", &c) != nil || c.Incarnation == "" { // whoever calls next begins an incarnation
		s.mu.Unlock()
		return
	}
	reset := lockagent.Reset{From: s.incarnation, To: c.Incarnation, Reason: "emptied"}
	s.incarnation = c.Incarnation
	if reset.From == reset.To {
		reset.Reason = "clock stepped"
	}
	var hooks []*func(lockagent.Reset)
	if stepped || reset.From != "" && reset.From != reset.To {
		hooks = slices.Collect(maps.Keys(s.hooks))
	}
	s.mu.Unlock()
	for _, f := range hooks {
		(*f)(reset)
	}
}

func (s *Store) lookForReleases() {
	s.mu.Lock()
	subs := slices.Collect(maps.Keys(s.subs))
	s.mu.Unlock()
	for _, sub := range subs {
		var l lockFile
		if s.read(fileOf(sub.name), &l) != nil {
			continue // the next Acquire says what is wrong
		}
		if !sub.stands || l.Freed != sub.freed { // only this goroutine uses these fields
			sub.stands, sub.freed = true, l.Freed
			sub.wake()
		}
	}
}
