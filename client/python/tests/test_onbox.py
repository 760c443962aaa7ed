"""Local fleets start, are shared, tell what is wrong with them, and end with the process that uses them."""

from __future__ import annotations

import collections
import itertools
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock import DataLoader, _binary, _onbox
from penstock._onbox import LocalFleet
from penstock.errors import LocalFleetError, UsageError

if TYPE_CHECKING:
    from tests.conftest import Dataset

pytestmark = pytest.mark.fleet

DEADLINE = 30.0
SOURCE = Path(_onbox.__file__).parents[1]
PREAMBLE = "import sys, time; from penstock._onbox import LocalFleet; fleet = LocalFleet()\n"


@pytest.fixture(autouse=True)
def binary(penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(_binary.VARIABLE, str(penstock_binary))
    return penstock_binary


@pytest.fixture
def python() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Runs a program that has a fleet, as the leader of a process group."""
    started = []

    def run(program: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)}, start_new_session=True,
        )  # fmt: skip
        started.append(child)
        return child

    yield run
    for child in started:
        child.kill()
        child.communicate()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def processes(fleet: int) -> list[int]:
    """The pids of a fleet's processes, by that of its first one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        state, session = fields[0], int(fields[3])
        if session == fleet and state != "Z":
            found.append(int(entry.name))
    return found


def command(process: int) -> str:
    """The penstock command that a process runs."""
    return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[1].decode()


def children() -> str:
    """The pids of this thread's children."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def pid(fleet: LocalFleet) -> int:
    return fleet._process._child.pid


def answers(fleet: LocalFleet) -> bool:
    host, port = fleet.address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=DEADLINE).close()
    except ConnectionRefusedError:
        return False
    return True


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], DEADLINE)[0], "said nothing"
    return child.stdout.readline().strip()


def test_loaders_share_a_fleet_until_the_last_closes() -> None:
    first, second = LocalFleet(), LocalFleet()
    assert (first.address, first.token) == (second.address, second.token)
    assert len(first.token) >= 16
    other = LocalFleet(workers=2)
    assert other.address != first.address
    running = pid(first)
    assert len(processes(running)) == 1
    assert len(processes(pid(other))) == 4
    other.close()
    first.close()
    first.close()
    assert answers(second)
    assert second.error() is None
    second.close()
    assert not answers(second)
    assert second.error() is None  # it did not end by itself
    assert processes(running) == []
    again = LocalFleet()
    assert again.address != first.address
    again.close()


def test_a_loader_s_fleet_has_the_memory_that_it_asks_for(dataset: Dataset) -> None:
    usual, fleet = LocalFleet(), LocalFleet(memory=64 << 20)
    assert usual.address != fleet.address
    assert b"--memory=67108864" in Path(f"/proc/{pid(fleet)}/cmdline").read_bytes().split(b"\0")
    memory = penstock.Connection(memory=64 << 20)
    with DataLoader(dataset.uri, features=penstock.dense("int_*"), batch_size=1000, connection=memory) as loader:
        assert sum(map(len, loader)) == dataset.rows
        assert _onbox._fleets._users[fleet._process] == 2
    fleet.close()
    usual.close()


def test_the_fleet_ends_with_a_process_that_is_killed(python: Callable[[str], subprocess.Popen[str]]) -> None:
    child = python("print(fleet._process._child.pid, flush=True); sys.stdin.read()")
    fleet = int(line(child))
    assert len(processes(fleet)) == 1
    child.kill()
    wait_until(lambda: not processes(fleet))


def test_the_fleet_ends_with_a_process_that_closes_nothing(python: Callable[[str], subprocess.Popen[str]]) -> None:
    child = python("print(fleet._process._child.pid, flush=True)")
    fleet = int(line(child))
    assert child.wait(DEADLINE) == 0
    wait_until(lambda: not processes(fleet))


def test_a_fork_neither_ends_the_fleet_nor_keeps_it_alive() -> None:
    fleet = LocalFleet()
    said, say = os.pipe()
    go_on, wake = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            fleet.close()
            own = LocalFleet()
            different = own.address != fleet.address and fleet.error() is None
            own.close()
            os.write(say, b"y" if different else b"n")
            os.close(wake)
            os.read(go_on, 1)  # lives on
            status = 0
        finally:
            os._exit(status)
    try:
        assert os.read(said, 1) == b"y"
        assert answers(fleet)
        fleet.close()
        assert fleet._process._child.returncode == 0, "it had to be killed: the fork held it"
    finally:
        for end in (said, say, go_on, wake):
            os.close(end)
        assert os.waitpid(child, 0)[1] == 0


def test_an_interrupt_of_the_job_leaves_the_fleet_to_its_user(python: Callable[[str], subprocess.Popen[str]]) -> None:
    child = python(
        "try:\n"
        "    print(fleet._process._child.pid, flush=True)\n"
        "    while True: time.sleep(0.01)\n"
        "except KeyboardInterrupt:\n"
        "    print(fleet.error(), flush=True)\n"
        "    sys.stdin.read()\n"
        "    fleet.close()\n"
        "    print(fleet._process._child.returncode, flush=True)\n"
    )
    fleet = int(line(child))
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    assert line(child) == "None"
    assert len(processes(fleet)) == 1
    assert child.stdin is not None
    child.stdin.close()
    child.stdin = None
    assert line(child) == "0"
    assert processes(fleet) == []


def test_a_fleet_that_dies_says_so_and_is_not_used_again() -> None:
    fleet = LocalFleet()
    os.kill(pid(fleet), signal.SIGKILL)
    wait_until(lambda: fleet.error() is not None)
    assert re.search(r"ended by SIGKILL; its log (ends with|is empty)", str(fleet.error()))
    another = LocalFleet()
    assert another.address != fleet.address
    assert answers(another)
    fleet.close()
    assert answers(another)
    another.close()


@pytest.mark.parametrize(("workers", "victim"), [(0, "local"), (1, "local"), (1, "master")])
def test_a_loop_hears_of_its_fleet_s_end(
    dataset: Dataset, workers: int, victim: str, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = LocalFleet(workers=workers)  # the loader's too
    with DataLoader(
        dataset.uri, features=penstock.dense("int_*"), batch_size=1000, epochs=10_000, workers=workers
    ) as loader:
        next(iter(loader))
        os.kill(next(p for p in processes(pid(fleet)) if command(p) == victim), signal.SIGKILL)
        with pytest.raises(LocalFleetError, match=r"the local fleet ended (.|\n)*its log (ends with|is empty)"):
            collections.deque(itertools.chain.from_iterable(itertools.repeat(loader)), maxlen=0)
        with pytest.raises(LocalFleetError):
            next(iter(loader))
        loader.close()
    assert "could not leave" not in caplog.text, "it talked to a master that is gone"
    fleet.close()


def test_a_close_leaves_no_word_for_a_fleet_that_ended(dataset: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    fleet = LocalFleet()
    loader = DataLoader(dataset.uri, features=penstock.dense("int_*"), batch_size=1000, epochs=10_000)
    next(iter(loader))
    os.kill(pid(fleet), signal.SIGKILL)
    wait_until(lambda: fleet.error() is not None)
    loader.close()
    assert "could not leave" not in caplog.text
    fleet.close()


def test_a_loader_that_opens_hears_of_its_fleet_s_end(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = LocalFleet()
    monkeypatch.setattr(_onbox._Fleets, "take", lambda *_: fleet._process)
    os.kill(pid(fleet), signal.SIGKILL)
    with pytest.raises(LocalFleetError, match="ended by SIGKILL"):
        iter(DataLoader(dataset.uri, features=penstock.dense("int_*"), batch_size=1000))
    fleet.close()


def test_a_fleet_that_cannot_start_says_why() -> None:
    with pytest.raises(LocalFleetError, match=r"(?s)exit status 1.*--workers: want 1 or more, found -1"):
        LocalFleet(workers=-1)


def test_another_program_in_place_of_the_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_binary.VARIABLE, str(shutil.which("echo")))
    with pytest.raises(UsageError, match=r"echo .*does not go together with this release of the package"):
        LocalFleet()


def test_a_fleet_that_is_too_slow_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_onbox, "START_TIMEOUT", 0.0)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = children()
    with pytest.raises(LocalFleetError, match="did not come up in 0 s"):
        LocalFleet()
    assert children() == before
    assert list(tmp_path.iterdir()) == []  # it ended in order, before it was up


def test_settings_of_another_fleet_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LISTEN", "nowhere")
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", "/nowhere")
    fleet = LocalFleet()
    assert answers(fleet)
    fleet.close()


def test_profiles_of_storage_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_STORAGE_CONFIG", "/nowhere")
    with pytest.raises(LocalFleetError, match="storage configuration: open /nowhere"):
        LocalFleet()


def test_without_a_binary_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_binary.VARIABLE)
    monkeypatch.setattr(_binary, "__file__", str(tmp_path / "_binary.py"))
    script = tmp_path / "penstock"
    script.write_text(f"#!{sys.executable}\n")  # such as this package's own
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalFleetError, match=r"without the penstock binary: .*go install .*PENSTOCK_BINARY.*master="):
        LocalFleet()


def test_a_variable_that_names_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_binary.VARIABLE, str(tmp_path))
    with pytest.raises(LocalFleetError, match=f"PENSTOCK_BINARY={tmp_path} is no program"):
        LocalFleet()


def test_a_binary_on_path_is_found(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_binary.VARIABLE)
    monkeypatch.setattr(_binary, "__file__", str(tmp_path / "_binary.py"))
    (tmp_path / "penstock").symlink_to(binary)
    monkeypatch.setenv("PATH", f"/nowhere{os.pathsep}{tmp_path}")
    assert _binary.find() == tmp_path / "penstock"
