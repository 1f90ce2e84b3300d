package natslog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// forwardTimeout is how long an answer may take, that to a batch of [forwardBatchBytes] too.
const forwardTimeout = 10 * time.Second

// forwardSession is what a [Forwarder] knows while nothing goes wrong. It is made of what the two
// streams say, and thrown away with its connections after any error.
type forwardSession struct {
	f   *Forwarder
	ctx context.Context // ends with the session; its cause says why

	source, hub *forwardEnd
	leader      jetstream.Stream // of the source; see [leaderOf]
	origin      string           // of the source; see [originOf]
	atomic      bool             // the hub takes batches

	marks map[lockagent.AgentID]mark
	next  uint64       // where the next message of the source should stand
	gone  events.Range // what the source discarded behind the batch; Last is 0 if there is nothing

	lost      events.Range // what the next copy will say is lost, discarded or refused; Last is 0 if there is nothing
	discarded uint64       // messages of it that the source discarded

	reader *forwardReader
	held   jetstream.Msg // read, but not looked at yet; or nil
	batch  []entry       // its memory is used again

	id      string // names this session to the hub
	inbox   string // answers of the hub go to <inbox>.<number of what was sent>
	answers chan *nats.Msg
	sent    uint64
}

// session forwards until something is wrong, and returns what it was.
func (f *Forwarder) session(parent context.Context) error {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	s := &forwardSession{
		f:       f,
		ctx:     ctx,
		marks:   make(map[lockagent.AgentID]mark),
		next:    1,
		id:      rand.Text(),
		answers: make(chan *nats.Msg, 4),
	}
	var err error
	if s.source, err = openEnd(SourceEnd, &f.cfg.Source, fail); err != nil {
		return err
	}
	defer s.source.close()
	if s.hub, err = openEnd(HubEnd, &f.cfg.Hub, fail); err != nil {
		return err
	}
	defer s.hub.close()
	err = s.run()
	if cause := context.Cause(ctx); cause != nil {
		return cause // it is why err is
	}
	return err
}

// run never returns nil.
func (s *forwardSession) run() error {
	if err := s.open(); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return atEnd(HubEnd, err)
	}
	if err := s.resume(); err != nil {
		return err
	}
	var err error
	if s.reader, err = s.read(s.next); err != nil {
		return atEnd(SourceEnd, err)
	}
	defer s.reader.stop()
	for {
		s.f.reach(s.next - 1)
		batch, err := s.gather()
		if err != nil {
			return err
		}
		if err := s.store(batch); err != nil {
			return err
		}
		if s.gone.Last > 0 {
			s.lose(s.gone)
			s.discarded += s.gone.Last - s.gone.First + 1
		}
	}
}

// lose notes that messages of the source are lost, which stood behind all that the hub has.
func (s *forwardSession) lose(lost events.Range) {
	if s.lost.Last == 0 {
		s.lost.First = lost.First
	}
	s.lost.Last = lost.Last
}

// copied notes that the hub has a copy that says what is lost.
func (s *forwardSession) copied() {
	if n := s.discarded; n > 0 {
		s.f.count(func(st *ForwardStats) { st.Discarded += n })
		s.f.complain(slog.LevelError, "events: messages were discarded before they were forwarded",
			"messages", n, "first", s.lost.First, "last", s.lost.Last, "all", s.f.Stats().Discarded)
	}
	s.lost, s.discarded = events.Range{}, 0
}

// refused notes that the hub does not have e, and will not.
func (s *forwardSession) refused(e entry, why error) {
	s.lose(events.Range{First: e.position, Last: e.position})
	if e.position <= s.f.known.refused {
		return // an earlier session was told so
	}
	s.f.known.refused = e.position
	s.f.count(func(st *ForwardStats) {
		st.Refused++
		st.Behind = e.pending
	})
	s.f.complain(
		slog.LevelError, "events: the hub refused a message", "subject", e.msg.Subject, "id", e.id, "err", why, "all",
		s.f.Stats().Refused,
	)
}

// open finds both streams.
func (s *forwardSession) open() error {
	var err error
	if s.source.stream, err = s.source.find(s.ctx, findStream); err == nil {
		s.leader, err = s.source.find(s.ctx, leaderOf)
	}
	if err != nil {
		return atEnd(SourceEnd, err)
	}
	s.hub.stream, err = s.hub.find(s.ctx, findStream)
	if errors.Is(err, ErrNoStream) {
		err = s.makeHub()
	}
	if err != nil {
		return atEnd(HubEnd, err)
	}
	source, hub := s.source.stream.CachedInfo(), s.hub.stream.CachedInfo()
	all := s.hub.cfg.Prefix + ".>"
	if flaw := askFlaw(s.ctx, s.hub.js, &hub.Config, all, all); flaw != nil {
		return atEnd(HubEnd, flaw)
	}
	made := s.f.cfg.hubStream()
	want := made.stream()
	if differ := differences(&hub.Config, &want); differ != "" && differ != s.f.warned {
		s.f.warned = differ
		s.f.cfg.Logger.Warn(
			"events: the stream of the hub has weaker settings than a new one would have; it is left as it is", "stream",
			hub.Config.Name, "settings", differ,
		)
	}
	if source.Config.Name == hub.Config.Name && source.Created.Equal(hub.Created) {
		return atEnd(HubEnd, errSameStream)
	}
	s.origin = events.OriginOf(source.Created)
	s.atomic = hub.Config.AllowAtomicPublish
	if !s.atomic && !s.f.singly {
		s.f.singly = true
		s.f.cfg.Logger.Warn(
			"events: the stream of the hub takes no batches, so each message costs a round trip; set allow_atomic in its "+
				"configuration",
			"stream", hub.Config.Name,
		)
	}
	return nil
}

func (s *forwardSession) makeHub() (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, forwardTimeout)
	defer cancel()
	made := s.f.cfg.hubStream()
	want := made.stream()
	if s.hub.stream, err = createStream(ctx, s.hub.js, want); err == nil {
		made.logUrgent(makeUrgent(ctx, s.hub.js, &want, made.Prefix))
		s.f.cfg.Logger.Info("events: the stream of the hub is made",
			"stream", made.Stream, "max_bytes", made.MaxBytes, "max_age", made.MaxAge, "replicas", made.Replicas)
	}
	return s.hub.explain(err)
}

// listen subscribes to the answers of the hub.
func (s *forwardSession) listen() error {
	nc := s.hub.nc
	if v := nc.ConnectedServerVersion(); tooOld(v) {
		return fmt.Errorf("it runs nats-server %s; forwarding needs 2.11 or later", v)
	}
	if err := checkPayload(nc); err != nil {
		return err
	}
	s.inbox = nc.NewInbox()
	_, err := nc.Subscribe(s.inbox+".*", func(m *nats.Msg) {
		select {
		case s.answers <- m:
		case <-s.ctx.Done():
		}
	})
	return err
}

// tooOld reports whether a server of version v cannot compare the last message of an agent with
// what we expect. An unknown version is not too old.
func tooOld(v string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(v, "%d.%d", &major, &minor); n < 2 {
		return false
	}
	return major < 2 || major == 2 && minor < 11
}
