package audit

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// permits makes the records from now on those of a semaphore, whose holds have n permits of total.
func (s *story) permits(kind lockagent.LockKind, n, total int) *story {
	s.kind, s.n, s.total = kind, n, total
	return s
}

// changes says what an agent did to the semaphore.
func (s *story) changes(ms int, op lockagent.PermitsOp, n int) *story {
	return s.add(lockagent.Event{
		Kind: lockagent.EventPermits, Lock: s.lock, LockKind: s.kind, Time: wall(ms), StoreTime: clock(ms), Op: op,
		Permits: n,
	})
}

// tried says that the store did not answer what an agent wanted to do to the semaphore.
func (s *story) tried(ms int, op lockagent.PermitsOp, n int) *story {
	return s.changes(ms, op, n).edit(func(r *events.Record) { r.StoreTime, r.Err = 0, "no answer" })
}

// gaveBack says that an agent gave back the first permit of a tenure of another agent.
func (s *story) gaveBack(ms int, of lockagent.AgentID, tenure uint64) *story {
	s.changes(ms, lockagent.ReleasePermit, 1)
	return s.edit(func(r *events.Record) { r.Permit = lockagent.Tenure{Agent: of, Number: tenure}.PermitID(1) })
}

// inBoth are verdicts on both kinds of semaphores.
func inBoth(t *testing.T, make func(kind lockagent.LockKind) verdicts) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) { make(kind).check(t) })
	}
}

func TestAuditOfPermits(t *testing.T) {
	inBoth(t, func(kind lockagent.LockKind) verdicts {
		// of is an agent whose holds have n permits of total.
		of := func(id lockagent.AgentID, n, total int) *story { return agent(id).permits(kind, n, total) }
		set := func(id lockagent.AgentID, n, total int) *story {
			return of(id, n, total).changes(500, lockagent.TrySetPermits, total)
		}
		return verdicts{
			"SideBySide": {
				[]*story{
					set("A", 2, 3).granted(1, 1000).released(1, 3000).returned(1, 3001).stop(),
					of("B", 1, 3).granted(1, 2000).released(1, 5000).returned(1, 5001).stop(),
					of("C", 2, 3).held(1, 3001, 4000).stop(),
				},
				Proven, "", "3 holds",
			},
			"OneAgentHasSeveral": {
				[]*story{set("A", 1, 3).granted(1, 1000).granted(2, 1100).granted(3, 1200).released(2, 1300).
					returned(2, 1301).granted(4, 1400).
					released(1, 1500).returned(1, 1501).released(3, 1500).returned(3, 1501).released(4, 1500).
					returned(4, 1501).stop()},
				Proven, "", "4 holds",
			},
			"LearnsOfTheLaterFirst": {
				[]*story{set("A", 1, 2).granted(2, 1100).granted(1, 1000).released(2, 1300).released(1, 1400).stop()},
				Proven, "", "",
			},
			"OneTooMany": {
				[]*story{
					set("A", 2, 3).granted(1, 1000).released(1, 3000).returned(1, 3001).stop(),
					of("B", 2, 3).held(1, 2000, 2500).stop(),
				},
				Violated, "too many permits: 1", "4 permits were in use, and there were 3, for up to",
			},
			"OneTooManyOfOneAgent": {
				[]*story{
					set("A", 2, 3).granted(1, 1000).granted(2, 1100).released(2, 1300).returned(2, 1301).released(1, 1400).
						returned(1, 1401).stop(),
				},
				Violated, "too many permits: 1", "4 permits were in use, and there were 3, for up to",
			},
			"OneTooManyOfMany": { // the report names who has the others
				[]*story{
					set("A", 1, 5).granted(1, 1000).granted(2, 1010).granted(3, 1020).granted(4, 1030).
						granted(5, 1040).granted(6, 1050).
						renewed(1, 5000).renewed(2, 5000).renewed(3, 5000).renewed(4, 5000).renewed(5, 5000).
						released(1, 6000).returned(1, 6001).released(2, 6000).returned(2, 6001).released(3, 6000).returned(3, 6001).
						released(4, 6000).returned(4, 6001).released(5, 6000).returned(5, 6001).released(6, 1060).
						returned(6, 1061).stop(),
				},
				Violated, "too many permits: 1",
				"also:   \"owner-A\", token 1772373601020000, agent A, billing on host-A, pid 7\n            " +
					"from 2026-03-01T14:00:01.020Z to 14:00:06.000 (5s), released [A:1:5]\n            and 1 more",
			},
			"OneTooManyTellsHowMany": {
				[]*story{set("A", 2, 3).held(1, 1000, 5000).stop(), of("B", 2, 3).held(1, 2000, 2500).stop()},
				Violated, "too many permits: 1", "\"owner-B\", 2 permits, token",
			},
			"MoreThanThereAre": {
				[]*story{set("A", 4, 3).held(1, 1000, 1100).stop()},
				Violated, "too many permits: 1", "4 permits were in use, and there were 3",
			},
			"MoreWereAdded": {
				[]*story{
					set("A", 2, 3).granted(1, 1000).released(1, 3000).returned(1, 3001).changes(3500, lockagent.AddPermits, -2).stop(),
					of("B", 2, 4).changes(1500, lockagent.AddPermits, 1).held(1, 2000, 2500).permits(kind, 2, 2).
						held(2, 4000, 4500).stop(),
				},
				Proven, "", "",
			},
			"AtTheTimeOfAGrant": { // in the same microsecond, before the one and after the other
				[]*story{
					set("A", 3, 3).granted(1, 1000).released(1, 3000).returned(1, 3001).stop(),
					of("B", 2, 5).changes(2000, lockagent.AddPermits, -4).changes(2000, lockagent.AddPermits, 2).
						held(1, 2000, 2500).stop(),
				},
				Proven, "", "",
			},
			"FewerThanAreInUse": { // nothing was granted since
				[]*story{
					set("A", 3, 3).granted(1, 1000).changes(1500, lockagent.AddPermits, -2).released(1, 3000).returned(1, 3001).stop(),
					of("B", 1, 1).held(1, 4000, 4500).stop(),
				},
				Proven, "", "",
			},
			"NobodySetIt": {
				[]*story{of("A", 1, 3).held(1, 1000, 1100).held(2, 2000, 2100).stop()},
				Incomplete, "unproven: 1", "the log does not tell who set the number of permits, which was 3",
			},
			"NobodyTells": {
				[]*story{of("A", 1, 0).held(1, 1000, 1100).stop()},
				Incomplete, "unproven: 1", "the log does not tell how many permits there were",
			},
			"TheLogTells": { // the reply was lost, and the store granted it once more
				[]*story{
					set("A", 1, 2).permits(kind, 1, 0).granted(1, 1000).granted(2, 1100).released(1, 1300).released(2, 1400).stop(),
				},
				Proven, "", "",
			},
			"PerhapsFewerByAChange": {
				[]*story{
					set("A", 2, 2).tried(800, lockagent.AddPermits, -1).permits(kind, 2, 0).held(1, 1000, 1100).permits(kind, 2, 2).
						held(2, 30_000, 30_100).permits(kind, 2, 0).held(3, 31_000, 31_100).stop(),
				},
				Incomplete, "unproven: 1", "the number of permits may have been lowered",
			},
			"NoneButTheReplyIsLost": { // another program has set the number
				[]*story{
					set("A", 1, 3).held(1, 1000, 1100).changes(2000, lockagent.AddPermits, -3).permits(kind, 1, 0).
						held(2, 3000, 3100).stop(),
				},
				Incomplete, "unproven: 1", "perhaps more permits were in use than there were: up to 1 of 0",
			},
			"DeletedAndTheReplyIsLost": {
				[]*story{
					set("A", 1, 3).held(1, 1000, 1100).changes(2000, lockagent.DeletePermits, 0).permits(kind, 1, 0).
						held(2, 3000, 3100).stop(),
				},
				Incomplete, "unproven: 1", "perhaps more permits were in use than there were: up to 1 of 0",
			},
			"PerhapsFewer": {
				[]*story{set("A", 2, 2).changes(800, lockagent.AddPermits, -1).permits(kind, 2, 0).held(1, 1000, 1100).stop()},
				Incomplete, "unproven: 1", "perhaps more permits were in use than there were: up to 2 of 1",
			},
			"AnotherProgramAdded": {
				[]*story{set("A", 1, 3).held(1, 1000, 1100).permits(kind, 4, 4).held(2, 2000, 2100).held(3, 3000, 3100).stop()},
				Incomplete, "unproven: 1",
				"another program has changed the number of permits: the store told of 4, and the log explains 3",
			},
			"TheChangeIsMissing": {
				[]*story{
					set("A", 3, 3).granted(1, 1000).released(1, 3000).returned(1, 3001).stop(),
					of("B", 2, 5).missing(1).held(1, 2000, 2500).stop(),
				},
				Incomplete, "missing: 1, unproven: 2", "the store told of 5, and the log explains 3",
			},
			"SetAnew": {
				[]*story{
					set("A", 3, 3).held(1, 1000, 1100).changes(2000, lockagent.DeletePermits, 0).
						changes(2100, lockagent.TrySetPermits, 5).permits(kind, 5, 5).held(2, 3000, 3100).stop(),
				},
				Proven, "", "",
			},
			"DeletedWhileInUse": {
				[]*story{
					set("A", 3, 3).granted(1, 1000).lost(lockagent.LostDenied, 1, 3000).foundOver(1, 3001).stop(),
					of("B", 3, 3).changes(2000, lockagent.DeletePermits, 0).changes(2100, lockagent.TrySetPermits, 3).
						held(1, 2200, 2500).stop(),
				},
				Explained, "explained: 1", "an agent deleted the semaphore at",
			},
			"BrokenWhileInUse": {
				[]*story{
					set("A", 3, 3).granted(1, 1000).ended(lockagent.EventBroken, lockagent.LostBroken, 1, 2100).stop(),
					of("B", 1, 3).broke(2000).held(1, 2050, 2500).stop(),
				},
				Explained, "explained: 1", "an operator (olga) broke the lock at",
			},
			"Reset": {
				[]*story{
					set("A", 3, 3).granted(1, 1000).ended(lockagent.EventLost, lockagent.LostDeadline, 1, 6000).stop(),
					of("B", 3, 3).on("run-2").
						reset(lockagent.Reset{From: "run-1", To: "run-2", After: clock(1500), Before: clock(1900), Reason: "emptied"}).
						changes(2000, lockagent.TrySetPermits, 3).held(1, 2050, 2500).stop(),
				},
				Explained, "explained: 1", "the store was reset",
			},
			"Crashed": {
				[]*story{
					set("A", 3, 3).granted(1, 1000).alive(2000),
					of("B", 2, 3).held(1, 31_000, 31_500).stop(), // when the lease is over
				},
				Incomplete, "not stopped: 1, unproven: 1", "pid 7 (epoch 1) did not stop", // and may have had more permits
			},
			"BeforeTheLeaseIsOver": {
				[]*story{
					set("A", 3, 3).granted(1, 1000).next().alive(8000).stop(),
					of("B", 2, 3).held(1, 10_000, 10_500).stop(),
				},
				Incomplete, "not stopped: 1, unproven: 2", "perhaps more permits were in use than there were: up to 5 of 3",
			},
			"TheEndIsMissing": {
				[]*story{
					set("A", 2, 3).granted(1, 1000).missing(1).granted(2, 5000).released(2, 6000).returned(2, 6001).stop(),
					of("B", 2, 3).held(1, 4000, 4500).stop(),
				},
				Incomplete, "missing: 1, unproven: 3", "perhaps more permits were in use",
			},
			"TheGrantIsMissing": {
				[]*story{
					set("A", 2, 3).missing(1).released(1, 3000).
						edit(func(r *events.Record) { r.Token, r.Held = lockagent.Token(clock(1000)), 2*time.Second }).stop(),
					of("B", 2, 3).held(1, 2000, 2500).stop(),
				},
				Incomplete, "missing: 1, unproven: 2", "the log has its end, but not its grant",
			},
			"TheTokenRepeated": {
				[]*story{
					set("A", 1, 3).held(1, 1000, 1100).stop(),
					of("B", 1, 3).held(1, 2000, 2100).edit(func(r *events.Record) { r.Token = lockagent.Token(clock(1000)) }).stop(),
				},
				Violated, "token repeated: 1", "",
			},
		}
	})
}

// Whoever knows the id of a permit may give it back.
func TestAuditOfPermitsGivenBack(t *testing.T) {
	of := func(id lockagent.AgentID, n, total int) *story {
		return agent(id).permits(lockagent.Permits, n, total)
	}
	set := func(id lockagent.AgentID, n, total int) *story {
		return of(id, n, total).changes(500, lockagent.SetPermits, total)
	}
	verdicts{
		"ByAnAgent": {
			[]*story{
				set("A", 2, 2).granted(7, 1000).alive(8000).lost(lockagent.LostDenied, 7, 9000).foundOver(7, 9001).stop(),
				of("B", 1, 2).gaveBack(2000, "A", 7).held(1, 3000, 4000).stop(),
			},
			Proven, "", "",
		},
		"OneOfTwo": {
			[]*story{
				set("A", 2, 2).granted(7, 1000).alive(8000).lost(lockagent.LostDenied, 7, 9000).foundOver(7, 9001).stop(),
				of("B", 2, 2).gaveBack(2000, "A", 7).held(1, 3000, 4000).stop(),
			},
			Incomplete, "unproven: 1", "perhaps more permits were in use than there were: up to 3 of 2",
		},
		"ByNobodyInTheLog": { // there is no violation: whoever had lent it may know
			[]*story{
				set("A", 1, 1).granted(7, 1000).alive(8000).lost(lockagent.LostDenied, 7, 9000).foundOver(7, 9001).stop(),
				of("B", 1, 1).held(1, 3000, 4000).stop(),
			},
			Incomplete, "unproven: 2", "the store said that the tenure was over",
		},
		"ConfirmedSince": {
			[]*story{
				set("A", 1, 1).granted(7, 1000).renewed(7, 5000).lost(lockagent.LostDenied, 7, 9000).foundOver(7, 9001).stop(),
				of("B", 1, 1).held(1, 3000, 4000).stop(),
			},
			Violated, "too many permits: 1", "",
		},
		"ReleasedSince": {
			[]*story{
				set("A", 1, 1).granted(7, 1000).released(7, 5000).returned(7, 5001).stop(),
				of("B", 1, 1).held(1, 3000, 4000).stop(),
			},
			Violated, "too many permits: 1", "",
		},
		"HandedOnAtTheEnd": { // Outlive: whoever was told of the id gave it back, and A closed
			[]*story{
				set("A", 1, 1).granted(7, 1000).ended(lockagent.EventLost, lockagent.LostClosed, 7, 5000).stop(),
				of("B", 1, 1).held(1, 3000, 4000).stop(),
			},
			Incomplete, "unproven: 1", "perhaps more permits were in use than there were: up to 2 of 1",
		},
		"CutOff": {
			[]*story{
				set("A", 1, 1).granted(7, 1000).lost(lockagent.LostDeadline, 7, 30_000).stop(),
				of("B", 1, 1).held(1, 3000, 4000).stop(),
			},
			Incomplete, "unproven: 1", "perhaps more permits were in use than there were: up to 2 of 1",
		},
		"ReleasedWithoutAnAnswer": {
			[]*story{
				set("A", 1, 1).granted(7, 1000).released(7, 5000).stop(),
				of("B", 1, 1).held(1, 3000, 4000).stop(),
			},
			Incomplete, "unproven: 1", "perhaps more permits were in use than there were: up to 2 of 1",
		},
		"TheAnswerWasDropped": {
			[]*story{
				set("A", 1, 1).granted(7, 1000).released(7, 5000).dropped(lockagent.EventReturned).stop(),
				of("B", 1, 1).held(1, 3000, 4000).stop(),
			},
			Incomplete, "dropped: 1, unproven: 1", "perhaps more permits were in use than there were: up to 2 of 1",
		},
		"OfAnotherProgram": {
			[]*story{set("A", 1, 2).gaveBack(800, "elsewhere", 7).held(1, 1000, 1100).stop()},
			Proven, "", "",
		},
	}.check(t)
}

// The store may answer a release late. What it says counts if it comes soon enough, and then it may contradict.
func TestAuditOfPermitsReturnedLate(t *testing.T) {
	for _, run := range []struct {
		name string
		at   int // the record of the answer
		gone bool
		want Verdict
	}{
		{"GivenBack", 19_000, true, Incomplete},
		{"NotGivenBack", 19_000, false, Violated},
		{"GivenBackTooLateToKnow", 60_000, true, Incomplete},
		{"NotGivenBackTooLateToKnow", 60_000, false, Incomplete},
	} {
		a := agent("A").permits(lockagent.Permits, 1, 1).changes(500, lockagent.SetPermits, 1).granted(7, 1000)
		b := agent("B").permits(lockagent.Permits, 1, 1)
		s := new(tape).add(0, a, b).add(3000, b.held(1, 3000, 4000)).add(5000, a.released(7, 5000))
		s.live(6000, run.at, a, b)
		if run.gone {
			a.foundOver(7, 5200)
		} else {
			a.returned(7, 5200)
		}
		s.add(run.at, a).live(run.at+10_000, run.at+60_000, a, b)
		r := s.add(run.at+61_000, a.stop(), b.stop()).read(newAudit()).Report()
		if r.Verdict != run.want {
			t.Errorf("%s: %s, want %s\n%v", run.name, r.Verdict, run.want, r)
		}
	}
}

// An agent makes a change again until the store answers. It tells of it late, or cannot tell whether it was made.
func TestAuditOfASemaphoreDeletedUnheard(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		for _, run := range []struct {
			name   string
			delete func(d *story) *story // at 30 s
			again  lockagent.PermitsOp
			shows  bool // A had the permits until it returned them
			want   Verdict
			says   string
		}{
			{
				"Late", func(d *story) *story { return d.changes(2000, lockagent.DeletePermits, 0) }, lockagent.TrySetPermits,
				false, Explained, "an agent deleted the semaphore at",
			},
			{
				"LateAndAdded", func(d *story) *story { return d.changes(2000, lockagent.DeletePermits, 0) }, lockagent.AddPermits,
				false, Explained, "an agent deleted the semaphore at",
			},
			{
				"NotAnswered", func(d *story) *story { return d.tried(30_000, lockagent.DeletePermits, 0) }, lockagent.AddPermits,
				false, Incomplete, "perhaps more permits were in use than there were: up to 6 of 3",
			},
			{
				"NotToldOf", func(d *story) *story { return d }, lockagent.TrySetPermits, false, Incomplete,
				"perhaps more permits were in use than there were: up to 6 of 3",
			},
			{
				"NotTrue", func(d *story) *story { return d.tried(30_000, lockagent.DeletePermits, 0) }, lockagent.TrySetPermits,
				true, Violated, "6 permits were in use, and there were 3",
			},
			{
				"NotDeleted", func(d *story) *story { return d }, lockagent.AddPermits, true, Violated,
				"6 permits were in use, and there were 3",
			},
		} {
			a := agent("A").permits(kind, 3, 3).changes(500, lockagent.TrySetPermits, 3).granted(1, 1000)
			b, d := agent("B").permits(kind, 3, 3), agent("D").permits(kind, 3, 3)
			s := new(tape).add(0, a, b, d).add(2600, b.changes(2100, run.again, 3).held(1, 2200, 2500))
			s.live(3000, 3000, a, b, d)
			if run.shows {
				s.add(12_000, a.renewed(1, 11_000).released(1, 12_000).returned(1, 12_001))
			} else {
				s.add(11_000, a.lost(lockagent.LostDenied, 1, 11_000).foundOver(1, 11_001))
			}
			s.live(13_000, 30_000, a, b, d).add(30_000, run.delete(d)).live(33_000, 90_000, a, b, d)
			if r := s.add(91_000, a.stop(), b.stop(), d.stop()).read(newAudit()).Report(); r.Verdict != run.want ||
				!strings.Contains(r.String(), run.says) {
				t.Errorf("%s, %s: %s, want %s, and %q\n%v", kind, run.name, r.Verdict, run.want, run.says, r)
			}
		}
	}
}

// A semaphore that another program uses as well: the store does not know which permits that has taken.
func TestAuditOfASemaphoreBesideOthers(t *testing.T) {
	of := func(n, total int) *story { return agent("A").permits(lockagent.Semaphore, n, total) }
	verdicts{
		"TakenAndReleased": {
			[]*story{of(1, 5).changes(500, lockagent.TrySetPermits, 5).held(1, 1000, 1100).
				permits(lockagent.Semaphore, 1, 2).held(2, 2000, 2100).
				permits(lockagent.Semaphore, 1, 5).held(3, 3000, 3100).stop()},
			Proven, "", "",
		},
		"ReleasedWithoutTaking": {
			[]*story{
				of(1, 5).changes(500, lockagent.TrySetPermits, 5).held(1, 1000, 1100).permits(lockagent.Semaphore, 1, 6).
					held(2, 2000, 2100).stop(),
			},
			Incomplete, "unproven: 1", "the store told of 6, and the log explains 5",
		},
		"Drained": {
			[]*story{of(3, 5).changes(500, lockagent.TrySetPermits, 5).held(1, 1000, 1100).
				changes(1500, lockagent.DrainPermits, 3).
				permits(lockagent.Semaphore, 1, 3).held(2, 2000, 2100).stop()},
			Incomplete, "unproven: 1", "the store told of 3, and the log explains 2",
		},
	}.check(t)
}

// The beginning of a log is missing. So its first changes do not tell how many permits there were.
func TestAuditOfPermitsThatBeginsLate(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		for op, n := range map[lockagent.PermitsOp]int{lockagent.AddPermits: 2, lockagent.DrainPermits: 2} {
			if kind == lockagent.Permits && op == lockagent.DrainPermits {
				continue
			}
			auditor := newAudit()
			auditor.BeginsLate()
			s := agent("A").permits(kind, 1, 5).alive(500).changes(20_000, op, n).held(1, 41_000, 42_000).alive(50_000).stop()
			for _, r := range s.records {
				auditor.Add(r)
			}
			if r := auditor.Report(); r.Verdict != Proven {
				t.Errorf("%s, %s: %s\n%v", kind, op, r.Verdict, r)
			}
		}
	}
}

// A number that the store told has what was taken away before, if the log tells of that late.
func TestAuditOfPermitsLoweredLate(t *testing.T) {
	a := agent("A").permits(lockagent.Semaphore, 1, 3).changes(500, lockagent.TrySetPermits, 3).held(1, 1000, 1100)
	a.permits(lockagent.Semaphore, 1, 5).held(2, 25_000, 25_100) // another program has added 3
	b := agent("B")
	s := new(tape).add(0, a, b).live(1000, 50_000, a, b)
	s.add(51_000, b.permits(lockagent.Semaphore, 1, 5).changes(24_000, lockagent.AddPermits, -1))
	s.live(52_000, 90_000, a, b).add(91_000, a.held(3, 91_000, 91_100).stop(), b.stop())
	s.want(t, Incomplete, "unproven: 1", "the store told of 5, and the log explains 3")
}

// An agent that counted as dead comes back. Its hold went on beyond the end of the lease that was known, and beside one
// that had been counted without it.
func TestPermitsOfAnAgentThatComesBack(t *testing.T) {
	for _, gone := range []bool{false, true} {
		a := agent("A").permits(lockagent.Semaphore, 2, 3)
		b := agent("B").permits(lockagent.Semaphore, 2, 3)
		s := new(tape).add(0, a.changes(500, lockagent.TrySetPermits, 3).granted(1, 1000).alive(2000), b)
		s.live(10_000, 30_000, b).add(35_000, b.granted(1, 35_000)).live(40_000, 150_000, b)
		if gone {
			s.add(151_000, b.renewed(1, 150_000).released(1, 151_000).returned(1, 151_001))
			s.live(160_000, 300_000, b)
		}
		s.add(301_000, a.renewed(1, 30_000).released(1, 40_000).returned(1, 40_001).stop())
		auditor := s.read(newAudit())
		if !gone {
			auditor = s.add(302_000, b.renewed(1, 300_000).released(1, 302_000).returned(1, 302_001)).read(newAudit())
		}
		r := new(tape).add(303_000, b.stop()).read(auditor).Report()
		if r.Verdict != Incomplete || r.Late.Count != 1 {
			t.Errorf("the other hold is forgotten: %t\n%v", gone, r)
		}
	}
}

// A checkpoint keeps what a hold has: its shared grants, and its permits.
func TestCheckpointAnywhere(t *testing.T) {
	permits := func(id lockagent.AgentID) *story { return agent(id).permits(lockagent.Permits, 2, 4) }
	for name, stories := range map[string][]*story{
		"Downgrade": {downgraded(), agent("B").in(lockagent.Shared).held(1, 1300, 1900).stop()},
		"Permits": {
			permits("A").changes(500, lockagent.SetPermits, 4).granted(7, 1000).granted(8, 1001).
				lost(lockagent.LostDenied, 7, 9000).
				foundOver(7, 9001).released(8, 9100).returned(8, 9101).stop(),
			permits("B").gaveBack(2000, "A", 7).permits(lockagent.Permits, 0, 4).held(1, 3000, 4000).stop(),
		},
		"TooManyPermits": {
			permits("A").changes(500, lockagent.SetPermits, 4).granted(1, 1000).renewed(1, 5000).released(1, 6000).
				returned(1, 6001).stop(),
			permits("B").permits(lockagent.Permits, 3, 4).held(1, 3000, 4000).stop(),
		},
	} {
		records := recordsOf(stories)
		want := audited(records)
		if proven := name != "TooManyPermits"; (want.Verdict == Proven) != proven {
			t.Errorf("%s: %v", name, want)
		}
		for cut := range records {
			a := newAudit()
			for i, r := range records {
				if i == cut {
					a = resumed(t, a)
				}
				a.Add(r)
			}
			if got := a.Report(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, with a checkpoint before record %d: %v\nwithout: %v", name, cut, got, want)
			}
		}
	}
}
