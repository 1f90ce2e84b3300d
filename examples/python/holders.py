#!/usr/bin/env python3
"""Tell who holds which lock, from the event log of lockagent.

The program reads the log from its beginning, rebuilds who holds what, and follows the log
from there. With --state it goes on from where it was the last time.

    pip install nats-py jsonschema
    python3 holders.py --nats nats://127.0.0.1:4222
    python3 holders.py --once                    # tell it once, and end
    python3 holders.py --state holders.json      # go on from there the next time

What to know of the log:

* It is a stream of NATS JetStream. A message has one event, as a JSON object, or several
  events of one lock, as a JSON array. Each event is a CloudEvent.
* The type of an event says what happened: io.lockagent.lock.granted.v1. New types and new
  fields may be added. So a reader passes over the types and fields that it does not know.
* A hold begins with "granted" and ends with one of ENDS whose count is 0. A hold that was over
  within some milliseconds is one event, "held": it changes nothing here.
* Tokens only grow. Of two holds of one lock, the one with the greater token came later.
* The events of one agent are in order. Those of two agents may arrive in any order.
"""

import argparse
import asyncio
import json
import os
import pathlib

import jsonschema
import nats
from nats.js.api import ConsumerConfig, DeliverPolicy

ENDS = {"released", "expired", "lost", "broken", "unclaimed"}
SCHEMA = pathlib.Path(__file__).parents[2] / "events" / "schema" / "event-v1.json"


class Holders:
    """Who holds what, as far as the events say that were applied."""

    def __init__(self, state=None):
        state = state or {"position": 0, "holds": []}
        self.position = state["position"]  # of the last message that was applied
        # Several shared holds of one lock may stand beside each other. So the token is in the key.
        # The store is in the key as well: locks of two stores are two locks, whatever their names.
        self.holds = {(h["store"], h["lock"], h["token"]): h for h in state["holds"]}

    def state(self):
        """All that has to be kept to go on later, as JSON."""
        return {"position": self.position, "holds": list(self.holds.values())}

    def apply(self, event):
        """Apply one event. It returns what changed, as a line of text, or None."""
        parts = event["type"].split(".")
        if len(parts) != 5 or parts[:2] != ["io", "lockagent"] or parts[4] != "v1":
            return None  # of a kind or a version that this program does not know
        about, kind = parts[2], parts[3]
        data, agent = event.get("data") or {}, event["source"].rsplit("/", 1)[-1]
        if about == "agent" and kind == "stopped":
            return self._forget(agent)
        if about != "lock":
            return None
        key = (data.get("store", ""), data["lock"], data.get("token", 0))
        if kind == "granted":
            self._replace(key, data)
            self.holds[key] = {
                "store": key[0], "lock": key[1], "token": key[2], "mode": data.get("mode", "exclusive"),
                "owner": data["owner"], "agent": agent, "since": event["time"],
            }
            return f"{data['lock']}: {data['owner']} holds it, token {key[2]}"
        if kind in ENDS and data.get("count", 0) == 0 and self.holds.pop(key, None):
            why = data.get("reason")
            return f"{data['lock']}: {data['owner']} no longer holds it: {kind}" + (f" ({why})" if why else "")
        return None

    def _replace(self, key, data):
        """Remove the holds that this one came after: their ends are still under way, or lost."""
        if data.get("mode", "exclusive") == "exclusive":
            for old in [k for k in self.holds if k[:2] == key[:2] and k[2] < key[2]]:
                del self.holds[old]

    def _forget(self, agent):
        """An agent that has stopped holds nothing. One that starts may go on with its holds."""
        old = [k for k, h in self.holds.items() if h["agent"] == agent]
        for k in old:
            del self.holds[k]
        return f"agent {agent} has stopped, {len(old)} of its holds had no end" if old else None

    def __str__(self):
        lines = [
            f"{h['lock']:<30} {h['owner']:<45} token {h['token']}  since {h['since']}"
            for _, h in sorted(self.holds.items())
        ]
        return "\n".join(lines) or "nobody holds anything"


def events(message):
    """The events of one message."""
    body = json.loads(message)
    return body if isinstance(body, list) else [body]


async def follow(args, holders, validator):
    connection = await nats.connect(args.nats)
    try:
        stream = connection.jetstream()
        info = await stream.stream_info(args.stream)
        last = info.state.last_seq if info.state.messages else 0  # what comes after it is news
        # An ordered consumer needs no acknowledgements. It notices a gap, and reads again.
        subscription = await stream.subscribe(
            info.config.subjects[0], stream=args.stream, ordered_consumer=True, config=start(holders.position)
        )
        told = False
        while True:
            if not told and holders.position >= last:
                told = True
                print(holders, flush=True)
                save(args, holders)
                if args.once:
                    return
            message = await subscription.next_msg(timeout=None)
            for event in events(message.data):
                validator.validate(event)  # a program that only reads may leave that out
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
    parser.add_argument("--schema", default=SCHEMA, type=pathlib.Path, help="JSON Schema of an event")
    parser.add_argument("--state", help="file to keep the state in, and to go on from")
    parser.add_argument("--once", action="store_true", help="tell who holds what now, and end")
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
