//go:build linux

package webui_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// forward copies the event log of a host to a hub until the test ends.
func forward(t *testing.T, from, to natslog.Connection) {
	t.Helper()
	f, err := natslog.NewForwarder(natslog.ForwardConfig{
		Source: natslog.ReaderConfig{Connection: from}, Hub: natslog.ReaderConfig{Connection: to}, Logger: to.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the forwarder has ended: %v", err)
		}
	})
}

// howOld is how a page says how old it is.
var howOld = regexp.MustCompile(`by <time datetime="([^"]+)">[^<]+</time>, <span class="figure" data-age="(\d+)">`)

// storeOf returns the identity of the store by which an event log tells of a lock.
func storeOf(t *testing.T, log natslog.Connection, name lockagent.Name) (id string) {
	t.Helper()
	reader := read(t, log)
	waittest.Until(t, "the event log to have the lock", func() bool {
		of := events.Filter{Lock: name}
		err := reader.Replay(t.Context(), natslog.From{}, of, func(r *events.Record, err error) error {
			if err == nil {
				id = r.Store
			}
			return err
		})
		if err != nil && !errors.Is(err, natslog.ErrNoStream) {
			t.Fatal(err)
		}
		return id != ""
	})
	return id
}

// Each host forwards its events to one hub. The page of one of them has the holders and the waiters of all, and says
// how old that is: also when the hub is away, from then on. A lock of the same name in another store is another lock,
// with another holder.
func TestFleetOfTwoHosts(t *testing.T) {
	t.Parallel()
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	logger := slog.New(slog.DiscardHandler) // that the hub is away is no news
	toHub := natslog.Connection{URL: hub.URL(), Logger: logger}
	store := memstore.New()
	r := run(t, setup{store: store, page: func(c *daemon.PageConfig) { c.Hub = read(t, toHub) }})
	local := natslog.Connection{InProcess: r.nats, Logger: logger}
	forward(t, local, toHub)
	r.hold(t, "ours", "pg_dump shop")
	r.hold(t, "ours", "waits here")

	other := natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{}), Logger: logger}
	forward(t, other, toHub)
	shared := storeOf(t, local, "ours")
	for agent, all := range map[lockagent.AgentID][]lockagent.Event{
		"web-2-daemon": {
			{Kind: lockagent.EventGranted, Store: shared, Lock: "theirs", Token: 1, Tenure: 1, Lease: time.Hour},
			{Kind: lockagent.EventQueued, Store: shared, Lock: "ours", Request: 2, Waited: time.Minute},
		},
		"web-2-memory": {
			{Kind: lockagent.EventGranted, Store: "of its own", Lock: "ours", Token: 1, Tenure: 1},
			{Kind: lockagent.EventGranted, Store: "of its own", Lock: "of java", Token: 1, Tenure: 1},
		},
	} {
		p := publish(t, other, agent)
		for _, e := range all {
			e.Who = lockagent.Process{Host: "web-2", Program: "make", PID: 7, User: "bob", Command: "make all"}.Who()
			e.Time = time.Now()
			p.Record(t.Context(), e)
		}
	}
	store.PlantHolder("theirs", "web-2-daemon:1", 1, time.Hour)
	store.PlantHolder("of java", "8743c9c0-0795-4907-87fd-6c719a6b4586:52", 1, time.Hour)

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	r.until(t, "/fleet", "4 claims hold, 2 wait")
	fleet := r.get(t, "/fleet")
	fleet.says(
		t, http.StatusOK, "2 hosts with locks", "<b>4 locks</b>", `<b class="warn">1 contended</b>`,
		"2 wait · ", " m</span>", ">pg_dump shop</b>", "@"+host, ">make all</b>", "7 · bob@web-2", ">store of its own</span>",
		"All hosts, as the hub had told by",
	)
	rows := make(map[string]bool)
	for _, key := range regexp.MustCompile(`<tr data-key="([^"]+)"`).FindAllStringSubmatch(fleet.body, -1) {
		rows[key[1]] = true
	}
	if len(rows) != 4 {
		t.Errorf("the script of the page knows %d rows: %v", len(rows), rows)
	}
	r.get(t, "/fleet?state=waiting").says(t, http.StatusOK, ">ours<", "!>theirs<")
	r.get(t, lockPath("theirs")).says(t, http.StatusOK, "make all", "as the hub tells", "web-2-daemon:1")
	r.get(t, lockPath("of java")).says(t, http.StatusOK, "another host", "8743c9c0", "!make all", "!as the hub tells")

	if err := hub.Stop(); err != nil {
		t.Fatal(err)
	}
	shown := func() (at string, age int) {
		t.Helper()
		a := r.until(t, "/fleet", "The log of the hub cannot be read")
		a.says(t, http.StatusOK, ">ours<", ">theirs<", "2 hosts with locks")
		told := howOld.FindStringSubmatch(a.body)
		if told == nil {
			t.Fatalf("it does not say how old it is: %s", a.body)
		}
		age, err := strconv.Atoi(told[2])
		if err != nil {
			t.Fatal(err)
		}
		return told[1], age
	}
	at, age := shown()
	waittest.Until(t, "what is shown to be older", func() bool {
		now, older := shown()
		if now != at {
			t.Fatalf("the hub is away, and has told by %s, and then by %s", at, now)
		}
		return older > age
	})
}
