package projection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, natstest.LeftBehind()) }

// hub is a NATS server with an event log and a bucket.
type hub struct {
	t    *testing.T
	conn natslog.Connection
	js   jetstream.JetStream
}

func newHub(t *testing.T, url string) *hub {
	t.Helper()
	h := &hub{t: t, conn: natslog.Connection{URL: url}}
	nc, err := natslog.Connect(h.conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if h.js, err = h.conn.JetStream(nc); err != nil {
		t.Fatal(err)
	}
	return h
}

func startHub(t *testing.T) *hub {
	t.Helper()
	return newHub(t, natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
}

// writer writes the log of one agent.
type writer struct {
	h *hub
	p *natslog.Publisher
}

func (h *hub) writer(id lockagent.AgentID) *writer {
	h.t.Helper()
	p, err := natslog.NewPublisher(natslog.Config{Connection: h.conn, Agent: id})
	if err != nil {
		h.t.Fatal(err)
	}
	w := &writer{h, p}
	h.t.Cleanup(func() { _ = p.Close(context.Background()) }) // it may be closed
	w.write(lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-1", Program: "shop", PID: 812},
	})
	return w
}

func (w *writer) write(e lockagent.Event) {
	w.h.t.Helper()
	e.Time, e.Store = time.Now(), "s"
	if e.Lock != "" {
		e.LockKind, e.Tenure, e.Owner, e.Request = lockagent.PlainLock, uint64(e.Token), "joe", uint64(e.Token)
		if e.Mode == "" {
			e.Mode = lockagent.Exclusive
		}
	}
	w.p.Record(w.h.t.Context(), e)
	if err := w.p.Flush(w.h.t.Context()); err != nil {
		w.h.t.Fatal(err)
	}
}

func (w *writer) granted(lock lockagent.Name, token lockagent.Token) {
	w.write(lockagent.Event{
		Kind: lockagent.EventGranted, Lock: lock, Token: token, Count: 1, How: lockagent.ByStore,
		StoreTime: lockagent.StoreTime(token), Lease: time.Minute,
	})
}

func (w *writer) released(lock lockagent.Name, token lockagent.Token) {
	w.write(lockagent.Event{Kind: lockagent.EventReleased, Lock: lock, Token: token})
}

// run runs a projector until stop is called.
func (h *hub) run(change func(*Config)) (p *Projector, stop func() error) {
	h.t.Helper()
	cfg := Config{Log: natslog.ReaderConfig{Connection: h.conn}, Bucket: "holders"}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	done := false
	stop = func() error {
		if done {
			return nil
		}
		done = true
		cancel(errStopped)
		return waittest.Receive(h.t, "the end of the projector", ended)
	}
	h.t.Cleanup(func() { _ = stop() })
	return p, stop
}

var errStopped = errors.New("stopped")

// tokens are the tokens that the bucket has, by the name of the lock.
func (h *hub) tokens() map[lockagent.Name][]lockagent.Token {
	h.t.Helper()
	kv, err := h.js.KeyValue(h.t.Context(), "holders")
	if err != nil {
		return nil
	}
	all := make(map[lockagent.Name][]lockagent.Token)
	for key, e := range h.entries(kv) {
		var v Value
		if err := json.Unmarshal(e.Value(), &v); err != nil || Key(v.Lock) != key || v.Version != 1 ||
			v.Count != len(v.Holders) {
			h.t.Fatalf("%s is %s: %v", key, e.Value(), err)
		}
		for _, held := range v.Holders {
			all[v.Lock] = append(all[v.Lock], held.Token)
		}
	}
	return all
}

func (h *hub) entries(kv jetstream.KeyValue) map[string]jetstream.KeyValueEntry {
	h.t.Helper()
	w, err := kv.WatchAll(h.t.Context(), jetstream.IgnoreDeletes())
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = w.Stop() }()
	all := make(map[string]jetstream.KeyValueEntry)
	for e := range w.Updates() {
		if e == nil {
			break
		}
		if e.Key() != StatusKey {
			all[e.Key()] = e
		}
	}
	return all
}

func (h *hub) await(want map[lockagent.Name][]lockagent.Token) {
	h.t.Helper()
	var got map[lockagent.Name][]lockagent.Token
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the bucket has %v, want %v", got, want)
		}
	}()
	waittest.Until(h.t, "the bucket to have who holds what", func() bool {
		got = h.tokens()
		return got != nil && maps.EqualFunc(got, want, slices.Equal)
	})
}

type tokens = map[lockagent.Name][]lockagent.Token

// The bucket has what is held, and not what is over.
func TestProjection(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	a, b := h.writer("A"), h.writer("B")
	a.granted("orders/42", 1)
	_, stop := h.run(nil)
	h.await(tokens{"orders/42": {1}})
	kv, err := h.js.KeyValue(t.Context(), "holders")
	if err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(t.Context(), "orders.42")
	if err != nil {
		t.Fatal(err)
	}
	var v Value
	if err := json.Unmarshal(e.Value(), &v); err != nil {
		t.Fatal(err)
	}
	held := v.Holders[0]
	if held.Since.IsZero() || held.Owner != "joe" || held.Agent != "A" || held.Process.Host != "web-1" ||
		held.Store != "s" || held.Mode != lockagent.Exclusive || held.LockKind != lockagent.PlainLock {
		t.Errorf("%s", e.Value())
	}
	if !held.Who.IsZero() {
		t.Errorf("the agent asked for itself, and the bucket names %v", held.Who)
	}
	a.granted("umlaut ü", 2)
	a.released("orders/42", 1)
	h.await(tokens{"umlaut ü": {2}})
	b.granted("umlaut ü", 9) // the end of the hold before is missing
	for _, token := range []lockagent.Token{3, 4} {
		b.write(lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "read", Token: token, Mode: lockagent.Shared, Count: 1, How: lockagent.ByStore,
		})
	}
	h.await(tokens{"umlaut ü": {9}, "read": {3, 4}})
	if e, err = kv.Get(t.Context(), StatusKey); err != nil {
		t.Fatal(err)
	}
	var s Status
	if err := json.Unmarshal(e.Value(), &s); err != nil || s.Version != 1 || s.Position == 0 ||
		!strings.HasPrefix(s.Stream, "LOCKAGENT of ") || s.Time.IsZero() {
		t.Errorf("%s: %v", e.Value(), err)
	}
	if err := stop(); !errors.Is(err, errStopped) {
		t.Error(err)
	}
	status, err := kv.Status(t.Context())
	if err != nil || status.History() != 1 || status.LimitMarkerTTL() != markerTime {
		t.Errorf("%+v: %v", status, err)
	}
	if info, err := h.js.Stream(t.Context(), "KV_holders"); err != nil ||
		info.CachedInfo().Config.MaxBytes != DefaultMaxBytes {
		t.Errorf("%+v: %v", info, err)
	}
}

// A projector that starts again writes what is stale, and nothing else.
func TestProjectionStartsAgain(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	a := h.writer("A")
	a.granted("stays", 1)
	a.granted("ends", 2)
	_, stop := h.run(nil)
	h.await(tokens{"stays": {1}, "ends": {2}})
	if err := stop(); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	kv, err := h.js.KeyValue(t.Context(), "holders")
	if err != nil {
		t.Fatal(err)
	}
	revision := h.entries(kv)[Key("stays")].Revision()
	a.released("ends", 2)
	a.granted("begins", 3)
	p, stop := h.run(nil)
	h.await(tokens{"stays": {1}, "begins": {3}})
	waittest.Until(t, "the projector to know that it has written two keys", func() bool { return p.Stats().Written == 2 })
	if err := stop(); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Held != 2 || s.Written != 2 || s.Position == 0 {
		t.Errorf("%+v", s)
	}
	if now := h.entries(kv)[Key("stays")].Revision(); now != revision {
		t.Errorf("what was not stale is revision %d, and was %d", now, revision)
	}

	// What the log says from a time on, and nothing else.
	begin := time.Now()
	a.granted("begins later", 4)
	_, stop = h.run(func(cfg *Config) { cfg.Begin = begin })
	h.await(tokens{"begins later": {4}})
	_ = stop()
}

// Several projectors agree, whoever is first. What a removed lock was is never written again.
func TestSeveralProjectors(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	a := h.writer("A")
	a.granted("warm up", 1)
	for range 3 {
		h.run(nil)
	}
	h.await(tokens{"warm up": {1}})
	kv, err := h.js.KeyValue(t.Context(), "holders")
	if err != nil {
		t.Fatal(err)
	}
	watch, err := kv.WatchAll(t.Context(), jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	want := tokens{"warm up": {1}}
	for i := range 60 {
		lock, token := lockagent.Name(fmt.Sprintf("lock/%d", i%5)), lockagent.Token(10+i)
		if last := want[lock]; last != nil {
			a.released(lock, last[0])
			delete(want, lock)
		} else {
			a.granted(lock, token)
			want[lock] = []lockagent.Token{token}
		}
		if i%7 == 0 { // the others are seen by some projectors together with what follows
			h.await(want)
		}
	}
	h.await(want)
	a.granted("last", 1000)
	want["last"] = []lockagent.Token{1000}
	h.await(want)
	newest := make(map[string]lockagent.Token)
	for e := range watch.Updates() {
		var v Value
		if e.Key() == StatusKey || e.Operation() != jetstream.KeyValuePut {
			continue
		}
		if err := json.Unmarshal(e.Value(), &v); err != nil {
			t.Fatal(err)
		}
		token := v.Holders[0].Token
		if token < newest[e.Key()] {
			t.Errorf("%s has token %d after %d", e.Key(), token, newest[e.Key()])
		}
		if newest[e.Key()] = token; token == 1000 {
			break
		}
	}
	if err := watch.Stop(); err != nil {
		t.Error(err)
	}
}

// A projector that has not read what another one has does not write over it.
func TestBucketOfTwo(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	cfg := &Config{Log: natslog.ReaderConfig{Connection: h.conn}, Bucket: "holders"}
	var both []*bucket
	for range 2 {
		p, err := New(*cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.close)
		if err := p.bucket.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		both = append(both, &p.bucket)
	}
	one, two := both[0], both[1]
	value := func(token lockagent.Token) []byte {
		text, err := valueOf("a", []Holder{{Token: token}})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write := func(b *bucket, value []byte, changed int, want error) {
		t.Helper()
		if n, err := b.writeAll(t.Context(), map[string][]byte{"a": value}); n != changed || !errors.Is(err, want) {
			t.Errorf("%d changed, %v", n, err)
		}
	}
	write(one, value(1), 1, nil)
	write(two, value(1), 0, nil)           // it is the same
	write(one, nil, 1, nil)                // removed
	write(two, value(2), 0, errOtherWrote) // it knew of the value, and not of the removal
	write(two, nil, 0, nil)
	if got := h.tokens(); len(got) != 0 {
		t.Errorf("the bucket has %v", got)
	}
	if err := two.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(two, value(3), 1, nil) // it has learned of the removal
	write(one, value(4), 0, errOtherWrote)
	write(one, nil, 0, nil)
	if got := h.tokens(); !slices.Equal(got["a"], []lockagent.Token{3}) {
		t.Errorf("the bucket has %v", got)
	}
}

// The server is away for a while, the bucket is lost, and then the log.
func TestProjectionSurvivesOutages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0", Dir: dir})
	url := server.URL()
	h := newHub(t, url)
	a := h.writer("A")
	a.granted("one", 1)
	h.run(nil)
	h.await(tokens{"one": {1}})
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	natstest.Start(t, natsserver.Config{Listen: strings.TrimPrefix(url, "nats://"), Dir: dir})
	waittest.Until(t, "the server to be there again", func() bool { return h.tokens() != nil })
	a.granted("two", 2)
	a.released("one", 1)
	h.await(tokens{"two": {2}})
	if err := h.js.DeleteKeyValue(t.Context(), "holders"); err != nil {
		t.Fatal(err)
	}
	a.granted("three", 3)
	h.await(tokens{"two": {2}, "three": {3}})
	if err := h.js.DeleteStream(t.Context(), "LOCKAGENT"); err != nil {
		t.Fatal(err)
	}
	a.granted("four", 4)
	h.await(tokens{"four": {4}})
}

// It waits for the first agent.
func TestProjectionWaitsForAStream(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.run(nil)
	waittest.Until(t, "the bucket to be there", func() bool { return h.tokens() != nil })
	h.writer("A").granted("a", 1)
	h.await(tokens{"a": {1}})
}

// A bucket of somebody else is left alone.
func TestProjectionRefuses(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.writer("A").granted("a", 1)
	refused := func(want error, part string) {
		t.Helper()
		p, err := New(Config{Log: natslog.ReaderConfig{Connection: h.conn}, Bucket: "holders"})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(waittest.Context(t)); !errors.Is(err, want) || !strings.Contains(err.Error(), part) {
			t.Errorf("it ends with %v", err)
		}
	}
	kv, err := h.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "holders"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "a", `{"version":1}`); err != nil {
		t.Fatal(err)
	}
	refused(ErrOtherKeys, "holders: ")
	if err := kv.Purge(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	_, stop := h.run(nil) // the bucket has no time after which it forgets markers
	h.await(tokens{"a": {1}})
	_ = stop()

	for _, c := range []struct {
		option string
		cfg    Config
	}{
		{"Bucket", Config{}},
		{"Bucket", Config{Bucket: "a.b"}},
		{"Bucket", Config{Bucket: strings.Repeat("b", 201)}},
		{"BucketReplicas", Config{Bucket: "b", Replicas: 6}},
		{"BucketMaxBytes", Config{Bucket: "b", MaxBytes: -2}},
	} {
		c.cfg.Log.Connection = h.conn
		_, err := New(c.cfg)
		if bad, ok := errors.AsType[*lockagent.OptionError](err); !ok || bad.Option != c.option {
			t.Errorf("%s: %v", c.option, err)
		}
	}
}

// Who may not write to the bucket learns which permission is missing.
func TestProjectionMayNotWrite(t *testing.T) {
	t.Parallel()
	server := natstest.StartSecured(t, `
jetstream: enabled
accounts: { LOCKS: { jetstream: enabled, users: [
  { user: root, password: pw }
  { user: ann, password: pw, permissions: { publish: { allow: ">", deny: "$KV.>" }, subscribe: ">" } }
] } }`)
	at := func(user string) string {
		return "nats://" + user + ":pw@" + strings.TrimPrefix(server.URL(), "nats://")
	}
	newHub(t, at("root")).writer("A").granted("orders/42", 1)
	p, err := New(Config{Log: natslog.ReaderConfig{Connection: natslog.Connection{URL: at("ann")}}, Bucket: "holders"})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Run(waittest.Context(t))
	if !errors.Is(err, natslog.ErrNotPermitted) || !strings.Contains(err.Error(), `"$KV.holders.orders.42"`) {
		t.Errorf("it ends with %v", err)
	}
}
