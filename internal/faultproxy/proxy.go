// Package faultproxy stands between a client and a server in tests and breaks
// what passes: it delays, swallows, truncates and cuts TCP connections while
// they run.
//
// # Usage
//
//	p := faultproxy.Start(t, server.Addr())
//	client := dial(p.Addr())
//	lost := p.LoseReply("EVALSHA")
//	... // the client sends the command
//	<-lost // the server has run it, and the client will never hear of that
//
// What a client sends is called a request here, and what a server sends a reply.
// Faults apply to connections that are open as well as to those to come, until
// they are taken back. The proxy ends with the test that started it.
//
// # Concurrency
//
// All methods may be called at any time by any goroutine.
package faultproxy

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy forwards TCP connections to one target. Make one with [Start].
type Proxy struct {
	listener net.Listener
	requests lane
	replies  lane
	running  sync.WaitGroup

	mu     sync.Mutex // protects what follows
	target string
	links  map[*link]struct{}
	closed bool
	refuse bool
	loss   *loss
}

// Start listens on a free port of 127.0.0.1 and forwards connections to target, a "host:port". It
// dials target for each connection, so target may stop and come back. The end of the test cuts
// all connections and waits for the proxy's goroutines.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("faultproxy: listen: %v", err)
	}
	p := &Proxy{
		target:   target,
		listener: listener,
		requests: newLane(),
		replies:  newLane(),
		links:    make(map[*link]struct{}),
	}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where clients connect to, as "host:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Delay holds up whatever arrives, in each direction, for at least d: a round
// trip takes at least 2d longer. What is being held when the delay is changed
// goes by the new one, so Delay(0) lets it go at once.
func (p *Proxy) Delay(d time.Duration) {
	p.DelayRequests(d)
	p.DelayReplies(d)
}

// DelayRequests is [Proxy.Delay] for what clients send.
func (p *Proxy) DelayRequests(d time.Duration) { p.requests.setDelay(d) }

// DelayReplies is [Proxy.Delay] for what the server sends.
func (p *Proxy) DelayReplies(d time.Duration) { p.replies.setDelay(d) }

// DropRequests makes a black hole of the way to the server, or mends it: what
// clients send is accepted and swallowed, the end of a connection included.
// What was swallowed is gone for good, so mend a connection that was used in the
// meantime by [Proxy.Cut].
func (p *Proxy) DropRequests(on bool) { p.requests.setDrop(on) }

// DropReplies is [Proxy.DropRequests] for what the server sends: the server
// obeys, but its replies reach nobody.
func (p *Proxy) DropReplies(on bool) { p.replies.setDrop(on) }

// CutAfterRequests lets the next n bytes of all clients pass. Then it cuts the
// connection that sent the last of these bytes. If n is 0, it cuts the
// connection that sends the next byte. It cuts once.
func (p *Proxy) CutAfterRequests(n int) { p.requests.setBudget(n) }

// CutAfterReplies is [Proxy.CutAfterRequests] for what the server sends: the
// client gets part of a reply.
func (p *Proxy) CutAfterReplies(n int) { p.replies.setBudget(n) }

// LoseReply loses the reply to a request that contains the text to. The proxy forwards that request,
// and from then on forwards nothing to the client. When the server has processed everything and
// closed its side, the proxy cuts the client's connection and closes the channel, which never
// delivers a value.
//
// That happens once, to one connection. A later call replaces the ones before. An empty text
// stands for any request. The text has to arrive in one piece, as a small request does on the
// loopback interface.
func (p *Proxy) LoseReply(to string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss = &loss{to: []byte(to), done: make(chan struct{})}
	return p.loss.done
}

// LeadTo has new connections forwarded to another target, as a name or an address does
// that was given to another server. It leaves open connections alone.
func (p *Proxy) LeadTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *Proxy) leadsTo() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Cut closes all connections, abruptly. What was under way in either direction
// may arrive or not. New connections are accepted as before.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Refuse has new connections reset as soon as they are made, or accepted again.
// It leaves open connections alone; [Proxy.Cut] ends those.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	l := newLink(client)
	if !p.add(l) {
		reset(client)
		return
	}
	defer p.remove(l)
	if !l.dial(p.leadsTo()) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.forwardRequests(l) })
	both.Go(func() { p.forwardReplies(l) })
	both.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuse {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	l.cut()
}

// takeLoss returns the loss that awaits a request like this one, if any.
func (p *Proxy) takeLoss(request []byte) *loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss == nil || len(request) == 0 || !bytes.Contains(request, p.loss.to) {
		return nil
	}
	found := p.loss
	p.loss = nil
	return found
}

// reset closes c so that its peer sees an error rather than an orderly end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
