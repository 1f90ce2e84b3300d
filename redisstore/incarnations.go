package redisstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

const (
	// Between two looks at the server there is at least firstPause. A look that failed is
	// repeated after a pause, which doubles up to lastPause. The pauses are short, because
	// holders have to learn soon that the server forgot them.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// firstStart is the reason of a grace period in a database that nobody knew.
const firstStart = "first start"

// incarnations knows the present incarnation of the store, and tells of resets. Each [shard] has an incarnation of its
// own.
//
// A shard keeps the name of its incarnation, "<data>.<run>.<began>", or "<data>.<run>" without a grace period. In a
// Cluster the name ends with "@" and where the shard keeps it.
//
//   - data is the time since which the shard has had its data. If a script finds the shard
//     without a name, the data are gone, and the script writes a new name.
//   - run is the run of the server, which is new after each start. The server may be a replica
//     that took over. In both cases the data may lack the latest writes.
//   - began is when the grace period began.
//
// Every acquire reads the name. Only a look at the server compares the run with the name. The store looks by each
// connection that is to carry calls, before the first call: so no call reaches another run under the name of the one
// before. It also looks when there is reason to: it lost a connection, the server denied a renewal, or another agent
// tells of a new incarnation.
type incarnations struct {
	doubt   chan struct{} // capacity 1: there is reason to look
	changes chan struct{} // capacity 1: there is something in untold

	mu      sync.Mutex // guards what follows, and what it guards of the shards
	shards  map[uint16]*shard
	heard   bool      // an agent listens, and is told of the news of each shard
	since   time.Time // the latest instant at which something can have been forgotten
	inDoubt bool      // a look is due: replies may come from another run under the old name
	untold  []news
	hooks   []*hook
}

// shard is what the store knows of a server that forgets by itself: of the one server, or of a node of a Cluster with
// its replicas.
type shard struct {
	slot uint16      // in a Cluster, that of the keys of the shard: the last slot of the node, see incarnation.lua
	home script.Home // in that slot
	// whose roll it is, for messages: the home, or without a Cluster the number of the database.
	whose string

	covered atomic.Int64 // the longest lease for which the agent is on the roll of the shard
	asked   atomic.Int64 // the longest lease of a call since the agent has called the roll

	// Guarded by the mu of incarnations.
	epoch   uint64                // how often the name has changed
	heard   uint64                // the epoch when the agent began to listen
	current string                // the name of the incarnation; empty if not known yet
	server  string                // the address of the server that had it
	why     string                // it began, as in a Reset
	last    lockagent.StoreTime   // when current was last seen, without doubt
	grace   lockagent.GracePeriod // that goes on in current; the zero one if there is none

	// Guarded by the mu of the roll.
	waiting []waiting
	calling bool
	members map[script.Member]time.Time // as the server told last: zero; or when their messages came since, see told
	of      string                      // the incarnation in which it told so
	version int64
	timer   *time.Timer // of the next call
	over    *time.Timer // when a grace period is over
	again   *time.Timer // when the agent says once more that it has come back
}

// unheard is what heard is of a shard that was first seen after the agent began to listen.
const unheard = 1<<64 - 1

// news is a reset, or a grace period that has begun or ended.
type news struct {
	reset *lockagent.Reset
	grace *lockagent.GracePeriod
}

// hook has one of two functions.
type hook struct {
	reset func(lockagent.Reset)
	grace func(lockagent.GracePeriod)
}

func newIncarnations() *incarnations {
	return &incarnations{
		shards:  make(map[uint16]*shard),
		since:   time.Now(),
		doubt:   make(chan struct{}, 1),
		changes: make(chan struct{}, 1),
	}
}

// find returns the shard with a slot, or nil if it is not known.
func (i *incarnations) find(slot uint16) *shard {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.shards[slot]
}

// shard returns the shard with a slot. cluster says whether it is a node of a Cluster.
func (i *incarnations) shard(slot uint16, cluster bool) *shard {
	i.mu.Lock()
	defer i.mu.Unlock()
	of := i.shards[slot]
	if of == nil {
		of = &shard{slot: slot, why: firstStart}
		if cluster {
			of.home = script.HomeIn(slot)
			of.whose = string(of.home)
		}
		if i.heard {
			of.heard = unheard
		}
		i.shards[slot] = of
	}
	return of
}

// all returns the shards.
func (i *incarnations) all() []*shard {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Values(i.shards))
}

// drop forgets a shard. It returns the shard of the same server, or the one with the slot home, or nil.
func (i *incarnations) drop(of *shard, home uint16) (heir *shard) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.shards[of.slot] == of {
		delete(i.shards, of.slot)
	}
	if heir = i.beside(of, of.server); heir == nil {
		heir = i.shards[home]
	}
	return heir
}

// beside returns the shard of a server at another home than that of a shard: the one that was seen last, or nil. It
// expects mu to be held.
func (i *incarnations) beside(of *shard, server string) (latest *shard) {
	for _, other := range i.shards {
		if other != of && other.server == server && server != "" && (latest == nil || other.last > latest.last) {
			latest = other
		}
	}
	return latest
}

// listens takes note that an agent listens from now on.
func (i *incarnations) listens() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heard = true
	for _, of := range i.shards {
		if of.heard = of.epoch; of.current == "" { // the server was away
			of.heard = unheard
		}
	}
}

// named returns the shards whose incarnation has a name. [lockagent.PresentIncarnation] stands for those that have not
// been reset since the agent began to listen.
func (i *incarnations) named(name string) (shards []*shard) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, of := range i.shards {
		if of.current == name || name == lockagent.PresentIncarnation && of.epoch == of.heard && of.current != "" {
			shards = append(shards, of)
		}
	}
	return shards
}

// known returns the name of the present incarnation, which may be empty, and the epoch.
func (i *incarnations) known(of *shard) (name string, epoch uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return of.current, of.epoch
}

// at is the present incarnation of a server at another home than that of a shard, or "".
func (i *incarnations) at(server string, but *shard) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if of := i.beside(but, server); of != nil {
		return of.current
	}
	return ""
}

// remembersSince is the latest instant at which the present incarnation can have begun.
func (i *incarnations) remembersSince() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.since
}

// connected takes note of the instant at which a connection was made to a server that does not tell its run. Before, it
// may have been another run.
func (i *incarnations) connected(at time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at.After(i.since) {
		i.since = at
	}
}

// began takes note of the instant at which the first incarnation had begun at the latest.
func (i *incarnations) began(since time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.since = since
}

// observe takes note of the name in a reply. epoch is what known returned before the call was
// sent. If the name has changed since, another name does not count: it may be that of the past. If
// it is that of the present, a later reply has it again. Other resets do not matter: a reply that shows
// a step of the clock may also be the first one to name a new incarnation.
//
// server is the address of the server that was looked at, or "" if an acquire has the name.
func (i *incarnations) observe(of *shard, name, server string, at lockagent.StoreTime, epoch uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case script.HomeOf(name) != of.home: // the slots of a Cluster have moved
		return
	case name == of.current:
		if !i.inDoubt {
			of.last = max(of.last, at)
		}
	case of.current == "":
		of.current, of.last = name, at
	case epoch == of.epoch:
		if of.grace.Incarnation != "" {
			i.endGrace(of, at, nil)
		}
		of.epoch++
		of.why = of.reason(name, server)
		i.changed(lockagent.Reset{From: of.current, To: name, Reason: of.why, After: of.last, Before: at})
		of.current, of.last = name, at
	}
	if name == of.current && server != "" {
		of.server = server
	}
}

// reason is the reason of a reset from the current incarnation to the next one.
func (s *shard) reason(next, server string) string {
	data, _, _ := strings.Cut(s.current, ".")
	switch {
	case !strings.HasPrefix(next, data+"."):
		return "emptied"
	case s.server != "" && server != "" && s.server != server:
		return "failed over"
	}
	return "restarted"
}

// report takes note of a reset that does not change the name of the incarnation.
func (i *incarnations) report(reset lockagent.Reset) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changed(reset)
}

// changed is report. It expects mu to be held.
func (i *incarnations) changed(reset lockagent.Reset) {
	if reset.From != reset.To || reset.Step >= 0 { // a clock that was set back makes leases longer
		i.since = time.Now()
	}
	i.add(news{reset: &reset})
	signal(i.doubt) // the servers may have lost their identity
}

// add expects mu to be held.
func (i *incarnations) add(n news) {
	i.untold = append(i.untold, n)
	signal(i.changes)
}

// seen takes note of what a look at a server has seen. server is its address, and epoch as for observe.
func (i *incarnations) seen(of *shard, l *script.Looked, server string, epoch uint64) {
	i.observe(of, l.Name, server, l.At, epoch)
	i.mu.Lock()
	defer i.mu.Unlock()
	if l.Name != of.current {
		return // it is of the past
	}
	switch begun := of.grace.Incarnation == l.Name; {
	case l.Left >= 0 && !begun:
		if of.heard == unheard && of.epoch == 0 {
			// The period may wait for the agent, which has not heard of the shard.
			i.changed(lockagent.Reset{To: l.Name, Reason: of.why, After: l.At, Before: l.At})
		}
		of.grace = lockagent.GracePeriod{
			Incarnation: l.Name, Reason: of.why, Began: script.Began(l.Name), Roll: l.Awaited,
		}
		period := of.grace
		i.add(news{grace: &period})
	case l.Left < 0 && begun:
		i.endGrace(of, l.At, l.Awaited)
	}
}

// refused takes note that a grace period in an incarnation has refused a call. epoch is as for observe. Only a look
// tells for whom the period waits, and in a Cluster only a look or an acquire at the home ends one.
func (i *incarnations) refused(of *shard, grace *script.GraceError, epoch uint64) {
	i.observe(of, grace.Incarnation, "", grace.At, epoch)
	if !i.graced(of) || grace.Left <= time.Millisecond {
		i.suspect()
	}
}

// over takes note of the message that a grace period is over. It reports false if no shard is in that incarnation.
func (i *incarnations) over(at lockagent.StoreTime, name string, absent []lockagent.AgentID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, of := range i.shards {
		if of.current == name {
			if of.grace.Incarnation == name {
				i.endGrace(of, at, absent)
			}
			return true
		}
	}
	return false
}

// endGrace expects mu to be held.
func (i *incarnations) endGrace(of *shard, at lockagent.StoreTime, absent []lockagent.AgentID) {
	period := of.grace
	period.Ended, period.Roll = max(at, period.Began), absent
	of.grace = lockagent.GracePeriod{}
	i.add(news{grace: &period})
}

// graced reports whether a grace period goes on, as far as is known.
func (i *incarnations) graced(of *shard) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return of.grace.Incarnation != ""
}

// suspect asks for a look at the server.
func (i *incarnations) suspect() {
	i.mu.Lock()
	i.inDoubt = true
	i.mu.Unlock()
	signal(i.doubt)
}

// assured ends the doubt after a look, unless there is reason for another look.
func (i *incarnations) assured() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.inDoubt = len(i.doubt) > 0
}

// settled drops the suspicion that the first connections have caused.
func (i *incarnations) settled() {
	select {
	case <-i.doubt:
	default:
	}
	i.assured()
}

// run tells of resets in their order, and calls look when there is reason to, until ctx is done.
// look asks the server, and calls observe or report. It fails if the server does not answer.
func (i *incarnations) run(ctx context.Context, look func(context.Context) error) {
	var rest <-chan time.Time // if not nil, no look before it delivers
	pause, failed := firstPause, false
	for {
		doubt := i.doubt
		if rest != nil {
			doubt = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-i.changes:
			i.tell()
			continue
		case <-rest:
			rest = nil
			if !failed {
				continue
			}
		case <-doubt:
		}
		if failed = look(ctx) != nil; failed {
			rest = time.After(pause)
			pause = min(2*pause, lastPause)
		} else {
			i.assured()
			pause = firstPause
			rest = time.After(pause)
		}
	}
}

// on registers a hook for the news from now on.
func (i *incarnations) on(h *hook) (cancel func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hooks = append(i.hooks, h)
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.hooks = slices.DeleteFunc(i.hooks, func(other *hook) bool { return other == h })
	}
}

func (i *incarnations) tell() {
	i.mu.Lock()
	untold, hooks := i.untold, slices.Clone(i.hooks)
	i.untold = nil
	i.mu.Unlock()
	for _, n := range untold {
		for _, h := range hooks {
			switch {
			case n.reset != nil && h.reset != nil:
				h.reset(*n.reset)
			case n.grace != nil && h.grace != nil:
				h.grace(*n.grace)
			}
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
