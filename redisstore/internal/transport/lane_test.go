package transport

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/errand"
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
		calls = append(calls, &Call{Script: echo, Keys: []string{q.text}, Args: []string{q.text}, Slot: hashslot.Of(q.text), Done: func(r Reply, err error) {
			text, _ := r.Text()
			q.answer(text, err)
		}})
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
}

func (g *gate) wait() {
	g.begun <- struct{}{}
	select {
	case <-g.goOn:
	case <-g.over:
	}
}

func (g *gate) on(next exchange) exchange {
	return func(deadline time.Time, commands rueidis.Commands, replies []Reply, mayDial bool) {
		g.wait()
		next(deadline, commands, replies, mayDial)
	}
}

// gated opens lanes to one server, whose lane has a gate.
func gated(t *testing.T) (*Lanes[question], *lane[question], *gate) {
	t.Helper()
	server := redistest.Start(t)
	server.Do("SCRIPT", "LOAD", echo.Source) // so that an exchange is one
	s := connect(t, config(server.Addr()))
	node := s.Master(0)
	g := &gate{begun: make(chan struct{}, 100), goOn: make(chan struct{}, 100), over: t.Context().Done()}
	for i, exchange := range node.direct {
		exchange(time.Now().Add(patience), rueidis.Commands{node.builder.Ping().Build()}, make([]Reply, 1), true) // makes the connection
		node.direct[i] = g.on(exchange)
	}
	lanes := NewLanes(s, func() Packer[question] { return ask })
	lanes.quick = patience
	l := lanes.lane(node)
	l.inviting = true
	return lanes, l, g
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

// finish finishes an errand on a goroutine of its own.
func finish(e *errand.Errand) <-chan struct{} {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		e.Finish()
	}()
	return finished
}

// goexit ends the goroutine of who calls it with an answer.
func goexit(string, error) { runtime.Goexit() }

// A caller makes no exchange for others, whose code could keep it.
func TestACallerTakesWhatItCameWith(t *testing.T) {
	lanes, _, g := gated(t)
	e := errand.New(t.Context())
	own := add(e, lanes, "own")
	lanes.Add(t.Context(), 0, question{"another", goexit})
	g.goOn <- struct{}{}
	e.Finish()
	answered(t, "the caller", own)
	g.goOn <- struct{}{} // for the other one
	g.goOn <- struct{}{} // for a later one, if it does not travel with that
	answered(t, "a later call", add(t.Context(), lanes, "later"))
}

func TestACallerMakesTheExchangeItself(t *testing.T) {
	lanes, _, g := gated(t)
	for i := range 3 { // the next one finds the lane as the first did
		e := errand.New(t.Context())
		c := add(e, lanes, fmt.Sprint("orders/", i))
		if len(g.begun) > 0 || len(c) > 0 {
			t.Error("the exchange did not wait for the caller")
		}
		g.goOn <- struct{}{}
		e.Finish()
		if len(g.begun) != 1 || len(c) != 1 {
			t.Fatalf("%d exchanges and %d answers when the caller had finished", len(g.begun), len(c))
		}
		answered(t, "the caller", c)
		<-g.begun
	}
}

// What comes while a caller makes an exchange is left to a goroutine of the lane.
func TestWhatComesDuringTheExchangeOfACaller(t *testing.T) {
	lanes, _, g := gated(t)
	for i := range 10 {
		name := func(suffix string) string { return fmt.Sprintf("orders/%d/%s", i, suffix) }
		e := errand.New(t.Context())
		first := add(e, lanes, name("first"))
		finished := finish(e)
		waittest.Receive(t, "the caller's exchange", g.begun)
		second := add(t.Context(), lanes, name("second"))
		other := errand.New(t.Context())
		third := add(other, lanes, name("third"))
		if !errand.Leave(other, func() {}) {
			t.Fatal("another caller was left an exchange at the same time")
		}
		g.goOn <- struct{}{}
		waittest.Receive(t, "the caller to finish", finished)
		answered(t, "the caller", first)
		waittest.Receive(t, "the exchange of those that came meanwhile", g.begun)
		g.goOn <- struct{}{}
		answered(t, "what came meanwhile", second)
		answered(t, "what came meanwhile", third)
	}
	if len(g.begun) > 0 {
		t.Errorf("%d exchanges too many", len(g.begun))
	}
}

// The lane is free before anybody is answered: code that does not return holds up no call.
func TestAnAnswerHoldsUpNoExchange(t *testing.T) {
	for who, ctx := range map[string]context.Context{"a caller": errand.New(t.Context()), "the lane": t.Context()} {
		t.Run(who+" answers", func(t *testing.T) {
			lanes, _, g := gated(t)
			stuck, goOn := make(chan struct{}), make(chan struct{})
			lanes.Add(ctx, 0, question{"stuck", func(string, error) { close(stuck); <-goOn }})
			if e, of := ctx.(*errand.Errand); of {
				finish(e)
			}
			waittest.Receive(t, "the exchange", g.begun)
			waiting := add(t.Context(), lanes, "waiting")
			g.goOn <- struct{}{}
			waittest.Receive(t, "the answer that does not return", stuck)
			for i := range 3 {
				g.goOn <- struct{}{}
				answered(t, "what waited", waiting)
				waiting = add(t.Context(), lanes, fmt.Sprint("later/", i))
			}
			g.goOn <- struct{}{}
			answered(t, "what came later", waiting)
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

// An exchange on the second track says nothing about the connection that a caller would use.
func TestTheFirstTrackInvites(t *testing.T) {
	_, l, _ := gated(t)
	l.inviting = false
	for i := len(l.tracks) - 1; i >= 0; i-- {
		l.free(&l.tracks[i], &batch[question]{replies: []Reply{{kind: '$', text: "PONG"}}, began: time.Now()}, true)
		if first := i == 0; l.inviting != first {
			t.Errorf("after an exchange on track %d a caller may lead: %v", i, l.inviting)
		}
	}
}

// Lanes that are closed do not wait for a caller who makes an exchange, and the caller is
// answered all the same, once.
func TestClosedDuringTheExchangeOfACaller(t *testing.T) {
	lanes, _, g := gated(t)
	e := errand.New(t.Context())
	first := add(e, lanes, "first")
	finished := finish(e)
	waittest.Receive(t, "the caller's exchange", g.begun)
	waiting := add(t.Context(), lanes, "waiting")

	lanes.servers.Close()
	late := errand.New(t.Context())
	refused := add(late, lanes, "late")
	if !errand.Leave(late, func() {}) {
		t.Error("a lane that is closed left an exchange to a caller")
	}
	for what, c := range map[string]said{"waiting": waiting, "late": refused} {
		if err := waittest.Receive(t, what+" to be answered", c); !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
	g.goOn <- struct{}{}
	waittest.Receive(t, "the caller to finish", finished)
	if err := waittest.Receive(t, "its answer", first); !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("the caller heard %v, want ErrClosed", err)
	}
	if len(g.begun)+len(first)+len(waiting)+len(refused) > 0 {
		t.Error("somebody was answered twice, or asked for again")
	}
}

// A node is given up before its lane is closed. What waits meanwhile is not sent in vain: it is for the node's successor.
func TestGivenUpBeforeItIsClosed(t *testing.T) {
	lanes, l, g := gated(t)
	l.inviting = false
	first := add(t.Context(), lanes, "first")
	waittest.Receive(t, "the exchange", g.begun)
	waiting := add(t.Context(), lanes, "waiting")
	l.node.end()
	g.goOn <- struct{}{}
	if err := waittest.Receive(t, "the first answer", first); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("the first call: %v", err)
	}
	late := add(errand.New(t.Context()), lanes, "late")
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
	if len(g.begun) > 0 {
		t.Error("another exchange began")
	}
}

// What was left when the lane was closed has been answered, and is not done any more.
func TestClosedBeforeTheExchangeOfACaller(t *testing.T) {
	lanes, _, g := gated(t)
	e := errand.New(t.Context())
	c := add(e, lanes, "orders")
	lanes.servers.Close()
	if len(c) != 1 || !errors.Is(<-c, lockagent.ErrClosed) {
		t.Error("the call is not answered by ErrClosed")
	}
	g.goOn <- struct{}{}
	e.Finish()
	if len(g.begun)+len(c) > 0 {
		t.Error("the caller went on with a call that was answered")
	}
}

// Code that is called with an answer may end its goroutine, as a test does that fails.
// Whoever made the exchange, neighbours and later calls are answered all the same.
func TestNeighboursOfACallThatEndsItsGoroutine(t *testing.T) {
	for who, ctx := range map[string]context.Context{"a caller's": errand.New(t.Context()), "the lane's": t.Context()} {
		t.Run(who, func(t *testing.T) {
			lanes, _, g := gated(t)
			first := add(t.Context(), lanes, "in front") // so that the others gather
			waittest.Receive(t, "the first exchange", g.begun)
			lanes.Add(ctx, 0, question{"first", goexit})
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
		})
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
	if err := waittest.Receive(t, "the answer to a stale call", stale); !errors.Is(err, lockagent.ErrStoreUnavailable) || !strings.Contains(err.Error(), "behind") {
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
	soon := time.Now().Add(patience)
	unknown := NewScript("return 'unknown'")
	var b batch[question]
	for _, script := range []*Script{unknown, echo, unknown} {
		c := &Call{Script: script, Keys: []string{"key"}, Args: []string{"text"}}
		b.calls = append(b.calls, c)
	}
	b.write(nil, line.client.B(), (*Call).byDigest)
	line.exchange(soon, b.commands, b.replies, true)
	_ = line.guard.Conn.Close()
	b.repeatBySource(soon, nil, line.client.B(), line.exchange)
	if text, err := b.replies[1].Text(); text != "text" {
		t.Errorf("the answer is %q, %v", text, err)
	}
	for _, i := range []int{0, 2} {
		if b.replies[i].err == nil {
			t.Errorf("call %d has not failed", i)
		}
	}
}

// A caller would have to wait for an exchange that is slow, or that has to dial first.
func TestWhatIsNotLeftToACaller(t *testing.T) {
	lanes, l, g := gated(t)
	g.goOn <- struct{}{}
	answered(t, "the first", add(t.Context(), lanes, "first"))
	waittest.Until(t, "the lane to be free", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.load() == 0
	})
	l.mu.Lock()
	l.inviting = false // as after an exchange that was slow, or failed
	l.mu.Unlock()
	e := errand.New(t.Context())
	c := add(e, lanes, "orders")
	if !errand.Leave(e, func() {}) {
		t.Error("the exchange was left to the caller")
	}
	g.goOn <- struct{}{}
	answered(t, "the call", c)
}

// Many callers at once, with many who end their goroutine: everybody is answered once.
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
				e := errand.New(t.Context())
				lanes.Add(e, 0, q)
				e.Finish()
				if err := <-c; err != nil || len(c) > 0 {
					t.Errorf("%s: %v, and %d more", text, err, len(c))
				}
			}
		})
	}
	all.Wait()
}
