//go:build linux

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/api"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/journal"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/socket"
)

// Config is what a daemon is made of. It does not close the store.
type Config struct {
	// Listener is that of the socket. The daemon closes it.
	Listener net.Listener
	// ID is the identity of the agent, or empty for a new one.
	ID lockagent.AgentID
	// Store needs the layers Messages and History of package lockagent.
	Store    lockagent.Store
	Recorder lockagent.Recorder // may be nil
	Logger   *slog.Logger
	// Journal and Recovered are what [journal.Open] has returned. ID is then that of the agent in the journal, if it
	// has one. Without a journal all claims end with the daemon. The daemon does not close the journal.
	Journal   *journal.Journal
	Recovered journal.Recovered
	// Grace is for how long a claim waits for its client after a restart. 0 is the lease.
	Grace time.Duration
	// Lease and Margin are those of the locks. 0 is the default of the agent.
	Lease, Margin time.Duration
	// NoRest has no lock rest in the daemon between two holds.
	NoRest bool
	// Access says what clients may do, and counts what they have. By default the user of the daemon and root may do
	// everything, and others nothing, and all limits are 0.
	Access *access.Access
	// NoCommands has the daemon forget the commands of its clients.
	NoCommands bool
	// ReadTime is for how long a client may take to send a request. 0 is 10 s.
	ReadTime time.Duration
	// MaxRequest is how many bytes a request may have. 0 is 64 KiB.
	MaxRequest int
	// Trace returns a context that has the trace of a request, and nothing else. Defaults to none.
	Trace func(http.Header) context.Context
	// Numbers counts the semaphores and latches of a store of [Remember], which is one. With another store it is nil.
	Numbers api.Numbers
	// Log is the event log, or nil if there is none. The daemon does not close it.
	Log api.Log
}

// Daemon serves clients. Make one with [Start].
type Daemon struct {
	agent   *actor.Agent
	book    *claims.Book
	journal *journal.Journal // may be nil
	server  *http.Server
	logger  *slog.Logger
	cut     context.CancelFunc // ends all streams
	health  health
	lease   time.Duration
	read    time.Duration // for a request
	api     api.Config
	rules   rules
	page    *page // or nil

	address string

	served chan struct{} // closed when the server serves no more
	failed error         // why, unless it was shut down
}

// Bounds of connections.
const (
	defaultRead    = 10 * time.Second // for a request
	defaultRequest = 64 << 10
	idleTime       = 2 * time.Minute // without a request
	maxHeader      = 16 << 10
	// maxStreams is how many streams one connection of HTTP/2 has at once. Clients with more have links, or further
	// connections.
	maxStreams  = 1 << 10
	partingTime = time.Second // for the last words to clients
)

// Start starts a daemon.
func Start(cfg Config) (*Daemon, error) {
	history, ok := lockagent.Layer[lockagent.History](cfg.Store)
	if !ok {
		return nil, &lockagent.OptionError{
			Option: "store", Reason: "a daemon asks the store for the time, so use one that has lockagent.History",
		}
	}
	users := newUserNames()
	who := whoOf(users.name)
	if cfg.Trace == nil {
		cfg.Trace = func(http.Header) context.Context { return context.Background() }
	}
	cfg.ReadTime, cfg.MaxRequest = cmp.Or(cfg.ReadTime, defaultRead), cmp.Or(cfg.MaxRequest, defaultRequest)
	if cfg.Access == nil {
		cfg.Access, _ = access.New(access.Config{ // without rules there is nothing wrong
			Self: uint32(os.Geteuid()), Directory: Directory{}, Now: time.Now,
			Refused: func(uid uint32, err error, unsaid uint64) {
				cfg.Logger.Warn("lockagent: refused", "user", uid, "why", err, "unsaid", unsaid)
			},
		})
	}
	book, agent, err := begin(&cfg, who)
	if err != nil {
		return nil, err
	}
	life, cut := context.WithCancel(context.Background())
	d := &Daemon{
		agent: agent, book: book, journal: cfg.Journal, logger: cfg.Logger, cut: cut, served: make(chan struct{}),
		health: health{history: history}, address: cfg.Listener.Addr().String(), lease: cfg.Lease, read: cfg.ReadTime,
	}
	d.rules = rules{cfg.Access}
	d.api = api.Config{
		Agent: agent, Book: d.book, Access: d.rules, Client: client, UserName: users.name, Who: who,
		NoCommands: cfg.NoCommands, Log: cfg.Log, Numbers: cfg.Numbers, Ready: d.Ready, Life: life, Logger: cfg.Logger,
		MaxRequest: cfg.MaxRequest, Trace: cfg.Trace,
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	d.server = &http.Server{
		Handler:        api.New(d.api),
		ConnContext:    socket.ConnContext,
		ReadTimeout:    cfg.ReadTime, // it is over with the last byte of a request, and a stream goes on
		IdleTimeout:    idleTime,
		MaxHeaderBytes: maxHeader,
		Protocols:      &protocols,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:       slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	listener := bound(cfg.Listener, socket.User, cfg.Access, quota.Connections)
	go func() {
		defer close(d.served)
		if err := d.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.failed = err
		}
	}()
	return d, nil
}

// begin begins the agent and its claims. They go on from the journal, if there is one.
func begin(cfg *Config, who func(*claims.Request) lockagent.Who) (*claims.Book, *actor.Agent, error) {
	agents := actor.Config{
		Store: cfg.Store, Recorder: cfg.Recorder, Logger: cfg.Logger, Lease: cfg.Lease, Margin: cfg.Margin,
		NoRest: cfg.NoRest,
	}
	books := claims.Config{
		Grace: cmp.Or(cfg.Grace, cfg.Lease, actor.DefaultLease), Started: started, Quotas: cfg.Access.Quotas(), Who: who,
	}
	if cfg.Journal != nil {
		agents.Journal, books.Journal = cfg.Journal, cfg.Journal
		cfg.Journal.Tell(func(err error) {
			if err != nil {
				cfg.Logger.Error(
					"lockagent: the journal cannot be written, so no new claims are taken until it can; what is held goes on",
					"error", err,
				)
			} else {
				cfg.Logger.Info("lockagent: the journal is written again, and new claims are taken")
			}
		})
	}
	before := cfg.Recovered
	if before.Dropped > 0 {
		cfg.Logger.Warn(
			"lockagent: the end of the journal does not count; it was cut off or, in another boot of the machine, damaged",
			"bytes", before.Dropped,
		)
	}
	records := make(map[string][]byte)
	for id, data := range before.Records {
		switch {
		case strings.Contains(id, "/"): // of no claim
		case before.SameBoot:
			records[id] = data
		default:
			cfg.Journal.Drop(id) // its client has ended with the machine
		}
	}
	books.Records = records
	book, err := claims.New(books)
	if err != nil {
		return nil, nil, err
	}
	var agent *actor.Agent
	if before.Agent == nil {
		agents.ID = cfg.ID
		agent, err = actor.New(agents)
	} else {
		agents.Resumed = book.Resumed
		agent, err = actor.Resume(agents, *before.Agent)
	}
	if err != nil {
		return nil, nil, err
	}
	goOn, over := book.Begin(agent)
	if before.Agent != nil {
		cfg.Logger.Info(
			"lockagent: the daemon goes on with the claims of the one before",
			"claims", goOn, "ended", over, "same_boot", before.SameBoot,
		)
	}
	return book, agent, nil
}

// whoOf tells which process is behind a request. What the kernel says of the client counts, and the client says its
// program and its command. A claim for a process is of that one: the client may end at once.
func whoOf(userName func(uint32) string) func(*claims.Request) lockagent.Who {
	host, _ := os.Hostname()
	return func(r *claims.Request) lockagent.Who {
		p := lockagent.Process{
			Host: host, Program: r.Client.Program, PID: r.Client.PID, User: userName(r.Client.UID), Command: r.Command,
		}
		if p.User == "" {
			p.User = strconv.FormatUint(uint64(r.Client.UID), 10)
		}
		if r.ForPID != 0 {
			if program, _, err := socket.Process(r.ForPID); err == nil {
				p.Program, p.PID = program, r.ForPID
			}
		}
		return p.Who()
	}
}

// started tells when a process started, or 0 if there is none.
func started(pid int) uint64 {
	_, at, _ := socket.Process(pid)
	return at
}

// Served is closed when no client can connect any more.
func (d *Daemon) Served() <-chan struct{} { return d.served }

// IdentityKnown is closed when the store has told for the first time whether another daemon that is alive has the
// identity of this one.
func (d *Daemon) IdentityKnown() <-chan struct{} { return d.agent.IdentityKnown() }

// IdentityTaken is closed when the store has told that another daemon that is alive has the identity of this one, and
// came first. Then all claims of this daemon are over, and it can only be shut down.
func (d *Daemon) IdentityTaken() <-chan struct{} { return d.agent.IdentityTaken() }

// Address is the path of the socket.
func (d *Daemon) Address() string { return d.address }

// Counts is how many claims there are.
func (d *Daemon) Counts() claims.Counts { return d.book.Counts() }

// Shutdown drains the daemon, and then closes it. It takes no new claims, tells the clients, and waits until all claims
// have ended, or ctx ends. Then it releases those that are left, and tells their clients. The error is why the server
// had ended before, or why not all locks could be released.
func (d *Daemon) Shutdown(ctx context.Context) error {
	d.drain(ctx)
	return d.close()
}

// close ends the daemon with everything that it holds.
func (d *Daemon) close() error {
	err := d.agent.Close() // and each claim that is left learns of it
	d.cut()
	parting, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if d.page != nil {
		err = errors.Join(err, d.page.close(parting))
	}
	if d.server.Shutdown(parting) != nil {
		_ = d.server.Close() // a client that does not read may keep it no longer
	}
	<-d.served
	return errors.Join(d.failed, err)
}

// Leave drains the daemon as Shutdown does, and then leaves what is left to the next one. Clients learn only that their
// connections have ended. Without a journal it is Shutdown.
func (d *Daemon) Leave(ctx context.Context) error {
	if d.journal == nil {
		return d.Shutdown(ctx)
	}
	if d.drain(ctx) == 0 {
		return d.close() // whoever released last is still to be told of it
	}
	d.book.Leave()
	d.agent.Detach()
	_ = d.server.Close() // the clients may be anywhere in their streams, and shall connect to the next daemon
	<-d.served
	d.cut()
	var err error
	if d.page != nil {
		parting, cancel := context.WithTimeout(context.Background(), partingTime)
		defer cancel()
		err = d.page.close(parting)
	}
	return errors.Join(d.failed, err, d.agent.Close(), d.journal.Flush())
}

// drain waits for claims to end. It returns how many are left.
func (d *Daemon) drain(ctx context.Context) int {
	left := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	d.book.End(left)
	return d.book.Await(ctx)
}

// Ready returns why no lock can be granted at the moment, or nil.
func (d *Daemon) Ready(ctx context.Context) error {
	switch {
	case d.book.Drains():
		return refusal.ErrDraining
	case d.journal != nil && d.journal.Err() != nil:
		return fmt.Errorf("%w (%w)", refusal.ErrJournal, d.journal.Err())
	}
	return d.health.check(ctx)
}

// client is the client of a request.
func client(ctx context.Context) (claims.Client, bool) {
	p, ok := socket.FromContext(ctx)
	return claims.Client{PID: p.PID, UID: p.UID, GID: p.GID, Program: p.Program, Started: p.Started}, ok
}

// health is that of the store, as it was lately: many may ask for it.
type health struct {
	history lockagent.History

	mu    sync.Mutex // guards what follows
	at    time.Time
	last  error
	asked chan struct{} // closed when the store has answered; nil unless it is asked
}

const (
	healthFresh = time.Second     // for how long an answer counts
	healthTime  = 2 * time.Second // for which a store may be silent
)

// check asks the store for all who want to know. Whoever does not wait for the answer learns that there is none yet,
// and it alone.
func (h *health) check(ctx context.Context) error {
	h.mu.Lock()
	if !h.at.IsZero() && time.Since(h.at) < healthFresh {
		defer h.mu.Unlock()
		return h.last
	}
	asked := h.asked
	first := asked == nil
	if first {
		asked = make(chan struct{})
		h.asked = asked
	}
	h.mu.Unlock()
	if first {
		h.ask(context.WithoutCancel(ctx), asked)
	}
	select {
	case <-asked:
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.last
	case <-ctx.Done():
		return fmt.Errorf("%w: it has not answered yet (%w)", lockagent.ErrStoreUnavailable, lockagent.CauseOf(ctx))
	}
}

// ask asks the store, and closes asked when it has answered, or was silent for too long.
func (h *health) ask(ctx context.Context, asked chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	var once sync.Once
	answer := func(err error) {
		once.Do(func() {
			h.mu.Lock()
			h.at, h.last, h.asked = time.Now(), err, nil
			h.mu.Unlock()
			close(asked)
		})
	}
	silent := context.AfterFunc(ctx, func() { answer(lockagent.ErrStoreUnavailable) })
	h.history.Time(ctx, func(_ lockagent.StoreTime, err error) {
		silent()
		if err != nil && ctx.Err() != nil { // it was silent, however it says that
			err = lockagent.ErrStoreUnavailable
		}
		answer(err)
		cancel()
	})
}
