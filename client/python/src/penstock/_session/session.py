"""A session whose batches another process makes (feeder), in memory that both have.

It has the session opened and joined, asks for one batch after the other, and tells what comes. A session belongs to one
thread, which can be interrupted anywhere and must then have lost nothing: an answer is taken from the connection once
all is noted that it says, which may be noted twice, and a batch stays where it is until next() has returned it.
Handlers of signals that interrupt next() may ask for states, and close: their calls lie within the one that waits.
"""

from __future__ import annotations

import atexit
import base64
import itertools
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock import errors
from penstock._flat import Array, Flat, Form
from penstock._session import failures, feeder
from penstock._session.config import Config
from penstock._session.events import tell
from penstock._session.feeder import Message, Silence
from penstock._session.state import Info, State
from penstock.batch import Checkpoint

STATES_KEPT = 1024  # moments, the newest, of which the state can be asked for
WAIT = 1.0  # seconds between looks at why nothing comes
LEAVE_TIMEOUT = 10.0  # seconds; a master that does not answer has fewer
LOOKS = 60  # that the process may be silent: not seconds of the clock, for both may have been stopped
_LEVELS = {-4: logging.DEBUG, 0: logging.INFO, 4: logging.WARNING}


class After:
    """A moment of the session: behind a batch, an epoch's end, or at its beginning."""

    __slots__ = ("__weakref__", "number", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: State | None = None  # once it was asked for


class Cause(NamedTuple):
    """What holds a session's trainers up: one of api/pb/control.proto's bottlenecks, and the reason."""

    bottleneck: str = ""
    words: str = ""


@dataclass(frozen=True)
class SessionStats:
    """Figures since the session was opened; seconds and bytes.

    rows, batches, bytes: handed over. rows_by_worker says who sent the rows, streams_by_worker from whom streams are
    being received, ways in which way batches came from workers (memory, link, grpc). dropped: rows of ended epochs that
    no rank got.
    stall_seconds: that next waited, longest_stall_seconds the most that one call did. compute_seconds: between
    next's return with a batch and the next call. failovers: streams that went on with another worker. hedges: streams
    that another worker was asked for besides, because theirs was late.
    buffered: received and not yet in a batch, peak_buffered the most there ever were.
    workers: of the fleet; streams: that the master wants open; cause: what holds the session's trainers up, as the
    master sees it, if it has measured enough.
    """

    rows: int = 0
    batches: int = 0
    bytes: int = 0
    dropped: int = 0
    stall_seconds: float = 0.0
    longest_stall_seconds: float = 0.0
    compute_seconds: float = 0.0
    failovers: int = 0
    hedges: int = 0
    buffered: int = 0
    peak_buffered: int = 0
    workers: int = 0
    streams: int = 0
    rows_by_worker: Mapping[str, int] = field(default_factory=dict)
    ways: Mapping[str, int] = field(default_factory=dict)
    streams_by_worker: Mapping[str, int] = field(default_factory=dict)
    cause: Cause = field(default_factory=Cause)


@dataclass(frozen=True)
class Rows:
    """A batch, handed over: exactly batch_size rows, or the epoch's last.

    valid: how many of its rows are not padding, which is at its end.
    tensors: in the session's tensor layout, in the memory that it came in; record is the same as Arrow has it.
    after: the state of this rank once the batch is consumed, for Session.state.
    checkpoint: of the whole job, that has its place behind this batch.
    """

    tensors: Flat
    epoch: int
    valid: int
    after: After
    checkpoint: Checkpoint | None = None

    @property
    def record(self) -> pa.RecordBatch:
        """All columns, each from offset 0."""
        return self.tensors.to_arrow()


class _Came(NamedTuple):
    """What was received, and the memory that it lies in, by segment."""

    reply: Message
    memory: dict[int, memoryview]


class _Offer(NamedTuple):
    """What one call of next returns."""

    rows: Rows | None
    after: After
    epoch: int  # that the loop is in behind it


class _SilentError(errors.Error):
    """The process that makes the batches does not answer."""


class Session:
    """One rank's reading of a session, from its opening to close."""

    def __init__(self, config: Config) -> None:
        """Opens the session on the master (or finds it), joins it as a rank, and begins to stream.

        Raises SpecError, SessionMismatch, RestoreRefused, PermissionDenied, SessionFailed, UsageError, or
        MasterUnreachable when no master has answered for Config.connect_timeout.
        """
        config.check()
        self._pid, self._config = os.getpid(), config
        self._connection = feeder.connect() if config.fleet is None else config.fleet.connect()
        self._came: _Came | None = None  # what next returns
        self._answers: dict[int, Message | None] = {}  # to all else that is waited for, by its id
        self._gone: Message | None = None  # the last one, once nothing comes any more
        self._turn = threading.RLock()  # to receive
        self._said = (0, -1)  # the newest event that was told: its answer's number, and its place there
        self._figures: Message | bytes = {}  # as they came, until they are looked at
        self._waiting: Message = {"idle": 0.0}
        self._told = 0  # that next asked and was answered, counted from 1 on
        self._newest = 0  # number of a batch or an epoch's end

        self._asked = 0  # by next last
        self._quiet = 0  # looks since then that found nothing
        self._asks = itertools.count(1)  # for anything else
        self._form: Form | None = None  # of the batches
        self._offered: _Offer | None = None  # by next last
        self._returned: _Offer | None = None  # the same, once its call has reached its end
        self._afters: weakref.WeakSet[After] = weakref.WeakSet()
        self._begins = self._after(0)
        self._said_waiting: float | None = None  # of the call of next that began then, that it waits for long
        self._closed = False
        self._fenced: errors.Fenced | None = None  # why it was closed, if its loop did not close it
        self._left = threading.Event()  # nobody reads by it any more
        self._unread: State | None = None  # the loop's, where a batch came that it did not get
        try:
            answer = self._ask({"open": config.message()})
            if "error" in answer:
                raise self._failure(answer["error"], opening=True)
        except BaseException:
            self._connection.close()
            raise
        self._info = Info.of(answer["opened"])
        self._epoch: int = self._newest_figures()["epoch"]
        _open_sessions.add(self)

    def _take_reply(self, came: Callable[[], bool]) -> bool:
        """Notes what the next answer says, unless what is waited for came; whether there was one in time.

        Once none can come, that is noted, too.
        """
        with self._turn:
            if came():  # another thread received it, or code that ran within this call
                return True
            answer = self._connection.receive(WAIT)
            if answer is Silence.YET:
                return False
            if isinstance(answer, Silence):
                if not self._connection.closed:
                    self._give_up(f"the process that makes its batches is gone: {self._connection.end()}")
                return True
            self._figures = answer.figures or self._figures
            self._note(answer.number, answer.message)
            self._connection.take(answer)
            return True

    def _give_up(self, why: str) -> None:
        self._gone = {"error": {"kind": "", "words": f"{why}; go on from a checkpoint"}}

    def _note(self, number: int, reply: Message) -> None:
        for i, event in enumerate(reply.get("events", ())):
            if (number, i) > self._said:
                self._said = number, i
                self._say(event)
        if not reply.get("next"):
            if reply["id"] in self._answers and "opening" not in reply:  # else nobody waits for it
                self._answers[reply["id"]] = reply
        elif "done" in reply or reply["id"] <= self._told:
            pass  # asked twice, or noted before an interrupt
        elif "waiting" in reply:
            self._waiting, self._told = reply["waiting"], reply["id"]
        else:
            if "batch" in reply:
                reply["batch"]["places"] = _places(reply["batch"]["places"])
            came = _Came(reply, self._connection.memory(reply["batch"]) if "batch" in reply else {})
            newest = max(self._newest, _number(reply))
            self._came, self._told, self._newest = (
                came,
                reply["id"],
                newest,
            )  # no call between: no interrupt comes there

    def _ask(self, request: Message) -> Message:
        """The answer to anything but next."""
        number = next(self._asks)
        looks = 0
        try:
            self._answers[number] = None
            self._connection.send({"id": number, **request})
            while (answer := self._answers[number]) is None:
                if self._gone is not None:
                    return self._gone
                if self._connection.closed:
                    raise self._closed_error()
                looks = 0 if self._take_reply(lambda: self._answers[number] is not None) else looks + 1
                if looks > LOOKS:
                    raise self._silent()
            return answer
        finally:
            self._answers.pop(number, None)

    def _silent(self) -> _SilentError:
        process = f"the process that makes its batches ({self._connection.pid})"
        return _SilentError(
            f"session {self._config.session!r}: {process} has not answered for {LOOKS * WAIT:.0f} s; if it was "
            "stopped, continue it (kill -CONT), else kill it and go on from a checkpoint"
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def next(self) -> Rows | None:
        """The next batch of the loop's epoch; None, once, at the end of each epoch.

        A batch has exactly batch_size rows. When this rank has nothing more of the epoch to get, what is left is a
        shorter last batch, or dropped, as the spec says. (If another rank dies after that, rows of its shards may
        come late and make one more short batch.) Returning a batch makes its rows consumed.

        If the spec pads last batches, all ranks get equally many batches of an epoch, all of batch_size rows.

        A KeyboardInterrupt loses nothing: the next call returns the batch that this one did not. (Before Python 3.11
        one may still come between the return and the caller's assignment, as with any function.) Raises what ended
        the session at once; EpochsExhausted after the last epoch; WorkersUnreachable or MasterUnreachable when
        nothing came for Config.timeout that should have come: the session is still good then, and next may be called
        again. Waiting for other ranks, or while the lease has run out, is no error.
        """
        self._check_process()
        if self._offered is self._returned:  # else the call before was interrupted before its end
            self._offered = self._offer(self._await())
        offer = self._offered
        assert offer is not None
        if (came := self._came) is not None:
            self._connection.lend(offer.after.number, came.memory)
        if self._came is None:  # it was closed meanwhile, by a handler of a signal or another thread
            raise self._closed_error()
        self._came, self._returned = None, offer  # no call between, and so no other thread's turn
        return offer.rows

    def leave(self, epoch: int) -> None:
        """Ends an epoch before its end, if the loop is in it still: next goes on with the one behind it.

        What came of it and was not returned is dropped. An interrupt loses no more than that; call it again.
        """
        self._check_process()
        if self.epoch > epoch:
            return
        answer = self._ask({"leave": {"epoch": epoch}})
        if "error" in answer:
            raise self._failure(answer["error"])
        end = answer["epoch_end"]
        offer = _Offer(None, self._after(end["number"]), end["epoch"])
        if (came := self._came) is not None and "batch" in came.reply:
            self._connection.lend(_number(came.reply), came.memory)
        newest = max(self._newest, end["number"])
        # No call between: no interrupt comes there.
        self._came, self._newest, self._offered, self._returned = None, newest, offer, offer

    def _await(self) -> _Came:
        begin = time.monotonic()
        while (came := self._came) is None:
            if self._gone is not None:
                return _Came(self._gone, {})
            self._ask_next()
            if not self._take_reply(lambda: self._came is not None):
                self._quiet += 1
                if self._quiet > LOOKS:
                    raise self._silent()
            elif self._came is None:
                self._check_waiting(begin)
                time.sleep(0.001)  # another thread's turn, if one asks for something
            self._check_process()  # it may be closed by now
        return came

    def _ask_next(self) -> None:
        """Asks for what comes next, unless that was done. After an interrupt it is asked twice, by the same number."""
        ask = self._told + 1
        if self._asked >= ask:
            return
        wait, released = min(WAIT, self._config.timeout), self._connection.released()
        self._connection.send({"id": ask, "next": {"wait": wait, "released": released}})
        self._asked, self._quiet = ask, 0
        self._connection.forget(len(released))

    def _offer(self, came: _Came) -> _Offer:
        reply = came.reply
        if "error" in reply:
            raise self._failure(reply["error"])
        if "finished" in reply:
            raise errors.EpochsExhausted(
                f"session {self._config.session!r}: all {self.epochs} epochs have been read; epochs= sets their number"
            )
        after = self._after(_number(reply))
        if "epoch_end" in reply:
            return _Offer(None, after, reply["epoch_end"]["epoch"])
        b = reply["batch"]
        if "schema" in b:
            self._form = Form(pa.ipc.open_stream(base64.b64decode(b["schema"])).schema)
        assert self._form is not None
        flat = Flat(self._form, b["rows"], _parts(self._form, b, came.memory))
        named = b.get("checkpoint")
        checkpoint = Checkpoint(named["name"], named["step"]) if named else None
        return _Offer(Rows(flat, b["epoch"], b["valid"], after, checkpoint), after, b["epoch"])

    def _after(self, number: int) -> After:
        after = After(number)
        self._afters.add(after)
        return after

    def _check_waiting(self, begin: float) -> None:
        """Raises why what next waits for does not come, when it has waited for long enough."""
        config, w, fleet = self._config, self._waiting, self._newest_figures()["workers"]
        ended = failures.fleet_ended(config)
        if ended is not None:
            raise ended
        now = time.monotonic()
        waited = min(now - begin, w["idle"])
        if waited < config.timeout:
            return
        if "master" in w:
            raise failures.master_lost(config, waited, w["master"])
        workers = w.get("workers", ())
        if workers or fleet == 0:
            asked = {(a["name"], a["address"]) for a in workers}
            seen = {a["address"]: a["error"] for a in workers if "error" in a}
            raise failures.workers_unreachable(config, waited, fleet, asked, seen)
        if self._said_waiting != begin:
            self._said_waiting = begin
            cause = self._newest_figures()["cause"]
            what = f"next has waited for other ranks for {now - begin:.0f} s, which timeout= does not bound"
            if cause.get("bottleneck") == "storage":
                what = f"next has waited for {now - begin:.0f} s: {cause['words']}"
            hint = f"`penstock session show {config.session}` tells how far each rank is"
            tell(config, "waiting_for_ranks", f"{what}; {hint}", logging.WARNING, {"epoch": self.epoch})

    def _failure(self, e: Message, opening: bool = False) -> errors.Error:
        """What a session's end means to the training loop."""
        return failures.fleet_ended(self._config) or failures.of(self._config, e, opening=opening)

    def _say(self, event: Message) -> None:
        about = event["about"]
        message = ", ".join([event["message"], *(f"{key} {value}" for key, value in sorted(about.items()))])
        tell(self._config, event.get("name", ""), message, _LEVELS.get(event["level"], logging.ERROR), about)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.UsageError(
                "the loader was opened in another process, and a fork does not take its threads along: use "
                "num_workers=0, open the loader after the fork, or start processes with the spawn method"
            )
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> errors.Error:
        return self._fenced or errors.Closed(
            f"session {self._config.session!r}: the loader was closed; make a new one to go on"
        )

    @property
    def epoch(self) -> int:
        """The epoch that next reads, from 0."""
        return self._epoch if self._returned is None else self._returned.epoch

    @property
    def epochs(self) -> int:
        """Epochs of the session."""
        return self._info.epochs

    @property
    def finished(self) -> bool:
        """Whether next has ended all epochs."""
        return self.epoch >= self.epochs

    @property
    def batches(self) -> int | None:
        """How many batches next returns of its epoch, from the epoch's beginning on, where the master has told that."""
        f = self._newest_figures()
        return f.get("epoch_batches") if f["epoch"] == self.epoch else None

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of all batches, or None before the first."""
        return None if self._form is None else self._form.schema

    @property
    def info(self) -> Info:
        """The session as it was when this rank joined."""
        return self._info

    def planned_rows(self, patience: float) -> int | None:
        """The rows of an epoch, if a master says so, in so many seconds, that all of it is planned.

        Raises MasterUnreachable, or another Error, if none answers.
        """
        self._check_process()
        answer = self._ask({"rows": {"wait": patience}})
        if "error" in answer:
            raise self._failure(answer["error"])
        rows: int | None = answer["rows"]["planned"]
        return rows

    def state(self, after: After | None = None) -> State:
        """The checkpoint of this rank as of what next returned last, or as of Rows.after, for loops that read ahead."""
        at = after or self._newest_after()
        if at.state is None:
            self._check_process()
            self._fetch([at])
        assert at.state is not None
        return at.state

    def _newest_figures(self) -> Message:
        figures = self._figures
        if isinstance(figures, bytes):
            figures = self._figures = json.loads(figures)
        return figures

    def _newest_after(self) -> After:
        return self._begins if self._returned is None else self._returned.after

    def _fetch(self, moments: Sequence[After]) -> None:
        """Asks for states, which are kept."""
        if not moments:
            return
        answer = self._ask({"state": {"after": [m.number for m in moments]}})
        if "error" in answer:
            raise self._failure(answer["error"])
        for moment, state in zip(moments, answer["states"], strict=True):
            moment.state = State.of(state)

    def stats(self) -> SessionStats:
        """The figures as of the newest answer."""
        known = self._newest_figures()
        figures = {name: value for name, value in known.items() if name not in ("epoch", "epoch_batches")}
        return SessionStats(**{**figures, "cause": Cause(**figures["cause"])})

    def fence(self, why: errors.Fenced) -> State | None:
        """Leaves the session for another reader, and waits for that: its loop, which may be in next(), gets why.

        Returns the loop's state where the master counts a batch as read that the loop has not got, as after an
        interrupt.
        """
        if not self._closed:
            self._fenced = why
        self.close()
        self._left.wait(LEAVE_TIMEOUT)  # of another thread that closes it
        return self._unread

    def close(self) -> None:
        """Leaves the session: what this rank holds and has not consumed goes back at once.

        Batches stay, and states that are held. In a forked process it does nothing.
        """
        if os.getpid() != self._pid or self._closed:
            return
        self._keep_states()
        if self._closed:
            return
        c = self._config
        try:
            self._closed = True
            answer = self._ask({"close": {}})
            came, self._came = self._came, None
            if came is not None and "batch" in came.reply:
                at = self._newest_after()  # which another thread may have come to since the states were asked for
                if at.state is None:
                    self._fetch([at])
                self._unread = at.state
        finally:
            self._end()
        if "error" in answer and failures.fleet_ended(c) is None:
            what = "could not leave, so the master takes back what this rank holds when its lease ends"
            words = (c.session, c.rank, what, answer["error"]["words"], failures.doctor(c))
            logging.getLogger("penstock").warning("session %s, rank %d: %s: %s; %s", *words)

    def _keep_states(self) -> None:
        """Asks for the states that are held, while they can be asked for."""
        oldest = self._newest - STATES_KEPT + 1
        moments = [m for m in self._afters if m.state is None and m.number >= oldest]
        if not moments:
            return
        try:
            answer = self._ask({"state": {"after": [m.number for m in moments]}})
            for moment, state in zip(moments, answer.get("states", ()), strict=False):  # that one is wanted tells more
                moment.state = State.of(state)
        except (errors.Closed, errors.Fenced):  # since a moment ago
            return
        except BaseException:  # such as a second interrupt: nobody closes it again
            self._end()
            raise

    def _end(self) -> None:
        self._closed = True
        self._came = None  # nobody else sees it
        if self._returned is not None:
            self._offered = self._returned = self._returned._replace(rows=None)
        self._connection.close()
        self._left.set()
        _open_sessions.discard(self)


def _number(reply: Message) -> int:
    """That of a batch or an epoch's end, which others lack."""
    number: int = (reply.get("batch") or reply.get("epoch_end") or {"number": 0})["number"]
    return number


def _parts(form: Form, b: Message, memory: dict[int, memoryview]) -> list[Array]:
    """A batch's arrays, where they lie."""
    places = b["places"]
    return [
        np.frombuffer(memory[segment], dtype, size // width, begin) if segment else np.empty(0, dtype)
        for (_, dtype, width), segment, begin, size in zip(
            form.parts, places[::3], places[1::3], places[2::3], strict=True
        )
    ]


def _places(packed: str) -> list[int]:
    """Where a batch's arrays lie: of each its segment, where it begins, and its bytes."""
    numbers: list[int] = np.frombuffer(base64.b64decode(packed), "<i8").tolist()
    return numbers


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes what the user forgot."""
    for session in list(_open_sessions):
        session.close()
