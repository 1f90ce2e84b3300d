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
	"os/user"
	"strconv"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/api"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/daemon/tcppeer"
	"github.com/lockagent/lockagent/webui"
)

// PageConfig is what the live page of a daemon is made of. All fields are required but Hub, Host and Names.
type PageConfig struct {
	// Listener is that of TCP. The daemon closes it.
	Listener net.Listener
	// Log is the event log. The daemon does not close it.
	Log webui.Log
	// Hub is the event log of all hosts, or nil. The daemon does not close it.
	Hub webui.Past
	// StoreName says which store the daemon has, without secrets.
	StoreName string
	// Parts are what the daemon needs beside the store.
	Parts func() []webui.Part
	// AllowBreak says whether locks can be broken on the page, by those who may.
	AllowBreak func() bool
	// Host is the name of this host, and Names are others by which a browser may ask for the page.
	Host  string
	Names []string
}

// page serves the live page.
type page struct {
	server *http.Server
	cut    context.CancelFunc
	served chan struct{} // closed when the server serves no more
	failed error         // why, unless it was closed
}

// ServePage serves the live page until the daemon is shut down. Call it once at most.
//
// The kernel tells the users of connections within this host. They have the rights that they have on the socket.
// Whoever connects from elsewhere is told to come through this host.
func (d *Daemon) ServePage(cfg PageConfig) {
	ctx, cut := context.WithCancel(context.Background())
	p := &page{cut: cut, served: make(chan struct{})}
	handler := webui.New(webui.Config{
		Look: api.Look(d.api), Break: api.Operate(d.api), Watch: d.book,
		Access: pageAccess{d.rules, d.api.UserName},
		Log:    cfg.Log, Hub: cfg.Hub, AllowBreak: cfg.AllowBreak, Host: cfg.Host, Names: cfg.Names, Logger: d.logger,
		Lease: cmp.Or(d.lease, actor.DefaultLease),
		Parts: func(ctx context.Context) []webui.Part {
			return append(d.parts(ctx, cfg.StoreName), cfg.Parts()...)
		},
	})
	p.server = &http.Server{
		Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r.WithContext(asUser(r.Context()))) },
		),
		ConnContext:    connUser,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ReadTimeout:    d.read,
		WriteTimeout:   pageWrite, // a stream sets its own
		IdleTimeout:    idleTime,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(d.logger.Handler(), slog.LevelDebug),
	}
	d.page = p
	listener := bound(cfg.Listener, tcppeer.User, d.rules.Access, quota.PageConnections)
	go func() {
		defer close(p.served)
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.failed = fmt.Errorf("daemon: the live page: %w", err)
			d.logger.Error("lockagent: the live page has ended", "error", err)
		}
	}()
}

// pageWrite is how long an answer of the page may take.
const pageWrite = 30 * time.Second

// close ends the page.
func (p *page) close(ctx context.Context) error {
	p.cut()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close() // a browser that does not read may keep it no longer
	}
	<-p.served
	return p.failed
}

// parts says how the parts of the daemon are.
func (d *Daemon) parts(ctx context.Context, storeName string) []webui.Part {
	store := webui.Part{Name: "Store", Where: storeName, State: webui.PartGood, Say: "answers"}
	if err := d.health.check(ctx); err != nil {
		store.State, store.Say = webui.PartBad, err.Error()
	}
	parts := []webui.Part{store}
	if d.book.Drains() {
		parts = append(parts, webui.Part{
			Name: "Daemon", Where: d.address, State: webui.PartBad, Say: "ends soon, and takes no new claims",
		})
	}
	if d.journal != nil && d.journal.Err() != nil {
		parts = append(parts, webui.Part{
			Name: "Journal", Where: "claims are refused", State: webui.PartBad, Say: d.journal.Err().Error(),
		})
	}
	return parts
}

// connUser adds to a context what finds out the groups of the user of a connection, at the first request: the system
// may have to ask another host.
func connUser(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connUserKey{}, sync.OnceValues(func() (socket.Peer, error) {
		uid, err := socket.UserOf(conn)
		if err != nil {
			return socket.Peer{}, err
		}
		return peerOfUser(uid), nil
	}))
}

type connUserKey struct{}

// asUser adds the user to the context of a request, if that is known.
func asUser(ctx context.Context) context.Context {
	if find, ok := ctx.Value(connUserKey{}).(func() (socket.Peer, error)); ok {
		if p, err := find(); err == nil {
			return socket.NewContext(ctx, p)
		}
	}
	return ctx
}

// peerOfUser is a user with the groups of the system's list of users: the kernel does not tell those of a process that
// connects by TCP. A user whom the system does not know has none.
func peerOfUser(uid uint32) socket.Peer {
	p := socket.Peer{UID: uid}
	known, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return p
	}
	if p.GID, err = number(known.Gid); err == nil {
		p.Groups = append(p.Groups, p.GID)
	}
	ids, _ := known.GroupIds() // without them the user has fewer rights
	for _, id := range ids {
		if gid, err := number(id); err == nil {
			p.Groups = append(p.Groups, gid)
		}
	}
	return p
}

// pageAccess asks the rules about who looks at the page.
type pageAccess struct {
	rules
	userName func(uint32) string
}

var _ webui.Access = pageAccess{}

// Enter implements [webui.Access].
func (a pageAccess) Enter(ctx context.Context) (string, error) {
	p, ok := socket.FromContext(ctx)
	if !ok {
		return "", &webui.Problem{
			Status: http.StatusForbidden, Title: "The daemon does not know who you are",
			Text: "The page is for users of its host, whom the kernel tells by their connections. From another machine, come " +
				"through that host: ssh -L 7070:127.0.0.1:7070 HOST, with the port of the page, and open http://localhost:7070.",
		}
	}
	name := a.userName(p.UID)
	if name == "" {
		name = "user " + strconv.FormatUint(uint64(p.UID), 10)
	}
	if err := a.Access.Enter(access.Peer{UID: p.UID, Groups: p.Groups}, access.Look); err != nil {
		return name, &webui.Problem{Status: http.StatusForbidden, Title: "You have no right to look", Text: err.Error()}
	}
	return name, nil
}

// Stream implements [webui.Access].
func (a pageAccess) Stream(ctx context.Context) (leave func(), ok bool) {
	leave, err := a.Hold(ctx, quota.Pages)
	return leave, err == nil
}

// Operates implements [webui.Access].
func (a pageAccess) Operates(ctx context.Context, name lockagent.Name) bool {
	p, ok := socket.FromContext(ctx)
	return ok && a.Access.Sees(access.Peer{UID: p.UID, Groups: p.Groups}, access.Operate, string(name))
}
