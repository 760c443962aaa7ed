"""What goes between a session and the process that makes its batches: requests, and what each answer says.

It stands between the session's face (session) and the connection (feeder). It belongs to the session's thread, which
can be interrupted anywhere: an answer is taken from the connection once all is noted that it says, which may be noted
twice. Other threads, and code that runs within a call, may ask as well: one of them receives at a time.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from penstock import errors
from penstock._session import feeder
from penstock._session.config import Config
from penstock._session.events import tell
from penstock._session.feeder import Message, Silence
from penstock._session.rows import places

WAIT = 1.0  # seconds between looks at why nothing comes
LOOKS = 60  # that the process may be silent: not seconds of the clock, for both may have been stopped
_LEVELS = {-4: logging.DEBUG, 0: logging.INFO, 4: logging.WARNING}


class Came(NamedTuple):
    """What was received, and the memory that it lies in, by segment."""

    reply: Message
    memory: dict[int, memoryview]


class _SilentError(errors.Error):
    """The process that makes the batches does not answer."""


class Exchange:
    """A session's requests to the process that makes its batches, and what was answered: in came, gone and waiting."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.connection = feeder.connect() if config.fleet is None else config.fleet.connect()
        self.came: Came | None = None  # what next returns
        self.gone: Message | None = None  # the last answer, once nothing comes any more
        self.waiting: Message = {"idle": 0.0}  # why nothing comes
        self.newest = 0  # number of a batch or an epoch's end
        self.fenced: errors.Fenced | None = None  # why the session was closed, if its loop did not close it
        self._answers: dict[int, Message | None] = {}  # to all but next that is waited for, by its id
        self._turn = threading.RLock()  # to receive
        self._said = (0, -1)  # the newest event that was told: its answer's number, and its place there
        self._figures: Message | bytes = {}  # as they came, until they are looked at
        self._told = 0  # that next asked and was answered, counted from 1 on
        self._asked = 0  # by next last
        self._quiet = 0  # looks since then that found nothing
        self._asks = itertools.count(1)  # for anything else

    def _take_reply(self, came: Callable[[], bool]) -> bool:
        """Notes what the next answer says, unless what is waited for came; whether there was one in time.

        Once none can come, that is noted, too.
        """
        with self._turn:
            if came():  # another thread received it, or code that ran within this call
                return True
            answer = self.connection.receive(WAIT)
            if answer is Silence.YET:
                return False
            if isinstance(answer, Silence):
                if not self.connection.closed:
                    self._give_up(f"the process that makes its batches is gone: {self.connection.end()}")
                return True
            self._figures = answer.figures or self._figures
            self._note(answer.number, answer.message)
            self.connection.take(answer)
            return True

    def _give_up(self, why: str) -> None:
        self.gone = {"error": {"kind": "", "words": f"{why}; go on from a checkpoint"}}

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
            self.waiting, self._told = reply["waiting"], reply["id"]
        else:
            if "batch" in reply:
                reply["batch"]["places"] = places(reply["batch"]["places"])
            came = Came(reply, self.connection.memory(reply["batch"]) if "batch" in reply else {})
            newest, told = max(self.newest, number_of(reply)), reply["id"]
            self.came, self._told, self.newest = came, told, newest  # no call between: no interrupt comes there

    def ask(self, request: Message) -> Message:
        """The answer to anything but next."""
        number = next(self._asks)
        looks = 0
        try:
            self._answers[number] = None
            self.connection.send({"id": number, **request})
            while (answer := self._answers[number]) is None:
                if self.gone is not None:
                    return self.gone
                if self.connection.closed:
                    raise self.closed_error()
                looks = 0 if self._take_reply(lambda: self._answers[number] is not None) else looks + 1
                if looks > LOOKS:
                    raise self._silent()
            return answer
        finally:
            self._answers.pop(number, None)

    def _silent(self) -> _SilentError:
        process = f"the process that makes its batches ({self.connection.pid})"
        return _SilentError(
            f"session {self._config.session!r}: {process} has not answered for {LOOKS * WAIT:.0f} s; if it was "
            "stopped, continue it (kill -CONT), else kill it and go on from a checkpoint"
        )

    def look_for_next(self) -> bool:
        """Asks for what next returns, unless that was done, and waits for an answer; whether one came in time."""
        self._ask_next()
        if self._take_reply(lambda: self.came is not None):
            return True
        self._quiet += 1
        if self._quiet > LOOKS:
            raise self._silent()
        return False

    def _ask_next(self) -> None:
        """Asks for what comes next, unless that was done. After an interrupt it is asked twice, by the same number."""
        ask = self._told + 1
        if self._asked >= ask:
            return
        wait, released = min(WAIT, self._config.timeout), self.connection.released()
        self.connection.send({"id": ask, "next": {"wait": wait, "released": released}})
        self._asked, self._quiet = ask, 0
        self.connection.forget(len(released))

    def _say(self, event: Message) -> None:
        about = event["about"]
        message = ", ".join([event["message"], *(f"{key} {value}" for key, value in sorted(about.items()))])
        tell(self._config, event.get("name", ""), message, _LEVELS.get(event["level"], logging.ERROR), about)

    def closed_error(self) -> errors.Error:
        """Why nothing can be asked any more."""
        return self.fenced or errors.Closed(
            f"session {self._config.session!r}: the loader was closed; make a new one to go on"
        )

    @property
    def figures(self) -> Message:
        """The session's, as of the newest answer."""
        figures = self._figures
        if isinstance(figures, bytes):
            figures = self._figures = json.loads(figures)
        return figures


def number_of(reply: Message) -> int:
    """That of a batch or an epoch's end, which others lack."""
    number: int = (reply.get("batch") or reply.get("epoch_end") or {"number": 0})["number"]
    return number
