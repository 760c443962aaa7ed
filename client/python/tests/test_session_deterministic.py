"""Order deterministic with a real fleet: one sequence of batches, whoever reads it and whatever fails."""

from __future__ import annotations

import concurrent.futures
import subprocess
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock._session import Rows, Session
from tests.conftest import Dataset, Fleet
from tests.session_cases import configure, name, places, read_epoch, spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._session import State

LANES, GLOBAL, EPOCHS = 4, 800, 2


def text(data: Dataset, last_batch: str = "uneven") -> str:
    lines = f"global_batch_size: {GLOBAL}\norder: deterministic\nlanes: {LANES}\n"
    return spec(data, epochs=EPOCHS, last_batch=last_batch).replace("batch_size: 1000\n", lines)


def read(
    fleet: Fleet,
    data: Dataset,
    world: int,
    last_batch: str = "uneven",
    restore: tuple[State, ...] | None = None,
    during: Callable[[int], None] = lambda step: None,
) -> list[list[Rows]]:
    """All batches of each rank. during is called before each step of rank 0."""
    session = name()

    def rank(r: int) -> list[Rows]:
        mine = None if restore is None else restore[r::world]
        config = configure(fleet, text(data, last_batch), session=session, rank=r, world_size=world, restore=mine)
        out = list[Rows]()
        with Session(config) as s:
            while not s.finished:
                if r == 0:
                    during(len(out))
                rows = s.next()
                out += [] if rows is None else [rows]
            left = data.rows % GLOBAL if last_batch == "drop" else 0
            assert s.stats().dropped == EPOCHS * left
        return out

    with concurrent.futures.ThreadPoolExecutor(world) as pool:
        return list(pool.map(rank, range(world)))


def steps(ranks: list[list[Rows]]) -> list[pa.Table]:
    """The real rows of each step, of all ranks in their order."""
    return [
        pa.Table.from_batches([b.record.slice(0, b.valid) for b in step])
        for step in zip(*ranks, strict=True)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def sequence(shared_fleet: Fleet, dataset: Dataset) -> list[pa.Table]:
    """What one rank reads."""
    return steps(read(shared_fleet, dataset, 1))


def test_all_rows_come_once_in_each_epoch(sequence: list[pa.Table], dataset: Dataset) -> None:
    epochs = sequence[: len(sequence) // 2], sequence[len(sequence) // 2 :]
    for epoch in epochs:
        assert [t.num_rows for t in epoch[:-1]] == [GLOBAL] * (len(epoch) - 1)
        assert sorted(p for t in epoch for p in places(t)) == sorted(dataset.places())
    assert places(epochs[0][0]) != places(epochs[1][0])


@pytest.mark.parametrize("world", [2, 4])
def test_batches_are_the_same_for_any_world_size(
    shared_fleet: Fleet, dataset: Dataset, sequence: list[pa.Table], world: int
) -> None:
    assert steps(read(shared_fleet, dataset, world)) == sequence


def test_padded_and_dropped_last_batches(shared_fleet: Fleet, dataset: Dataset, sequence: list[pa.Table]) -> None:
    padded = read(shared_fleet, dataset, 2, "pad")
    assert steps(padded) == sequence
    assert {b.record.num_rows for rank in padded for b in rank} == {GLOBAL // 2}
    whole = [t for t in sequence if t.num_rows == GLOBAL]
    assert steps(read(shared_fleet, dataset, 4, "drop")) == whole


def test_batches_are_the_same_while_workers_die(fleet: Fleet, dataset: Dataset, sequence: list[pa.Table]) -> None:
    fleet.start(workers=3)

    def fail(step: int) -> None:
        if step in (2, 9):
            fleet.kill()
            fleet.add_worker()

    assert steps(read(fleet, dataset, 2, during=fail)) == sequence


def test_batches_are_those_of_the_go_client(
    shared_fleet: Fleet, dataset: Dataset, sequence: list[pa.Table], tmp_path: Path
) -> None:
    """Bit for bit, of both ranks of two."""
    (tmp_path / "spec.yaml").write_text(text(dataset))
    session, files = name(), [tmp_path / f"rank-{r}.parquet" for r in range(2)]
    processes = [
        subprocess.Popen(
            [str(shared_fleet.binary), "read", str(tmp_path / "spec.yaml"), str(file), "--output=parquet",
             f"--master={shared_fleet.master}", f"--session={session}", f"--rank={r}", "--world-size=2"],
            stdout=subprocess.DEVNULL,
        )
        for r, file in enumerate(files)
    ]  # fmt: skip
    assert [p.wait(60) for p in processes] == [0, 0]
    ranks = read(shared_fleet, dataset, 2)
    assert steps(ranks) == sequence
    for file, batches in zip(files, ranks, strict=True):
        theirs, ours = pq.read_table(file), pa.Table.from_batches([b.record for b in batches])
        assert places(theirs) == places(ours)
        dense = ours.column(0).combine_chunks().flatten().to_numpy().reshape(len(ours), -1)
        for i in range(3):
            assert theirs[f"int_{i}"].to_numpy().tobytes() == dense[:, i].tobytes()
            assert theirs[f"cat_{i}"].to_pylist() == ours[f"cat_{i}"].to_pylist()
        assert theirs["label"].to_pylist() == ours["label"].to_pylist()


def test_a_state_goes_on_with_the_very_next_batch(
    fleet: Fleet, shared_fleet: Fleet, dataset: Dataset, sequence: list[pa.Table]
) -> None:
    """Any one of a job's states, in a fleet that knows nothing of it, for other world sizes."""
    session, taken = name(), 7
    ranks = [
        Session(configure(shared_fleet, text(dataset), session=session, rank=r, world_size=2)) for r in range(2)
    ]  # fmt: skip
    first = [read_epoch(s, taken + 2) for s in ranks]
    states = [ranks[0].state(first[0][taken - 1].after), ranks[1].state(first[1][taken - 1].after)]
    for s in ranks:
        s.close()
    assert len(states[0].data) < 600
    fleet.start(workers=1)
    assert steps(read(fleet, dataset, 4, restore=(states[1],))) == sequence[taken:]
    assert steps(read(shared_fleet, dataset, 1, restore=tuple(states))) == sequence[taken:]


def test_an_epoch_ends_without_a_master(fleet: Fleet, dataset: Dataset) -> None:
    """Where the last step is known, nothing is waited for at the end of an epoch."""
    fleet.start(workers=1)
    with Session(configure(fleet, text(dataset))) as session:
        batches = read_epoch(session, 20)
        count = session.batches
        assert count is not None
        batches += read_epoch(session, count - 21)
        fleet.kill_master()
        batches += read_epoch(session)
        assert (len(batches), session.epoch) == (count, 1)
