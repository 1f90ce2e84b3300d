package audit

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
)

// tape is a stream: records with their positions, and with when the stream took them.
type tape struct {
	position uint64
	records  []events.Record
}

// add stores what stories have told since it was last called.
func (t *tape) add(ms int, stories ...*story) *tape {
	for _, s := range stories {
		for _, r := range s.records {
			t.position++
			r.Position, r.Stored = t.position, wall(ms)
			t.records = append(t.records, r)
		}
		s.records = nil
	}
	return t
}

// lose has the stream take messages and lose them.
func (t *tape) lose(ms int, stories ...*story) *tape {
	n := len(t.records)
	t.add(ms, stories...)
	t.records = t.records[:n]
	return t
}

// live has agents tell every 10 s that they live.
func (t *tape) live(from, to int, stories ...*story) *tape {
	for ms := from; ms <= to; ms += 10_000 {
		for _, s := range stories {
			t.add(ms, s.alive(ms))
		}
	}
	return t
}

// read adds the records of a tape, of which the audit reads all.
func (t *tape) read(a *testAudit) *testAudit {
	a.ReadsAll()
	for _, r := range t.records {
		a.Add(r)
	}
	return a
}

func (t *tape) want(tt *testing.T, verdict Verdict, found, says string) {
	tt.Helper()
	wantReport(tt, t.read(newAudit()).Report(), verdict, found, says)
}

func wantReport(t *testing.T, r Report, verdict Verdict, found, says string) {
	t.Helper()
	if got := strings.Join(findingsOf(r), ", "); r.Verdict != verdict || got != found ||
		!strings.Contains(r.String(), says) {
		t.Errorf("%s with %s, want %s with %s, and %q\n%v", r.Verdict, got, verdict, found, says, r)
	}
}

// resumed is the audit of a checkpoint of a.
func resumed(t *testing.T, a *testAudit) *testAudit {
	t.Helper()
	return a.resumed(t)
}

// Somebody removed all messages of B from the stream. The holds of A beside them are not proven.
func TestAuditOfAHoleInTheStream(t *testing.T) {
	a, b := agent("A"), agent("B")
	whole := func() *tape {
		a, b = agent("A"), agent("B")
		return new(tape).add(0, a).live(0, 60_000, a).add(61_000, a.granted(1, 60_500))
	}
	rest := func(s *tape) *tape {
		return s.add(70_000, a.released(1, 69_000).returned(1, 69_001)).live(70_000, 200_000, a).
			add(201_000, a.held(2, 200_000, 200_100).stop())
	}
	rest(whole().add(63_000, b.held(1, 62_000, 63_000).stop())).want(t, Violated, "overlap: 1", "")
	rest(whole().lose(63_000, b.held(1, 62_000, 63_000).stop())).want(t, Incomplete, "holes: 1, unproven: 1",
		`any agent may have held the lock, for the messages 10 to 12 of the stream are missing`)
	rest(whole()).want(t, Proven, "", "")

	// The report says where the hole is.
	r := rest(whole().lose(63_000, b.stop())).read(newAudit()).Report()
	if h := r.MessageHoles.First[0]; h.Range != (events.Range{First: 10, Last: 11}) || len(h.In) != 1 ||
		h.In[0].From > clock(60_000) || h.In[0].To < clock(85_000) || h.In[0].To > clock(87_000) {
		t.Errorf("%+v", h)
	}

	// Positions of a stream with other subjects say nothing.
	s := rest(whole().lose(63_000, b.stop()))
	shared := newAudit()
	for _, r := range s.records {
		shared.Add(r)
	}
	wantReport(t, shared.Report(), Proven, "", "")

	// What is no event has a position all the same.
	s = whole()
	auditor := s.read(newAudit())
	_ = auditor.Visit(&events.Record{Position: s.position + 1}, natslog.ErrEpoch)
	s.position++
	s.records = nil
	wantReport(t, rest(s).read(auditor).Report(), Incomplete, "unreadable: 1", "")
}

// A checkpoint is older than the oldest message of the stream.
func TestCheckpointThatIsTooOld(t *testing.T) {
	a, b := agent("A"), agent("B")
	s := new(tape).add(0, a).live(0, 60_000, a)
	auditor := s.read(newAudit())
	last := s.records[len(s.records)-1]
	rest := new(tape)
	rest.position = s.position
	rest.add(61_000, b.held(1, 60_500, 60_800).stop(), a.held(1, 61_000, 61_100)).
		live(70_000, 200_000, a).add(200_000, a.stop())

	wantReport(t, rest.read(resumed(t, auditor)).Report(), Proven, "", "")
	rest.records = append([]events.Record{last}, rest.records...) // the message of the checkpoint is read again
	wantReport(t, rest.read(resumed(t, auditor)).Report(), Proven, "", "")
	rest.records = rest.records[4:]
	wantReport(t, rest.read(resumed(t, auditor)).Report(), Incomplete, "holes: 1, unproven: 1",
		"messages 9 to 11 of the stream")

	// All that came later was removed, and nothing has come since.
	none := resumed(t, auditor)
	none.Reached(20, wall(90_000))
	wantReport(t, none.Report(), Incomplete, "holes: 1, not stopped: 1", "messages 9 to 20 of the stream")
}

// An agent was cut off from NATS when it was killed. Its successor began a minute later.
func TestAuditOfATailWithASuccessor(t *testing.T) {
	verdicts{
		"BoundedByItsFirstHold": {
			[]*story{
				agent("A").alive(1000).next().held(7, 60_000, 60_100).stop(),
				agent("B").held(1, 40_000, 40_100).held(2, 60_200, 60_300).stop(),
			},
			Incomplete, "not stopped: 1, unproven: 1",
			"what it did from 2026-03-01T14:00:01.000Z to 14:01:00.000 may be missing; the next process of this agent had " +
				"begun by then",
		},
		"BoundedByItsFirstSignOfLife": {
			[]*story{
				agent("A").alive(1000).next().alive(60_000).stop(),
				agent("B").held(1, 40_000, 40_100).held(2, 60_200, 60_300).stop(),
			},
			Incomplete, "not stopped: 1, unproven: 1", "",
		},
		"BegunAtOnce": { // so it did not live for 15 s
			[]*story{agent("A").alive(1000).next().alive(2000).stop(), agent("B").held(1, 3000, 3100).stop()},
			Proven, "not stopped: 1", "proven: nothing overlapped that must not\n",
		},
		"ASuccessorThatTellsNothing": {
			[]*story{agent("A").alive(1000).next(), agent("B").held(1, 40_000, 40_100).stop()},
			Incomplete, "not stopped: 2, unproven: 1", "",
		},
	}.check(t)
}

// The successor comes when the agent has long been taken for dead, and its tail has been judged.
func TestAuditOfALateSuccessor(t *testing.T) {
	a, b := agent("A"), agent("B")
	s := new(tape).add(0, a, b).live(1000, 51_000, b, a)
	for ms := 61_000; ms < 300_000; ms += 10_000 {
		s.add(ms, b.alive(ms).held(uint64(ms), ms+100, ms+200))
	}
	s.want(t, Incomplete, "not stopped: 2, unproven: 1",
		"it is taken to have lived until 2026-03-01T14:01:06.000Z at the latest")
	s.add(301_000, a.next().alive(301_000)).live(310_000, 330_000, a).add(331_000, a.stop(), b.stop())
	s.want(t, Incomplete, "judgedEarly: 1, not stopped: 2, unproven: 2", "holds from 2026-03-01T14:00:51.000Z to")
}

// NATS was away for two minutes, in which an agent was killed.
func TestAuditOfAnOutage(t *testing.T) {
	log := func() (*tape, *story) {
		a, b := agent("A"), agent("B")
		s := new(tape).add(0, a, b).live(1000, 51_000, b, a)
		b.held(1, 100_000, 100_100).held(2, 160_000, 160_100).alive(181_000)
		return s.add(181_000, b).live(191_000, 221_000, b).add(230_100, b.held(3, 230_000, 230_100)), b
	}
	s, b := log()
	s.live(231_000, 300_000, b).add(300_000, b.stop())
	s.want(t, Incomplete, "not stopped: 1, unproven: 2",
		"it is taken to have lived until 2026-03-01T14:03:17.000Z at the latest")

	// Without it the agent is taken to have lived for 15 s. That is an assumption which can be changed.
	s, b = log()
	for i := range s.records {
		s.records[i].Stored = time.Time{}
	}
	s.live(231_000, 300_000, b).add(300_000, b.stop())
	s.want(t, Proven, "not stopped: 1", "it is taken to have lived until 2026-03-01T14:01:06.000Z at the latest")
	a := newAudit()
	a.Tail = time.Minute
	wantReport(t, s.read(a).Report(), Incomplete, "not stopped: 1, unproven: 1",
		"it is taken to have lived until 2026-03-01T14:01:51.000Z at the latest")
}

// After an outage an audit does not judge before all agents have had the time to tell of it.
func TestAuditWaitsAfterAnOutage(t *testing.T) {
	a, b := agent("A"), agent("B")
	s := new(tape).add(0, a).live(1000, 51_000, a)
	for ms := 61_000; ms <= 171_000; ms += 10_000 {
		a.alive(ms)
	}
	b.of("b").held(1, 100_000, 100_100).alive(171_000) // it started when NATS was away
	s.add(175_000, a.alive(175_000)).add(178_000, b)
	s.live(181_000, 250_000, a, b).add(251_000, a.stop(), b.stop())
	s.want(t, Proven, "", "")
}

// A whole life of an agent left no record.
func TestAuditOfLivesWithoutARecord(t *testing.T) {
	skip := func(s *story, n uint64) *story {
		follows := events.Place{Epoch: s.epoch, Seq: s.seq}
		s.epoch += n
		return s.next().edit(func(r *events.Record) { r.Follows = follows })
	}
	verdicts{
		"Between": {
			[]*story{
				skip(agent("A").alive(1000).stop(), 1).alive(60_000).stop(),
				agent("B").held(1, 500, 600).held(2, 40_000, 40_100).held(3, 60_200, 60_300).stop(),
			},
			Incomplete, "missing: 1, unproven: 1",
			"agent A may have held the lock in a life of which the log has no record, before epoch 3",
		},
		"SeveralAfterACrash": {
			[]*story{skip(agent("A").alive(1000), 3).alive(60_000).stop(), agent("B").held(1, 40_000, 40_100).stop()},
			Incomplete, "missing: 1, not stopped: 1, unproven: 1", "missing: all records of agent A, epochs 2 to 4",
		},
		"Before": {
			[]*story{{records: skip(agent("A"), 1).alive(60_000).stop().records[1:]}, agent("B").held(1, 40_000, 40_100).stop()},
			Incomplete, "missing: 1, unproven: 1", "missing: all records of agent A, epochs 1 to 2",
		},
		"None": {
			[]*story{agent("A").alive(1000).stop().next().alive(60_000).stop(), agent("B").held(1, 40_000, 40_100).stop()},
			Proven, "", "",
		},
		"OfAnAgentWithoutAStore": {
			[]*story{
				skip(agent("A").edit(func(r *events.Record) { r.Store = "" }).at("").stop(), 1000).stop(),
				agent("B").held(1, 40_000, 40_100).stop(),
			},
			Proven, "", "",
		},
	}.check(t)
}

// B was retired with the beginning of the stream. It did not stop, and may have lived for a while.
func TestAuditOfTheFirstHold(t *testing.T) {
	a := agent("A")
	s := new(tape).lose(1000, agent("B").alive(1000))
	s.add(3000, a.held(1, 2500, 3000)).live(3000, 30_000, a).add(31_000, a.held(2, 30_000, 30_100).stop())
	s.want(t, Proven, "not judged: 1", "judged: 1 tenure of store s, from 2026-03-01T14:00:")
	if r := s.read(newAudit()).Report(); r.Stores[0].From < clock(18_000) || r.Stores[0].From > clock(19_100) {
		t.Errorf("%+v", r.Stores)
	}
	// In a copy there are no times of storage.
	for i := range s.records {
		s.records[i].Position, s.records[i].Stored = 0, time.Time{}
	}
	late := newAudit()
	late.BeginsLate()
	wantReport(t, s.read(late).Report(), Proven, "not judged: 1", "")
}

// The clock of the store was set back. A record that comes late is of a time that was judged already,
// though the clock showed it twice.
func TestAuditOfALateRecordAfterTheClockWasSetBack(t *testing.T) {
	a, b := agent("A"), agent("B").of("b").alive(1000)
	s := new(tape).add(0, a).add(1000, b).live(1000, 101_000, a, b)
	step := lockagent.Reset{From: "x", To: "x", After: clock(101_000), Before: clock(41_000)}
	s.add(102_000, a.reset(step), b.reset(step))
	at := func(ms int) { s.add(ms+60_000, a.alive(ms), b.alive(ms)) }
	at(42_000)
	for ms := 51_000; ms < 65_000; ms += 10_000 {
		at(ms)
	}
	// B is silent, and has held the lock of A.
	for ms := 71_000; ms < 230_000; ms += 10_000 {
		s.add(ms+60_000, a.alive(ms).of("b").held(uint64(ms), ms+100, ms+200))
	}
	s.add(300_000, b.held(2, 81_000, 82_000).alive(231_000).stop()).add(300_000, a.stop())
	r := s.read(newAudit()).Report()
	if r.Verdict != Violated && r.Verdict != Incomplete ||
		!slices.ContainsFunc(r.Unproven.First, func(u Unproven) bool { return u.Hold.Agent == "B" }) {
		t.Errorf("%v", r)
	}
}

// NATS was away for one agent only. In the end all of its records arrive.
func TestAuditOfAnAgentThatComesBack(t *testing.T) {
	const away, back = 100_000, 240_000
	log := func(also func(a, b *story, ms int)) *tape {
		a, b := agent("A"), agent("B").of("b")
		s := new(tape).add(0, a, b)
		for ms := 1000; ms < 400_000; ms += 5000 {
			a.alive(ms).held(uint64(ms), ms+100, ms+200)
			b.alive(ms)
			also(a, b, ms)
			if s.add(ms+1000, a); ms < away || ms > back {
				s.add(ms+1000, b)
			}
		}
		return s.add(400_000, a.stop(), b.stop())
	}
	for name, test := range map[string]struct {
		also        func(a, b *story, ms int)
		verdict     Verdict
		found, says string
	}{
		"ItsOwnLock": {
			func(_, b *story, ms int) { b.held(uint64(ms), ms+100, ms+200) },
			Incomplete, "late: 1, not stopped: 1, unproven: 3", "160 tenures",
		},
		"ItHeldALockAllTheTime": {
			func(_, b *story, ms int) {
				switch {
				case ms == 91_000:
					b.granted(1, ms+100)
				case ms == 301_000:
					b.released(1, ms+100)
				case ms > 91_000 && ms < 301_000 && ms%10_000 == 1000:
					b.renewed(1, ms)
					b.edit(func(r *events.Record) { r.Confirmed = clock(ms) })
				}
			},
			Incomplete, "late: 1, not stopped: 1, unproven: 4", "2 locks: 81 holds",
		},
		"AndSoDidAnother": { // what A held is judged and forgotten
			func(a, b *story, ms int) {
				switch ms {
				case 91_000:
					b.granted(1, ms+100)
				case 151_000:
					a.of("b").held(uint64(ms+1), ms+300, ms+400).of("a")
				case 301_000:
					b.renewed(1, 295_000).released(1, ms+100)
				}
			},
			Incomplete, "late: 1, not stopped: 1, unproven: 4", "it was judged until its lease was over, and went on",
		},
		"AndAnotherOneLater": { // what A held is not forgotten
			func(a, b *story, ms int) {
				switch ms {
				case 91_000:
					b.granted(1, ms+100)
				case 236_000:
					a.of("b").held(uint64(ms+1), ms+300, ms+400).of("a")
				case 301_000:
					b.renewed(1, 295_000).released(1, ms+100)
				}
			},
			Incomplete, "late: 1, not stopped: 1, unproven: 5", "",
		},
		"TheLockOfAnother": {
			func(a, b *story, ms int) {
				if ms == 151_000 {
					b.of("a").held(2, ms+300, ms+400).of("b")
				}
			},
			Incomplete, "late: 1, not stopped: 1, unproven: 4", "the log told of it when all up to",
		},
		"NotAll": {
			func(a, b *story, ms int) {
				if ms == 151_000 {
					b.missing(1)
				}
			},
			Incomplete, "judgedEarly: 1, late: 1, missing: 1, not stopped: 1, unproven: 3", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := log(test.also)
			s.want(t, test.verdict, test.found, test.says)
			if name == "NotAll" {
				return // a late checkpoint does not change what was judged
			}
			a := newAudit()
			a.Patience = 5 * time.Minute // so nothing is judged too early
			r := s.read(a).Report()
			if want := map[string]Verdict{"AndSoDidAnother": Violated}[name]; want != "" && r.Verdict != want ||
				r.Tails.Count > 0 || r.Unproven.Count > 0 {
				t.Errorf("with patience: %v", r)
			}
		})
	}
	// Before it came back it counted as dead.
	s := log(func(a, b *story, _ int) {})
	s.records = slices.DeleteFunc(s.records, func(r events.Record) bool { return r.Stored.After(wall(back)) })
	if r := s.read(newAudit()).Report(); r.Tails.Count != 2 || r.Assumed != 2 {
		t.Errorf("%v", r)
	}
}

// The clock of the store is set while an agent may have had a hold of which the log does not have all.
func TestAuditOfAHoleAndAStep(t *testing.T) {
	for name, test := range map[string]struct {
		by, notes, crash int    // A notes the step itself, or -1: it does not; it crashes
		holds            [3]int // of B: one before the step, and two since

		verdict Verdict
		found   string
	}{
		"SetForward": {
			60_000, -1, 104_000, [3]int{104_100, 168_000, 180_000}, Incomplete, "not stopped: 1, unproven: 2",
		},
		"SetBack": {
			-60_000, -1, 104_000, [3]int{104_100, 48_000, 125_000}, Incomplete, "not stopped: 1, unproven: 2",
		},
		"SetForwardLongSince": {60_000, 111_000, 304_000, [3]int{90_000, 250_000, 445_000}, Proven, "not stopped: 1"},
		// Beside the step.
		"SetBackLongSince": {
			-60_000, 111_000, 304_000,
			[3]int{90_000, 60_000, 330_000},
			Incomplete,
			"judgedEarly: 1, not stopped: 1, unproven: 1",
		},
		// Its signs of life go on by the clock of before.
		"SetForwardUnnoticed": {
			60_000, -1, 304_000, [3]int{90_000, 370_000, 400_000}, Incomplete, "not stopped: 1, unproven: 1",
		},
		// The hold at 250 s was judged by then.
		"SetBackUnnoticed": {
			-60_000, -1, 304_000, [3]int{20_000, 250_000, 400_000}, Incomplete, "judgedEarly: 1, not stopped: 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := agent("A"), agent("B").of("b")
			s := new(tape).add(0, a, b)
			const set = 105_000
			for ms := 1000; ms < 600_000; ms += 1000 { // by a clock that nobody sets
				shows := ms
				if ms > set {
					shows += test.by
				}
				step := setBy(test.by, set, shows)
				if ms == test.notes {
					a.reset(step)
				}
				if ms == set+1000 {
					b.reset(step)
				}
				for i, hold := range test.holds {
					if (ms > set) == (i > 0) && shows/1000 == hold/1000 {
						b.of(worldLocks[i]).held(uint64(i+1), hold, hold+100)
					}
				}
				if ms%10_000 == 1000 {
					b.alive(shows)
					switch {
					case ms >= test.crash:
					case test.notes < 0:
						a.alive(ms)
					default:
						a.alive(shows)
					}
				}
				s.add(ms, a, b)
			}
			s.add(600_000, b.stop())
			s.want(t, test.verdict, test.found, "")
		})
	}
}

// Records are missing up to the stop of an agent, and it had not told that it lives before.
func TestAuditOfAHoleUpToAStop(t *testing.T) {
	for _, before := range []func(a *story){
		func(a *story) { a.held(1, 1000, 1100) },
		func(a *story) { a.granted(1, 1000).released(1, 1100); a.records = slices.Delete(a.records, 1, 2) },
	} {
		a, b := agent("A").of("b"), agent("B").of("b")
		before(a)
		s := new(tape).add(0, b).add(1200, a).live(2000, 42_000, b).add(45_000, b.held(1, 44_000, 44_100))
		s.add(50_000, a.missing(2).stop().edit(func(r *events.Record) { r.Time = wall(50_000) })).live(52_000, 112_000, b).
			add(120_000, b.held(2, 119_000, 119_100).stop())
		if r := s.read(newAudit()).Report(); r.Verdict != Incomplete ||
			!slices.ContainsFunc(r.Unproven.First, func(u Unproven) bool { return u.Hold.Start == clock(44_000) }) ||
			r.Stores[0].Unproven > clock(100_000) {
			t.Errorf("%v", r)
		}
	}
}

// The next process of an agent runs where the clock of the wall is an hour behind.
func TestAuditOfAHoleOnAnotherClock(t *testing.T) {
	a, b := agent("A").of("b"), agent("B").of("b")
	s := new(tape).add(500, b).add(1000, a.alive(1000).stop()).live(2000, 22_000, b)
	a.next().granted(1, 25_000)
	s.add(25_000, a).live(32_000, 52_000, b).add(56_000, b.held(1, 55_000, 56_000))
	s.add(57_000, a.missing(5).stop().edit(func(r *events.Record) { r.Time = wall(57_000).Add(-time.Hour) }))
	s.live(62_000, 162_000, b).add(163_000, b.stop())
	if r := s.read(newAudit()).Report(); r.Verdict != Incomplete ||
		!slices.ContainsFunc(r.Unproven.First, func(u Unproven) bool { return u.Hold.Start == clock(55_000) }) {
		t.Errorf("%v", r)
	}
}

// An agent whose signs of life found no room may have lived for longer than the last one shows.
func TestAuditOfDroppedSignsOfLife(t *testing.T) {
	a, b := agent("A").of("b").held(1, 500, 600).alive(1000), agent("B").alive(1000)
	s := new(tape).add(1000, a, b).live(11_000, 51_000, b)
	s.add(55_000, a.dropped(lockagent.EventAlive), b).add(56_000, a.add(lockagent.Event{
		Kind: lockagent.EventQueued, Lock: "b", LockKind: lockagent.PlainLock,
	}))
	s.live(61_000, 61_000, b).add(66_000, b.held(1, 65_000, 66_000)).live(71_000, 201_000, b).
		add(202_000, b.held(2, 190_000, 191_000).stop())
	s.want(t, Incomplete, "dropped: 1, not stopped: 1, unproven: 1", "")
}

// A hold goes on beside the assumed tail of an agent that counts as dead. The hold stays unproven, whether that
// agent comes back or its successor. A snapshot of before keeps what it had.
func TestAHoldGoesOnBesideATail(t *testing.T) {
	const away, back = 100_000, 240_000
	for name, test := range map[string]struct {
		returns func(b *story)
		late    int
	}{
		"TheAgentReturns": {func(*story) {}, 1},
		"ItHasASuccessor": {func(b *story) { b.next() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, c := agent("A"), agent("B").of("b"), agent("C").of("c")
			s := new(tape).add(0, a, b, c)
			auditor := newAudit()
			var during *Audit
			beside := func(of *Audit) bool {
				return slices.ContainsFunc(slices.Collect(maps.Values(of.locks)), func(l *lockLog) bool {
					return slices.ContainsFunc(l.Spans, func(x *span) bool { return strings.Contains(x.Doubt, "agent B") })
				})
			}
			add := func() {
				for ; len(s.records) > 0; s.records = s.records[1:] {
					auditor.Add(s.records[0])
				}
			}
			for ms := 1000; ms < 400_000; ms += 5000 {
				a.alive(ms)
				c.alive(ms)
				switch {
				case ms == 91_000:
					a.granted(1, ms+100)
				case ms == 301_000:
					a.released(1, ms+100)
				case ms > 91_000 && ms < 301_000 && ms%10_000 == 1000:
					a.renewed(1, ms).edit(func(r *events.Record) { r.Confirmed = clock(ms) })
				}
				s.add(ms+1000, a, c)
				if ms == 241_000 {
					test.returns(b)
				}
				if ms < away || ms > back {
					s.add(ms+1000, b.alive(ms))
				}
				add()
				if during == nil && beside(auditor.Audit) {
					during = auditor.clone()
				}
			}
			s.add(400_000, a.stop(), b.stop(), c.stop())
			add()
			if during == nil || !beside(during) {
				t.Fatalf("beside the tail: never %v", during == nil)
			}
			if r := auditor.Report(); r.Unproven.Count != 1 || r.Late.Count != test.late || len(r.Violations.First) > 0 {
				t.Errorf("%v", r)
			}
		})
	}
}
