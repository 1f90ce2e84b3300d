package natslog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
)

// mark is what the hub has of an agent.
type mark struct {
	seq      uint64          // of its last message in the hub, or 0 if there is none
	id       queue.MessageID // the last records, or zero
	position uint64          // where the last message stands in the source, or 0 if that is not known
}

// has reports whether the hub has the message with the records of id, which stands at position in
// the source. Positions tell it best. Numbers do if the hub got its messages in another way.
func (k mark) has(id queue.MessageID, position uint64) bool {
	if k.position > 0 {
		return position <= k.position
	}
	return k.id.Epoch > 0 && id.UpTo(k.id)
}

// knownAgents is which agents have messages in one source, and what else a session knows of it that ended.
type knownAgents struct {
	source  string // its origin
	ids     map[lockagent.AgentID]bool
	refused uint64 // the position of the last message that the hub refused, which another session finds again
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
	if err := s.lookUpAll(agents); err != nil {
		return err
	}
	state, err := s.sourceState(s.ctx)
	if err != nil {
		return err
	}
	if s.next < state.FirstSeq {
		// Something is lost, unless the hub has it from agents that are gone from the source, or that
		// are not known yet.
		if agents, err = s.hub.agents(s.ctx, lockagent.EventAgentStarted); err != nil {
			return atEnd(HubEnd, fmt.Errorf("list agents: %w", err))
		}
		if err := s.lookUpAll(agents); err != nil {
			return err
		}
	}
	if s.next < state.FirstSeq {
		if agents, err = s.source.agents(s.ctx); err != nil {
			return atEnd(SourceEnd, fmt.Errorf("list all agents: %w", err))
		}
		if err := s.lookUpAll(agents); err != nil {
			return err
		}
	}
	s.f.count(func(st *ForwardStats) { st.Behind = state.LastSeq - min(state.LastSeq, s.next-1) })
	if s.next > state.LastSeq {
		s.f.flows()
	}
	return nil
}

// agents returns the agents that have told of themselves in the source. There are few such
// subjects, and many of locks. What the hub has of an agent that is not among these shows when its
// next message is read. Then some messages are read that the hub has.
func (s *forwardSession) agents() (map[lockagent.AgentID]bool, error) {
	if known := &s.f.known; known.source != s.origin {
		ids, err := s.source.agents(s.ctx, lockagent.EventAlive, lockagent.EventAgentStarted)
		if err == nil && len(ids) == 0 {
			ids, err = s.source.agents(s.ctx)
		}
		if err != nil {
			return nil, err
		}
		*known = knownAgents{source: s.origin, ids: ids}
	}
	return s.f.known.ids, nil
}

// lookUpAll finds out what the hub has of agents that were not looked up yet, and with that the next
// position.
func (s *forwardSession) lookUpAll(agents map[lockagent.AgentID]bool) (err error) {
	var (
		wg    sync.WaitGroup
		slots = make(chan signal, lookups)
		mu    sync.Mutex // guards err and s.marks
	)
	for agent := range agents {
		slots <- signal{}
		wg.Go(func() {
			defer func() { <-slots }()
			mu.Lock()
			_, known := s.marks[agent]
			mu.Unlock()
			if known {
				return
			}
			k, failed := s.lookUp(agent)
			mu.Lock()
			defer mu.Unlock()
			s.marks[agent] = k
			err = cmp.Or(err, failed)
		})
	}
	wg.Wait()
	for _, k := range s.marks {
		s.next = max(s.next, k.position+1)
	}
	return err
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
	return agentSubjects(s.hub.cfg.Prefix, agent)
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
	k.position, err = s.placeOf(ctx, m)
	return k, err
}

// lastOf returns the last message of an agent in the hub, or nil: see the function [lastOf].
func (s *forwardSession) lastOf(
	ctx context.Context, agent lockagent.AgentID, last *jetstream.RawStreamMsg,
) (*jetstream.RawStreamMsg, error) {
	return lastOf(agent, last, func(from, end uint64) (found *jetstream.RawStreamMsg, err error) {
		for at := from; at < end; {
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
		return found, nil
	})
}

// placeOf returns where a message of the hub stands in the source, or 0 if it is not known to be from
// there. A source that lost its end in a power failure gives its positions again, to other
// messages. So the message must be there, unless it was discarded. The source may discard it while the session asks.
func (s *forwardSession) placeOf(ctx context.Context, m *jetstream.RawStreamMsg) (uint64, error) {
	from, ok := events.ParseOrigin(events.LastOrigin(m.Header.Get(events.OriginHeader)))
	if !ok || from.Stream != s.origin {
		return 0, nil
	}
	position := from.Position
	if position < s.source.stream.CachedInfo().State.FirstSeq {
		return position, nil
	}
	there, err := s.leader.GetMsg(ctx, position)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		if state, err := s.sourceState(ctx); err != nil || position >= state.FirstSeq {
			return 0, err
		}
		return position, nil
	case err != nil:
		return 0, atEnd(SourceEnd, err)
	case there.Header.Get(jetstream.MsgIDHeader) == m.Header.Get(jetstream.MsgIDHeader):
		return position, nil
	}
	return 0, nil
}

// sourceState asks what the source has now.
func (s *forwardSession) sourceState(ctx context.Context) (jetstream.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	info, err := s.source.stream.Info(ctx)
	if err != nil {
		return jetstream.StreamState{}, atEnd(SourceEnd, err)
	}
	return info.State, nil
}
