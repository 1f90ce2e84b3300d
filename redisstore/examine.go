package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// Examination is what [Config.Examine] finds out about Redis, for an operator. The zero Examination says that nothing
// was found.
type Examination struct {
	Version string // of the server that answered first, such as "7.2.4"
	Mode    string // what that server is: "standalone", "cluster" or "sentinel"

	// Unfit is why the servers cannot be used at all, or nil. The errors are those of [Config.Open].
	Unfit error
	// Scripts is why the scripts of the store cannot run, or nil.
	Scripts error
	// Messages is why messages cannot be received, or nil.
	Messages error

	// Watched says that Sentinels watch the master, so another server may become the master.
	Watched bool
	Masters []Master
}

// Master is what one master says of itself.
type Master struct {
	Addr string
	Err  error // why it says nothing: often it may not be asked. The fields below are zero then.

	MaxMemory int64  // in bytes; 0 is no limit
	Policy    string // for what happens at the limit, such as "noeviction"

	AppendOnly bool
	// Saves says when snapshots are written, as in the configuration of Redis: it is empty if there are none. SavesErr
	// is why that is not known, or nil.
	Saves    string
	SavesErr error

	Replicas int // that are connected
	// GoodReplicas counts those without which the master refuses to write. It is -1 if it never refuses:
	// min-replicas-to-write is 0.
	GoodReplicas int
}

// Examine looks at the Redis that a URL names, and tells what an operator may want to mend. It changes nothing but
// keys of its own that it removes. ctx bounds it, and so does DialTimeout. The error is that of [Config.Open] if
// nothing could be found out.
func (c Config) Examine(ctx context.Context, url string) (*Examination, error) {
	var e *Examination
	err := c.reach(ctx, "examine", "no answer", url, func(ctx context.Context, c Config, a address) (err error) {
		e, err = c.examine(ctx, a)
		return err
	})
	return e, err
}

func (c Config) examine(ctx context.Context, a address) (_ *Examination, err error) {
	s := c.unconnected(a)
	defer s.end()
	if s.servers, err = transport.Connect(ctx, c.transport(a, s.incarnations.suspect)); err != nil {
		return nil, clientError(err, a)
	}
	defer s.servers.Close()
	defer context.AfterFunc(ctx, s.servers.Close)() // not all that follows takes a context
	found := s.servers.Greeting()
	e := &Examination{Version: found.Version, Mode: found.Mode, Watched: s.servers.Watched()}
	if e.Unfit = s.fit(c, a); e.Unfit != nil {
		return e, nil
	}
	s.start()
	e.Scripts = s.elsewhere(ctx, s.rehearseScripts)
	e.Messages = s.elsewhere(ctx, s.rehearseTopics)
	for _, node := range s.servers.Masters() {
		e.Masters = append(e.Masters, s.ask(ctx, node))
	}
	return e, nil
}

// ask asks a master about itself.
func (s *Store) ask(ctx context.Context, node *transport.Node) Master {
	m := Master{Addr: node.Addr(), GoodReplicas: -1}
	info, err := node.Ask(ctx, "INFO").Text()
	if err != nil {
		m.Err = transport.Error(err)
		return m
	}
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(infoField(info, field), 10, 64) // a field that is not there is 0
		return n
	}
	m.MaxMemory, m.Policy = number("maxmemory"), infoField(info, "maxmemory_policy")
	m.AppendOnly = number("aof_enabled") == 1
	m.Replicas = int(number("connected_slaves"))
	if infoField(info, "min_slaves_good_slaves") != "" {
		m.GoodReplicas = int(number("min_slaves_good_slaves"))
	}
	config, err := node.Ask(ctx, "CONFIG", "GET", "save").Texts()
	if err != nil && !errors.Is(err, transport.ErrNull) {
		m.SavesErr = transport.Error(err)
	}
	m.Saves = config["save"]
	return m
}

// elsewhere tries something with a lock, and in a Cluster with locks of other slots, until a node is up.
func (s *Store) elsewhere(ctx context.Context, try func(context.Context, lockagent.Name) error) (err error) {
	const tries = 10
	for range tries {
		err = try(ctx, lockagent.Name(rand.Text()))
		if !s.servers.Slotted() || !errors.Is(err, lockagent.ErrStoreUnavailable) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// rehearseScripts runs all commands that locks need, but for messages.
func (s *Store) rehearseScripts(ctx context.Context, name lockagent.Name) error {
	var c script.Call
	s.room.Rehearse(&c, name, s.shard(s.slot(name)).home)
	if _, err := s.await(&c, s.slot(name)); err != nil {
		return err
	}
	return s.rehearseReplicas(ctx, s.slot(name))
}

// rehearseTopics subscribes to every form of channel that locks need.
func (s *Store) rehearseTopics(ctx context.Context, name lockagent.Name) error {
	topics := []transport.Topic{{Channel: script.AgentChannel("rehearsal"), Slot: s.slot(name)}}
	topics = append(topics, s.topic(script.Channel(name), name, false))
	if s.room == script.Sharded {
		topics = append(topics, s.topic(script.AgentChannelOf("rehearsal", name), name, true))
	}
	if s.room.Queues() {
		topics = append(topics, s.topic(script.AgentsChannel(name), name, true))
	}
	for _, topic := range topics {
		if err := s.servers.TryTopic(ctx, topic); err != nil {
			return fmt.Errorf("subscribe to %s: %w", topic.Channel, err)
		}
	}
	return nil
}
