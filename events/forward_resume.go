package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
)

// originHeader says of a copy where the message stands in the source: the origin of the source, a
// dot, and the position.
const originHeader = "Lockagent-Origin"

// originOf names a stream for good. A stream that is made anew gets another name.
func originOf(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// mark is what the hub has of an agent.
type mark struct {
	seq      uint64    // of its last message in the hub, or 0 if there is none
	id       messageID // the last records, or zero
	position uint64    // where the last message stands in the source, or 0 if that is not known
}

// has reports whether the hub has the message with the records of id, which stands at position in
// the source. Positions tell it best. Numbers do if the hub got its messages in another way.
func (k mark) has(id messageID, position uint64) bool {
	if k.position > 0 {
		return position <= k.position
	}
	return k.id.epoch > 0 && id.upTo(k.id)
}

// knownAgents is which agents have messages in one source.
type knownAgents struct {
	source string // its origin
	ids    map[lockagent.AgentID]bool
}

// lookups bounds how many agents are looked up at a time.
const lookups = 16

// resume finds out where to go on. The hub has the beginning of the source. It ends at the last of
// the places that the last message of any agent has.
func (s *forwardSession) resume() error {
	agents, err := s.agents()
	if err != nil {
		return atEnd(SourceEnd, fmt.Errorf("list agents: %w", err))
	}
	var (
		wg    sync.WaitGroup
		slots = make(chan signal, lookups)
		mu    sync.Mutex // guards err and s.marks
	)
	for _, agent := range agents {
		slots <- signal{}
		wg.Go(func() {
			defer func() { <-slots }()
			k, failed := s.lookUp(agent)
			mu.Lock()
			defer mu.Unlock()
			s.marks[agent] = k
			err = cmp.Or(err, failed)
		})
	}
	wg.Wait()
	if err != nil {
		return err
	}
	position := uint64(0)
	for _, k := range s.marks {
		position = max(position, k.position)
	}
	s.next = position + 1
	s.lastLoss = s.marks[s.teller].position
	last := s.source.stream.CachedInfo().State.LastSeq
	s.f.count(func(st *ForwardStats) { st.Behind = last - min(last, position) })
	if position >= last {
		s.f.flows()
	}
	return nil
}

// agents returns all agents that have messages in the source, and the teller.
func (s *forwardSession) agents() ([]lockagent.AgentID, error) {
	known := &s.f.known
	if known.source != s.origin {
		ctx, cancel := context.WithTimeout(s.ctx, forwardTimeout)
		defer cancel()
		info, err := s.source.stream.Info(ctx, jetstream.WithSubjectFilter(s.source.cfg.Prefix+".>"))
		if err != nil {
			return nil, err
		}
		*known = knownAgents{source: s.origin, ids: map[lockagent.AgentID]bool{s.teller: true}}
		for subject := range info.State.Subjects {
			if agent, _, ok := s.parseSource(subject); ok {
				known.ids[agent] = true
			}
		}
	}
	agents := make([]lockagent.AgentID, 0, len(known.ids))
	for agent := range known.ids {
		agents = append(agents, agent)
	}
	return agents, nil
}

// mark returns what the hub has of an agent. It asks the hub if that is not known yet.
func (s *forwardSession) mark(agent lockagent.AgentID) (mark, error) {
	if k, ok := s.marks[agent]; ok {
		return k, nil
	}
	k, err := s.lookUp(agent)
	if err != nil {
		return mark{}, err
	}
	s.marks[agent] = k
	s.f.known.ids[agent] = true
	return k, nil
}

// agentSubjects returns the subjects of all messages of an agent in the hub.
func (s *forwardSession) agentSubjects(agent lockagent.AgentID) string {
	return s.hub.cfg.Prefix + "." + string(agent) + ".>"
}

// lookUp asks the hub for the last message of an agent.
func (s *forwardSession) lookUp(agent lockagent.AgentID) (mark, error) {
	ctx, cancel := context.WithTimeout(s.ctx, forwardTimeout)
	defer cancel()
	m, err := s.hub.stream.GetLastMsgForSubject(ctx, s.agentSubjects(agent))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, atEnd(HubEnd, err)
	}
	k := mark{seq: m.Sequence}
	if m, err = s.lastOf(ctx, agent, m); m == nil || err != nil {
		return k, atEnd(HubEnd, err)
	}
	k.id, _ = idOf(m, agent)
	k.position, err = s.place(ctx, m)
	return k, err
}

func idOf(m *jetstream.RawStreamMsg, agent lockagent.AgentID) (messageID, bool) {
	id, ok := parseMessageID(m.Header.Get(jetstream.MsgIDHeader))
	return id, ok && id.agent == agent
}

// lastOf returns the last message of the hub under an agent's subjects that is from the agent, or
// nil. last is the last message under these subjects: if somebody else put it there, the search goes
// backward in growing steps.
func (s *forwardSession) lastOf(ctx context.Context, agent lockagent.AgentID, last *jetstream.RawStreamMsg) (*jetstream.RawStreamMsg, error) {
	if _, ok := idOf(last, agent); ok {
		return last, nil
	}
	end := last.Sequence
	for step := uint64(1); end > 1; step *= 2 {
		start := end - min(step, end-1)
		var found *jetstream.RawStreamMsg
		for at := start; at < end; {
			m, err := s.hub.stream.GetMsg(ctx, at, jetstream.WithGetMsgSubject(s.agentSubjects(agent)))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				return nil, err
			}
			if _, ok := idOf(m, agent); ok && m.Sequence < end {
				found = m
			}
			at = m.Sequence + 1
		}
		if found != nil {
			return found, nil
		}
		end = start
	}
	return nil, nil
}

// place returns where a message of the hub stands in the source, or 0 if it is not known to be from
// there. A source that lost its end in a power failure gives its positions again, to other
// messages. So the message must be there, unless it was discarded in the meantime.
func (s *forwardSession) place(ctx context.Context, m *jetstream.RawStreamMsg) (uint64, error) {
	origin, text, _ := strings.Cut(m.Header.Get(originHeader), ".")
	position, err := strconv.ParseUint(text, 10, 64)
	if err != nil || origin != s.origin {
		return 0, nil
	}
	if position < s.source.stream.CachedInfo().State.FirstSeq {
		return position, nil
	}
	there, err := s.source.stream.GetMsg(ctx, position)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil
	case err != nil:
		return 0, atEnd(SourceEnd, err)
	case there.Header.Get(jetstream.MsgIDHeader) != m.Header.Get(jetstream.MsgIDHeader):
		return 0, nil
	}
	return position, nil
}
