"""What a stream holds is closed once: with it, or when it is forgotten."""

from __future__ import annotations

import gc
import threading

import pytest

from penstock._opening import Stream
from penstock._replica import Place


class Resource:
    """Notes the thread that closes it."""

    def __init__(self, failure: type[BaseException] | None = None) -> None:
        self.failure = failure
        self.closed = threading.Event()
        self.by = ""

    def close(self) -> None:
        self.by = threading.current_thread().name
        self.closed.set()
        if self.failure is not None:
            raise self.failure


def stream(*resources: Resource) -> Stream:
    made = Stream(Place(0, 1), "s", None)
    for resource in resources:
        made.owns(resource)
    return made


def test_an_interrupt_while_a_stream_closes_leaves_nothing_open() -> None:
    resources = [Resource(), Resource(ValueError), Resource(KeyboardInterrupt), Resource()]
    closing = stream(*resources)
    with pytest.raises(KeyboardInterrupt):
        closing.close()
    assert all(resource.closed.is_set() for resource in resources)
    closing.close()


def test_the_garbage_collector_does_not_wait_for_a_forgotten_stream() -> None:
    """It may run where a lock is held that closing takes."""
    resource = Resource()
    forgotten = stream(resource)
    forgotten.cycle = forgotten  # type: ignore[attr-defined]
    del forgotten
    gc.collect()
    assert resource.closed.wait(30)
    assert resource.by == "penstock-close"


def test_a_stream_that_was_closed_is_not_closed_again() -> None:
    resource = Resource()
    closed = stream(resource)
    closed.close()
    assert resource.by == threading.current_thread().name
    resource.closed.clear()
    before = threading.active_count()
    del closed
    assert threading.active_count() == before
    assert not resource.closed.is_set()
