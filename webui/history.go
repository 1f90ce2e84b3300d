package webui

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
)

// historyOf is what the event log says of the holds of a lock, the newest first.
type historyOf struct {
	Rows  []pastHold
	Since time.Duration // how far back it was read; 0 if it is all
	More  bool          // there are more than Rows in that time
	Err   error
}

// pastHold is a hold that is over, or goes on.
type pastHold struct {
	From, Until time.Time
	Held        time.Duration
	Waited      time.Duration
	Token       uint64
	Owner       string
	Command     string
	Agent       string
	How         string
	Ended       string
	Bad         bool // it ended against the will of its owner
}

const (
	mostPast   = 20
	enoughPast = 10
)

// spans are how far back a history is read. It begins with the shortest, because a busy lock may have many holds even
// in that, and goes on while there are few.
var spans = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 0}

// readHistory reads the holds of a lock, for all users who may know of them. So it does not end with a request.
func (p *page) readHistory(name lockagent.Name) (is historyOf) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	for _, since := range spans {
		next := p.readPast(ctx, name, since)
		if ctx.Err() != nil && since != spans[0] {
			return is // a shorter one was read whole
		}
		if is = next; is.Err != nil || len(is.Rows) >= enoughPast {
			return is
		}
	}
	return is
}

// readPast reads the holds of a lock of the time since, or all.
func (p *page) readPast(ctx context.Context, name lockagent.Name, since time.Duration) historyOf {
	is, from := historyOf{Since: since}, natslog.From{}
	if since > 0 {
		from = natslog.FromTime(time.Now().Add(-since))
	}
	folded := fold.New()
	err := p.Log.Replay(ctx, from, events.Filter{Lock: name}, func(r *events.Record, err error) error {
		if err != nil { // the audit tells of what is no event
			return nil
		}
		for _, c := range folded.Apply(*r) {
			if c.Kind == fold.HoldEnded || c.Kind == fold.HoldForgotten {
				is.add(c.Hold)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, natslog.ErrNoStream) {
		is.Err = err
	}
	for l := range folded.Locks() {
		for _, h := range l.Now() {
			is.add(&h)
		}
	}
	slices.SortStableFunc(is.Rows, func(a, b pastHold) int {
		return cmp.Or(cmp.Compare(b.Token, a.Token), b.From.Compare(a.From))
	})
	if len(is.Rows) > mostPast {
		is.Rows, is.More = is.Rows[:mostPast], true
	}
	return is
}

// add adds a hold, and forgets old ones when there are many.
func (is *historyOf) add(h *fold.Hold) {
	row := pastHold{
		From: h.From, Until: h.Until, Held: h.Held, Waited: h.Waited, Token: uint64(h.Token),
		Owner: ownerText(h.Who.Who, h.Owner, h.Agent), Command: h.Who.Process().Command,
		Agent: fold.AgentText(h.Agent, h.Process), Ended: h.Ended.String(),
		Bad: h.Ended == lockagent.EventLost || h.Ended == lockagent.EventBroken,
	}
	switch {
	case h.Ended == 0 && h.Superseded:
		row.Ended = "end not in the log"
	case h.Ended == 0:
		row.Ended = ""
	case h.Operator != "":
		row.Ended = "broken by " + h.Operator
	case h.Reason != 0:
		row.Ended += " (" + h.Reason.String() + ")"
	}
	row.How = map[lockagent.How]string{
		lockagent.ByStore: "from the store", lockagent.ByHandOff: "handed off", lockagent.ByRest: "from a rest",
	}[h.How]
	is.Rows = append(is.Rows, row)
	if len(is.Rows) > 10*mostPast {
		is.Rows, is.More = slices.Delete(is.Rows, 0, len(is.Rows)-mostPast), true
	}
}
