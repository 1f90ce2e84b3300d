//go:build linux

package webui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// told is a daemon with these locks, in the order of their names.
type told struct {
	nothing
	locks []*lockagentv1.Lock
}

func (d told) List(context.Context, *lockagentv1.ListRequest) (*lockagentv1.ListResponse, error) {
	return &lockagentv1.ListResponse{Locks: d.locks}, nil
}

// some is a lock that somebody holds since so many seconds ago, and for which so many wait, the first of them since one
// second less.
func some(name string, held, waiting int) *lockagentv1.Lock {
	ago := func(seconds int) *timestamppb.Timestamp {
		return timestamppb.New(time.Unix(1e9, 0).Add(-time.Duration(seconds) * time.Second))
	}
	l := &lockagentv1.Lock{
		Name: name, Held: 1, Waiting: int32(waiting),
		Holders: []*lockagentv1.Claim{{State: lockagentv1.State_STATE_HELD, Since: ago(held)}},
	}
	if waiting > 0 {
		l.Waiters = []*lockagentv1.Claim{{State: lockagentv1.State_STATE_WAITING, Since: ago(held - 1)}}
	}
	return l
}

// listed returns the names on the screen of locks, and the locks that stand for several.
func listed(t *testing.T, d told, search string) (*lockList, []string) {
	t.Helper()
	p := &page{Config: Config{Look: d, Access: nothing{}}}
	list, err := p.lockList(request("/locks?" + search))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range list.Rows {
		names = append(names, row.Name)
	}
	return list, names
}

// Locks are sorted as lockagent top sorts them. Of those with the same number of waiters, the one with the longest wait
// comes first.
func TestOrders(t *testing.T) {
	d := told{locks: []*lockagentv1.Lock{some("a", 5, 1), some("b", 9, 0), some("c", 20, 1), some("d", 1, 3)}}
	for search, want := range map[string]string{
		"": "d c a b", "sort=waiters": "d c a b", "sort=age": "c b a d", "sort=name": "a b c d", "state=waiting": "d c a",
		"state=held&sort=name": "a b c d",
	} {
		list, names := listed(t, d, search)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", search, got, want)
		}
		if list.Queues != 3 || list.Waiting != 5 || list.Total != len(names) {
			t.Errorf("%s: %d locks, %d contended, %d wait", search, list.Total, list.Queues, list.Waiting)
		}
	}
}

// A tree has one row for all locks below a prefix, with how many they are, and what is the worst of them.
func TestTree(t *testing.T) {
	unsure := some("orders/eu/3", 2, 0)
	unsure.Holders[0].State = lockagentv1.State_STATE_UNCERTAIN
	d := told{locks: []*lockagentv1.Lock{
		some("certs", 1, 0), some("cron/daily", 1, 0), some("orders-old", 1, 0), some("orders/1", 4, 1),
		some("orders/eu/2", 9, 2), unsure,
	}}
	list, names := listed(t, d, "sort=tree")
	if got := strings.Join(names, " "); got != "certs cron/daily orders-old orders/" {
		t.Errorf("%s", got)
	}
	row := list.Rows[3]
	if row.Locks != 3 || row.Held != 3 || row.Waiting != 3 || row.State != stateUncertain || row.Longest == nil ||
		list.Total != 6 {
		t.Errorf("%+v, of %d locks", row, list.Total)
	}
	if at := list.Below(row.Name); at != "/locks?match=orders%2F%2A%2A&sort=tree" {
		t.Errorf("it leads to %s", at)
	}
	d.locks = slices.DeleteFunc(
		d.locks, func(l *lockagentv1.Lock) bool { return !strings.HasPrefix(l.GetName(), "orders/") },
	)
	list, names = listed(t, d, "sort=tree&match=orders/**")
	if got := strings.Join(names, " "); got != "orders/1 orders/eu/" {
		t.Errorf("below: %s", got)
	}
	if c := list.Crumbs(); len(c) != 2 || c[0].URL != "/locks?sort=tree" || c[1].Text != "orders/" || !c[1].On {
		t.Errorf("%+v", c)
	}
}

// Pages count rows. A page that is not there is the last one.
func TestPagesOfLists(t *testing.T) {
	var d told
	for i := range 120 {
		d.locks = append(d.locks, some(fmt.Sprintf("door/%03d", i), 1, 0))
	}
	for search, want := range map[string][3]string{
		"":         {"door/000", "/locks?page=2", ""},
		"page=2":   {"door/050", "/locks?page=3", "/locks"},
		"page=3":   {"door/100", "", "/locks"},
		"page=999": {"door/100", "", "/locks"},
	} {
		list, names := listed(t, d, search)
		if got := [3]string{names[0], list.Next, list.Back}; got != want || list.Most != 120 ||
			list.Last-list.First+1 != len(names) {
			t.Errorf("%s: %q, want %q; %d to %d of %d", search, got, want, list.First, list.Last, list.Most)
		}
	}
}

// Who is at work is told by the command, and then by the program unless the command says it.
func TestHeadlines(t *testing.T) {
	for _, c := range []struct {
		is   claimRow
		want string
	}{
		{claimRow{Program: "pg_dump", Command: "pg_dump shop", PID: 7, User: "ann"}, "pg_dump shop | 7 · ann"},
		{
			claimRow{Program: "pg_dump", Command: "/usr/bin/pg_dump shop", PID: 7, User: "ann"},
			"/usr/bin/pg_dump shop | 7 · ann",
		},
		{claimRow{Program: "billing", PID: 7, User: "ann", Host: "web-1"}, "billing | 7 · ann@web-1"},
		{claimRow{Program: "sh", Command: "make all", PID: 7, User: "ann"}, "make all | sh · 7 · ann"},
		{claimRow{User: "ann"}, "– | ann"},
	} {
		if got := c.is.Headline() + " | " + c.is.By(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// A claim is shown with the process that works under it. When whoever asked for it has ended, it is the process that
// the claim ends with.
func TestTheProcessOfAClaim(t *testing.T) {
	for _, c := range []struct {
		what string
		is   *lockagentv1.Claim
		want int32
	}{
		{"of its client", &lockagentv1.Claim{}, 7},
		{"of a wrapper", &lockagentv1.Claim{Pids: []int32{8, 9}}, 8},
		{"of a wrapper that was killed", &lockagentv1.Claim{Pids: []int32{8, 9}, Detached: true, ForPid: 9}, 9},
		{"of a script that has ended", &lockagentv1.Claim{Detached: true}, 0},
	} {
		c.is.Client = &lockagentv1.Client{Pid: 7}
		if got := new(page).claimRow(c.is).PID; got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
