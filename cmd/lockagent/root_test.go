package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
)

func TestUsage(t *testing.T) {
	const redis = "redis://127.0.0.1:6379"
	for _, test := range []struct {
		args, says, try string
	}{
		{"", "a verb is missing", "lockagent demo"},
		{"dmo", `"lockagent" has no verb "dmo"`, "lockagent demo"},
		{"frobnicate", `"lockagent" has no verb "frobnicate"`, "lockagent --help"},
		{"unlock", `"lockagent" has no verb "unlock"`, "lockagent release - <claim"},
		{"run a true", `"lockagent" has no verb "run"`, "lockagent lock backup -- pg_dump -f /backup/all.sql"},
		{"list", `"lockagent" has no verb "list"`, "lockagent ls"},
		{"version now", `"lockagent version" takes flags only, not "now"`, "lockagent version"},
		{"help nonsense", `there is no verb "nonsense"`, "lockagent --help"},
		{"help demo nonsense", `there is no verb "demo nonsense"`, "lockagent --help"},
		{
			"completion", "completion wants one of these shells: bash, fish, powershell, zsh",
			"lockagent completion bash",
		},
		{"completion cmd.exe", "completion wants one of these shells", "lockagent completion bash"},
		{"demo fast", `"lockagent demo" takes flags only, not "fast"`, "lockagent demo"},
		{"demo --agnets 3", `"lockagent demo" has no flag --agnets`, "lockagent demo --agents 3"},
		{"demo --no-lock", `"lockagent demo" has no flag --no-lock`, "lockagent demo --no-locks"},
		{"demo --redi x", `"lockagent demo" has no flag --redi`, "lockagent demo --redis URL"},
		{"demo --frobnicate", "unknown flag: --frobnicate", "lockagent demo --help"},
		{"demo -x", "unknown shorthand flag: 'x' in -x", "lockagent demo --help"},
		{"demo --agents", "--agents wants a value", "lockagent demo --agents 3"},
		{"demo --agents many", `--agents wants a whole number, not "many"`, "lockagent demo --agents 3"},
		{
			"demo --duration 7", `--duration wants a duration such as 500ms, 5s or 2m, not "7"`,
			"lockagent demo --duration 7s",
		},
		{
			"demo --duration soon", `--duration wants a duration such as 500ms, 5s or 2m, not "soon"`,
			"lockagent demo --duration 5s",
		},
		{"demo --no-locks=maybe", `--no-locks wants true or false, not "maybe"`, "lockagent demo --no-locks"},
		{"demo --agents 0", "--agents must be between 1 and 100, not 0", "lockagent demo --agents 3"},
		{"demo --workers 10001", "--workers must be between 1 and 10000, not 10001", "lockagent demo --workers 8"},
		{"demo --redis=", "--redis is set to nothing", "lockagent demo"},
		{"events audit --lock=", "--lock is set to nothing", "lockagent events audit"},
		{"demo --locks -1", "--locks must be between 1 and 10000, not -1", "lockagent demo --locks 4"},
		{"demo --duration 0s", "--duration must be longer than nothing, not 0s", "lockagent demo --duration 5s"},
		{"demo --think -1s", "--think cannot be negative", "lockagent demo --think 500us"},
		{"demo --lease 1ms", "--lease must be between 10ms and 8760h0m0s, not 1ms", "lockagent demo --lease 5s"},
		{"demo --format xml", `--format must be text or json, not "xml"`, "lockagent demo --format json"},
		{
			"demo --processes 2", "--processes needs --redis, for a store in memory cannot be shared between processes",
			"lockagent demo --redis " + redis + " --processes 2",
		},
		{
			"demo --processes 0 --redis " + redis, "--processes must be between 1 and 100, not 0",
			"lockagent demo --processes 3 --redis " + redis,
		},
		{"demo --processes 2 --agents 3", "leave --agents out", "lockagent demo --redis " + redis + " --processes 2"},
		{"demo --no-locks --redis " + redis, "--redis makes no difference", "lockagent demo --no-locks"},
		{"demo --no-locks --nats nats://x", "--nats makes no difference", "lockagent demo --no-locks"},
		{"demo --redis localhost:6379", "bad store URL", "lockagent demo --redis " + redis},
		{"demo --nats localhost:4222", "bad NATS URL", "lockagent demo --nats " + eventlog.DefaultNATS},
		{"demo --processes 2 --metrics :0 --redis " + redis, "leave --processes out", "lockagent demo --metrics :0"},
		{"events", "a verb is missing", "lockagent events tail"},
		{"events tial", `"lockagent events" has no verb "tial"`, "lockagent events tail"},
		{
			"events tail --since 0s", "is not before now; a day is its beginning",
			"lockagent events tail --since yesterday --until today",
		},
		{"events tail --until soon", `--until: "soon" is no time such as`, "lockagent events tail --until 10m"},
		{
			"events tail --until 10m --follow", "--follow and --until exclude each other",
			"lockagent events tail --until 10m",
		},
		{
			"events history a --since 2m --until 3m", "is not before --until",
			"lockagent events history a --since yesterday --until today",
		},
		{
			"events holders --at 10m --since 1h", "--at and --since or --until exclude each other",
			"lockagent events holders --at 10m",
		},
		{"events history a/>/b", "is not the last part of the pattern", "lockagent events history 'orders/>'"},
		{
			"events audit --until 10m --follow", "--follow and --until exclude each other",
			"lockagent events audit --until 10m",
		},
		{"events audit --begin soon", `--begin: "soon" is no time`, "lockagent events audit --begin yesterday"},
		{
			"events audit --since 2h --begin 1h", "is later than what is to be judged",
			"lockagent events audit --begin yesterday --since today",
		},
		{"events tail --since 1m --all", "exclude each other", "lockagent events tail --all"},
		{"events tail --follow=false", "shows nothing", "lockagent events tail --all --follow=false"},
		{"events tail --kind granted,stolen", `no kind of event "stolen"`, "lockagent events tail --kind granted,lost"},
		{"events tail --lock {", `a lock cannot be named "{"`, "lockagent events tail --lock 'orders/>'"},
		{
			"events tail --format json", `--format must be text or jsonl, not "json"`,
			"lockagent events tail --format jsonl",
		},
		{"events tail --nats localhost:4222", "bad NATS URL", "lockagent events tail --nats " + eventlog.DefaultNATS},
		{"events audit --file x --nats nats://y", "exclude each other", "lockagent events audit --file x"},
		{"events audit --file /no/such/file", "no such file", "lockagent events audit --file events.jsonl"},
		{"events audit --since 0s", "is not before now", "lockagent events audit --since yesterday --until today"},
		{
			"events audit --format jsonl", `--format must be text or json, not "jsonl"`,
			"lockagent events audit --format json",
		},
		{"events audit --lock {", `a lock cannot be named "{"`, "lockagent events audit --lock 'orders/>'"},
		{"events audit --follow --dir x", "--follow excludes --dir and --file", "lockagent events audit --dir x"},
		{
			"events audit --follow --format json", `--format must be text or jsonl with --follow`,
			"lockagent events audit --follow --format jsonl",
		},
		{"events audit --metrics :0", "--metrics needs --follow", "lockagent events audit --follow --metrics :0"},
		{
			"events audit --follow --metrics nowhere", `--metrics wants an address such as 127.0.0.1:9464, not "nowhere"`,
			"lockagent events audit --follow --metrics 127.0.0.1:0",
		},
		{
			"events audit --follow --metrics 127.0.0.1:99999", `not "127.0.0.1:99999"`,
			"lockagent events audit --follow --metrics 127.0.0.1:0",
		},
		{
			"demo --metrics 9464", `--metrics wants an address such as 127.0.0.1:9464, not "9464"`,
			"lockagent demo --metrics 127.0.0.1:0",
		},
		{"events audit --follow=maybe", `--follow wants true or false, not "maybe"`, "lockagent events audit --follow"},
		{
			"events audit --checkpoint /no/such/dir/c", "there is no directory /no/such/dir for the checkpoint",
			"lockagent events audit --checkpoint audit.json",
		},
		{"events audit --nats http://x", "bad NATS URL", "lockagent events audit --nats " + eventlog.DefaultNATS},
		{
			"events audit --nats-creds /no/such/file", "--nats-creds (or $LOCKAGENT_NATS_CREDS): the file cannot be read",
			"lockagent events audit --help",
		},
		{"events audit --nats-user u", "set --nats-password-file too", "lockagent events audit --help"},
		{
			"events audit --nats-prefix a..b", "--nats-prefix (or $LOCKAGENT_NATS_PREFIX)",
			"lockagent events audit --help",
		},
		{
			"events audit --dir x --nats-user u", "--dir and --nats-user exclude each other",
			"lockagent events audit --dir x",
		},
		{"events tail --agent=", "--agent is set to nothing", "lockagent events tail"},
		{"events tail --kind granted,", "--kind is set to nothing", "lockagent events tail"},
		{
			"events tail --urgent=perhaps", `--urgent wants true or false, not "perhaps"`,
			"lockagent events tail --urgent",
		},
		{"events history a --last x", `--last wants a whole number, not "x"`, "lockagent events history a --last 1"},
		{"events history a --since", "--since wants a value", "lockagent events history a --since 10m"},
		{"events history a --since 5", `--since: "5" is no time such as`, "lockagent events history a --since 10m"},
		{"events history --last 2", "takes the name of one lock, or a pattern", "lockagent events history orders/42"},
		{"events state a --at=", "--at is set to nothing", "lockagent events state a"},
		{
			"events state a --at -1x", "is no time such as 14:03:07, 10m (ago), yesterday, ",
			"lockagent events state a --at 10m",
		},
		{
			"events state a --sinc 5m", `"lockagent events state" has no flag --sinc`,
			"lockagent events state a --since 10m",
		},
		{"events holders extra", "takes flags only", "lockagent events holders"},
		{
			"events holders --format yaml", `--format must be text or json, not "yaml"`,
			"lockagent events holders --format json",
		},
		{
			"events audit --checkpoint c --since 1m", "--checkpoint excludes --since, --until and --begin",
			"lockagent events audit --checkpoint c",
		},
		{
			"events audit --checkpoint c --lock a", "--checkpoint and --lock exclude each other",
			"lockagent events audit --checkpoint c",
		},
		{
			"events audit --checkpoint c --file f", "--checkpoint and --file exclude each other",
			"lockagent events audit --file f",
		},
		{
			"events audit --acknowledge why", "--acknowledge needs --checkpoint",
			"lockagent events audit --checkpoint audit.json --acknowledge why",
		},
		{
			"events audit --acknowledge why --checkpoint c --follow", "excludes --follow",
			"lockagent events audit --checkpoint audit.json --acknowledge why",
		},
		{"events audit --tail 5s", "--tail must be at least 15s, not 5s", "lockagent events audit --tail 1m"},
		{
			"events audit --patience 5s", "--patience must be at least 15s, not 5s",
			"lockagent events audit --patience 5m",
		},
		{"events audit --dir x --file y", "--dir and --file exclude each other", "lockagent events audit --dir x"},
		{"events tail --dir x --follow", "--follow excludes --dir and --file", "lockagent events tail --dir x"},
		{"events history", "takes the name of one lock", "lockagent events history orders/42"},
		{"events history a b", "takes the name of one lock", "lockagent events history a"},
		{"events history {", `a lock cannot be named "{"`, "lockagent events history orders/42"},
		{"events top --limit 0", "--limit must be at least 1, not 0", "lockagent events top --limit 10"},
		{
			"events history a --since 0s", "is not before now",
			"lockagent events history a --since yesterday --until today",
		},
		{"events history a --last 0", "--last must be at least 1", "lockagent events history a --last 20"},
		{
			"events history a --format text/json", `--format must be text or json`,
			"lockagent events history a --format jsonl",
		},
		{"events state", "takes the name of one lock", "lockagent events state orders/42"},
		{"events state a --at noon", `--at: "noon" is no time such as`, "lockagent events state a --at 10m"},
		{"events state a --at 2999-01-01", "is in the future", "lockagent events state a --at 10m"},
		{
			"events state a --dir x --nats nats://y", "--dir and --nats exclude each other",
			"lockagent events state a --dir x",
		},
		{"events holders --lock {", `a lock cannot be named "{"`, "lockagent events holders --lock 'orders/>'"},
		{"demo --keep d --nats nats://x", "--keep and --nats exclude each other", "lockagent demo --keep d"},
		{"config", "a verb is missing", "lockagent config show"},
		{"config shwo", `"lockagent config" has no verb "shwo"`, "lockagent config show"},
		{"config validate c.yaml", "takes flags only", "lockagent config validate --config c.yaml"},
		{"config validate a b", "takes flags only", "lockagent config validate"},
		{"config show --lese 5s", "has no flag --lese", "lockagent config show --lease 30s"},
		{"config show --lease", "--lease wants a value", "lockagent config show --lease 30s"},
		{"config show --lease=", "--lease is set to nothing", "lockagent config show"},
		{
			"config show --lease 7", `--lease wants a duration such as 500ms, 5s or 2m, not "7"; did you mean 7s?`,
			"lockagent config show --lease 10s",
		},
		{
			"config show --lease 1ms", "--lease must be between 10ms and 8760h, not 1ms",
			"lockagent config show --lease 10s",
		},
		{
			"config show --lease-margin 20s", "--lease-margin must be at most half of lease.duration, which is 30s, not 20s",
			"lockagent config show --lease-margin 1s",
		},
		{
			"config show --web-allow-break=perhaps", `--web-allow-break wants true or false, not "perhaps"`,
			"lockagent config show --web-allow-break",
		},
		{
			"config show --redis redis://:hunter2@a",
			"--redis has a password or a token in it, which belongs into a file; name the file with --redis-password-file",
			"lockagent config show --redis rediss://lockagent@redis.example:6379",
		},
		{
			"config show --format yaml", `--format must be table, text, json or jsonl, not "yaml"`,
			"lockagent config show --format json",
		},
		{"demo --no-locks --keep d", "--keep makes no difference", "lockagent demo --no-locks"},
	} {
		t.Run(test.args, func(t *testing.T) {
			r := call(t, strings.Fields(test.args)...)
			r.expect(t, cli.ExitUsage, nil, []string{test.says, "\nTry: " + test.try + "\n"})
			if r.stdout != "" {
				t.Errorf("stdout says %q", r.stdout)
			}
			// What is worth trying has no usage errors of its own.
			args := strings.Fields(test.try)[1:]
			cmd, rest, err := newRoot().Find(args)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil && !strings.HasSuffix(test.try, "--help") {
				t.Errorf("%q is a usage error itself: %v", test.try, err)
			}
		})
	}
}

// A flag that is used in a wrong way is told as it is spelled in help, and what it takes in words for people.
func TestUsageOfEveryFlag(t *testing.T) {
	ofGo := regexp.MustCompile(`u?int\d+|[a-z][A-Z]`)
	for cmd := range manual.Commands(newRoot()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, nonsense := range []string{`"`, "?"} { // the first is no text of a list
				err := cmd.ParseFlags([]string{"--" + f.Name + "=" + nonsense})
				if err == nil {
					continue
				}
				want := fmt.Sprintf("--%s wants %s, not %q", f.Name, cli.KindOf(f), nonsense)
				if got := cli.FlagError(cmd, err).Error(); got != want || ofGo.MatchString(cli.KindOf(f)) {
					t.Errorf("%s says %q", cmd.CommandPath(), got)
				}
			}
			if f.Shorthand == "" || f.NoOptDefVal != "" {
				return
			}
			err := cli.FlagError(cmd, cmd.ParseFlags([]string{"-" + f.Shorthand}))
			if want := "--" + f.Name + " wants a value"; err.Error() != want {
				t.Errorf("%s says %q, not %q", cmd.CommandPath(), err, want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{
		"--help", "help", "help demo", "demo --help", "events --help", "events tail --help", "events history --help",
		"events state --help", "events holders --help", "events audit --help",
		"version --help", "config --help", "config show --help", "lock --help",
	} {
		words := strings.NewReplacer("--help", "", "help", "").Replace(args)
		verb := strings.ReplaceAll(strings.Trim(words, " "), " ", "-")
		call(t, strings.Fields(args)...).
			expect(t, cli.ExitOK, []string{"\n\n" + exitHelp(verb), "Usage:\n  lockagent"}, nil)
	}
	if r := call(t, "help", "acquire"); strings.Contains(r.stdout, "default []") {
		t.Errorf("help shows an empty default:\n%s", r.stdout)
	}
	r := call(t, "--help")
	r.expect(t, cli.ExitOK, []string{"lockagent VERB [flags]", "Try it:\n  demo", "Look:\n  events"}, nil)
	if strings.Contains(r.stdout, "demo-agent") {
		t.Error("help shows demo-agent, which is for ourselves")
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		call(t, "completion", shell).expect(t, cli.ExitOK, []string{"lockagent"}, nil)
	}
}

func TestVersion(t *testing.T) {
	call(t, "version").expect(t, cli.ExitOK, []string{"lockagent ", "go1."}, nil)
}

// defect is an output that has one.
type defect struct{}

func (defect) Write([]byte) (int, error) { panic("a defect") }

func TestPanic(t *testing.T) {
	var stderr strings.Builder
	if code := run(t.Context(), []string{"version"}, nil, defect{}, &stderr); code != cli.ExitBug {
		t.Errorf("exit code %d, want %d", code, cli.ExitBug)
	}
	for _, want := range []string{"lockagent: bug: a defect\n", "defect.Write", "Please report this."} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr does not say %q: %s", want, &stderr)
		}
	}
}

// A verb that is there alone is the same as among all.
func TestVerbsByName(t *testing.T) {
	for _, v := range verbs() {
		cmd, _, err := newRoot().Find([]string{v.name})
		if err != nil || cmd.Name() != v.name || cmd.GroupID != v.group {
			t.Errorf("%s in %s: %v", v.name, v.group, err)
		}
		alone, _, err := rootFor([]string{v.name, "--help"}).Find([]string{v.name})
		if err != nil || alone.UsageString() != cmd.UsageString() {
			t.Errorf("%s alone: %v\n%s", v.name, err, alone.UsageString())
		}
	}
}
