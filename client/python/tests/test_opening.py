"""What a stream holds is closed once: with it, or when it is forgotten."""

from __future__ import annotations

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
