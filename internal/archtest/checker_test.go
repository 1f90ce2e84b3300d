package archtest

import (
	"slices"
	"strings"
	"testing"
)

// world is a module that keeps all rules: what each package imports.
func world() tree {
	w := make(tree)
	for path, imports := range map[string]string{
		".":                               "errors context",
		"./internal/lockstate":            ". time",
		"./internal/daemon/access":        ". time ./internal/daemon/quota",
		"./internal/natsserver":           "github.com/nats-io/nats-server/v2/server github.com/nats-io/nats.go",
		"./internal/natsserver/natstest":  "./internal/natsserver testing",
		"./internal/redistest":            "testing github.com/redis/rueidis",
		"./internal/faultproxy":           "testing",
		"./memstore":                      ".",
		"./storetest":                     ". testing pgregory.net/rapid",
		"./redisstore":                    ". github.com/redis/rueidis",
		"./redisstore/internal/script":    ".",
		"./redisstore/internal/transport": "context",
		"./quorum":                        ".",
		"./events":                        ".",
		"./events/audit":                  ". ./events",
		"./events/natslog":                ". ./events github.com/nats-io/nats.go/jetstream",
		"./tracing":                       ". go.opentelemetry.io/otel/trace",
		"./actor":                         ". ./internal/lockstate github.com/asynkron/protoactor-go/actor",
		"./channelapi":                    ". ./actor",
		"./internal/daemon/refusal":       "errors",
		"./internal/daemon/quota":         "./internal/daemon/refusal",
		"./internal/daemon/claims":        "./actor ./internal/daemon/quota ./internal/daemon/refusal",
		"./internal/daemon/socket":        "errors",
		"./internal/daemon/wire":          ". connectrpc.com/connect",
		"./agentclient":                   "./channelapi ./internal/daemon/wire",
		"connectrpc.com/connect":          "context",
		"./webui": ". ./events ./events/audit ./events/natslog ./internal/daemon/claims " +
			"./internal/daemon/wire",
		"./cmd/lockagent/internal/lockcmd":   "./internal/daemon/wire",
		"./cmd/lockagent/internal/eventscmd": "./events ./events/natslog ./internal/natsserver",
		"./cmd/lockagent/internal/lookcmd":   "./internal/daemon/wire ./events",
		"./cmd/lockagent": "./cmd/lockagent/internal/lockcmd ./channelapi ./redisstore " +
			"./internal/natsserver ./tracing go.opentelemetry.io/otel/sdk/trace",

		"errors": "", "context": "errors", "time": "errors", "testing": "errors", "testing/synctest": "testing",
		"pgregory.net/rapid": "testing", "go.uber.org/goleak": "",
		"github.com/redis/rueidis":                 "context",
		"github.com/nats-io/nats.go":               "context",
		"github.com/nats-io/nats.go/jetstream":     "github.com/nats-io/nats.go",
		"github.com/nats-io/nats-server/v2/server": "context",
		// Protoactor does so.
		"github.com/asynkron/protoactor-go/actor": "go.opentelemetry.io/otel/trace go.opentelemetry.io/otel/sdk/trace",
		"go.opentelemetry.io/otel/trace":          "context",
		"go.opentelemetry.io/otel/sdk/trace":      "go.opentelemetry.io/otel/trace",
	} {
		p := &pkg{ImportPath: full(path), Imports: fulls(imports), Doc: "Package x is.", GoFiles: []string{"x.go"}}
		p.Standard = !strings.Contains(strings.Split(p.ImportPath, "/")[0], ".")
		if ours(p.ImportPath) {
			p.TestImports = fulls("testing go.uber.org/goleak")
		}
		w[p.ImportPath] = p
	}
	return w
}

func full(path string) string {
	if rest, of := strings.CutPrefix(path, "."); of {
		return module + rest
	}
	return path
}

func fulls(paths string) []string {
	var all []string
	for _, path := range strings.Fields(paths) {
		all = append(all, full(path))
	}
	return all
}

// breaking has imports that break each rule: "a b" for a that imports b, and
// "a test b" for a whose tests do.
var breaking = map[string][]string{
	"the dictionary dials nothing": {". github.com/redis/rueidis", ". ./memstore"},
	"the core is pure": {
		"./internal/lockstate ./memstore", "./internal/lockstate pgregory.net/rapid",
	},
	"access is pure": {
		"./internal/daemon/access ./memstore", "./internal/daemon/access golang.org/x/sys/unix",
	},
	"adapters stand beside the actors": {
		"./memstore ./actor", "./events ./channelapi", "./tracing ./internal/lockstate",
	},
	"memstore is alone":              {"./memstore ./redisstore", "./memstore ./tracing"},
	"redisstore is alone":            {"./redisstore ./memstore"},
	"events is alone":                {"./events ./tracing"},
	"tracing is alone":               {"./tracing ./events"},
	"quorum is alone":                {"./quorum ./redisstore", "./quorum ./memstore"},
	"clients of the daemon are none": {"./agentclient ./internal/daemon/claims", "./agentclient ./redisstore"},
	"actors know ports and not adapters": {
		"./actor ./memstore", "./channelapi ./events", "./internal/lockstate ./tracing",
	},
	"presence is between actors and stores": {"./channelapi ./internal/inperson", ". ./internal/inperson"},
	"actors do not know who uses them":      {"./actor ./channelapi"},
	"nobody imports the program":            {"./channelapi ./cmd/lockagent", "./events test ./cmd/lockagent"},
	"protoactor stays inside": {
		"./channelapi github.com/asynkron/protoactor-go/actor", "./memstore test github.com/asynkron/protoactor-go/actor",
	},
	"rueidis stays inside": {
		"./events github.com/redis/rueidis", "./cmd/lockagent github.com/redis/rueidis",
	},
	"scripts do not know the transport":   {"./redisstore/internal/script ./redisstore/internal/transport"},
	"the transport does not know scripts": {"./redisstore/internal/transport ./redisstore/internal/script"},
	"nats.go stays inside":                {"./cmd/lockagent github.com/nats-io/nats.go"},
	"an audit needs no NATS":              {"./events github.com/nats-io/nats.go", "./events/audit ./events/natslog"},
	"one package embeds the NATS server": {
		"./cmd/lockagent github.com/nats-io/nats-server/v2/server",
		"./internal/natsserver/natstest github.com/nats-io/nats-server/v2/server",
	},
	"only the program embeds the NATS server": {"./events ./internal/natsserver"},
	"telemetry comes from outside":            {"./actor go.opentelemetry.io/otel/trace"},
	"the program chooses the SDK":             {"./tracing go.opentelemetry.io/otel/sdk/trace"},
	"claims know no RPC": {
		"./internal/daemon/claims ./internal/daemon/wire", "./internal/daemon/socket connectrpc.com/connect",
	},
	"verbs about locks are small": {
		"./cmd/lockagent/internal/lockcmd ./redisstore", "./cmd/lockagent/internal/lockcmd ./internal/daemon/claims",
		"./cmd/lockagent/internal/lookcmd ./events/natslog",
		"./cmd/lockagent/internal/lockcmd go.opentelemetry.io/otel/sdk/trace",
	},
	"whoever takes a lock reads no events": {"./cmd/lockagent/internal/lockcmd ./events"},
	"who reads events needs no daemon": {
		"./cmd/lockagent/internal/eventscmd ./redisstore", "./cmd/lockagent/internal/eventscmd ./internal/daemon/claims",
	},
	"verbs do not know each other": {"./cmd/lockagent/internal/lookcmd ./cmd/lockagent/internal/lockcmd"},
	"the page asks the daemon":     {"./webui ./actor", "./webui ./internal/daemon/api", "./webui ./memstore"},
	"nobody calls methods by their names": {
		"./webui html/template", "./cmd/lockagent text/template", "./agentclient net/rpc",
	},
	"no test code in applications": {
		"./redisstore ./internal/redistest", "./internal/lockstate testing/synctest", ". go.uber.org/goleak",
		"github.com/redis/rueidis testing", "./memstore ./storetest",
	},
}

func TestRulesCanBeKept(t *testing.T) {
	for _, r := range rules {
		for _, b := range r.breaches(world()) {
			t.Errorf("rule %q says of a world that keeps it: %s", r.name, b)
		}
	}
	for _, path := range undocumented(world()) {
		t.Errorf("%s is documented", path)
	}
}

func TestEveryRuleCanBeBroken(t *testing.T) {
	for _, r := range rules {
		if len(breaking[r.name]) == 0 {
			t.Errorf("nothing is known to break the rule %q", r.name)
		}
		if r.reason == "" {
			t.Errorf("the rule %q has no reason", r.name)
		}
		for _, breach := range breaking[r.name] {
			w := world()
			words := fulls(breach)
			by, what := w[words[0]], words[len(words)-1]
			if len(words) == 3 {
				by.XTestImports = append(by.XTestImports, what)
			} else {
				by.Imports = append(by.Imports, what)
			}
			found := strings.Join(r.breaches(w), "\n")
			if !strings.Contains(found, by.ImportPath) || !strings.Contains(found, "imports "+what) {
				t.Errorf("the rule %q does not see that %s; it says %q", r.name, breach, found)
			}
		}
	}
}

func TestBreachesShowTheWay(t *testing.T) {
	w := world()
	rueidis := w["github.com/redis/rueidis"]
	rueidis.Imports = append(rueidis.Imports, "pgregory.net/rapid")
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == "no test code in applications" })
	want := module + "/redisstore\n\timports github.com/redis/rueidis\n\timports pgregory.net/rapid"
	if got := rules[i].breaches(w); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUndocumented(t *testing.T) {
	w := world()
	w[module+"/events"].Doc = ""
	w[module+"/memstore"].Doc, w[module+"/memstore"].GoFiles = "", nil // tests only
	w["github.com/redis/rueidis"].Doc = ""                             // not ours
	if got := undocumented(w); len(got) != 1 || got[0] != module+"/events" {
		t.Errorf("got %q, want events alone", got)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{".", ".", true},
		{".", "./actor", false},
		{"./actor", "./actor", true},
		{"./actor", "./actor/x", false},
		{"./...", ".", true},
		{"./...", "./actor/x", true},
		{"./...", "github.com/lockagent/lockagent2", false},
		{"./cmd/...", "./cmd/lockagent", true},
		{"./cmd/...", "./cmdline", false},
		{"./internal/...test", "./internal/redistest", true},
		{"./internal/...test", "./internal/natsserver/natstest", true},
		{"./internal/...test", "./internal/faultproxy", false},
		{"testing/...", "testing", true},
		{"testing/...", "testing/synctest", true},
		{"std", "testing", true},
		{"std", "./actor", false},
	} {
		p := &pkg{ImportPath: full(c.path)}
		p.Standard = !strings.Contains(p.ImportPath, ".")
		if got := match(c.pattern, p); got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
}
