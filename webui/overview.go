package webui

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// overview is the data of the first screen.
type overview struct {
	Held, Waiting, Uncertain, Resumed int
	Locks, Queues                     int  // all, and those for which somebody waits
	Full                              bool // there are more than were counted
	Parts                             []Part
	Longest                           []lockRow // the locks whose waiters have waited longest
	Lost                              []loss
	LostAll                           int
	LostFull                          bool // there are more than were read
	LostErr                           error

	// The last hour. They are nil if nothing is known, or the user may not know of all locks.
	HeldTrend, WaitsTrend, LostTrend *spark
}

// Wrong reports whether the daemon lacks something that it needs.
func (o *overview) Wrong() bool {
	return slices.ContainsFunc(o.Parts, func(is Part) bool { return is.State == PartBad })
}

// Bounds of the first screen.
const (
	mostLongest = 6
	mostLost    = 6
	lostSince   = time.Hour
	maxLosses   = 1000
	readTime    = 2 * time.Second // for the event log
)

// loss is a hold that ended against the will of its owner.
type loss struct {
	At    time.Time
	Lock  string
	Token uint64
	Why   string
	Held  time.Duration
}

// lossesOf is what the event log says of the last hour.
type lossesOf struct {
	all  []loss
	full bool
	err  error
}

// overview loads the first screen.
func (p *page) overview(r *http.Request) (content, error) {
	ctx := r.Context()
	data := &overview{Parts: p.Parts(ctx)}
	last, err := p.scan(ctx, "**", "", func(l *lockagentv1.Lock) {
		data.Locks++
		data.Held += int(l.GetHeld())
		data.Waiting += int(l.GetWaiting())
		for _, c := range l.GetHolders() {
			switch states[c.GetState()] {
			case stateUncertain:
				data.Uncertain++
			case stateResumed:
				data.Resumed++
			}
		}
		if len(l.GetWaiters()) > 0 {
			data.Queues++
			data.longest(p.lockRow(l))
		}
	})
	if err != nil {
		return content{}, err
	}
	data.Full = last != ""
	p.lost(ctx, data)
	if p.Access.Operates(ctx, "") {
		is := p.trends.get("", func() trend { return p.readTrend(p.waits) })
		data.HeldTrend = sparkOf("held", is.held, number)
		data.WaitsTrend = sparkOf("waits (p95)", is.waits, micros)
	}
	return content{Title: "Overview", Body: data.html()}, nil
}

// longest keeps a lock if its waiters are among those that have waited longest.
func (o *overview) longest(row lockRow) {
	at, _ := slices.BinarySearchFunc(
		o.Longest, row, func(a, b lockRow) int { return a.Longest.Since.Compare(b.Longest.Since) },
	)
	if at < mostLongest {
		o.Longest = slices.Insert(o.Longest, at, row)
		o.Longest = o.Longest[:min(len(o.Longest), mostLongest)]
	}
}

// lost adds what was lost, as far as the user may know of it. The newest is the first.
func (p *page) lost(ctx context.Context, data *overview) {
	known := p.losses.get("", p.readLosses)
	data.LostErr, data.LostFull = known.err, known.full
	lost, first := make([]int, minutes), time.Now().Unix()/60-minutes+1
	for _, l := range slices.Backward(known.all) {
		if !p.Access.Sees(ctx, lockagent.Name(l.Lock), true) {
			continue
		}
		if at := l.At.Unix()/60 - first; at >= 0 && at < minutes {
			lost[at]++
		}
		if data.LostAll++; len(data.Lost) < mostLost {
			data.Lost = append(data.Lost, l)
		}
	}
	if data.LostAll > 0 {
		data.LostTrend = sparkOf("lost in a minute", lost, number)
	}
}

// readLosses reads the event log of the last hour. It is for all users, so it does not end with a request.
func (p *page) readLosses() (is lossesOf) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	of := events.Filter{Kinds: []lockagent.EventKind{lockagent.EventLost, lockagent.EventBroken}}
	err := p.Log.Replay(ctx, natslog.FromTime(time.Now().Add(-lostSince)), of, func(r *events.Record, err error) error {
		if err != nil || r.Token == 0 { // what is no event, and the lock of somebody else that was broken
			return nil
		}
		is.all = append(is.all, loss{r.Time, string(r.Lock), uint64(r.Token), whyLost(&r.Event), r.Held})
		if len(is.all) > maxLosses {
			is.all, is.full = is.all[1:], true
		}
		return nil
	})
	if !errors.Is(err, natslog.ErrNoStream) { // nobody has published anything yet
		is.err = err
	}
	return is
}

// whyLost says why a hold was lost.
func whyLost(e *lockagent.Event) string {
	if e.Operator != "" {
		return "broken by " + e.Operator
	}
	if e.Kind == lockagent.EventBroken {
		return "broken"
	}
	return e.Reason.String()
}
