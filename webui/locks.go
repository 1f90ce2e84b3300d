package webui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/access"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// Bounds of lists.
const (
	perPage = 50
	chunk   = 1000   // locks that the daemon is asked for at once
	maxScan = 10_000 // locks that are looked through for one page
)

// lockList is the data of the screen of locks.
type lockList struct {
	filter
	Rows []lockRow
	Next string // the address of the next page, or empty
	Back string // that of the first page, or empty on it
	Full bool   // there are more that were not looked through
}

// filter is what the query of a list says.
type filter struct {
	Match string // as the user has written it
	State state
	Only  string
}

// tab is a link to the same list with another choice.
type tab struct {
	Text, URL string
	On        bool
}

// Tabs are the choices of states.
func (l *lockList) Tabs() (tabs []tab) {
	for _, s := range []state{"", stateHeld, stateWaiting, stateUncertain} {
		tabs = append(tabs, tab{cmp.Or(string(s), "all"), at("/locks", query("match", l.Match, "state", string(s))), l.State == s})
	}
	return tabs
}

// pattern is what the daemon is asked for. Text without a star is a part of a name.
func (f *filter) pattern() string {
	switch {
	case f.Match == "":
		return "**"
	case strings.Contains(f.Match, "*"):
		return f.Match
	}
	return "**" + f.Match + "**"
}

func filterOf(r *http.Request) (f filter, err error) {
	q := r.URL.Query()
	f = filter{Match: strings.TrimSpace(q.Get("match")), State: state(q.Get("state")), Only: q.Get("only")}
	if _, err := access.ParsePattern(f.pattern()); err != nil {
		return f, &Problem{http.StatusBadRequest, "This is no pattern of names", err.Error()}
	}
	if !slices.Contains([]state{"", stateHeld, stateWaiting, stateUncertain, stateResumed}, f.State) {
		return f, &Problem{http.StatusBadRequest, "There is no such state", fmt.Sprintf("The states are held, waiting, uncertain and resumed, and not %.64q.", f.State)}
	}
	if f.Only != "" && f.Only != urgent {
		return f, &Problem{http.StatusBadRequest, "There are no such events", fmt.Sprintf("The page can show all events, or only=%s, and not only=%.64q.", urgent, f.Only)}
	}
	return f, nil
}

// shows reports whether a lock is in the state that is asked for. One that is held may be waited for, too.
func (f *filter) shows(l *lockagentv1.Lock) bool {
	switch f.State {
	case "":
		return true
	case stateWaiting:
		return l.GetWaiting() > 0
	case stateHeld:
		return l.GetHeld() > 0
	}
	return slices.ContainsFunc(l.GetHolders(), func(c *lockagentv1.Claim) bool { return states[c.GetState()] == f.State })
}

// scan visits locks in the order of their names until visit returns false, at most maxScan of them. full tells that
// there are more.
func (p *page) scan(ctx context.Context, pattern, after string, visit func(*lockagentv1.Lock) bool) (last string, full bool, err error) {
	for seen := 0; seen < maxScan; seen += chunk {
		found, err := p.Look.List(ctx, &lockagentv1.ListRequest{Pattern: pattern, PageSize: chunk, PageToken: after})
		if err != nil {
			return "", false, err
		}
		for _, l := range found.GetLocks() {
			last = l.GetName()
			if !visit(l) {
				return last, false, nil
			}
		}
		if after = found.GetNextPageToken(); after == "" {
			return "", false, nil
		}
	}
	return last, true, nil
}

// locks loads the screen of locks.
func (p *page) locks(r *http.Request) (content, error) {
	f, err := filterOf(r)
	if err != nil {
		return content{}, err
	}
	after := r.URL.Query().Get("after")
	data, now := &lockList{filter: f}, time.Now()
	more := false
	last, full, err := p.scan(r.Context(), f.pattern(), after, func(l *lockagentv1.Lock) bool {
		switch {
		case !f.shows(l):
		case len(data.Rows) == perPage:
			more = true
		default:
			data.Rows = append(data.Rows, p.lockRow(l, now))
		}
		return !more
	})
	if err != nil {
		return content{}, err
	}
	own := []string{"match", f.Match, "state", string(f.State)}
	switch {
	case more:
		last = data.Rows[perPage-1].Name
		data.Next = at("/locks", query(append(own, "after", last)...))
	case full:
		data.Next, data.Full = at("/locks", query(append(own, "after", last)...)), true
	}
	if after != "" {
		data.Back = at("/locks", query(own...))
	}
	return content{Title: "Locks", Data: data, Live: query(append(own, "after", after)...)}, nil
}
