package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

const (
	// The oldest server that is known to do.
	oldestMajor, oldestMinor = 6, 2

	// keepAlive is after how much silence a connection is probed.
	keepAlive = 10 * time.Second

	// topologyInterval is how often the Sentinels are asked for the master even
	// if they did not announce another one: an announcement may be missed.
	topologyInterval = 10 * time.Second

	// maxRedirections is how many nodes of a Cluster may pass a call on.
	maxRedirections = 5
)

// Open connects to Redis with the defaults of [Config]. See [Config.Open].
func Open(ctx context.Context, url string) (*Store, error) { return Config{}.Open(ctx, url) }

// Open connects to the Redis that a URL names, and checks that it can be used. The
// package's documentation lists the forms of URLs. ctx bounds Open, not the store;
// so does DialTimeout. The error is
//
//   - [lockagent.ErrBadURL] if the URL is wrong, or does not fit what is there: the
//     text says what to write instead, and never repeats a password;
//   - [lockagent.ErrBadOption] if a field of the Config is;
//   - [lockagent.ErrNotPermitted] if the password is wrong, or the user may not run
//     a command that the store needs;
//   - [lockagent.ErrStoreUnavailable] if there is no Redis, or an unfit one: it did
//     not answer in time, is older than 6.2, is a replica.
func (c Config) Open(ctx context.Context, url string) (*Store, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	a, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redisstore: open: %w", err)
	}
	c = c.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, c.DialTimeout, fmt.Errorf("not ready within %v", c.DialTimeout))
	defer cancel()
	s, err := c.connect(ctx, a)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", lockagent.ErrStoreUnavailable, context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: open %s: %w", strings.Join(a.hosts, ", "), err)
	}
	return s, nil
}

func (c Config) connect(ctx context.Context, a address) (*Store, error) {
	s := &Store{bound: c.CallTimeout, incarnations: newIncarnations(a.masterSet != "")}
	s.life, s.end = context.WithCancel(context.Background())
	// The client does not take a context. What it does ends with the store's life.
	inTime := context.AfterFunc(ctx, s.end)
	if err := s.meet(ctx, c, a); err != nil {
		s.end()
		s.disconnect()
		return nil, err
	}
	s.start()
	err := s.tryOut(ctx)
	if err == nil && !inTime() {
		err = ctx.Err()
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// meet connects, finds out what is there, and sets the store up for it.
func (s *Store) meet(ctx context.Context, c Config, a address) error {
	s.dialer = newDialer(a.network, s.life, s.incarnations.suspect)
	option := c.options(a, s.dialer)
	// One address is that of a server, or of one node of a Cluster. The client can
	// tell them apart as well, but only by what goes wrong.
	option.ForceSingleClient = len(a.hosts) == 1 && a.masterSet == ""
	server, err := s.use(ctx, option, a)
	if err != nil {
		return err
	}
	if server.mode == "cluster" && option.ForceSingleClient {
		s.client.Close()
		option.ForceSingleClient = false
		if server, err = s.use(ctx, option, a); err != nil {
			return err
		}
	}
	s.cluster = server.mode == "cluster"
	s.carrier = s.client
	if !s.cluster && a.masterSet == "" {
		option := direct(option, c)
		option.DialCtxFn = s.dialer.dialDirect
		s.direct, s.queues = true, true
		if s.carrier, err = rueidis.NewClient(option); err != nil {
			return storeError(err)
		}
	}
	return s.chooseWire(c, server.version)
}

// server is what a server says of itself.
type server struct{ version, mode string }

// use connects a client and asks the server what it is.
func (s *Store) use(ctx context.Context, option rueidis.ClientOption, a address) (server, error) {
	client, err := rueidis.NewClient(option)
	s.client = client // there may be one in spite of an error, which has to be closed
	if err != nil {
		return server{}, clientError(err, a)
	}
	found, err := s.hello(ctx)
	if err != nil {
		return server{}, storeError(err)
	}
	if found.mode == "sentinel" {
		return server{}, badURL("there is a Sentinel; write what it calls the master, redis://%s?master_set=mymaster", a.hosts[0])
	}
	if !atLeast(found.version, oldestMajor, oldestMinor) {
		return server{}, fmt.Errorf("%w: the server is version %s; %d.%d or newer is needed", lockagent.ErrStoreUnavailable, found.version, oldestMajor, oldestMinor)
	}
	return found, nil
}

// hello asks the nodes until one answers: in a Cluster some may be down.
func (s *Store) hello(ctx context.Context) (found server, err error) {
	for _, node := range s.client.Nodes() {
		var hello map[string]string
		hello, err = node.Do(ctx, node.B().Arbitrary("HELLO", "3").Build()).AsStrMap()
		switch {
		case err == nil:
			return server{version: hello["version"], mode: hello["mode"]}, nil
		case strings.Contains(err.Error(), "unknown command"):
			return server{version: "5 or less"}, nil
		}
	}
	return server{}, err
}

// tryOut does once what the store is going to do, and then has the incarnation
// watched.
func (s *Store) tryOut(ctx context.Context) error {
	s.wire.locate(ctx, "")
	if err := s.rehearse(ctx); err != nil {
		return err
	}
	look := s.lookAtServer
	if s.cluster {
		look = (&nodes{client: s.client, bound: s.bound, incarnations: s.incarnations}).look
	}
	s.incarnations.settled()
	if err := look(ctx); err != nil {
		if !s.cluster {
			return err
		}
		s.incarnations.suspect() // those nodes that are down are looked at again
	}
	s.runs.Go(func() { s.incarnations.run(s.life, look) })
	return nil
}

// clientError says what it means that the client could not be set up.
func clientError(err error, a address) error {
	text := err.Error()
	says := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case says("SELECT is not allowed in cluster mode"):
		return badURL("a Cluster has only database 0; leave the database out")
	case says("DB index is out of range"):
		return badURL("the server has no database %d; write a smaller number, or leave it out", a.database)
	case a.masterSet != "" && (says("No such master") || rueidis.IsRedisNil(err)):
		return badURL("the Sentinels watch no master that is called %q; SENTINEL MASTERS lists those they do", a.masterSet)
	case a.masterSet != "" && says("unknown command"):
		return badURL("there is no Sentinel; leave master_set out, or write the address of a Sentinel, such as redis://sentinel:26379?master_set=%s", a.masterSet)
	case len(a.hosts) > 1 && says("cluster support disabled"):
		return badURL("several addresses are for the nodes of a Cluster, and there is none; write one address, or those of Sentinels and ?master_set=mymaster")
	}
	return storeError(err)
}

// atLeast compares the version of a server. One that is not a version is too low.
func atLeast(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	return err == nil && err2 == nil && (a > major || a == major && b >= minor)
}

func (s *Store) chooseWire(c Config, version string) error {
	s.publish, s.wire = "PUBLISH", classicWire{s.client}
	shards := atLeast(version, 7, 0)
	switch {
	case !s.cluster || c.Sharded == ShardedOff || c.Sharded == ShardedAuto && !shards:
		return nil
	case !shards:
		return &lockagent.OptionError{Option: "redisstore.Config.Sharded", Reason: fmt.Sprintf("the server is version %s, which has no sharded messages; use ShardedAuto", version)}
	}
	s.sharded = true
	s.publish, s.wire = "SPUBLISH", &shardedWire{client: s.client, ask: func(name lockagent.Name) {
		_, _ = s.await(string(name), &call{script: inspectScript, keys: []string{string(name)}})
	}}
	return nil
}

// rehearse runs all commands that the store is going to need. In a Cluster it does
// so on some node that is up.
func (s *Store) rehearse(ctx context.Context) (err error) {
	const tries = 10 // each with another slot
	for range tries {
		err = s.rehearseOnce(ctx, lockagent.Name(rand.Text()))
		if !s.cluster || !errors.Is(err, lockagent.ErrStoreUnavailable) || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (s *Store) rehearseOnce(ctx context.Context, name lockagent.Name) error {
	key, messages := new(text).rehearsalKey(name), channel(name)
	channels := []string{messages}
	if s.queues {
		channels = append(channels, passChannel(s.subscriptions.id))
	}
	if _, err := s.await(key, &call{script: rehearseScript, keys: []string{key}, args: append([]string{s.publish}, channels...)}); err != nil {
		return err
	}
	conn, err := s.wire.connect(s.wire.node(slot(key)))
	if err != nil {
		return storeError(err)
	}
	defer conn.Close()
	for _, channel := range channels {
		for _, command := range []rueidis.Completed{s.wire.subscribe(conn.B(), channel), s.wire.unsubscribe(conn.B(), channel)} {
			if err := conn.Do(ctx, command).Error(); err != nil {
				return storeError(err)
			}
		}
	}
	return nil
}

// lookAtServer asks the server for its incarnation.
func (s *Store) lookAtServer(ctx context.Context) error {
	epoch := s.incarnations.known()
	m, err := s.await(incarnationKey, &call{script: incarnationScript, keys: []string{incarnationKey}})
	if err != nil {
		return err
	}
	r := readReply(m)
	name, at := r.text(), lockagent.StoreTime(r.number())
	if r.err != nil {
		return malformed(r.err)
	}
	s.incarnations.observe(name, at, epoch)
	return s.watch(ctx)
}

// watch sees to it that there is a connection whose loss is noticed at once, also
// while nobody calls.
func (s *Store) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	return s.client.Do(ctx, s.client.B().Ping().Build()).NonRedisError()
}

// options are those of the client.
func (c Config) options(a address, d *dialer) rueidis.ClientOption {
	option := rueidis.ClientOption{
		InitAddress:      a.hosts,
		Username:         a.user,
		Password:         a.password,
		SelectDB:         a.database,
		ClientName:       c.ClientName,
		ClientSetInfo:    rueidis.DisableClientSetInfo, // not every user may
		Dialer:           net.Dialer{Timeout: c.DialTimeout, KeepAlive: keepAlive},
		ConnWriteTimeout: c.DialTimeout, // for the answer to a probe
		DialCtxFn:        d.dial,
		// Whoever asked decides whether to ask again.
		DisableRetry: true,
		DisableCache: true,
		// A connection that is lost while nobody calls is noticed at once.
		AlwaysPipelining: true,
		// One connection to a node is enough for lanes that fill it.
		PipelineMultiplex: -1,
		ClusterOption:     rueidis.ClusterOption{MaxMovedRedirections: maxRedirections},
	}
	if a.tls {
		option.TLSConfig = c.tls(a)
	}
	if a.masterSet != "" {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet:               a.masterSet,
			Username:                a.sentinelUser,
			Password:                a.sentinelPassword,
			ClientName:              c.ClientName,
			Dialer:                  option.Dialer,
			TLSConfig:               option.TLSConfig,
			TopologyRefreshInterval: topologyInterval,
		}
	}
	return option
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
