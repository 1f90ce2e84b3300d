package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// directory has users and groups of these names and numbers.
type directory map[string]uint32

func (d directory) UserID(name string) (uint32, error) { return d.id(name) }

func (d directory) GroupID(name string) (uint32, error) { return d.id(name) }

func (d directory) id(name string) (uint32, error) {
	if id, ok := d[name]; ok {
		return id, nil
	}
	return 0, errors.New("nobody has this name")
}

var people = directory{"root": 0, "ann": 1001, "bob": 1002, "deploy": 2000, "wheel": 10}

const self = 900

// desk is an Access with a clock that stands still until it is set, and with all that it has told.
type desk struct {
	*Access
	now  time.Time
	told []string
}

func newDesk(t testing.TB, limits Limits, rules ...Rule) *desk {
	t.Helper()
	d := &desk{now: time.Unix(1000, 0)}
	var err error
	d.Access, err = New(Config{
		Self: self, Directory: people, Rules: rules, Limits: limits,
		Now: func() time.Time { return d.now },
		Refused: func(uid uint32, err error, unsaid uint64) {
			d.told = append(d.told, fmt.Sprintf("%d: %v (%d unsaid)", uid, err, unsaid))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Who has a right to some names may enter. Who has none is refused, and counted.
func TestEnter(t *testing.T) {
	ann, bob, deployer := Peer{UID: 1001}, Peer{UID: 1002}, Peer{UID: 1003, Groups: []uint32{2000}}
	d := newDesk(t, Limits{})
	for uid, want := range map[uint32]bool{0: true, self: true, 1001: false} {
		if err := d.Enter(Peer{UID: uid}, Look); (err == nil) != want {
			t.Errorf("without rules, user %d: %v", uid, err)
		}
	}
	if err := d.Replace([]Rule{
		rule(t, "secret/**", 0, "ann", ""), rule(t, "a/**", Look|Watch, "ann", "deploy"), rule(t, "**", Acquire, "", ""),
	}, Limits{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []Peer{ann, deployer} {
		if err := d.Enter(p, Look); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
	for _, p := range []Peer{bob, {UID: 0}} {
		forbidden, ok := errors.AsType[*Forbidden](d.Enter(p, Look))
		if !ok || forbidden.NoRules || forbidden.UID != p.UID {
			t.Errorf("%v: %v", p, forbidden)
		}
	}
	if err := d.Enter(ann, Operate); !errors.Is(err, refusal.ErrForbidden) {
		t.Errorf("for another right: %v", err)
	}
	if n := len(d.Refusals()); n != 3 {
		t.Errorf("%d users were refused: %v", n, d.Refusals())
	}
}

func rule(t testing.TB, match string, allow Right, users, groups string) Rule {
	return Rule{Users: strings.Fields(users), Groups: strings.Fields(groups), Match: pattern(t, match), Allow: allow}
}

const all = Acquire | Look | Watch | Operate

func TestWithoutRulesOnlyTheDaemonsUserAndRootMayDoAnything(t *testing.T) {
	d := newDesk(t, Limits{})
	for uid, want := range map[uint32]bool{0: true, self: true, 1001: false} {
		for _, right := range []Right{Acquire, Look, Watch, Operate} {
			if err := d.Check(Peer{UID: uid, Groups: []uint32{0, self}}, right, "a"); (err == nil) != want {
				t.Errorf("user %d may %v: %v", uid, right, err)
			}
		}
	}
}

func TestTheFirstRuleForPeerAndNameCounts(t *testing.T) {
	d := newDesk(t, Limits{},
		rule(t, "deploy/prod/**", Acquire|Look, "ann", ""),
		rule(t, "deploy/prod/**", Look, "", "deploy"),
		rule(t, "deploy/**", Acquire|Look|Watch, "1002", "deploy"),
		rule(t, "secret/**", 0, "", ""),
		rule(t, "**", Look, "", ""),
		rule(t, "**", all, "root", "wheel"), // behind a rule for everybody: never reached
	)
	ann := Peer{UID: 1001, Groups: []uint32{2000}}
	bob := Peer{UID: 1002}
	team := Peer{UID: 7, Groups: []uint32{7, 2000}}
	root := Peer{}
	for _, test := range []struct {
		peer  Peer
		right Right
		name  string
		rule  int // that refuses, or 0 if it is allowed
	}{
		{ann, Acquire, "deploy/prod/db", 0},
		{ann, Watch, "deploy/prod/db", 1},
		{team, Acquire, "deploy/prod/db", 2},
		{team, Look, "deploy/prod/db", 0},
		{team, Watch, "deploy/test", 0},
		{bob, Acquire, "deploy/prod/db", 0},
		{bob, Acquire, "other", 5},
		{bob, Look, "secret/x", 4},
		{bob, Look, "", 0},
		{root, Operate, "", 5},
	} {
		err := d.Check(test.peer, test.right, test.name)
		refused, _ := errors.AsType[*Forbidden](err)
		switch {
		case test.rule == 0 && err != nil:
			t.Errorf("%+v: %v", test, err)
		case test.rule > 0 &&
			(refused == nil || refused.Rule != test.rule || refused.NoRules || !errors.Is(err, refusal.ErrForbidden) ||
				errors.Is(err, refusal.ErrQuota)):
			t.Errorf("%+v: got %#v", test, err)
		}
		if d.Sees(test.peer, test.right, test.name) != (test.rule == 0) {
			t.Errorf("Sees says otherwise than Check for %+v", test)
		}
	}
}

func TestWhoMatchesNoRuleMayDoNothing(t *testing.T) {
	d := newDesk(t, Limits{}, rule(t, "a", all, "ann", ""))
	for _, p := range []Peer{{}, {UID: self}, {UID: 1001}} {
		err := d.Check(p, Look, "b")
		if refused, ok := errors.AsType[*Forbidden](err); !ok || refused.Rule != 0 || refused.NoRules {
			t.Errorf("user %d: %#v", p.UID, err)
		}
	}
}

// The reference is a loop over the rules as their documentation tells it.
func TestChecksAreThoseOfTheRulesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "b", ""})
		patterns := rapid.SampledFrom([]string{"a", "a/*", "a/**", "*", "**", "b"})
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1", "2", "3"}), 0, 2, rapid.ID)
		var rules []Rule
		for range rapid.IntRange(1, 5).Draw(t, "rules") {
			match, _ := ParsePattern(patterns.Draw(t, "match"))
			rules = append(rules, Rule{
				Users: ids.Draw(t, "users"), Groups: ids.Draw(t, "groups"), Match: match,
				Allow: Right(rapid.IntRange(0, int(all)).Draw(t, "allow")),
			})
		}
		a, err := New(Config{Rules: rules, Directory: people, Now: time.Now, Refused: func(uint32, error, uint64) {}})
		if err != nil {
			t.Fatal(err)
		}
		p := Peer{UID: rapid.Uint32Range(1, 3).Draw(t, "uid"), Groups: []uint32{rapid.Uint32Range(1, 3).Draw(t, "gid")}}
		right := Right(1) << rapid.IntRange(0, 3).Draw(t, "right")
		name := names.Draw(t, "name")
		want := false
		for _, r := range rules {
			everybody := len(r.Users)+len(r.Groups) == 0
			if (everybody || slices.Contains(r.Users, fmt.Sprint(p.UID)) ||
				slices.Contains(r.Groups, fmt.Sprint(p.Groups[0]))) && r.Match.Match(name) {
				want = r.Allow&right != 0
				break
			}
		}
		if got := a.Check(p, right, name) == nil; got != want {
			t.Fatalf(
				"user %d, group %v, right %v, name %q, rules %v: %v, want %v", p.UID, p.Groups, right, name, rules, got, want,
			)
		}
	})
}

func TestAnUnknownUserInARuleIsAnErrorAndTheOldRulesStay(t *testing.T) {
	d := newDesk(t, Limits{}, rule(t, "**", all, "ann", ""))
	for _, test := range []struct {
		rule Rule
		says string
	}{
		{rule(t, "**", all, "ann carl", ""), `rule 2: user "carl": nobody has this name`},
		{rule(t, "**", all, "", "staff"), `rule 2: group "staff": nobody has this name`},
	} {
		err := d.Replace([]Rule{rule(t, "**", all, "bob", ""), test.rule}, Limits{})
		if err == nil || err.Error() != test.says {
			t.Errorf("got %v, want %s", err, test.says)
		}
	}
	if err := d.Check(Peer{UID: 1001}, Acquire, "a"); err != nil {
		t.Errorf("the old rules do not count: %v", err)
	}
	if err := d.Replace([]Rule{rule(t, "**", all, "bob", "")}, Limits{}); err != nil {
		t.Fatal(err)
	}
	if d.Check(Peer{UID: 1001}, Acquire, "a") == nil || d.Check(Peer{UID: 1002}, Acquire, "a") != nil {
		t.Error("the new rules do not count")
	}
}

func TestNamesHaveALimit(t *testing.T) {
	d := newDesk(t, Limits{NameLen: 3})
	if err := d.Check(Peer{}, Acquire, "abc"); err != nil {
		t.Error(err)
	}
	err := d.Check(Peer{}, Acquire, "abcd")
	if bad, ok := errors.AsType[*lockagent.NameError](err); !ok ||
		bad.Reason != "it has 4 bytes, and the limit of this daemon is 3" {
		t.Errorf("got %#v", err)
	}
	if got, want := d.Refusals(), []RefusalCount{{0, false, "name_length", 1}}; !slices.Equal(got, want) {
		t.Errorf("the counts are %v, want %v", got, want)
	}
	if err := d.Check(Peer{}, Look, "abcd"); err != nil {
		t.Errorf("another host may have such a lock, and it can be looked at: %v", err)
	}
}

func TestRights(t *testing.T) {
	var together Right
	for _, name := range RightNames() {
		r, err := ParseRight(name)
		if err != nil || r.String() != name {
			t.Errorf("right %q is %v: %v", name, r, err)
		}
		together |= r
	}
	if together != all || together.String() != "acquire,look,watch,operate" {
		t.Errorf("together they are %v", together)
	}
	if _, err := ParseRight("breaks"); err == nil || !strings.Contains(err.Error(), "acquire, look, watch, operate") {
		t.Errorf("got %v", err)
	}
}

// hundred is an Access with 100 rules, of which the last is for p and name. The others are for p, too. Their patterns
// begin otherwise than the name, or only end otherwise.
func hundred(t testing.TB, byEnd bool) (d *desk, p Peer, name string) {
	var rules []Rule
	for i := range 99 {
		match := fmt.Sprintf("team%d/**/lock-*", i)
		if byEnd {
			match = fmt.Sprintf("team/**/lock-%d", i)
		}
		rules = append(rules, rule(t, match, all, fmt.Sprint(i), "2000"))
	}
	rules = append(rules, rule(t, "team/**", Acquire, "", "deploy"))
	return newDesk(t, Limits{NameLen: 100}, rules...), Peer{UID: 1001, Groups: []uint32{100, 2000}}, "team/orders/lock-442"
}

func TestACheckNeedsNoMemory(t *testing.T) {
	d, p, name := hundred(t, true)
	if n := testing.AllocsPerRun(100, func() { _ = d.Check(p, Acquire, name) }); n != 0 {
		t.Errorf("a check makes %v allocations", n)
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, byEnd := range []bool{false, true} {
		b.Run(fmt.Sprintf("byEnd=%v", byEnd), func(b *testing.B) {
			d, p, name := hundred(b, byEnd)
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Check(p, Acquire, name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The name that takes the longest to tell that a pattern is not for it.
func BenchmarkWorstName(b *testing.B) {
	p, name := pattern(b, "**a*b*c"), strings.Repeat("a/", 250)
	b.ReportAllocs()
	for b.Loop() {
		p.Match(name)
	}
}

// The secret of a claim is for its user, root and operators. Whoever else has it is refused as if it were wrong, and
// counted.
func TestUse(t *testing.T) {
	const owner = 1001
	d := newDesk(t, Limits{}, rule(t, "a/**", Operate, "bob", ""), rule(t, "**", Acquire|Look|Watch, "", ""))
	for _, test := range []struct {
		uid  uint32
		name string
		may  bool
	}{
		{owner, "a/b", true},
		{0, "a/b", true},
		{1002, "a/b", true},
		{1002, "b", false},
		{1003, "a/b", false},
		{self, "a/b", false},
	} {
		err := d.Use(Peer{UID: test.uid}, owner, test.name)
		//nolint:errorlint // it says nothing more
		if (err == nil) != test.may || err != nil && err != refusal.ErrNoClaim {
			t.Errorf("user %d, %s: %v", test.uid, test.name, err)
		}
	}
	want := []RefusalCount{{self, false, "secret", 1}, {1002, false, "secret", 1}, {1003, false, "secret", 1}}
	if got := d.Refusals(); !slices.Equal(got, want) {
		t.Errorf("the counts are %v, want %v", got, want)
	}
	d.expectTold(t, `1002: the secret of a claim of user 1001 on "b" was used by user 1002 (0 unsaid)`,
		`1003: the secret of a claim of user 1001 on "a/b" was used by user 1003 (0 unsaid)`,
		`900: the secret of a claim of user 1001 on "a/b" was used by user 900 (0 unsaid)`)
}
