package access

import (
	"sync"

	"github.com/lockagent/lockagent/internal/daemon/quota"
)

// Limits bound what each user has at once. 0 is no bound.
type Limits struct {
	Claims      int // claims, whether they are granted or wait
	Waiters     int // claims that wait
	Streams     int // streams, also those that only watch
	Watches     int // streams that only watch
	Connections int // connections
	NameLen     int // bytes in the name of a lock

	Numbers int // semaphores and latches in the memory of the daemon, of all users together
}

// Room is what the descriptors of the daemon allow of all users together. 0 is no bound.
type Room struct {
	Connections int
	Processes   int // with which claims end
}

// What a user has beside the limits, and what all users have.
const (
	// Reserve is how many more those who look after the daemon have of what all users share.
	Reserve = 16
	// calls is how many requests a user has beyond the limit of the streams, so that there are calls beside them.
	calls = 1024
	// lists is how many lists of locks a user has under way. Each costs a page of memory until it is read.
	lists = 32
	// The metrics and the live page need few descriptors and little time of the processor: the clients need the others.
	metricsConnections = 64
	pageConnections    = 256
	pages              = 64
)

// bound is the table of the limits: how many there may be of each kind, by the limits that count now.
func (a *Access) bound(kind quota.Kind) quota.Bound {
	limits := a.policy.Load().limits
	switch kind {
	case quota.Connections:
		all := a.room.Connections
		return quota.Bound{Each: connections(limits.Connections, all), All: all, Reserve: Reserve}
	case quota.PageConnections:
		return half(pageConnections)
	case quota.MetricsConnections:
		return half(metricsConnections)
	case quota.Pages:
		return half(pages)
	case quota.Requests:
		if limits.Streams == 0 {
			return quota.Bound{}
		}
		return quota.Bound{Each: limits.Streams + calls}
	case quota.Lists:
		return quota.Bound{Each: lists}
	case quota.Streams:
		return quota.Bound{Each: limits.Streams}
	case quota.Watches:
		return quota.Bound{Each: limits.Watches}
	case quota.Claims:
		return quota.Bound{Each: limits.Claims}
	case quota.Waiters:
		return quota.Bound{Each: limits.Waiters}
	case quota.Processes:
		return quota.Bound{Each: (a.room.Processes + 1) / 2, All: a.room.Processes}
	case quota.Numbers:
		return quota.Bound{All: limits.Numbers}
	}
	return quota.Bound{}
}

// half is the bound of something of which all users have only a few. A user has half of them.
func half(all int) quota.Bound { return quota.Bound{Each: all / 2, All: all, Reserve: Reserve} }

// connections is how many connections a user may have: an eighth of the room is left for others.
func connections(limit, room int) int {
	if room == 0 {
		return limit
	}
	most := max(room-room/8, 1)
	if limit == 0 {
		return most
	}
	return min(limit, most)
}

// Quotas counts what each user has. Whoever asks it tells the refusals: see [Access.Refused].
func (a *Access) Quotas() *quota.Bureau { return a.quotas }

// Hold counts one more of each of these kinds for a user, until leave is called. Further calls of leave do nothing. The
// error is a [*refusal.QuotaError] if one of them is too many. It is counted, and told.
func (a *Access) Hold(uid uint32, of ...quota.Kind) (leave func(), err error) {
	if err := a.quotas.Take(uid, of...); err != nil {
		return nil, a.Refused(uid, err)
	}
	return sync.OnceFunc(func() { a.quotas.Leave(uid, of...) }), nil
}
