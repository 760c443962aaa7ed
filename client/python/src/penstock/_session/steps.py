"""Where a training loop is, counted in batches: for last batches that are padded, and where outputs are counted.

master/session/steps.go has the rules. Pure bookkeeping; the session's lock guards it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock._pb import control_pb2 as pb

# How many steps a rank announces at most that it has not made: all ranks would have to make them, with nothing but
# padding, should its rows go to others in a lost lease.
MAX_AHEAD = 64


@dataclass
class Steps:
    """Batches of the loop's epoch, which is Ledger.ended."""

    batch_size: int
    counted: bool = False  # outputs are: a batch may be handed over only if the epoch has it, and the last is known
    handed: int = 0  # of the epoch
    told: dict[int, int] = field(default_factory=dict)  # how many epochs have, as far as the master said
    finals: set[int] = field(default_factory=set)  # counted: epochs that get no more than told
    dropped: dict[int, int] = field(default_factory=dict)  # counted: rows of those that no rank gets
    final: int = 0  # padded: all epochs before it get no more than told
    reported: int = 0  # padded: how many this rank will hand over at least, by the newest Sync

    def learn(self, told: list[pb.EpochSteps]) -> None:
        """Takes over what the master says."""
        for e in told:
            self.told[e.epoch] = max(self.told.get(e.epoch, 0), e.steps)
            if e.final:
                self.finals.add(e.epoch)
                self.dropped[e.epoch] = e.dropped

    def enter(self, epoch: int) -> None:
        """Begins an epoch, and forgets those before it."""
        self.handed = 0
        self.told = {e: n for e, n in self.told.items() if e >= epoch}
        self.finals = {e for e in self.finals if e >= epoch}
        self.dropped = {e: n for e, n in self.dropped.items() if e >= epoch}

    def over(self, epoch: int) -> bool:
        """Counted: whether the loop, which is in this epoch, has had all batches of it."""
        return epoch in self.finals and self.handed >= self.told[epoch]
