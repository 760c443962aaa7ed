"""What a system's processes use of CPU and memory, by the operating system's account.

A cgroup (v1 or v2) counts all processes that were ever started in it. Where none can be made or joined, the trees of
processes are added up: then CPU of processes that were reaped by others than their parent is lost, and memory is the
sum of PSS.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

ROOT = Path("/sys/fs/cgroup")
SAMPLE_SECONDS = 0.05
SAMPLE_SHARE = 0.01  # of a CPU at most: PSS of large processes is dear


class Meter(Protocol):
    """Where the processes of one run are counted."""

    name: str

    def join(self) -> None:
        """Moves the calling process in, before it starts others."""

    def cpu_seconds(self) -> float:
        """User and system time so far."""

    def memory(self) -> int:
        """Bytes in use, without the page cache of files."""

    def processes(self) -> list[int]:
        """The ids of those that have not ended, as far as it is known."""

    def close(self) -> None:
        """Gives up the account, once all processes have ended."""


class CgroupV1:
    """The controllers cpuacct and memory."""

    name = "cgroup v1 (cpuacct, memory: rss and shmem)"

    def __init__(self, name: str) -> None:
        self._cpu, self._memory = ROOT / "cpuacct" / name, ROOT / "memory" / name
        self._cpu.mkdir(exist_ok=True)
        try:
            self._memory.mkdir(exist_ok=True)
        except OSError:
            self._cpu.rmdir()
            raise

    def join(self) -> None:
        for folder in (self._cpu, self._memory):
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def cpu_seconds(self) -> float:
        return int((self._cpu / "cpuacct.usage").read_text()) / 1e9

    def memory(self) -> int:
        used = _fields(self._memory / "memory.stat")
        return used["total_rss"] + used.get("total_shmem", 0)

    def processes(self) -> list[int]:
        return _processes(self._memory)  # which is closed last

    def close(self) -> None:
        for folder in (self._cpu, self._memory):
            with contextlib.suppress(FileNotFoundError):  # of a second attempt
                folder.rmdir()


class CgroupV2:
    """The unified hierarchy, below the cgroup of this process or at its root."""

    name = "cgroup v2 (cpu.stat, memory.stat: anon and shmem)"

    def __init__(self, name: str) -> None:
        self._folder = ROOT / name
        self._folder.mkdir(exist_ok=True)
        try:
            self.cpu_seconds(), self.memory()  # the controllers are there
        except (OSError, KeyError):
            self._folder.rmdir()
            raise

    def join(self) -> None:
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def cpu_seconds(self) -> float:
        return _fields(self._folder / "cpu.stat")["usage_usec"] / 1e6

    def memory(self) -> int:
        used = _fields(self._folder / "memory.stat")
        return used["anon"] + used["shmem"]

    def processes(self) -> list[int]:
        return _processes(self._folder)

    def close(self) -> None:
        self._folder.rmdir()


class Tree:
    """The process that joined and all below it."""

    name = "sum over the tree of processes (CPU with reaped children, PSS)"

    def __init__(self, name: str) -> None:
        import psutil

        self._psutil = psutil
        self._pid = Path("/tmp") / f"{name}.pid"

    def join(self) -> None:
        self._pid.write_text(str(os.getpid()))

    def _sum(self, of: Callable[[Any], float]) -> float:
        total = 0.0
        with contextlib.suppress(self._psutil.Error, FileNotFoundError, ValueError):
            root = self._psutil.Process(int(self._pid.read_text()))
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(self._psutil.Error):  # it ended, or is another user's
                    total += of(process)
        return total

    def cpu_seconds(self) -> float:
        return self._sum(lambda process: sum(process.cpu_times()[:4]))

    def memory(self) -> int:
        return int(self._sum(lambda process: process.memory_full_info().pss))

    def processes(self) -> list[int]:
        return []  # those without the parent that joined are in no tree

    def close(self) -> None:
        self._pid.unlink(missing_ok=True)


KINDS = {kind.__name__: kind for kind in (CgroupV1, CgroupV2, Tree)}


def kind() -> str:
    """The best kind of meter that this machine allows."""
    probe = f"penstock-probe-{uuid.uuid4().hex}"
    for name in ("CgroupV1", "CgroupV2"):
        try:
            meter = KINDS[name](probe)
            try:
                # Another process joins: one that did could not leave.
                subprocess.run(["true"], check=True, preexec_fn=meter.join)
                meter.cpu_seconds(), meter.memory()
            finally:
                close(meter)
        except (OSError, KeyError, subprocess.SubprocessError):
            continue
        return name
    return "Tree"


@contextlib.contextmanager
def peak_memory(meter: Meter) -> Iterator[list[int]]:
    """Samples memory while the block runs; the list's one element is the most that was seen."""
    peak, ended = [0], threading.Event()

    def sample() -> None:
        pause = SAMPLE_SECONDS
        while not ended.wait(pause):
            began = time.thread_time()
            with contextlib.suppress(OSError, KeyError):
                peak[0] = max(peak[0], meter.memory())
            pause = max(SAMPLE_SECONDS, (time.thread_time() - began) / SAMPLE_SHARE)

    thread = threading.Thread(target=sample, name="sample memory")
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def close(meter: Meter, patience: float = 10.0) -> None:
    """Closes a meter whose processes are ending; those that do not are killed, since they would disturb the next run.

    What was measured is none the worse if that is impossible: it is said, and no error.
    """
    began = time.monotonic()
    while True:
        try:
            meter.close()
            return
        except OSError as err:
            late = time.monotonic() - began - patience
            if late > patience:
                print(f"peers: cannot close {meter.name}: {err}", file=sys.stderr)
                return
            if late > 0:
                for process in meter.processes():
                    with contextlib.suppress(OSError):
                        os.kill(process, signal.SIGKILL)
            time.sleep(0.05)


def _processes(folder: Path) -> list[int]:
    return [int(process) for process in (folder / "cgroup.procs").read_text().split()]


def _fields(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}
