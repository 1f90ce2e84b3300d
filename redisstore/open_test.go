package redisstore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

const secret = "s3cret"

// refused opens a store and expects an error, which does not repeat the secret.
func refused(t *testing.T, config redisstore.Config, url string, want error, says ...string) {
	t.Helper()
	store, err := config.Open(waittest.Context(t), url)
	if err == nil {
		_ = store.Close()
		t.Errorf("Open(%q) succeeded; want %v", url, want)
		return
	}
	if !errors.Is(err, want) {
		t.Errorf("Open(%q): %v; want %v", url, err, want)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Open(%q): %v; want it to say %q", url, err, part)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("Open(%q): %v; that repeats the password", url, err)
	}
}

// works takes and releases a lock, and is woken.
func works(t *testing.T, store *redisstore.Store) {
	t.Helper()
	sub := storetest.Subscribe(t, store, "orders")
	defer sub.Cancel()
	wakes(t, sub, store, "orders")
}

func TestOpenOneServer(t *testing.T) {
	server := redistest.Start(t,
		redistest.WithPassword(secret),
		redistest.WithUser("app", "p@ss/w:rd%", "~* &* +@all"),
		redistest.WithTLS(),
	)
	_, port, _ := strings.Cut(server.Addr(), ":")
	for _, url := range []string{
		server.URL(),
		" " + server.URL() + "/\n",
		server.URL() + "/1",
		server.URL() + "?db=1",
		"redis://:" + secret + "@localhost:" + port,
		"redis://default:" + secret + "@" + server.Addr(),
		"redis://app:p%40ss%2Fw%3Ard%25@" + server.Addr(),
		"unix://:" + secret + "@" + server.Socket(),
		"unix://:" + secret + "@" + server.Socket() + "?db=2",
	} {
		works(t, open(t, url))
	}
}

func TestOpenWithTLS(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithTLS())
	works(t, openConfig(t, redisstore.Config{TLS: server.TLSConfig()}, server.TLSURL()))
	works(t, open(t, server.TLSURL()+"?skip_verify=true"))
	// Patiently, or a machine that is busy shakes hands too slowly to see the certificate.
	patient := redisstore.Config{DialTimeout: storetest.Patience, SilenceTimeout: storetest.Patience}
	refused(t, patient, server.TLSURL(), lockagent.ErrStoreUnavailable, "certificate")
	patient.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	refused(t, patient, server.TLSURL(), lockagent.ErrStoreUnavailable, "certificate")
}

// Who mistook a port with TLS for one without, or the other way round, learns what to write.
func TestOpenWithTheOtherScheme(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithTLS())
	config := redisstore.Config{DialTimeout: storetest.Patience}
	refused(t, config, "rediss://"+server.Addr(), lockagent.ErrStoreUnavailable, "write redis:// in place of rediss://")
	plain := "redis://" + server.TLSAddr()
	refused(t, config, plain, lockagent.ErrStoreUnavailable, "write rediss:// in place of redis://")
}

func TestOpenSeveralServersWithTLS(t *testing.T) {
	t.Parallel()
	t.Run("Cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3, redistest.WithTLS())
		store := openConfig(t, redisstore.Config{TLS: cluster.Nodes[0].TLSConfig()}, cluster.TLSURL())
		asked := make(map[*redistest.Server]bool)
		for i := 0; len(asked) < len(cluster.Nodes); i++ {
			name := fmt.Sprint("orders/", i)
			sub := storetest.Subscribe(t, store, lockagent.Name(name))
			wakes(t, sub, store, lockagent.Name(name))
			sub.Cancel()
			asked[cluster.NodeOf(name)] = true
		}
	})
	t.Run("Sentinels", func(t *testing.T) {
		sentinel := redistest.StartSentinel(t, redistest.WithTLS())
		config := patient // every grant waits for the replica
		config.TLS = sentinel.A.TLSConfig()
		works(t, openConfig(t, config, sentinel.TLSURL()))
	})
}

func TestDatabasesAreApart(t *testing.T) {
	server := redistest.Start(t)
	acquire(t, open(t, server.URL()), wish("orders", agentA, 1))
	acquire(t, open(t, server.URL()+"/1"), wish("orders", agentB, 1))
}

func TestOpenWhereThereIsNoServer(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	refused(t, redisstore.Config{}, server.URL(), lockagent.ErrStoreUnavailable, server.Addr(), "refused")
	refused(t, redisstore.Config{}, "unix://"+server.Socket()+"x", lockagent.ErrStoreUnavailable, "no such file")
	refused(t, redisstore.Config{}, "redis://host.invalid", lockagent.ErrStoreUnavailable, "host.invalid")
}

func TestOpenWhereNobodyAnswers(t *testing.T) {
	server := redistest.Start(t)
	server.Pause()
	refused(
		t, redisstore.Config{DialTimeout: 100 * time.Millisecond}, server.URL(), lockagent.ErrStoreUnavailable,
		server.Addr(),
	)

	cause := errors.New("the caller has no time")
	ctx, cancel := context.WithCancelCause(context.Background())
	opened := make(chan error, 1)
	go func() {
		_, err := redisstore.Config{DialTimeout: time.Hour}.Open(ctx, server.URL())
		opened <- err
	}()
	cancel(cause)
	if err := await(t, opened); !errors.Is(err, lockagent.ErrStoreUnavailable) || !errors.Is(err, cause) {
		t.Errorf("Open with a context that ended: %v", err)
	}
}

func TestOpenWithoutPermission(t *testing.T) {
	server := redistest.Start(t,
		redistest.WithPassword(secret),
		redistest.WithUser("limited", secret, "~* &* +@all -hset"),
		redistest.WithUser("deaf", secret, "~* &* +@all -subscribe"),
		redistest.WithUser("mute", secret, "~* resetchannels +@all"),
		redistest.WithUser("blind", secret, "~orders/* &* +@all"),
		redistest.WithUser("ageless", secret, notSince(documentedRules(t))),
	)
	for _, url := range []string{
		"redis://" + server.Addr(),
		"redis://:wrong" + secret + "@" + server.Addr(),
		server.UserURL("nobody", secret),
		server.UserURL("limited", secret),
		server.UserURL("deaf", secret),
		server.UserURL("mute", secret),
		server.UserURL("blind", secret),
		server.UserURL("ageless", secret),
	} {
		refused(t, redisstore.Config{}, url, lockagent.ErrNotPermitted)
	}
	// Examine finds that out, too, and changes nothing.
	e, err := redisstore.Config{}.Examine(t.Context(), server.UserURL("ageless", secret))
	if err != nil || !errors.Is(e.Scripts, lockagent.ErrNotPermitted) {
		t.Errorf("examined %+v, %v", e, err)
	}
}

// notSince are rules without the key lockagent_since.
func notSince(rules string) string { return strings.Replace(rules, "~lockagent_since* ", "", 1) }

// The rules change later, so that the store cannot look at the server any more. The log says why.
func TestAStoreThatMayNotLook(t *testing.T) {
	rules, log := documentedRules(t), &lines{}
	server := redistest.Start(t, redistest.WithUser("app", secret, rules))
	store := openConfig(
		t, redisstore.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}, server.UserURL("app", secret),
	)
	server.Do(append([]string{"ACL", "SETUSER", "app"}, strings.Fields(notSince(rules))...)...)
	for range 2 {
		if r, err := storetest.Renew(t, store, lockagent.RenewRequest{
			Name: "orders/1", Tenure: wish("orders/1", agentA, 1).Tenure, Lease: time.Minute,
		}); err != nil || r.Held {
			t.Fatalf("renewed %+v, %v", r, err)
		}
		waittest.Until(t, "a warning", func() bool { return strings.Contains(log.String(), "may not look") })
	}
	if text := log.String(); strings.Count(text, "may not look") != 1 {
		t.Errorf("the log says %q", text)
	}
}

// documentedRules are the access rules that the package's documentation gives, without the rule that a user may lack.
func documentedRules(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	sharded, optional := redistest.Sharded(t), false
	for line := range strings.Lines(string(doc)) {
		line, code := strings.CutPrefix(line, "//\t")
		switch {
		case !code || !strings.HasPrefix(line, "reset") && !strings.ContainsAny(line[:1], "~&+"):
		case strings.TrimSpace(line) == "+info":
			optional = true
		case sharded || !strings.HasPrefix(line, "+spublish"):
			rules = append(rules, strings.Fields(line)...)
		}
	}
	if len(rules) < 20 || !optional {
		t.Fatalf("found only the rules %q, and that +info is optional: %v", rules, optional)
	}
	return strings.Join(rules, " ")
}

func TestDocumentedRulesAreEnough(t *testing.T) {
	rules := documentedRules(t)
	server := redistest.Start(t, redistest.WithUser("app", secret, rules))
	store := open(t, server.UserURL("app", secret))
	sub := storetest.Subscribe(t, store, "orders/1")
	wakes(t, sub, store, "orders/1")

	// What is beyond the rules is denied, and only that.
	mine, theirs := wish("orders/2", agentA, 1), wish("theirs", agentA, 1)
	acquire(t, store, mine)
	_, err := storetest.Acquire(t, store, theirs)
	if !errors.Is(err, lockagent.ErrNotPermitted) {
		t.Errorf("Acquire of a lock beyond the rules: %v", err)
	}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			req := mine
			if i%2 == 1 {
				req = theirs
			}
			reply, err := storetest.Renew(t, store, lockagent.RenewRequest{
				Name: req.Name, Tenure: req.Tenure, Lease: req.Lease,
			})
			if i%2 == 0 && (err != nil || !reply.Held) || i%2 == 1 && !errors.Is(err, lockagent.ErrNotPermitted) {
				t.Errorf("Renew(%q) = %+v, %v", req.Name, reply, err)
			}
		})
	}
	all.Wait()
}

func TestDocumentedRulesAreEnoughInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, redistest.WithUser("app", secret, documentedRules(t)))
	store := open(t, cluster.Nodes[0].UserURL("app", secret))
	sub := storetest.Subscribe(t, store, "orders/1")
	wakes(t, sub, store, "orders/1")
	home, away := cluster.NodeOf("orders/1"), cluster.NodeOf(string(somewhereElse(cluster, cluster.NodeOf("orders/1"))))
	cluster.BeginMove("orders/1", home, away)()
	wakes(t, sub, store, "orders/1")
}

// A user who may not hear of passes learns of it when the store opens.
func TestOpenAClusterWithoutTheChannelOfPasses(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	rules := strings.Replace(documentedRules(t), "&lockagent_*", "&lockagent_agents* &lockagent_agent:rehearsal", 1)
	cluster := redistest.StartCluster(t, 1, redistest.WithUser("app", secret, rules))
	refused(
		t, redisstore.Config{}, cluster.Nodes[0].UserURL("app", secret), lockagent.ErrNotPermitted,
		"subscribe to lockagent_agent:rehearsal:",
	)
}

// The rules change later. Those who wait are told nothing then, so they are to ask again and again. The log says why.
func TestWaitersAskIfTheyMayNotHear(t *testing.T) {
	t.Parallel()
	rules := documentedRules(t)
	cluster := redistest.StartCluster(t, 1, redistest.WithUser("app", secret, rules))
	node := cluster.Nodes[0]
	for channel, denied := range map[string]string{
		"lockagent_agent:": strings.Replace(
			rules, "&lockagent_*", "&lockagent_agents* &lockagent_agent:"+string(agentA), 1,
		),
		"redisson_lock__channel:": strings.Replace(rules, "&redisson_lock__channel*", "", 1),
	} {
		log := &lines{}
		store := openConfig(
			t, redisstore.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}, node.UserURL("app", secret),
		)
		defer store.Listen(agentA, func(lockagent.Message) {})()
		var woken atomic.Int32
		defer store.Subscribe("orders/1", lockagent.PlainLock, func() { woken.Add(1) })()
		waittest.Until(t, "the subscription to stand", func() bool { return woken.Load() > 0 })
		before := woken.Load()
		node.Do(append([]string{"ACL", "SETUSER", "app"}, strings.Fields(denied)...)...)
		waittest.Until(t, "the waiter to be asked to ask, without "+channel, func() bool {
			return woken.Load() >= before+4
		})
		if text := log.String(); strings.Count(text, "may not subscribe") != 1 || !strings.Contains(text, channel) {
			t.Errorf("the log says %q", text)
		}
		node.Do(append([]string{"ACL", "SETUSER", "app"}, strings.Fields(rules)...)...)
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestDocumentedRulesAreEnoughForSentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, redistest.WithUser("app", secret, documentedRules(t)))
	sentinel.Watcher.Do(
		"ACL", "SETUSER", "watcher", "on", ">"+secret, "allchannels", "-@all", "+sentinel", "+subscribe", "+ping",
	)
	url := strings.Replace(sentinel.URL(), "redis://", "redis://app:"+secret+"@", 1)
	url += "&sentinel_user=watcher&sentinel_password=" + secret
	store := open(t, url)
	wakes(t, storetest.Subscribe(t, store, "orders/1"), store, "orders/1")
}

func TestOpenWhatDoesNotFit(t *testing.T) {
	server := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithConfig("replicaof "+strings.Replace(server.Addr(), ":", " ", 1)))
	refused(t, patient, replica.URL(), lockagent.ErrStoreUnavailable, "READONLY")
	refused(t, redisstore.Config{}, server.URL()+"/99", lockagent.ErrBadURL, "no database 99")
	refused(
		t, redisstore.Config{}, server.URL()+"?addr="+replica.Addr(), lockagent.ErrBadURL, "several addresses",
		"master_set",
	)
	refused(t, redisstore.Config{}, server.URL()+"?master_set=m", lockagent.ErrBadURL, "no Sentinel")
}

func TestOpenWithABadConfig(t *testing.T) {
	config := redisstore.Config{DialTimeout: -1, CallTimeout: -1, ClientName: "a b"}
	refused(t, config, "redis://localhost", lockagent.ErrBadOption, "DialTimeout", "CallTimeout", "ClientName")
}

func TestOpenTooOldAServer(t *testing.T) {
	for _, version := range []string{"6.0.16", "6.1.240", "5 or less", "unstable"} {
		refused(
			t, redisstore.Config{}, "redis://"+fakeServer(t, version), lockagent.ErrStoreUnavailable, version,
			"6.2 or newer",
		)
	}
}

// fakeServer answers like a server of some version, as far as that is asked for.
func fakeServer(t *testing.T, version string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { fakeAnswers(c, version) })
		}
	})
	return l.Addr().String()
}

func fakeAnswers(c net.Conn, version string) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch strings.ToUpper(args[0]) {
		case "HELLO":
			if version == "5 or less" {
				reply = "-ERR unknown command `HELLO`, with args beginning with: \r\n"
				break
			}
			reply = fmt.Sprintf(
				"%%3\r\n$7\r\nversion\r\n$%d\r\n%s\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$5\r\nproto\r\n:3\r\n",
				len(version), version,
			)
		case "CLUSTER":
			reply = "-ERR This instance has cluster support disabled\r\n"
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}
