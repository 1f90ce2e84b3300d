package events

import "github.com/lockagent/lockagent"

// story writes the log of one agent by hand, about lock "a" unless it is told
// otherwise.
type story struct {
	agent   lockagent.AgentID
	epoch   uint64
	lock    lockagent.Name
	inc     string
	seq     uint64
	records []Record
}

func agent(id lockagent.AgentID) *story { return &story{agent: id, epoch: 1, lock: "a"} }

func (s *story) in(epoch uint64) *story        { s.epoch = epoch; return s }
func (s *story) of(lock lockagent.Name) *story { s.lock = lock; return s }
func (s *story) on(incarnation string) *story  { s.inc = incarnation; return s }
func (s *story) missing(n uint64) *story       { s.seq += n; return s }
func (s *story) stop() *story                  { return s.add(lockagent.Event{Kind: lockagent.EventAgentStopped}) }

func (s *story) reset(r lockagent.Reset) *story {
	return s.add(lockagent.Event{Kind: lockagent.EventStoreReset, Reset: r})
}

func (s *story) add(e lockagent.Event) *story {
	s.seq++
	e.Agent = s.agent
	s.records = append(s.records, Record{Event: e, Epoch: s.epoch, Seq: s.seq})
	return s
}

func (s *story) granted(tenure uint64, token lockagent.Token, at lockagent.StoreTime) *story {
	return s.add(lockagent.Event{
		Kind: lockagent.EventGranted, Lock: s.lock, Tenure: tenure, Token: token, How: lockagent.ByStore,
		StoreTime: at, Count: 1, Incarnation: s.inc,
	})
}

func (s *story) handedOff(tenure uint64, token lockagent.Token, confirmed lockagent.StoreTime) *story {
	return s.add(lockagent.Event{
		Kind: lockagent.EventGranted, Lock: s.lock, Tenure: tenure, Token: token, How: lockagent.ByHandOff,
		StoreTime: confirmed, Count: 1, Incarnation: s.inc,
	})
}

func (s *story) reentered(tenure uint64, token lockagent.Token) *story {
	return s.add(lockagent.Event{Kind: lockagent.EventReentered, Lock: s.lock, Tenure: tenure, Token: token, Count: 2})
}

func (s *story) ended(kind lockagent.EventKind, reason lockagent.LossReason, tenure uint64, token lockagent.Token, until lockagent.StoreTime) *story {
	return s.add(lockagent.Event{Kind: kind, Reason: reason, Lock: s.lock, Tenure: tenure, Token: token, Until: until})
}

func (s *story) released(tenure uint64, token lockagent.Token, until lockagent.StoreTime) *story {
	return s.ended(lockagent.EventReleased, 0, tenure, token, until)
}

func (s *story) lost(reason lockagent.LossReason, tenure uint64, token lockagent.Token, until lockagent.StoreTime) *story {
	return s.ended(lockagent.EventLost, reason, tenure, token, until)
}

func (s *story) broke(at lockagent.StoreTime) *story {
	return s.add(lockagent.Event{Kind: lockagent.EventBroken, Lock: s.lock, StoreTime: at})
}

func (s *story) returned(tenure uint64, at lockagent.StoreTime) *story {
	return s.add(lockagent.Event{Kind: lockagent.EventReturned, Lock: s.lock, Tenure: tenure, StoreTime: at})
}

func (s *story) foundOver(tenure uint64, at lockagent.StoreTime) *story {
	return s.add(lockagent.Event{Kind: lockagent.EventReturned, Lock: s.lock, Tenure: tenure, StoreTime: at, Reason: lockagent.LostDenied})
}
