"""How far a loop has come with batches that it read ahead."""

from __future__ import annotations

import pytest

from penstock._checkpoint import InFlight
from penstock._session import State
from penstock.errors import UsageError
from penstock.position import Position


def _state(rows: int) -> State:
    return State("", "s", 0, 1, 0, rows)


def _position(number: int) -> Position:
    return Position(0, number, None, lambda: _state(number + 1))


def test_done_with_more_batches_than_are_known() -> None:
    """The oldest of them is not the one that the loop means, unless it says so."""
    flight = InFlight(_state(0))
    positions = [_position(i) for i in range(300)]
    for position in positions[:256]:
        flight.yielded(position, None)
    flight.done(None)
    assert flight.state().rows == 1
    for position in positions[256:]:
        flight.yielded(position, None)
    with pytest.raises(UsageError, match="more than 256 are in flight: give it the batch"):
        flight.done(None)
    assert flight.state().rows == 1
    flight.done(positions[1])  # known no more
    assert flight.state().rows == 1
    flight.done(positions[270])
    assert flight.state().rows == 271
    flight.done(None)
    assert flight.state().rows == 272
