"""A trainer of the chaos program in Python. It does what trainer.go does, whose messages these are, except that it
does not hold in the middle of next(): the job gives a checkpoint up then.

usage: trainer.py START_FILE
"""

import hashlib
import json
import logging
import os
import socket
import struct
import sys
import threading
import time

import numpy as np
from penstock._session import Config, Security, Session, State

RECORD = struct.Struct("<IIiqqfiqq")  # as in ledger.go
PATIENCE = 600.0  # longer than any fault


def die_with_parent():
    """Ends this process when the program that started it has ended, or closes its standard input."""
    while os.read(0, 1):
        pass
    os._exit(1)


def records(rows, step):
    """The ledger's records of a batch."""
    columns = {name: rows.record.column(name) for name in rows.record.schema.names}
    xs = columns["dense"].flatten().to_numpy(zero_copy_only=False)
    ids = columns["ids"]
    for i in range(rows.valid):
        values = np.array(ids[i].as_py(), dtype=np.int64)
        digest = hashlib.md5(columns["blob"][i].as_py()).digest()
        yield RECORD.pack(
            rows.epoch,
            step,
            columns["_file"][i].as_py(),
            columns["_row"][i].as_py(),
            columns["key"][i].as_py(),
            xs[i],
            len(values),
            int(np.bitwise_xor.reduce(values)) if len(values) else 0,
            int.from_bytes(digest[:8], "big") >> 4,
        )


def answer(job):
    """The job's answer, without what asks to hold."""
    for line in job:
        order = json.loads(line)
        if order["Go"] or order["Stop"]:
            return order
    raise SystemExit("the job is gone")


def next_batch(session):
    """The next batch, or None after the last epoch."""
    while not session.finished:
        rows = session.next()
        if rows is not None:  # else an epoch ended
            return rows
    return None


def train(session, start, job, ledger):
    """Takes steps as the job says, until it says stop."""
    step, seq, handed, wait, ended, named = start["Step"], 0, 0, 0, False, None
    while True:
        seq += 1
        message = {
            "Attempt": start["Attempt"],
            "Rank": start["Rank"],
            "Seq": seq,
            "Step": step,
            "Records": handed,
            "State": session.state().data,
            "Wait": wait,
            "Ended": ended,
            "Named": named and {"Name": named.name, "Step": named.step},
        }
        job.write(json.dumps(message) + "\n")
        job.flush()
        if answer(job)["Stop"]:
            return
        began = time.monotonic_ns()
        rows = next_batch(session)
        wait = time.monotonic_ns() - began
        named = rows and rows.checkpoint
        if rows is None:
            ended = True
            continue
        step += 1
        ledger.write(b"".join(records(rows, step)))
        handed += rows.valid
        time.sleep(start["Compute"] / 1e9)


def main():
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    threading.Thread(target=die_with_parent, daemon=True).start()
    with open(sys.argv[1]) as f:
        start = json.load(f)
    secured = {"token_file": "TokenFile", "ca": "CA", "server_name": "ServerName"}
    security = Security(**{ours: start["Security"][theirs] or None for ours, theirs in secured.items()})
    states = tuple(State(s, "", 0, 1, 0) for s in start["States"] or ())
    parsed, code = start.get("Parsed"), None
    if parsed:
        import chaos_functions

        made = chaos_functions.spec()
        parsed |= made | {"transforms": [*parsed.get("transforms", []), *made["transforms"]]}
        code = chaos_functions.code()
    config = Config(
        masters=tuple(start["Masters"]),
        session=start["Session"],
        spec=parsed,
        spec_text="" if parsed else start["Spec"],
        code=code,
        rank=start["Rank"],
        world_size=start["World"],
        restore=states if start["Restore"] else None,
        security=security,
        budget=1 << 20,
        connect_timeout=PATIENCE,
        timeout=PATIENCE,
    )
    with (
        Session(config) as session,
        socket.socket(socket.AF_UNIX) as s,
        open(start["Ledger"], "wb", buffering=0) as ledger,
    ):
        s.connect(start["Socket"])
        with s.makefile("rw") as job:
            train(session, start, job, ledger)


main()
