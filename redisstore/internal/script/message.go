package script

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// ReadMessage reads a message on one of the agent's channels. It returns an error if it does not
// understand the message. Ignore such a message: messages may be lost.
func ReadMessage(payload string) (m lockagent.Message, err error) {
	kind, rest, _ := strings.Cut(payload, " ")
	if k := lockagent.LockKind(kind); slices.Contains(lockagent.LockKinds(), k) { // otherwise the lock is plain
		m.LockKind = k
		kind, rest, _ = strings.Cut(rest, " ")
	}
	if kind == "passed+" {
		kind, m.Contested = "passed", true
	}
	words := map[string]int{"passed": 7, "standby": 2, "wanted": 1, "broken": 3}[kind]
	if kind == "passed" && (m.LockKind == lockagent.Semaphore || m.LockKind == lockagent.Permits) {
		words++
	}
	fields := strings.SplitN(rest, " ", words+1)
	if words == 0 || len(fields) <= words {
		return lockagent.Message{}, fmt.Errorf("%.100q is no message to an agent", payload)
	}
	name, err := lockagent.ParseName(fields[words]) // names may have spaces
	if err != nil {
		return lockagent.Message{}, err
	}
	tenure, ok := lockagent.ParseTenure(fields[0])
	if !ok {
		return lockagent.Message{}, fmt.Errorf("%.100q is no tenure", fields[0])
	}
	m.Name, m.Tenure = name, tenure
	number := func(i int, most uint64) (n uint64) {
		var failed error
		if n, failed = strconv.ParseUint(fields[i], 10, 64); err == nil && (failed != nil || n > most) {
			err = fmt.Errorf("%.100q has no such number: %.40q", payload, fields[i])
		}
		return n
	}
	switch kind {
	case "passed":
		m.Kind = lockagent.MessagePassed
		m.Token = lockagent.Token(number(1, uint64(lockagent.MaxToken)))
		m.At = lockagent.StoreTime(number(2, lockagent.MaxTenure))
		m.Clock = fields[3]
		m.Outsiders = int(number(4, lockagent.MaxTenure))
		if m.Incarnation = fields[5]; m.Incarnation == "-" {
			m.Incarnation = ""
		}
		if m.Trace = fields[6]; m.Trace == "-" {
			m.Trace = ""
		}
		if words > 7 {
			m.Total = int(number(7, lockagent.MaxTenure))
		}
	case "standby":
		m.Kind = lockagent.MessageStandby
		m.AskAfter = time.Duration(number(1, uint64(lockagent.MaxLease/time.Millisecond))) * time.Millisecond
	case "wanted":
		m.Kind = lockagent.MessageWanted
	case "broken":
		m.Kind = lockagent.MessageBroken
		m.At = lockagent.StoreTime(number(1, lockagent.MaxTenure))
		m.Operator = unescape(fields[2])
	}
	if err != nil {
		return lockagent.Message{}, err
	}
	return m, nil
}

// Here is the message by which a process says that it listens as an agent. The word is one that nobody has used before.
func Here(word string) string { return here + word }

// Taken is the answer to [Here] of another process that listens as the agent.
func Taken(word string) string { return taken + word }

const here, taken = "here ", "taken "

// ReadHere reads a [Here] or a [Taken]. It reports false for any other message.
func ReadHere(payload string) (word string, answers, ok bool) {
	if word, ok = strings.CutPrefix(payload, here); ok {
		return word, false, true
	}
	word, ok = strings.CutPrefix(payload, taken)
	return word, true, ok
}

// Publish writes the call that publishes a message to an agent, see publish.lua.
func (r Room) Publish(c *Call, agent lockagent.AgentID, message string) {
	c.begin(publishScript)
	c.Args = append(c.Args, AgentChannel(agent), message)
}

// escape makes one word of any text.
func escape(text string) string {
	switch text {
	case "":
		return "-"
	case "-":
		return "%2D"
	}
	return url.QueryEscape(text)
}

// unescape is the inverse of escape. It returns what it cannot read as it is.
func unescape(word string) string {
	if word == "-" {
		return ""
	}
	text, err := url.QueryUnescape(word)
	if err != nil {
		return word
	}
	return text
}
