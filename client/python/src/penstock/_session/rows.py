"""A batch as a session hands it over, and where in memory its arrays lie.

Everything is immutable, but for a moment's state, which is kept once it was asked for.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock._flat import Array, Flat, Form
from penstock._session.feeder import Message
from penstock._session.state import State
from penstock.position import Checkpoint


class After:
    """A moment of the session: after a batch, an epoch's end, or at its beginning."""

    __slots__ = ("__weakref__", "number", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: State | None = None  # once it was asked for


@dataclass(frozen=True)
class Rows:
    """A batch, handed over: exactly batch_size rows, or the epoch's last.

    valid: how many of its rows are not padding, which is at its end.
    tensors: in the session's tensor layout, in the memory that it came in; record is the same as Arrow has it.
    after: the state of this rank once the batch is consumed, for Session.state.
    checkpoint: of the whole job, that has its place after this batch.
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


def parts(form: Form, b: Message, memory: dict[int, memoryview]) -> list[Array]:
    """A batch's arrays, where they lie."""
    places = b["places"]
    return [
        np.frombuffer(memory[segment], dtype, size // width, begin) if segment else np.empty(0, dtype)
        for (_, dtype, width), segment, begin, size in zip(
            form.parts, places[::3], places[1::3], places[2::3], strict=True
        )
    ]


def places(packed: str) -> list[int]:
    """Where a batch's arrays lie: of each its segment, where it begins, and its bytes."""
    numbers: list[int] = np.frombuffer(base64.b64decode(packed), "<i8").tolist()
    return numbers
