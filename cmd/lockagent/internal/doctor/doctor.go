// Package doctor judges what was found out about a store, an event log and a host: what is wrong, and what to do about
// it. It finds out nothing itself.
package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/redisstore"
)

// State says how well a part is.
type State string

// The states. A warning is about a bad day, an error about today. What was skipped needs something else first, or is
// not in use.
const (
	OK      State = "ok"
	Warning State = "warning"
	Error   State = "error"
	Skipped State = "skipped"
)

// Finding is the outcome of one check.
type Finding struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // what to do about it
}

// Redis judges what was found out about Redis, or err, which is why nothing was. cfg is that of the store.
func Redis(e *redisstore.Examination, err error, cfg redisstore.Config) []Finding {
	if err != nil {
		f := Finding{"redis", Error, text(err), "start Redis, or correct --redis or redis.url"}
		switch {
		case errors.Is(err, lockagent.ErrNotPermitted):
			f.Do = "correct the user in redis.url, or the password in redis.password_file"
		case errors.Is(err, lockagent.ErrBadURL), errors.Is(err, lockagent.ErrBadOption):
			f.Do = "correct --redis or redis.url"
		}
		return []Finding{f}
	}
	all := []Finding{{"redis", OK, fmt.Sprintf("%s, of %d", e.Mode, max(1, len(e.Masters))), ""}}
	if e.Mode == "" {
		all[0].Found = "it answers"
	}
	if e.Unfit != nil {
		return append(all, Finding{
			"redis version", Error, text(e.Unfit),
			"use Redis 6.2 or newer, or Valkey, with RESP3; correct redis.url if it names another server",
		})
	}
	all = append(all,
		Finding{"redis version", OK, e.Version + ", with RESP3", ""},
		tried("redis scripts", "they run", e.Scripts),
		tried("redis messages", "they come", e.Messages),
		permissions(e),
		grace(cfg),
	)
	for _, m := range e.Masters {
		all = append(all, master(m, e.Watched, cfg.MinReplicas)...)
	}
	return all
}

// BadFile judges a file that a setting names. Without it the server cannot be asked.
func BadFile(server string, err error) Finding {
	return Finding{server, Error, text(err), "correct the file, or the setting that names it: lockagent config show"}
}

// tried judges something that either works or does not.
func tried(check, found string, err error) Finding {
	switch {
	case err == nil:
		return Finding{check, OK, found, ""}
	case errors.Is(err, lockagent.ErrNotPermitted):
		return Finding{check, Error, text(err), "see the permissions"}
	}
	return Finding{
		check, Error, text(err),
		"see the log of Redis; a proxy before it must let scripts, subscriptions and RESP3 through",
	}
}

func permissions(e *redisstore.Examination) Finding {
	for _, err := range []error{e.Scripts, e.Messages} {
		if errors.Is(err, lockagent.ErrNotPermitted) {
			return Finding{"redis permissions", Error, text(err), "ACL SETUSER with the rules in the " +
				"documentation of package redisstore, which lists all commands, keys and channels"}
		}
	}
	return Finding{"redis permissions", OK, "the user may do all that locks need", ""}
}

// grace judges what the settings say of grace periods.
func grace(cfg redisstore.Config) Finding {
	f := Finding{"redis grace", OK, "", ""}
	switch {
	case cfg.Grace == redisstore.GraceOff:
		f.State, f.Found = Warning, "off: when Redis has forgotten locks, two may hold one at once"
		f.Do = "set redis.grace to true, for all hosts"
	case cfg.GraceFirst == redisstore.NoGraceFirst:
		f.Found = "on; a Redis that nobody knew before grants at once"
	default:
		f.Found = fmt.Sprintf("on; a Redis that nobody knew before grants after %v", cfg.GraceFirst)
	}
	return f
}

// master judges one master. watched says that Sentinels watch it.
func master(m redisstore.Master, watched bool, minReplicas int) []Finding {
	if m.Err != nil {
		return []Finding{{
			"redis settings", Skipped, m.Addr + " does not tell them: " + text(m.Err),
			"give the user +info to have them checked",
		}}
	}
	return []Finding{eviction(m), persistence(m), replicas(m, watched, minReplicas)}
}

func eviction(m redisstore.Master) Finding {
	const mend = "CONFIG SET maxmemory-policy noeviction, and in redis.conf"
	f := Finding{"redis eviction", OK, fmt.Sprintf("%s: %s", m.Addr, m.Policy), ""}
	switch {
	case m.Policy == "noeviction":
	case m.MaxMemory > 0:
		f.State, f.Do = Error, mend
		f.Found += fmt.Sprintf(": locks that are held are thrown away when %s are full", readable.Bytes(m.MaxMemory))
	default:
		f.State, f.Do = Warning, mend
		f.Found += ": locks that are held are thrown away as soon as there is a maxmemory, and it is reached"
	}
	return f
}

func persistence(m redisstore.Master) Finding {
	f := Finding{"redis persistence", OK, m.Addr + ": ", ""}
	switch {
	case m.AppendOnly:
		f.Found += "append-only file"
	case m.SavesErr != nil:
		f.State, f.Found = Skipped, f.Found+"no append-only file, and nobody tells about snapshots: "+text(m.SavesErr)
		f.Do = "CONFIG SET appendonly yes, and in redis.conf"
	default:
		f.State, f.Do = Warning, "CONFIG SET appendonly yes, and in redis.conf"
		if f.Found += "none: a restart of Redis frees all locks that are held"; m.Saves != "" {
			f.Found = m.Addr + ": snapshots only: a crash of Redis frees the locks that were taken since the last one"
		}
	}
	return f
}

func replicas(m redisstore.Master, watched bool, minReplicas int) Finding {
	f := Finding{"redis replicas", OK, fmt.Sprintf("%s: %d", m.Addr, m.Replicas), ""}
	switch {
	case m.Replicas < minReplicas:
		f.State, f.Found = Error, fmt.Sprintf("%s: %d, and redis.min_replicas demands %d: no lock is granted",
			m.Addr, m.Replicas, minReplicas)
		f.Do = "see whether the replicas run and follow, or lower redis.min_replicas"
	case (m.Replicas > 0 || watched) && minReplicas == 0 && m.GoodReplicas < 0:
		f.State, f.Found = Warning, f.Found+": a master that is cut off goes on granting and renewing locks for some "+
			"seconds after a failover, and no grace period of the new master prevents that"
		f.Do = "set redis.min_replicas to 1, or CONFIG SET min-replicas-to-write 1 and CONFIG SET min-replicas-max-lag 2, " +
			"and in redis.conf"
	case m.Replicas > 0 && minReplicas == 0:
		f.Found += "; redis.min_replicas is 0, so a failover can forget the newest grants"
	}
	return f
}

// Sample is a look at the store's clock, by a clock of this host.
type Sample struct {
	Before, After time.Duration // the call
	Store         lockagent.StoreTime
}

// Bounds for the rate of the store's clock. A tenth of the lease is the margin, so much less is no danger.
const (
	rateBound  = 0.01
	roughBound = 0.05
)

// Clock judges how fast the store's clock runs beside that of this host. The locks need the same rate, and no common
// time.
func Clock(first, second Sample, err error) Finding {
	f := Finding{Check: "redis clock", State: OK}
	if err != nil {
		return Finding{f.Check, Skipped, text(err), "see the other checks of Redis"}
	}
	mid := func(s Sample) float64 { return float64(s.Before+s.After) / 2 }
	half := func(s Sample) float64 { return float64(s.After-s.Before) / 2 }
	passed := mid(second) - mid(first)
	if passed <= 0 {
		return Finding{f.Check, Skipped, "no time has passed between two looks", "run it again"}
	}
	off := float64(second.Store.Sub(first.Store))/passed - 1
	rough := (half(first) + half(second)) / passed
	f.Found = fmt.Sprintf("it runs at %.2f times the rate of ours, give or take %.2f", 1+off, rough)
	switch {
	case max(off, -off)-rough > rateBound:
		f.State, f.Do = Error,
			"mend the clock of one of the two hosts: see chronyc tracking, and whether a virtual machine is paused"
	case rough > roughBound:
		f.State, f.Found, f.Do = Warning, f.Found+": Redis answers too slowly to be sure",
			"run it again when the network and the hosts are less busy"
	}
	return f
}

// Deadlines judges whether this process can share a clock with others of the machine, or err, which is why nobody
// knows.
func Deadlines(err error) Finding {
	if err != nil {
		return Finding{"deadlines", Error, text(err), "have doctor, the daemon and its clients see that file"}
	}
	return Finding{"deadlines", OK, "processes of this machine share a clock", ""}
}

// NATS judges what was found out about the hub for events, or err, which is why nothing was.
func NATS(e *natslog.Examination, stream string, err error) []Finding {
	const optional = "; locks work without it, and their events stay on this host"
	switch {
	case errors.Is(err, natslog.ErrNotPermitted):
		return []Finding{{
			"nats", Error, text(err) + optional,
			"correct the credentials: nats.creds, nats.nkey, nats.user and nats.password_file, or nats.token_file",
		}}
	case err != nil:
		return []Finding{{"nats", Error, text(err) + optional, "start NATS, or correct --nats or nats.url"}}
	}
	all := []Finding{{"nats", OK, "version " + e.Version, ""}}
	f := Finding{
		"nats stream", OK,
		fmt.Sprintf("%s has %s messages, %s", stream, readable.Number(e.Events), readable.Bytes(int64(e.Bytes))), "",
	}
	flaw, isFlaw := errors.AsType[*natslog.StreamError](e.Flaw)
	switch {
	case errors.Is(e.Unusable, natslog.ErrNotPermitted):
		f = Finding{f.Check, Error, text(e.Unusable), "give the user the permissions that docs/nats.md lists"}
	case e.Unusable != nil:
		f = Finding{
			f.Check, Error, text(e.Unusable),
			"switch JetStream on in the server, and for the account; see also nats.domain",
		}
	case isFlaw:
		f = Finding{f.Check, Error, text(flaw), flaw.Mend}
	case e.Unknown != nil:
		f = Finding{
			f.Check, Warning, "there is no " + stream + " yet, and perhaps it cannot be made: " + text(e.Unknown),
			"make the stream, or give the user the permissions to make it: docs/nats.md has both",
		}
	case !e.Found:
		f = Finding{f.Check, OK, "there is no " + stream + " yet; the first daemon that forwards makes it", ""}
	case e.Weaker != "":
		f.State, f.Found, f.Do = Warning, f.Found+"; "+e.Weaker, "nats stream edit "+stream
	}
	return append(all, f)
}

// Host is what was found out about the files of a daemon.
type Host struct {
	Dir      string      // or empty if nobody knows it
	Info     fs.FileInfo // of the state directory; nil if there is none
	WriteErr error       // why nothing can be written there, or nil
	Free     int64       // bytes

	Socket     string
	SocketInfo fs.FileInfo // nil if there is none
	Mode       fs.FileMode // that the socket should have

	PID    int   // of the daemon that uses the state directory, if there is no socket; 0 if there is none
	Served error // why no daemon answers on the socket, or nil
	Ready  bool  // it can grant locks
	Why    error // why it cannot, if that is known
}

// Bounds of what is free where the journal is.
const (
	littleRoom = 256 << 20
	noRoom     = 4 << 20
)

// Files judges the state directory if it is known, the socket and the daemon.
func (h Host) Files() []Finding {
	all := []Finding{h.socket(), h.daemon()}
	if h.Dir == "" {
		return all
	}
	return append([]Finding{h.state()}, all...)
}

func (h Host) state() Finding {
	const check = "state directory"
	switch {
	case h.WriteErr != nil:
		return Finding{
			check, Error, h.Dir + ": " + text(h.WriteErr),
			"choose another with --state-dir, or make it one of the daemon's user: install -d -m 0700 -o USER " + h.Dir,
		}
	case h.Info == nil:
		return Finding{check, OK, h.Dir + ": the daemon makes it when it starts", ""}
	case h.Info.Mode().Perm()&0o022 != 0:
		return Finding{
			check, Error, fmt.Sprintf("%s: others can write there (%04o)", h.Dir, h.Info.Mode().Perm()),
			"chmod 0700 " + h.Dir,
		}
	case h.Free < noRoom:
		return Finding{
			check, Error,
			fmt.Sprintf("%s: %s are free, and new claims need a journal", h.Dir, readable.Bytes(h.Free)),
			"make room on that file system, or choose another one with --state-dir",
		}
	case h.Free < littleRoom:
		return Finding{
			check, Warning, fmt.Sprintf("%s: %s are free", h.Dir, readable.Bytes(h.Free)),
			"make room on that file system, or bound the event log with events.max_size",
		}
	}
	return Finding{check, OK, fmt.Sprintf("%s: %s free", h.Dir, readable.Bytes(h.Free)), ""}
}

func (h Host) socket() Finding {
	const check = "socket"
	switch {
	case h.SocketInfo == nil:
		return Finding{check, Skipped, h.Socket + ": there is none", "start the daemon"}
	case h.SocketInfo.Mode().Type() != fs.ModeSocket:
		return Finding{
			check, Error, h.Socket + " is no socket",
			"choose another path with --socket, or remove the file",
		}
	case h.SocketInfo.Mode().Perm()&^h.Mode.Perm() != 0:
		return Finding{
			check, Warning, fmt.Sprintf("%s lets more users connect (%04o) than socket.mode (%04o)",
				h.Socket, h.SocketInfo.Mode().Perm(), h.Mode.Perm()),
			fmt.Sprintf("chmod %04o %s, or restart the daemon", h.Mode.Perm(), h.Socket),
		}
	}
	return Finding{check, OK, fmt.Sprintf("%s (%04o)", h.Socket, h.SocketInfo.Mode().Perm()), ""}
}

// daemon judges the daemon on the socket.
func (h Host) daemon() Finding {
	const check = "daemon"
	switch {
	case h.SocketInfo == nil && h.PID != 0:
		return Finding{
			check, Error, fmt.Sprintf("process %d has the state directory, and there is no socket", h.PID),
			"look whether it listens elsewhere; if systemd had made the socket: systemctl restart lockagent.socket " +
				"lockagent.service",
		}
	case h.SocketInfo == nil:
		return Finding{check, Warning, "it does not run", "lockagent serve --socket " + h.Socket}
	case errors.Is(h.Served, fs.ErrPermission):
		return Finding{
			check, Warning, "you may not connect to it",
			"run it as root, or as a member of the group of the socket",
		}
	case h.Served != nil:
		return Finding{
			check, Error, text(h.Served),
			"start the daemon; it takes over a socket that a killed one has left",
		}
	case !h.Ready:
		f := Finding{
			check, Error, "it runs, and can grant no lock at the moment",
			"see the store above and its log, and whether it drains: lockagent drain --undo takes that back",
		}
		if h.Why != nil {
			f.Found += ": " + text(h.Why)
		}
		return f
	}
	return Finding{check, OK, "it can grant locks", ""}
}

// text is an error without the names of packages, in one line.
func text(err error) string { return plain.Replace(err.Error()) }

var plain = strings.NewReplacer("lockagent: ", "", "redisstore: ", "", "events: ", "", "\n", "; ")
