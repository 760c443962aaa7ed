"""A session whose batches another process makes (feeder), in memory that both have.

It opens and joins the session, asks for one batch after the other, and tells what comes. A session belongs to one
thread, which can be interrupted anywhere and must then have lost nothing: an answer is taken from the connection once
all is noted that it says, which may be noted twice, and a batch stays where it is until next() has returned it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import pyarrow as pa

from penstock import errors
from penstock._flat import Array, Flat, Form
from penstock._pb import control_pb2, spec_pb2
from penstock._pb import feed_pb2 as pb
from penstock._session import failures, feeder, forks
from penstock._session.config import Config, Security
from penstock._session.events import tell
from penstock._session.joining import Joined, first_epoch, open_session
from penstock._session.masters import MasterError, Masters
from penstock.batch import Checkpoint

STATES_KEPT = 1024  # moments, the newest, of which the state can be asked for
WAIT = 1.0  # seconds between looks at why nothing comes
LOOKS = 60  # that the process may be silent: not seconds of the clock, for both may have been stopped
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_LEVELS = {-4: logging.DEBUG, 0: logging.INFO, 4: logging.WARNING}


class After:
    """A moment of the session: behind a batch, an epoch's end, or at its beginning."""

    __slots__ = ("__weakref__", "number", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: control_pb2.State | None = None  # once it was asked for


@dataclass(frozen=True)
class SessionStats:
    """Figures since the session was opened; seconds and bytes.

    rows, batches, bytes: handed over. rows_by_worker says who sent the rows, streams_by_worker from whom streams are
    being received, ways in which way batches came from workers (memory, link, grpc). dropped: rows of ended epochs that no rank got.
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
    cause: control_pb2.Cause = field(default_factory=control_pb2.Cause)


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

    reply: pb.FeedReply
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
        forks.note_opening()
        self._pid, self._config = os.getpid(), config
        # Before a master hears of this rank:
        self._connection = feeder.connect() if config.fleet is None else config.fleet.connect()
        masters = Masters(config.masters, config.security)
        try:
            joined = open_session(config, masters)
        except BaseException:
            self._connection.close()
            raise
        finally:
            masters.close()
        self._info, self._program = joined.info, spec_pb2.Program.FromString(joined.info.program)
        message, about = joined.describe()
        tell(config, "joined", message, metadata=about)

        self._came: _Came | None = None  # what next returns
        self._answers: dict[int, pb.FeedReply | None] = {}  # to all else that is waited for, by its id
        self._gone: pb.FeedReply | None = None  # the last one, once nothing comes any more
        self._turn = threading.RLock()  # to receive
        self._receiver = 0  # the thread that has it
        self._figures, self._waiting = pb.FeedFigures(), pb.FeedWaiting()
        self._told = 0  # that next asked and was answered, counted from 1 on
        self._newest = 0  # number of a batch or an epoch's end

        self._asked = 0  # by next last
        self._quiet = 0  # looks since then that found nothing
        self._asks = 0  # for anything else
        self._form: Form | None = None  # of the batches
        self._offered: _Offer | None = None  # by next last
        self._returned: _Offer | None = None  # the same, once its call has reached its end
        self._afters: weakref.WeakSet[After] = weakref.WeakSet()
        self._begins = self._after(0)
        self._said_waiting: float | None = None  # of the call of next that began then, that it waits for long
        self._closed = False
        try:
            answer = self._ask(pb.FeedRequest(open=_open(config, joined)))
            if answer.HasField("error"):
                raise self._failure(answer.error)
        except BaseException:
            self._connection.close()
            raise
        self._epoch = self._figures.epoch
        _open_sessions.add(self)

    def _take_reply(self, came: Callable[[], bool]) -> bool:
        """Notes what the next answer says, unless what is waited for came; whether there was one in time.

        Once none can come, that is noted, too.
        """
        me = threading.get_ident()
        if self._receiver == me:
            raise errors.UsageError(
                "on_event and handlers of signals cannot ask the loader for anything while it reads; do it in the loop"
            )
        with self._turn:
            if came():  # another thread received it
                return True
            self._receiver = me
            try:
                reply = self._connection.receive(WAIT)
                if reply is not None:
                    self._note(reply)
                    self._connection.take(reply)
                elif not self._connection.closed:
                    self._give_up(f"the process that makes its batches is gone: {self._connection.end()}")
            except BlockingIOError:
                return False
            except Exception as err:  # such as no room to map a segment
                self._give_up(f"what its process sends cannot be received: {err!r}")
            finally:
                self._receiver = 0
            return True

    def _give_up(self, why: str) -> None:
        self._gone = pb.FeedReply(error=pb.FeedError(words=f"{why}; go on from a checkpoint"))

    def _note(self, reply: pb.FeedReply) -> None:
        if reply.HasField("figures"):
            self._figures = reply.figures
        for event in reply.events:
            self._say(event)
        if not reply.next:
            if reply.id in self._answers:  # else it is that to a call that was interrupted
                self._answers[reply.id] = reply
        elif reply.HasField("done") or reply.id <= self._told:
            pass  # asked twice, or noted before an interrupt
        elif reply.HasField("waiting"):
            self._waiting, self._told = reply.waiting, reply.id
        else:
            came = _Came(reply, self._connection.memory(reply.batch) if reply.HasField("batch") else {})
            self._newest = max(self._newest, _number(reply))
            self._came, self._told = came, reply.id  # no call between, at which an interrupt might come

    def _ask(self, request: pb.FeedRequest) -> pb.FeedReply:
        """The answer to anything but next."""
        self._asks += 1
        request.id = self._asks
        looks = 0
        try:
            self._answers[request.id] = None
            with contextlib.suppress(OSError):  # the answer tells
                self._connection.send(request)
            while (answer := self._answers[request.id]) is None:
                if self._gone is not None:
                    return self._gone
                if self._connection.closed:
                    raise self._closed_error()
                looks += not self._take_reply(lambda: self._answers[request.id] is not None)
                if looks > LOOKS:
                    raise self._silent()
            return answer
        finally:
            self._answers.pop(request.id, None)

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
        if self._came is not None:
            self._connection.lend(offer.after.number, self._came.memory)
        self._came, self._returned = None, offer
        return offer.rows

    def _await(self) -> _Came:
        begin = time.monotonic()
        while self._came is None:
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
        return self._came

    def _ask_next(self) -> None:
        """Asks for what comes next, unless that was done. After an interrupt it is asked twice, by the same number."""
        ask = self._told + 1
        if self._asked >= ask:
            return
        wait, released = min(WAIT, self._config.timeout), self._connection.released()
        with contextlib.suppress(OSError):  # the answer tells
            self._connection.send(pb.FeedRequest(id=ask, next=pb.FeedNext(wait_ns=int(wait * 1e9), released=released)))
        self._asked, self._quiet = ask, 0
        self._connection.forget(len(released))

    def _offer(self, came: _Came) -> _Offer:
        reply = came.reply
        if reply.HasField("error"):
            raise self._failure(reply.error)
        if reply.HasField("finished"):
            raise errors.EpochsExhausted(
                f"session {self._config.session!r}: all {self.epochs} epochs have been read; epochs= sets their number"
            )
        after = self._after(_number(reply))
        if reply.HasField("epoch_end"):
            return _Offer(None, after, reply.figures.epoch)
        b = reply.batch
        if b.schema:
            self._form = Form(pa.ipc.open_stream(b.schema).schema)
        assert self._form is not None
        flat = Flat(self._form, b.rows, _parts(self._form, b, came.memory))
        checkpoint = Checkpoint(b.checkpoint, b.checkpoint_step) if b.checkpoint else None
        return _Offer(Rows(flat, b.epoch, b.valid, after, checkpoint), after, reply.figures.epoch)

    def _after(self, number: int) -> After:
        after = After(number)
        self._afters.add(after)
        return after

    def _check_waiting(self, begin: float) -> None:
        """Raises why what next waits for does not come, when it has waited for long enough."""
        config, w, fleet = self._config, self._waiting, self._figures.workers
        ended = failures.fleet_ended(config)
        if ended is not None:
            raise ended
        now = time.monotonic()
        waited = min(now - begin, w.idle_ns / 1e9)
        if waited < config.timeout:
            return
        if w.master:
            raise failures.master_lost(config, waited, w.master)
        if w.workers or fleet == 0:
            asked, seen = {(a.name, a.address) for a in w.workers}, {a.address: a.error for a in w.workers if a.error}
            raise failures.workers_unreachable(config, waited, fleet, asked, seen)
        if self._said_waiting != begin:
            self._said_waiting = begin
            what = f"next has waited for other ranks for {now - begin:.0f} s, which timeout= does not bound"
            hint = f"`penstock session show {config.session}` tells how far each rank is"
            tell(config, "waiting_for_ranks", f"{what}; {hint}", logging.WARNING, {"epoch": self.epoch})

    def _failure(self, e: pb.FeedError) -> errors.Error:
        """What a session's end means to the training loop."""
        code = _CODES.get(e.code, grpc.StatusCode.UNKNOWN)
        ended = failures.fleet_ended(self._config)
        if ended is not None:
            return ended
        if e.kind == pb.FeedError.MASTER:
            return failures.from_master(self._config, MasterError([e.words], code))
        if e.kind == pb.FeedError.SESSION:
            return failures.session_failed(self._config, e.words, e.bad_data)
        if e.kind == pb.FeedError.REFUSED:
            refusal = failures.Refusal(e.words, code.name, e.address, e.stranger)
            return failures.refused_shard(self._config, e.shard, e.file, refusal)
        return errors.Error(f"session {self._config.session!r}: {e.words}")

    def _say(self, event: pb.FeedEvent) -> None:
        about = {key: getattr(value, value.WhichOneof("is")) for key, value in event.about.items()}
        message = ", ".join([event.message, *(f"{key} {value}" for key, value in sorted(about.items()))])
        tell(self._config, event.name, message, _LEVELS.get(event.level, logging.ERROR), about)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.UsageError(
                "the loader was opened in another process, and a fork does not take its threads along: use "
                "num_workers=0, open the loader after the fork, or start processes with the spawn method"
            )
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> errors.Closed:
        return errors.Closed(f"session {self._config.session!r}: the loader was closed; make a new one to go on")

    @property
    def epoch(self) -> int:
        """The epoch that next reads, from 0."""
        return self._epoch if self._returned is None else self._returned.epoch

    @property
    def epochs(self) -> int:
        """Epochs of the session."""
        return max(1, self._info.spec.epochs)

    @property
    def finished(self) -> bool:
        """Whether next has ended all epochs."""
        return self.epoch >= self.epochs

    @property
    def batches(self) -> int | None:
        """How many batches next returns of its epoch, from the epoch's beginning on, where the master has told that."""
        f = self._figures
        return f.epoch_batches if f.HasField("epoch_batches") and f.epoch == self.epoch else None

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of all batches, or None before the first."""
        return None if self._form is None else self._form.schema

    @property
    def info(self) -> control_pb2.Session:
        """The session as the master described it when this rank joined."""
        return self._info

    @property
    def program(self) -> spec_pb2.Program:
        """What workers run: the spec resolved against the dataset."""
        return self._program

    def state(self, after: After | None = None) -> control_pb2.State:
        """The checkpoint of this rank as of what next returned last, or as of Rows.after, for loops that read ahead."""
        at = after or (self._begins if self._returned is None else self._returned.after)
        if at.state is None:
            self._check_process()
            self._fetch([at])
        assert at.state is not None
        return at.state

    def _fetch(self, moments: Sequence[After]) -> None:
        """Asks for states, which are kept."""
        answer = self._ask(pb.FeedRequest(state=pb.FeedState(after=[m.number for m in moments])))
        if answer.HasField("error"):
            raise self._failure(answer.error)
        for moment, state in zip(moments, answer.states.states, strict=True):
            moment.state = state

    def stats(self) -> SessionStats:
        """The figures as of the newest answer."""
        f = self._figures
        return SessionStats(
            rows=f.rows, batches=f.batches, bytes=f.bytes, dropped=f.dropped, stall_seconds=f.stall_ns / 1e9,
            longest_stall_seconds=f.longest_stall_ns / 1e9, compute_seconds=f.compute_ns / 1e9, failovers=f.failovers,
            hedges=f.hedges, buffered=f.buffered, peak_buffered=f.peak_buffered, workers=f.workers, streams=f.streams,
            rows_by_worker=dict(f.rows_by_worker), ways=dict(f.ways), cause=f.cause,
            streams_by_worker=dict(f.streams_by_worker),
        )  # fmt: skip

    def close(self) -> None:
        """Leaves the session: what this rank holds and has not consumed goes back at once.

        Batches stay, and states that are held. In a forked process it does nothing. on_event and handlers of signals
        that call it while the session receives cannot wait: it then ends by itself a moment later.
        """
        if os.getpid() != self._pid or self._closed:
            return
        if self._receiver == threading.get_ident():
            self._closed = True
            with contextlib.suppress(OSError):
                self._connection.send(pb.FeedRequest(close=pb.FeedClose()))
            self._connection.close()
            return
        self._keep_states()
        c = self._config
        try:
            self._closed = True
            answer = self._ask(pb.FeedRequest(close=pb.FeedClose()))
        finally:
            self._end()
        if answer.HasField("error") and failures.fleet_ended(c) is None:
            what = "could not leave, so the master takes back what this rank holds when its lease ends"
            words = (c.session, c.rank, what, answer.error.words, failures.doctor(c))
            logging.getLogger("penstock").warning("session %s, rank %d: %s: %s; %s", *words)

    def _keep_states(self) -> None:
        """Asks for the states that are held, while they can be asked for."""
        oldest = self._newest - STATES_KEPT + 1
        try:
            self._fetch([m for m in self._afters if m.state is None and m.number >= oldest])
        except BaseException as err:  # such as a second interrupt: nobody closes it again
            if isinstance(err, errors.Error) and not isinstance(err, _SilentError):
                return  # that a state is wanted tells more
            self._end()
            raise

    def _end(self) -> None:
        self._closed = True
        self._came = None  # nobody else sees it
        if self._returned is not None:
            self._offered = self._returned = self._returned._replace(rows=None)
        self._connection.close()
        _open_sessions.discard(self)


def _open(config: Config, joined: Joined) -> pb.FeedOpen:
    return pb.FeedOpen(
        masters=config.masters, security=_security(config.security), rank=config.rank, world_size=config.world_size,
        zone=config.zone, compression=config.compression, budget=config.budget, session=joined.info,
        joined=joined.reply, nonce=joined.nonce, lease_ns=int((joined.lease_ends - time.monotonic()) * 1e9),
        epoch=first_epoch(config, joined.reply), sync_every_ns=int(config.sync_every * 1e9),
        stream_timeout_ns=int(config.stream_timeout * 1e9), hedge_after_ns=int(config.hedge_after * 1e9),
    )  # fmt: skip


def _security(s: Security) -> pb.FeedSecurity:
    return pb.FeedSecurity(
        token="" if s.token_file else s.token or "", token_file=_absolute(s.token_file), ca=_absolute(s.ca_file),
        cert=_absolute(s.cert_file), key=_absolute(s.key_file), server_name=s.server_name or "", tls=s.tls,
        namespace=s.namespace or "",
    )  # fmt: skip


def _absolute(path: str | None) -> str:
    return str(Path(path).absolute()) if path else ""


def _number(reply: pb.FeedReply) -> int:
    """That of a batch or an epoch's end."""
    return int((reply.batch if reply.HasField("batch") else reply.epoch_end).number)


def _parts(form: Form, b: pb.FeedBatch, memory: dict[int, memoryview]) -> list[Array]:
    """A batch's arrays, where they lie."""
    # Slices are lists, which are quicker to go over than the message's own sequences.
    places = zip(form.parts, b.array_segments[:], b.array_begins[:], b.array_bytes[:], strict=True)
    return [
        np.frombuffer(memory[segment], dtype, size // width, begin) if segment else np.empty(0, dtype)
        for (_, dtype, width), segment, begin, size in places
    ]


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes what the user forgot."""
    for session in list(_open_sessions):
        session.close()
