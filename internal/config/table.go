package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// Setting is one row of the table of settings.
type Setting struct {
	// Key is where the setting is in the file: section.name, or only a name.
	Key string
	// Flag is its flag, without dashes. It may have none, and then it has no variable either.
	Flag string
	// Help is a sentence or two. Usage is for the flag, with the word for its value in backquotes.
	Help, Usage string
	// Default is the default, or empty if there is none. DefaultText says what it is if that depends on the host.
	Default, DefaultText string
	// Example is a value that somebody might want.
	Example string
	// Live says that a reload is enough for a change. Otherwise the daemon has to start anew.
	Live bool

	kind  kind
	field func(*Settings) any // a pointer
}

// Variable is the variable of the environment, or empty.
func (s *Setting) Variable() string {
	if s.Flag == "" {
		return ""
	}
	return variableOf(s.Flag)
}

func variableOf(name string) string {
	return variablePrefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

// Type is what its values are, for people.
func (s *Setting) Type() string { return s.kind.name() }

// Range is what its values must be between or among, or empty.
func (s *Setting) Range() string {
	switch k := s.kind.(type) {
	case duration:
		return k.limits()
	case size:
		return k.limits()
	case number:
		return fmt.Sprintf("between %d and %d", k.min, k.max)
	case choice:
		return k.wants()
	}
	return ""
}

// Zero says what 0 means, if it is beyond the range.
func (s *Setting) Zero() string {
	switch k := s.kind.(type) {
	case duration:
		return k.orZero
	case size:
		return k.orZero
	}
	return ""
}

// Section is the name of its section, or empty if it is in none.
func (s *Setting) Section() string {
	section, _ := s.split()
	return section
}

// split returns the section and the name in it.
func (s *Setting) split() (section, name string) {
	section, name, ok := strings.Cut(s.Key, ".")
	if !ok {
		return "", s.Key
	}
	return section, name
}

// rulesKey is the only setting that is no scalar.
const rulesKey = "rules"

// Settings with the same form.
var (
	certificate = path{}
	subject     = word{
		"parts of letters, digits, '-' and '_' with dots between them",
		`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`,
	}
	plainName = word{"letters, digits, '-' and '_'", `^[A-Za-z0-9_-]+$`}
	hostName  = word{"the name of a host", `^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`}
	userName  = word{"a text without spaces", `^[^\s]+$`}
	groupName = word{"the name or the number of a group", `^([a-z_][a-z0-9_.-]*\$?|[0-9]+)$`}
	hostLabel = word{"up to 27 ASCII letters, digits, '-' and '_'", `^[A-Za-z0-9_-]{1,27}$`}
)

// most is the greatest number of claims, waiters or streams.
const most = 10_000_000

// Section is a section of the file, and what it is about.
type Section struct{ Name, Help string }

// sections has all of them, in the order of the file.
var sections = []Section{
	{"socket", "Where clients connect."},
	{"operator", "For those who look after the daemon."},
	{"redis", "The store of the locks. " +
		"Without a URL the locks are in memory, and so they are those of this host alone."},
	{"nats", "The hub for the events of all hosts. Without a URL the events stay on this host."},
	{"events", "The event log of this host, which is in the state directory."},
	{"lease", "How long a lock stays with a daemon that has died."},
	{"claims", "What clients hold through the daemon."},
	{"limits", "What there may be at once, most of it for each user."},
	{"web", "The live page."},
	{"metrics", "Metrics for Prometheus."},
	{"drain", "How the daemon ends."},
	{"log", "What the daemon writes to its standard error."},
}

// table has all settings. Those of a section stand together.
var table = []*Setting{
	{
		Key: "host", Flag: "host", kind: hostLabel, field: func(s *Settings) any { return &s.Host },
		Help:        "What other hosts call this one, when it holds a lock.",
		Usage:       "`name` that other hosts see when this one holds a lock",
		DefaultText: "the name of the host", Example: "web-1",
	},
	{
		Key: "state_dir", Flag: "state-dir", kind: path{}, field: func(s *Settings) any { return &s.StateDir },
		Help: "The directory of the daemon's identity, its journal and its event log. " +
			"Only one daemon can use it.",
		Usage: "`directory` for the identity, the journal and the event log",
		DefaultText: "$STATE_DIRECTORY; for root /var/lib/lockagent; otherwise $XDG_STATE_HOME/lockagent or " +
			"~/.local/state/lockagent",
		Example: "/var/lib/lockagent",
	},
	{
		Key: "socket.path", Flag: "socket", kind: path{socket: true},
		field: func(s *Settings) any { return &s.Socket.Path },
		Help:  "The Unix socket on which clients connect.",
		Usage: "`path` of the Unix socket on which clients connect",
		DefaultText: "agent.sock in $RUNTIME_DIRECTORY; for root in /run/lockagent; otherwise in " +
			"$XDG_RUNTIME_DIR/lockagent or in the state directory",
		Example: "/run/lockagent/agent.sock",
	},
	{
		Key: "socket.mode", Flag: "socket-mode", kind: mode{}, field: func(s *Settings) any { return &s.Socket.Mode },
		Help:    "Who may connect, as chmod takes it. What a client may do then is for the rules.",
		Usage:   "`mode` of the socket",
		Default: "0660", Example: "0666",
	},
	{
		Key: "socket.group", Flag: "socket-group", kind: groupName,
		field: func(s *Settings) any { return &s.Socket.Group },
		Help:  "The group of the socket.", Usage: "`group` of the socket",
		DefaultText: "that of the daemon", Example: "lockagent",
	},
	{
		Key: "operator.socket", Flag: "operator-socket", kind: path{socket: true},
		field:       func(s *Settings) any { return &s.Operator.Socket },
		Help:        "The Unix socket for health and profiles. Only the daemon's user and root can connect.",
		Usage:       "`path` of the Unix socket for operators",
		DefaultText: "beside the socket for clients: agent-operator.sock for agent.sock",
		Example:     "/run/lockagent/agent-operator.sock",
	},
	{
		Key: "redis.url", Flag: "redis", field: func(s *Settings) any { return &s.Redis.URL },
		kind: server{
			schemes: []string{"redis", "rediss", "unix"}, example: "redis://127.0.0.1:6379",
			secrets: []string{"redis.password_file"},
		},
		Help:    "The Redis that has the locks. rediss:// is TLS.",
		Usage:   "`URL` of the Redis that has the locks",
		Example: "rediss://lockagent@redis.example:6379",
	},
	{
		Key: "redis.password_file", Flag: "redis-password-file", kind: path{secret: true},
		field: func(s *Settings) any { return &s.Redis.PasswordFile },
		Help:  "The file with the password for Redis.", Usage: "`file` with the password for Redis",
		Example: "${CREDENTIALS_DIRECTORY}/redis",
	},
	{
		Key: "redis.sentinel_password_file", Flag: "redis-sentinel-password-file", kind: path{secret: true},
		field: func(s *Settings) any { return &s.Redis.SentinelPasswordFile },
		Help:  "The file with the password for the Sentinels.", Usage: "`file` with the password for the Sentinels",
		Example: "${CREDENTIALS_DIRECTORY}/sentinel",
	},
	{
		Key: "redis.ca", Flag: "redis-ca", kind: certificate, field: func(s *Settings) any { return &s.Redis.CA },
		Help: "PEM file of those who may vouch for the server.", Usage: "PEM `file` of those who may vouch for Redis",
		DefaultText: "those whom the system trusts", Example: "/etc/lockagent/redis-ca.pem",
	},
	{
		Key: "redis.cert", Flag: "redis-cert", kind: certificate, field: func(s *Settings) any { return &s.Redis.Cert },
		Help: "PEM file with the client certificate.", Usage: "PEM `file` with the client certificate for Redis",
		Example: "/etc/lockagent/redis.pem",
	},
	{
		Key: "redis.key", Flag: "redis-key", kind: certificate, field: func(s *Settings) any { return &s.Redis.Key },
		Help: "PEM file with the private key of the client certificate.", Usage: "PEM `file` with its private key",
		DefaultText: "that of redis.cert", Example: "${CREDENTIALS_DIRECTORY}/redis-key.pem",
	},
	{
		Key: "redis.server_name", Flag: "redis-server-name", kind: hostName,
		field: func(s *Settings) any { return &s.Redis.ServerName },
		Help:  "The name in the server's certificate.", Usage: "`name` in the certificate of Redis",
		DefaultText: "the host in the URL", Example: "redis.example",
	},
	{
		Key: "redis.min_replicas", Flag: "redis-min-replicas", kind: number{0, 100},
		field:   func(s *Settings) any { return &s.Redis.MinReplicas },
		Help:    "How many replicas have to acknowledge a grant before it counts.",
		Usage:   "`number` of replicas that have to acknowledge a grant",
		Default: "0", Example: "1",
	},
	{
		Key: "redis.grace", Flag: "redis-grace", kind: boolean{}, field: func(s *Settings) any { return &s.Redis.Grace },
		Help: "Whether a Redis that may have forgotten locks begins with a grace period: it grants nothing new until the " +
			"holders of before had time to come back. Without one, two may hold a lock at once.",
		Usage:   "grant nothing new after Redis may have forgotten locks, until the holders of before had time to come back",
		Default: "true", Example: "false",
	},
	{
		Key: "redis.grace_first", Flag: "redis-grace-first", field: func(s *Settings) any { return &s.Redis.GraceFirst },
		kind: duration{min: time.Millisecond, max: lockagent.MaxLease, orZero: "is no such period"},
		Help: "How long the grace period lasts if nobody knew the Redis before: it is new, or has lost its data while all " +
			"daemons were away. With the longest lease, the second costs no overlap either.",
		Usage:   "`time` for which a Redis that nobody knew before grants nothing",
		Default: "2s", Example: "30s",
	},
	{
		Key: "nats.url", Flag: "nats", field: func(s *Settings) any { return &s.NATS.URL },
		kind: server{
			schemes: []string{"nats", "tls", "ws", "wss"}, example: "nats://127.0.0.1:4222",
			secrets: []string{"nats.creds", "nats.password_file", "nats.token_file"}, list: true,
		},
		Help:    "The NATS servers that get a copy of all events, with commas between them.",
		Usage:   "`URL` of the NATS server that gets a copy of all events",
		Example: "nats://hub.example:4222",
	},
	{
		Key: "nats.creds", Flag: "nats-creds", kind: path{secret: true},
		field: func(s *Settings) any { return &s.NATS.Creds },
		Help:  "The credentials file of the user, with JWT and seed.", Usage: "credentials `file` of the user",
		Example: "${CREDENTIALS_DIRECTORY}/nats.creds",
	},
	{
		Key: "nats.nkey", Flag: "nats-nkey", kind: path{secret: true},
		field: func(s *Settings) any { return &s.NATS.Nkey },
		Help:  "The file with the seed of the user's nkey.", Usage: "`file` with the seed of the user's nkey",
		Example: "${CREDENTIALS_DIRECTORY}/nats.nkey",
	},
	{
		Key: "nats.user", Flag: "nats-user", kind: userName, field: func(s *Settings) any { return &s.NATS.User },
		Help: "The name of the user.", Usage: "`name` of the user",
		Example: "lockagent",
	},
	{
		Key: "nats.password_file", Flag: "nats-password-file", kind: path{secret: true},
		field: func(s *Settings) any { return &s.NATS.PasswordFile },
		Help:  "The file with the password of the user.", Usage: "`file` with the password of the user",
		Example: "${CREDENTIALS_DIRECTORY}/nats",
	},
	{
		Key: "nats.token_file", Flag: "nats-token-file", kind: path{secret: true},
		field: func(s *Settings) any { return &s.NATS.TokenFile },
		Help:  "The file with a token.", Usage: "`file` with a token",
		Example: "${CREDENTIALS_DIRECTORY}/nats-token",
	},
	{
		Key: "nats.ca", Flag: "nats-ca", kind: certificate, field: func(s *Settings) any { return &s.NATS.CA },
		Help:        "PEM file of those who may vouch for the server.",
		Usage:       "PEM `file` of those who may vouch for the server",
		DefaultText: "those whom the system trusts", Example: "/etc/lockagent/nats-ca.pem",
	},
	{
		Key: "nats.cert", Flag: "nats-cert", kind: certificate, field: func(s *Settings) any { return &s.NATS.Cert },
		Help: "PEM file with the client certificate.", Usage: "PEM `file` with the client certificate",
		Example: "/etc/lockagent/nats.pem",
	},
	{
		Key: "nats.key", Flag: "nats-key", kind: certificate, field: func(s *Settings) any { return &s.NATS.Key },
		Help: "PEM file with the private key of the client certificate.", Usage: "PEM `file` with its private key",
		DefaultText: "that of nats.cert", Example: "${CREDENTIALS_DIRECTORY}/nats-key.pem",
	},
	{
		Key: "nats.server_name", Flag: "nats-server-name", kind: hostName,
		field: func(s *Settings) any { return &s.NATS.ServerName },
		Help:  "The name in the server's certificate.", Usage: "`name` in the server's certificate",
		DefaultText: "the host in the URL", Example: "hub.example",
	},
	{
		Key: "nats.tls_first", Flag: "nats-tls-first", kind: boolean{},
		field:   func(s *Settings) any { return &s.NATS.TLSFirst },
		Help:    "Begin with TLS, for servers with handshake_first.",
		Usage:   "begin with TLS, for servers with handshake_first",
		Default: "false", Example: "true",
	},
	{
		Key: "nats.domain", Flag: "nats-domain", kind: plainName,
		field: func(s *Settings) any { return &s.NATS.Domain },
		Help:  "The JetStream domain of the stream.", Usage: "JetStream `domain` of the stream",
		DefaultText: "that of the server", Example: "hub",
	},
	{
		Key: "nats.inbox_prefix", Flag: "nats-inbox-prefix", kind: subject,
		field: func(s *Settings) any { return &s.NATS.InboxPrefix },
		Help:  "What begins the subjects of all answers.", Usage: "`subject` that begins the subjects of all answers",
		DefaultText: "_INBOX", Example: "_INBOX_lockagent",
	},
	{
		Key: "nats.stream", Flag: "nats-stream", kind: plainName,
		field: func(s *Settings) any { return &s.NATS.Stream },
		Help:  "The name of the stream.", Usage: "`name` of the stream",
		Default: "LOCKAGENT", Example: "LOCKS",
	},
	{
		Key: "nats.prefix", Flag: "nats-prefix", kind: subject, field: func(s *Settings) any { return &s.NATS.Prefix },
		Help: "What begins the subjects of all events.", Usage: "`subject` that begins the subjects of all events",
		Default: "lockagent.v1", Example: "locks.v1",
	},
	{
		Key: "events.max_size", Flag: "events-max-size", field: func(s *Settings) any { return &s.Events.MaxSize },
		kind: size{min: 1 << 20, max: 1 << 40, orZero: "is no bound"},
		Help: "How much the event log keeps before it removes the oldest events. Events that have consequences get " +
			"an eighth of this size on top.",
		Usage:   "`size` of the event log",
		Default: "1GiB", Example: "64MiB",
	},
	{
		Key: "events.max_age", Flag: "events-max-age", field: func(s *Settings) any { return &s.Events.MaxAge },
		kind: duration{min: time.Minute, max: 10 * 365 * 24 * time.Hour, orZero: "is for ever"},
		Help: "For how long the event log keeps an event.", Usage: "`time` for which the event log keeps an event",
		Default: "0s", Example: "720h",
	},
	{
		Key: "lease.duration", Flag: "lease", field: func(s *Settings) any { return &s.Lease.Duration },
		kind:  duration{min: 10 * time.Millisecond, max: lockagent.MaxLease},
		Help:  "When the host dies, its locks are free after this time at most.",
		Usage: "`time` after which the locks of a dead host are free", Default: "30s", Example: "10s",
	},
	{
		Key: "lease.margin", Flag: "lease-margin", field: func(s *Settings) any { return &s.Lease.Margin },
		kind: duration{
			min: time.Millisecond, max: lockagent.MaxLease,
			orZero: "is a tenth of the lease, and at most 2s",
		},
		Help:    "How long before the end of a lease the holder is told of its loss: at most half of the lease.",
		Usage:   "`time` before the end of a lease at which the holder is told of its loss",
		Default: "0s", Example: "1s",
	},
	{
		Key: "lease.rest", Flag: "lease-rest", kind: boolean{}, field: func(s *Settings) any { return &s.Lease.Rest },
		Help: "Whether a lock that only this daemon uses rests there between two holds, for up to 100 ms. Other hosts " +
			"get it at once.",
		Usage: "let a lock that only this daemon uses stay here between two holds", Default: "true", Example: "false",
	},
	{
		Key: "claims.grace", Flag: "claims-grace", field: func(s *Settings) any { return &s.Claims.Grace }, Live: true,
		kind:  duration{min: 100 * time.Millisecond, max: time.Hour},
		Help:  "How long a claim waits for its client after a restart of the daemon, at most until its deadline.",
		Usage: "`time` that a claim waits for its client after a restart", Default: "10s", Example: "5s",
	},
	{
		Key: "claims.commands", Flag: "claims-commands", kind: boolean{},
		field: func(s *Settings) any { return &s.Claims.Commands },
		Help: "Whether the daemon shows the commands of its clients, and writes them into its journal and its event " +
			"log. If not, only the names of the programs are left. Arguments may hold secrets.",
		Usage: "keep the commands of clients, with their arguments", Default: "true", Example: "false",
	},
	{
		Key: "limits.claims", Flag: "limit-claims", kind: number{1, most},
		field: func(s *Settings) any { return &s.Limits.Claims }, Live: true,
		Help:    "How many claims a user may have at once, granted or not.",
		Usage:   "`number` of claims that a user may have at once",
		Default: "16384", Example: "1000",
	},
	{
		Key: "limits.waiters", Flag: "limit-waiters", kind: number{1, most},
		field: func(s *Settings) any { return &s.Limits.Waiters }, Live: true,
		Help: "How many of these claims may wait at once.", Usage: "`number` of claims of a user that may wait at once",
		Default: "16384", Example: "1000",
	},
	{
		Key: "limits.streams", Flag: "limit-streams", kind: number{1, most},
		field: func(s *Settings) any { return &s.Limits.Streams }, Live: true,
		Help: "How many streams a user may have at once. A user may have 1,024 more requests under way. Of all " +
			"these, 32 may be for lists of locks.",
		Usage:   "`number` of streams that a user may have at once",
		Default: "16384", Example: "1000",
	},
	{
		Key: "limits.watches", Flag: "limit-watches", kind: number{1, most},
		field: func(s *Settings) any { return &s.Limits.Watches }, Live: true,
		Help:    "How many of these streams may only watch: changes of locks, events, or the health of the daemon.",
		Usage:   "`number` of streams of a user that may only watch",
		Default: "256", Example: "32",
	},
	{
		Key: "limits.connections", Flag: "limit-connections", kind: number{1, most},
		field: func(s *Settings) any { return &s.Limits.Connections }, Live: true,
		Help: "How many connections a user may have at once. The daemon closes one that is too many. Each user leaves " +
			"an eighth of the daemon's descriptors to others. Root and the daemon's own user have a few more.",
		Usage:   "`number` of connections that a user may have at once",
		Default: "16384", Example: "1000",
	},
	{
		Key: "limits.numbers", Flag: "limit-numbers", kind: number{1, most},
		field: func(s *Settings) any { return &s.Limits.Numbers }, Live: true,
		Help: "How many semaphores and latches there may be without Redis, of all users together. They stay until " +
			"somebody deletes them.",
		Usage: "`number` of semaphores and latches in the memory of the daemon", Default: "16384", Example: "1000",
	},
	{
		Key: "limits.name_length", Flag: "limit-name-length", kind: number{1, lockagent.MaxNameLen},
		field: func(s *Settings) any { return &s.Limits.NameLen }, Live: true,
		Help: "How many bytes the name of a lock may have.", Usage: "`bytes` that the name of a lock may have",
		Default: fmt.Sprint(lockagent.MaxNameLen), Example: "128",
	},
	{
		Key: "limits.request_size", Flag: "limit-request-size", kind: size{min: MinRequestSize, max: 16 << 20},
		field: func(s *Settings) any { return &s.Limits.RequestSize },
		Help:  "How large a request may be.", Usage: "`size` that a request may have",
		Default: "64KiB", Example: "32KiB",
	},
	{
		Key: rulesKey, kind: ruleList{}, field: func(s *Settings) any { return &s.Rules }, Live: true,
		Help: "Who may do what with which locks. The first rule counts that is for the user, or for one of the " +
			"user's groups, and for the name. In match, * is any text without a slash and ** is any text. A rule without " +
			"users and groups is for everybody. Without rules, the user of the daemon and root may do everything, and " +
			"others nothing.",
		Example: `[{match: "deploy/**", allow: [acquire, look, watch], groups: [deploy]}, ` +
			`{match: "**", allow: [acquire, look, watch, operate], users: [root]}]`,
	},
	{
		Key: "web.listen", Flag: "web", kind: listen{}, field: func(s *Settings) any { return &s.Web.Listen },
		Help:        "Where the live page is, for users of this host. Each sees what the rules allow.",
		Usage:       "`address` of the live page",
		DefaultText: "there is no page", Example: "127.0.0.1:7070",
	},
	{
		Key: "web.allow_break", Flag: "web-allow-break", kind: boolean{},
		field: func(s *Settings) any { return &s.Web.AllowBreak }, Live: true,
		Help:    "Whether a lock can be broken on the page, by users who may operate it.",
		Usage:   "let locks be broken on the live page",
		Default: "false", Example: "true",
	},
	{
		Key: "metrics.listen", Flag: "metrics", kind: listen{},
		field: func(s *Settings) any { return &s.Metrics.Listen },
		Help:  "Where Prometheus finds the metrics.", Usage: "`address` for Prometheus",
		DefaultText: "there are none", Example: "127.0.0.1:9464",
	},
	{
		Key: "drain.timeout", Flag: "drain-timeout",
		kind:  duration{min: time.Millisecond, max: time.Hour, orZero: "is no wait"},
		field: func(s *Settings) any { return &s.Drain.Timeout }, Live: true,
		Help: "If drain.then is release: how long the daemon waits for claims to end before it releases them. systemd " +
			"waits as long.",
		Usage:   "`time` to wait for claims to end, before they are released",
		Default: "30s", Example: "5s",
	},
	{
		Key: "drain.then", Flag: "drain-then", kind: choice{KeepClaims, ReleaseClaims},
		field: func(s *Settings) any { return &s.Drain.Then }, Live: true,
		Help:    "What becomes of the claims when the daemon ends: the next one keeps them, or they are released.",
		Usage:   "`what` becomes of the claims at the end of the daemon: keep or release",
		Default: KeepClaims, Example: ReleaseClaims,
	},
	{
		Key: "log.level", Flag: "log-level", kind: choice{"debug", "info", "warn", "error"},
		field: func(s *Settings) any { return &s.Log.Level }, Live: true,
		Help:    "What is logged: this level, and what is worse.",
		Usage:   "`level` of what is logged: debug, info, warn or error",
		Default: "info", Example: "debug",
	},
	{
		Key: "log.format", Flag: "log-format", kind: choice{TextLog, JSONLog},
		field: func(s *Settings) any { return &s.Log.Format },
		Help:  "The form of the log.", Usage: "`form` of the log: text or json",
		Default: TextLog, Example: JSONLog,
	},
}

// Sections returns the sections, in the order of the file.
func Sections() []Section { return sections }

// All returns the settings, in the order of the file.
func All() []*Setting { return table }

// Find returns the setting with a key, or nil if there is none.
func Find(key string) *Setting {
	for _, s := range table {
		if s.Key == key {
			return s
		}
	}
	return nil
}
