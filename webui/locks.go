package webui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent/internal/daemon/access"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// Bounds of lists.
const (
	perPage = 50
	chunk   = 5000   // locks that the daemon is asked for at once
	maxScan = 10_000 // locks that are looked through for one page
)

// lockList is the data of a screen of locks.
type lockList struct {
	filter
	Path string // of the screen
	Rows []lockRow
	// Locks that fit; claims that hold them, and that wait; locks for which somebody waits.
	Total, Held, Waiting, Queues int
	First, Last                  int    // which rows of all are shown, from 1
	Most                         int    // how many rows there are
	Next                         string // the address of the next page, or empty
	Back                         string // that of the first page, or empty on it
	Full                         bool   // there are more that were not looked through
	Fleet                        *fleetOf
}

// tab is a link to the same list with another choice.
type tab struct {
	Text, URL string
	On        bool
}

// order is a way to sort a list.
type order struct {
	by      string
	compare func(a, b *lockRow) int
}

// orders are the ways to sort a list. The first is what it has if nobody says another one.
var orders = []order{
	{"waiters", func(a, b *lockRow) int {
		by := cmp.Compare(b.Waiting, a.Waiting)
		if by == 0 && a.Longest != nil && b.Longest != nil {
			by = a.Longest.Since.Compare(b.Longest.Since)
		}
		return by
	}},
	{"age", func(a, b *lockRow) int { return a.since().Compare(b.since()) }},
	{"name", func(_, _ *lockRow) int { return 0 }},
	{byPrefix, func(_, _ *lockRow) int { return 0 }},
}

// byPrefix is the order in which one row stands for all locks below a prefix.
const byPrefix = "tree"

// Tabs are the choices of states.
func (l *lockList) Tabs() (tabs []tab) {
	for _, s := range []state{"", stateHeld, stateWaiting, stateUncertain} {
		tabs = append(tabs, tab{cmp.Or(string(s), "all"), l.url(l.Path, "state", string(s)), l.State == s})
	}
	return tabs
}

// Orders are the choices of orders.
func (l *lockList) Orders() (tabs []tab) {
	for i, o := range orders {
		value := o.by
		if i == 0 {
			value = ""
		}
		tabs = append(tabs, tab{o.by, l.url(l.Path, "sort", value), l.Sort == o.by})
	}
	return tabs
}

// Crumbs lead back from a prefix of the tree.
func (l *lockList) Crumbs() (tabs []tab) {
	prefix := l.prefix()
	if l.Sort != byPrefix || prefix == "" {
		return nil
	}
	tabs = append(tabs, tab{"all", l.url(l.Path, "match", ""), false})
	for at := 0; at < len(prefix); {
		end := at + strings.IndexByte(prefix[at:], '/') + 1
		tabs = append(tabs, tab{prefix[at:end], l.Below(prefix[:end]), end == len(prefix)})
		at = end
	}
	return tabs
}

// Below is the address of the locks below a prefix.
func (l *lockList) Below(prefix string) string { return l.url(l.Path, "match", prefix+"**") }

// filter is what the query of a list says.
type filter struct {
	Match string // as the user has written it
	State state
	Only  string
	Token uint64 // of the hold whose events are wanted, of the lock whose name is Match; 0 if all are
	Sort  string
	Page  int
	After string // the name before the first one that is looked through
}

// url is the address of a list with the same filter, but for what changes, on its first page.
func (f *filter) url(path string, changes ...string) string {
	pairs := []string{"match", f.Match, "state", string(f.State), "only", f.Only, "after", f.After}
	if f.Sort != orders[0].by {
		pairs = append(pairs, "sort", f.Sort)
	}
	if f.Token != 0 {
		pairs = append(pairs, "token", strconv.FormatUint(f.Token, 10))
	}
	return at(path, query(append(pairs, changes...)...))
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

// prefix is what all names begin with that fit, up to a slash.
func (f *filter) prefix() string {
	text, _, ok := strings.Cut(f.Match, "*")
	if !ok {
		return ""
	}
	return text[:strings.LastIndexByte(text, '/')+1]
}

func filterOf(r *http.Request) (f filter, err error) {
	q := r.URL.Query()
	f = filter{
		Match: strings.TrimSpace(q.Get("match")), State: state(q.Get("state")), Only: q.Get("only"),
		Sort: cmp.Or(q.Get("sort"), orders[0].by), After: q.Get("after"),
	}
	if _, err := access.ParsePattern(f.pattern()); err != nil {
		return f, &Problem{http.StatusBadRequest, "This is no pattern of names", err.Error()}
	}
	if !slices.Contains([]state{"", stateHeld, stateWaiting, stateUncertain, stateResumed}, f.State) {
		return f, &Problem{
			http.StatusBadRequest, "There is no such state",
			fmt.Sprintf("The states are held, waiting, uncertain and resumed, and not %.64q.", f.State),
		}
	}
	if f.Only != "" && f.Only != urgent {
		return f, &Problem{
			http.StatusBadRequest, "There are no such events",
			fmt.Sprintf("The page can show all events, or only=%s, and not only=%.64q.", urgent, f.Only),
		}
	}
	if !slices.ContainsFunc(orders, func(o order) bool { return o.by == f.Sort }) {
		return f, &Problem{
			http.StatusBadRequest, "There is no such order",
			fmt.Sprintf("Locks are sorted by waiters, age, name, or as a tree, and not by %.64q.", f.Sort),
		}
	}
	if f.Token, err = number64(q.Get("token")); err != nil {
		return f, err
	}
	page, err := number64(q.Get("page"))
	f.Page = int(min(page, maxScan))
	return f, err
}

// number64 is a number in a query. Without one it is 0.
func number64(text string) (uint64, error) {
	n, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 64)
	if err != nil {
		return 0, &Problem{
			http.StatusBadRequest, "This is no number", fmt.Sprintf("The address has %.64q where a number has to be.", text),
		}
	}
	return n, nil
}

// scan visits locks in the order of their names, at most maxScan of them. Behind the last one there are more, unless
// last is empty.
func (p *page) scan(
	ctx context.Context, pattern, after string, visit func(*lockagentv1.Lock),
) (last string, err error) {
	for seen := 0; seen < maxScan; {
		found, err := p.Look.List(ctx, &lockagentv1.ListRequest{
			Pattern: pattern, PageSize: int32(min(chunk, maxScan-seen)), PageToken: after,
		})
		if err != nil {
			return "", err
		}
		for _, l := range found.GetLocks() {
			visit(l)
		}
		seen += len(found.GetLocks())
		if after = found.GetNextPageToken(); after == "" {
			return "", nil
		}
	}
	return after, nil
}

// locks loads the screen of locks.
func (p *page) locks(r *http.Request) (content, error) {
	data, err := p.lockList(r)
	if err != nil {
		return content{}, err
	}
	return content{Title: "Locks", Body: data.html(), Live: r.URL.RawQuery}, nil
}

// lockList lists the locks of this host.
func (p *page) lockList(r *http.Request) (*lockList, error) {
	f, err := filterOf(r)
	if err != nil {
		return nil, err
	}
	data := &lockList{filter: f, Path: "/locks"}
	last, err := p.scan(r.Context(), f.pattern(), f.After, func(l *lockagentv1.Lock) { data.add(p.lockRow(l)) })
	if err != nil {
		return nil, err
	}
	data.finish(last)
	return data, nil
}

// add adds a lock if it is in the state that is asked for. One that is held may be waited for, too.
func (l *lockList) add(row lockRow) {
	switch {
	case l.State == stateWaiting && row.Waiting == 0, l.State == stateHeld && row.Held == 0:
		return
	case (l.State == stateUncertain || l.State == stateResumed) && row.State != l.State:
		return
	}
	l.Rows = append(l.Rows, row)
	l.Total++
	l.Held += row.Held
	l.Waiting += row.Waiting
	if row.Waiting > 0 {
		l.Queues++
	}
}

// finish sorts what was added, and keeps one page of it. If last is not empty, there are more locks behind it that
// nobody has looked through.
func (l *lockList) finish(last string) {
	slices.SortFunc(l.Rows, func(a, b lockRow) int { return cmp.Compare(a.Name, b.Name) })
	if l.Sort == byPrefix {
		l.Rows = folded(l.Rows, l.prefix())
	}
	of := orders[slices.IndexFunc(orders, func(o order) bool { return o.by == l.Sort })]
	slices.SortStableFunc(l.Rows, func(a, b lockRow) int { return of.compare(&a, &b) })
	l.Most, l.Full = len(l.Rows), last != ""
	l.Page = max(1, min(l.Page, (l.Most+perPage-1)/perPage))
	from := (l.Page - 1) * perPage
	l.Rows = l.Rows[from:min(from+perPage, l.Most)]
	l.First, l.Last = from+1, from+len(l.Rows)
	switch {
	case l.Last < l.Most:
		l.Next = l.url(l.Path, "page", strconv.Itoa(l.Page+1))
	case l.Full:
		l.Next = l.url(l.Path, "after", last)
	}
	if l.Page > 1 || l.After != "" {
		l.Back = l.url(l.Path, "after", "")
	}
}

// folded has one row for all locks whose names go on in the same way behind a prefix, up to the next slash. The locks
// are sorted by their names. A lock that is alone so stays as it is.
func folded(rows []lockRow, prefix string) (tree []lockRow) {
	under := "" // the prefix of the last row of the tree
	for _, row := range rows {
		rest, ok := strings.CutPrefix(row.Name, prefix)
		part, _, more := strings.Cut(rest, "/")
		key := prefix + part + "/"
		switch {
		case !ok || !more:
			tree, under = append(tree, row), ""
		case key != under:
			tree, under = append(tree, row), key
		default:
			tree[len(tree)-1].stand(key, &row)
		}
	}
	return tree
}

// stand has a row stand for another lock as well, below a prefix.
func (r *lockRow) stand(prefix string, other *lockRow) {
	r.Name, r.Kind, r.Holder, r.Locks = prefix, "", nil, max(1, r.Locks)+1
	r.State = worse(r.State, other.State)
	r.Held += other.Held
	r.Waiting += other.Waiting
	if r.Longest == nil || other.Longest != nil && other.Longest.Since.Before(r.Longest.Since) {
		r.Longest = other.Longest
	}
}
