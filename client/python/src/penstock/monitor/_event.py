"""Events and the handlers that receive them.

Every other part of the package logs here; `_handlers` has sinks to register. Handlers are kept in a
tuple that is replaced under a lock, so that log_event reads it without one: any thread may log, register and
unregister at any time. Handlers run on the thread that logs, and must be safe to call from several.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from penstock import _signals

Value: TypeAlias = int | float | bool | str
Handler: TypeAlias = Callable[["Event"], None]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened once: a type for programs, a message for people, and what belongs to it.

    Attributes:
        type: dotted, such as "penstock.failover"; handlers choose by it.
        message: for people.
        timestamp: aware; now if not given.
        metadata: figures and names, such as {"session": "job-7", "rank": 0}.
    """

    type: str
    message: str
    timestamp: datetime.datetime = dataclasses.field(default_factory=_now)
    metadata: Mapping[str, Value] = dataclasses.field(default_factory=dict)


class EventHandlerHandle:
    """What register_event_handler returned; unregister_event_handler takes it."""

    __slots__ = ("_handler",)

    def __init__(self, handler: Handler) -> None:
        self._handler = handler


_log = logging.getLogger("penstock.monitor")
_lock = threading.RLock()  # a handler of signals may log while it is held
_handles: tuple[EventHandlerHandle, ...] = ()


def register_event_handler(handler: Callable[[Event], None]) -> EventHandlerHandle:
    """Has handler called with every event that is logged from now on, in this process, on the thread that logs it.

    A handler that raises is unregistered, and its exception is logged once (logger "penstock.monitor"): a broken sink
    must neither end the training nor fill the log.
    """
    global _handles
    handle = EventHandlerHandle(handler)
    with _lock:
        _handles = (*_handles, handle)
    return handle


def unregister_event_handler(handle: EventHandlerHandle) -> None:
    """Ends what register_event_handler began. A handle that is no longer registered is ignored."""
    _remove(handle)


def _remove(handle: EventHandlerHandle) -> bool:
    """Says whether handle was registered, so that of several threads one reports its failure."""
    global _handles
    with _lock:
        kept = tuple(h for h in _handles if h is not handle)
        removed = len(kept) < len(_handles)
        _handles = kept
    return removed


def log_event(event: Event) -> None:
    """Gives event to every handler, in the order of their registration. Raises none of their exceptions."""
    for handle in _handles:
        try:
            handle._handler(event)
        except Exception as err:
            if _signals.raised(err):
                raise  # it is no sink's
            if _remove(handle):
                _log.exception(
                    "event handler %r failed and is unregistered; mend it, and register it again", handle._handler
                )
