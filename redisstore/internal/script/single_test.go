package script

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// breaks breaks a plain lock.
func (s *server) breaks(name lockagent.Name) lockagent.BreakReply {
	s.t.Helper()
	s.room.Break(&s.call, lockagent.BreakRequest{Name: name}, s.past)
	r, err := ReadBroken(s.must(&s.call), s.past)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// breakAs breaks a lock of a kind, and returns the error.
func (s *server) breakAs(kind lockagent.LockKind, name lockagent.Name) error {
	s.t.Helper()
	write := s.room.Break
	switch kind {
	case lockagent.ReadWriteLock:
		write = s.room.ReadWriteBreak
	case lockagent.FairLock:
		write = s.room.FairBreak
	case lockagent.Semaphore, lockagent.Permits:
		write = s.room.BreakPermits
	}
	write(&s.call, lockagent.BreakRequest{Name: name, Kind: kind, Operator: "olga"}, s.past)
	if _, err := s.send(&s.call); err != nil {
		return Refused(err.Error())
	}
	return nil
}

// noBreak breaks a lock of each kind. It expects that a grace period goes on in an incarnation, or that the agent has
// to look at the database if the incarnation is empty.
func (s *server) noBreak(when string, lock lockagent.Name, incarnation string) {
	s.t.Helper()
	for _, kind := range everyKind {
		err := s.breakAs(kind, lock+lockagent.Name(kind))
		grace, refused := errors.AsType[*GraceError](err)
		if refused && (grace.Incarnation != incarnation || grace.Left < 20*time.Second) ||
			!refused && (incarnation != "" || !errors.Is(err, ErrForgotten)) {
			s.t.Errorf("%s: a break of the kind %q: %v", when, kind, err)
		}
	}
}

// A break tells those who wait, and the agent whose tenure it was.
func TestABreak(t *testing.T) {
	s := start(t)
	for _, name := range []lockagent.Name{"a lock", "a{b}"} {
		if r := s.breaks(name); r.Broken {
			t.Errorf("%q was free, and is broken: %+v", name, r)
		}
		granted := s.grant(wish(name, agentA, 1))
		waiter, holder := s.listen(Channel(name)), s.listen(AgentChannel(agentA))
		r := s.breaks(name)
		if !r.Broken || r.At <= granted.At {
			t.Errorf("broken %+v", r)
		}
		if got := s.hear(waiter); got != "0" {
			t.Errorf("the waiter heard %q", got)
		}
		want := lockagent.Message{Kind: lockagent.MessageBroken, Name: name, Tenure: tenure(agentA, 1), At: r.At}
		if got := s.message(holder); got != want {
			t.Errorf("the holder heard %+v, want %+v", got, want)
		}
		s.expectKeys("lockagent_clock")
	}
}

// A break wakes those who wait for a lock of another kind, as Redisson's does.
func TestABreakOfOtherKinds(t *testing.T) {
	const owner = "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42"
	for _, c := range []struct {
		name    lockagent.Name
		fields  []string
		channel string
		payload string
	}{
		{"orders", []string{owner, "2"}, "redisson_lock__channel:{orders}:theirs:2", "0"},
	} {
		s := start(t)
		now := s.time() / 1000
		queue, timeouts := "redisson_lock_queue:{orders}", "redisson_lock_timeout:{orders}"
		for i, waiter := range []string{"gone:1", "theirs:2", "theirs:3"} {
			s.Do("RPUSH", queue, waiter)
			s.Do("ZADD", timeouts, strconv.FormatInt(now+int64(i-1)*60_000+30_000, 10), waiter)
		}
		s.Do(append([]string{"HSET", string(c.name)}, c.fields...)...)
		waiter := s.listen(c.channel)
		if r := s.breaks(c.name); !r.Broken {
			t.Errorf("%q: %+v", c.fields, r)
		}
		if got := s.hear(waiter); got != c.payload {
			t.Errorf("%q: heard %q, want %q", c.fields, got, c.payload)
		}
		s.expectKeys("lockagent_clock", queue, timeouts)
	}
}

// A map of another program may look like a lock. Its fields have no UUID.
func TestABreakSparesMaps(t *testing.T) {
	s := start(t)
	for field, broken := range map[string]bool{
		"0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42":      true,
		"host-0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42": true,
		"user:17":                                 false,
		"0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b:42":  false,
		"0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5bx:42": false,
	} {
		s.Do("DEL", "map")
		s.Do("HSET", "map", field, "3")
		s.room.Break(&s.call, lockagent.BreakRequest{Name: "map"}, s.past)
		_, err := s.run(&s.call)
		gone := s.Do("EXISTS", "map") == int64(0)
		if gone != broken || !broken && !errors.Is(Refused(err.Error()), lockagent.ErrWrongType) {
			t.Errorf("%q: gone %v, %v; want %v", field, gone, err, broken)
		}
	}
}

func TestInspections(t *testing.T) {
	s := start(t)
	inspect := func(name lockagent.Name) lockagent.Inspection {
		s.room.Inspect(&s.call, name, lockagent.PlainLock)
		seen, err := ReadInspected(s.must(&s.call))
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	if got := inspect("orders"); got != (lockagent.Inspection{}) {
		t.Errorf("a free lock: %+v", got)
	}
	hour := wish("orders", agentA, 1)
	hour.Lease = time.Hour
	s.grant(hour)
	got := inspect("orders")
	want := lockagent.Inspection{Held: true, Holder: tenure(agentA, 1).String(), HoldCount: 1, Remaining: got.Remaining}
	if got != want || got.Remaining <= 59*time.Minute || got.Remaining > time.Hour {
		t.Errorf("a lock that is held: %+v, want %+v", got, want)
	}
	s.Do("HSET", "theirs", "another:1", "3")
	if got := inspect("theirs"); got.Holder != "another:1" || got.HoldCount != 3 || got.Remaining >= 0 {
		t.Errorf("their lock: %+v", got)
	}
}

// The rehearsal runs every command that the other scripts run, and leaves nothing.
func TestTheRehearsalIsComplete(t *testing.T) {
	command := regexp.MustCompile(`(?:call|try)\(('[A-Z]+'(?:, 'MYID')?|publish|other_publish|count)`)
	commands := func(source string) (all []string) {
		for _, match := range command.FindAllStringSubmatch(source, -1) {
			all = append(all, match[1])
		}
		return all
	}
	assemble()
	rehearsed := commands(rehearseSource)
	for _, source := range []string{
		acquireScript.Source, renewScript.Source, releaseScript.Source, breakScript.Source,
		inspectScript.Source, incarnationScript.Source,
		permitsAcquireScript.Source, permitsRenewScript.Source, permitsReleaseScript.Source, permitsBreakScript.Source,
		permitsInspectScript.Source, permitsChangeScript.Source, latchScript.Source,
	} {
		for _, c := range commands(source) {
			// PUBLISH or SPUBLISH. And scripts do without INFO.
			if !slices.Contains(rehearsed, c) && c != "publish" && c != "other_publish" && c != "'INFO'" {
				t.Errorf("%s is not rehearsed", c)
			}
		}
	}
	if n := len(commands(acquireScript.Source)); n < 10 {
		t.Errorf("%d commands found", n)
	}
	s := start(t)
	s.room.Rehearse(&s.call, "anything", "")
	if got := s.must(&s.call); got != "ok" {
		t.Errorf("%q", got)
	}
	s.expectKeys()
}

// A user who may not run a command learns which one, and no key is left.
func TestTheRehearsalNamesTheCommand(t *testing.T) {
	s := start(t)
	s.room.Rehearse(&s.call, "anything", "")
	for _, command := range []string{
		"del", "set", "incr", "hset", "hincrby", "zadd", "linsert", "lrem", "publish", "time",
	} {
		s.Do("ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all", "-"+command)
		conn := s.Dial()
		if _, err := conn.Do("AUTH", "app", "secret"); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"EVAL", s.call.Script.Source, strconv.Itoa(len(s.call.Keys))}, s.call.Keys...)
		_, err := conn.Do(append(args, s.call.Args...)...)
		named := err != nil && strings.Contains(err.Error(), "(at "+strings.ToUpper(command)+")")
		if !named || !errors.Is(Refused(err.Error()), lockagent.ErrNotPermitted) {
			t.Errorf("without %s: %v", command, err)
		}
		s.expectKeys()
		conn.Close()
		s.Do("ACL", "DELUSER", "app")
	}
}

// There are services that let a script touch no key but those that it is told of.
func TestTheRehearsalTouchesAKeyThatItDoesNotDeclare(t *testing.T) {
	s := start(t)
	s.room.Rehearse(&s.call, "anything", "")
	service := *s.call.Script
	service.Source = `local server = redis
local redis = setmetatable({pcall = function(command, ...)
	for _, declared in ipairs(KEYS) do
		if string.find(... or '', declared, 1, true) == 1 and ... ~= declared then
			return {err = 'ERR script tried accessing undeclared key'}
		end
	end
	return server.pcall(command, ...)
end}, {__index = server})
` + service.Source
	sum := sha1.Sum([]byte(service.Source))
	service.Digest = hex.EncodeToString(sum[:])
	s.call.Script = &service
	_, err := s.run(&s.call)
	if err == nil || !strings.Contains(err.Error(), "UNDECLARED ERR script tried accessing undeclared key (at EXISTS)") {
		t.Errorf("%v", err)
	}
	s.expectKeys()
}

// What the scripts have built in is what the package says.
func TestConstantsInScripts(t *testing.T) {
	assemble()
	for constant, source := range map[string]string{
		strconv.FormatUint(uint64(lockagent.MaxToken), 10):                                       acquireScript.Source,
		"local pass_lease = '" + strconv.FormatInt(lockagent.PassLease.Milliseconds(), 10) + "'": releaseScript.Source,
	} {
		if !regexp.MustCompile(regexp.QuoteMeta(constant)).MatchString(source) {
			t.Errorf("%q is in no script", constant)
		}
	}
}

// A function that a script lacks would be found where it is called, which may be seldom.
func TestScriptsHaveTheFunctionsThatTheyCall(t *testing.T) {
	assemble()
	remarks := regexp.MustCompile(`--.*|'[^']*'`)
	calls := regexp.MustCompile(`(function )?([.\w]+)\(`)
	names := regexp.MustCompile(`(?:local|for) ([\w, ]+)`)
	functions := regexp.MustCompile(`function ?(\w*)\(([^)]*)`)
	const known = "redis ipairs math pcall select string struct table tonumber type unpack"
	found := 0
	for _, s := range all {
		code := remarks.ReplaceAllString(s.Source, "''")
		has := map[string]bool{}
		for _, name := range strings.Fields(known) {
			has[name] = true
		}
		for _, match := range append(names.FindAllStringSubmatch(code, -1), functions.FindAllStringSubmatch(code, -1)...) {
			separates := func(r rune) bool { return r == ' ' || r == ',' }
			for _, name := range strings.FieldsFunc(strings.Join(match[1:], " "), separates) {
				has[name] = true
			}
		}
		for _, match := range calls.FindAllStringSubmatch(code, -1) {
			name, _, _ := strings.Cut(match[2], ".")
			if found++; match[1] == "" && name != "" && name != "function" && !has[name] {
				t.Errorf("no function %s in the script that begins with\n%.80s", name, s.Source)
			}
		}
		if strings.Contains(s.Source, "--include") {
			t.Errorf("a part is missing in\n%.80s", s.Source)
		}
	}
	if found < 500 {
		t.Errorf("only %d calls were found", found)
	}
}
