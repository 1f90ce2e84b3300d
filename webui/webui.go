package webui

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/claims"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// Looker tells of locks. It is a part of the API of the daemon.
type Looker interface {
	List(context.Context, *lockagentv1.ListRequest) (*lockagentv1.ListResponse, error)
	Get(context.Context, *lockagentv1.GetRequest) (*lockagentv1.GetResponse, error)
}

// Breaker breaks locks. It is a part of the API of the daemon.
type Breaker interface {
	Break(context.Context, *lockagentv1.BreakRequest) (*lockagentv1.BreakResponse, error)
}

// Watcher tells which locks change.
type Watcher interface {
	Watch(match func(lockagent.Name) bool) *claims.Watch
}

// Past is what an event log has. [natslog.Reader] is one.
type Past interface {
	State(context.Context) (natslog.StreamState, error)
	Replay(context.Context, natslog.From, events.Filter, events.Visit) error
}

// Log is an event log with what is to come. [natslog.Reader] is one.
type Log interface {
	Past
	Tail(context.Context, natslog.From, events.Filter, events.Visit) error
}

// Access says who asks and what that user may do. It finds the user in the context of a request.
type Access interface {
	// Enter returns the name of the user, or why the user may not see the page at all.
	Enter(context.Context) (user string, err error)
	// Sees reports whether the user may look at a name, or watch its changes.
	Sees(ctx context.Context, name lockagent.Name, changes bool) bool
	// Stream counts a stream of the user until leave is called. It reports false if that is one too many.
	Stream(context.Context) (leave func(), ok bool)
	// Operates reports whether the user may break the lock of a name, or know of all locks if that is empty.
	Operates(ctx context.Context, name lockagent.Name) bool
}

// Part is something that the daemon needs, such as its store.
type Part struct {
	Name  string // what it is, such as "Store"
	Where string // which one it is
	State PartState
	Say   string // what is wrong, or what else there is to say
}

// PartState is how a [Part] is.
type PartState string

// The states of a part.
const (
	PartGood PartState = "good"
	PartBad  PartState = "bad"
	PartOff  PartState = "off" // the daemon does without it
)

// Config is what a page needs. All fields are required but Hub, Host and Names.
type Config struct {
	Look   Looker
	Break  Breaker
	Watch  Watcher
	Access Access
	Log    Log
	// Hub is the event log of all hosts, or nil if there is no hub.
	Hub Past
	// Parts are those that the overview shows. The call may take a moment.
	Parts func(context.Context) []Part
	// AllowBreak says whether a lock can be broken on the page by those who may.
	AllowBreak func() bool

	// Host is the name of this host.
	Host string
	// Names are by which a browser may ask for the page, beside Host, localhost and addresses.
	Names []string
	// Lease is that of the locks which the daemon renews: the full length of the bars.
	Lease time.Duration
	// Logger gets defects.
	Logger *slog.Logger
}

// Bounds of streams.
const (
	beat      = 2 * time.Second        // how often a stream sends something
	pause     = 150 * time.Millisecond // at least, between two contents
	share     = 20                     // rendering takes at most one part in so many of the time of a stream
	burst     = 4 * time.Second        // for which it may take more, so that a change is seen at once
	writeTime = 10 * time.Second       // for which a reader may not read
)

// page is the handler.
type page struct {
	Config
	losses cache[lossesOf]
	past   cache[historyOf]
	trends cache[trend]
	waits  map[int64]int // of the minutes that are over; for one reader of trends at a time
	hosts  cache[fleetOf]
	fleet  fleet // for one reader of hosts at a time
}

// New returns the handler of the page.
func New(cfg Config) http.Handler {
	p := &page{Config: cfg, waits: make(map[int64]int)}
	mux := http.NewServeMux()
	for path, s := range map[string]screen{
		"/{$}":    {"overview", p.overview},
		"/locks":  {"locks", p.locks},
		"/lock":   {"lock", p.lock},
		"/events": {"events", p.events},
		"/fleet":  {"fleet", p.fleetLocks},
	} {
		mux.Handle("GET "+path, p.show(s))
		if s.name != "events" { // whose stream has events in place of contents
			mux.Handle("GET /live"+path, p.follow(s))
		}
	}
	mux.HandleFunc("GET /live/events", p.followEvents)
	mux.HandleFunc("GET /lock.json", p.lockJSON)
	mux.HandleFunc("GET /event.json", p.eventJSON)
	mux.HandleFunc("POST /lock/break", p.breaks)
	mux.Handle("GET /static/", static())
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, &Problem{http.StatusNotFound, "There is no such page", "The address leads nowhere."})
	})
	return p.guard(mux)
}
