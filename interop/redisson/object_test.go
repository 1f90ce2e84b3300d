package redisson

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// object is something that Redisson has in Redis, as one thread of a process sees it. The families of objects add their
// methods.
type object struct {
	process            *process
	thread, kind, name string
}

// send sends a command. Lengths of time become numbers of ms, and kept stays as it is.
func (o object) send(command string, args ...any) <-chan answer {
	all := []any{o.name}
	for _, arg := range args {
		if d, is := arg.(time.Duration); is && d != kept {
			arg = d.Milliseconds()
		} else if is {
			arg = kept
		}
		all = append(all, arg)
	}
	return o.process.send(o.thread, o.kind+"."+command, all...)
}

// do sends a command, and returns the answer.
func (o object) do(t *testing.T, command string, args ...any) string {
	t.Helper()
	return value(t, o.send(command, args...))
}

// is sends a question whose answer is true or false.
func (o object) is(t *testing.T, command string, args ...any) bool {
	t.Helper()
	yes, err := strconv.ParseBool(o.do(t, command, args...))
	must(t, err)
	return yes
}

// number sends a question whose answer is a number.
func (o object) number(t *testing.T, command string, args ...any) int {
	t.Helper()
	n, err := strconv.Atoi(o.do(t, command, args...))
	must(t, err)
	return n
}

// waits sends a command that has to wait, and returns when Redisson waits for a message: it has asked once more after
// it subscribed. Each time that it asks in vain it has Redis run the command asking. Nobody else may do so meanwhile.
func (o object) waits(t *testing.T, redis *redistest.Server, asking, command string, args ...any) <-chan answer {
	t.Helper()
	before := redis.Calls(asking)
	answers := o.send(command, args...)
	waittest.Until(t, "two questions of Java", func() bool { return redis.Calls(asking) >= before+2 })
	if o.kind != "spin" {
		o.process.awaitSleep(t, o.thread)
	}
	pending(t, answers)
	return answers
}

// awaitSleep waits until a thread of Java sleeps. It may have asked in vain, and be about to sleep. Then Redisson loses
// the message 1, the end of writing: it wakes only those who sleep.
func (p *process) awaitSleep(t *testing.T, thread string) {
	t.Helper()
	waittest.Until(t, "a thread that sleeps", func() bool { return p.do(t, thread, "sleeps") == "true" })
}
