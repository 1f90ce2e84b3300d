package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/events/projection"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// What the log says of holders is in the bucket, also when the program is started again.
func TestEventsProject(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	p, err := natslog.NewPublisher(natslog.Config{Connection: natslog.Connection{URL: url}, Agent: "host-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(waittest.Context(t)); err != nil {
			t.Error(err)
		}
	}()
	record := func(kind lockagent.EventKind, lock lockagent.Name, token lockagent.Token) {
		t.Helper()
		p.Record(t.Context(), lockagent.Event{
			Kind: kind, Lock: lock, Owner: "joe", Tenure: uint64(token), Token: token, Mode: lockagent.Exclusive,
		})
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	record(lockagent.EventGranted, "orders/42", 7)
	js := jetStream(t, url)
	holder := func(key string) lockagent.Token {
		kv, err := js.KeyValue(t.Context(), "holders")
		if err != nil {
			return 0 // not made yet
		}
		e, err := kv.Get(t.Context(), key)
		if err != nil {
			return 0
		}
		var v projection.Value
		if err := json.Unmarshal(e.Value(), &v); err != nil {
			t.Fatal(err)
		}
		return v.Holders[0].Token
	}
	r := start(t, "events", "project", "--kv", "holders", "--nats", url, "--kv-max-bytes", "12345678")
	waittest.Until(t, "the bucket to have the holder", func() bool { return holder("orders.42") == 7 })
	compared := func(text string) bool { return strings.Contains(text, "the bucket has who holds what") }
	r.stderr.await(t, "it knows what it has written", compared)
	r.interrupt(t).expect(t, cli.ExitOK, []string{"bucket holders has 1 lock that is held; 1 change was written to it\n"},
		[]string{"the bucket is made", "max_bytes=12345678", "were_stale=1"})

	record(lockagent.EventReleased, "orders/42", 7)
	record(lockagent.EventGranted, "orders/43", 8)
	r = start(t, "events", "project", "--kv", "holders", "--nats", url)
	waittest.Until(
		t, "the bucket to have the next holder", func() bool { return holder("orders.43") == 8 && holder("orders.42") == 0 },
	)
	r.stderr.await(t, "it knows what it has written", compared)
	r.interrupt(t).expect(
		t, cli.ExitOK, []string{"bucket holders has 1 lock that is held; 2 changes were written to it\n"},
		[]string{"were_stale=2"},
	)

	project := func(args ...string) result {
		return call(t, append([]string{"events", "project", "--nats", url}, args...)...)
	}
	project("--kv", "holders", "--begin", "soon").expect(t, cli.ExitUsage, nil, []string{
		"--begin: ", "Try: lockagent events project --nats " + url + " --kv holders --begin 1h",
	})
	project().expect(t, cli.ExitUsage, nil, []string{
		"--kv is missing", "Try: lockagent events project --nats " + url + " --kv holders\n",
	})
	project("--kv", "a.b").expect(t, cli.ExitUsage, nil, []string{`--kv: "a.b" is no name of a bucket`})
	project("--kv", "b", "--kv-replicas", "7").expect(
		t, cli.ExitUsage, nil, []string{"--kv-replicas: there are 1 to 5 copies"},
	)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "others"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "orders.42", "mine"); err != nil {
		t.Fatal(err)
	}
	project("--kv", "others").expect(t, cli.ExitUsage, nil, []string{
		"the bucket has keys that are no locks", "orders.42",
		"Try: lockagent events project --nats " + url + " --kv others_locks",
	})
	if e, err := kv.Get(t.Context(), "orders.42"); err != nil || string(e.Value()) != "mine" {
		t.Errorf("%v, %v", e, err)
	}
}

func TestEventsProjectIsRefused(t *testing.T) {
	t.Parallel()
	url, password := guarded(t), natstest.File(t, natsSecret)
	r := call(
		t, "events", "project", "--kv", "holders", "--nats", url, "--nats-user", "ann", "--nats-password-file", password,
	)
	r.expect(t, cli.ExitNotPermitted, nil, []string{"NATS does not permit it", "$JS.API.STREAM.INFO.KV_holders"})
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	r = call(t, "events", "project", "--kv", "holders", "--nats", server.URL())
	if r.expect(t, cli.ExitUnavailable, nil, []string{
		"connect to NATS", ": " + server.URL() + "\nTry: ",
	}); strings.Contains(r.stderr, natsSecret) {
		t.Error(r.stderr)
	}
}
