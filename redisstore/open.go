package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// The oldest version of Redis that has all commands the store needs.
const oldestMajor, oldestMinor = 6, 2

// Open connects to Redis with the defaults of [Config]. See [Config.Open].
func Open(ctx context.Context, url string) (*Store, error) { return Config{}.Open(ctx, url) }

// Open connects to the Redis that a URL names, and checks that it can be used. The
// package's documentation lists the forms of URLs. ctx bounds Open, not the store;
// so does DialTimeout. The error is
//
//   - [lockagent.ErrBadURL] if the URL is wrong, or does not fit the servers: the
//     text says what to write instead, and never repeats a password;
//   - [lockagent.ErrBadOption] if a field of the Config is wrong;
//   - [lockagent.ErrNotPermitted] if the password is wrong, or the user may not run
//     a command that the store needs;
//   - [lockagent.ErrStoreUnavailable] if there is no Redis, or it did not answer in
//     time, is older than 6.2, or is a replica.
func (c Config) Open(ctx context.Context, url string) (*Store, error) {
	var s *Store
	err := c.reach(ctx, "open", "not ready", url, func(ctx context.Context, c Config, a address) (err error) {
		s, err = c.connect(ctx, a)
		return err
	})
	return s, err
}

// reach checks the Config and the URL, and carries something out within the DialTimeout. verb and late are for the
// errors.
func (c Config) reach(
	ctx context.Context, verb, late, url string, do func(context.Context, Config, address) error,
) error {
	if err := c.validate(); err != nil {
		return err
	}
	a, err := parseURL(url)
	if err != nil {
		return fmt.Errorf("redisstore: %s: %w", verb, err)
	}
	c = c.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, c.DialTimeout, fmt.Errorf("%s within %v", late, c.DialTimeout))
	defer cancel()
	err = do(ctx, c, a)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", lockagent.ErrStoreUnavailable, lockagent.CauseOf(ctx))
	}
	if err != nil {
		err = fmt.Errorf("redisstore: %s %s: %w", verb, strings.Join(a.hosts, ", "), err)
	}
	return err
}

func (c Config) connect(ctx context.Context, a address) (*Store, error) {
	s := c.unconnected(a)
	var err error
	config := c.transport(a, s.incarnations.suspect)
	config.Meet = s.meet
	if s.servers, err = transport.Connect(ctx, config); err != nil {
		return nil, clientError(err, a)
	}
	inTime := context.AfterFunc(ctx, s.servers.Close) // not all that follows takes a context
	if err = s.fit(c, a); err == nil {
		s.start()
		err = s.tryOut(ctx)
	}
	if err == nil && !inTime() {
		err = ctx.Err()
	}
	if err != nil {
		s.end()
		s.servers.Close()
		return nil, err
	}
	return s, nil
}

// unconnected is a store without servers.
func (c Config) unconnected(a address) *Store {
	s := &Store{
		bound: c.CallTimeout, database: a.database, minReplicas: c.MinReplicas, logger: c.Logger,
		incarnations: newIncarnations(),
	}
	s.roll.off, s.roll.first = c.Grace == GraceOff, max(c.GraceFirst, 0)
	s.identity.given = string(lockagent.NewAgentID()) // a random UUID
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// fit chooses how scripts and messages travel. It returns an error if the servers do not fit the
// URL or the Config, or are too old.
func (s *Store) fit(c Config, a address) error {
	found := s.servers.Greeting()
	switch {
	case found.Mode == "sentinel":
		return badURL("there is a Sentinel; write what it calls the master, redis://%s?master_set=mymaster", a.hosts[0])
	case !atLeast(found.Version, oldestMajor, oldestMinor):
		return fmt.Errorf("%w: the server is version %s; %d.%d or newer is needed",
			lockagent.ErrStoreUnavailable, found.Version, oldestMajor, oldestMinor)
	case len(a.hosts) > 1 && a.masterSet == "" && !s.servers.Cluster():
		return badURL("several addresses are for the nodes of a Cluster, and there is none; write one address, or " +
			"those of Sentinels and ?master_set=mymaster")
	}
	switch {
	case s.servers.Cluster() && atLeast(found.Version, 7, 0):
		s.room = script.Sharded
	case s.servers.Cluster(), s.servers.Slotted():
		s.room = script.Unqueued
	default:
		s.room = script.Single
	}
	if !s.servers.Cluster() {
		s.one = s.incarnations.shard(0, false)
		s.one.whose = strconv.Itoa(s.database)
	}
	return nil
}

// tryOut runs every command once, logs warnings, and starts to watch the incarnation.
func (s *Store) tryOut(ctx context.Context) error {
	if err := s.rehearse(ctx); err != nil {
		return err
	}
	s.warn(ctx)
	look := s.lookAtServers
	if !s.incarnate() {
		look = func(ctx context.Context) error { return s.watch(ctx, s.servers.Master(0)) }
	}
	look = s.looking(look)
	s.looks.Store(true)
	s.incarnations.settled()
	if err := look(ctx); err != nil {
		if !s.room.Cluster() {
			return err
		}
		s.incarnations.suspect() // some nodes are down: look at them again later
	}
	look = s.warning(look)
	s.runs.Go(func() { s.incarnations.run(s.life, look) })
	return nil
}

// clientError translates an error of [transport.Connect].
func clientError(err error, a address) error {
	text := err.Error()
	says := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case says("SELECT is not allowed in cluster mode"):
		return badURL("a Cluster has only database 0; leave the database out")
	case says("DB index is out of range"):
		return badURL("the server has no database %d; write a smaller number, or leave it out", a.database)
	case a.masterSet != "" && (says("No such master") || errors.Is(err, transport.ErrNull)):
		return badURL("the Sentinels watch no master that is called %q; SENTINEL MASTERS lists those they do",
			a.masterSet)
	case a.masterSet != "" && says("unknown command"):
		return badURL("there is no Sentinel; leave master_set out, or write the address of a Sentinel, such as "+
			"redis://sentinel:26379?master_set=%s", a.masterSet)
	}
	return transport.Error(err)
}

// atLeast compares the version of a server. It reports false for a text that is no version.
func atLeast(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	return err == nil && err2 == nil && (a > major || a == major && b >= minor)
}

// rehearse runs all commands that the store needs. In a Cluster it does so on one node
// that is up.
func (s *Store) rehearse(ctx context.Context) error {
	return s.elsewhere(ctx, func(ctx context.Context, name lockagent.Name) error {
		if err := s.rehearseScripts(ctx, name); err != nil {
			return err
		}
		return s.rehearseTopics(ctx, name)
	})
}

// warn logs settings of the servers that are dangerous.
func (s *Store) warn(ctx context.Context) {
	for _, node := range s.servers.Masters() {
		info, err := node.Ask(ctx, "INFO").Text()
		if err != nil {
			continue // no warning then: the user need not have the right to ask
		}
		policy := infoField(info, "maxmemory_policy")
		if limit := infoField(info, "maxmemory"); limit != "" && limit != "0" && policy != "noeviction" {
			s.logger.Warn("lockagent: Redis evicts keys when its memory is full, and with them locks that are held: "+
				"set maxmemory-policy to noeviction",
				"server", node.Addr(), "maxmemory", limit, "maxmemory-policy", policy)
		}
		replicas, err := strconv.Atoi(infoField(info, "connected_slaves"))
		if err == nil && replicas < s.minReplicas {
			s.logger.Warn("lockagent: the master has fewer replicas than MinReplicas demands, so no lock is granted: "+
				"see whether they run and follow",
				"server", node.Addr(), "replicas", replicas, "MinReplicas", s.minReplicas)
		}
		failsOver := s.servers.Watched() || replicas > 0
		if failsOver && s.minReplicas == 0 && infoField(info, "min_slaves_good_slaves") == "" {
			s.logger.Warn("lockagent: a master that is cut off goes on granting and renewing locks for some seconds after a "+
				"failover, and no grace period of the new master prevents that: set MinReplicas to 1, or on the servers "+
				"min-replicas-to-write to 1 and min-replicas-max-lag to 2",
				"server", node.Addr(), "replicas", replicas)
		}
	}
}

// lookAtServers asks each server for its incarnation.
func (s *Store) lookAtServers(ctx context.Context) error {
	masters := s.servers.Masters()
	outcomes := make(chan error, len(masters))
	for _, n := range masters {
		s.lookAt(ctx, n, outcomes)
	}
	var failed error
	for range masters {
		failed = errors.Join(failed, <-outcomes)
	}
	return failed
}

// lookAt asks a server for its incarnation. It does not wait for the outcome.
func (s *Store) lookAt(ctx context.Context, n *transport.Node, outcome chan<- error) {
	slot, serves := s.servers.LastSlot(n)
	if !serves && s.one == nil { // it has no slot any more
		outcome <- nil
		return
	}
	of := s.shard(slot)
	var c script.Call
	take := s.look(&c, of, n, script.Member{}, true)
	s.send(&c, of.slot, func(text string, err error) {
		var seen script.Looked
		if err == nil {
			seen, err = take(text)
		}
		if err != nil {
			outcome <- err
			return
		}
		s.runs.Go(func() {
			err := s.watch(ctx, n)
			if err == nil && seen.Age < 0 { // nobody sees whether it was restarted before the connection was made
				s.incarnations.connected(n.Connected())
			}
			outcome <- err
		})
	})
}

// meet looks at a server by a connection that is to carry calls. Before the first look by Open there are none that
// matter. A node of a Cluster that serves no slot may answer a call for one that moves there.
func (s *Store) meet(n *transport.Node, run func(script *transport.Script, keys, args []string) transport.Reply) error {
	if !s.looks.Load() || !s.incarnate() {
		return nil
	}
	slot, serves := s.servers.LastSlot(n)
	if s.servers.Cluster() && !serves {
		ctx, cancel := context.WithTimeout(s.life, s.bound)
		err := s.servers.RefreshFrom(ctx, n)
		cancel()
		if err != nil {
			return err
		}
		if slot, serves = s.servers.LastSlot(n); !serves {
			return nil
		}
	}
	var c script.Call
	take := s.look(&c, s.shard(slot), n, script.Member{}, true)
	text, err := understood(run((*transport.Script)(c.Script), c.Keys, c.Args), nil)
	if err != nil {
		s.servers.Doubt() // the slot may have moved
		return err
	}
	_, err = take(text)
	return err
}

// await sends a call and waits for the reply.
func (s *Store) await(c *script.Call, slot uint16) (text string, err error) {
	answered := make(chan struct{})
	s.send(c, slot, func(reply string, failed error) {
		text, err = reply, failed
		close(answered)
	})
	<-answered
	return text, err
}

// watch makes sure that there is a connection for questions: its loss is noticed at once, even
// while nobody calls.
func (s *Store) watch(ctx context.Context, n *transport.Node) error {
	ctx, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	err := n.Ask(ctx, "PING").Err()
	if answer := transport.Refusal(""); errors.As(err, &answer) {
		return nil // there is a connection
	}
	return err
}

// transport is the Config of the transport.
func (c Config) transport(a address, changed func()) transport.Config {
	t := transport.Config{
		Network: a.network, Addrs: a.hosts, MasterSet: a.masterSet,
		User: a.user, Password: a.password, Credentials: c.Credentials,
		SentinelUser: a.sentinelUser, SentinelPassword: a.sentinelPassword,
		Database:   a.database,
		Probe:      [2]string{"lockagent_rehearsal:{1}", "lockagent_rehearsal:{2}"},
		ClientName: c.ClientName,
		Dial:       c.DialTimeout, Call: c.CallTimeout, Silence: c.SilenceTimeout,
		Replicas: c.MinReplicas, ReplicaTimeout: c.ReplicaTimeout,
		Changed: changed, Logger: c.Logger,
	}
	if a.tls {
		t.TLS = c.tls(a)
	}
	return t
}

func (c Config) tls(a address) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	if a.skipCheck {
		config.InsecureSkipVerify = true
	}
	return config
}

// infoField returns one field of an INFO reply, or "" if it is not there.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
