package webui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/access"
)

const (
	// fleetSince is how far back the log of the hub is read. Agents tell every ten minutes of what they hold. Who has
	// waited for longer is not known.
	fleetSince = time.Hour

	// silence is how long an agent that runs says nothing at most: it says every ten seconds that it is alive.
	silence = 30 * time.Second
)

// fleet folds the log of the hub, as far as somebody has looked at it.
type fleet struct {
	fold   *fold.Fold
	stream string    // whose events the fold has
	known  fleetOf   // the result of the last read
	heard  time.Time // when the hub took the last record of the fold
}

// fleetOf is what the log of the hub says of the locks of all hosts.
type fleetOf struct {
	Off   bool // there is no hub
	At    time.Time
	Late  bool // the log has more than was read so far
	Hosts int
	Err   error // why the log cannot be read on
	rows  []lockRow
	holds map[ofAgent]*claimRow // the oldest of each agent, of each lock
}

// ofAgent are the holds of a lock that an agent has. It has them in one store.
type ofAgent struct {
	lock  lockagent.Name
	agent lockagent.AgentID
}

// Age is how old the newest is that is known.
func (f *fleetOf) Age() time.Duration { return max(0, time.Since(f.At)) }

// fleetNow returns what the hub says, for all users.
func (p *page) fleetNow() fleetOf {
	if p.Hub == nil {
		return fleetOf{Off: true}
	}
	return p.hosts.get("", func() fleetOf { return p.fleet.read(p.Hub) })
}

// fleetLocks loads the screen of the fleet.
func (p *page) fleetLocks(r *http.Request) (content, error) {
	data, err := p.fleetList(r)
	if err != nil {
		return content{}, err
	}
	return content{Title: "Fleet", Body: data.html(), Live: r.URL.RawQuery}, nil
}

// fleetList lists the locks of all hosts.
func (p *page) fleetList(r *http.Request) (*lockList, error) {
	f, err := filterOf(r)
	if err != nil {
		return nil, err
	}
	pattern, _ := access.ParsePattern(f.pattern()) // filterOf has looked at it
	known := p.fleetNow()
	data := &lockList{filter: f, Path: "/fleet", Fleet: &known}
	for _, row := range known.rows {
		if pattern.Match(row.Name) && p.Access.Sees(r.Context(), lockagent.Name(row.Name), true) {
			data.add(row)
		}
	}
	data.finish("")
	return data, nil
}

// read reads on where the last call has stopped. It takes readTime at most: a long log is read by several calls.
func (f *fleet) read(hub Past) fleetOf {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	state, err := hub.State(ctx)
	if err == nil {
		err = f.readOn(ctx, hub, &state)
	}
	late := errors.Is(err, context.DeadlineExceeded) && f.fold != nil && f.fold.Position() > 0
	switch {
	case errors.Is(err, natslog.ErrNoStream): // nobody has published anything yet
		f.known = fleetOf{At: time.Now()}
	case err != nil && !late:
		f.known.Err = err // and what was known before goes on being shown, with its age
	case late:
		f.known = f.rows(f.heard)
		f.known.Late = true
	default:
		f.known = f.rows(state.Now)
	}
	return f.known
}

// readOn applies what the log has had since the last call, or in fleetSince.
func (f *fleet) readOn(ctx context.Context, hub Past, state *natslog.StreamState) error {
	if f.fold == nil || f.stream != state.ID() || state.Last < f.fold.Position() || state.Now.Sub(f.heard) > fleetSince {
		f.fold, f.stream, f.heard = fold.New(), state.ID(), state.Now
	}
	from := natslog.FromTime(state.Now.Add(-fleetSince))
	if at := f.fold.Position(); at > 0 {
		from = natslog.FromPosition(at)
	}
	err := hub.Replay(ctx, from, events.Filter{}, func(r *events.Record, err error) error {
		if err == nil { // the audit tells of what is no event
			f.fold.Apply(*r)
			f.heard = r.Stored
		}
		return nil
	})
	f.fold.ForgetSilent(f.heard.Add(-fleetSince)) // as a fold that begins now knows nothing of them
	return err
}

// rows are the locks that somebody holds or waits for, at a time.
func (f *fleet) rows(at time.Time) fleetOf {
	is, hosts := fleetOf{At: at, holds: make(map[ofAgent]*claimRow)}, make(map[string]bool)
	claim := func(who fold.Who, of fold.Process, agent lockagent.AgentID, since time.Time) *claimRow {
		by := fold.Process(who.Process())
		if who.IsZero() {
			by = of
		}
		by.Host = cmp.Or(by.Host, short(string(agent)))
		hosts[by.Host] = true
		return &claimRow{
			Program: by.Program, PID: int32(by.PID), Command: by.Command, User: by.User, Host: by.Host,
			Since: since,
		}
	}
	stores := make(map[string]int) // that have a lock of a name
	for l := range f.fold.Locks() {
		row := lockRow{Name: string(l.Lock), Store: l.Store, State: stateFree, Waiting: len(l.Waiters)}
		if l.Kind != lockagent.PlainLock {
			row.Kind = string(l.Kind)
		}
		for _, w := range l.Waiters {
			if row.State = worse(row.State, stateWaiting); row.Longest == nil || w.Since.Before(row.Longest.Since) {
				a, _ := f.fold.Agent(w.Agent)
				row.Longest = claim(w.Who, a.Process, w.Agent, w.Since)
			}
		}
		for _, h := range l.Now() {
			row.Held++
			c := claim(h.Who, h.Process, h.Agent, h.From)
			c.Token, c.Shared, c.Permits, c.State = uint64(h.Token), h.Mode == lockagent.Shared, int32(h.Permits), stateHeld
			a, _ := f.fold.Agent(h.Agent)
			switch {
			case h.Gone || at.Sub(a.Time) > silence:
				if c.State = stateSilent; h.LeaseEnd() != 0 {
					c.Expires = time.UnixMicro(int64(h.LeaseEnd()))
				}
			case !h.Uncertain.IsZero():
				c.State = stateUncertain
			}
			of := ofAgent{l.Lock, h.Agent}
			if first := is.holds[of]; first == nil || c.Since.Before(first.Since) {
				is.holds[of] = c
			}
			if row.State = worse(row.State, c.State); row.Holder == nil || c.Since.Before(row.Holder.Since) {
				row.Holder = c
			}
		}
		if row.Held+row.Waiting > 0 {
			is.rows = append(is.rows, row)
			stores[row.Name]++
		}
	}
	for i := range is.rows {
		if row := &is.rows[i]; stores[row.Name] == 1 {
			row.Store = ""
		}
	}
	is.Hosts = len(hosts)
	return is
}

// elsewhere returns who holds a lock on another host, as far as the hub tells. The holder is what the store of this
// host says: the hub may also tell of a lock of the same name in another store.
func (p *page) elsewhere(name lockagent.Name, holder string) *claimRow {
	tenure, _ := lockagent.ParseTenure(holder) // no agent has the zero Tenure
	return p.fleetNow().holds[ofAgent{name, tenure.Agent}]
}
