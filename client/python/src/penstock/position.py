"""Where a training loop stands: after which batch, and at which named checkpoint of the whole job.

Everything is immutable, and any thread may have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock._session.state import State


class Checkpoint(NamedTuple):
    """A named checkpoint of the whole job: `penstock session checkpoint` took it, and `restore` goes back to it.

    step counts the batches of each rank, and in order "deterministic" those steps in which a rank has no rows, on from
    that of the checkpoint that the session was restored to, if it was.
    """

    name: str
    step: int


@dataclass(frozen=True)
class Position:
    """Where the training loop stands after one batch. `loader.state_dict(after=position)` is the state there."""

    epoch: int
    number: int  # of the batch, counted from 0 since the loader was made or a state was loaded
    _reading: object = field(repr=False, compare=False)  # stands for the reading that it is of, and keeps none of it
    _state: Callable[[], State] = field(repr=False, compare=False)
    checkpoint: Checkpoint | None = None  # that has its place here

    def __reduce__(self) -> tuple[Callable[..., Position], tuple[int, int, State, Checkpoint | None]]:
        """Goes to other processes without the loader, which stays in its own."""
        return _pickled, (self.epoch, self.number, self._state(), self.checkpoint)

    def __deepcopy__(self, memo: object) -> Position:
        return self

    def __copy__(self) -> Position:
        return self


def _pickled(epoch: int, number: int, state: State, checkpoint: Checkpoint | None = None) -> Position:
    return Position(epoch, number, None, lambda: state, checkpoint)
