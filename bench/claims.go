package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockagent/lockagent/bench/contender"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// claimStreams is the row of claims with a stream each.
const claimStreams = contender.Lockagent + ", a stream each"

// claims measures what held claims cost the daemon, and its restart with them.
func (b *bench) claims(ctx context.Context) error {
	t := &table{
		Name:  "claims-10000",
		Title: fmt.Sprintf("%d claims held through the daemon, each on a lock of its own", b.plan.Claims),
		Columns: []column{
			{Key: "memory", Title: "heap and stacks, KB/claim"},
			{Key: "heap", Title: "heap alone, KB/claim"},
			{Key: "resident", Title: "resident, KB/claim"},
			{Key: "restart", Title: "restart: s of processor until ready"},
			{Key: "held", Title: "held after it"},
		},
		Notes: []string{
			"The daemon is `lockagent serve` without Redis, and all that it has for its clients counts: connections, buffers, " +
				"goroutines, claims, locks, the store, the journal and the event log. " +
				"Heap and stacks are the spans in use (HeapInuse and StackInuse) after collections, less those before the first " +
				"claim, when all claims have been held for some seconds. Resident is how much more of the process is in memory, " +
				"with the garbage that the collector tolerates. " +
				"`" + contender.Lockagent + "` is one process with agentclient, whose claims share a link. `" + claimStreams +
				"` is a connection for each claim, as each `lockagent lock` has one. " +
				"The restart is after kill -9; it counts the processor time of the new process from its start until /readyz says " +
				"that it is ready.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	for _, kind := range []struct {
		row  string
		task task
	}{
		{contender.Lockagent, task{Role: "keep", Contender: contender.Daemon.Name}},
		{claimStreams, task{Role: "streams"}},
	} {
		kind.task.Locks = b.plan.Claims
		found, err := b.claim(ctx, kind.task)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.row, err)
		}
		t.Rows = append(t.Rows, found.row(kind.row))
	}
	return nil
}

// claim has a process make claims. Those of a link go on after a restart.
func (b *bench) claim(ctx context.Context, clients task) (*series, error) {
	d, err := b.startDaemon(ctx)
	if err != nil {
		return nil, err
	}
	defer d.end()
	c := overHTTP(d.socket(), "h1")
	defer c.transport.CloseIdleConnections()
	if err := c.cycle(ctx); err != nil { // the first one makes what all share
		return nil, err
	}
	before, err := d.memory(ctx)
	if err != nil {
		return nil, err
	}
	clients.Addr = d.socket()
	w, err := startWorker(ctx, clients)
	if err != nil {
		return nil, err
	}
	defer w.quit()
	var report keptReport
	if err := w.hear(&report); err != nil {
		return nil, err
	}
	if report.Failed > 0 {
		return nil, fmt.Errorf("%d of %d not acquired: %s", report.Failed, clients.Locks, report.Error)
	}
	select {
	case <-time.After(b.plan.Held):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after, err := d.memory(ctx)
	if err != nil {
		return nil, err
	}
	if n, err := c.held(ctx); err != nil || n != clients.Locks {
		return nil, errors.Join(fmt.Errorf("%d of %d claims are held", n, clients.Locks), err)
	}
	kb := func(of func(spaces) float64) float64 { return (of(after) - of(before)) / float64(clients.Locks) / 1024 }
	found := newSeries()
	found.add("memory", kb(func(m spaces) float64 { return m.heap + m.stacks }))
	found.add("heap", kb(func(m spaces) float64 { return m.heap }))
	found.add("resident", kb(func(m spaces) float64 { return m.resident }))
	if clients.Role != "keep" {
		return found, nil
	}
	d.kill()
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	used, err := d.cpuSeconds()
	if err != nil {
		return nil, err
	}
	n, err := c.held(ctx)
	if err != nil {
		return nil, err
	}
	found.add("restart", used)
	found.add("held", float64(n))
	if n != clients.Locks {
		return nil, fmt.Errorf("%d of %d claims are held after the restart", n, clients.Locks)
	}
	return found, nil
}

// held is how many locks the daemon tells of as held.
func (c socketClient) held(ctx context.Context) (n int, err error) {
	look := lockagentv1connect.NewLookServiceClient(&http.Client{Transport: c.transport}, "http://lockagent")
	for request := new(lockagentv1.ListRequest); ; {
		page, err := look.List(ctx, request)
		if err != nil {
			return n, err
		}
		for _, l := range page.GetLocks() {
			n += int(l.GetHeld())
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return n, nil
		}
	}
}

// spaces are what a process has, in bytes.
type spaces struct{ heap, stacks, resident float64 }

// memory is what the daemon has after collections.
func (d *daemon) memory(ctx context.Context) (m spaces, err error) {
	var page bytes.Buffer
	const collections = 4 // the first ones fill pools, and make stacks smaller, each by half
	for range collections {
		page.Reset()
		if err := d.ask(ctx, "/debug/pprof/heap?gc=1&debug=1", &page); err != nil {
			return m, err
		}
	}
	if m.heap, err = labelled(page.String(), "# HeapInuse = "); err != nil {
		return m, err
	}
	if m.stacks, err = labelled(page.String(), "# Stack = "); err != nil {
		return m, err
	}
	status, err := os.ReadFile(d.proc("status"))
	if err != nil {
		return m, err
	}
	m.resident, err = labelled(string(status), "VmRSS:")
	m.resident *= 1024
	return m, err
}

func (d *daemon) proc(file string) string {
	return "/proc/" + strconv.Itoa(d.cmd.Process.Pid) + "/" + file
}

// labelled is the first number behind a label, which begins a line.
func labelled(text, label string) (float64, error) {
	_, rest, found := strings.Cut("\n"+text, "\n"+label)
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("the system does not tell %q", label)
	}
	return strconv.ParseFloat(fields[0], 64)
}

// cpuSeconds is the processor time that the process has used.
func (d *daemon) cpuSeconds() (float64, error) {
	stat, err := os.ReadFile(d.proc("stat"))
	if err != nil {
		return 0, err
	}
	// user and system are fields behind the name. For all programs Linux has a hundred ticks a second.
	const user, system, perSecond = 11, 12, 100
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("the system tells %.64q of the process", stat)
	}
	ticks := 0.0
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return ticks / perSecond, nil
}

// streamsWorker makes claims over connections of their own, and keeps them until it is killed. It has nothing else
// for a claim.
func streamsWorker(_ context.Context, t *task, parent *conversation) error {
	var conns []net.Conn
	for i := range t.Locks {
		conn, err := rawClaim(t.Addr, "bench/"+strconv.Itoa(i))
		if err != nil {
			return parent.say(keptReport{Failed: t.Locks - i, Error: err.Error()})
		}
		conns = append(conns, conn)
	}
	if err := parent.say(keptReport{}); err != nil {
		return err
	}
	_ = parent.hear(new(string)) // until it is killed
	runtime.KeepAlive(conns)
	return nil
}

// rawClaim acquires a lock over a connection that stays open, and waits for the grant.
func rawClaim(socket, name string) (net.Conn, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	message, err := proto.Marshal(&lockagentv1.AcquireRequest{Name: name})
	if err != nil {
		return nil, err
	}
	const head = 5 // flags and length of a message
	request := fmt.Appendf(
		nil,
		"POST %s HTTP/1.1\r\nHost: lockagent\r\nConnection: close\r\nContent-Type: application/connect+proto\r\n"+
			"Content-Length: %d\r\n\r\n\x00",
		lockagentv1connect.LockServiceAcquireProcedure, head+len(message),
	)
	request = append(binary.BigEndian.AppendUint32(request, uint32(len(message))), message...)
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	var length [head]byte
	if _, err := io.ReadFull(answer.Body, length[:]); err != nil {
		return nil, err
	}
	first := make([]byte, binary.BigEndian.Uint32(length[1:]))
	if _, err := io.ReadFull(answer.Body, first); err != nil {
		return nil, err
	}
	var event lockagentv1.ClaimEvent
	if err := proto.Unmarshal(first, &event); err != nil {
		return nil, err
	}
	if event.GetGranted() == nil {
		return nil, fmt.Errorf("%v in place of a grant", &event)
	}
	return conn, nil
}
