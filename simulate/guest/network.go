package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// way is the direction of a message.
type way int

const (
	up   way = iota // from the agent to the server
	down            // from the server to the agent
)

// link is the network between one agent and the server. The agent connects to its address.
type link struct {
	world  *world
	name   string
	listen net.Listener

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	conns  map[*connection]bool
	stays  *redis       // to connect to, in place of the server of the world; or nil
	apart  time.Time    // until then nobody connects
	slow   time.Time    // until then messages take long
	stands [2]time.Time // until then nothing arrives
}

// connection is one of the agent, with the one to the server that belongs to it.
type connection struct {
	ends [2]net.Conn // that of the agent, and that of the server
}

func (c *connection) close() {
	for _, end := range c.ends {
		_ = end.Close()
	}
}

func newLink(w *world, name string, number uint64) *link {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	l := &link{
		world: w, name: name, listen: listen, conns: make(map[*connection]bool),
		random: rand.New(rand.NewPCG(w.plan.Seed, number)),
	}
	go l.accept()
	return l
}

func (l *link) addr() string { return l.listen.Addr().String() }

func (l *link) accept() {
	for {
		agent, err := l.listen.Accept()
		if err != nil {
			return
		}
		l.connect(agent)
	}
}

// connect connects the agent to the server, unless nobody can be reached.
func (l *link) connect(agent net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server := cmp.Or(l.stays, l.world.server())
	if server == nil || time.Now().Before(l.apart) {
		_ = agent.Close()
		return
	}
	to, err := server.dial()
	if err != nil {
		_ = agent.Close()
		return
	}
	c := &connection{ends: [2]net.Conn{agent, to}}
	l.conns[c] = true
	go l.carry(c, up)
	go l.carry(c, down)
}

// cut breaks all connections. What is under way is lost.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.close()
	}
	clear(l.conns)
}

// stay connects the agent to this server from now on, or to that of the world if it is nil.
func (l *link) stay(with *redis) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stays = with
}

// end breaks all connections for ever.
func (l *link) end() {
	_ = l.listen.Close()
	l.cut()
}

// separate breaks all connections, and lets nobody connect until then.
func (l *link) separate(until time.Time) {
	l.mu.Lock()
	l.apart = later(l.apart, until)
	l.mu.Unlock()
	l.cut()
}

// stall keeps what is sent in a direction until then.
func (l *link) stall(until time.Time, ways ...way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ways {
		l.stands[w] = later(l.stands[w], until)
	}
}

func (l *link) slowDown(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = later(l.slow, until)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// packet is what was read at once.
type packet struct {
	data []byte
	due  time.Time
}

// carry carries what one end sends to the other. It reads all the time, so the server never waits for an agent.
func (l *link) carry(c *connection, w way) {
	from, to := c.ends[w], c.ends[1-w]
	var (
		mu    sync.Mutex
		queue []packet
		ended bool
		more  = make(chan struct{}, 1)
	)
	go func() {
		for {
			data := make([]byte, 4096)
			n, err := from.Read(data)
			mu.Lock()
			if n > 0 {
				queue = append(queue, packet{data[:n], time.Now().Add(l.latency())})
			}
			ended = err != nil
			mu.Unlock()
			select {
			case more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		mu.Lock()
		var next packet
		over := ended && len(queue) == 0
		if len(queue) > 0 {
			next, queue = queue[0], queue[1:]
		}
		mu.Unlock()
		if over {
			break
		}
		if next.data == nil {
			<-more
			continue
		}
		l.await(next.due, w)
		l.world.trace(l.name, w, next.data)
		if _, err := to.Write(next.data); err != nil {
			break
		}
	}
	c.close()
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
}

// latency is how long the next message takes.
func (l *link) latency() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	least, most := l.world.plan.Latency[0], l.world.plan.Latency[1]
	if time.Now().Before(l.slow) {
		most = time.Second / 2
	}
	return plan.Within(l.random, least, most)
}

// await waits until a message may arrive.
func (l *link) await(due time.Time, w way) {
	for {
		l.mu.Lock()
		at := later(due, l.stands[w])
		l.mu.Unlock()
		if w == up {
			at = later(at, l.world.frozen())
		}
		left := time.Until(at)
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

// trace tells of a message.
func (w *world) trace(agent string, direction way, data []byte) {
	if !w.traces {
		return
	}
	arrow := "->"
	if direction == down {
		arrow = "<-"
	}
	text := strings.NewReplacer("\r\n", " ", "\n", " ").Replace(string(data))
	w.tell('T', fmt.Sprintf("%-12v %s %s %.300s", w.since(), agent, arrow, text))
}
