package events

import (
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

// lookups bounds how many agents are looked up at a time.
const lookups = 16

// resume finds out where to go on. The hub has the beginning of the source. It ends at the last of
// the places that the last message of any agent has.
func (s *forwardSession) resume() error {
	agents, err := s.agents()
	if err != nil {
		return fmt.Errorf("source: list agents: %w", err)
	}
	var (
		wg    sync.WaitGroup
		slots = make(chan signal, lookups)
		mu    sync.Mutex // guards what follows, and s.marks
		errs  []error
	)
	for _, agent := range agents {
		slots <- signal{}
		wg.Go(func() {
			defer func() { <-slots }()
			k, err := s.lookUp(agent)
			mu.Lock()
			defer mu.Unlock()
			s.marks[agent] = k
			if err != nil {
				errs = append(errs, fmt.Errorf("look up agent %s: %w", agent, err))
			}
		})
	}
	wg.Wait()
	if len(errs) > 0 {
		return errs[0]
	}
	position := uint64(0)
	for _, k := range s.marks {
		position = max(position, k.position)
	}
	s.next = position + 1
	s.lastLoss = s.marks[s.teller].position
	last := s.source.CachedInfo().State.LastSeq
	s.f.count(func(st *ForwardStats) { st.Behind = last - min(last, position) })
	if position >= last {
		s.f.flows()
	}
	return nil
}

// agents returns all agents that have messages in the source, and the teller.
func (s *forwardSession) agents() ([]lockagent.AgentID, error) {
	seen := &s.f.seen
	if seen.source != s.origin {
		ctx, cancel := context.WithTimeout(s.ctx, forwardTimeout)
		defer cancel()
		info, err := s.source.Info(ctx, jetstream.WithSubjectFilter(s.f.cfg.From.Prefix+".>"))
		if err != nil {
			return nil, err
		}
		*seen = knownAgents{source: s.origin, ids: map[lockagent.AgentID]bool{s.teller: true}}
		for subject := range info.State.Subjects {
			if agent, _, ok := s.f.parseSource(subject); ok {
				seen.ids[agent] = true
			}
		}
	}
	agents := make([]lockagent.AgentID, 0, len(seen.ids))
	for agent := range seen.ids {
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
		return mark{}, fmt.Errorf("look up agent %s: %w", agent, err)
	}
	s.marks[agent] = k
	s.f.seen.ids[agent] = true
	return k, nil
}

// lookUp asks the hub for the last message of an agent.
func (s *forwardSession) lookUp(agent lockagent.AgentID) (mark, error) {
	ctx, cancel := context.WithTimeout(s.ctx, forwardTimeout)
	defer cancel()
	m, err := s.hub.GetLastMsgForSubject(ctx, s.f.agentSubjects(agent))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	k := mark{seq: m.Sequence}
	if m, err = s.lastOf(ctx, agent, m); m == nil || err != nil {
		return k, err
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
			m, err := s.hub.GetMsg(ctx, at, jetstream.WithGetMsgSubject(s.f.agentSubjects(agent)))
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
	if position < s.source.CachedInfo().State.FirstSeq {
		return position, nil
	}
	there, err := s.source.GetMsg(ctx, position)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("source: %w", err)
	case there.Header.Get(jetstream.MsgIDHeader) != m.Header.Get(jetstream.MsgIDHeader):
		return 0, nil
	}
	return position, nil
}
