package archtest

import "testing"

const module = "github.com/lockagent/lockagent"

// rule says what some packages may import. Its patterns are import paths in which
// "..." stands for anything; those that begin with "./", and ".", are of this module.
// The pattern "std" stands for the standard library.
type rule struct {
	name   string
	of     []string // the packages that the rule binds,
	but    []string // except for these
	only   []string // all that they may import, if set
	never  []string // what they must not import
	reach  reach
	reason string
}

// reach says which imports a rule looks at.
type reach int

const (
	direct    reach = iota // of the package itself
	withTests              // of the package itself and of its tests
	indirect               // of all that becomes part of a program with the package
)

// adapters implement or decorate the ports of the dictionary.
var adapters = []string{"./memstore/...", "./redisstore/...", "./events/...", "./tracing/...", "./quorum/..."}

// forUsers are the packages that applications import.
var forUsers = append([]string{".", "./actor/...", "./channelapi/..."}, adapters...)

// ofDaemon are the packages that only the daemon has.
var ofDaemon = []string{
	"./internal/config", "./internal/natsserver/...", "./webui", "./internal/daemon", "./internal/daemon/access",
	"./internal/daemon/api", "./internal/daemon/claims", "./internal/daemon/journal", "./internal/daemon/quota",
	"./internal/daemon/socket", "./internal/daemon/state", "./internal/daemon/tcppeer",
}

var rules = []rule{
	{
		name:   "the dictionary dials nothing",
		of:     []string{"."},
		only:   []string{"std"},
		reason: "the root package is types, ports and errors; everybody imports it, so it must cost nobody anything",
	},
	{
		name:   "the core is pure",
		of:     []string{"./internal/lockstate"},
		only:   []string{"std", "."},
		reason: "the state machine can be tested without an actor, a clock or a store, and has to stay so",
	},
	{
		name:   "access is pure",
		of:     []string{"./internal/daemon/access"},
		only:   []string{"std", ".", "./internal/daemon/quota", "./internal/daemon/refusal"},
		reason: "who may do what can be tested without a daemon, users, or a clock",
	},
	{
		name:   "adapters stand beside the actors",
		of:     adapters,
		never:  []string{"./internal/lockstate", "./actor/...", "./channelapi/..."},
		reach:  indirect,
		reason: "an adapter knows the dictionary alone; what brings it together with actors is the program",
	},
	{
		name:   "memstore is alone",
		of:     []string{"./memstore/..."},
		never:  []string{"./redisstore/...", "./events/...", "./tracing/...", "./quorum/..."},
		reach:  indirect,
		reason: "adapters never know each other",
	},
	{
		name:   "redisstore is alone",
		of:     []string{"./redisstore/..."},
		never:  []string{"./memstore/...", "./events/...", "./tracing/...", "./quorum/..."},
		reach:  indirect,
		reason: "adapters never know each other",
	},
	{
		name:   "events is alone",
		of:     []string{"./events/..."},
		never:  []string{"./memstore/...", "./redisstore/...", "./tracing/...", "./quorum/..."},
		reach:  indirect,
		reason: "adapters never know each other",
	},
	{
		name:   "tracing is alone",
		of:     []string{"./tracing/..."},
		never:  []string{"./memstore/...", "./redisstore/...", "./events/...", "./quorum/..."},
		reach:  indirect,
		reason: "adapters never know each other",
	},
	{
		name:   "quorum is alone",
		of:     []string{"./quorum/..."},
		never:  []string{"./memstore/...", "./redisstore/...", "./events/...", "./tracing/..."},
		reach:  indirect,
		reason: "a quorum is made of the port; it does not know what its nodes are",
	},
	{
		name: "clients of the daemon are none",
		of:   []string{"./agentclient/..."},
		never: append(
			[]string{"./internal/daemon/claims/...", "./internal/daemon/api/...", "./internal/daemon/socket/..."}, adapters...,
		),
		reach:  indirect,
		reason: "a program that uses the daemon does not have the daemon in it",
	},
	{
		name:   "actors know ports and not adapters",
		of:     []string{"./actor/...", "./channelapi/..."},
		never:  adapters,
		reach:  indirect,
		reason: "an agent is given its store and its recorder",
	},
	{
		name:   "presence is between actors and stores",
		of:     []string{"./..."},
		but:    []string{"./actor/...", "./redisstore/...", "./quorum/...", "./internal/inperson"},
		never:  []string{"./internal/inperson"},
		reason: "a caller makes an exchange without knowing of it",
	},
	{
		name:   "actors do not know who uses them",
		of:     []string{"./actor/..."},
		never:  []string{"./channelapi/..."},
		reach:  indirect,
		reason: "imports go from channelapi to actor",
	},
	{
		name:   "nobody imports the program",
		of:     []string{"./..."},
		but:    []string{"./cmd/..."},
		never:  []string{"./cmd/..."},
		reach:  withTests,
		reason: "the program wires everything and is wired by nobody",
	},
	{
		name:   "protoactor stays inside",
		of:     []string{"./..."},
		but:    []string{"./actor"},
		never:  []string{"github.com/asynkron/protoactor-go/..."},
		reach:  withTests,
		reason: "the actor library is a detail of package actor, and can be replaced there",
	},
	{
		name:   "rueidis stays inside",
		of:     []string{"./..."},
		but:    []string{"./redisstore/...", "./internal/redistest"},
		never:  []string{"github.com/redis/rueidis/..."},
		reason: "the Redis client is a detail of package redisstore",
	},
	{
		name:   "scripts do not know the transport",
		of:     []string{"./redisstore/internal/script/..."},
		never:  []string{"./redisstore/internal/transport/..."},
		reach:  indirect,
		reason: "package redisstore brings them together, so each can be read and tested alone",
	},
	{
		name:   "the transport does not know scripts",
		of:     []string{"./redisstore/internal/transport/..."},
		never:  []string{"./redisstore/internal/script/..."},
		reach:  indirect,
		reason: "it knows servers, calls and channels, and nothing of locks",
	},
	{
		name:   "nats.go stays inside",
		of:     []string{"./..."},
		but:    []string{"./events/natslog/...", "./events/projection/...", "./internal/natsserver/..."},
		never:  []string{"github.com/nats-io/nats.go/..."},
		reason: "the NATS client is a detail of package natslog",
	},
	{
		name:   "an audit needs no NATS",
		of:     []string{"./events", "./events/fold/...", "./events/audit/...", "./events/internal/..."},
		never:  []string{"./events/natslog/...", "github.com/nats-io/..."},
		reach:  indirect,
		reason: "who audits a file, or reviews the audit, has nothing to do with a server",
	},
	{
		name:   "one package embeds the NATS server",
		of:     []string{"./..."},
		but:    []string{"./internal/natsserver"},
		never:  []string{"github.com/nats-io/nats-server/..."},
		reason: "the server is ten megabytes and full of traps that one package knows",
	},
	{
		name:   "only the program embeds the NATS server",
		of:     []string{"./..."},
		but:    []string{"./cmd/...", "./internal/natsserver/..."},
		never:  []string{"./internal/natsserver/..."},
		reason: "no application gets ten megabytes of server from a library",
	},
	{
		name:   "telemetry comes from outside",
		of:     []string{"./..."},
		but:    []string{"./tracing/...", "./cmd/..."},
		never:  []string{"go.opentelemetry.io/..."},
		reason: "package tracing adds it to the ports, so that the rest is free of it",
	},
	{
		name: "the program chooses the SDK",
		of:   []string{"./..."},
		but:  []string{"./cmd/..."},
		never: []string{
			"go.opentelemetry.io/otel/sdk/...", "go.opentelemetry.io/otel/exporters/...", "go.opentelemetry.io/contrib/...",
		},
		reason: "a library uses the API of OpenTelemetry; exporters are for whoever runs it",
	},
	{
		name: "claims know no RPC",
		of: []string{
			"./internal/daemon/claims", "./internal/daemon/quota", "./internal/daemon/refusal", "./internal/daemon/socket",
		},
		never:  []string{"connectrpc.com/...", "./proto/...", "./internal/daemon/api", "./internal/daemon/wire"},
		reach:  indirect,
		reason: "what clients hold does not depend on how they ask for it",
	},
	{
		name: "verbs about locks are small",
		of: []string{
			"./cmd/lockagent/internal/cli", "./cmd/lockagent/internal/client", "./cmd/lockagent/internal/lockcmd",
			"./cmd/lockagent/internal/lookcmd", "./cmd/lockagent/internal/eventtext",
		},
		never: append([]string{
			"./actor/...", "./channelapi/...", "./memstore/...", "./redisstore/...", "./quorum/...", "./tracing/...",
			"./events/natslog/...", "./events/audit/...", "./events/projection/...", "github.com/nats-io/...",
			"github.com/prometheus/...", "go.opentelemetry.io/...",
		}, ofDaemon...),
		reach: indirect,
		reason: "they ask the daemon, which has all the rest; scripts start them again and again, and each package that is " +
			"linked costs its initialisation",
	},
	{
		name: "whoever takes a lock reads no events",
		of: []string{
			"./cmd/lockagent/internal/cli", "./cmd/lockagent/internal/client", "./cmd/lockagent/internal/lockcmd",
		},
		never:  []string{"./events/..."},
		reach:  indirect,
		reason: "lock, acquire and release must start as fast as they can, and the daemon records what they do",
	},
	{
		name: "who reads events needs no daemon",
		of: []string{
			"./cmd/lockagent/internal/eventscmd", "./cmd/lockagent/internal/eventlog", "./cmd/lockagent/internal/telemetry",
		},
		never: []string{
			"./actor/...", "./channelapi/...", "./memstore/...", "./redisstore/...", "./quorum/...", "./internal/config",
			"./webui",
			"./internal/daemon", "./internal/daemon/api", "./internal/daemon/claims", "./internal/daemon/journal",
			"./internal/daemon/state",
		},
		reach: indirect,
		reason: "an event log is read where no daemon runs; who has it is a server of NATS, a directory, a file, or the " +
			"daemon that is asked",
	},
	{
		name: "verbs do not know each other",
		of:   []string{"./cmd/lockagent/internal/..."},
		never: []string{
			"./cmd/lockagent", "./cmd/lockagent/internal/lockcmd", "./cmd/lockagent/internal/lookcmd",
			"./cmd/lockagent/internal/eventscmd", "./cmd/lockagent/internal/servecmd", "./cmd/lockagent/internal/democmd",
		},
		reason: "the table of verbs brings them together; what several need has a package of its own",
	},
	{
		name: "the page asks the daemon",
		of:   []string{"./webui"},
		never: []string{
			"./actor/...", "./channelapi/...", "./internal/lockstate", "./internal/daemon", "./internal/daemon/api",
			"./internal/daemon/socket",
			"./memstore/...", "./redisstore/...", "./tracing/...", "./quorum/...",
		},
		reason: "the page shows what the daemon and the event log tell; it computes no state of its own",
	},
	{
		// Libraries may import the packages for a function that escapes. What costs is to execute a template, or to serve.
		name:  "nobody calls methods by their names",
		of:    []string{"./..."},
		never: []string{"html/template", "text/template", "net/rpc"},
		reason: "a program that looks for methods by their names keeps all methods of all its types: half as many bytes " +
			"again",
	},
	{
		name: "no test code in applications",
		of:   forUsers,
		never: []string{
			"testing/...", "pgregory.net/rapid/...", "go.uber.org/goleak/...", "github.com/stretchr/...",
			"./internal/...test", "./internal/redisserver", "./internal/faultproxy", "./storetest",
		},
		reach:  indirect,
		reason: "what only tests need registers flags and adds weight in programs",
	},
}

func TestImports(t *testing.T) {
	tree := load(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, b := range r.breaches(tree) {
				t.Errorf("%s\nThe rule is: %s.", b, r.reason)
			}
		})
	}
}

// A rule about a package that was renamed would hold for ever.
func TestRulesSpeakOfPackagesThatExist(t *testing.T) {
	tree := load(t)
	for _, r := range rules {
		for _, pattern := range append(append([]string{}, r.of...), r.but...) {
			found := false
			for path := range tree {
				found = found || match(pattern, tree[path])
			}
			if !found {
				t.Errorf("rule %q: no package matches %q", r.name, pattern)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, path := range undocumented(load(t)) {
		t.Errorf("package %s has no package comment", path)
	}
}
