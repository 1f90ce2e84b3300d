package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

const natsSecret = "s3cr3t-words"

// guarded starts a NATS server with two users: joe may do everything, and ann nothing.
func guarded(t *testing.T) (url string) {
	t.Helper()
	const user = `{ user: %s, password: %q %s }`
	return natstest.StartSecured(t, fmt.Sprintf("accounts: { LOCKS: { jetstream: enabled, users: [ %s, %s ] } }",
		fmt.Sprintf(user, "joe", natsSecret, ""),
		fmt.Sprintf(user, "ann", natsSecret, `, permissions: { publish: ["nothing"], subscribe: ["_INBOX.>"] }`))).URL()
}

var replayAll = []string{"events", "tail", "--all", "--follow=false"}

func TestNATSFlags(t *testing.T) {
	url, password := guarded(t), natstest.File(t, natsSecret+"\n")
	as := func(user, password string, args ...string) []string {
		return append(args, "--nats", url, "--nats-user", user, "--nats-password-file", password)
	}
	// On a slow machine it may prove nothing in so short a time. It publishes all the same.
	r := call(
		t,
		as(
			"joe", password, "demo", "--duration", "100ms", "--agents", "2", "--nats-stream", "OTHER", "--nats-prefix",
			"my.locks",
		)...,
	)
	if !strings.Contains(r.stdout, "Event log: in NATS.") || !strings.Contains(r.stdout, "none dropped") {
		t.Fatalf("the demo has not published: %+v", r)
	}

	read := as("joe", password, replayAll...)
	call(t, append(read, "--nats-stream", "OTHER", "--nats-prefix", "my.locks")...).expect(
		t, cli.ExitOK, []string{"agentstopped"}, nil,
	)
	call(t, read...).expect(t, cli.ExitEmpty, nil, []string{"no such stream", "LOCKAGENT"})
	call(t, as("joe", password, "events", "audit", "--nats-stream", "OTHER", "--nats-prefix", "my.locks")...).expect(
		t, cli.ExitOK, []string{"proven: "}, nil,
	)

	t.Run("FromTheEnvironment", func(t *testing.T) {
		for name, value := range map[string]string{
			"": url, "_USER": "joe", "_PASSWORD_FILE": password, "_STREAM": "OTHER", "_PREFIX": "my.locks",
			"_TLS_FIRST": "false",
		} {
			t.Setenv("LOCKAGENT_NATS"+name, value)
		}
		call(t, replayAll...).expect(t, cli.ExitOK, []string{"agentstopped"}, nil)
		call(t, append(replayAll, "--nats-stream", "LOCKAGENT")...).expect(t, cli.ExitEmpty, nil, []string{"no such stream"})
		t.Setenv("LOCKAGENT_NATS_TLS_FIRST", "perhaps")
		call(t, replayAll...).expect(t, cli.ExitUsage, nil, []string{
			`$LOCKAGENT_NATS_TLS_FIRST wants true or false, not "perhaps"`,
		})
	})

	t.Run("WrongPassword", func(t *testing.T) {
		wrong := natstest.File(t, "wrong-words")
		for _, verb := range [][]string{replayAll, {"events", "audit"}, {"demo"}} {
			r := call(t, as("joe", wrong, verb...)...)
			r.expect(t, cli.ExitNotPermitted, nil, []string{"NATS does not permit it: check the credentials", "Try: "})
			if strings.Contains(r.stderr, "wrong-words") {
				t.Errorf("it tells the password: %s", r.stderr)
			}
		}
	})

	t.Run("NoPermission", func(t *testing.T) {
		for _, verb := range [][]string{replayAll, {"events", "audit"}} {
			call(t, as("ann", password, verb...)...).expect(t, cli.ExitNotPermitted, nil,
				[]string{`NATS does not permit the user to publish to "$JS.API.STREAM.INFO.LOCKAGENT"`})
		}
	})

	t.Run("Unreachable", func(t *testing.T) {
		server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		call(t, append(replayAll, "--nats", server.URL())...).expect(
			t, cli.ExitUnavailable, nil, []string{"connect to NATS", "Try: "},
		)
	})
}

// TestBadNATSFlags: nothing listens at the address, so each error comes before any connection
// is tried.
func TestBadNATSFlags(t *testing.T) {
	t.Parallel()
	const url = "nats://127.0.0.1:1"
	password := natstest.File(t, natsSecret)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"MissingFile": {
			append(replayAll, "--nats", url, "--nats-creds", "/no/such/file"),
			"--nats-creds (or $LOCKAGENT_NATS_CREDS): the file cannot be read: open /no/such/file",
		},
		"MissingFileOfTheDemo": {
			[]string{"demo", "--nats", url, "--nats-creds", "/no/such/file"},
			"--nats-creds (or $LOCKAGENT_NATS_CREDS): the file cannot be read: open /no/such/file",
		},
		"TwoWays": {
			append(replayAll, "--nats", url, "--nats-creds", password, "--nats-nkey", password),
			"--nats-nkey (or $LOCKAGENT_NATS_NKEY): --nats-creds says already who we are; leave one of the two out",
		},
		"PasswordInTheURL": {
			append(replayAll, "--nats", "nats://joe:"+natsSecret+"@127.0.0.1:1", "--nats-password-file", password),
			"--nats-password-file (or $LOCKAGENT_NATS_PASSWORD_FILE): --nats says already who we are",
		},
		"NoPassword": {
			append(replayAll, "--nats", url, "--nats-user", "joe"),
			"--nats-user (or $LOCKAGENT_NATS_USER): a user needs a password; set --nats-password-file too",
		},
		"NoPasswordForTheDefaultURL": {append(replayAll, "--nats-user", "joe"), "set --nats-password-file too"},
		"BadStream": {
			append(replayAll, "--nats", url, "--nats-stream", "a.b"),
			`--nats-stream (or $LOCKAGENT_NATS_STREAM): "a.b" is not made of letters`,
		},
		"TooManyReplicas": {
			[]string{
				"demo", "--nats", guarded(t), "--nats-user", "joe", "--nats-password-file", password, "--nats-replicas", "6",
			},
			"--nats-replicas (or $LOCKAGENT_NATS_REPLICAS): ",
		},
		"DemoWithoutURL": {
			[]string{"demo", "--nats-token-file", password},
			"--nats-token-file is about a NATS server; say which one with --nats",
		},
		"NoLocks": {
			[]string{"demo", "--no-locks", "--nats-token-file", password}, "so --nats-token-file makes no difference",
		},
		"File": {[]string{"events", "audit", "--file", "-", "--nats-domain", "hub"}, "--nats-domain"},
	} {
		t.Run(name, func(t *testing.T) {
			r := call(t, test.args...)
			r.expect(t, cli.ExitUsage, nil, []string{test.want})
			if strings.Contains(r.stdout+r.stderr, natsSecret) {
				t.Errorf("it tells a secret: %s", r.stderr)
			}
		})
	}
}

// onlyMakers are the options of those who may make the stream.
var onlyMakers = map[string]bool{"Replicas": true, "MaxBytes": true, "MaxAge": true}

// documentedOptions are the options in the table of docs/nats.md, with what follows the name in the flag of each.
func documentedOptions(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `--nats([a-z-]*)` \\|")
	for _, row := range rows.FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}
	return documented
}

// Each verb has the flags of the options in the table of docs/nats.md.
func TestFlagsOfNATS(t *testing.T) {
	documented := documentedOptions(t)
	for _, verb := range []struct {
		name, flags string
		makes       bool
	}{
		{"demo", "nats", true},
		{"events audit", "nats", false},
		{"events forward", "nats", false},
		{"events forward", "hub", true},
	} {
		cmd, _, err := newRoot().Find(strings.Fields(verb.name))
		if err != nil {
			t.Fatal(err)
		}
		for option, rest := range documented {
			f := cmd.Flags().Lookup(verb.flags + rest)
			switch {
			case (f != nil) != (verb.makes || !onlyMakers[option]):
				t.Errorf("%s has --%s%s: %v", verb.name, verb.flags, rest, f != nil)
			case f != nil && !strings.HasSuffix(f.Usage, "(or $"+cli.Variable(f.Name)+")"):
				t.Errorf("%s: the help of --%s does not name its variable: %s", verb.name, f.Name, f.Usage)
			}
		}
	}
}
