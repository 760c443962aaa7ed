"""Batches lie in the memory of another process, which uses it again only when nothing sees it any more."""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import _binary, errors
from penstock._reader import SessionReader
from penstock._session import Session, feeder
from tests.session_cases import configure, read_epoch, spec
from tests.test_loader import SOURCE, make, places, take

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Dataset, Fleet


def address(batch: penstock.Batch) -> int:
    """Where its dense values lie."""
    at: int = batch.numpy().dense.__array_interface__["data"][0]
    return at


def check_memory_of(view: Callable[[penstock.Batch], Any], loader: penstock.DataLoader) -> None:
    """Memory of a batch that a view of it sees stays as it is, and then is used again."""
    batches = iter(loader)
    first = next(batches)
    at, values, kept = address(first), first.numpy().dense.tobytes(), view(first)
    del first
    gc.collect()
    assert at not in {address(next(batches)) for _ in range(10)}
    assert ctypes.string_at(at, len(values)) == values
    del kept
    gc.collect()
    assert at in {address(next(batches)) for _ in range(10)}, "comes back"


@pytest.mark.every_python
@pytest.mark.parametrize(
    "view",
    [
        lambda b: b,
        lambda b: b.dense,
        lambda b: b.dense[3:4, 1:].T,
        lambda b: memoryview(b.dense),
        lambda b: b.sparse["cat_1"].offsets,
        lambda b: b.sparse["cat_1"].values[:0],
        lambda b: np.from_dlpack(b.to_arrow().column(0).flatten()),
        lambda b: b.to_arrow().slice(5, 1),
        lambda b: b.to_arrow().column(0).flatten().buffers()[1],
        lambda b: memoryview(b.to_arrow().column(0).flatten().buffers()[1]),
        lambda b: pa.Table.from_batches([b.to_arrow()]),
    ],
)
def test_whoever_sees_a_batch_keeps_its_memory(
    view: Callable[[penstock.Batch], Any], shared_fleet: Fleet, dataset: Dataset
) -> None:
    with make(shared_fleet, dataset, batch_size=200) as loader:
        check_memory_of(view, loader)


def test_batches_that_other_threads_keep_do_not_change(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Threads hold some batches and let go of others, while more come."""
    waiting: list[tuple[bytes, Any]] = []
    wrong: list[bytes] = []
    lock, done = threading.Lock(), threading.Event()

    def check() -> None:
        while not (done.is_set() and not waiting):
            with lock:
                copied, dense = waiting.pop(0) if len(waiting) > (0 if done.is_set() else 3) else (b"", np.empty(0))
            if dense.tobytes() != copied:
                wrong.append(copied)
            del dense

    threads = [threading.Thread(target=check) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        with make(shared_fleet, dataset, batch_size=200) as loader:
            for batch in loader:
                with lock:
                    waiting.append((batch.dense.tobytes(), batch.dense))
    finally:
        done.set()
        for t in threads:
            t.join()
    assert wrong == []


def test_batches_outlive_their_loader(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        kept = list(loader)
    with make(shared_fleet, dataset) as loader:
        again = list(loader)
    for batches in (kept, again):
        assert Counter(places(batches)) == Counter(dataset.places())


def test_batches_outlive_their_session(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Also where nothing but their arrays is left of it."""
    with Session(configure(shared_fleet, spec(dataset))) as session:
        kept = [rows.tensors.parts for rows in read_epoch(session)]
    del session
    gc.collect()
    before = [[part.tobytes() for part in parts] for parts in kept]
    with Session(configure(shared_fleet, spec(dataset, batch_size=700))) as session:
        read_epoch(session)
    assert [[part.tobytes() for part in parts] for parts in kept] == before


def test_programs_may_bound_what_their_sockets_wait(shared_fleet: Fleet, dataset: Dataset) -> None:
    """By default, that is: what feeds a loader takes longer."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(1e-4)
    try:
        with Session(configure(shared_fleet, spec(dataset))) as session:
            assert sum(rows.valid for rows in read_epoch(session)) == dataset.rows
    finally:
        socket.setdefaulttimeout(before)


def test_a_session_leaves_no_connection(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Nor the memory behind it, also where nobody collects garbage."""

    def connections() -> int:
        return sum(s.fileno() >= 0 for s in feeder._sockets)

    with make(shared_fleet, dataset) as loader:
        take(loader, 1)
    gc.collect()
    before = connections()
    gc.disable()
    try:
        with make(shared_fleet, dataset, epochs=2) as loader:
            assert Counter(places(itertools.chain(loader, loader))) == Counter(2 * list(dataset.places()))
            assert connections() == before + 1
            reader = loader._open()._reader
            assert isinstance(reader, SessionReader)
            (memory,) = map(weakref.ref, reader._session._connection._segments.values())
        assert connections() == before
        assert memory() is None
    finally:
        gc.enable()


def process() -> int:
    """The pid of the one that feeds."""
    assert feeder._process is not None
    return feeder._process._child.pid


@pytest.mark.every_python
def test_a_loop_hears_that_its_process_was_killed(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        kept = take(loader, 1)
        os.kill(process(), signal.SIGKILL)
        with pytest.raises(errors.Error, match=r"(?s)ended by SIGKILL; .*go on from a checkpoint"):
            list(loader)
        assert len(kept[0].dense) == len(places(kept)), "its memory stays"
    with make(shared_fleet, dataset) as loader:
        assert Counter(places(loader)) == Counter(dataset.places()), "in another one"


PROGRAM = """
import os, sys
import penstock
from penstock._session import feeder

loader = penstock.DataLoader(sys.argv[1], features=penstock.dense("int_*"), batch_size=100, master=sys.argv[2])
next(iter(loader))
child = os.fork() if sys.argv[3] == "fork" else 1
if child > 0:
    print(feeder._process._child.pid, child, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("after", ["", "fork"])
def test_the_process_ends_with_the_one_that_started_it(shared_fleet: Fleet, dataset: Dataset, after: str) -> None:
    """Also while a fork of that lives on."""
    trainer = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, dataset.uri, shared_fleet.master, after],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    with trainer:
        assert trainer.stdout is not None
        feeding, fork = map(int, trainer.stdout.readline().split())
        ended = os.pidfd_open(feeding)
        trainer.kill()
        try:
            assert select.select([ended], [], [], 30)[0], "it outlives its parent"
        finally:
            os.close(ended)
            if after:
                os.kill(fork, signal.SIGKILL)


def binary_that(does: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has sessions start a script in place of the penstock binary."""
    script = folder / "penstock"
    script.write_text(f"#!{sys.executable}\nimport os, sys\n{does}")
    script.chmod(0o755)
    monkeypatch.setattr(_binary, "find", lambda: script)
    monkeypatch.setattr(feeder, "_process", None)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("does", "words"),
    [
        (
            "print('penstock version v0.0.1')\nsys.exit('penstock: unknown command \"feed\"')",
            r"(?s)/penstock \(release v0\.0\.1\) does not go together .*go install.*unknown command \"feed\"",
        ),
        (
            """m = b'{"language":99,"release":"v9"}'; os.write(0, len(m).to_bytes(4, "little") + m); os.read(0, 1)""",
            r"/penstock \(release v9\) does not go together with this release of the package \(.*\): .*go install",
        ),
    ],
)
def test_a_binary_of_another_release(does: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary_that(does, tmp_path, monkeypatch)
    with pytest.raises(errors.UsageError, match=words):
        feeder.connect()


@pytest.mark.pure
def test_a_binary_that_ends_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    does = "'--version' in sys.argv and sys.exit(print('version VERSION'))\nsys.exit('penstock: setting log-level')"
    binary_that(does, tmp_path, monkeypatch)
    monkeypatch.setattr(_binary, "version", lambda: "VERSION")
    with pytest.raises(errors.Error, match=r"(?s)feed` did not start: it ended .*penstock: setting log-level") as e:
        feeder.connect()
    assert not isinstance(e.value, errors.UsageError)


@pytest.mark.pure
def test_a_binary_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary_that("os.read(0, 1)", tmp_path, monkeypatch)
    monkeypatch.setattr(feeder, "START_TIMEOUT", 0.1)
    with pytest.raises(errors.Error, match=r"did not come up in 0\.1 s"):
        feeder.connect()


@pytest.mark.pure
def test_without_a_binary_no_master_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_binary, "find", lambda: None)
    with pytest.raises(errors.UsageError, match=r"reads by the penstock binary, but .*go install .*PENSTOCK_BINARY"):
        iter(penstock.DataLoader("/data", features=penstock.dense("a"), batch_size=1, master="127.0.0.1:1"))


def test_memory_that_cannot_be_mapped(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    with make(shared_fleet, dataset) as loader:
        batches = iter(loader)
        with monkeypatch.context() as m:
            m.setattr(mmap, "mmap", functools.partial(os.pread, -1))
            with pytest.raises(errors.Error, match=r"cannot be mapped: .*ulimit"):
                next(batches)
        assert Counter(places(batches)) == Counter(dataset.places())
