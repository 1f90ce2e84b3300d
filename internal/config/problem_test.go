package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestProblemsOfTheFile(t *testing.T) {
	const anyDuration = "wants a duration such as 500ms, 5s or 2m, not "
	for _, c := range []struct{ text, want string }{ // with | between problems
		{"redsi: {url: redis://a}", "FILE:1: redsi is no setting; did you mean redis?"},
		{"\n\nredis:\n  ulr: redis://a", "FILE:4: redis.ulr is no setting; did you mean redis.url?"},
		{"grace: 5s", "FILE:1: grace is no setting; did you mean redis.grace or claims.grace?"},
		{"lease: {grce: 5s}", "FILE:1: lease.grce is no setting; did you mean redis.grace or claims.grace?"},
		{"frobnicate: 1", "FILE:1: frobnicate is no setting; lockagent config default shows all of them"},
		{"redis.url: redis://a", "FILE:1: redis.url is written as redis: with url: below it"},
		{
			"redis: {password: hunter2}",
			"FILE:1: redis.password is no setting, for no setting is a secret; redis.password_file names a file that has it",
		},
		{"redis: redis://:hunter2@a", "FILE:1: redis has settings below it, such as redis.url"},
		{
			"redis: {password_file: hunter2}",
			"FILE:1: redis.password_file wants the absolute path of a file that has the secret",
		},
		{
			"redis: {password_file: 12345}", "FILE:1: redis.password_file wants the absolute path of a file that has the secret",
		},
		{
			"redis: {url: 'redis://:hunter2@a'}",
			"FILE:1: redis.url has a password or a token in it, which belongs into a file; " +
				"name the file with redis.password_file",
		},
		{
			"nats: {url: 'nats://hunter2@a'}",
			"FILE:1: nats.url has a password or a token in it, which belongs into a file; " +
				"name the file with nats.creds or nats.password_file or nats.token_file",
		},
		{
			"redis: {url: 'redis://:hunt/er2@a'}",
			"FILE:1: redis.url has a password or a token in it, which belongs into a file; " +
				"name the file with redis.password_file",
		},
		{
			"redis: {url: 'redis://a?sentinel_password=hunter2'}",
			"FILE:1: redis.url has a password or a token in it, which belongs into a file; " +
				"name the file with redis.password_file",
		},
		{"redis: {url: !x 'redis://:hunter2@a'}", "FILE:1: redis.url wants a URL such as redis://127.0.0.1:6379"},
		{"redis: {url: 5, password_file: /p}", "FILE:1: redis.url wants a URL such as redis://127.0.0.1:6379"}, // and no more
		{
			"redis: {url: 'http://a'}",
			`FILE:1: redis.url wants a URL such as redis://127.0.0.1:6379; its scheme is not redis, rediss or unix`,
		},
		{
			"redis: {url: localhost}",
			"FILE:1: redis.url wants a URL such as redis://127.0.0.1:6379; special characters in it are written as %40 for @ " +
				"and %2F for /",
		},
		{
			"redis: {url: 'redis:'}",
			"FILE:1: redis.url wants a URL such as redis://127.0.0.1:6379; there is no host behind redis://",
		},
		{"lease: {duration: 5}", "FILE:1: lease.duration " + anyDuration + `"5"; did you mean 5s?`},
		{"lease: {duration: 1d}", "FILE:1: lease.duration " + anyDuration + `"1d"; did you mean 24h?`},
		{"lease: {duration: soon}", "FILE:1: lease.duration " + anyDuration + `"soon"`},
		{
			"log: {level: " + strings.Repeat("x", 1000) + "}",
			`FILE:1: log.level wants debug, info, warn or error, not "` + strings.Repeat("x", 64) + `"`,
		},
		{"lease: {duration: -5s}", "FILE:1: lease.duration " + anyDuration + `"-5s"`},
		{"lease: {duration: 99999999999h}", "FILE:1: lease.duration " + anyDuration + `"99999999999h"`},
		{"lease: {duration: 1ms}", "FILE:1: lease.duration must be between 10ms and 8760h, not 1ms"},
		{"lease: {duration: 0s}", "FILE:1: lease.duration must be between 10ms and 8760h, not 0s"},
		{
			"lease: {duration: [5s]}", "FILE:1: lease.duration wants a duration such as 500ms, 5s or 2m, and not several values",
		},
		{"lease: {duration: }", "FILE:1: lease.duration is set to nothing; leave it out, or give it a value"},
		{"lease: {duration: ''}", "FILE:1: lease.duration is set to nothing; leave it out, or give it a value"},
		{"lease: {margin: 16s}", "FILE:1: lease.margin must be at most half of lease.duration, which is 30s, not 16s"},
		{"lease:\n  duration: 1s\n  duration: 2s", "FILE:3: lease.duration is there twice; it is in line 2 already"},
		{
			"events: {max_size: 64M}",
			`FILE:1: events.max_size wants a size such as 512KiB, 64MiB or 1GiB, not "64M"; did you mean 64MiB?`,
		},
		{
			"events: {max_size: 64mb}",
			`FILE:1: events.max_size wants a size such as 512KiB, 64MiB or 1GiB, not "64mb"; did you mean 64MiB?`,
		},
		{"events: {max_size: 64 MiB}", `FILE:1: events.max_size wants a size such as 512KiB, 64MiB or 1GiB, not "64 MiB"`},
		{
			"events: {max_size: 64}",
			`FILE:1: events.max_size wants a size such as 512KiB, 64MiB or 1GiB, not "64"; did you mean 64B?`,
		},
		{"events: {max_size: 64KiB}", "FILE:1: events.max_size must be 0B or between 1MiB and 1TiB, not 64KiB"},
		{
			"events: {max_size: 9223372036854775807TiB}",
			`FILE:1: events.max_size wants a size such as 512KiB, 64MiB or 1GiB, not "9223372036854775807TiB"`,
		},
		{"limits: {claims: 0}", "FILE:1: limits.claims must be between 1 and 10000000, not 0"},
		{"limits: {claims: '5'}", `FILE:1: limits.claims wants a whole number, not "5"`},
		{"limits: {claims: 1.5}", `FILE:1: limits.claims wants a whole number, not "1.5"`},
		{"limits: {claims: 99999999999999999999}", `FILE:1: limits.claims wants a whole number, not "99999999999999999999"`},
		{
			"socket: {mode: 0660}",
			`FILE:1: socket.mode wants a mode of four octal digits in quotes, such as "0660"; put it in quotes: "0660"`,
		},
		{
			"socket: {mode: 'u=rw'}",
			`FILE:1: socket.mode wants a mode of four octal digits in quotes, such as "0660", not "u=rw"`,
		},
		{"socket: {path: agent.sock}", `FILE:1: socket.path wants an absolute path, not "agent.sock"`},
		{
			"socket: {path: /" + strings.Repeat("x", 107) + "}",
			"FILE:1: socket.path has 108 bytes, and the path of a socket has at most 107",
		},
		{"operator: {socket: /s}\nsocket: {path: /s}", "FILE:1: operator.socket must not be the same as socket.path"},
		{"nats: {tls_first: yes, url: 'nats://a'}", `FILE:1: nats.tls_first wants true or false, not "yes"`},
		{
			"nats: {stream: 5, url: 'nats://a'}",
			`FILE:1: nats.stream wants letters, digits, '-' and '_'; put it in quotes: "5"`,
		},
		{"nats: {stream: a.b, url: 'nats://a'}", `FILE:1: nats.stream wants letters, digits, '-' and '_', not "a.b"`},
		{"nats: {creds: /c}", "FILE:1: nats.creds means nothing without nats.url"},
		{"nats: {url: 'nats://a', user: joe}", "FILE:1: nats.user means nothing without nats.password_file"},
		{"nats: {url: 'nats://a', creds: /c, nkey: /n}", "FILE:1: nats.nkey and nats.creds exclude each other"},
		{"redis: {url: 'redis://a', ca: /c}", "FILE:1: redis.ca is about TLS, and so redis.url must begin with rediss://"},
		{
			"web: {listen: '7070'}",
			`FILE:1: web.listen wants a host and a port such as 127.0.0.1:7070, not "7070"; did you mean 127.0.0.1:7070?`,
		},
		{"web: {listen: 'a:b'}", `FILE:1: web.listen wants a host and a port such as 127.0.0.1:7070, not "a:b"`},
		{"web: {listen: 'a:70000'}", `FILE:1: web.listen wants a host and a port such as 127.0.0.1:7070, not "a:70000"`},
		{"web: {listen: 'a:1'}\nmetrics: {listen: 'a:1'}", "FILE:2: metrics.listen must not be the same as web.listen"},
		{"web: {allow_break: true}", "FILE:1: web.allow_break means nothing without web.listen"},
		{"drain: {then: forget}", `FILE:1: drain.then wants keep or release, not "forget"`},
		{"log: &l {level: info}\nweb: *l", "FILE:2: web has an alias; write out what it stands for"},
		{"log: {level: *hunter2}", "FILE: is no YAML: an alias has no anchor"},
		{"log: [", "FILE:1: is no YAML: did not find expected node content"},
		{"a: b: c", "FILE: is no YAML: mapping values are not allowed in this context"},
		{"\tlog: x", "FILE: is no YAML: found character that cannot start any token"},
		{"\xff", "FILE: is no YAML: invalid leading UTF-8 octet"},
		{"log: {}\n---\nlog: {}", "FILE:2: has a second document; settings are in one"},
		{"- a", "FILE:1: has settings below it, such as host"},
		{"5: a", "FILE:1: has a key that is no text"},
		{"? [a]\n: b", "FILE:1: has a key that is no text"},
		{"<<: {host: a}", "FILE:1: has a key that is no text"},
		{"\"a\\nb\": 1", `FILE:1: "a\nb" is no setting; lockagent config default shows all of them`},
		{"host: !x a", "FILE:1: host wants up to 27 ASCII letters, digits, '-' and '_'; put it in quotes: \"a\""},
		{"rules: {match: a}", `FILE:1: rules wants a list of rules such as - {match: "**", allow: [acquire], users: [root]}`},
		{"rules: [a]", "FILE:1: rules.1 wants match, allow, users and groups"},
		{"rules:\n- {allow: []}\n- {match: a}", "FILE:2: rules.1 has no match|FILE:3: rules.2 has no allow"},
		{
			"rules: [{match: a, alow: []}]",
			"FILE:1: rules.1 has alow, which is no part of a rule; did you mean allow?|FILE:1: rules.1 has no allow",
		},
		{
			"rules: [{match: a, allow: [acquir]}]",
			`FILE:1: rules.1 has a wrong allow: there is no right "acquir"; the rights are acquire, look, watch, operate`,
		},
		{"rules: [{match: a, allow: acquire}]", "FILE:1: rules.1 wants a list after allow, in brackets"},
		{"rules: [{match: a, allow: [5]}]", "FILE:1: rules.1 wants texts after allow"},
		{
			"rules: [{match: '***', allow: []}]",
			`FILE:1: rules.1 has a wrong match: "***" has three stars in a row; write "**" for any text`,
		},
		{"rules: [{match: 5, allow: []}]", `FILE:1: rules.1 wants a text after match, such as "orders/*"`},
		{
			"rules: [{match: a, allow: [], users: []}]",
			"FILE:1: rules.1 has no users, and would be for everybody; leave users out if that is meant",
		},
		{"rules: [{match: a, allow: [], users: [-1]}]", "FILE:1: rules.1 wants names or numbers after users, not -1"},
		{"rules: [{match: a, allow: [], groups: ['']}]", "FILE:1: rules.1 has an empty name in groups"},
		{"rules: [{match: a, match: b, allow: []}]", "FILE:1: rules.1 has match twice"},
		{
			"log: {level: x}\nlease: {duration: y}",
			`FILE:1: log.level wants debug, info, warn or error, not "x"|FILE:2: lease.duration ` + anyDuration + `"y"`,
		},
	} {
		h := newHost(t)
		h.write(c.text)
		got := h.problems()
		if !slices.Equal(got, strings.Split(c.want, "|")) {
			t.Errorf("%q has the problems\n\t%s\nwant\n\t%s",
				c.text, strings.Join(got, "\n\t"), strings.ReplaceAll(c.want, "|", "\n\t"))
		}
		if strings.Contains(strings.Join(got, ""), "hunter2") {
			t.Errorf("%q: the secret is in %q", c.text, got)
		}
	}
}

func TestFilesWithoutProblems(t *testing.T) {
	for _, text := range []string{
		"", "# nothing", "---\n", "null", "{}", "redis:\nweb:\n", "\ufefflog: {level: warn}",
		"limits: {claims: 0x10, waiters: 1_000, streams: +7}", "socket: {mode: \"0600\"}", "lease: {duration: 1m30s}",
		"rules: []", "rules: &r []", "redis: {url: 'redis://joe@a:1/2?addr=b:2', password_file: /p}",
		"log: {'level': \"debug\"}",
		"nats: {url: 'nats://a:1,nats://b:2', user: joe, password_file: /p}", "host: !!str 5",
		"web: {listen: '[::1]:0'}\nmetrics: {listen: ':0'}",
	} {
		h := newHost(t)
		h.write(text)
		if got := h.problems(); got != nil {
			t.Errorf("%q has the problems %q", text, got)
		}
	}
}

func TestProblemsOfAllPlacesAreReportedTogether(t *testing.T) {
	h := newHost(t)
	h.write("host: a b\nredsi: {}\n")
	h.Environ = append(h.Environ, "LOCKAGENT_REDSI=redis://a", "LOCKAGENT_LEASE=5", "LOCKAGENT_NATS=nats://tok@a")
	h.Flags["log-level"], h.Flags["redis"], h.Flags["nats"] = "loud", "redis://:hunter2@a", "nats://hunter2@a"
	want := []string{
		"--redis has a password or a token in it, which belongs into a file; name the file with --redis-password-file",
		"--nats has a password or a token in it, which belongs into a file; name the file with --nats-creds or " +
			"--nats-password-file or --nats-token-file",
		`--log-level wants debug, info, warn or error, not "loud"`,
		`$LOCKAGENT_LEASE wants a duration such as 500ms, 5s or 2m, not "5"; did you mean 5s?`,
		"$LOCKAGENT_REDSI is no setting; did you mean $LOCKAGENT_REDIS?",
		`FILE:1: host wants up to 27 ASCII letters, digits, '-' and '_', not "a b"`,
		"FILE:2: redsi is no setting; did you mean redis?",
	}
	if got := h.problems(); !slices.Equal(got, want) {
		t.Errorf("the problems are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	_, err := Load(h.Inputs)
	all, _ := errors.AsType[Problems](err)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Key != "redis.url" || p.Origin.Kind != FromFlag || all.OnlyFlags() {
		t.Errorf("got %#v in %#v", p, all)
	}
	h.write("")
	h.Environ = nil
	_, err = Load(h.Inputs)
	if all, ok := errors.AsType[Problems](err); !ok || !all.OnlyFlags() {
		t.Errorf("only flags are wrong: %v", err)
	}
}

func TestAPasswordInTheEnvironmentIsMasked(t *testing.T) {
	h := newHost(t)
	h.Environ = append(h.Environ, "LOCKAGENT_REDIS=redis://joe:hunter2@a", "LOCKAGENT_NATS=nats://hunter2@a")
	c := h.load()
	h.expect(c, "redis.url", "redis://joe:xxxxx@a", "$LOCKAGENT_REDIS")
	h.expect(c, "nats.url", "nats://xxxxx@a", "$LOCKAGENT_NATS")
	if c.Settings.Redis.URL != "redis://joe:hunter2@a" {
		t.Errorf("the URL itself is %s", c.Settings.Redis.URL)
	}
}
