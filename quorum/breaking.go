package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Break implements [lockagent.Operator]. It waits for all nodes, up to the timeout: what a node still
// has would count for the tenure.
func (s *Store) Break(ctx context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	if err := s.check(req.Kind, req.Check()); err != nil {
		done(lockagent.BreakReply{}, err)
		return
	}
	p := newPoll(s, func(
		votes []vote[lockagent.BreakReply], last bool,
	) (reply lockagent.BreakReply, err error, decided bool) {
		if !last {
			return reply, nil, false
		}
		yes, no := byAnswer(votes, func(r *lockagent.BreakReply) (bool, lockagent.StoreTime) { return r.Broken, r.At })
		if err, _ := agreed(s, votes, last, len(yes), len(no)); err != nil {
			return reply, err, true
		}
		reply.Broken = len(yes) > 0 && len(no) < s.majority
		if reply.At = s.bound(slices.Concat(yes, no)); reply.Broken && len(yes) >= s.majority {
			reply.At = s.bound(yes) // as the agent of the tenure is told
		}
		return reply, nil, true
	}, done)
	p.ask(func(n *node, told func(lockagent.BreakReply, error)) { n.Break(ctx, req, told) })
}

// gather is how long the quorum waits for the same news of a break from the other nodes.
const gather = 50 * time.Millisecond

// ear is one call of Listen. Store.mu guards it.
type ear struct {
	store  *Store
	hear   func(lockagent.Message)
	stands []bool // the nodes that the store listens to
	told   bool   // the agent was told that it may have missed messages
	alone  []bool // the nodes where no other agent with the identity listens
	breaks map[claim]*breakNews
	over   bool
}

// breakNews is what nodes tell of one break.
type breakNews struct {
	ats      []lockagent.StoreTime
	operator string
	told     bool
}

// Listen implements [lockagent.Messages]. Of the messages of the nodes only those about breaks and
// about the identity matter: there is no queue.
func (s *Store) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) (cancel func()) {
	e := &ear{
		store: s, hear: hear, stands: make([]bool, len(s.nodes)), alone: make([]bool, len(s.nodes)),
		breaks: make(map[claim]*breakNews),
	}
	var cancels []func()
	for i, n := range s.nodes {
		cancels = append(cancels, n.Listen(agent, func(m lockagent.Message) { e.heard(i, m) }))
	}
	return func() {
		s.mu.Lock()
		e.over = true
		s.mu.Unlock()
		run(cancels)
	}
}

// heard takes a message of a node.
func (e *ear) heard(i int, m lockagent.Message) {
	switch m.Kind {
	case lockagent.MessagesMissed:
		e.missed(i)
	case lockagent.MessageBroken:
		e.broken(m)
	case lockagent.MessageAlone:
		e.isAlone(i)
	case lockagent.MessageTwin:
		// One node is enough, and must be: an agent that was alone before may reach only one of the nodes where another
		// one is alone by now.
		e.hear(m)
	}
}

// isAlone tells the agent that it is alone when a majority of the nodes says so, and whenever one of them says so
// again.
func (e *ear) isAlone(i int) {
	s := e.store
	s.mu.Lock()
	e.alone[i] = true
	count := 0
	for _, alone := range e.alone {
		if alone {
			count++
		}
	}
	s.mu.Unlock()
	if count >= s.majority {
		e.hear(lockagent.Message{Kind: lockagent.MessageAlone})
	}
}

// missed tells the agent when a majority of the nodes is heard for the first time, and whenever
// one of them is heard again.
func (e *ear) missed(i int) {
	s := e.store
	s.mu.Lock()
	again := e.stands[i]
	e.stands[i] = true
	standing := 0
	for _, stands := range e.stands {
		if stands {
			standing++
		}
	}
	tell := again || !e.told && standing >= s.majority
	e.told = e.told || tell
	s.mu.Unlock()
	if tell {
		e.hear(lockagent.Message{Kind: lockagent.MessagesMissed})
	}
}

// broken tells the agent of a break, when all nodes have told of it or a moment has passed. If it
// was no majority, the agent may have its tenure still, and has to look.
func (e *ear) broken(m lockagent.Message) {
	s, c := e.store, claim{m.Name, m.Tenure}
	s.mu.Lock()
	news := e.breaks[c]
	if news == nil {
		news = &breakNews{operator: m.Operator}
		e.breaks[c] = news
		time.AfterFunc(gather, func() { e.tell(c, news) })
	}
	news.ats = append(news.ats, m.At)
	all := len(news.ats) == len(s.nodes)
	s.mu.Unlock()
	if all {
		e.tell(c, news)
	}
}

func (e *ear) tell(c claim, news *breakNews) {
	s := e.store
	s.mu.Lock()
	if e.breaks[c] == news {
		delete(e.breaks, c)
	}
	told := news.told || e.over
	news.told = true
	message := lockagent.Message{Kind: lockagent.MessagesMissed}
	t := s.tenures[c]
	if ats := slices.Clone(news.ats); len(ats) >= s.majority {
		message = lockagent.Message{
			Kind: lockagent.MessageBroken, Name: c.name, Tenure: c.tenure, At: s.bound(ats), Operator: news.operator,
		}
	} else {
		t = nil
	}
	s.mu.Unlock()
	if told {
		return
	}
	e.hear(message)
	if t != nil {
		s.lost(t)
	}
}
