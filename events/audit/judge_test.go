package audit

import (
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

func token(ms int) func(*events.Record) {
	return func(r *events.Record) { r.Token = lockagent.Token(clock(ms)) }
}

// Tokens grow from tenure to tenure. Those of tenures that share the lock grow side by side.
func TestTokens(t *testing.T) {
	shared := func(id lockagent.AgentID) *story { return agent(id).in(lockagent.Shared) }
	verdicts{
		"SideBySide": { // the second hold of A has a greater token than that of B, which began before
			[]*story{
				shared("A").granted(1, 1000).handedOff(1, 1400).edit(token(1400)).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 1500).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1400)), 1600).
					edit(func(r *events.Record) { r.Held = 200_000_000 }).returned(1, 1601).stop(),
				shared("B").held(1, 1200, 1700).stop(),
			},
			Proven, "", "",
		},
		"SharedFell": {
			[]*story{shared("A").held(1, 1000, 2000).stop(), shared("B").held(1, 1200, 1700).edit(token(900)).stop()},
			Violated, "token fell: 1", "",
		},
		"SharedRepeated": {
			[]*story{shared("A").held(1, 1000, 2000).stop(), shared("B").held(1, 1200, 1700).edit(token(1000)).stop()},
			Violated, "token repeated: 1", "",
		},
		"ExclusiveBehindShared": {
			[]*story{shared("A").held(1, 1000, 1100).stop(), agent("B").held(1, 1200, 1700).edit(token(1000)).stop()},
			Violated, "token repeated: 1", "",
		},
		"FellByAnHour": { // and the one behind both has a token between theirs
			[]*story{
				agent("A").held(1, 7200_000, 7200_100).stop(),
				agent("B").held(1, 7300_000, 7300_100).edit(token(3600_000)).stop(),
				agent("C").held(1, 7400_000, 7400_100).edit(token(7100_000)).stop(),
			},
			Violated, "token fell: 2", "",
		},
		"OlderThanItsBeginning": {
			[]*story{agent("A").held(1, 10_000, 11_000).edit(token(1000)).stop()},
			Incomplete, "unproven: 1", "its token is older than its beginning, so an earlier one may be greater",
		},
		"OlderThanTheBeginningOfTheSecond": {
			[]*story{
				agent("A").of("b").held(1, 500, 600).of("a").held(2, 1000, 1100).stop(),
				agent("B").held(1, 10_000, 11_000).edit(token(2000)).stop(),
			},
			Incomplete, "unproven: 1", "its token is older than its beginning, so an earlier one may be greater",
		},
		"NotGreaterAndWithoutItsGrant": {
			[]*story{
				agent("A").held(1, 1000, 1100).stop(),
				agent("B").missing(1).handedOff(1, 2000).edit(func(r *events.Record) { r.StoreTime = clock(1900) }).
					edit(token(900)).stop(),
			},
			Incomplete, "missing: 1, open: 1, unproven: 2",
			"its token is not greater than 1772373601000000, and the log does not have the grants that would tell why",
		},
	}.check(t)
}

// A violation says what is wrong, and where to look.
func TestViolationsSayWhereToLook(t *testing.T) {
	const (
		store   = "why:    the store granted the lock to the second while the first had a lease that was not over\n"
		agents  = "why:    the agent granted the lock to the second owner while the first still had it\n"
		defect  = "look:   This is a defect of the agent, or its records were changed."
		stopped = "look:   Look whether the process of the holder was stopped just then."
	)
	for name, test := range map[string]struct {
		stories []*story
		says    []string
	}{
		"Store": {
			[]*story{agent("A").held(1, 1000, 2000).stop(), agent("B").held(1, 1500, 2500).stop()},
			[]string{store, "look:   Look whether the store lost data or fails over"},
		},
		"StoreAndTwoLives": {
			[]*story{agent("A").granted(1, 1000).released(1, 1600).stop().next().granted(2, 1500).released(2, 2200).stop()},
			[]string{store},
		},
		"Agent": {
			[]*story{
				agent("A").granted(1, 1000).handedOff(1, 1100).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 1200).released(1, 1300).stop(),
			},
			[]string{agents, defect},
		},
		"Process": {
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 3600_000).stop(),
				agent("B").held(1, 40_000, 41_000).stop(),
			},
			[]string{
				"why:    the process of the first did not run when its lease ran out, so its owner learned of that late\n",
				"look:   Look what stopped that process",
				"both:   from 2026-03-01T14:00:40.000Z to 14:00:41",
			},
		},
		"Outlived": {
			[]*story{agent("A").granted(1, 1000).released(1, 40000).stop()},
			[]string{stopped, `"owner-A", token 1772373601000000`, "time:   from 2026-03-01T14:00:31.000Z to 14:00:40"},
		},
		"Contradiction": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 9000).edit(func(r *events.Record) { r.Until = clock(3000) }).stop(),
			},
			[]string{defect, `"owner-A", token 1772373601000000`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := audited(recordsOf(test.stories)).String()
			for _, says := range test.says {
				if !strings.Contains(text, says) {
					t.Errorf("it does not say %q:\n%s", says, text)
				}
			}
		})
	}
}

// Tenures that go on side by side end in another order than they began in. Each token is compared with the one before
// it.
func TestTokensSideBySide(t *testing.T) {
	for name, of := range map[string]func(lockagent.AgentID) *story{
		"Semaphore": func(id lockagent.AgentID) *story { return agent(id).permits(lockagent.Semaphore, 1, 3) },
		"Permits":   func(id lockagent.AgentID) *story { return agent(id).permits(lockagent.Permits, 1, 3) },
		"Readers":   func(id lockagent.AgentID) *story { return agent(id).in(lockagent.Shared) },
	} {
		for _, run := range []struct {
			from  int // when B begins, after A at 1000 and before C at 2000
			token int
			found string
		}{
			{1500, 1500, ""},
			{1500, 1000, "token repeated: 1"},
			{1500, 900, "token fell: 1"},
			{2050, 1500, "token fell: 1"}, // after C
		} {
			a, b, c := of("A"), of("B"), of("C")
			if name != "Readers" {
				a.changes(500, lockagent.TrySetPermits, 3)
			}
			s := new(tape).add(0, a.granted(1, 1000), b, c)
			s.add(run.from, b.granted(1, run.from).edit(token(run.token)))
			delete(b.holds, b.latest[1])
			b.latest[1] = lockagent.Token(clock(run.token))
			b.holds[b.latest[1]] = &storyHold{run.from, 1, b.epoch, lockagent.HoldSum(b.lock, 1, b.latest[1])}
			s.add(2100, c.held(1, 2000, 2100)).live(3000, 70_000, a, b, c)
			s.add(71_000, a.renewed(1, 60_000).released(1, 71_000).returned(1, 71_001),
				b.renewed(1, 60_000).released(1, 71_000).returned(1, 71_001))
			r := s.live(72_000, 90_000, a, b, c).add(91_000, a.stop(), b.stop(), c.stop()).read(newAudit()).Report()
			if got := strings.Join(findingsOf(r), ", "); got != run.found {
				t.Errorf("%s, %d at %d: %q, want %q\n%v", name, run.token, run.from, got, run.found, r)
			}
		}
	}
}
