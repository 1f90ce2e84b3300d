package webui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/access"
)

// urgent is the value of only for the events that have consequences.
const urgent = "urgent"

// Bounds of the screen of events.
const (
	mostEvents = 100
	window     = 2000    // messages of the log that are looked through
	wide       = 100_000 // if only a few of them are wanted
	portion    = 50      // events that are sent at once
)

// eventList is the data of the screen of events.
type eventList struct {
	filter
	Rows     []eventRow // the newest first
	Position uint64     // up to where the log was read
	Err      error
}

// meanings say what the kinds of events mean. Those that only say that all goes on are not shown.
var meanings = map[string]string{
	"requested":    "A request waits, because the store did not answer.",
	"queued":       "A request waits, because somebody else has the lock.",
	"granted":      "The lock was granted.",
	"reentered":    "An owner that has the lock was granted it once more.",
	"uncertain":    "A renewal has failed. The hold goes on until its deadline.",
	"released":     "The owner gave the lock back.",
	"expired":      "A hold came to the end of its fixed lease, or of the time that its claim lives without a renewal.",
	"lost":         "A hold ended against the will of its owner.",
	"broken":       "An operator ended a hold.",
	"unclaimed":    "A grant was taken back that nobody had received, or whose owner is gone.",
	"returned":     "The daemon gave the lock back to the store, for other hosts.",
	"timedout":     "A request has waited for as long as it wanted to.",
	"cancelled":    "Whoever asked for the lock wants it no more.",
	"refused":      "A request was answered with an error.",
	"storereset":   "The store has forgotten what it had, or its clock was set.",
	"gracebegan":   "The store may have forgotten who has locks. It waits for them, and grants nothing new.",
	"graceended":   "The store grants locks again, because all who had some have come back or their time is over.",
	"agentstarted": "The daemon has started.",
	"agentstopped": "The daemon has ended.",
	"held":         "A short hold, from its grant to its release.",
	"dropped":      "Events are missing, because there was no room for them.",
	"permits":      "The number of permits of a semaphore was changed.",
}

// Meanings are the kinds of events, in the order of a lock's life, with what they mean.
func (l *eventList) Meanings() (all [][2]string) {
	for _, kind := range lockagent.EventKinds() {
		if text := meanings[kind.String()]; text != "" {
			all = append(all, [2]string{kind.String(), text})
		}
	}
	return all
}

// Tabs are the choices of kinds.
func (l *eventList) Tabs() []tab {
	return []tab{
		{"all", l.url("/events", "only", ""), l.Only == ""},
		{"with consequences", l.url("/events", "only", urgent), l.Only == urgent},
	}
}

// eventRow is an event in a list.
type eventRow struct {
	At     time.Time
	Kind   string
	Tone   string // good, warn, bad, or empty
	Lock   string
	Token  uint64
	Agent  string
	Detail string
	Record string // the address of the whole record
}

// selection is what a user sees of the log.
type selection struct {
	of    events.Filter
	match func(*events.Record) bool
}

func (p *page) selection(ctx context.Context, f *filter) selection {
	pattern, _ := access.ParsePattern(f.pattern()) // filterOf has looked at it
	of := events.Filter{Urgent: f.Only == urgent}
	if f.Token != 0 {
		of.Lock = lockagent.Name(f.Match)
	}
	return selection{of, func(r *events.Record) bool {
		switch {
		case f.Token != 0:
			return f.Token == uint64(r.Token) && p.Access.Sees(ctx, r.Lock, true)
		case r.Kind == lockagent.EventAlive || r.Kind == lockagent.EventRenewed || r.Kind == lockagent.EventHolding:
			// They say that all goes on.
			return false
		case r.Lock == "":
			return f.Match == ""
		}
		return pattern.Match(string(r.Lock)) && p.Access.Sees(ctx, r.Lock, true)
	}}
}

// events loads the screen of events.
func (p *page) events(r *http.Request) (content, error) {
	f, err := filterOf(r)
	if err != nil {
		return content{}, err
	}
	data := &eventList{filter: f}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	data.Err = p.recent(ctx, data)
	return content{Title: "Events", Body: data.html(), Live: r.URL.RawQuery}, nil
}

// recent reads the last events.
func (p *page) recent(ctx context.Context, data *eventList) error {
	state, err := p.Log.State(ctx)
	if errors.Is(err, natslog.ErrNoStream) {
		return nil // nobody has published anything yet
	}
	if err != nil {
		return err
	}
	back := uint64(window)
	if data.Only == urgent || data.Token != 0 {
		back = wide
	}
	data.Position = state.Last
	of := p.selection(ctx, &data.filter)
	from := natslog.FromPosition(max(state.Last, back) - back + 1)
	err = p.Log.Replay(ctx, from, of.of, func(r *events.Record, err error) error {
		data.Position = max(data.Position, r.Position)
		if err == nil && of.match(r) {
			data.Rows = append(data.Rows, rowOf(r))
			if len(data.Rows) > 2*mostEvents {
				data.Rows = slices.Delete(data.Rows, 0, mostEvents)
			}
		}
		return nil
	})
	slices.Reverse(data.Rows)
	data.Rows = data.Rows[:min(len(data.Rows), mostEvents)]
	return err
}

func rowOf(r *events.Record) eventRow {
	row := eventRow{
		At: r.Time, Kind: r.Kind.String(), Lock: string(r.Lock), Token: uint64(r.Token), Agent: fmt.Sprintf("%.8s", r.Agent),
		Detail: detail(r),
	}
	row.Record = fmt.Sprintf("/event.json?position=%d&seq=%d", r.Position, r.Seq)
	switch r.Kind {
	case lockagent.EventLost, lockagent.EventBroken, lockagent.EventDropped, lockagent.EventStoreReset:
		row.Tone = "bad"
	case lockagent.EventUncertain, lockagent.EventExpired, lockagent.EventUnclaimed, lockagent.EventRefused,
		lockagent.EventTimedOut,
		lockagent.EventGraceBegan:
		row.Tone = "warn"
	case lockagent.EventGranted, lockagent.EventHeld, lockagent.EventReentered:
		row.Tone = "good"
	}
	return row
}

// eventJSON answers with one record as the log has it, unless it is about a lock that the user may not watch.
func (p *page) eventJSON(w http.ResponseWriter, r *http.Request) {
	record, err := p.record(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintln(w, record) // a client that has gone needs nothing
}

// record finds the record that a query names by its position in the log, and its number in the log of its agent.
func (p *page) record(r *http.Request) (text string, err error) {
	if _, err := p.Access.Enter(r.Context()); err != nil {
		return "", err
	}
	position, err := number64(r.URL.Query().Get("position"))
	if err != nil {
		return "", err
	}
	seq, err := number64(r.URL.Query().Get("seq"))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	err = p.Log.Replay(ctx, natslog.FromPosition(position), events.Filter{}, func(of *events.Record, err error) error {
		switch {
		case of.Position > position:
			return errEnough
		case err != nil || of.Seq != seq || of.Lock != "" && !p.Access.Sees(ctx, of.Lock, true):
			return nil
		}
		var b bytes.Buffer
		err = json.Indent(&b, events.Append(nil, *of), "", "  ")
		text = b.String()
		return cmp.Or(err, errEnough)
	})
	if errors.Is(err, errEnough) || errors.Is(err, natslog.ErrNoStream) {
		err = nil
	}
	if err == nil && text == "" {
		err = &Problem{
			http.StatusNotFound, "There is no such event", "The log has it no more, or you may not watch its lock.",
		}
	}
	return text, err
}

// detail is what an event says beside the lock and the token.
func detail(r *events.Record) string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch owner := ownerText(r.Who, r.Owner, r.Agent); {
	case !r.Who.IsZero():
		add("%s", owner)
	case r.Owner != "":
		add("owner %s", owner)
	}
	if r.Waited >= time.Millisecond { // nobody calls less a wait
		add("waited %s", exact(r.Waited))
	}
	if r.Held != 0 {
		add("held %s", exact(r.Held))
	}
	switch r.How {
	case lockagent.ByHandOff:
		add("handed off")
	case lockagent.ByRest:
		add("from a rest")
	}
	if r.Permits != 0 {
		add("%d permits", r.Permits)
	}
	if r.Waiters != 0 {
		add("%d waiting", r.Waiters)
	}
	if r.Remaining != 0 {
		add("trusted for %s", exact(r.Remaining))
	}
	if r.Reason != 0 {
		add("%s", r.Reason)
	}
	if r.Operator != "" {
		add("by %s", r.Operator)
	}
	if at := r.Process; at.Host != "" {
		add("%s on %s, pid %d", at.Program, at.Host, at.PID)
	}
	if r.Kind == lockagent.EventDropped {
		add("%s", r.Dropped)
	}
	if r.Kind == lockagent.EventStoreReset {
		add("%s", r.Reset.Reason)
	}
	if g := r.Grace; g != nil {
		add("%s", g.Reason)
		switch n := len(g.Roll) + g.More; {
		case r.Kind == lockagent.EventGraceBegan:
			add("waits for %d", n)
		case n == 0:
			add("took %s, all came back", exact(g.Ended.Sub(g.Began)))
		default:
			add("took %s, %d did not come back", exact(g.Ended.Sub(g.Began)), n)
		}
	}
	if r.Err != "" {
		add("%s", r.Err)
	}
	return strings.Join(all, " · ")
}

// arrivals are the events that a reader has not been sent yet. There are at most portion of them: what comes beside is
// only counted.
type arrivals struct {
	wake chan struct{} // capacity 1

	mu       sync.Mutex // guards what follows
	rows     []eventRow
	left     int    // events that were left out
	position uint64 // of the last message
	err      error  // why there are no more
}

func (a *arrivals) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// take returns what has arrived.
func (a *arrivals) take() (rows []eventRow, left int, position uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rows, left = a.rows, a.left
	a.rows, a.left = nil, 0
	return rows, left, a.position, a.err
}

// news is what the stream of events sends.
type news struct {
	Rows string `json:"rows"` // rows of the table, the newest first
	More int    `json:"more"` // events that were left out, because there were too many
}

// followEvents answers with the events that arrive behind the position that the query tells.
func (p *page) followEvents(w http.ResponseWriter, r *http.Request) {
	if _, err := p.Access.Enter(r.Context()); err != nil {
		p.fail(w, r, err)
		return
	}
	f, err := filterOf(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	from := natslog.FromNow()
	if text := r.URL.Query().Get("after"); text != "" {
		after, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			p.fail(w, r, &Problem{
				http.StatusBadRequest, "This is no position",
				fmt.Sprintf("after is the position of an event, and not %.64q.", text),
			})
			return
		}
		if state, err := p.Log.State(r.Context()); err == nil && after <= state.Last && state.Last-after < window {
			from = natslog.FromPosition(after + 1)
		}
	}
	out, ok := p.open(w, r)
	if !ok {
		return
	}
	defer out.close()
	ctx, cancel := context.WithCancel(r.Context())
	a := &arrivals{wake: make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.tail(ctx, p.Log, from, p.selection(ctx, &f))
	}()
	defer func() { // the tail may not outlive the request, whose context its selection asks
		cancel()
		<-ended
	}()
	a.send(ctx, out)
}

// tail has the events of a log arrive.
func (a *arrivals) tail(ctx context.Context, log Log, from natslog.From, of selection) {
	err := log.Tail(ctx, from, of.of, func(r *events.Record, err error) error {
		if err != nil || !of.match(r) {
			return nil
		}
		a.change(func() {
			if a.position = r.Position; len(a.rows) < portion {
				a.rows = append(a.rows, rowOf(r))
			} else {
				a.left++
			}
		})
		return nil
	})
	a.change(func() { a.err = err })
}

// send sends what has arrived, a few times in a second at most, until the reader goes.
func (a *arrivals) send(ctx context.Context, out *stream) {
	for {
		rows, left, position, failed := a.take()
		slices.Reverse(rows)
		err := out.send("events", strconv.FormatUint(position, 10), news{string(markup(eventRows(rows))), left})
		if err == nil && failed != nil {
			_ = out.send("fault", "", fault{"The event log cannot be read", failed.Error()}) // the stream ends either way
		}
		if err != nil || failed != nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		select {
		case <-a.wake:
		case <-time.After(beat - pause):
		case <-ctx.Done():
			return
		}
	}
}
