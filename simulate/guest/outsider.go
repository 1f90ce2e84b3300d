package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/lockagent/lockagent/simulate/plan"
)

// outsider is one life of a program that is no agent. It uses a lock as Redisson's client does: it knows of no queue,
// no token and no grace period.
type outsider struct {
	*process
	id      string        // a UUID of version 4, as the clients of Redisson have
	lock    plan.Lock     // the one that it uses
	ready   chan struct{} // closed when the threads work
	threads sync.WaitGroup

	// The mutex of the process guards what follows.
	idle    []*connected // connections without an exchange
	watched []*hold      // whose leases the watchdog renews
}

func newOutsider(w *world, life int) *outsider {
	name, number := fmt.Sprintf("r%d.%d", w.plan.Agents, life), 100+w.plan.Agents+1000*life
	random := rand.New(rand.NewPCG(w.plan.Seed, uint64(700+life)))
	return &outsider{
		process: newProcess(w, w.plan.Agents, life, newLink(w, name, uint64(number))),
		id: fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", random.Uint32(), random.Uint32N(1<<16), random.Uint32N(1<<12),
			random.Uint32N(1<<12), random.Uint64N(1<<48)),
		lock: w.lock(w.plan.OutsidersUse()), ready: make(chan struct{}),
	}
}

func (o *outsider) next(bool) party { return newOutsider(o.world, o.life+1) }

func (o *outsider) live() {
	go o.watch()
	for i := range o.world.plan.Outsiders {
		o.threads.Go(newThread(o, i).work)
	}
	close(o.ready)
}

// kill ends the program. It has no journal, so no other process has its locks.
func (o *outsider) kill(bool) {
	o.link.end()
	o.end()
}

func (o *outsider) finish() {
	<-o.ready
	o.threads.Wait()
	newThread(o, o.world.plan.Outsiders).last()
	o.kill(false)
}

// watch is the watchdog. It renews all leases that threads keep, again and again.
func (o *outsider) watch() {
	lease := o.world.plan.Lease
	for {
		sleep(o.alive, lease/3)
		o.standStill()
		if o.isDead() {
			return
		}
		o.mu.Lock()
		holds := slices.Clone(o.watched)
		o.mu.Unlock()
		if len(holds) > 0 {
			o.renew(holds, lease)
		}
	}
}

// renew renews leases. The server has a lease for the whole time from when it was asked, or longer. The watchdog
// forgets a lock that the server does not have, and tells nobody.
func (o *outsider) renew(holds []*hold, lease time.Duration) {
	keys, args := []string{}, []string{milliseconds(lease)}
	for _, h := range holds {
		keys, args = append(keys, h.of.Lock), append(args, o.owner(h.of.Client))
	}
	sent := time.Now()
	answer, err := o.eval(renewScript, keys, args...)
	renewed, ok := answer.([]any)
	if err != nil || !ok {
		return // the next time comes
	}
	for i, h := range holds {
		if renewed[i] == 1 {
			h.until = later(h.until, sent.Add(lease))
		} else {
			o.unwatch(h)
		}
	}
}

func (o *outsider) unwatch(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watched = slices.DeleteFunc(o.watched, func(other *hold) bool { return other == h })
}

// owner is what the server knows a thread by.
func (o *outsider) owner(client int) string { return o.id + ":" + strconv.Itoa(client) }

// answersWithin is how long an answer of the server may take, as Redisson has it.
const answersWithin = 3 * time.Second

// connected is a connection to the server, for one exchange at a time.
type connected struct {
	net.Conn
	in *bufio.Reader
}

func (o *outsider) connect() (*connected, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last := len(o.idle) - 1; last >= 0 {
		c := o.idle[last]
		o.idle = o.idle[:last]
		return c, nil
	}
	conn, err := net.Dial("tcp", o.link.addr())
	if err != nil {
		return nil, err
	}
	return &connected{conn, bufio.NewReader(conn)}, nil
}

// exchange sends a command, and returns its answer: an int, a string, a []any, or nil.
func (c *connected) exchange(words ...string) (answer any, err error) {
	if err := c.SetDeadline(time.Now().Add(answersWithin)); err != nil {
		return nil, err
	}
	var command bytes.Buffer
	if err := proto.Write(&command, words); err != nil {
		return nil, err
	}
	if _, err := command.WriteTo(c); err != nil {
		return nil, err
	}
	text, err := proto.Read(c.in)
	if err != nil || text == "$-1\r\n" {
		return nil, err
	}
	if answer, err = proto.Parse(text); err != nil {
		return nil, err
	}
	if refused, ok := answer.(error); ok {
		panic(refused) // the scripts have no errors
	}
	return answer, nil
}

var errDead = errors.New("the program is dead")

// call has an exchange with the server. After an error nobody knows whether the command has had its effect.
func (o *outsider) call(words ...string) (answer any, err error) {
	if o.isDead() {
		return nil, errDead
	}
	c, err := o.connect()
	if err != nil {
		return nil, err
	}
	if answer, err = c.exchange(words...); err != nil {
		_ = c.Close()
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.idle = append(o.idle, c)
	return answer, nil
}

func (o *outsider) eval(script string, keys []string, args ...string) (answer any, err error) {
	return o.call(slices.Concat([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys, args)...)
}

// subscribe has messages of a channel heard until end is called. A message that comes while another one is unread, or
// after the connection is lost, is lost.
func (o *outsider) subscribe(channel string) (messages <-chan struct{}, end func(), err error) {
	conn, err := net.Dial("tcp", o.link.addr())
	if err != nil {
		return nil, nil, err
	}
	c := &connected{conn, bufio.NewReader(conn)}
	if _, err = c.exchange("SUBSCRIBE", channel); err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	heard := make(chan struct{}, 1)
	go func() {
		for {
			if _, err := proto.Read(c.in); err != nil {
				return
			}
			select {
			case heard <- struct{}{}:
			default:
			}
		}
	}()
	return heard, func() { _ = c.Close() }, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
