package events

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
)

// discarded tells the hub what the source removed before it was forwarded.
func (s *forwardSession) discarded() error {
	if err := s.tell(s.lost); err != nil {
		return err
	}
	n := s.lost.Last - s.lost.First + 1
	s.f.count(func(st *ForwardStats) { st.Discarded += n })
	s.f.complain(slog.LevelError, "events: messages were discarded before they were forwarded",
		"messages", n, "first", s.lost.First, "last", s.lost.Last, "all", s.f.Stats().Discarded)
	return nil
}

// refused tells the hub that it does not have e, and will not.
func (s *forwardSession) refused(e entry, why error) error {
	if err := s.tell(Range{e.position, e.position}); err != nil {
		return err
	}
	s.f.count(func(st *ForwardStats) {
		st.Refused++
		st.Behind = e.pending
	})
	s.f.complain(slog.LevelError, "events: the hub refused a message", "subject", e.msg.Subject, "id", e.id, "err", why, "all", s.f.Stats().Refused)
	return nil
}

// tell tells the hub which messages of the source are lost. The hub has all before them, and nothing
// behind them. The holes in the numbers of the agents show most of
// it, but not an agent of which nothing at all is left. A forwarder cannot use the numbers of an
// agent. So each loss becomes a short life of an agent that stands for the source. It starts. As many of
// its records are missing as messages are lost. It says that they were dropped, and stops.
func (s *forwardSession) tell(lost Range) error {
	before, err := s.mark(s.teller)
	if err != nil {
		return err
	}
	n, now := lost.Last-lost.First+1, time.Now()
	// Each life has an epoch of its own. If the hub has removed the earlier ones, it begins with a number
	// that they did not reach.
	epoch := before.id.epoch + 1
	if before.id.epoch == 0 {
		epoch = uint64(now.Unix())
	}
	s.lastLoss = lost.Last
	host, _ := os.Hostname() // empty if it is not known
	tell := func(seq, position uint64, r Record) entry {
		r.Epoch, r.Seq = epoch, seq
		r.Agent, r.Time = s.teller, now
		return s.record(r, position)
	}
	return s.store([]entry{
		// It does not say what it follows: it counts no lives, and an audit shall not miss any.
		tell(1, lost.First-1, Record{Event: lockagent.Event{
			Kind:    lockagent.EventAgentStarted,
			Process: lockagent.Process{Host: host, Program: filepath.Base(os.Args[0]), PID: os.Getpid()},
		}}),
		// A later session that finds this message goes on behind the lost ones.
		tell(n+2, lost.Last, Record{Event: lockagent.Event{
			Kind: lockagent.EventDropped,
			Err: fmt.Sprintf("%d messages were not forwarded, from %d to %d of stream %s: it discarded them before, or the hub refused them",
				n, lost.First, lost.Last, s.source.cfg.Stream),
		}}),
		tell(n+3, lost.Last, Record{Event: lockagent.Event{Kind: lockagent.EventAgentStopped}}),
	})
}

// endTale ends the last life of the teller, if a session ended in the middle of it. The next loss, or the
// rest of that one, is another life.
func (s *forwardSession) endTale() error {
	k := s.marks[s.teller]
	if !k.unended {
		return nil
	}
	return s.store([]entry{s.record(Record{
		Event: lockagent.Event{Kind: lockagent.EventAgentStopped, Agent: s.teller, Time: time.Now()},
		Epoch: k.id.epoch, Seq: k.id.last + 1,
	}, k.position)})
}

// record returns r as a message of the teller. position says up to where it concludes the source.
func (s *forwardSession) record(r Record, position uint64) entry {
	e := entry{id: messageID{agent: r.Agent, epoch: r.Epoch, first: r.Seq, last: r.Seq}, position: position}
	e.msg.Subject = string(AppendSubject(nil, s.hub.cfg.Prefix, r.Agent, r.Kind, r.Lock))
	e.msg.Data = Append(nil, r)
	e.msg.Header = nats.Header{
		"Content-Type":        {ContentType},
		jetstream.MsgIDHeader: {e.id.String()},
		originHeader:          {s.place(position)},
	}
	return e
}
