"""A session whose batches another process makes (feeder), in memory that both have.

It has the session opened and joined, asks for one batch after the other (exchange), and tells what comes. A session
belongs to one thread, which can be interrupted anywhere and must then have lost nothing: an answer is taken from the
connection once all is noted that it says, and a batch stays where it is until next() has returned it. Handlers of
signals that interrupt next() may ask for states, and close: their calls lie within the one that waits.
"""

from __future__ import annotations

import atexit
import base64
import logging
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from penstock import errors
from penstock._flat import Flat, Form
from penstock._session import failures
from penstock._session.config import Config
from penstock._session.events import tell
from penstock._session.exchange import Came, Exchange, number_of
from penstock._session.feeder import Message
from penstock._session.rows import After, Rows, parts
from penstock._session.state import Info, State
from penstock._session.stats import Cause, SessionStats
from penstock.position import Checkpoint

STATES_KEPT = 1024  # moments, the newest, of which the state can be asked for
LEAVE_TIMEOUT = 10.0  # seconds; a master that does not answer has fewer


class _Offer(NamedTuple):
    """What one call of next returns."""

    rows: Rows | None
    after: After
    epoch: int  # that the loop is in after it


class Session:
    """One rank's reading of a session, from its opening to close."""

    def __init__(self, config: Config) -> None:
        """Opens the session on the master (or finds it), joins it as a rank, and begins to stream.

        Raises SpecError, SessionMismatch, RestoreRefused, PermissionDenied, SessionFailed, UsageError, or
        MasterUnreachable when no master has answered for Config.connect_timeout.
        """
        config.check()
        self._pid, self._config = os.getpid(), config
        self._exchange = Exchange(config)
        self._connection = self._exchange.connection
        self._form: Form | None = None  # of the batches
        self._offered: _Offer | None = None  # by next last
        self._returned: _Offer | None = None  # the same, once its call has reached its end
        self._afters: weakref.WeakSet[After] = weakref.WeakSet()
        self._begins = self._after(0)
        self._said_waiting: float | None = None  # of the call of next that began then, that it waits for long
        self._closed = False
        self._left = threading.Event()  # nobody reads by it any more
        self._unread: State | None = None  # the loop's, where a batch came that it did not get
        try:
            answer = self._exchange.ask({"open": config.message()})
            if "error" in answer:
                raise self._failure(answer["error"], opening=True)
        except BaseException:
            self._connection.close()
            raise
        self._info = Info.of(answer["opened"])
        self._epoch: int = self._exchange.figures["epoch"]
        _open_sessions.add(self)

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
        if (came := self._exchange.came) is not None:
            self._connection.lend(offer.after.number, came.memory)
        if self._exchange.came is None:  # it was closed meanwhile, by a handler of a signal or another thread
            raise self._exchange.closed_error()
        self._exchange.came, self._returned = None, offer  # no call between, and so no other thread's turn
        return offer.rows

    def leave(self, epoch: int) -> None:
        """Ends an epoch before its end, if the loop is in it still: next goes on with the one after it.

        What came of it and was not returned is dropped. An interrupt loses no more than that; call it again.
        """
        self._check_process()
        if self.epoch > epoch:
            return
        answer = self._exchange.ask({"leave": {"epoch": epoch}})
        if "error" in answer:
            raise self._failure(answer["error"])
        end = answer["epoch_end"]
        offer = _Offer(None, self._after(end["number"]), end["epoch"])
        if (came := self._exchange.came) is not None and "batch" in came.reply:
            self._connection.lend(number_of(came.reply), came.memory)
        newest = max(self._exchange.newest, end["number"])
        # No call between: no interrupt comes there.
        self._exchange.came, self._exchange.newest, self._offered, self._returned = None, newest, offer, offer

    def _await(self) -> Came:
        begin, exchange = time.monotonic(), self._exchange
        while (came := exchange.came) is None:
            if exchange.gone is not None:
                return Came(exchange.gone, {})
            if exchange.look_for_next() and exchange.came is None:
                self._check_waiting(begin)
                time.sleep(0.001)  # another thread's turn, if one asks for something
            self._check_process()  # it may be closed by now
        return came

    def _offer(self, came: Came) -> _Offer:
        reply = came.reply
        if "error" in reply:
            raise self._failure(reply["error"])
        if "finished" in reply:
            raise errors.EpochsExhausted(
                f"session {self._config.session!r}: all {self.epochs} epochs have been read; epochs= sets their number"
            )
        after = self._after(number_of(reply))
        if "epoch_end" in reply:
            return _Offer(None, after, reply["epoch_end"]["epoch"])
        b = reply["batch"]
        if "schema" in b:
            self._form = Form(pa.ipc.open_stream(base64.b64decode(b["schema"])).schema)
        assert self._form is not None
        flat = Flat(self._form, b["rows"], parts(self._form, b, came.memory))
        named = b.get("checkpoint")
        checkpoint = Checkpoint(named["name"], named["step"]) if named else None
        return _Offer(Rows(flat, b["epoch"], b["valid"], after, checkpoint), after, b["epoch"])

    def _after(self, number: int) -> After:
        after = After(number)
        self._afters.add(after)
        return after

    def _check_waiting(self, begin: float) -> None:
        """Raises why what next waits for does not come, when it has waited for long enough."""
        config, w, fleet = self._config, self._exchange.waiting, self._exchange.figures["workers"]
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
            cause = self._exchange.figures["cause"]
            what = f"next has waited for other ranks for {now - begin:.0f} s, which timeout= does not bound"
            if cause.get("bottleneck") == "storage":
                what = f"next has waited for {now - begin:.0f} s: {cause['words']}"
            hint = f"`penstock session show {config.session}` tells how far each rank is"
            tell(config, "waiting_for_ranks", f"{what}; {hint}", logging.WARNING, {"epoch": self.epoch})

    def _failure(self, e: Message, opening: bool = False) -> errors.Error:
        """What a session's end means to the training loop."""
        return failures.fleet_ended(self._config) or failures.of(self._config, e, opening=opening)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.UsageError(
                "the loader was opened in another process, and a fork does not take its threads along: use "
                "num_workers=0, open the loader after the fork, or start processes with the spawn method"
            )
        if self._closed:
            raise self._exchange.closed_error()

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
        f = self._exchange.figures
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
        answer = self._exchange.ask({"rows": {"wait": patience}})
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

    def _newest_after(self) -> After:
        return self._begins if self._returned is None else self._returned.after

    def _fetch(self, moments: Sequence[After]) -> None:
        """Asks for states, which are kept."""
        if not moments:
            return
        answer = self._exchange.ask({"state": {"after": [m.number for m in moments]}})
        if "error" in answer:
            raise self._failure(answer["error"])
        for moment, state in zip(moments, answer["states"], strict=True):
            moment.state = State.of(state)

    def stats(self) -> SessionStats:
        """The figures as of the newest answer."""
        known = self._exchange.figures
        figures = {name: value for name, value in known.items() if name not in ("epoch", "epoch_batches")}
        return SessionStats(**{**figures, "cause": Cause(**figures["cause"])})

    def fence(self, why: errors.Fenced) -> State | None:
        """Leaves the session for another reader, and waits for that: its loop, which may be in next(), gets why.

        Returns the loop's state where the master counts a batch as read that the loop has not got, as after an
        interrupt.
        """
        if not self._closed:
            self._exchange.fenced = why
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
            answer = self._exchange.ask({"close": {}})
            came, self._exchange.came = self._exchange.came, None
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
        oldest = self._exchange.newest - STATES_KEPT + 1
        moments = [m for m in self._afters if m.state is None and m.number >= oldest]
        if not moments:
            return
        try:
            answer = self._exchange.ask({"state": {"after": [m.number for m in moments]}})
            for moment, state in zip(moments, answer.get("states", ()), strict=False):  # that one is wanted tells more
                moment.state = State.of(state)
        except (errors.Closed, errors.Fenced):  # since a moment ago
            return
        except BaseException:  # such as a second interrupt: nobody closes it again
            self._end()
            raise

    def _end(self) -> None:
        self._closed = True
        self._exchange.came = None  # nobody else sees it
        if self._returned is not None:
            self._offered = self._returned = self._returned._replace(rows=None)
        self._connection.close()
        self._left.set()
        _open_sessions.discard(self)


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes what the user forgot."""
    for session in list(_open_sessions):
        session.close()
