package transport

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sentinels is what the Sentinels of the master say. Each Sentinel is asked on a connection of
// its own. So one that hangs, lags or is gone does not delay the answers of the others.
type sentinels struct {
	first chan struct{} // closed when the master is known

	mu      sync.Mutex           // guards what follows
	known   map[string]time.Time // when each Sentinel last answered, or was last named by another
	reports map[string]report    // of the Sentinels that answer
	current report               // that the table follows
}

// report is what one Sentinel says.
type report struct {
	master string
	epoch  int64 // grows with each failover
}

// longestRetry is about the longest pause between two tries to reach a Sentinel. It may be long:
// there are other Sentinels, and this one may be gone for good.
const longestRetry = 5 * time.Second

// forgotten is how long a Sentinel still counts when it no longer answers, and no other Sentinel
// names it.
const forgotten = time.Minute

var errNoMaster = errors.New("no Sentinel tells the address of the master")

// followSentinels finds the master, and starts to follow all Sentinels. It fails if all
// configured Sentinels do.
func (s *Servers) followSentinels(ctx context.Context) error {
	w := &s.sentinels
	w.first = make(chan struct{})
	w.known = make(map[string]time.Time)
	w.reports = make(map[string]report)
	for _, addr := range s.config.Addrs {
		w.known[addr] = time.Now()
	}
	failures := make(chan error, len(s.config.Addrs))
	for _, addr := range s.config.Addrs {
		doubt := make(chan struct{}, 1)
		s.doubts = append(s.doubts, doubt)
		s.runs.Go(func() { s.followSentinel(addr, doubt, failures) })
	}
	var failed error
	for range s.config.Addrs {
		select {
		case <-w.first:
			return nil
		case err := <-failures:
			failed = cmp.Or(failed, err)
		case <-ctx.Done():
			return cmp.Or(failed, context.Cause(ctx))
		}
	}
	return failed
}

// discover takes note of a Sentinel that another one named, and follows it if it is new.
func (s *Servers) discover(addr string) {
	w := &s.sentinels
	w.mu.Lock()
	_, known := w.known[addr]
	w.known[addr] = time.Now()
	w.mu.Unlock()
	if !known {
		s.runs.Go(func() { s.followSentinel(addr, make(chan struct{}, 1), nil) })
	}
}

// remembers reports whether a Sentinel still counts. One that does not is forgotten. Those in the
// Config always count.
func (s *Servers) remembers(addr string) bool {
	w := &s.sentinels
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.known[addr]) < forgotten || slices.Contains(s.config.Addrs, addr) {
		return true
	}
	delete(w.known, addr)
	return false
}

// followSentinel asks one Sentinel until it is forgotten, or the Servers are closed. If the first
// try fails, failed gets the error. It has room for it, or is nil.
func (s *Servers) followSentinel(addr string, doubt chan struct{}, failed chan<- error) {
	node := s.newNode(addr, login{user: s.config.SentinelUser, password: s.config.SentinelPassword}, func() {})
	defer node.close()
	var p pace
	for s.life.Err() == nil && s.remembers(addr) {
		answered, err := s.session(node, doubt)
		s.forget(addr)
		if failed != nil && !answered {
			failed <- err
		}
		failed = nil
		if answered {
			p.reset()
		}
		select {
		case <-s.life.Done():
		case <-time.After(p.next(longestRetry)):
		}
	}
}

// session asks a Sentinel again and again, until it fails or the connection is lost. It asks at
// intervals, at each announcement of a new master, and in doubt, but then less and less often.
func (s *Servers) session(node *Node, doubt chan struct{}) (answered bool, err error) {
	announced := make(chan struct{}, 1)
	conn, err := node.open(s.life, func(kind string, words []string) {
		if kind == "message" && len(words) == 2 && strings.HasPrefix(words[1], s.config.MasterSet+" ") {
			signal(announced)
		}
	})
	if err != nil {
		return false, err
	}
	defer conn.close()
	ctx, cancel := context.WithTimeout(s.life, s.config.Silence)
	defer cancel()
	if err := conn.do(ctx, []string{"SUBSCRIBE", "+switch-master"})[0].Err(); err != nil {
		return false, err
	}
	var p pace
	for {
		if err := s.askSentinel(node.addr, conn); err != nil {
			return answered, err
		}
		answered = true
		if !s.rest(&p, conn.lost, announced, doubt) {
			return true, nil
		}
	}
}

// rest waits until there is reason to ask a Sentinel again. It reports false if the
// connection is lost, or the Servers are closed.
func (s *Servers) rest(p *pace, lost <-chan struct{}, announced, doubt chan struct{}) bool {
	tick, rested := time.After(jitter(topologyInterval)), time.After(p.next(longestDoubt))
	var doubted chan struct{} // nil until it has rested
	for {
		select {
		case <-s.life.Done():
			return false
		case <-lost:
			return false
		case <-rested:
			doubted = doubt
		case <-doubted:
			return true
		case <-announced:
			p.reset()
			return true
		case <-tick:
			p.reset()
			return true
		}
	}
}

// askSentinel asks a Sentinel for the master, and for the other Sentinels that watch it.
func (s *Servers) askSentinel(addr string, conn *session) error {
	ctx, cancel := context.WithTimeout(s.life, s.config.Silence)
	defer cancel()
	set := s.config.MasterSet
	replies := conn.do(ctx,
		[]string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", set},
		[]string{"SENTINEL", "MASTER", set},
		[]string{"SENTINEL", "SENTINELS", set})
	master, err := replies[0].Items()
	if err != nil {
		return err
	}
	about, err := replies[1].Texts()
	if err != nil {
		return err
	}
	if len(master) != 2 {
		return errNoMaster
	}
	epoch, err := strconv.ParseInt(about["config-epoch"], 10, 64)
	if err != nil {
		return errNoMaster
	}
	host, err := master[0].Text()
	port, err2 := master[1].Text()
	if err != nil || err2 != nil {
		return errNoMaster
	}
	others, _ := replies[2].Items() // without them, the configured Sentinels have to do
	for _, other := range others {
		if about, err := other.Texts(); err == nil && about["ip"] != "" {
			s.discover(net.JoinHostPort(about["ip"], about["port"]))
		}
	}
	// heard comes last: choose has to know the Sentinels that this one names.
	s.heard(addr, report{net.JoinHostPort(host, port), epoch})
	return nil
}

// heard takes a report, and switches to another master if the reports say so.
func (s *Servers) heard(from string, r report) {
	w := &s.sentinels
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[from], w.reports[from] = time.Now(), r
	next := w.choose()
	if next == w.current {
		return
	}
	first := w.current.master == ""
	switched := next.master != w.current.master
	w.current = next
	if switched {
		s.serve(s.nodeAt(next.master))
	}
	if first {
		close(w.first)
	}
}

// forget drops the report of a Sentinel that does not answer.
func (s *Servers) forget(addr string) {
	w := &s.sentinels
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reports, addr)
}

// choose returns the report to follow: the one with the greatest epoch. The current report wins a
// tie. If all reports have smaller epochs than the current one, there are two cases. While some
// Sentinel that counts does not answer, the others may lag: the current report stays. If all
// answer, somebody has set them up anew: the greatest of their epochs counts. It expects mu to
// be held.
func (w *sentinels) choose() report {
	var best report
	for _, r := range w.reports {
		if best.master == "" || r.epoch > best.epoch || r == w.current && r.epoch == best.epoch {
			best = r
		}
	}
	if best.epoch >= w.current.epoch {
		return best
	}
	for addr, last := range w.known {
		if _, answers := w.reports[addr]; !answers && time.Since(last) < forgotten {
			return w.current
		}
	}
	return best
}
