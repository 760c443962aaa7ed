"""A loader's reading of one open session: makes batches of records, and keeps count.

It stands between the loader, which opens and leaves sessions, and a Reader. Everything belongs to the thread of the
training loop, but for stats(), which may be called from any.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock import _hosts
from penstock._checkpoint import InFlight
from penstock._columns import Columns
from penstock._diagnosis import Stats, Watch
from penstock._opening import Stream
from penstock._progress import Progress
from penstock._reader import Read
from penstock._session import Info, State
from penstock.batch import FORMATS, Batch
from penstock.errors import Error, UsageError
from penstock.monitor import P99, Aggregation, Event, Stat, _system, log_event
from penstock.position import Checkpoint, Position

ANEW = "to begin anew, give the job another run id, or the loader another session="


@dataclass(frozen=True)
class Making:
    """What becomes of a record before the loop gets it."""

    name: str  # of the loader
    format: str
    device: Any = None
    pin_memory: bool = False
    map: Callable[[Batch], Any] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        needs_torch = self.device is not None or self.pin_memory
        if self.format not in ("auto", *FORMATS):
            raise UsageError(f'format: found {self.format!r}; give "auto", {", ".join(map(repr, FORMATS))}')
        if needs_torch and self.format in ("numpy", "arrow"):
            raise UsageError(f'device= and pin_memory= need torch tensors, but format is "{self.format}"; leave it out')
        if self.map is not None and not callable(self.map):
            raise UsageError(f"map={self.map!r}: give a function of a Batch, such as map=lambda batch: batch.dense")
        if needs_torch or self.format == "torch":
            self._check_torch()

    def _check_torch(self) -> None:
        try:
            import torch
        except ImportError as err:
            raise UsageError(f'format="torch", device= and pin_memory= need torch: {err}; pip install torch') from err
        try:
            device = torch.device("cpu" if self.device is None else self.device)
        except (RuntimeError, TypeError) as err:
            raise UsageError(f'device={self.device!r}: {err}; give one such as "cuda"') from err
        backend: Any = getattr(torch, device.type, None)  # of "meta" there is none
        count = backend.device_count() if hasattr(backend, "device_count") else 1
        if (device.index or 0) >= count:
            raise UsageError(
                f"device={self.device!r}: torch finds {count} devices of this type here; see that its driver and "
                "torch's build are for it, or leave device= out"
            )
        if self.pin_memory and not getattr(torch, "accelerator", torch.cuda).is_available():
            raise UsageError(
                "pin_memory=True: torch finds no accelerator here, for whose copies memory is page-locked; leave it out"
            )

    def array_format(self) -> str:
        """The format with "auto" decided."""
        if self.format != "auto":
            return self.format
        return "torch" if "torch" in sys.modules or self.device is not None or self.pin_memory else "numpy"

    def place(self, batch: Batch) -> Batch:
        """Copies a batch to where the loop wants it."""
        pinned = batch.pin_memory() if self.pin_memory or self._copies_from_pinned() else batch
        # A copy from other memory, if it did not block, might read it when it has the rows of a later batch.
        return pinned if self.device is None else pinned.to(self.device, non_blocking=self._copies_from_pinned())

    def _copies_from_pinned(self) -> bool:
        """Whether only copies from page-locked memory to the device do not block."""
        if self.device is None:
            return False
        import torch

        return torch.device(self.device).type in ("cuda", "xpu")


class Reading:
    """What a loader knows of a session while it is open."""

    def __init__(self, stream: Stream, making: Making, evenly: bool, restores: bool) -> None:
        self.stream, self._reader, self._making = stream, stream.reader, making
        self._format = making.array_format()
        self._begins = self._reader.state()
        self.flight = InFlight(self._begins)
        goes_on = self._begins.rows > 0 and not restores and self.restored_from is None
        self.earlier = self._begins.epoch if goes_on else 0  # epochs that an earlier start has read
        self._said_earlier = False
        self.position: Position | None = None  # of the batch yielded last
        self.reads_ahead: str | None = None  # the framework that does
        self.turn: object | None = None  # which the iterator has that may read
        self._evenly = evenly  # batches of all epochs are cut at multiples of batch_size
        self._got: list[Read | None] = []  # what a call that was interrupted has read and not yielded
        self._before = self.flight.at()  # the loop's state until that is yielded
        self.ends = 0  # of epochs that were told
        self._number = 0  # of the next batch
        self._of_epoch = 0  # batches and rows of the reader's epoch that were yielded
        self._rows_of_epoch = 0
        self._leaving: int | None = None  # the epoch that a call which was interrupted may have left
        self._dropped = 0  # rows of the epochs before
        self._why_empty = ""  # an epoch had no batch
        self._columns: Columns | None = None
        self._watch = Watch()
        self._map_seconds = 0.0
        self._wait = Stat(
            f"penstock.{making.name}.wait_seconds",
            [Aggregation.COUNT, Aggregation.MEAN, P99, Aggregation.MAX, Aggregation.SUM],
        )
        self._failed = False  # the last look for a batch
        reader = stream.reader  # a display that knew this object would leave both to the garbage collector
        self._progress = Progress(making.name, lambda: reader.stats().stall_seconds) if making.progress else None

    @property
    def epoch(self) -> int:
        """The epoch that the loop is in, or comes to next."""
        return self._reader.epoch

    @property
    def epochs(self) -> int:
        """How many there are."""
        return self._reader.info.epochs

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self._reader.info.batch_size

    @property
    def restored_from(self) -> Checkpoint | None:
        """The named checkpoint that the session was put back to."""
        return self._reader.info.restored_from

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Of the session's spec, for states."""
        return self._reader.info.spec

    @property
    def over(self) -> bool:
        """Whether nothing is left to read."""
        return self.epoch >= self.epochs and not self._got

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to iterate over."""
        return self.over and not self.flight.keeps_undone

    def say_earlier(self) -> None:
        """Warns once of epochs that this start does not read: loops over range(loader.epoch, N) may read none."""
        if self._said_earlier or not self.earlier or not self.stream.speaks:
            return
        self._said_earlier = True
        epochs = "1 epoch" if self.earlier == 1 else f"{self.earlier} epochs"
        logging.getLogger("penstock").warning(
            "session %s: an earlier start under this session id has read %s, and this one goes on with epoch %d "
            "(counted from 0); %s; to go on after a saved model, load its state by load_state_dict()",
            self.stream.session, epochs, self.earlier, ANEW,
        )  # fmt: skip

    def length(self) -> int | None:
        """Batches of the epoch, where that is known."""
        batches = self._reader.batches()
        if batches is not None:
            return batches
        rows = self._reader.rows_per_epoch() if self._evenly else None
        if rows is None:
            return None
        return rows // self.batch_size if self._reader.info.drops else -(-rows // self.batch_size)

    @property
    def number(self) -> int:
        """How many batches were yielded."""
        return self._number

    @property
    def has_begun_epoch(self) -> bool:
        """Whether batches of the reader's epoch were yielded."""
        return self._of_epoch > 0

    def check_process(self) -> None:
        """Raises UsageError in a fork of the process that opened the session: its threads are not there."""
        if os.getpid() != self.stream.pid:
            raise UsageError(
                f"this process ({os.getpid()}) is a fork of the one that opened the loader ({self.stream.pid}), whose "
                'threads and connections it lacks; start processes by "spawn", or open the first loader after the fork '
                "(in torch's DataLoader: num_workers=0)"
            )

    def next(self, ahead: bool = False) -> Any:
        """What the loop gets next of the epoch. Raises StopIteration once at its end.

        ahead: it is not for the loop yet, and comes again unless the loop is done with it or gets one after it.
        """
        self.check_process()
        if not self._got:
            self._before = self.flight.at()
            asked = time.monotonic()
            try:
                self._got.append(self._reader.next())
            except Error as err:
                self._watch.failed(err)
                self._failed = True
                raise
            self._watch.failed(None)
            self._failed = False
            self._wait.add(time.monotonic() - asked)
        read = self._got[0]
        if read is None:
            self._end()
            raise StopIteration
        if self._columns is None:
            self.say_earlier()
            self._columns = Columns(read.tensors.form)
        if self._progress is not None and self._of_epoch == 0:
            self._progress.begin(read.epoch, self._reader.rows_per_epoch())
        position = Position(read.epoch, self._number, self.stream.reading, read.state, read.checkpoint)
        batch = self._making.place(Batch(read.tensors, self._columns, read.epoch, position, self._format, read.valid))
        item = self._mapped(batch)
        self._show(read.valid)
        self.flight.yielded(position, item, ahead)
        number, of_epoch, rows = self._number + 1, self._of_epoch + 1, self._rows_of_epoch + read.valid
        # All at once: an interrupt before it has the batch made again, and none comes between it and the return.
        self.position, self._number, self._of_epoch, self._rows_of_epoch, self._got = (
            position,
            number,
            of_epoch,
            rows,
            [],
        )
        return item

    def _mapped(self, batch: Batch) -> Any:
        if self._making.map is None:
            return batch
        began = time.monotonic()
        try:
            item = self._making.map(batch)
        except StopIteration as err:  # which would end the epoch, and the loop in silence
            raise RuntimeError("map= raised StopIteration") from err
        self._map_seconds += time.monotonic() - began
        return item

    def _show(self, rows: int) -> None:
        self._watch.observe(self._reader.stats, self._map_seconds)
        _system.observe()
        if self._progress is not None:
            self._progress.update(rows)

    def _end(self) -> None:
        self.flight.ended(self._reader.state())
        read = {"epoch": self.epoch - 1, "batches": self._of_epoch, "rows": self._rows_of_epoch}
        log_event(
            Event(
                "penstock.epoch_end",
                f"session {self.stream.session}: epoch {read['epoch']} ended on rank {self.stream.place.rank} "
                f"with {read['rows']} rows in {read['batches']} batches",
                metadata={"session": self.stream.session, "rank": self.stream.place.rank, **read},
            )
        )
        if self._progress is not None:
            self._progress.end()
        self._look_for_rows(read["epoch"])
        self.ends, self._of_epoch, self._rows_of_epoch, self._got = self.ends + 1, 0, 0, []

    def _look_for_rows(self, epoch: int) -> None:
        """Warns once of an epoch that ended without a batch, where that was not since others read its rows."""
        info, dropped = self._reader.info, self._reader.stats().dropped
        here, self._dropped = dropped - self._dropped, dropped
        read_before = info.begun and epoch == self._begins.epoch
        if self._of_epoch or self._why_empty or read_before or (info.world_size > 1 and info.last_batch == "uneven"):
            return
        self._why_empty = f"epoch {epoch} had no batch: {_no_batch(here, info)}"
        if self.stream.speaks:
            logging.getLogger("penstock").warning("session %s: %s", self.stream.session, self._why_empty)

    def end_epoch_if_read(self, is_last: bool = False) -> None:
        """Ends an epoch of which the loop took all batches, where it counted them and did not ask for one more.

        is_last: the loop says that it asks for none. If it has not come to the epoch's end, the next one comes again.
        """
        length = self.length() if self._of_epoch else None
        if length is not None and (is_last or length == self._of_epoch):
            with contextlib.suppress(StopIteration):
                self.next(ahead=True)

    def leave_pass(self) -> None:
        """Leaves the epoch if the loop has got batches of it and no end. After an interrupt, call it again.

        A loop that ended since reading failed has not left its epoch: it goes on where it was.
        """
        if self._failed:
            return
        if self._leaving is not None:
            self.leave(self._leaving)
        if self._got == [None]:
            self._end()
        if self._of_epoch > self.flight.kept(self.epoch):
            self.end_epoch_if_read()
        if self._of_epoch > self.flight.kept(self.epoch):
            self.leave(self.epoch)

    def leave(self, epoch: int) -> None:
        """Leaves all epochs up to one."""
        self.turn, self._leaving = None, epoch  # an iterator that was there before reads no more
        self._reader.leave(epoch)
        self.flight.left(self._reader.state())
        if self._progress is not None:
            self._progress.end()
        self._of_epoch, self._rows_of_epoch, self._got, self._leaving = 0, 0, [], None

    def state(self) -> State:
        """The loop's state; while next() is under way, that of before it."""
        return self._before() if self._got else self.flight.state()

    def stats(self) -> Stats:
        """Figures since the session was opened."""
        stats = self._watch.stats(self._reader.stats(), self._map_seconds)
        if self._why_empty and not stats.batches:
            return replace(stats, bottleneck="unknown", verdict=self._why_empty)
        return stats

    def close(self) -> None:
        """Leaves the session."""
        if self._progress is not None:
            self._progress.end()
        self._wait.flush()
        _system.flush()
        self._got = []
        self.stream.close()


def _no_batch(dropped: int, info: Info) -> str:
    """Why no rank got a batch of an epoch, and what to do."""
    if dropped:
        batch = (
            f"{info.batch_size}" if info.world_size == 1 else f"{info.batch_size} for each of {info.world_size} ranks"
        )
        return (
            f'last_batch="drop" leaves out its {dropped} rows, which are fewer than a batch of {batch}; '
            'give a smaller batch_size=, or last_batch="pad"'
        )
    chosen = f"filter={info.spec['filter']!r}" if info.spec.get("filter") else "the files or an op that selects rows"
    return f"{chosen} left no row of the dataset; `penstock show URI` tells which values the columns have"


class Pass(Iterator[Any]):
    """One iteration: what is left of an epoch."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        # Lightning begins a shorter loader again beside a longer one, and has what it read of it still.
        self._again = iter(()) if _hosts.cycles() else reading.flight.undone()
        # A pass before this one may have taken the epoch's last batch and not asked for more.
        self._may_be_over = reading.has_begun_epoch
        self._first, self._ends = reading.number, reading.ends  # batches and ends of epochs before it
        self._turn = reading.turn = object()

    def __next__(self) -> Any:
        reading = self._reading
        if reading.turn is not self._turn:
            raise UsageError("a newer iter(loader) reads on from here; use one iterator at a time")
        for position, item in self._again:
            reading.position, self._may_be_over = position, False
            return item
        while True:
            # What is noted of the reading decides, and no more: an interrupt may come at any line.
            first = reading.number == self._first
            if reading.ends > self._ends and not (first and self._may_be_over):
                raise StopIteration
            if reading.ends > self._ends:  # what was over before this pass
                self._ends, self._may_be_over = reading.ends, False
            if reading.over:
                raise StopIteration
            with contextlib.suppress(StopIteration):  # the count of ends tells
                return reading.next(ahead=first and _hosts.prefetches())
