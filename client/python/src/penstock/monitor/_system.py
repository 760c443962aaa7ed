"""SystemStats: what the trainer's process and its machine are busy with, from Linux's /proc.

A loader's loop samples as it goes (observe), for the whole process, while no SystemStats of the user's own runs. That
has a thread, and close() waits for it.
"""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from penstock.monitor._stat import DEFAULT_WINDOW, Aggregation, Stat

_PROC = Path("/proc")


@dataclasses.dataclass(frozen=True)
class _Reading:
    """Figures of one moment; the seconds are cumulative."""

    at: float
    cpu_seconds: float
    machine_busy: float
    machine_total: float
    rss_bytes: int
    threads: int
    load: float


class SystemStats:
    """Keeps Stats of this process and its machine while it runs, and logs their mean and maximum per window.

        penstock.system.cpu_share          of this process, between two samples; 1.0 is one core
        penstock.system.rss_bytes          memory of this process
        penstock.system.threads            of this process
        penstock.system.machine_cpu_share  of all cores together; 1.0 is all busy
        penstock.system.machine_load       processes that run or want to, averaged over a minute

    The one that makes this process's batches, `penstock feed` or `penstock local`, is another.

    Loaders keep one of these while they are read. For other times, windows or samples use one of your own in a with
    statement, or call start() and close(); it takes the place of theirs. Where there is no /proc, such as on macOS,
    available is False and nothing is logged.
    """

    def __init__(
        self,
        window_seconds: float = DEFAULT_WINDOW,
        sample_seconds: float = 1.0,
        *,
        proc: Path = _PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._every = sample_seconds
        self._before: _Reading | None = None
        self._due = -math.inf
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

        def stat(name: str) -> Stat:
            return Stat(f"penstock.system.{name}", (Aggregation.MEAN, Aggregation.MAX), window_seconds, clock=clock)

        self.cpu_share = stat("cpu_share")
        self.rss_bytes = stat("rss_bytes")
        self.threads = stat("threads")
        self.machine_cpu_share = stat("machine_cpu_share")
        self.machine_load = stat("machine_load")
        self.available = self._read() is not None

    def start(self) -> SystemStats:
        """Begins to sample, every sample_seconds, until close()."""
        if self.available and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-system-stats", daemon=True)
            self._thread.start()
            _started.add(self)
        return self

    def close(self) -> None:
        """Stops sampling and logs the windows so far."""
        self._stop.set()
        _started.discard(self)
        if self._thread is not None:
            self._thread.join()
        self.flush()

    def flush(self) -> None:
        """Logs the windows so far. The next look() samples."""
        self._due = -math.inf
        for stat in (self.cpu_share, self.rss_bytes, self.threads, self.machine_cpu_share, self.machine_load):
            stat.flush()

    def __enter__(self) -> SystemStats:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            self.sample()
            if self._stop.wait(self._every):
                return

    def look(self) -> None:
        """Samples if it is time to, and otherwise costs a look at the clock: for a loop, in place of the thread."""
        now = self._clock()
        if now >= self._due:
            self._due = now + self._every
            self.sample()

    def sample(self) -> None:
        """Adds one sample to each Stat. The shares need two, of which they are the difference."""
        now = self._read()
        if now is None:
            return
        self.rss_bytes.add(now.rss_bytes)
        self.threads.add(now.threads)
        self.machine_load.add(now.load)
        before, self._before = self._before, now
        if before is not None and now.at > before.at:
            self.cpu_share.add((now.cpu_seconds - before.cpu_seconds) / (now.at - before.at))
            if now.machine_total > before.machine_total:
                busy = now.machine_busy - before.machine_busy
                self.machine_cpu_share.add(busy / (now.machine_total - before.machine_total))

    def _read(self) -> _Reading | None:
        """A reading; None where /proc is not as Linux has it."""
        try:
            # The fields after the name, which may hold spaces and brackets: state is 3, utime 14, stime 15, threads 20.
            fields = (self._proc / "self/stat").read_text().rpartition(")")[2].split()
            pages = int((self._proc / "self/statm").read_text().split()[1])
            # cpu user nice system idle iowait irq softirq steal; what follows is counted in user already.
            cpu = [int(f) for f in (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
            load = float((self._proc / "loadavg").read_text().split()[0])
            return _Reading(
                at=self._clock(),
                cpu_seconds=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
                machine_busy=sum(cpu) - cpu[3] - cpu[4],
                machine_total=sum(cpu),
                rss_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
                threads=int(fields[17]),
                load=load,
            )
        except (OSError, ValueError, IndexError):
            return None


_started: set[SystemStats] = set()  # the user's own
_loaders: SystemStats | None = None  # made when first needed


def observe() -> None:
    """For a loader's loop: one for all loaders of the process. Two loops at once may sample twice, and lose nothing."""
    global _loaders
    if _started:
        return
    if _loaders is None:
        _loaders = SystemStats()
    _loaders.look()


def flush() -> None:
    """Logs what observe() has seen."""
    if _loaders is not None:
        _loaders.flush()


def _forget() -> None:
    """In a fork: the figures are the parent's, and its threads are not here."""
    global _loaders
    _loaders = None
    _started.clear()


os.register_at_fork(after_in_child=_forget)
