package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// errSilent replaces the error of a context that bounded a call. Otherwise the caller might
// think that a context of its own had ended.
var errSilent = errors.New("no answer in time")

// silentError is the error of a connection that was cut because its server owed an answer for some time. It says so, in
// place of the words about a closed connection.
type silentError struct{ after time.Duration }

func (e silentError) Error() string { return fmt.Sprintf("the server did not answer for %v", e.after) }

func (e silentError) Is(target error) bool { return target == net.ErrClosed }

// Error translates the error of a call into one of the lockagent package. It returns nil
// for nil. ErrStoreUnavailable and ErrClosed stay as they are.
//
// An error reply about the key or the user becomes a definite error. All other error replies,
// such as READONLY, LOADING, CLUSTERDOWN or OOM, are about the state of the server, which may
// change. They become ErrStoreUnavailable.
func Error(err error) error {
	if err == nil || errors.Is(err, lockagent.ErrStoreUnavailable) || errors.Is(err, lockagent.ErrClosed) {
		return err
	}
	if answer := Refusal(""); errors.As(err, &answer) {
		mark := markOf(err.Error())
		if mark.advice == "" {
			return fmt.Errorf("%w: %w", mark.err, err)
		}
		return fmt.Errorf("%w: %w (%s)", mark.err, err, mark.advice)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	return fmt.Errorf("%w: %w", lockagent.ErrStoreUnavailable, err)
}

// Kind is the error of the lockagent package for the text of an error reply.
func Kind(text string) error { return markOf(text).err }

// mark translates the error replies that contain a text.
type mark struct {
	text   string
	err    error
	advice string // what to do; empty if the server's words say it
}

func markOf(text string) mark {
	for _, m := range marks {
		if strings.Contains(text, m.text) {
			return m
		}
	}
	return mark{err: lockagent.ErrStoreUnavailable}
}

// If a command fails inside a script, servers before 7.0 put other words in front of the error
// code. So a mark may be anywhere in the text.
var marks = []mark{
	{"WRONGTYPE", lockagent.ErrWrongType, ""},
	{"NOPERM", lockagent.ErrNotPermitted, ""},
	{"NOAUTH", lockagent.ErrNotPermitted, "the server asks for a password now: open the store with one"},
	{
		"WRONGPASS", lockagent.ErrNotPermitted,
		"the password is not the server's, or not any more: open the store with the right one",
	},
	{"The user executing the script can't", lockagent.ErrNotPermitted, ""},
	{"ACL failure in script", lockagent.ErrNotPermitted, ""},
	{
		"UNDECLARED", lockagent.ErrStoreUnavailable, "scripts of the store touch keys that they do not declare, and " +
			"the " +
			"server refuses that: have it allow that, as Dragonfly does with --default_lua_flags=allow-undeclared-keys",
	},
	{
		"READONLY", lockagent.ErrStoreUnavailable,
		"the address leads to a replica: give that of the master, or those of the Sentinels",
	},
	{
		"MASTERDOWN", lockagent.ErrStoreUnavailable,
		"the address leads to a replica that has lost its master: give that of the master, or those of the Sentinels",
	},
	{"LOADING", lockagent.ErrStoreUnavailable, "the server has just started: try again when it has read its data"},
	{
		"CLUSTERDOWN", lockagent.ErrStoreUnavailable,
		"nobody serves the slot until its master is back or replaced: see CLUSTER INFO",
	},
	{"TRYAGAIN", lockagent.ErrStoreUnavailable, "the slot is on its way to another node: try again"},
	{
		"CROSSSLOT", lockagent.ErrStoreUnavailable,
		"the address leads to several servers that share the keys out: open the store anew",
	},
	{
		"OOM", lockagent.ErrStoreUnavailable,
		"the memory of the server is full: raise maxmemory, and leave maxmemory-policy at noeviction",
	},
	{"NOREPLICAS", lockagent.ErrStoreUnavailable, "fewer replicas follow than min-replicas-to-write demands"},
	{"MISCONF", lockagent.ErrStoreUnavailable, "the server cannot write to its disk: see its log"},
	{"BUSY ", lockagent.ErrStoreUnavailable, "a script keeps the server: SCRIPT KILL ends it"},
}

// isOfLogin reports whether a server answers that the user or the password is wrong, or missing.
func isOfLogin(err error) bool {
	answer := Refusal("")
	return errors.As(err, &answer) &&
		(strings.Contains(string(answer), "NOAUTH") || strings.Contains(string(answer), "WRONGPASS"))
}

// isStale reports whether an error reply means that the server has changed since the
// connection was made. Another connection may lead to a better server.
func isStale(answer Refusal) bool {
	text := string(answer)
	return strings.Contains(text, "READONLY") || strings.Contains(text, "MASTERDOWN") ||
		strings.Contains(text, "NOAUTH")
}
