"""Fixtures that several tests share: a fleet of real processes, and datasets to read.

The binary comes from PENSTOCK_BINARY, or is built once from the repository that these tests lie in.
All processes end with the test that started them, and by themselves when this one dies.
"""

from __future__ import annotations

import datetime
import json
import os
import queue
import shlex
import shutil
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[3]
UP_TIMEOUT = 60.0  # seconds until a process says that it is up
STOP_TIMEOUT = 15.0


def _environment() -> dict[str, str]:
    """This process's environment without the settings of the user's own fleet."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}


@dataclass(frozen=True)
class Announcement:
    """What a master or worker prints when it is up."""

    address: str
    gossip: str


class Process:
    """A running penstock command, which ends when its standard input closes."""

    def __init__(self, name: str, binary: Path, args: list[str], log: Path) -> None:
        self.name, self.log, self.args = name, log, args
        with log.open("ab") as err:
            self._process = subprocess.Popen(
                [str(binary), *args, "--output=json", "--end-with-stdin"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, env=_environment(),
                start_new_session=True,  # a test's Ctrl-C is not meant for the fleet
            )  # fmt: skip
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=f"read {name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    @property
    def pid(self) -> int:
        return self._process.pid

    def announcement(self) -> Announcement:
        """Waits until the process is up."""
        try:
            line = self._lines.get(timeout=UP_TIMEOUT)
        except queue.Empty:
            line = None
        if line is None:
            raise RuntimeError(f"{self.name} did not come up; its log:\n{self.log.read_text()[-4000:]}")
        said = json.loads(line)
        return Announcement(said["address"], said.get("gossip", ""))

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join(STOP_TIMEOUT)

    def signal(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    def stop(self) -> None:
        """Lets the process end, or kills it if it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()


@dataclass
class Fleet:
    """A master with an embedded etcd and workers, as processes on loopback.

    start() must be called first; then master is the address for `master=` and workers are the running ones by name.
    """

    binary: Path
    dir: Path
    token: str | None = None
    master: str = ""
    workers: dict[str, Process] = field(default_factory=dict)
    worker_flags: list[str] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    _master: Process | None = None
    _gossip: str = ""
    _made: int = 0

    def start(
        self,
        workers: int = 2,
        *,
        token: str | None = None,
        master_flags: list[str] | None = None,
        worker_flags: list[str] | None = None,
    ) -> Fleet:
        """Runs a master and workers, and returns when all of them are up."""
        self.token, self.worker_flags = token, worker_flags or []
        if token is not None:
            (self.dir / "token").write_text(token)
        flags = ["--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--join=", *(master_flags or [])]
        self._launch_master(flags)
        for _ in range(workers):
            self.add_worker()
        return self

    def _launch_master(self, flags: list[str]) -> None:
        flags = ["master", f"--data-dir={self.dir / 'master'}", *self._token_flags(), *flags]
        self._master = Process("master", self.binary, flags, self.dir / "master.log")
        up = self._master.announcement()
        self.master, self._gossip = up.address, up.gossip

    def _token_flags(self) -> list[str]:
        return [] if self.token is None else [f"--token-file={self.dir / 'token'}"]

    def add_worker(self, *flags: str) -> Process:
        """Runs one more worker and returns when it is up."""
        self._made += 1
        name = f"worker-{self._made}"
        args = ["worker", f"--name={name}", "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", f"--join={self._gossip}"]
        args += [*self._token_flags(), *self.worker_flags, *flags]
        worker = Process(name, self.binary, args, self.dir / f"{name}.log")
        self.workers[name] = worker
        self.addresses[name] = worker.announcement().address
        return worker

    def kill(self, worker: str | Process | None = None) -> str:
        """Kills a worker (the first, if none is named) with SIGKILL; returns its name."""
        name = worker.name if isinstance(worker, Process) else worker or next(iter(self.workers))
        self.workers.pop(name).kill()
        return name

    def kill_master(self) -> None:
        assert self._master is not None
        self._master.kill()

    def restart_master(self, *flags: str) -> None:
        """Runs a master anew at the same addresses, on the same data."""
        self._launch_master([f"--listen={self.master}", f"--gossip={self._gossip}", "--join=", *flags])

    def stop(self) -> None:
        for process in [*self.workers.values(), *([self._master] if self._master else [])]:
            process.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that start a fleet."""
    for item in items:
        if {"fleet", "shared_fleet"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("fleet")


def _build(target: Path) -> None:
    subprocess.run(["go", "build", "-o", str(target), "."], cwd=REPOSITORY, check=True)


@pytest.fixture(scope="session")
def penstock_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go binary: PENSTOCK_BINARY, or built once."""
    given = os.environ.get("PENSTOCK_BINARY")
    if given:
        return Path(given)
    target = tmp_path_factory.mktemp("bin") / "penstock"
    _build(target)
    return target


@pytest.fixture(scope="module")
def fleet_of_this_machine(penstock_binary: Path) -> Iterator[None]:
    """That of loaders without master=, which all of a module share, one after the other."""
    from penstock import _binary
    from penstock._onbox import LocalFleet

    with pytest.MonkeyPatch.context() as environ:
        environ.setenv(_binary.VARIABLE, str(penstock_binary))
        fleet = LocalFleet()
        yield
        fleet.close()


@pytest.fixture
def fleet(penstock_binary: Path, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of its own for one test: fleet.start(workers=2), fleet.master, fleet.kill(), ..."""
    home = tmp_path / "fleet"
    home.mkdir()
    made = Fleet(penstock_binary, home)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def shared_fleet(penstock_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two workers for all tests that break nothing. Give each session an id of its own."""
    made = Fleet(penstock_binary, tmp_path_factory.mktemp("shared-fleet"))
    made.start(workers=2)
    yield made
    made.stop()


@dataclass(frozen=True)
class Dataset:
    """Parquet files and what they hold; files are in the order of `_file`."""

    dir: Path
    files: tuple[pa.Table, ...]

    @property
    def uri(self) -> str:
        return f"file://{self.dir}/"

    @property
    def rows(self) -> int:
        return sum(t.num_rows for t in self.files)

    def places(self) -> set[tuple[int, int]]:
        """(_file, _row) of all rows."""
        return {(f, r) for f, t in enumerate(self.files) for r in range(t.num_rows)}


def criteo_table(rows: int, seed: int, dense: int = 3, sparse: int = 4) -> pa.Table:
    """Rows of Criteo's shape: label (int32), int_* (float32 with nulls), cat_* (lists of int64, some null or empty)."""
    rng = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {"label": pa.array(rng.integers(0, 2, rows), pa.int32())}
    for i in range(dense):
        values = rng.gamma(2.0, 10.0, rows).astype(np.float32)
        columns[f"int_{i}"] = pa.array(values, pa.float32(), mask=rng.random(rows) < 0.15)
    for i in range(sparse):
        missing = rng.random(rows) < 0.05
        lengths = np.where(missing, 0, rng.integers(0, 5, rows))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        ids = pa.array(rng.integers(0, 1 << 40, int(offsets[-1])), pa.int64())
        columns[f"cat_{i}"] = pa.ListArray.from_arrays(pa.array(offsets), ids, mask=pa.array(missing))
    return pa.table(columns)


def write_dataset(
    folder: Path, files: int, rows: int, row_group: int = 1000, dense: int = 3, sparse: int = 4
) -> Dataset:
    """Writes files of Criteo's shape into a new folder; the tables differ from file to file."""
    folder.mkdir(parents=True)
    tables = tuple(criteo_table(rows + i, i, dense, sparse) for i in range(files))
    for i, table in enumerate(tables):
        pq.write_table(table, folder / f"part-{i:03d}.parquet", row_group_size=row_group)
    return Dataset(folder, tables)


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """6 files, about 18,000 rows: three int_*, four cat_* and a label."""
    return write_dataset(tmp_path_factory.mktemp("data") / "criteo", files=6, rows=3000)


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 100 rows with columns of many kinds."""
    n = 100
    table = pa.table({
        "label": pa.array([i % 2 for i in range(n)], pa.int32()),
        "int_0": pa.array([None if i % 7 == 0 else i for i in range(n)], pa.int64()),
        "price": pa.array([i / 4 for i in range(n)], pa.float64()),
        "user_id": pa.array(range(n), pa.int64()),
        "country": [f"c{i % 5}" for i in range(n)],
        "ids": [[i, i + 1] for i in range(n)],
        "when": pa.array([datetime.datetime(2026, 1, 1)] * n, pa.timestamp("us")),
        "of": pa.array([[("k", 1.0)]] * n, pa.map_(pa.string(), pa.float32())),
        "raw": pa.array([b"\x00\x01"] * n, pa.binary()),
    })  # fmt: skip
    folder = tmp_path_factory.mktemp("kinds")
    pq.write_table(table, folder / "part.parquet", row_group_size=40)
    return folder


@pytest.fixture(scope="session")
def clicks_tsv(penstock_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with clicks.tsv, and the same as Parquet in data/."""
    folder = tmp_path_factory.mktemp("clicks")
    ints, cats = range(13), range(26)
    lines = ["\t".join(["label", *(f"int_{i}" for i in ints), *(f"cat_{i}" for i in cats)])]
    for row in range(3000):
        numbers = ["" if (row + i) % 5 == 0 else str(row * (i + 1) % 1000 - 3) for i in ints]
        ids = [f"{(row * 2654435761 + i * 40503) % 4294967296:08x}" for i in cats]
        lines.append("\t".join([str(row % 2), *numbers, *ids]))
    (folder / "clicks.tsv").write_text("\n".join(lines) + "\n")
    convert = shlex.split("convert clicks.tsv --out data --hex cat_* --file-rows 1500")
    subprocess.run([penstock_binary, *convert], cwd=folder, check=True)
    return folder


@pytest.fixture
def page_folder(clicks_tsv: Path, tmp_path: Path, penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a page. It is the working directory, and penstock is on the PATH."""
    made = tmp_path / "page"
    shutil.copytree(clicks_tsv, made)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "penstock").symlink_to(penstock_binary)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PENSTOCK_BINARY", str(penstock_binary))
    monkeypatch.chdir(made)
    monkeypatch.syspath_prepend(made)  # as that of a program is
    return made
