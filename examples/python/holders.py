#!/usr/bin/env python3
"""Tell who holds which lock, from the event log of lockagent.

The program reads the log from its beginning, rebuilds who holds what, and follows the log
from there. With --state it goes on from where it was the last time.

    python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt
    python3 holders.py --nats nats://127.0.0.1:4222
    python3 holders.py --once                    # tell it once, and end
    python3 holders.py --state holders.json      # go on from there the next time

What to know of the log:

* It is a stream of NATS JetStream. A message has one event, as a JSON object, or several
  events of one lock, as a JSON array. Each event is a CloudEvent.
* The type of an event says what happened: io.lockagent.lock.granted.v1. New types and new
  fields may be added. So a reader passes over the types and fields that it does not know.
* A hold begins with "granted" and ends with one of ENDS whose count is 0. A hold that was over
  within some milliseconds is one event, "held".
* Several "held" that follow each other in a message are one event, "holds": a table. It says once
  what they have in common, and the rest in a row for each. The program makes "held" of it again.
* Tokens only grow. Of two holds of one lock, the one with the greater token came later.
* The events of one agent are in order, and have numbers. Those of two agents may arrive in any
  order. So the end of a hold may arrive after the grant of the next one.
* An event may be missing, or come twice.
* An agent may stop without an end for a hold: another process goes on with it, or its lease
  runs out. No event tells of that.
* A fixed lease may stay in the store when its agent has closed its locks. Then the hold is lost,
  but nobody else gets the lock until the lease is over.
"""

import argparse
import asyncio
import datetime
import json
import os
import pathlib
import sys
import time

import jsonschema
import nats
import nats.js.errors
from nats.js.api import ConsumerConfig, DeliverPolicy

ENDS = {"released", "expired", "lost", "broken", "unclaimed"}
PASS_LEASE = 2_000_000  # microseconds: of a lock that another agent has passed, until the first renewal
TABLE, HELD = "io.lockagent.lock.holds.v1", "io.lockagent.lock.held.v1"
SCHEMA = pathlib.Path(__file__).parents[2] / "events" / "schema" / "event-v1.json"


class Holders:
    """Who holds what, as far as the events say that were applied."""

    def __init__(self, state=None):
        state = state or {
            "position": 0, "numbers": {}, "renewals": {}, "stores": {}, "holds": [], "left": [], "latest": [],
        }
        self.position = state["position"]  # of the last message that was applied
        self.numbers = state["numbers"]  # of each agent: epoch and number of its last event
        self.renewals = state["renewals"]  # of each agent: the last one, on the clock of the store, and its lease
        self.stores = state["stores"]  # from an identity of a store to the one that it had before
        self.holds = {self._key(h): h for h in state["holds"]}
        self.leases = {self._key(h): h for h in state["left"]}  # that agents have left in the store
        self.latest = {tuple(lock): grants for lock, grants in state["latest"]}  # of each lock, by mode

    def state(self):
        """All that has to be kept to go on later, as JSON."""
        return {
            "position": self.position, "numbers": self.numbers, "renewals": self.renewals, "stores": self.stores,
            "holds": list(self.holds.values()), "left": self.left(), "latest": list(self.latest.items()),
        }

    def now(self):
        """The holds that go on, each with the time at which its lease ends."""
        holds = sorted((h for h in self.holds.values() if not h["superseded"]), key=self._key)
        return [{**h, "lease_end_us": self._lease_end(h)} for h in holds]

    def left(self):
        """The leases that agents have left in the store, and that are not over by our clock."""
        now = time.time() * 1e6
        leases = ({**h, "lease_end_us": h["confirmed_us"] + h["lease_us"]} for h in self.leases.values())
        return sorted((h for h in leases if h["lease_end_us"] > now), key=self._key)

    def apply(self, event):
        """Apply one event. It returns what changed, as a line of text, or None."""
        parts = event["type"].split(".")
        if len(parts) != 5 or parts[:2] != ["io", "lockagent"] or parts[4] != "v1":
            return None  # of a kind or a version that this program does not know
        about, kind, data = parts[2], parts[3], event.get("data") or {}
        agent = event["source"].rsplit("/", 1)[-1]
        place = [int(n) for n in event["id"].split(":")]
        if place <= self.numbers.get(agent, [0, 0]):
            return None  # it came before
        self.numbers[agent] = place
        if about == "agent" and kind in ("started", "stopped"):
            return self._stopped(agent) if kind == "stopped" else self._started(agent, place[0], data.get("count", 0))
        if about == "agent" and kind == "alive":
            self._renews(agent, data.get("confirmed_us", 0), data.get("lease_us", 0))
        if about == "store" and kind == "reset":
            return self._join(data["reset"].get("store"), data.get("store"))
        if about != "lock" or "lock" not in data:
            return None
        hold = {
            # The names of locks are those of one store, and of one kind.
            "store": self._store(data.get("store", "")), "kind": data.get("kind", "plain"), "lock": data["lock"],
            "token": data.get("token", 0), "agent": agent, "owner": data.get("owner", ""),
            "tenure": data.get("tenure", 0), "mode": data.get("mode", "exclusive"), "since": event["time"],
            "epoch": place[0], "how": data.get("how", ""), "gone": False,
            "lease_us": data.get("lease_us", 0), "fixed": data.get("fixed", False),
            "confirmed_us": max(data.get("store_time_us", 0), data.get("confirmed_us", 0)),
            "superseded": False,
        }
        begins = kind in ("granted", "held")
        if kind == "holding":  # the hold goes on, and its grant may be older than the log
            known = self.holds.get(self._key(hold))
            if known:
                known.update({field: hold[field] for field in ("mode", "lease_us", "fixed", "gone")})
                known["confirmed_us"] = max(known["confirmed_us"], hold["confirmed_us"])
                return None
            held = datetime.timedelta(microseconds=data.get("held_us", 0))
            hold["since"] = (datetime.datetime.fromisoformat(event["time"]) - held).isoformat().replace("+00:00", "Z")
            begins = True
        if begins:
            # If the agent still had the lock in a way that excludes this, the event that says so is missing.
            self._remove(lambda old: self._same_lock(old, hold) and old["agent"] == agent and self._excludes(old, hold))
            if not hold["fixed"]:
                confirmed, lease = self.renewals.get(agent, [0, 0])
                self._renews(agent, confirmed, max(lease, hold["lease_us"]))
        if begins:  # now the store has no earlier lease, unless both are shared
            self.leases = {
                k: h for k, h in self.leases.items()
                if not self._same_lock(h, hold) or h["token"] >= hold["token"] or h["mode"] == hold["mode"] == "shared"
            }
        if kind == "broken" and not hold["token"]:  # an operator has freed the lock
            self.leases = {k: h for k, h in self.leases.items() if not self._same_lock(h, hold)}
        if begins or kind in ENDS and data.get("count", 0) == 0 and hold["token"]:
            self._supersede(hold)
        if kind in ("reentered", *ENDS) and self._key(hold) in self.holds:
            self.holds[self._key(hold)]["gone"] = False  # another process goes on with it
        if kind == "uncertain":
            for h in self._tenure(hold):
                h["gone"] = False
        if begins and kind != "held":
            self.holds[self._key(hold)] = hold
            return f"{hold['lock']}: {hold['owner']} holds it, token {hold['token']}"
        if kind == "renewed":
            self._renewed(hold)
        if kind == "returned":
            self._remove(
                lambda old: self._same_lock(old, hold) and old["agent"] == agent and old["tenure"] == hold["tenure"]
            )
        if kind in ENDS and data.get("count", 0) == 0:
            why = data.get("reason")
            if why == "closed" and hold["fixed"] and not hold["superseded"]:  # unless it is returned, too
                self.leases[self._key(hold)] = hold
            if self.holds.pop(self._key(hold), None):
                return f"{hold['lock']}: {hold['owner']} no longer holds it: {kind}" + (f" ({why})" if why else "")
        return None

    @staticmethod
    def _key(hold):
        return (hold["lock"], hold["store"], hold["kind"], hold["token"], hold["agent"])

    @staticmethod
    def _same_lock(one, other):
        return all(one[field] == other[field] for field in ("store", "kind", "lock"))

    @staticmethod
    def _excludes(one, other):
        """Two holds of one agent go on side by side if both are shared, or if one owner has both modes."""
        if one["mode"] == other["mode"] == "shared":
            return False
        return one["mode"] == other["mode"] or one["owner"] != other["owner"] or not one["owner"]

    def _supersede(self, hold):
        """A grant to another agent shows that a hold is over: the end is under way, or lost."""
        latest = self.latest.setdefault(self._lock(hold), {})
        for old in self.holds.values():
            if self._same_lock(old, hold):
                self._superseded_by(old, hold)
        for grant in latest.values():
            self._superseded_by(hold, grant)
        if hold["token"] > latest.get(hold["mode"], hold | {"token": 0})["token"]:
            latest[hold["mode"]] = {field: hold[field] for field in ("token", "agent", "mode")}

    @staticmethod
    def _superseded_by(hold, grant):
        shared = hold["mode"] == grant["mode"] == "shared"
        if grant["token"] > hold["token"] and grant["agent"] != hold["agent"] and not shared:
            hold["superseded"] = True

    @staticmethod
    def _lock(hold):
        return (hold["store"], hold["kind"], hold["lock"])

    def _remove(self, over):
        self.holds = {k: h for k, h in self.holds.items() if not over(h)}
        self.leases = {k: h for k, h in self.leases.items() if not over(h)}

    def _tenure(self, of):
        """The holds of the same tenure."""
        return [
            h for h in self.holds.values()
            if self._same_lock(h, of) and h["agent"] == of["agent"] and h["tenure"] == of["tenure"]
        ]

    def _renewed(self, now):
        for h in self._tenure(now):
            h["confirmed_us"] = max(h["confirmed_us"], now["confirmed_us"])
            h["lease_us"], h["gone"] = now["lease_us"], False

    def _renews(self, agent, confirmed, lease):
        """An agent tells of its last renewal, and that all leases are over when so much has passed since then."""
        before = self.renewals.get(agent, [0, 0])
        if not lease or confirmed < before[0]:
            lease = before[1]
        self.renewals[agent] = [max(before[0], confirmed), lease]

    def _stopped(self, agent):
        """The holds of an agent that has stopped are over when their leases are."""
        holds = [h for h in self.holds.values() if h["agent"] == agent]
        for h in holds:
            h["gone"] = True
        return f"agent {agent} has stopped, {len(holds)} of its holds go on" if holds else None

    def _started(self, agent, epoch, count):
        """An agent that starts again says with how many holds it goes on."""
        for h in self.holds.values():
            if h["agent"] == agent:
                if not h["gone"]:
                    h["confirmed_us"], h["lease_us"] = self._last_renewal(h)
                h["gone"] = h["epoch"] < epoch and count == 0
        self.renewals[agent] = [0, 0]

    def _last_renewal(self, hold):
        """When the lease of a hold was confirmed last, at the latest, and for how long."""
        if hold["fixed"] and hold["how"] != "handoff" and hold["lease_us"] > PASS_LEASE:
            return hold["confirmed_us"], hold["lease_us"]  # it is not renewed
        confirmed, lease = self.renewals.get(hold["agent"], [0, 0])
        return max(hold["confirmed_us"], confirmed), max(hold["lease_us"], lease)

    def _lease_end(self, hold):
        """When a lease ends, unless it is renewed: microseconds on the clock of the store, or 0 if
        no event says it."""
        confirmed, lease = hold["confirmed_us"], hold["lease_us"]
        if not hold["gone"] or hold["epoch"] == self.numbers[hold["agent"]][0]:
            confirmed, lease = self._last_renewal(hold)
        return confirmed + lease if confirmed and lease else 0

    def _store(self, identity):
        while identity in self.stores:
            identity = self.stores[identity]
        return identity

    def _join(self, before, now):
        """A store that lost all it had came back with another identity: it is the same store."""
        before, now = self._store(before or ""), self._store(now or "")
        if before and now and before != now:
            self.stores[now] = before
            for h in [*self.holds.values(), *self.leases.values()]:
                h["store"] = self._store(h["store"])
            self.holds = {self._key(h): h for h in self.holds.values()}
            self.leases = {self._key(h): h for h in self.leases.values()}
            moved = [lock for lock in self.latest if lock[0] == now]
            for _, kind, name in moved:
                grants = self.latest.pop((now, kind, name))
                both = self.latest.setdefault((before, kind, name), {})
                for h in self.holds.values():
                    for grant in (*grants.values(), *both.values()):
                        if self._lock(h) == (before, kind, name):
                            self._superseded_by(h, grant)
                for mode, grant in grants.items():
                    if grant["token"] > both.get(mode, {"token": 0})["token"]:
                        both[mode] = grant

    def __str__(self):
        lines = [
            f"{h['lock']:<30} {h['owner']:<45} token {h['token']}  since {h['since']}{ending(h)}" for h in self.now()
        ]
        lines = lines or ["nobody holds anything"]
        for h in self.left():
            end = moment(h["lease_end_us"])
            lines.append(f"{h['lock']:<30} nobody holds it, but the lease of {h['owner']} ends only at {end}")
        return "\n".join(lines)


def ending(hold):
    """What a hold says of its end, if no event has to say it: its lease ends without renewals."""
    text = "  its agent has stopped" if hold["gone"] else ""
    if (hold["gone"] or hold["fixed"]) and hold["lease_end_us"]:
        text += f"  its lease ends at {moment(hold['lease_end_us'])}"
    return text


def moment(store_time):
    return datetime.datetime.fromtimestamp(store_time / 1e6, datetime.timezone.utc).isoformat(timespec="milliseconds")


def events(message, validator):
    """The events of one message, those of a table one by one. What is no event is told of and left out: the rest
    still counts."""
    def valid(event):
        wrong = jsonschema.exceptions.best_match(validator.iter_errors(event))
        if wrong:
            skip(message, f"no event: {wrong.json_path}: {wrong.message}")
        return not wrong

    try:
        body = json.loads(message.data)
    except ValueError as err:
        return skip(message, f"no JSON: {err}")
    good = []
    for event in filter(valid, body if isinstance(body, list) else [body]):
        if event["type"] != TABLE:
            good.append(event)
            continue
        try:
            held = list(holds(event))
        except ValueError as err:
            skip(message, f"no event: a row of a table: {err}")
            continue
        if all(map(valid, held)):  # half of a table would be holds without those between them
            good += held
    return good


def holds(table):
    """An event for each row of a table. What is no column is the same for all of them."""
    epoch, first = table["id"].split(":")
    same = {field: value for field, value in table["data"].items() if field not in ("columns", "rows")}
    for number, values in enumerate(table["data"]["rows"], int(first)):
        cells = zip(table["data"]["columns"], values, strict=True)
        row = {column: value for column, value in cells if value is not None}
        held = {**table, "type": HELD, "id": f"{epoch}:{number}"}
        if "time" in row:  # the only column that is no field of the data
            held["time"] = row.pop("time")
        yield {**held, "data": {**same, **row}}


def skip(message, why):
    print(f"message {message.metadata.sequence.stream} is left out: {why}", file=sys.stderr, flush=True)
    return []


async def follow(args, holders, validator):
    connection = await nats.connect(args.nats)
    try:
        stream = connection.jetstream()
        subjects = f"{args.prefix}.>"  # the stream may have others
        try:
            last = (await stream.get_last_msg(args.stream, subjects)).seq  # what comes after it is news
        except nats.js.errors.NotFoundError:
            last = 0
        # An ordered consumer needs no acknowledgements. It notices a gap, and reads again.
        subscription = await stream.subscribe(
            subjects, stream=args.stream, ordered_consumer=True, config=start(holders.position)
        )
        told = False
        while True:
            if not told and holders.position >= last:
                told = True
                found = json.dumps({"holds": holders.now(), "left": holders.left()}) if args.json else holders
                print(found, flush=True)
                save(args, holders)
                if args.once:
                    return
            message = await subscription.next_msg(timeout=None)
            for event in events(message, validator):
                change = holders.apply(event)
                if told and change:
                    print(change, flush=True)
            holders.position = message.metadata.sequence.stream
            if told:
                save(args, holders)
    finally:
        await connection.close()


def start(position):
    """Begin behind a position, or with the oldest message that there is."""
    if position == 0:
        return ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
    return ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=position + 1)


def save(args, holders):
    """Write the state so that a crash leaves the old one or the new one."""
    if args.state:
        new = pathlib.Path(f"{args.state}.new")
        new.write_text(json.dumps(holders.state()))
        os.replace(new, args.state)


def main():
    parser = argparse.ArgumentParser(description="Tell who holds which lock.")
    parser.add_argument("--nats", default="nats://127.0.0.1:4222", help="URL of the NATS server")
    parser.add_argument("--stream", default="LOCKAGENT")
    parser.add_argument("--prefix", default="lockagent.v1", help="what the subjects of the events begin with")
    parser.add_argument("--schema", default=SCHEMA, type=pathlib.Path, help="JSON Schema of an event")
    parser.add_argument("--state", help="file to keep the state in, and to go on from")
    parser.add_argument("--once", action="store_true", help="tell who holds what now, and end")
    parser.add_argument("--json", action="store_true", help="tell it as JSON")
    args = parser.parse_args()

    saved = None
    if args.state and os.path.exists(args.state):
        saved = json.loads(pathlib.Path(args.state).read_text())
    validator = jsonschema.Draft202012Validator(json.loads(args.schema.read_text()))
    try:
        asyncio.run(follow(args, Holders(saved), validator))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
