package config

import (
	"io/fs"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/access"
)

// Settings are what the daemon is told. What each means stands in the table of settings, and in docs/configuration.md.
type Settings struct {
	Host     string
	StateDir string
	Socket   Socket
	Operator Operator
	Redis    Redis
	NATS     NATS
	Events   Events
	Lease    Lease
	Claims   Claims
	Limits   Limits
	Rules    []access.Rule
	Web      Web
	Metrics  Metrics
	Drain    Drain
	Log      Log
}

// Socket is where clients connect.
type Socket struct {
	Path  string
	Mode  fs.FileMode
	Group string // empty: that of the daemon
}

// Operator is for those who look after the daemon.
type Operator struct {
	Socket string
}

// Redis is the store. Without a URL the store is in memory.
type Redis struct {
	URL                  string
	PasswordFile         string
	SentinelPasswordFile string
	CA, Cert, Key        string
	ServerName           string
	MinReplicas          int
	Grace                bool
	GraceFirst           time.Duration // 0 for none
}

// NATS is the hub for events. Without a URL they stay on the host.
type NATS struct {
	URL           string
	Creds, Nkey   string
	User          string
	PasswordFile  string
	TokenFile     string
	CA, Cert, Key string
	ServerName    string
	TLSFirst      bool
	Domain        string
	InboxPrefix   string
	Stream        string
	Prefix        string
}

// Events bounds the event log of the host. 0 is no bound.
type Events struct {
	MaxSize Size
	MaxAge  time.Duration
}

// Lease is that of every lock that the daemon keeps.
type Lease struct {
	Duration time.Duration
	Margin   time.Duration // 0: a tenth of the lease, and at most 2 s
	Rest     bool          // locks may rest
}

// Claims is about all claims.
type Claims struct {
	Grace    time.Duration
	Commands bool // the commands of clients are kept
}

// MinRequestSize is the least that [Limits] may allow. The largest request for a claim needs less: it has a name, a
// session, a secret, a command and 16 labels. A client puts several smaller commands in a message of half that size.
const MinRequestSize = 16 << 10

// Limits are those of each user, and of each request.
type Limits struct {
	access.Limits
	RequestSize Size
}

// Web is the live page.
type Web struct {
	Listen     string // empty: there is none
	AllowBreak bool
}

// Metrics are for Prometheus.
type Metrics struct {
	Listen string // empty: there are none
}

// Drain is the end of the daemon.
type Drain struct {
	Timeout time.Duration
	Then    string // KeepClaims or ReleaseClaims
}

// What becomes of the claims that are left when the time for a drain has passed.
const (
	KeepClaims    = "keep"    // the next daemon goes on with them
	ReleaseClaims = "release" // they end
)

// Log is how the daemon logs.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // TextLog or JSONLog
}

// The forms of the log.
const (
	TextLog = "text"
	JSONLog = "json"
)
