package transport

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// patience is longer than anything takes on a machine that is busy. No test waits for it.
const patience = time.Hour

// question asks a server to say something, and is answered with what it said.
type question struct {
	text   string
	answer func(string, error)
}

func (q question) Refuse(err error) { q.answer("", err) }

var echo = NewScript("return ARGV[1]")

// ask makes a call of each question.
func ask(questions []question) (calls []*Call) {
	for _, q := range questions {
		done := func(r Reply, err error) {
			text, _ := r.Text()
			q.answer(text, err)
		}
		text := []string{q.text}
		calls = append(calls, &Call{Script: echo, Keys: text, Args: text, Slot: hashslot.Of(q.text), Done: done})
	}
	return calls
}

// config is that of a test.
func config(server string) Config {
	return Config{
		Network: "tcp", Addrs: []string{server}, ClientName: "test",
		Dial: patience, Call: 4 * patience, Silence: patience, Changed: func() {},
	}
}

func connect(t testing.TB, c Config) *Servers {
	t.Helper()
	s, err := Connect(waittest.Context(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// gate is a connection whose exchanges tell that they have begun, and then wait until the
// test lets them go on.
type gate struct {
	begun chan struct{} // has room for all
	goOn  chan struct{}
	over  <-chan struct{} // the test is
	lone  *gate           // of the exchange of a lone caller; nil if this is that gate
}

func (g *gate) wait() {
	g.begun <- struct{}{}
	select {
	case <-g.goOn:
	case <-g.over:
	}
}

func (g *gate) on(next exchange) exchange {
	return func(ctx context.Context, deadline time.Time, commands rueidis.Commands, replies []Reply) {
		g.wait()
		next(ctx, deadline, commands, replies)
	}
}

// gated opens lanes to one server, whose lane has a gate.
func gated(t *testing.T) (*Lanes[question], *lane[question], *gate) {
	t.Helper()
	server := redistest.Start(t)
	server.Do("SCRIPT", "LOAD", echo.Source) // so that an exchange is one
	s := connect(t, config(server.Addr()))
	node := s.Master(0)
	newGate := func(lone *gate) *gate {
		return &gate{
			begun: make(chan struct{}, 100), goOn: make(chan struct{}, 100), over: t.Context().Done(), lone: lone,
		}
	}
	g := newGate(newGate(nil))
	for i, exchange := range node.direct {
		node.direct[i] = g.on(exchange)
	}
	node.lone = g.lone.on(node.lone)
	lanes := NewLanes(s, func() Packer[question] { return ask })
	return lanes, lanes.lane(node), g
}

// said is the answer to one question. There is room for a second one, which must not come.
type said chan error

func expect(text string) (question, said) {
	c := make(said, 2)
	return question{text, func(got string, err error) {
		if err == nil && got != text {
			err = fmt.Errorf("answered %q", got)
		}
		c <- err
	}}, c
}

func add(ctx context.Context, lanes *Lanes[question], text string) said {
	q, c := expect(text)
	lanes.Add(ctx, hashslot.Of(text), q)
	return c
}

func answered(t testing.TB, what string, c said) {
	t.Helper()
	if err := waittest.Receive(t, "the answer to "+what, c); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// addInPerson adds a question in a goroutine of a caller who waits there. finished is closed when Add has returned.
func addInPerson(ctx context.Context, lanes *Lanes[question], text string) (answer said, finished <-chan struct{}) {
	q, answer := expect(text)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		lanes.Add(inperson.Context(ctx), hashslot.Of(text), q)
	}()
	return answer, returned
}

// goexit ends the goroutine of who calls it with an answer.
func goexit(string, error) { runtime.Goexit() }

func TestALoneCallerMakesTheExchange(t *testing.T) {
	lanes, _, g := gated(t)
	for i := range 3 { // the next one finds the lane as the first did
		g.lone.goOn <- struct{}{}
		c := add(inperson.Context(t.Context()), lanes, fmt.Sprint("orders/", i))
		if len(g.lone.begun) != i+1 || len(c) != 1 {
			t.Fatalf("%d exchanges and %d answers when the caller had finished", len(g.lone.begun), len(c))
		}
		answered(t, "the caller", c)
	}
}

// What comes while a lone caller makes an exchange does not wait for that caller: the lane is free.
func TestNobodyWaitsForALoneCaller(t *testing.T) {
	lanes, _, g := gated(t)
	first, finished := addInPerson(t.Context(), lanes, "first")
	waittest.Receive(t, "the exchange of the lone caller", g.lone.begun)
	for i := range 3 {
		second := add(inperson.Context(t.Context()), lanes, fmt.Sprint("second/", i)) // waits for no server
		waittest.Receive(t, "the exchange of another", g.begun)
		third := add(inperson.Context(t.Context()), lanes, fmt.Sprint("third/", i)) // finds company
		g.goOn <- struct{}{}
		g.goOn <- struct{}{}
		answered(t, "another", second)
		waittest.Receive(t, "the exchange of the third", g.begun)
		answered(t, "the third", third)
	}
	if len(first) > 0 || len(g.lone.begun) > 0 {
		t.Error("the lone caller was let through, or there was another one")
	}
	g.lone.goOn <- struct{}{}
	waittest.Receive(t, "the lone caller to finish", finished)
	answered(t, "the lone caller", first)
}

// A caller who finds company is not alone, and travels with the others.
func TestACallerWithCompanyIsNotAlone(t *testing.T) {
	lanes, _, g := gated(t)
	first := add(t.Context(), lanes, "first")
	waittest.Receive(t, "the first exchange", g.begun)
	second := add(inperson.Context(t.Context()), lanes, "second")
	close(g.goOn)
	answered(t, "the first", first)
	answered(t, "the second", second)
	if len(g.lone.begun) > 0 {
		t.Error("a caller made an exchange while another was under way")
	}
}

// The end of the caller's context ends the exchange at once, whatever the server does. It touches no other exchange,
// and the next lone caller has another connection.
func TestALoneCallerLeaves(t *testing.T) {
	for _, what := range []string{"the first exchange, which has no connection", "a later exchange"} {
		t.Run(what, func(t *testing.T) {
			server := redistest.Start(t)
			s := connect(t, config(server.Addr()))
			lanes := NewLanes(s, func() Packer[question] { return ask })
			answered(t, "the lane", add(t.Context(), lanes, "warm"))
			if what == "a later exchange" {
				answered(t, "a lone caller", add(inperson.Context(t.Context()), lanes, "warm"))
			}
			waittest.Until(t, "the lane to be idle", func() bool { return idle(lanes.lane(s.Master(0))) })
			server.Pause()
			ctx, leave := context.WithCancel(t.Context())
			lone, finished := addInPerson(ctx, lanes, "lone")
			l := lanes.lane(s.Master(0))
			waittest.Until(t, "the exchange of the lone caller", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.lone.load > 0
			})
			other := add(t.Context(), lanes, "other")
			leave()
			waittest.Receive(t, "the caller to be let go", finished)
			next, finished := addInPerson(t.Context(), lanes, "next")
			server.Resume()
			answered(t, "another call", other)
			answered(t, "the caller who left", lone)
			waittest.Receive(t, "the next caller to finish", finished)
			answered(t, "the next caller", next)
			waittest.Until(t, "the lane to be idle", func() bool { return idle(l) })
			again := add(inperson.Context(t.Context()), lanes, "again")
			if len(again) == 0 {
				t.Error("the next lone caller did not make the exchange")
			}
			answered(t, "a lone caller", again)
		})
	}
}

// The context of a caller may be too short to make a connection. Then the lane makes one, and the next callers use it.
func TestTheLineForLoneCallersIsMadeForThem(t *testing.T) {
	s := connect(t, config(redistest.Start(t).Addr()))
	node := s.Master(0)
	var made atomic.Bool
	var left, lone atomic.Int32
	next := node.lone
	node.lone = func(ctx context.Context, deadline time.Time, commands rueidis.Commands, replies []Reply) {
		switch {
		case ctx == node.life:
			made.Store(true)
		case !made.Load():
			left.Add(1)
			unanswered(replies[:0], len(replies), errLeft)
			return
		default:
			lone.Add(1)
		}
		next(ctx, deadline, commands, replies)
	}
	lanes := NewLanes(s, func() Packer[question] { return ask })
	for i := range 3 {
		answered(t, "a caller", add(inperson.Context(t.Context()), lanes, fmt.Sprint("orders/", i)))
		waittest.Until(t, "the lane to be idle", func() bool { return idle(lanes.lane(node)) })
	}
	if left.Load() != 1 || lone.Load() != 2 {
		t.Errorf(
			"%d callers had no connection, and %d had one; want only the first to have none", left.Load(), lone.Load(),
		)
	}
}

func idle[I Item](l *lane[I]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) == 0 && l.load() == 0 && l.lone.load == 0
}

// The lane is free before anybody is answered: code that does not return holds up no call.
func TestAnAnswerHoldsUpNoExchange(t *testing.T) {
	callers := map[string]context.Context{"a lone caller": inperson.Context(t.Context()), "the lane": t.Context()}
	for who, ctx := range callers {
		t.Run(who+" answers", func(t *testing.T) {
			lanes, _, g := gated(t)
			close(g.lone.goOn)
			stuck, goOn := make(chan struct{}), make(chan struct{})
			go lanes.Add(ctx, 0, question{"stuck", func(string, error) { close(stuck); <-goOn }})
			if who == "the lane" {
				waittest.Receive(t, "the exchange", g.begun)
			}
			g.goOn <- struct{}{}
			waittest.Receive(t, "the answer that does not return", stuck)
			for i := range 3 {
				g.goOn <- struct{}{}
				answered(t, "what came later", add(ctx, lanes, fmt.Sprint("later/", i)))
			}
			close(goOn)
		})
	}
}

// A second exchange leaves when as much waits as is under way, and not before.
func TestTwoExchangesAtATime(t *testing.T) {
	lanes, l, g := gated(t)
	led := func() (n int) { // how many tracks have a leader, who may not have begun
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range l.tracks {
			n += min(l.tracks[i].load, 1)
		}
		return n
	}
	several := func(what string, n int) (all []said) {
		for i := range n {
			all = append(all, add(t.Context(), lanes, fmt.Sprint(what, "/", i)))
		}
		return all
	}
	gather := several("first", 1) // so that the others gather
	waittest.Receive(t, "the first exchange", g.begun)
	large := several("second", worthwhile-1)
	if led() != 1 {
		t.Error("a few calls did not wait for the exchange under way")
	}
	large = append(large, several("third", 1)...)
	waittest.Receive(t, "the second exchange", g.begun)
	more := several("fourth", 2*worthwhile)
	if led() != 2 {
		t.Error("the second exchange was over before it was let through")
	}
	g.goOn <- struct{}{} // one of the two, whichever it is
	waittest.Receive(t, "the third exchange", g.begun)
	close(g.goOn)
	for _, c := range slices.Concat(gather, large, more) {
		answered(t, "a call", c)
	}
}

// Lanes that are closed do not wait for a caller who makes an exchange, and the caller is
// answered all the same, once.
func TestClosedDuringTheExchangeOfACaller(t *testing.T) {
	lanes, _, g := gated(t)
	first, finished := addInPerson(t.Context(), lanes, "first")
	waittest.Receive(t, "the caller's exchange", g.lone.begun)
	under := add(t.Context(), lanes, "under way")
	waittest.Receive(t, "the exchange of the lane", g.begun)
	waiting := add(t.Context(), lanes, "waiting")

	closed := make(chan struct{})
	go func() { lanes.servers.Close(); close(closed) }()
	if err := waittest.Receive(t, "what waits to be answered", waiting); !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("what waited: %v, want ErrClosed", err)
	}
	g.goOn <- struct{}{}
	waittest.Receive(t, "the end of Close", closed)
	if err := waittest.Receive(t, "what was under way", under); !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("what was under way: %v, want ErrClosed", err)
	}
	late := add(inperson.Context(t.Context()), lanes, "late")
	if err := waittest.Receive(t, "the late caller to be answered", late); !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("the late caller: %v, want ErrClosed", err)
	}
	g.lone.goOn <- struct{}{}
	waittest.Receive(t, "the caller to finish", finished)
	if err := waittest.Receive(t, "its answer", first); !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("the caller heard %v, want ErrClosed", err)
	}
	if len(g.begun)+len(g.lone.begun)+len(first)+len(waiting)+len(late) > 0 {
		t.Error("somebody was answered twice, or asked for again")
	}
}

// A node is given up before its lane is closed. What waits meanwhile is not sent in vain: it is for the node's
// successor.
func TestGivenUpBeforeItIsClosed(t *testing.T) {
	lanes, l, g := gated(t)
	first := add(t.Context(), lanes, "first")
	waittest.Receive(t, "the exchange", g.begun)
	waiting := add(t.Context(), lanes, "waiting")
	l.node.end()
	g.goOn <- struct{}{}
	if err := waittest.Receive(t, "the first answer", first); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("the first call: %v", err)
	}
	late := add(inperson.Context(t.Context()), lanes, "late")
	l.mu.Lock()
	if l.load() > 0 || len(l.queue) != 2 {
		t.Errorf("%d calls wait, and exchanges of up to %d are under way", len(l.queue), l.load())
	}
	l.mu.Unlock()
	lanes.servers.Close()
	for what, c := range map[string]said{"waiting": waiting, "late": late} {
		if err := waittest.Receive(t, what+" to be answered", c); !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
	if len(g.begun)+len(g.lone.begun) > 0 {
		t.Error("another exchange began")
	}
}

// Code that is called with an answer may end its goroutine, as a test does that fails.
// Neighbours and later calls are answered all the same.
func TestNeighboursOfACallThatEndsItsGoroutine(t *testing.T) {
	lanes, _, g := gated(t)
	first := add(t.Context(), lanes, "in front") // so that the others gather
	waittest.Receive(t, "the first exchange", g.begun)
	lanes.Add(t.Context(), 0, question{"first", goexit})
	neighbour := add(t.Context(), lanes, "neighbour")
	lanes.Add(t.Context(), 0, question{"third", goexit})
	last := add(t.Context(), lanes, "last")
	for range 3 {
		g.goOn <- struct{}{}
	}
	answered(t, "the first", first)
	answered(t, "a neighbour", neighbour)
	answered(t, "the last", last)
	answered(t, "a later call", add(t.Context(), lanes, "later"))
}

// A lone caller whose answer ends its goroutine leaves the lane as it was.
func TestALoneCallerThatEndsItsGoroutine(t *testing.T) {
	lanes, l, g := gated(t)
	close(g.lone.goOn)
	for range 3 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			lanes.Add(inperson.Context(t.Context()), 0, question{"lone", goexit})
		}()
		waittest.Receive(t, "the end of the goroutine", ended)
		waittest.Receive(t, "the exchange of the lone caller", g.lone.begun)
		if !idle(l) {
			t.Error("the lane is not idle")
		}
	}
}

// What waited for half of the bound does not travel, or it would be answered much later. It
// holds up nothing, even if it ends the goroutine.
func TestStaleCalls(t *testing.T) {
	lanes, l, g := gated(t)
	first := add(t.Context(), lanes, "first")
	waittest.Receive(t, "the first exchange", g.begun)
	lanes.Add(t.Context(), 0, question{"stale", goexit})
	stale := add(t.Context(), lanes, "also stale")
	lanes.Send(&Call{Script: echo, Done: func(Reply, error) { runtime.Goexit() }})
	l.mu.Lock()
	for i := range l.queue {
		l.queue[i].made = time.Now().Add(-3 * patience)
	}
	l.mu.Unlock()
	fresh := add(t.Context(), lanes, "fresh")
	g.goOn <- struct{}{}
	g.goOn <- struct{}{}
	answered(t, "the first", first)
	err := waittest.Receive(t, "the answer to a stale call", stale)
	if !errors.Is(err, lockagent.ErrStoreUnavailable) || !strings.Contains(err.Error(), "behind") {
		t.Errorf("a stale call was answered %v", err)
	}
	answered(t, "a fresh call", fresh)
}

// A call is not sent to another server when half of its time is over: the next exchange may take the
// other half.
func TestACallIsNotPassedOnForEver(t *testing.T) {
	lanes, l, g := gated(t)
	c := counter("key", nil)
	c.Done = func(Reply, error) {}
	c.made = time.Now().Add(-3 * patience)
	if lanes.resend(c, l.node) {
		t.Error("sent, though it would be answered too late")
	}
	c.made = time.Now()
	if !lanes.resend(c, l.node) {
		t.Error("not sent, though there is time")
	}
	g.goOn <- struct{}{}
	g.goOn <- struct{}{} // by source
}

// The server answers some calls of a batch, and does not have the scripts of others. Then the
// connection fails. What was answered stays answered.
func TestAnAnswerOutlivesTheConnection(t *testing.T) {
	server := redistest.Start(t)
	server.Do("SCRIPT", "LOAD", echo.Source)
	line := newLine(connect(t, config(server.Addr())).Master(0))
	exchange := func(commands rueidis.Commands, replies []Reply) {
		line.exchange(t.Context(), time.Now().Add(patience), commands, replies)
	}
	unknown := NewScript("return 'unknown'")
	var b batch[question]
	for _, script := range []*Script{unknown, echo, unknown} {
		c := &Call{Script: script, Keys: []string{"key"}, Args: []string{"text"}}
		b.calls = append(b.calls, c)
	}
	b.write(nil, line.client.B(), (*Call).byDigest)
	exchange(b.commands, b.replies)
	server.Kill()
	b.repeatBySource(nil, line.client.B(), exchange)
	if text, err := b.replies[1].Text(); text != "text" {
		t.Errorf("the answer is %q, %v", text, err)
	}
	for _, i := range []int{0, 2} {
		if b.replies[i].err == nil {
			t.Errorf("call %d has not failed", i)
		}
	}
}

// Many callers at once, with many who end their goroutine, and many who leave: everybody is answered once, and nobody's
// leaving costs another an answer.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lanes := NewLanes(connect(t, config(server.Addr())), func() Packer[question] { return ask })
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range 200 {
				text := fmt.Sprint(i, "/", n)
				if n%50 == 7 {
					lanes.Add(t.Context(), 0, question{text, goexit})
					continue
				}
				q, c := expect(text)
				ctx, leave := context.WithCancel(t.Context())
				leaves := n%7 == 3
				if leaves {
					go leave()
				}
				lanes.Add(inperson.Context(ctx), 0, q)
				err := <-c
				if leaves && errors.Is(err, errLeft) {
					err = nil
				}
				if leave(); err != nil || len(c) > 0 {
					t.Errorf("%s: %v, and %d more", text, err, len(c))
				}
			}
		})
	}
	all.Wait()
}
