"""Named checkpoints of a real fleet: where the loop hears of them, and what comes after one."""

from __future__ import annotations

import subprocess
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock import errors
from penstock._session import Session
from tests.conftest import Dataset, Fleet, write_dataset
from tests.session_cases import all_places, configure, name, places, read_epoch, spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock._session import Config, Rows
    from penstock.monitor import Event


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Enough for two ranks to train a while."""
    return write_dataset(tmp_path_factory.mktemp("named") / "criteo", files=4, rows=10_000, row_group=2_000)


@pytest.fixture
def opened(fleet: Fleet) -> Iterator[Callable[[Config], Session]]:
    """Opens sessions, which are closed while the fleets are there."""
    with ExitStack() as stack:
        yield lambda config: stack.enter_context(Session(config))


def _command(fleet: Fleet, *args: str) -> subprocess.Popen[str]:
    command = [str(fleet.binary), "session", *args, f"--master={fleet.master}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _succeeds(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def _read_until_taken(fleet: Fleet, ranks: list[Session], session: str, file: Path) -> tuple[list[list[Rows]], int]:
    """What ranks read, in step, while noon is taken, and its step; the file gets what the command prints."""
    taking = _command(fleet, "checkpoint", session, "noon", "--output=json")
    read: list[list[Rows]] = [[] for _ in ranks]
    saved: dict[int, dict[int, int]] = {}  # by step: how many batches each rank had
    training = threading.Event()
    while taking.poll() is None:
        for r, rank in enumerate(ranks):
            rows = rank.next()
            assert rows is not None, "the epoch ended before the checkpoint"
            read[r].append(rows)
            if rows.checkpoint is not None:
                assert rows.checkpoint.name == "noon"
                saved.setdefault(rows.checkpoint.step, {})[r] = len(read[r])
        training.wait(0.02)  # what a loop does with a batch: the epoch is longer than the command takes
    file.write_text(_succeeds(taking))
    step = max(saved)
    assert saved[step] == dict.fromkeys(range(len(ranks)), step)
    return read, step


def test_two_ranks_save_at_one_step_and_go_on_from_there(
    opened: Callable[[Config], Session], shared_fleet: Fleet, data: Dataset, tmp_path: Path
) -> None:
    # With "uneven" one rank might wait for the end of rows that the other, which is not asked meanwhile, has.
    session, text = name(), spec(data, batch_size=20, last_batch="pad")
    events: list[Event] = []
    ranks = [
        opened(configure(shared_fleet, text, session=session, rank=r, world_size=2, on_event=events.append))
        for r in range(2)
    ]
    read, step = _read_until_taken(shared_fleet, ranks, session, tmp_path / "noon.json")
    told = [e.metadata for e in events if e.type == "penstock.checkpoint"]
    assert {(e["name"], e["step"], e["rank"]) for e in told} >= {("noon", step, 0), ("noon", step, 1)}

    _succeeds(_command(shared_fleet, "restore", session, "noon", "--world-size=1"))
    with pytest.raises(errors.Fenced, match='checkpoint "noon"'):
        read_epoch(ranks[0])
    before = [b for rank in read for b in rank[:step]]
    with Session(configure(shared_fleet, text, session=session)) as again:
        assert again.info.restored_from == penstock.Checkpoint("noon", step)
        assert all_places(before + read_epoch(again)) == sorted(data.places())

    elsewhere = name()
    _succeeds(_command(shared_fleet, "restore", elsewhere, f"--from={tmp_path / 'noon.json'}", "--world-size=1"))
    (tmp_path / "spec.yaml").write_text(text)
    with penstock.DataLoader(
        spec=tmp_path / "spec.yaml", session=elsewhere, master=shared_fleet.master, format="numpy"
    ) as loader:
        assert loader.restored_from == penstock.Checkpoint("noon", step)
        places = [(int(f), int(r)) for b in loader for f, r in zip(b.files[: b.valid], b.rows, strict=False)]
    assert sorted(places + all_places(before)) == sorted(data.places())


def _read_on(ranks: list[Session]) -> list[list[Rows]]:
    """All that ranks still get, batch by batch in turn."""
    read: list[list[Rows]] = [[] for _ in ranks]
    while not all(rank.finished for rank in ranks):
        for rank, batches in zip(ranks, read, strict=True):
            rows = None if rank.finished else rank.next()
            batches += [] if rows is None else [rows]
    return read


def _sequence(ranks: list[list[Rows]]) -> list[list[tuple[int, int]]]:
    """The rows of each step, of all ranks in their order."""
    return [[p for b in step for p in places(b.record)] for step in zip(*ranks, strict=True)]


def test_a_deterministic_sequence_goes_on_with_the_very_next_batch(
    opened: Callable[[Config], Session], fleet: Fleet, shared_fleet: Fleet, data: Dataset, tmp_path: Path
) -> None:
    """With other world sizes, in the same session and on a fleet that knows nothing of it."""
    text = spec(data, epochs=2).replace("batch_size: 1000\n", "global_batch_size: 80\norder: deterministic\nlanes: 2\n")
    session = name()
    with Session(configure(shared_fleet, text)) as alone:
        whole = _sequence(_read_on([alone]))
    ranks = [opened(configure(shared_fleet, text, session=session, rank=r, world_size=2)) for r in range(2)]
    read, step = _read_until_taken(shared_fleet, ranks, session, tmp_path / "noon.json")
    assert 0 < step < len(whole)
    assert _sequence([rank[:step] for rank in read]) == whole[:step]

    _succeeds(_command(shared_fleet, "restore", session, "noon", "--world-size=1"))
    with Session(configure(shared_fleet, text, session=session)) as again:
        assert again.info.restored_from == penstock.Checkpoint("noon", step)
        assert _sequence(_read_on([again])) == whole[step:]

    fleet.start(workers=1)
    elsewhere = name()
    _succeeds(_command(fleet, "restore", elsewhere, f"--from={tmp_path / 'noon.json'}"))
    ranks = [opened(configure(fleet, text, session=elsewhere, rank=r, world_size=2)) for r in range(2)]
    assert _sequence(_read_on(ranks)) == whole[step:]


def test_a_state_of_something_else_is_refused_with_what_differs(shared_fleet: Fleet, tmp_path: Path) -> None:
    here = write_dataset(tmp_path / "data", files=3, rows=2_000, row_group=1_000)
    session, text = name(), spec(here, batch_size=100)
    with Session(configure(shared_fleet, text, session=session)) as rank:
        read_epoch(rank, 3)
        state = rank.state()
    assert len(state.data) < 600

    def refused(text: str) -> str:
        with pytest.raises(errors.RestoreRefused) as found:
            Session(configure(shared_fleet, text, session=name(), restore=(state,)))
        return str(found.value)

    assert "specs differ: seed: " in refused(text.replace("seed: 1", "seed: 2"))
    file = sorted((tmp_path / "data").glob("*.parquet"))[1]
    added = file.with_name("zz.parquet")
    added.write_bytes(file.read_bytes())
    words = refused(text)
    assert "another version of the dataset" in words
    assert "then 3 files of" in words
    assert "zz.parquet was added" in words
    added.unlink()
    other = write_dataset(tmp_path / "other", files=1, rows=1_999, row_group=500)
    file.write_bytes(next((tmp_path / "other").glob("*.parquet")).read_bytes())
    assert other.rows == 1_999
    assert f"{file.name} was changed" in refused(text)
