package script

import (
	_ "embed"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

var (
	//go:embed reassert.lua
	reassertSource string
	//go:embed rw_reassert.lua
	rwReassertSource string
	//go:embed permits_reassert.lua
	permitsReassertSource string
)

var (
	reassertScript   = newScript(reassertSource)
	rwReassertScript = newScript(rwReassertSource)

	permitsReassertScript = newScript(permitsReassertSource)
)

// Member is an agent on the roll: it may have tenures with leases up to Lease.
type Member struct {
	Agent lockagent.AgentID
	Lease time.Duration
}

func (t *text) member(m Member) string { return t.milliseconds(m.Lease) + " " + string(m.Agent) }

func readMember(entry string) (m Member, ok bool) {
	lease, agent, found := strings.Cut(entry, " ")
	ms, err := strconv.ParseInt(lease, 10, 64)
	return Member{lockagent.AgentID(agent), time.Duration(ms) * time.Millisecond}, found && err == nil && agent != ""
}

// Look is what an agent tells when it looks at a database, see incarnation.lua.
type Look struct {
	Home    Home
	Whose   string        // roll it is, for the messages: of that home, or of a database by its number
	Grace   bool          // a new incarnation begins with a grace period
	First   time.Duration // that lasts so long if nobody knew the database
	Known   string        // the incarnation that the agent knows; empty if it knows none
	Version int64         // of the roll that the agent knows in that incarnation
	Self    Member        // the zero Member if the agent is not to be on the roll
	Whole   bool          // Roll is there. Otherwise the look fails with [ErrForgotten] if it has to be
	Roll    []Member      // who was on the roll as far as the agent knows
	Deaf    bool          // the agent has not heard who came since it knows
}

// Looked is what an agent sees.
type Looked struct {
	Name    string // of the incarnation
	At      lockagent.StoreTime
	Age     time.Duration       // the incarnation has lasted for that, or longer; negative if the user may not ask for it
	Left    time.Duration       // of a grace period; negative if there is none
	Awaited []lockagent.AgentID // for whom a grace period waits; for a minute after its end: who has not come back
	Version int64               // of the roll
	Roll    []Member            // only if the version is not that of the agent
}

// Incarnation writes the call that looks at a database, or at a node of a Cluster.
func Incarnation(c *Call, look Look) {
	c.begin(incarnationScript)
	for _, key := range []string{"lockagent_clock", "lockagent_ahead", sinceKey, graceKey, rollKey} {
		c.Keys = append(c.Keys, look.Home.key(&c.text, key))
	}
	graced, self, whole := "off", "", ""
	if look.Grace {
		graced = "on"
	}
	if look.Self.Agent != "" {
		self = c.text.member(look.Self)
	}
	switch {
	case look.Whole && look.Deaf:
		whole = "old"
	case look.Whole:
		whole = "whole"
	}
	c.Args = append(
		c.Args, graced, c.text.milliseconds(look.First), look.Known, strconv.FormatInt(look.Version, 10), self, whole,
		look.Whose,
	)
	for _, m := range look.Roll {
		c.Args = append(c.Args, c.text.member(m))
	}
}

// ReadIncarnation reads the reply to a call of [Incarnation].
func ReadIncarnation(reply string) (Looked, error) {
	lines := readLines(reply)
	seen := Looked{At: lines.time(), Name: lines.word(), Age: time.Duration(lines.number(-1)) * time.Microsecond}
	seen.Left = time.Duration(lines.number(-1)) * time.Millisecond
	seen.Version = lines.number(-lockagent.MaxTenure)
	for lines.more && lines.err == nil {
		lines.endLine()
		lines.next()
		switch code := lines.word(); code {
		case "w":
			seen.Awaited = append(seen.Awaited, lockagent.AgentID(lines.rest()))
		case "r":
			m, ok := readMember(lines.rest())
			if !ok {
				lines.fail("it has a bad entry of the roll")
			}
			seen.Roll = append(seen.Roll, m)
		default:
			lines.fail("it has an unknown code: %.40q", code)
		}
	}
	return seen, lines.end()
}

// Reasserted writes the call that says that an agent has come back to an incarnation, see reasserted.lua. The reply is
// a number.
func Reasserted(c *Call, home Home, agent lockagent.AgentID, incarnation string) {
	c.reasserted(home, agent, incarnation, "")
}

func (c *Call) reasserted(home Home, agent lockagent.AgentID, incarnation, whose string) {
	c.begin(reassertedScript)
	for _, key := range []string{"lockagent_clock", graceKey, rollKey} {
		c.Keys = append(c.Keys, home.key(&c.text, key))
	}
	c.Args = append(c.Args, string(agent), incarnation, whose)
}

// Leave writes the call that takes an agent off the roll. whose is as in a [Look].
func Leave(c *Call, home Home, whose string, entries []Member) {
	c.reasserted(home, entries[0].Agent, "", whose)
	for _, m := range entries {
		c.Args = append(c.Args, c.text.member(m))
	}
}

// ReadEnrolled reads a message on [IncarnationChannel] that an agent is on the roll from now on. whose is as in a
// [Look]: messages go to all databases of a server, and to all nodes of a Cluster.
func ReadEnrolled(message string) (whose string, m Member, ok bool) {
	message, enrolled := strings.CutPrefix(message, "roll ")
	whose, entry, _ := strings.Cut(message, " ")
	m, ok = readMember(entry)
	return whose, m, ok && enrolled
}

// ReadLeft reads a message on [IncarnationChannel] that an agent has left the roll. whose is as in a [Look].
func ReadLeft(message string) (whose string, agent lockagent.AgentID, ok bool) {
	message, left := strings.CutPrefix(message, "left ")
	whose, who, ok := strings.Cut(message, " ")
	return whose, lockagent.AgentID(who), ok && left
}

// ReadOver reads a message on [IncarnationChannel] that a grace period is over. The agents have not come back.
func ReadOver(message string) (at lockagent.StoreTime, incarnation string, absent []lockagent.AgentID, ok bool) {
	words := strings.Fields(message)
	if len(words) < 3 || words[0] != "over" {
		return 0, "", nil, false
	}
	n, err := strconv.ParseInt(words[1], 10, 64)
	for _, agent := range words[3:] {
		absent = append(absent, lockagent.AgentID(agent))
	}
	return lockagent.StoreTime(n), words[2], absent, err == nil
}

// Began is when the grace period of an incarnation began, by the server's own time. It is 0 if the incarnation has
// none.
func Began(incarnation string) lockagent.StoreTime {
	incarnation, _, _ = strings.Cut(incarnation, "@")
	parts := strings.Split(incarnation, ".")
	if len(parts) != 3 {
		return 0
	}
	n, _ := strconv.ParseInt(parts[2], 10, 64)
	return lockagent.StoreTime(n)
}

// Reassert writes the call that puts tenures of plain, fair, spin or fenced locks back, see reassert.lua. [ReadRenewed]
// reads the reply.
func (r Room) Reassert(c *Call, requests []lockagent.RenewRequest, past Past) {
	c.begin(reassertScript)
	kind := requests[0].Kind.OrPlain()
	c.Args = append(c.Args, r.incarnation(&past), heldAs[kind])
	for i := range requests {
		c.Keys = append(c.Keys, string(requests[i].Name))
		c.reassert(&requests[i])
	}
	c.Keys = append(c.Keys, r.shared(&c.text, "lockagent_clock", requests[0].Name))
	for i := range requests {
		if kind == lockagent.FencedLock {
			c.fence(requests[i].Name)
		}
	}
}

// heldAs are the values of the fields of tenures, see kinds.lua.
var heldAs = map[lockagent.LockKind]string{
	lockagent.PlainLock: "2", lockagent.FairLock: "3", lockagent.FencedLock: "4", lockagent.SpinLock: "5",
}

func (c *Call) reassert(request *lockagent.RenewRequest) {
	c.renew(request)
	c.Args = append(c.Args, c.text.number(uint64(request.Last)))
}

// ReadWriteReassert is [Room.Reassert] for read/write locks, see rw_reassert.lua.
func (r Room) ReadWriteReassert(c *Call, requests []lockagent.RenewRequest, past Past) {
	c.begin(rwReassertScript)
	c.Args = append(c.Args, r.incarnation(&past))
	for i := range requests {
		mode := "write"
		if requests[i].Mode == lockagent.Shared {
			mode = "read"
		}
		c.Keys = append(c.Keys, string(requests[i].Name))
		c.reassert(&requests[i])
		c.Args = append(c.Args, mode)
	}
	c.Keys = append(c.Keys, r.shared(&c.text, "lockagent_clock", requests[0].Name))
}

// ReassertPermits is [Room.Reassert] for a semaphore, see permits_reassert.lua.
func (r Room) ReassertPermits(c *Call, req *lockagent.RenewRequest, past Past) {
	r.RenewPermits(c, req)
	c.Script = permitsReassertScript
	c.Args = append(
		c.Args, r.incarnation(&past), c.text.number(uint64(req.Last)), c.text.number(uint64(max(1, req.Permits))),
		c.text.number(uint64(req.Total)),
	)
}
