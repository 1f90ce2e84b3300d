package script

import "github.com/lockagent/lockagent"

// Break writes the call that breaks a lock, see break.lua. It has one key everywhere.
func (r Room) Break(c *Call, req lockagent.BreakRequest, past Past) {
	c.begin(breakScript)
	c.Keys = append(c.Keys, string(req.Name))
	c.Args = append(
		c.Args, r.String(), r.shared(&c.text, "lockagent_clock", req.Name), c.text.theirs("", req.Name),
		escape(req.Operator), string(req.Kind.OrPlain()), r.incarnation(&past),
	)
}

// ReadBroken reads the reply to a [Room.Break].
func ReadBroken(reply string, past Past) (lockagent.BreakReply, error) {
	lines := readLines(reply)
	b := lockagent.BreakReply{At: past.since(lines.time()), Broken: lines.number(0) == 1}
	if err := lines.end(); err != nil {
		return lockagent.BreakReply{}, err
	}
	return b, nil
}

// Inspect writes the call that inspects a lock of a kind, see inspect.lua.
func (r Room) Inspect(c *Call, name lockagent.Name, kind lockagent.LockKind) {
	c.begin(inspectScript)
	c.Keys = append(c.Keys, string(name))
	c.Args = append(c.Args, string(kind))
}

// ReadInspected reads the reply to a [Room.Inspect].
func ReadInspected(reply string) (lockagent.Inspection, error) {
	if reply == "" {
		return lockagent.Inspection{}, nil
	}
	lines := readLines(reply)
	seen := lockagent.Inspection{Held: true, Remaining: remaining(lines.number(-1)), HoldCount: int(lines.number(1))}
	seen.Holder = lines.rest()
	if err := lines.end(); err != nil {
		return lockagent.Inspection{}, err
	}
	return seen, nil
}

// sinceKey has since when an incarnation is known.
const sinceKey = "lockagent_since"

// rollKey has the agents that may have tenures, graceKey those for which a grace period waits, and claimsKey what they
// claim.
const rollKey, graceKey, claimsKey = "lockagent_roll", "lockagent_grace", "lockagent_claims"

// IdentityKey has the identity of a database or a Cluster.
const IdentityKey = "lockagent_store"

// Identity writes the call that gives the store an identity, unless it has one: see identity.lua.
func (r Room) Identity(c *Call, wanted string) {
	c.begin(identityScript)
	c.Keys = append(c.Keys, IdentityKey)
	c.Args = append(c.Args, wanted)
}

// ReadIdentity reads the reply to a [Room.Identity]: the identity of the store, or "" if the key is
// spoilt.
func ReadIdentity(reply string) (identity string, at lockagent.StoreTime, err error) {
	lines := readLines(reply)
	at = lines.time()
	identity = lines.word()
	return identity, at, lines.end()
}

// Rehearse writes the call that runs every command of the other scripts, see rehearse.lua. It also names the keys that
// are no lock's, as far as they can travel together. So the server refuses it if the user may not use them. name must
// not be the name of a lock in use. In a Cluster it chooses the slot in which the script runs, and home is that of the
// node.
func (r Room) Rehearse(c *Call, name lockagent.Name, home Home) {
	c.begin(rehearseScript)
	c.Keys = append(
		c.Keys, c.text.own("lockagent_rehearsal", name), r.shared(&c.text, "lockagent_clock", name),
		r.shared(&c.text, "lockagent_ahead", name),
	)
	for _, key := range []string{sinceKey, graceKey, rollKey, claimsKey} {
		c.Keys = append(c.Keys, r.shared(&c.text, key, name))
	}
	if r == Single {
		c.Keys = append(c.Keys, IdentityKey)
	}
	other := c.Keys[0]
	if home != "" {
		other = home.key(&c.text, "lockagent_clock")
	}
	c.Args = append(c.Args, c.text.channel(name), AgentChannel("rehearsal"), r.String(), other)
}
