// Package commandstats counts the commands that clients send to a Redis server, from
// what the server counts itself.
//
// INFO commandstats counts each command under its name, those inside scripts as well,
// and has no other way to tell the two apart. So what is counted here is
//
//   - commands that scripts cannot run, or do not in any contender: EVAL and EVALSHA
//     and their likes, SCRIPT, the subscribing ones, HELLO, CLIENT, PING, MULTI, EXEC;
//   - for each contender, those that it sends by themselves as well, and of which its
//     scripts run none: SET for redsync, whose scripts only GET, DEL and PEXPIRE.
//
// INFO itself is never counted: that is the benchmark.
package commandstats

import (
	"maps"
	"strconv"
	"strings"
)

// Counts has how often each command was run, by its name in lower case.
type Counts map[string]int64

// onlyClients is what scripts do not run.
var onlyClients = []string{
	"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro", "script",
	"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe",
	"hello", "auth", "client", "ping", "multi", "exec", "watch", "wait",
}

// Parse reads the reply of INFO commandstats. Subcommands count for their command.
func Parse(info string) Counts {
	counts := make(Counts)
	for line := range strings.Lines(info) {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		if !ok {
			continue
		}
		name, fields, _ := strings.Cut(rest, ":")
		name, _, _ = strings.Cut(name, "|")
		for field := range strings.SplitSeq(fields, ",") {
			if calls, ok := strings.CutPrefix(field, "calls="); ok {
				n, err := strconv.ParseInt(strings.TrimSpace(calls), 10, 64)
				if err == nil {
					counts[name] += n
				}
			}
		}
	}
	return counts
}

// Since returns what was counted after before.
func (c Counts) Since(before Counts) Counts {
	since := maps.Clone(c)
	for name, n := range before {
		since[name] -= n
	}
	return since
}

// Sent is how many commands clients sent, if they send also some by themselves.
func (c Counts) Sent(also ...string) int64 {
	var n int64
	for _, name := range onlyClients {
		n += c[name]
	}
	for _, name := range also {
		n += c[name]
	}
	return n
}

// All is how many commands the server ran, those inside scripts included, but not
// INFO.
func (c Counts) All() int64 {
	var n int64
	for name, calls := range c {
		if name != "info" {
			n += calls
		}
	}
	return n
}
