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
//
// The time of a script is that of all it runs, so times are added up over scripts alone.
package commandstats

import (
	"maps"
	"strconv"
	"strings"
)

// Counts has a number for each command, by its name in lower case.
type Counts map[string]int64

// Stats is what a server counts.
type Stats struct {
	Calls Counts // how often each command was run
	Usec  Counts // how long that took, in microseconds
}

// scripts are the commands that run one.
var scripts = []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"}

// onlyClients is what scripts do not run.
var onlyClients = append([]string{
	"script", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe",
	"hello", "auth", "client", "ping", "multi", "exec", "watch", "wait",
}, scripts...)

// Parse reads the reply of INFO commandstats. Subcommands count for their command.
func Parse(info string) Stats {
	stats := Stats{make(Counts), make(Counts)}
	for line := range strings.Lines(info) {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		if !ok {
			continue
		}
		name, fields, _ := strings.Cut(rest, ":")
		name, _, _ = strings.Cut(name, "|")
		for field := range strings.SplitSeq(strings.TrimSpace(fields), ",") {
			key, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil: // a fraction, which is none of ours
			case key == "calls":
				stats.Calls[name] += n
			case key == "usec":
				stats.Usec[name] += n
			}
		}
	}
	return stats
}

// Add adds what another server has counted.
func (s Stats) Add(other Stats) {
	s.Calls.add(other.Calls)
	s.Usec.add(other.Usec)
}

func (c Counts) add(other Counts) {
	for name, n := range other {
		c[name] += n
	}
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
	return c.of(onlyClients) + c.of(also)
}

// Scripts is the sum over the commands that run a script.
func (c Counts) Scripts() int64 { return c.of(scripts) }

func (c Counts) of(names []string) (n int64) {
	for _, name := range names {
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
