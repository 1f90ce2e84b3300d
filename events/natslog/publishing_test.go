package natslog

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// publishPart is an agent that holds locks, one of which nobody else uses. It says how many of its
// records are acknowledged, again and again. When it is told to end, it releases its locks.
func publishPart() int {
	epoch, _ := strconv.ParseUint(setting("EPOCH"), 10, 64)
	p, err := NewPublisher(Config{
		Connection: Connection{URL: setting("TO")}, Agent: lockagent.AgentID(setting("AGENT")), Epoch: epoch,
		Heartbeat: minHeartbeat,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("started")
	told := make(chan string)
	go func() {
		defer close(told)
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			told <- lines.Text()
		}
	}()
	a := &actingAgent{p: p, store: "that of " + setting("AGENT"), prefix: fmt.Sprintf("%s/%d/", setting("AGENT"), epoch)}
	p.Record(context.Background(), lockagent.Event{Kind: lockagent.EventAgentStarted})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.act()
			fmt.Println(p.Stats().Records)
			continue
		case _, ok := <-told:
			if !ok {
				return 0 // the test is gone
			}
		}
		a.releaseAll()
		p.Record(context.Background(), lockagent.Event{Kind: lockagent.EventAgentStopped})
		if err := p.Close(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(p.Stats().Records)
		return 0
	}
}

// actingLease is the lease of all that an actingAgent holds.
const actingLease = 30 * time.Second

// actingAgent records holds that may have happened, of locks in a store that only it uses.
type actingAgent struct {
	p             *Publisher
	store, prefix string
	tenure        uint64
	now           lockagent.StoreTime
	held          [8]lockagent.Event // the grants; zero for a lock that is free
}

// act acquires or releases any lock.
func (a *actingAgent) act() {
	n := rand.IntN(len(a.held))
	// Each time of the store is a token, too.
	a.now = max(a.now+1, lockagent.StoreTime(time.Now().UnixMicro()))
	if a.held[n].Token != 0 {
		a.release(n)
		return
	}
	a.tenure++
	a.held[n] = lockagent.Event{
		Kind: lockagent.EventGranted, Store: a.store, Lock: lockagent.Name(a.prefix + strconv.Itoa(n)),
		LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive, Owner: "w", Request: a.tenure, Tenure: a.tenure,
		Token: lockagent.Token(a.now), StoreTime: a.now, Lease: actingLease, How: lockagent.ByStore, Count: 1,
		Incarnation: "i",
	}
	a.p.Record(context.Background(), a.held[n])
}

// release gives a lock back. It renews no lease. If somebody stopped the process, the lease may be over by now. Then it
// says what a true agent says, that the hold is lost. A release after the end of the lease would be a violation.
func (a *actingAgent) release(n int) {
	e := a.held[n]
	a.held[n] = lockagent.Event{}
	e.Kind, e.Count, e.How, e.Incarnation = lockagent.EventReleased, 0, 0, ""
	e.Confirmed, e.Until, e.Held = e.StoreTime, a.now+1, a.now.Sub(e.StoreTime)
	e.StoreTime = 0
	var over lockagent.LossReason // why the store has the tenure no more
	if e.Held >= actingLease {
		e.Kind, e.Reason, over = lockagent.EventLost, lockagent.LostDeadline, lockagent.LostDenied
	}
	a.p.Record(context.Background(), e)
	e.Kind, e.Owner, e.Token, e.Reason, e.Returned = lockagent.EventReturned, "", 0, over, a.now
	e.Confirmed, e.Until, e.Held = 0, 0, 0
	a.p.Record(context.Background(), e)
}

func (a *actingAgent) releaseAll() {
	for n := range a.held {
		if a.held[n].Token != 0 {
			a.release(n)
		}
	}
}

// publisherProcess is such an agent in a process of its own. Each start is an epoch.
type publisherProcess struct {
	*child
	agent lockagent.AgentID
	acked []*atomic.Uint64 // records of each epoch, as far as the process told
	ended chan signal      // closed when the process says no more
}

func newPublisherProcess(t testing.TB, to, agent string) *publisherProcess {
	return &publisherProcess{
		child: newChild(t, "publisher", map[string]string{"TO": to, "AGENT": agent}), agent: lockagent.AgentID(agent),
	}
}

func (p *publisherProcess) start() {
	p.t.Helper()
	acked := new(atomic.Uint64)
	p.acked = append(p.acked, acked)
	p.settings["EPOCH"] = strconv.Itoa(len(p.acked))
	if line := p.child.start(); line != "started" {
		p.t.Fatalf("the publisher said %q", line)
	}
	ended := make(chan signal)
	p.ended = ended
	go func() {
		defer close(ended)
		for {
			line := strings.TrimSpace(p.hear())
			n, err := strconv.ParseUint(line, 10, 64)
			if err != nil {
				return
			}
			acked.Store(n)
		}
	}()
}

func (p *publisherProcess) kill() {
	p.child.kill()
	<-p.ended
}

// end waits until all that it recorded is in the stream.
func (p *publisherProcess) end() {
	p.t.Helper()
	p.say("end")
	select {
	case <-p.ended:
	case <-waittest.Context(p.t).Done():
		p.t.Fatal("the publisher does not end")
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the publisher: %v", err)
	}
	p.kill()
}

// The process of an acting agent stops for longer than the leases of its holds. The audit still believes what it tells.
func TestActingAgentStopped(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	a := &actingAgent{p: p, store: "s", prefix: "a/"}
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted})
	act := func() (held int) {
		for range 51 { // an odd number, so at least one is held
			a.act()
		}
		for _, e := range a.held {
			if e.Token != 0 {
				held++
			}
		}
		return held
	}
	lost := act()
	a.now = a.now.Add(actingLease)
	a.releaseAll()
	act()
	a.releaseAll()
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStopped})
	flushed(t, p)
	if _, report := replayed(t, c, ""); report.Verdict != audit.Proven || lost == 0 ||
		report.Losses[lockagent.LostDeadline.String()] != lost {
		t.Errorf("the agent lost %d holds, and the audit says %v", lost, report)
	}
}
