"""A rank's part in a named checkpoint of the whole job: the twin of client/checkpoint.go.

The master orders the state behind one of the next batches. Nothing of it lasts: a rank that starts again is asked
again. The session's lock guards it.
"""

from __future__ import annotations

from penstock._pb import control_pb2 as pb
from penstock._session.ledger import Snapshot
from penstock.batch import Checkpoint


class Checkpointing:
    """What the master orders, and what this rank answers."""

    def __init__(self) -> None:
        self._order: pb.CheckpointOrder | None = None
        self._taken: Snapshot | None = None  # behind the batch that the order names
        self.missed = False  # that batch had been handed over when the order came

    def obey(self, order: pb.CheckpointOrder | None, batches: int) -> None:
        """Takes over what a reply orders. batches were handed over."""
        if order is None:
            self._order, self._taken, self.missed = None, None, False
        elif self._order is None or self._order.id != order.id:
            self._order, self._taken, self.missed = order, None, batches >= order.batches

    def at(self, batches: int) -> Checkpoint | None:
        """The checkpoint that has its place behind the batch of that number. Changes nothing."""
        order = self._order
        if order is None or self.missed or batches != order.batches:
            return None
        return Checkpoint(order.name, order.step)

    def take(self, after: Snapshot) -> None:
        """Keeps the state behind the batch that was ordered. Done twice it is the same."""
        self._taken = after

    def part(self) -> tuple[int, Snapshot | None] | None:
        """The order's number and its state, or None if it was missed; nothing if there is nothing to answer."""
        if self._order is None or (self._taken is None and not self.missed):
            return None
        return self._order.id, self._taken
