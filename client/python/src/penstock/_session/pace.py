"""How fast the training loop could go on, for the master, which sizes the fleet by it.

It is the twin of the Go client's pace.go. Pure; used with the session's lock held.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock._pb import control_pb2 as pb

STEPS = 15  # that the median is of: few, so that a change of speed shows soon
LEAST = 5  # steps that tell something
WARM_UP = 3  # steps of a start that do not count: loops compile and allocate in them


@dataclass
class Pace:
    """The newest steps: the times between next's return with a batch and the next call, and the rows of the batch.

    Their median leaves out the pauses of evaluation and checkpoints. client: seconds that next took without waiting.
    """

    client: float = 0.0
    _warm_up: int = WARM_UP
    _steps: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=STEPS))

    def step(self, compute: float, rows: int) -> None:
        """Takes one."""
        if self._warm_up > 0:
            self._warm_up -= 1
        else:
            self._steps.append((compute, rows))

    def to_proto(self, buffered: float) -> pb.Pace:
        """buffered: how many batches the received rows fill."""
        pace = pb.Pace(buffered=buffered, client_ns=int(self.client * 1e9))
        steps = len(self._steps)
        if steps >= LEAST:
            pace.step_ns = int(sorted(seconds for seconds, _ in self._steps)[steps // 2] * 1e9)
            pace.rows = sum(rows for _, rows in self._steps) / steps
            pace.steps = steps
        return pace
