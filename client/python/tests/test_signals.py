"""Exceptions of handlers of signals are the loop's, wherever they are raised."""

from __future__ import annotations

import functools
import os
import signal
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from penstock import _signals, monitor
from penstock._session import Config
from penstock._session.events import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.pure


class Preempted(Exception):
    """What a handler raises."""


def preempt(*_: object) -> NoReturn:
    raise Preempted


class Handler:
    """As frameworks have them."""

    def __call__(self, *_: object) -> None:
        preempt()

    def method(self, *_: object) -> None:
        preempt()


@pytest.fixture(params=[preempt, Handler(), Handler().method, functools.partial(preempt, 1)])
def preempted(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], None]]:
    """Has a handler raise within a call of this."""
    before = signal.signal(signal.SIGUSR1, request.param)
    yield lambda _: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_a_handler_that_raises_within_a_listener(preempted: Callable[[Any], None]) -> None:
    with pytest.raises(Preempted):
        tell(Config(("m:1",), "s", on_event=preempted), "name", "message")


def test_a_handler_that_raises_within_a_sink(preempted: Callable[[Any], None]) -> None:
    handle = monitor.register_event_handler(preempted)
    try:
        for _ in range(2):  # it stays registered
            with pytest.raises(Preempted):
                monitor.log_event(monitor.Event("x", "y"))
    finally:
        monitor.unregister_event_handler(handle)


def test_what_a_sink_raises_is_its_own() -> None:
    with pytest.raises(Preempted) as caught:
        Handler().method()
    assert not _signals.raised(caught.value)


def test_failures_of_a_call() -> None:
    def within() -> None:
        os.close(-1)

    def of_call(act: Callable[[], object]) -> bool:
        try:
            act()
        except OSError as err:
            return _signals.is_of_call(err)
        raise AssertionError

    def raised() -> bool:
        try:
            raise TimeoutError("as some raise it into a thread")
        except OSError as err:
            return _signals.is_of_call(err)

    assert of_call(functools.partial(os.close, -1))
    assert not of_call(within)
    assert not raised()
