package events

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
)

// tell tells the hub which messages are lost. The holes in the numbers of the agents show most of
// it, but not an agent of which nothing at all is left. A forwarder cannot use the numbers of an
// agent. So each loss becomes a short life of an agent that stands for the source. It starts, as
// many of its records are missing as messages are lost, it says that they were dropped, and it stops.
func (s *forwardSession) tell() error {
	before, err := s.mark(s.teller)
	if err != nil {
		return err
	}
	lost, n := s.lost, s.lost.Last-s.lost.First+1
	s.lost = Range{}
	now := time.Now()
	host, _ := os.Hostname() // empty if it is not known
	tell := func(seq, position uint64, r Record) entry {
		// Each life has an epoch of its own. Its numbers cannot be those of an earlier one, not even
		// if the hub has removed that one. The clock need not be right for this.
		r.Epoch, r.Seq = max(uint64(now.Unix()), before.id.epoch+1), seq
		r.Agent, r.Time = s.teller, now
		return s.record(r, position)
	}
	return s.store([]entry{
		tell(1, lost.First-1, Record{
			Event: lockagent.Event{
				Kind:    lockagent.EventAgentStarted,
				Process: lockagent.Process{Host: host, Program: filepath.Base(os.Args[0]), PID: os.Getpid()},
			},
			Follows: Place{before.id.epoch, before.id.last},
		}),
		// A session that finds this one goes on behind what is lost.
		tell(n+2, lost.Last, Record{Event: lockagent.Event{
			Kind: lockagent.EventDropped,
			Err: fmt.Sprintf("%d messages were not forwarded, from %d to %d of stream %s: it discarded them before, or the hub refused them",
				n, lost.First, lost.Last, s.source.cfg.Stream),
		}}),
		tell(n+3, lost.Last, Record{Event: lockagent.Event{Kind: lockagent.EventAgentStopped}}),
	})
}

// record returns r as a message of the teller. position says up to where it concludes the source.
func (s *forwardSession) record(r Record, position uint64) entry {
	e := entry{id: messageID{agent: r.Agent, epoch: r.Epoch, first: r.Seq, last: r.Seq}, position: position}
	e.msg.Subject = string(AppendSubject(nil, s.hub.cfg.Prefix, r.Agent, r.Kind, r.Lock))
	e.msg.Data = Append(nil, r)
	e.msg.Header = s.headers(nats.Header{
		"Content-Type":        {ContentType},
		jetstream.MsgIDHeader: {e.id.String()},
	}, position)
	return e
}
